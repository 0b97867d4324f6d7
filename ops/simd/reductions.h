/* Sums and extremes of adjacent f32. Sums are computed in f32 over short pieces, in several lanes, and in f64 over
 * these. */
#ifndef XCVM_OPS_SIMD_REDUCTIONS_H
#define XCVM_OPS_SIMD_REDUCTIONS_H

#include "ops/simd/lanes.h"

enum { XCVM_REDUCE_CHUNK = 4096 };

XCVM_INLINE xcvm_lanes xcvm_lanes_same(xcvm_lanes v) { return v; }
XCVM_INLINE xcvm_lanes xcvm_lanes_square(xcvm_lanes v) { return v * v; }
XCVM_INLINE xcvm_lanes xcvm_lanes_absolute(xcvm_lanes v) { return (xcvm_lanes)((xcvm_lanes_mask)v & 0x7fffffff); }
/* Returns the larger, or NaN if v or r is NaN. */
XCVM_INLINE xcvm_lanes xcvm_lanes_greater(xcvm_lanes r, xcvm_lanes v)
{
    return xcvm_lanes_keep_nan(xcvm_lanes_max(r, v), v);
}
XCVM_INLINE xcvm_lanes xcvm_lanes_lesser(xcvm_lanes r, xcvm_lanes v)
{
    return xcvm_lanes_keep_nan(xcvm_lanes_min(r, v), v);
}

XCVM_INLINE xcvm_lanes xcvm_lanes_plus(xcvm_lanes r, xcvm_lanes v) { return r + v; }

/* Lane i of the result is lane i ^ n of v. */
#if XCVM_LANES == 16
#define XCVM_LANES_SWAP(v, n)                                                                                          \
    __builtin_shufflevector(v, v, 0 ^ n, 1 ^ n, 2 ^ n, 3 ^ n, 4 ^ n, 5 ^ n, 6 ^ n, 7 ^ n, 8 ^ n, 9 ^ n, 10 ^ n,        \
                            11 ^ n, 12 ^ n, 13 ^ n, 14 ^ n, 15 ^ n)
#define XCVM_LANES_NUMBERS 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#elif XCVM_LANES == 8
#define XCVM_LANES_SWAP(v, n) __builtin_shufflevector(v, v, 0 ^ n, 1 ^ n, 2 ^ n, 3 ^ n, 4 ^ n, 5 ^ n, 6 ^ n, 7 ^ n)
#define XCVM_LANES_NUMBERS 0, 1, 2, 3, 4, 5, 6, 7
#else
#define XCVM_LANES_SWAP(v, n) __builtin_shufflevector(v, v, 0 ^ n, 1 ^ n, 2 ^ n, 3 ^ n)
#define XCVM_LANES_NUMBERS 0, 1, 2, 3
#endif

/* The sum of each of XCVM_LANES rows in the order of xcvm_lanes_sum. Each round of a transpose moves the elements that
 * it adds to the same lanes of two vectors. */
XCVM_INLINE xcvm_lanes xcvm_lanes_sums(const xcvm_lanes rows[XCVM_LANES])
{
    xcvm_lanes sums[XCVM_LANES];
#pragma GCC unroll 16
    for (int i = 0; i < XCVM_LANES; i++)
        sums[i] = rows[i];
#pragma GCC unroll 4
    for (int half = XCVM_LANES / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < half; i++)
            sums[i] = xcvm_lanes_interleave_low(sums[i], sums[i + half]) +
                      xcvm_lanes_interleave_high(sums[i], sums[i + half]);
    return sums[0];
}

/* Reduces all lanes with `pick` in a fixed order. */
XCVM_INLINE float xcvm_lanes_reduce(xcvm_lanes (*pick)(xcvm_lanes, xcvm_lanes), xcvm_lanes v)
{
#if XCVM_LANES == 16
    v = pick(v, XCVM_LANES_SWAP(v, 8));
#endif
#if XCVM_LANES >= 8
    v = pick(v, XCVM_LANES_SWAP(v, 4));
#endif
    v = pick(v, XCVM_LANES_SWAP(v, 2));
    v = pick(v, XCVM_LANES_SWAP(v, 1));
    return v[0];
}

/* Loads the last `count` of the `all` elements of x, fewer than XCVM_LANES, with `fill` in the other lanes. */
XCVM_INLINE xcvm_lanes xcvm_lanes_load_rest(const float *x, size_t all, size_t count, float fill)
{
    if (all >= XCVM_LANES) {
        const xcvm_lanes_mask numbers = {XCVM_LANES_NUMBERS};
        xcvm_lanes_mask wanted = numbers >= (int32_t)(XCVM_LANES - count);
        return xcvm_lanes_choose(wanted, xcvm_lanes_load(x + all - XCVM_LANES), xcvm_lanes_all(fill));
    }
    float rest[XCVM_LANES];
    for (size_t i = 0; i < XCVM_LANES; i++)
        rest[i] = i < count ? x[all - count + i] : fill;
    return xcvm_lanes_load(rest);
}

