/* Bulk conversion of f16, bf16 and f24. */
#include "ops/simd/halves.h"

#include "ops/simd/half_lanes.h"
#include "ops/simd/math.h"

/* Branch-free. Rounds by adding a power of two whose last place is that of the f16 result; the preceding products
 * overflow large values to infinity. Source: M. Dukhan's FP16 library. */
static inline uint16_t f16_of_f32(float x)
{
    uint32_t bits = xcvm_f32_bits(x);
    uint32_t twice = bits << 1;
    uint32_t exponent = twice & 0xff000000u;
    exponent = exponent < 0x71000000u ? 0x71000000u : exponent;
    float magnitude = (xcvm_f32_of(bits & 0x7fffffffu) * 0x1p112f) * 0x1p-110f;
    uint32_t sum = xcvm_f32_bits(xcvm_f32_of((exponent >> 1) + 0x07800000u) + magnitude);
    uint32_t rest = (sum >> 13 & 0x7c00u) + (sum & 0x0fffu);
    rest = twice > 0xff000000u ? 0x7e00u : rest;
    return (uint16_t)((bits >> 16 & 0x8000u) | rest);
}

static inline uint16_t bf16_of_f32(float x)
{
    uint32_t bits = xcvm_f32_bits(x);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return (uint16_t)(x != x ? bits >> 16 | 0x40u : rounded);
}

XCVM_INLINE void load(const xcvm_dtype dtype, const size_t size, const char *from, size_t count, float *to)
{
    size_t i = 0;
    for (; i + XCVM_LANES <= count; i += XCVM_LANES)
        xcvm_lanes_store(to + i, xcvm_lanes_load_as(dtype, from + i * size));
    if (i < count) {
        char rest[3 * XCVM_LANES] = {0};
        memcpy(rest, from + i * size, (count - i) * size);
        const xcvm_lanes floats = xcvm_lanes_load_as(dtype, rest);
        memcpy(to + i, &floats, (count - i) * sizeof *to);
    }
}

void xcvm_halves_load(xcvm_dtype dtype, const void *data, size_t first, size_t count, float *to)
{
    if (dtype == XCVM_F16)
        load(XCVM_F16, 2, (const char *)data + first * 2, count, to);
    else if (dtype == XCVM_BF16)
        load(XCVM_BF16, 2, (const char *)data + first * 2, count, to);
    else if (dtype == XCVM_F24)
        load(XCVM_F24, 3, (const char *)data + first * 3, count, to);
    else
        memcpy(to, (const float *)data + first, count * sizeof *to);
}

/* As above; with a conversion instruction, NaN keeps the bits that fit. */
static void store_f16(uint16_t *to, const float *from, size_t count)
{
    size_t i = 0;
#if defined(__AVX512F__)
    for (; i + XCVM_LANES <= count; i += XCVM_LANES)
        _mm256_storeu_si256((__m256i_u *)(to + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    for (; i + XCVM_LANES <= count; i += XCVM_LANES)
        _mm_storeu_si128((__m128i_u *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < count; i++)
        to[i] = f16_of_f32(from[i]);
}

void xcvm_halves_store(xcvm_dtype dtype, void *data, size_t first, size_t count, const float *from)
{
    uint16_t *to = (uint16_t *)data + first;
    if (dtype == XCVM_F16)
        store_f16(to, from, count);
    else if (dtype == XCVM_BF16)
        for (size_t i = 0; i < count; i++)
            to[i] = bf16_of_f32(from[i]);
    else
        memcpy((float *)data + first, from, count * sizeof *from);
}

xcvm_status xcvm_halves_load_all(const xcvm_kernel *k, const xcvm_value *v, float *to)
{
    const size_t count = xcvm_element_count(v);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t at = 0, n; at < count; at += n) {
        n = xcvm_min(count - at, XCVM_POLL_STEPS);
        xcvm_halves_load((xcvm_dtype)v->dtype, v->data, at, n, to + at);
        XCVM_TRY(xcvm_poll_after(&poller, n / 4));
    }
    return XCVM_OK;
}

xcvm_status xcvm_halves_store_all(const xcvm_kernel *k, const float *from, xcvm_value *v)
{
    const size_t count = xcvm_element_count(v);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t at = 0, n; at < count; at += n) {
        n = xcvm_min(count - at, XCVM_POLL_STEPS);
        xcvm_halves_store((xcvm_dtype)v->dtype, v->data, at, n, from + at);
        XCVM_TRY(xcvm_poll_after(&poller, n / 4));
    }
    return XCVM_OK;
}

const void *xcvm_halves_as_floats(const xcvm_kernel *k, const xcvm_value *v, char **at)
{
    const size_t bytes = xcvm_halves_copy_bytes(v);
    if (bytes == 0)
        return v != NULL ? v->data : NULL;
    float *floats = (float *)(void *)*at;
    (void)xcvm_halves_load_all(k, v, floats);
    *at += bytes;
    return floats;
}
