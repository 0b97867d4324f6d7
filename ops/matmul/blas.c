/* OpenBLAS, loaded by the first f64 product that needs it. */
#include "ops/matmul/blas.h"
#include "base/lazy_library.h"

#include <cblas.h>
#include <limits.h>
#include <pthread.h>

#define FUNCTIONS(X)                                                                                                   \
    X(cblas_dgemm)                                                                                                     \
    X(openblas_set_num_threads)
XCVM_LAZY_LIBRARY(openblas, XCVM_OPENBLAS_FILE, FUNCTIONS)

static void use_one_thread(void) { openblas.openblas_set_num_threads(1); }

static xcvm_status prepare(xcvm_error *error, size_t m, size_t n, size_t k, size_t lda, size_t ldb, size_t ldc)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const size_t sizes[] = {m, n, k, lda, ldb, ldc};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        XCVM_CHECK(error, sizes[i] <= INT_MAX, UNSUPPORTED, "a matrix product has a dimension of %zu, at most %d works",
                   sizes[i], INT_MAX);
    XCVM_TRY(load_openblas(error));
    pthread_once(&once, use_one_thread);
    return XCVM_OK;
}

/* OpenBLAS requires leading dimensions of at least 1, also for empty matrices. */
static blasint leading(size_t ld) { return ld > 0 ? (blasint)ld : 1; }

xcvm_status xcvm_blas_f64(xcvm_error *error, bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k,
                          double alpha, const double *a, size_t lda, const double *b, size_t ldb, double beta,
                          double *c, size_t ldc)
{
    XCVM_TRY(prepare(error, m, n, k, lda, ldb, ldc));
    openblas.cblas_dgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                         transpose_b ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, alpha, a,
                         leading(lda), b, leading(ldb), beta, c, leading(ldc));
    return XCVM_OK;
}
