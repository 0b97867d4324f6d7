/* The transforms of Winograd's F(4 x 4, 3 x 3): Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks"
 * (2015), with the interpolation points 0, +-1 / sqrt 2, +-sqrt 2 and infinity, that lose less precision than 0, +-1,
 * +-2: results differ from exact ones by some 1e-6 of their standard deviation, 2e-5 at most.
 *
 * Tiles of 6 x 6 inputs and filters of 3 x 3 become 36 numbers each; those of the same point of the tile are multiplied
 * and summed up over the channels; and the 36 sums become a tile of 4 x 4 outputs. */
#ifndef XCVM_OPS_CONV_SIMD_WINOGRAD_H
#define XCVM_OPS_CONV_SIMD_WINOGRAD_H

#include "ops/conv/simd/conv.h"
#include "ops/matmul/simd/gemm.h"
#include "ops/conv/simd/planes.h"

enum {
    XCVM_WINOGRAD_TILE = 4, /* outputs along an axis */
    XCVM_WINOGRAD_SPAN = 6, /* inputs */
    XCVM_WINOGRAD_POINTS = 36,
    XCVM_WINOGRAD_CHUNK = XCVM_GEMM_PANEL /* tiles that are transformed at a time */
};

#define XCVM_ROOT2 1.41421356237f

/* The transform of three taps. */
XCVM_INLINE void xcvm_winograd_taps(const xcvm_lanes g[3], xcvm_lanes u[XCVM_WINOGRAD_SPAN])
{
    const xcvm_lanes p = (-2.0f / 3.0f) * g[0] - (1.0f / 3.0f) * g[2], q = (XCVM_ROOT2 / 3.0f) * g[1];
    const xcvm_lanes r = (1.0f / 6.0f) * g[0] + (1.0f / 3.0f) * g[2], s = (XCVM_ROOT2 / 6.0f) * g[1];
    u[0] = g[0];
    u[1] = p - q;
    u[2] = p + q;
    u[3] = r + s;
    u[4] = r - s;
    u[5] = g[2];
}

/* A convolution cut into tiles: those of an image row by row, image after image; of one group at a time. Not to be
 * copied. */
typedef struct xcvm_winograd {
    const xcvm_conv *conv;
    size_t group;
    size_t rows, columns; /* of tiles, in an image */
    /* The image as input transforms see it: up to whole tiles, and laid out in bands; or in parts of rows, if it is too
     * wide for those. */
    xcvm_window window;
    xcvm_planes planes;
    bool wide;
} xcvm_winograd;

/* Of a convolution that fits: windows of 3 x 3, stride and dilation 1. `c` must outlive it. */
#define xcvm_winograd_make XCVM_PER_ISA(xcvm_winograd_make)
void xcvm_winograd_make(xcvm_winograd *g, const xcvm_conv *c);
/* Input tiles [tile, tile + count) of one channel, up to a chunk: point p goes to to[p * stride ...], in whole vectors.
 */
#define xcvm_winograd_inputs XCVM_PER_ISA(xcvm_winograd_inputs)
void xcvm_winograd_inputs(const xcvm_winograd *g, size_t channel, size_t tile, size_t count, float *to, size_t stride);
/* The filters of one output: point p of all channels goes to to[p * stride ...], with zeros up to a whole vector. */
#define xcvm_winograd_filters XCVM_PER_ISA(xcvm_winograd_filters)
void xcvm_winograd_filters(const xcvm_winograd *g, size_t output, float *to, size_t stride);
/* Output tiles [tile, tile + count) of one output, up to a chunk: point p is at from[p * stride ...], in whole vectors.
 * They are stored with bias, residual and activation. */
#define xcvm_winograd_outputs XCVM_PER_ISA(xcvm_winograd_outputs)
void xcvm_winograd_outputs(const xcvm_winograd *g, size_t output, size_t tile, size_t count, const float *from,
                           size_t stride);
/* Tiles [tile, tile + count) of one output of the gradient `from` of the convolution's result, up to a chunk, zero
 * where they reach beyond it: the adjoint of the transform of outputs. Point p goes to to[p * stride ...], and up to a
 * vector more. */
#define xcvm_winograd_gradients XCVM_PER_ISA(xcvm_winograd_gradients)
void xcvm_winograd_gradients(const xcvm_winograd *g, const float *from, size_t output, size_t tile, size_t count,
                             float *to, size_t stride);

#endif
