/* Pooling axis by axis, and definitions shared with pooling row by row. */
#ifndef XCVM_OPS_POOL_SIMD_POOL_AXES_H
#define XCVM_OPS_POOL_SIMD_POOL_AXES_H

#include "ops/pool/pool_generic.h"
#include "ops/simd/lanes.h"
#include "ops/conv/window.h"

/* Reduction of a window's elements. SQUARES is the root of the sum of squares. */
typedef enum xcvm_pool_reduce_op {
    XCVM_REDUCE_MAX,
    XCVM_REDUCE_SUM,
    XCVM_REDUCE_ABSOLUTES,
    XCVM_REDUCE_SQUARES
} xcvm_pool_reduce_op;

/* Supports any number of axes and window size, for f32 and types read as f32. */
#define xcvm_pool_axes XCVM_PER_ISA(xcvm_pool_axes)
xcvm_status xcvm_pool_axes(xcvm_kernel *k, const xcvm_pooling *p, const xcvm_window *w, xcvm_pool_reduce_op reduce_op);
/* Returns one image (of p->planes) as floats, in place or copied to `copy`, which must be large enough. */
#define xcvm_pool_image XCVM_PER_ISA(xcvm_pool_image)
const float *xcvm_pool_image(const xcvm_pooling *p, size_t index, float *copy);
/* Writes results to y from element `at`. */
#define xcvm_pool_write XCVM_PER_ISA(xcvm_pool_write)
void xcvm_pool_write(const xcvm_pooling *p, const float *results, size_t at, size_t count);

#endif
