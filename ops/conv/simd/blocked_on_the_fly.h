/* Products of Winograd convolution with filters that are transformed on the fly. */
#ifndef XCVM_OPS_CONV_SIMD_BLOCKED_ON_THE_FLY_H
#define XCVM_OPS_CONV_SIMD_BLOCKED_ON_THE_FLY_H

#include "ops/conv/simd/blocked_conv.h"

/* Products of transformed tiles with the filters of a convolution, F(4 x 4, 3 x 3). */
typedef struct xcvm_on_the_fly {
    const xcvm_kernel *k;
    const xcvm_blocked_conv *c;
    size_t tiles;
    const float *x;          /* blocks of inputs, each with 36 points of tiles */
    float *y;                /* 36 points, each with blocks of outputs of tiles */
    size_t x_point, x_block; /* distances in floats */
    size_t y_point;
} xcvm_on_the_fly;

/* Multiplies for `blocks` blocks of outputs from `output`. Transforms filters in portions in `room`, whose size in
 * floats for up to `tiles` tiles the first function returns, and prefetches the next portion. */
#define xcvm_on_the_fly_room XCVM_PER_ISA(xcvm_on_the_fly_room)
size_t xcvm_on_the_fly_room(const xcvm_blocked_conv *c, size_t tiles);
#define xcvm_on_the_fly_multiply XCVM_PER_ISA(xcvm_on_the_fly_multiply)
void xcvm_on_the_fly_multiply(const xcvm_on_the_fly *p, size_t output, size_t blocks, float *room);

#endif
