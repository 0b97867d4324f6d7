/* Window maxima with indices, and those of f64. */
#ifndef XCVM_OPS_POOL_SIMD_POOL_MAXIMA_H
#define XCVM_OPS_POOL_SIMD_POOL_MAXIMA_H

#include "ops/conv/window.h"
#include "ops/pool/pool_generic.h"

/* Returns true for supported types: f64, f32 and types that f32 represents. */
#define xcvm_pool_maxima_fits XCVM_PER_ISA(xcvm_pool_maxima_fits)
bool xcvm_pool_maxima_fits(const xcvm_pooling *p);
/* For the window of `p`; `indices` may be NULL. */
#define xcvm_pool_maxima XCVM_PER_ISA(xcvm_pool_maxima)
xcvm_status xcvm_pool_maxima(xcvm_kernel *k, const xcvm_pooling *p, const xcvm_window *window, int64_t *indices,
                             bool columns_first);

#endif
