/* Vectors of f32 with the width of the instruction set that the file is compiled for. */
#ifndef XCVM_OPS_SIMD_LANES_H
#define XCVM_OPS_SIMD_LANES_H

#include <stddef.h>
#include <stdint.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define XCVM_LANES 16
#elif defined(__AVX__)
#define XCVM_LANES 8
#else
#define XCVM_LANES 4
#endif

typedef float xcvm_lanes __attribute__((vector_size(4 * XCVM_LANES)));
typedef int32_t xcvm_lanes_mask __attribute__((vector_size(4 * XCVM_LANES)));
typedef float xcvm_lanes_at __attribute__((vector_size(4 * XCVM_LANES), aligned(4), may_alias));

#define XCVM_INLINE static inline __attribute__((always_inline))

XCVM_INLINE xcvm_lanes xcvm_lanes_load(const float *from) { return *(const xcvm_lanes_at *)from; }
XCVM_INLINE void xcvm_lanes_store(float *to, xcvm_lanes v) { *(xcvm_lanes_at *)to = v; }
/* Subtracting zero changes no value, and compilers generate a plain broadcast. */
XCVM_INLINE xcvm_lanes xcvm_lanes_all(float x) { return x - (xcvm_lanes){0}; }
/* sum + a * b, with one rounding where the instruction set has that. Compilers join the two operations, except for
 * WebAssembly. */
#if defined(__wasm_relaxed_simd__)
XCVM_INLINE xcvm_lanes xcvm_lanes_add_product(xcvm_lanes sum, xcvm_lanes a, xcvm_lanes b)
{
    return __builtin_wasm_relaxed_madd_f32x4(a, b, sum);
}
#else
XCVM_INLINE xcvm_lanes xcvm_lanes_add_product(xcvm_lanes sum, xcvm_lanes a, xcvm_lanes b) { return sum + a * b; }
#endif
/* a where the mask has all bits set, b where it has none. */
XCVM_INLINE xcvm_lanes xcvm_lanes_choose(xcvm_lanes_mask mask, xcvm_lanes a, xcvm_lanes b)
{
    return (xcvm_lanes)(((xcvm_lanes_mask)a & mask) | ((xcvm_lanes_mask)b & ~mask));
}
/* max and min keep a NaN in v; keep_nan copies NaNs of v to x. */
#if defined(__AVX512F__)
XCVM_INLINE xcvm_lanes xcvm_lanes_max(xcvm_lanes v, xcvm_lanes low) { return _mm512_max_ps(low, v); }
XCVM_INLINE xcvm_lanes xcvm_lanes_min(xcvm_lanes v, xcvm_lanes high) { return _mm512_min_ps(high, v); }
XCVM_INLINE xcvm_lanes xcvm_lanes_keep_nan(xcvm_lanes x, xcvm_lanes v)
{
    return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v);
}
#elif defined(__AVX__)
XCVM_INLINE xcvm_lanes xcvm_lanes_max(xcvm_lanes v, xcvm_lanes low) { return _mm256_max_ps(low, v); }
XCVM_INLINE xcvm_lanes xcvm_lanes_min(xcvm_lanes v, xcvm_lanes high) { return _mm256_min_ps(high, v); }
XCVM_INLINE xcvm_lanes xcvm_lanes_keep_nan(xcvm_lanes x, xcvm_lanes v)
{
    return _mm256_blendv_ps(x, v, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}
#else
XCVM_INLINE xcvm_lanes xcvm_lanes_max(xcvm_lanes v, xcvm_lanes low) { return xcvm_lanes_choose(v < low, low, v); }
XCVM_INLINE xcvm_lanes xcvm_lanes_min(xcvm_lanes v, xcvm_lanes high) { return xcvm_lanes_choose(v > high, high, v); }
XCVM_INLINE xcvm_lanes xcvm_lanes_keep_nan(xcvm_lanes x, xcvm_lanes v) { return xcvm_lanes_choose(v != v, v, x); }
#endif
XCVM_INLINE float xcvm_lanes_sum(xcvm_lanes v)
{
    float part[XCVM_LANES];
    xcvm_lanes_store(part, v);
    for (int n = XCVM_LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            part[i] += part[i + n];
    return part[0];
}

/* For the concatenation of a and b: `interleave_low` gives a0 b0 a1 b1 ..., `interleave_high` continues from the middle
 * of both; `even` and `odd` select every second element; `shift` drops the first one. */
#if XCVM_LANES == 16
#define XCVM_INTERLEAVE_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define XCVM_INTERLEAVE_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define XCVM_EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define XCVM_ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define XCVM_SECOND_ON 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
#elif XCVM_LANES == 8
#define XCVM_INTERLEAVE_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define XCVM_INTERLEAVE_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define XCVM_EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define XCVM_ODD 1, 3, 5, 7, 9, 11, 13, 15
#define XCVM_SECOND_ON 1, 2, 3, 4, 5, 6, 7, 8
#else
#define XCVM_INTERLEAVE_LOW 0, 4, 1, 5
#define XCVM_INTERLEAVE_HIGH 2, 6, 3, 7
#define XCVM_EVEN 0, 2, 4, 6
#define XCVM_ODD 1, 3, 5, 7
#define XCVM_SECOND_ON 1, 2, 3, 4
#endif
XCVM_INLINE xcvm_lanes xcvm_lanes_interleave_low(xcvm_lanes a, xcvm_lanes b)
{
    return __builtin_shufflevector(a, b, XCVM_INTERLEAVE_LOW);
}
XCVM_INLINE xcvm_lanes xcvm_lanes_interleave_high(xcvm_lanes a, xcvm_lanes b)
{
    return __builtin_shufflevector(a, b, XCVM_INTERLEAVE_HIGH);
}
XCVM_INLINE xcvm_lanes xcvm_lanes_even(xcvm_lanes a, xcvm_lanes b) { return __builtin_shufflevector(a, b, XCVM_EVEN); }
XCVM_INLINE xcvm_lanes xcvm_lanes_odd(xcvm_lanes a, xcvm_lanes b) { return __builtin_shufflevector(a, b, XCVM_ODD); }
XCVM_INLINE xcvm_lanes xcvm_lanes_shift(xcvm_lanes a, xcvm_lanes b)
{
    return __builtin_shufflevector(a, b, XCVM_SECOND_ON);
}

/* Transposes a square of XCVM_LANES rows: each round interleaves row i with row i + half, which moves every index bit
 * of a row one place towards those of the column. */
XCVM_INLINE void xcvm_lanes_transpose(xcvm_lanes rows[XCVM_LANES])
{
#pragma GCC unroll 4
    for (int round = 1; round < XCVM_LANES; round *= 2) {
        xcvm_lanes next[XCVM_LANES];
#pragma GCC unroll 8
        for (int i = 0; i < XCVM_LANES / 2; i++) {
            next[2 * i] = xcvm_lanes_interleave_low(rows[i], rows[i + XCVM_LANES / 2]);
            next[2 * i + 1] = xcvm_lanes_interleave_high(rows[i], rows[i + XCVM_LANES / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < XCVM_LANES; i++)
            rows[i] = next[i];
    }
}

#endif
