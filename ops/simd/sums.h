/* Vectors of 32-bit sums, and their conversion to bytes. */
#ifndef XCVM_OPS_SIMD_SUMS_H
#define XCVM_OPS_SIMD_SUMS_H

#include "ops/simd/lanes.h"

#include <stdbool.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

typedef int32_t xcvm_sums __attribute__((vector_size(4 * XCVM_LANES)));
typedef int32_t xcvm_sums_at __attribute__((vector_size(4 * XCVM_LANES), aligned(4), may_alias));

XCVM_INLINE xcvm_sums xcvm_sums_load(const void *from) { return *(const xcvm_sums_at *)from; }

/* In each 32-bit lane: sum plus the products of the 16-bit halves of a and b. */
XCVM_INLINE xcvm_sums xcvm_sums_add_pairs(xcvm_sums sum, xcvm_sums a, xcvm_sums b)
{
#if XCVM_LANES == 16 && defined(__AVX512BW__)
    return sum + (xcvm_sums)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif XCVM_LANES == 8 && defined(__AVX2__)
    return sum + (xcvm_sums)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif XCVM_LANES == 4 && defined(__SSE2__)
    return sum + (xcvm_sums)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
    return sum + ((a >> 16) * (b >> 16) + ((a << 16) >> 16) * ((b << 16) >> 16));
#endif
}

/* Shifts within 16-bit halves: the odd and the even bytes of v, sign-extended. */
typedef int16_t xcvm_halves_of_sums __attribute__((vector_size(4 * XCVM_LANES)));
XCVM_INLINE xcvm_sums xcvm_sums_odd(xcvm_sums v) { return (xcvm_sums)((xcvm_halves_of_sums)v >> 8); }
XCVM_INLINE xcvm_sums xcvm_sums_even(xcvm_sums v) { return (xcvm_sums)(((xcvm_halves_of_sums)v << 8) >> 8); }

/* Rounds integers to nearest even. */
XCVM_INLINE xcvm_lanes xcvm_sums_to_floats(xcvm_sums v) { return __builtin_convertvector(v, xcvm_lanes); }

/* Clamps to [low, high], NaN to low, and rounds to nearest even. Both bounds are within 2^21. */
XCVM_INLINE xcvm_sums xcvm_sums_round(xcvm_lanes v, float low, float high)
{
#if defined(__AVX512F__)
    return (xcvm_sums)_mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(v, xcvm_lanes_all(low)), xcvm_lanes_all(high)));
#elif defined(__AVX__)
    return (xcvm_sums)_mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(v, xcvm_lanes_all(low)), xcvm_lanes_all(high)));
#else
    const xcvm_lanes least = xcvm_lanes_all(low), most = xcvm_lanes_all(high);
    v = xcvm_lanes_choose(v > least, v, least);
    v = xcvm_lanes_choose(v < most, v, most);
    /* Adding this constant leaves no fraction bits. */
    return __builtin_convertvector((v + 12582912.0f) - 12582912.0f, xcvm_sums);
#endif
}

/* Stores the first `count` lanes, from 0 to 255, as bytes. */
XCVM_INLINE void xcvm_sums_store_bytes(uint8_t *to, size_t count, xcvm_sums v)
{
    uint8_t bytes[XCVM_LANES];
    uint8_t *at = count >= XCVM_LANES ? to : bytes;
#if XCVM_LANES == 16
    _mm_storeu_si128((__m128i_u *)(void *)at, _mm512_cvtepi32_epi8((__m512i)v));
#elif XCVM_LANES == 8 && defined(__AVX2__)
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
    _mm_storel_epi64((__m128i_u *)(void *)at, _mm_packus_epi16(words, words));
#else
    for (size_t i = 0; i < XCVM_LANES; i++)
        at[i] = (uint8_t)v[i];
#endif
    if (count < XCVM_LANES)
        memcpy(to, bytes, count);
}

/* Loads as many bytes as there are lanes. */
XCVM_INLINE xcvm_sums xcvm_sums_of_bytes(const uint8_t *from)
{
#if XCVM_LANES == 16
    return (xcvm_sums)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i_u *)(const void *)from));
#elif XCVM_LANES == 8 && defined(__AVX2__)
    return (xcvm_sums)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i_u *)(const void *)from));
#else
    xcvm_sums v = {0};
    for (size_t i = 0; i < XCVM_LANES; i++)
        v[i] = from[i];
    return v;
#endif
}

/* The same for the first `count` bytes; the other lanes are 0. */
XCVM_INLINE xcvm_sums xcvm_sums_of_first(const uint8_t *from, size_t count)
{
    if (count >= XCVM_LANES)
        return xcvm_sums_of_bytes(from);
    uint8_t bytes[XCVM_LANES] = {0};
    memcpy(bytes, from, count);
    return xcvm_sums_of_bytes(bytes);
}

#endif
