/* Vectors of f16 and bf16 as vectors of f32. */
#ifndef XCVM_OPS_VECTOR_HALF_LANES_H
#define XCVM_OPS_VECTOR_HALF_LANES_H

#include "base/dtype.h"
#include "ops/vector/lanes.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef uint16_t xcvm_half_lanes_at __attribute__((vector_size(2 * XCVM_LANES), aligned(2), may_alias));
typedef uint32_t xcvm_lanes_bits __attribute__((vector_size(4 * XCVM_LANES)));

XCVM_INLINE xcvm_lanes_bits xcvm_lanes_widen(const void *from)
{
#if defined(__AVX512F__)
    return (xcvm_lanes_bits)_mm512_cvtepu16_epi32(_mm256_loadu_si256(from));
#elif defined(__AVX2__)
    return (xcvm_lanes_bits)_mm256_cvtepu16_epi32(_mm_loadu_si128(from));
#else
    return __builtin_convertvector(*(const xcvm_half_lanes_at *)from, xcvm_lanes_bits);
#endif
}

/* Where there is no instruction for it, without f32 subnormal numbers on the way, which a run takes for zero. The
 * exponents of f16 and f32 differ by 112; a subnormal f16 is its bits times 2^-24. */
XCVM_INLINE xcvm_lanes xcvm_lanes_load_f16(const void *from)
{
#if defined(__AVX512F__)
    return _mm512_cvtph_ps(_mm256_loadu_si256(from));
#elif defined(__F16C__)
    return _mm256_cvtph_ps(_mm_loadu_si128(from));
#elif defined(__aarch64__)
    return (xcvm_lanes)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
#else
    const xcvm_lanes_bits half = xcvm_lanes_widen(from);
    const xcvm_lanes_mask rest = (xcvm_lanes_mask)(half & 0x7fff);
    const xcvm_lanes_bits normal = (xcvm_lanes_bits)(rest << 13) + 0x38000000;
    const xcvm_lanes subnormal = __builtin_convertvector(rest, xcvm_lanes) * 0x1p-24f;
    const xcvm_lanes_mask bits = (xcvm_lanes_mask)xcvm_lanes_choose(rest < 0x0400, subnormal, (xcvm_lanes)normal) |
                                 ((rest >= 0x7c00) & 0x7f800000);
    return (xcvm_lanes)((xcvm_lanes_bits)bits | (half & 0x8000) << 16);
#endif
}

XCVM_INLINE xcvm_lanes xcvm_lanes_load_bf16(const void *from) { return (xcvm_lanes)(xcvm_lanes_widen(from) << 16); }

/* Elements of f16 or bf16, else f32; where `dtype` is a constant, nothing is left of the choice. */
XCVM_INLINE xcvm_lanes xcvm_lanes_load_as(const xcvm_dtype dtype, const void *from)
{
    return dtype == XCVM_F16    ? xcvm_lanes_load_f16(from)
           : dtype == XCVM_BF16 ? xcvm_lanes_load_bf16(from)
                                : xcvm_lanes_load(from);
}

#endif
