/* Exponentials of the elements of a line minus its maximum. */
#ifndef XCVM_OPS_SIMD_EXP_LINE_H
#define XCVM_OPS_SIMD_EXP_LINE_H

#include "ops/simd/reductions.h"
#include "ops/simd/lanes_math.h"

/* y[i] = exp(x[i] - greatest) for x[i] <= greatest, for at most XCVM_REDUCE_CHUNK elements. y may be x, or NULL.
 * Returns partial sums per lane. */
XCVM_INLINE xcvm_lanes xcvm_exp_chunk(const float *x, size_t count, float greatest, float *y)
{
    const xcvm_lanes most = xcvm_lanes_all(greatest);
    xcvm_lanes r[4] = {{0}, {0}, {0}, {0}};
    size_t i = 0;
    for (; i + 4 * XCVM_LANES <= count; i += 4 * XCVM_LANES)
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++) {
            const xcvm_lanes e = xcvm_lanes_exp_negative(xcvm_lanes_load(x + i + j * XCVM_LANES) - most);
            if (y != NULL)
                xcvm_lanes_store(y + i + j * XCVM_LANES, e);
            r[j] += e;
        }
    for (; i + XCVM_LANES <= count; i += XCVM_LANES) {
        const xcvm_lanes e = xcvm_lanes_exp_negative(xcvm_lanes_load(x + i) - most);
        if (y != NULL)
            xcvm_lanes_store(y + i, e);
        r[0] += e;
    }
    if (i < count) {
        /* The other lanes add nothing. */
        const xcvm_lanes rest = xcvm_lanes_load_first(x + i, count - i, -INFINITY);
        const xcvm_lanes e = xcvm_lanes_exp_negative(rest - most);
        if (y != NULL)
            xcvm_lanes_store_first(y + i, count - i, e);
        r[1] += e;
    }
    return (r[0] + r[1]) + (r[2] + r[3]);
}

/* The same for a line of any length. Returns the sum, accumulated in f64. */
XCVM_INLINE double xcvm_exp_line(const float *x, size_t count, float greatest, float *y)
{
    double sum = 0.0;
    for (size_t at = 0; at < count; at += XCVM_REDUCE_CHUNK) {
        const size_t n = count - at < XCVM_REDUCE_CHUNK ? count - at : XCVM_REDUCE_CHUNK;
        sum +=
            (double)xcvm_lanes_reduce(xcvm_lanes_plus, xcvm_exp_chunk(x + at, n, greatest, y != NULL ? y + at : NULL));
    }
    return sum;
}

#endif
