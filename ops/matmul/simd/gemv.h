/* Products of a matrix and a vector: limited by memory, the matrix is read once from one end to the other. */
#ifndef XCVM_OPS_MATMUL_SIMD_GEMV_H
#define XCVM_OPS_MATMUL_SIMD_GEMV_H

#include "ops/matmul/simd/gemm.h"

/* Columns of a matrix that was packed ahead that belong together. */
enum { XCVM_GEMV_GROUP = 64 };

/* Whether a product has one row or one column, and lies in memory so that xcvm_gemv_part can do it. */
#define xcvm_gemv_fits XCVM_PER_ISA(xcvm_gemv_fits)
bool xcvm_gemv_fits(const xcvm_gemm *g);
/* Computes elements [begin, end) of the one row or column of c; if b was packed ahead, begin is a multiple of
 * XCVM_GEMV_GROUP. */
#define xcvm_gemv_part XCVM_PER_ISA(xcvm_gemv_part)
xcvm_status xcvm_gemv_part(const xcvm_kernel *k, const xcvm_gemm *g, size_t begin, size_t end);

#endif