/* Loads the first `count` elements of x, fewer than XCVM_LANES, with `fill` in the other lanes. */
XCVM_INLINE xcvm_lanes xcvm_lanes_load_first(const float *x, size_t count, float fill)
{
#if defined(__AVX512F__)
    return _mm512_mask_loadu_ps(xcvm_lanes_all(fill), (__mmask16)((1u << count) - 1u), x);
#else
    float first[XCVM_LANES];
    for (size_t i = 0; i < XCVM_LANES; i++)
        first[i] = i < count ? x[i] : fill;
    return xcvm_lanes_load(first);
#endif
}

/* Stores the first `count` lanes, fewer than XCVM_LANES. */
XCVM_INLINE void xcvm_lanes_store_first(float *to, size_t count, xcvm_lanes v)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1u), v);
#else
    float first[XCVM_LANES];
    xcvm_lanes_store(first, v);
    for (size_t i = 0; i < count; i++)
        to[i] = first[i];
#endif
}

/* Loads or stores the first `count` elements, or a whole vector if count is not less; loaded vectors have 0 in the
 * other lanes. */
XCVM_INLINE xcvm_lanes xcvm_lanes_load_up_to(const float *from, size_t count)
{
    return count >= XCVM_LANES ? xcvm_lanes_load(from) : xcvm_lanes_load_first(from, count, 0.0f);
}

XCVM_INLINE void xcvm_lanes_store_up_to(float *to, size_t count, xcvm_lanes v)
{
    if (count >= XCVM_LANES)
        xcvm_lanes_store(to, v);
    else
        xcvm_lanes_store_first(to, count, v);
}

/* Lane i is the reduction of all lanes of rows[i] with `pick` in a fixed order. Changes the rows. Each round merges two
 * rows and reduces halves of their lanes, as if the square were transposed first. */
XCVM_INLINE xcvm_lanes xcvm_lanes_reduce_rows(xcvm_lanes (*pick)(xcvm_lanes, xcvm_lanes), xcvm_lanes rows[XCVM_LANES])
{
#pragma GCC unroll 4
    for (int n = XCVM_LANES / 2; n > 0; n /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < n; i++)
            rows[i] =
                pick(xcvm_lanes_interleave_low(rows[i], rows[i + n]), xcvm_lanes_interleave_high(rows[i], rows[i + n]));
    return rows[0];
}

/* Sum of map(x[i]). */
XCVM_INLINE double xcvm_reduce_sum(xcvm_lanes (*map)(xcvm_lanes), const float *x, size_t count)
{
    double sum = 0.0;
    while (count != 0) {
        size_t n = count < XCVM_REDUCE_CHUNK ? count : XCVM_REDUCE_CHUNK;
        xcvm_lanes r[4] = {{0}, {0}, {0}, {0}};
        size_t i = 0;
        for (; i + 4 * XCVM_LANES <= n; i += 4 * XCVM_LANES)
            for (size_t j = 0; j < 4; j++)
                r[j] += map(xcvm_lanes_load(x + i + j * XCVM_LANES));
        for (; i + XCVM_LANES <= n; i += XCVM_LANES)
            r[0] += map(xcvm_lanes_load(x + i));
        if (i < n)
            r[1] += map(xcvm_lanes_load_rest(x, n, n - i, 0.0f));
        sum += (double)xcvm_lanes_reduce(xcvm_lanes_plus, (r[0] + r[1]) + (r[2] + r[3]));
        x += n;
        count -= n;
    }
    return sum;
}

/* Reduces `start` and all x[i] with `pick`. */
XCVM_INLINE double xcvm_reduce_extreme(xcvm_lanes (*pick)(xcvm_lanes, xcvm_lanes), const float *x, size_t count,
                                       float start)
{
    xcvm_lanes all = xcvm_lanes_all(start), r[4] = {all, all, all, all};
    size_t i = 0;
    for (; i + 4 * XCVM_LANES <= count; i += 4 * XCVM_LANES)
        for (size_t j = 0; j < 4; j++)
            r[j] = pick(r[j], xcvm_lanes_load(x + i + j * XCVM_LANES));
    for (; i + XCVM_LANES <= count; i += XCVM_LANES)
        r[0] = pick(r[0], xcvm_lanes_load(x + i));
    if (i < count)
        r[1] = pick(r[1], xcvm_lanes_load_rest(x, count, count - i, start));
    return (double)xcvm_lanes_reduce(pick, pick(pick(r[0], r[1]), pick(r[2], r[3])));
}

#endif
