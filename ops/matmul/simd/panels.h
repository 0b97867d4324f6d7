/* Products of a vector with prepacked panels (ops/matmul/packed.h). The matrix is streamed once, several panels in
 * parallel. Software prefetching made no case faster and some slower. */
#ifndef XCVM_OPS_MATMUL_SIMD_PANELS_H
#define XCVM_OPS_MATMUL_SIMD_PANELS_H

#include "ops/matmul/packed.h"
#include "ops/simd/half_lanes.h"

enum {
    XCVM_PANELS_GROUP = 4, /* maximum panels that are read in parallel */
    XCVM_PANELS_RUN = 512, /* rows that are summed separately: whole phases */
    XCVM_PANELS_VECTORS = XCVM_PACKED_COLUMNS / XCVM_LANES
};

/* sums[i] = start[i], or zero if NULL, plus the sum of x[p] * row p of panel i, for `count` panels of k rows in f32,
 * f16, bf16 or f24. With constant arguments, count * phases * XCVM_PANELS_VECTORS sums stay in registers. Each phase
 * takes every phases-th row and is summed separately, and so are runs of rows, because short sums lose less to
 * rounding. */
XCVM_INLINE void xcvm_panels_dot(const xcvm_dtype dtype, const float *x, size_t k, const void *panels,
                                 const float *start, float *sums, const size_t count, const size_t phases)
{
    const size_t row = XCVM_PACKED_COLUMNS * xcvm_packed_element(dtype), vector = row / XCVM_PANELS_VECTORS;
    const size_t stride = k * row;
    size_t p = 0;
    do {
        const size_t end = k - p < XCVM_PANELS_RUN ? k : p + XCVM_PANELS_RUN;
        xcvm_lanes sum[8][XCVM_PANELS_GROUP][XCVM_PANELS_VECTORS];
#pragma GCC unroll 8
        for (size_t f = 0; f < phases; f++)
#pragma GCC unroll 4
            for (size_t i = 0; i < count; i++)
#pragma GCC unroll 4
                for (size_t v = 0; v < XCVM_PANELS_VECTORS; v++)
                    sum[f][i][v] = (xcvm_lanes){0};
        for (; p + phases <= end; p += phases)
#pragma GCC unroll 8
            for (size_t f = 0; f < phases; f++) {
                const xcvm_lanes factor = xcvm_lanes_all(x[p + f]);
                const char *at = (const char *)panels + (p + f) * row;
#pragma GCC unroll 4
                for (size_t i = 0; i < count; i++) {
#pragma GCC unroll 4
                    for (size_t v = 0; v < XCVM_PANELS_VECTORS; v++)
                        sum[f][i][v] = xcvm_lanes_add_product(sum[f][i][v], factor,
                                                              xcvm_lanes_load_as(dtype, at + i * stride + v * vector));
                }
            }
        for (; p < end; p++)
#pragma GCC unroll 4
            for (size_t i = 0; i < count; i++)
#pragma GCC unroll 4
                for (size_t v = 0; v < XCVM_PANELS_VECTORS; v++)
                    sum[0][i][v] = xcvm_lanes_add_product(
                        sum[0][i][v], xcvm_lanes_all(x[p]),
                        xcvm_lanes_load_as(dtype, (const char *)panels + p * row + i * stride + v * vector));
#pragma GCC unroll 4
        for (size_t i = 0; i < count; i++)
#pragma GCC unroll 4
            for (size_t v = 0; v < XCVM_PANELS_VECTORS; v++) {
                const size_t at = i * XCVM_PACKED_COLUMNS + v * XCVM_LANES;
#pragma GCC unroll 8
                for (size_t f = 1; f < phases; f++)
                    sum[0][i][v] += sum[f][i][v];
                if (start != NULL)
                    sum[0][i][v] += xcvm_lanes_load(start + at);
                xcvm_lanes_store(sums + at, sum[0][i][v]);
            }
        start = sums;
    } while (p < k);
}

/* Phases that hide the latency of additions and fit in registers. */
#define XCVM_PANELS_PHASES(count) (XCVM_LANES == 16 ? 8 / (count) : XCVM_LANES == 8 ? 4 / (count) : 1)

XCVM_INLINE void xcvm_panels_any(const xcvm_dtype dtype, const float *x, size_t k, const void *panels,
                                 const float *start, float *sums, size_t count)
{
    switch (count) {
    case 4:
        xcvm_panels_dot(dtype, x, k, panels, start, sums, 4, XCVM_PANELS_PHASES(4));
        break;
    case 3:
        xcvm_panels_dot(dtype, x, k, panels, start, sums, 3, XCVM_PANELS_PHASES(3));
        break;
    case 2:
        xcvm_panels_dot(dtype, x, k, panels, start, sums, 2, XCVM_PANELS_PHASES(2));
        break;
    default:
        xcvm_panels_dot(dtype, x, k, panels, start, sums, 1, XCVM_PANELS_PHASES(1));
        break;
    }
}

/* The same for any type, and any count up to XCVM_PANELS_GROUP. */
static inline void xcvm_panels_product(xcvm_dtype dtype, const float *x, size_t k, const void *panels,
                                       const float *start, float *sums, size_t count)
{
    if (dtype == XCVM_F16)
        xcvm_panels_any(XCVM_F16, x, k, panels, start, sums, count);
    else if (dtype == XCVM_BF16)
        xcvm_panels_any(XCVM_BF16, x, k, panels, start, sums, count);
    else if (dtype == XCVM_F24)
        xcvm_panels_any(XCVM_F24, x, k, panels, start, sums, count);
    else
        xcvm_panels_any(XCVM_F32, x, k, panels, start, sums, count);
}

#endif
