/* Transforms of Winograd's F(4 x 4, 3 x 3): Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015).
 * The interpolation points 0, +-1 / sqrt 2, +-sqrt 2 and infinity are more precise than 0, +-1, +-2: results differ
 * from exact ones by about 1e-6 of their standard deviation, at most 2e-5.
 *
 * Tiles of 6 x 6 inputs and filters of 3 x 3 become 36 numbers (points) each. Numbers of the same point are multiplied
 * and summed over the channels. The 36 sums become a tile of 4 x 4 outputs. */
#ifndef XCVM_OPS_CONV_SIMD_WINOGRAD_H
#define XCVM_OPS_CONV_SIMD_WINOGRAD_H

#include "ops/conv/simd/conv.h"
#include "ops/matmul/simd/gemm.h"
#include "ops/conv/simd/planes.h"

enum {
    XCVM_WINOGRAD_TILE = 4, /* outputs on an axis */
    XCVM_WINOGRAD_SPAN = 6, /* inputs on an axis */
    XCVM_WINOGRAD_POINTS = 36,
    XCVM_WINOGRAD_CHUNK = XCVM_GEMM_PANEL /* tiles transformed together */
};

#define XCVM_ROOT2 1.41421356237f

/* Transforms three taps. */
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

/* A convolution split into tiles, row by row and image after image, for one group at a time. Must not be copied. */
typedef struct xcvm_winograd {
    const xcvm_conv *conv;
    size_t group;
    size_t rows, columns; /* tiles of an image */
    /* The image padded to whole tiles in bands; or `wide`: rows are split because they are too long for bands. */
    xcvm_window window;
    xcvm_planes planes;
    bool wide;
} xcvm_winograd;

/* For a convolution with windows of 3 x 3, stride and dilation 1. `c` must outlive it. */
#define xcvm_winograd_make XCVM_PER_ISA(xcvm_winograd_make)
void xcvm_winograd_make(xcvm_winograd *g, const xcvm_conv *c);
/* Transforms input tiles [tile, tile + count) of one channel, up to a chunk. Point p is written to to[p * stride ...]
 * in whole vectors. */
#define xcvm_winograd_inputs XCVM_PER_ISA(xcvm_winograd_inputs)
void xcvm_winograd_inputs(const xcvm_winograd *g, size_t channel, size_t tile, size_t count, float *to, size_t stride);
/* Transforms the filters of one output. Point p of all channels is written to to[p * stride ...], padded with zeros to
 * whole vectors. */
#define xcvm_winograd_filters XCVM_PER_ISA(xcvm_winograd_filters)
void xcvm_winograd_filters(const xcvm_winograd *g, size_t output, float *to, size_t stride);
/* Transforms output tiles [tile, tile + count) of one output, up to a chunk, back. Point p is at from[p * stride ...]
 * in whole vectors. Stores them with bias, residual and activation. */
#define xcvm_winograd_outputs XCVM_PER_ISA(xcvm_winograd_outputs)
void xcvm_winograd_outputs(const xcvm_winograd *g, size_t output, size_t tile, size_t count, const float *from,
                           size_t stride);
/* Transforms tiles [tile, tile + count) of one output of the result's gradient `from`, up to a chunk, zero outside it,
 * by the adjoint of the output transform. Point p is written to to[p * stride ...], and up to one vector more. */
#define xcvm_winograd_gradients XCVM_PER_ISA(xcvm_winograd_gradients)
void xcvm_winograd_gradients(const xcvm_winograd *g, const float *from, size_t output, size_t tile, size_t count,
                             float *to, size_t stride);

#endif
