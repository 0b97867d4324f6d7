/* Products of Winograd's algorithm with filters that are transformed on the fly. */
#ifndef XCVM_OPS_CONV_SIMD_BLOCKED_ON_THE_FLY_H
#define XCVM_OPS_CONV_SIMD_BLOCKED_ON_THE_FLY_H

#include "ops/conv/simd/blocked_conv.h"

/* Products of transformed tiles with the filters of a convolution, F(4 x 4, 3 x 3). */
typedef struct xcvm_on_the_fly {
    const xcvm_kernel *k;
    const xcvm_blocked_conv *c;
    size_t tiles;
    const float *x;          /* blocks of inputs of 36 points of tiles */
    float *y;                /* 36 points of blocks of outputs of tiles */
    size_t x_point, x_block; /* floats from one to the next */
    size_t y_point;
} xcvm_on_the_fly;

/* Of `blocks` blocks of outputs, from `output` on. In `room`, so many floats of it for up to so many tiles, filters are
 * transformed a portion at a time, while those of the next portion are fetched. */
#define xcvm_on_the_fly_room XCVM_PER_ISA(xcvm_on_the_fly_room)
size_t xcvm_on_the_fly_room(const xcvm_blocked_conv *c, size_t tiles);
#define xcvm_on_the_fly_multiply XCVM_PER_ISA(xcvm_on_the_fly_multiply)
void xcvm_on_the_fly_multiply(const xcvm_on_the_fly *p, size_t output, size_t blocks, float *room);

#endif
