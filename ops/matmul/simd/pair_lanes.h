/* Pairs of bf16 (ops/matmul/pairs.h) in vectors of words. */
#ifndef XCVM_OPS_MATMUL_SIMD_PAIR_LANES_H
#define XCVM_OPS_MATMUL_SIMD_PAIR_LANES_H

#include "ops/matmul/pairs.h"
#include "ops/simd/half_lanes.h"

#include <string.h>

/* CPU support for pair instructions, which are not part of an instruction set level and are detected at run time.
 * Functions that use XCVM_PAIRS_AT_ONCE have the attribute and are called only if xcvm_has_pairs. */
#if XCVM_LANES == 16 && defined(__AVX512BW__)
#define XCVM_HAS_PAIRS 1
#define XCVM_PAIRS_ATTRIBUTE __attribute__((target("avx512bf16")))
#define XCVM_PAIRS_AT_ONCE(sum, a, b)                                                                                  \
    ((xcvm_lanes)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)(__m512i)(a), (__m512bh)(__m512i)(b)))
XCVM_INLINE bool xcvm_has_pairs(void) { return __builtin_cpu_supports("avx512bf16") != 0; }
#else
#define XCVM_HAS_PAIRS 0
#endif

/* The same in steps: adds the products of both numbers to sum, each with one rounding, as the instruction does; without
 * it this works because products are exact. */
XCVM_INLINE xcvm_lanes xcvm_pairs_add(xcvm_lanes sum, xcvm_lanes_bits a, xcvm_lanes_bits b)
{
    sum += (xcvm_lanes)(a & 0xffff0000u) * (xcvm_lanes)(b & 0xffff0000u);
    return sum + (xcvm_lanes)(a << 16) * (xcvm_lanes)(b << 16);
}

/* The word at `from` in all lanes. */
XCVM_INLINE xcvm_lanes_bits xcvm_pairs_all(const void *from)
{
    uint32_t word;
    memcpy(&word, from, sizeof word);
    return word - (xcvm_lanes_bits){0};
}

XCVM_INLINE xcvm_lanes_bits xcvm_pairs_load(const void *from)
{
    typedef uint32_t words_at __attribute__((vector_size(4 * XCVM_LANES), aligned(4), may_alias));
    return *(const words_at *)from;
}

/* Rounds floats to nearest even in the upper halves of their lanes. Subnormal numbers become zero; NaN stays NaN. */
XCVM_INLINE xcvm_lanes_bits xcvm_pairs_round(xcvm_lanes_bits bits)
{
    const xcvm_lanes_bits sign = bits & 0x80000000u, magnitude = bits & 0x7fffffffu;
    const xcvm_lanes_bits even = (magnitude >> 16 & 1u) + 0x7fffu;
    const xcvm_lanes_bits nan = (xcvm_lanes_bits)((xcvm_lanes_mask)magnitude > 0x7f800000);
    const xcvm_lanes_bits normal = (xcvm_lanes_bits)((xcvm_lanes_mask)magnitude > 0x007fffff);
    const xcvm_lanes_bits rounded = (((magnitude + even) & ~nan) | ((magnitude | 0x00400000u) & nan)) & normal;
    return sign | (rounded & 0xffff0000u);
}

/* Converts a row of `count` floats to words. */
static inline void xcvm_pairs_of_row(const float *from, size_t count, uint32_t *to)
{
    size_t i = 0;
    for (; i + 2 * XCVM_LANES <= count; i += 2 * XCVM_LANES, to += XCVM_LANES) {
        const xcvm_lanes a = (xcvm_lanes)xcvm_pairs_round(xcvm_pairs_load(from + i));
        const xcvm_lanes b = (xcvm_lanes)xcvm_pairs_round(xcvm_pairs_load(from + i + XCVM_LANES));
        const xcvm_lanes_bits words =
            (xcvm_lanes_bits)xcvm_lanes_even(a, b) >> 16 | (xcvm_lanes_bits)xcvm_lanes_odd(a, b);
        memcpy(to, &words, sizeof words);
    }
    if (i < count) {
        float rest[2 * XCVM_LANES] = {0};
        uint32_t words[XCVM_LANES];
        memcpy(rest, from + i, (count - i) * sizeof *rest);
        xcvm_pairs_of_row(rest, 2 * XCVM_LANES, words);
        memcpy(to, words, xcvm_pairs_of(count - i) * sizeof *words);
    }
}

#endif
