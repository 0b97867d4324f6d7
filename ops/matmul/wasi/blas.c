/* f64 matrix products without OpenBLAS: blocks of rows and columns of the operands. */
#include "ops/matmul/blas.h"

/* Rows of b that one pass over c reads, so that they stay in the cache. */
enum { BLOCK = 64 };

static void add_block(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t begin, size_t end, double alpha,
                      const double *a, size_t lda, const double *b, size_t ldb, double *c, size_t ldc)
{
    for (size_t i = 0; i < m; i++)
        for (size_t k = begin; k < end; k++) {
            const double factor = alpha * (transpose_a ? a[k * lda + i] : a[i * lda + k]);
            if (transpose_b)
                for (size_t j = 0; j < n; j++)
                    c[i * ldc + j] += factor * b[j * ldb + k];
            else
                for (size_t j = 0; j < n; j++)
                    c[i * ldc + j] += factor * b[k * ldb + j];
        }
}

xcvm_status xcvm_blas_f64(xcvm_error *error, bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k,
                          double alpha, const double *a, size_t lda, const double *b, size_t ldb, double beta,
                          double *c, size_t ldc)
{
    (void)error;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
    for (size_t begin = 0; begin < k; begin += BLOCK)
        add_block(transpose_a, transpose_b, m, n, begin, begin + BLOCK < k ? begin + BLOCK : k, alpha, a, lda, b, ldb,
                  c, ldc);
    return XCVM_OK;
}
