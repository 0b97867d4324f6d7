/* Matrix-vector products: limited by memory bandwidth, so the matrix is read once, sequentially. */
#ifndef XCVM_OPS_MATMUL_SIMD_GEMV_H
#define XCVM_OPS_MATMUL_SIMD_GEMV_H

#include "ops/matmul/simd/gemm.h"

/* Columns of a prepacked matrix that are processed together. */
enum { XCVM_GEMV_GROUP = 64 };

/* Returns true if a product has one row or one column and a layout that xcvm_gemv_part supports. */
#define xcvm_gemv_fits XCVM_PER_ISA(xcvm_gemv_fits)
bool xcvm_gemv_fits(const xcvm_gemm *g);
/* Computes elements [begin, end) of the one row or column of c. If b was packed ahead, begin must be a multiple of
 * XCVM_GEMV_GROUP. */
#define xcvm_gemv_part XCVM_PER_ISA(xcvm_gemv_part)
xcvm_status xcvm_gemv_part(const xcvm_kernel *k, const xcvm_gemm *g, size_t begin, size_t end);

#endif
