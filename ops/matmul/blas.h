/* Matrix products of f64 by OpenBLAS, for deformable convolutions. blas.c alone names it and loads it when the first
 * one is needed. It computes on the calling thread: loops over parts of a product are ours to split. */
#ifndef XCVM_OPS_MATMUL_BLAS_H
#define XCVM_OPS_MATMUL_BLAS_H

#include "base/status.h"

/* c = alpha * a * b + beta * c for an m x k matrix a and a k x n matrix b, all row-major with `ld` elements from one
 * row to the next; a or b may be stored transposed. Where beta is 0, c is not read. UNSUPPORTED if a size does not fit
 * the library's 32-bit integers, or the machine does not have it. */
xcvm_status xcvm_blas_f64(xcvm_error *error, bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k,
                          double alpha, const double *a, size_t lda, const double *b, size_t ldb, double beta,
                          double *c, size_t ldc);

#endif
