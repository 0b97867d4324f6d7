/* Products of so few columns that a row of the result is one vector. */
#ifndef XCVM_OPS_MATMUL_SIMD_GEMM_SMALL_H
#define XCVM_OPS_MATMUL_SIMD_GEMM_SMALL_H

#include "ops/matmul/simd/gemm.h"

/* Returns true if rows of c have at most one vector, which is stored at once, and b is too small for blocking. */
#define xcvm_gemm_small_fits XCVM_PER_ISA(xcvm_gemm_small_fits)
bool xcvm_gemm_small_fits(const xcvm_gemm *g);
/* Computes rows [m0, m1) on the calling thread. Fails as xcvm_kernel_poll does. */
/* Returns true if the product has one term per element and adds nothing: a column times a row. */
#define xcvm_gemm_outer_fits XCVM_PER_ISA(xcvm_gemm_outer_fits)
bool xcvm_gemm_outer_fits(const xcvm_gemm *g);
#define xcvm_gemm_outer_part XCVM_PER_ISA(xcvm_gemm_outer_part)
xcvm_status xcvm_gemm_outer_part(xcvm_poller *poller, const xcvm_gemm *g, size_t m0, size_t m1);
#define xcvm_gemm_small_part XCVM_PER_ISA(xcvm_gemm_small_part)
xcvm_status xcvm_gemm_small_part(xcvm_poller *poller, const xcvm_gemm *g, size_t m0, size_t m1);

#endif
