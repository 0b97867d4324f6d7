/* f64 matrix products with OpenBLAS, for deformable convolutions. Only blas.c refers to it and loads it on demand. It
 * runs on the calling thread; callers split their loops. */
#ifndef XCVM_OPS_MATMUL_BLAS_H
#define XCVM_OPS_MATMUL_BLAS_H

#include "base/status.h"

/* c = alpha * a * b + beta * c for an m x k matrix a and a k x n matrix b, row-major with `ld` elements between rows. a
 * or b may be stored transposed. If beta is 0, c is not read. Fails with UNSUPPORTED if a size exceeds the library's
 * 32-bit integers or the library is missing. */
xcvm_status xcvm_blas_f64(xcvm_error *error, bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k,
                          double alpha, const double *a, size_t lda, const double *b, size_t ldb, double beta,
                          double *c, size_t ldc);

#endif
