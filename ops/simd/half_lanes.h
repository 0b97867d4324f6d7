/* Conversion of vectors of f16, bf16 and f24 to vectors of f32. */
#ifndef XCVM_OPS_SIMD_HALF_LANES_H
#define XCVM_OPS_SIMD_HALF_LANES_H

#include "base/dtype.h"
#include "ops/simd/lanes.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <immintrin.h>
#endif

typedef uint16_t xcvm_half_lanes_at __attribute__((vector_size(2 * XCVM_LANES), aligned(2), may_alias));
typedef uint32_t xcvm_lanes_bits __attribute__((vector_size(4 * XCVM_LANES)));

/* Loads 16 bits into the upper half of each lane. */
XCVM_INLINE xcvm_lanes_bits xcvm_lanes_widen(const void *from)
{
#if defined(__AVX512F__)
    return (xcvm_lanes_bits)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from)), 16);
#elif defined(__AVX2__)
    return (xcvm_lanes_bits)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(from)), 16);
#elif XCVM_LANES == 4 && defined(__SSE2__)
    return (xcvm_lanes_bits)_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadl_epi64(from));
#else
    return __builtin_convertvector(*(const xcvm_half_lanes_at *)from, xcvm_lanes_bits) << 16;
#endif
}

/* Without a conversion instruction, avoids subnormal f32 intermediates, which runs may flush to zero. The exponents of
 * f16 and f32 differ by 112; infinity and NaN need the same again. A subnormal f16 becomes the last bits of a number
 * from 2^-14, which is then subtracted. */
XCVM_INLINE xcvm_lanes xcvm_lanes_load_f16(const void *from)
{
#if defined(__AVX512F__)
    return _mm512_cvtph_ps(_mm256_loadu_si256(from));
#elif defined(__F16C__)
    return _mm256_cvtph_ps(_mm_loadu_si128(from));
#elif defined(__aarch64__)
    return (xcvm_lanes)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
#else
    const xcvm_lanes_bits half = xcvm_lanes_widen(from), sign = half & 0x80000000u;
    const xcvm_lanes_mask rest = (xcvm_lanes_mask)((half ^ sign) >> 3);
    const xcvm_lanes_mask tiny = rest < 0x00800000, whole = rest + 0x38000000 + ((rest > 0x0f7fffff) & 0x38000000);
    const xcvm_lanes value = (xcvm_lanes)(whole + (tiny & 0x00800000)) - (xcvm_lanes)(tiny & 0x38800000);
    return (xcvm_lanes)((xcvm_lanes_bits)value | sign);
#endif
}

XCVM_INLINE xcvm_lanes xcvm_lanes_load_bf16(const void *from) { return (xcvm_lanes)xcvm_lanes_widen(from); }

static inline uint32_t xcvm_word_at(const char *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Loads three bytes into the upper bytes of each lane. Does not read past the last one. */
XCVM_INLINE xcvm_lanes xcvm_lanes_load_f24(const void *from)
{
    const char *at = from;
#if defined(__AVX512BW__)
    /* Two plain loads, because a masked load that crosses cache lines stalls on some CPUs. */
    const __m512i low = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)at));
    const __m512i high = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(at + 32)));
    const __m512i apart =
        _mm512_permutex2var_epi32(low, _mm512_setr_epi32(0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 16, 16, 17, 18, 19, 19), high);
    const __m128i order = _mm_setr_epi8(-1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11);
    return (xcvm_lanes)_mm512_shuffle_epi8(apart, _mm512_broadcast_i32x4(order));
#elif defined(__AVX2__)
    /* The second half is loaded from four bytes earlier. */
    const __m256i bytes = _mm256_loadu2_m128i((const __m128i *)(at + 8), (const __m128i *)at);
    const __m256i order = _mm256_setr_epi8(-1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 4, 5, 6, -1, 7, 8,
                                           9, -1, 10, 11, 12, -1, 13, 14, 15);
    return (xcvm_lanes)_mm256_shuffle_epi8(bytes, order);
#elif defined(__aarch64__)
    static const uint8_t order[16] = {255, 0, 1, 2, 255, 3, 4, 5, 255, 6, 7, 8, 255, 9, 10, 11};
    const uint32x4_t bytes = {xcvm_word_at(at), xcvm_word_at(at + 4), xcvm_word_at(at + 8), 0};
    return (xcvm_lanes)vqtbl1q_u8(vreinterpretq_u8_u32(bytes), vld1q_u8(order));
#else
    const xcvm_lanes_bits words = {xcvm_word_at(at) << 8, xcvm_word_at(at + 3) << 8, xcvm_word_at(at + 6) << 8,
                                   xcvm_word_at(at + 8) & ~UINT32_C(0xff)};
    return (xcvm_lanes)words;
#endif
}

/* Loads elements of f16, bf16 or f24, else f32. A constant `dtype` selects at compile time. */
XCVM_INLINE xcvm_lanes xcvm_lanes_load_as(const xcvm_dtype dtype, const void *from)
{
    return dtype == XCVM_F16    ? xcvm_lanes_load_f16(from)
           : dtype == XCVM_BF16 ? xcvm_lanes_load_bf16(from)
           : dtype == XCVM_F24  ? xcvm_lanes_load_f24(from)
                                : xcvm_lanes_load(from);
}

#endif
