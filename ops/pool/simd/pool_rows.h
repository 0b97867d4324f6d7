/* Pooling row by row. */
#ifndef XCVM_OPS_POOL_SIMD_POOL_ROWS_H
#define XCVM_OPS_POOL_SIMD_POOL_ROWS_H

#include "ops/pool/simd/pool_axes.h"

/* Returns true if windows have few rows and a small extent along a row. */
#define xcvm_pool_rows_fit XCVM_PER_ISA(xcvm_pool_rows_fit)
bool xcvm_pool_rows_fit(const xcvm_window *w, xcvm_pool_reduce_op reduce_op);
/* For f32 and types read as f32. */
#define xcvm_pool_rows XCVM_PER_ISA(xcvm_pool_rows)
xcvm_status xcvm_pool_rows(xcvm_kernel *k, const xcvm_pooling *p, const xcvm_window *w, xcvm_pool_reduce_op reduce_op);

#endif
