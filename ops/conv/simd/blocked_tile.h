/* Winograd transforms of tiles of blocked channels: F(4 x 4, 3 x 3) with the points of winograd.h, F(3 x 3, 4 x 4) with
 * the same points, and F(2 x 2, 3 x 3). The first two differ only in filters and results. */
#ifndef XCVM_OPS_CONV_SIMD_BLOCKED_TILE_H
#define XCVM_OPS_CONV_SIMD_BLOCKED_TILE_H

#include "ops/elementwise/simd/activation_rows.h"
#include "ops/conv/simd/blocked_conv.h"
#include "ops/conv/simd/winograd.h"

enum { XCVM_MOST_SPAN = 6 };

/* Inputs along an axis of a tile of 2, 3 or 4 outputs; constant if `tile` is. */
XCVM_INLINE size_t xcvm_tile_span(const size_t tile) { return tile == 2 ? 4 : 6; }

XCVM_INLINE void xcvm_tile_transform_input(const size_t tile, const xcvm_lanes *d, size_t stride, xcvm_lanes *t)
{
    const xcvm_lanes d0 = d[0], d1 = d[stride], d2 = d[2 * stride], d3 = d[3 * stride];
    if (tile == 2) {
        t[0] = d0 - d2;
        t[1] = d1 + d2;
        t[2] = d2 - d1;
        t[3] = d1 - d3;
        return;
    }
    const xcvm_lanes d4 = d[4 * stride], d5 = d[5 * stride];
    const xcvm_lanes a = d4 - 2.0f * d2, b = d3 - 2.0f * d1, c = d4 - 0.5f * d2, e = d3 - 0.5f * d1;
    t[0] = d0 - 2.5f * d2 + d4;
    t[1] = a + (0.5f * XCVM_ROOT2) * b;
    t[2] = a - (0.5f * XCVM_ROOT2) * b;
    t[3] = c + XCVM_ROOT2 * e;
    t[4] = c - XCVM_ROOT2 * e;
    t[5] = d1 - 2.5f * d3 + d5;
}

XCVM_INLINE void xcvm_tile_transform_output(const size_t tile, const xcvm_lanes *m, size_t stride, xcvm_lanes *y)
{
    const xcvm_lanes sum = m[stride] + m[2 * stride], difference = m[stride] - m[2 * stride];
    if (tile == 2) {
        y[0] = m[0] + sum;
        y[1] = difference - m[3 * stride];
        return;
    }
    const xcvm_lanes sum2 = m[3 * stride] + m[4 * stride], difference2 = m[3 * stride] - m[4 * stride];
    y[0] = m[0] + sum + sum2;
    y[1] = (0.5f * XCVM_ROOT2) * (difference + 2.0f * difference2);
    y[2] = 0.5f * sum + 2.0f * sum2;
    if (tile == 3) {
        y[2] += m[5 * stride];
        return;
    }
    y[3] = (0.25f * XCVM_ROOT2) * (difference + 8.0f * difference2) + m[5 * stride];
}

/* Transforms one block of channels of a tile whose first pixel is at `from`, with rows `pitch` floats apart. */
XCVM_INLINE void xcvm_tile_transform(const size_t tile, const float *from, size_t pitch, float *to, size_t stride)
{
    const size_t span = xcvm_tile_span(tile);
    for (size_t v = 0; v < XCVM_BLOCK_VECTORS; v++, from += XCVM_LANES, to += XCVM_LANES) {
        xcvm_lanes half[XCVM_MOST_SPAN * XCVM_MOST_SPAN];
#pragma GCC unroll 6
        for (size_t j = 0; j < span; j++) {
            xcvm_lanes d[XCVM_MOST_SPAN], t[XCVM_MOST_SPAN];
#pragma GCC unroll 6
            for (size_t i = 0; i < span; i++)
                d[i] = xcvm_lanes_load(from + i * pitch + j * XCVM_CHANNEL_BLOCK);
            xcvm_tile_transform_input(tile, d, 1, t);
#pragma GCC unroll 6
            for (size_t i = 0; i < span; i++)
                half[i * span + j] = t[i];
        }
#pragma GCC unroll 6
        for (size_t i = 0; i < span; i++) {
            xcvm_lanes t[XCVM_MOST_SPAN];
            xcvm_tile_transform_input(tile, half + i * span, 1, t);
#pragma GCC unroll 6
            for (size_t j = 0; j < span; j++)
                xcvm_lanes_store(to + (i * span + j) * stride, t[j]);
        }
    }
}

/* Destination of a tile's results and the residual added to them; distances of rows and pixels in floats. */
typedef struct xcvm_tile_place {
    float *y;
    const float *z; /* NULL: none */
    size_t row, pixel;
} xcvm_tile_place;

/* Transforms the products of a tile and one block of outputs back to rows x columns pixels. */
XCVM_INLINE void xcvm_tile_store(const xcvm_blocked_conv *c, const size_t tile, size_t product_stride,
                                 const float *products, size_t block, const xcvm_tile_place *to, size_t rows,
                                 size_t columns)
{
    const size_t span = xcvm_tile_span(tile);
    const xcvm_lanes low = xcvm_lanes_all(c->activation.low), high = xcvm_lanes_all(c->activation.high);
    for (size_t v = 0; v < XCVM_BLOCK_VECTORS; v++) {
        const size_t lane = v * XCVM_LANES;
        const xcvm_lanes bias =
            c->b != NULL ? xcvm_lanes_load(c->b + block * XCVM_CHANNEL_BLOCK + lane) : (xcvm_lanes){0};
        xcvm_lanes half[4 * XCVM_MOST_SPAN];
#pragma GCC unroll 6
        for (size_t j = 0; j < span; j++) {
            xcvm_lanes m[XCVM_MOST_SPAN], t[4];
#pragma GCC unroll 6
            for (size_t i = 0; i < span; i++)
                m[i] = xcvm_lanes_load(products + (i * span + j) * product_stride + lane);
            xcvm_tile_transform_output(tile, m, 1, t);
#pragma GCC unroll 4
            for (size_t i = 0; i < tile; i++)
                half[i * span + j] = t[i];
        }
#pragma GCC unroll 4
        for (size_t i = 0; i < tile; i++) {
            xcvm_lanes t[4];
            if (i >= rows)
                break;
            xcvm_tile_transform_output(tile, half + i * span, 1, t);
            const size_t at = i * to->row + lane;
#pragma GCC unroll 4
            for (size_t j = 0; j < tile; j++) {
                if (j >= columns)
                    break;
                t[j] += bias;
                if (to->z != NULL)
                    t[j] += xcvm_lanes_load(to->z + at + j * to->pixel);
                xcvm_lanes_store(to->y + at + j * to->pixel, xcvm_lanes_min(xcvm_lanes_max(t[j], low), high));
            }
        }
    }
    if (c->activation.kind != XCVM_ACTIVATION_none)
        for (size_t i = 0; i < rows; i++) {
            float *y = to->y + i * to->row;
            const size_t runs = to->pixel == XCVM_CHANNEL_BLOCK ? 1 : columns;
            for (size_t j = 0; j < runs; j++)
                xcvm_activate_row(&c->activation, y + j * to->pixel, columns / runs * XCVM_CHANNEL_BLOCK);
        }
}

#endif
