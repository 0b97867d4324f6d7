/* Maxima of windows with their indices, and those of f64. */
#ifndef XCVM_OPS_POOL_SIMD_POOL_MAXIMA_H
#define XCVM_OPS_POOL_SIMD_POOL_MAXIMA_H

#include "ops/conv/window.h"
#include "ops/pool/pool_generic.h"

/* Whether the type is one that xcvm_pool_maxima takes: f64, f32 and those that f32 holds. */
#define xcvm_pool_maxima_fits XCVM_PER_ISA(xcvm_pool_maxima_fits)
bool xcvm_pool_maxima_fits(const xcvm_pooling *p);
/* Of the window that `p` tells of; `indices` may be NULL. */
#define xcvm_pool_maxima XCVM_PER_ISA(xcvm_pool_maxima)
xcvm_status xcvm_pool_maxima(xcvm_kernel *k, const xcvm_pooling *p, const xcvm_window *window, int64_t *indices,
                             bool columns_first);

#endif
