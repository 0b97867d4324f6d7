#include "ops/vector/halves.h"

#include "ops/vector/math.h"

/* Without branches, and without f32 subnormal numbers on the way, which a run takes for zero. The exponents of f16 and
 * f32 differ by 112; a subnormal f16 is its bits times 2^-24. */
static inline float f32_of_f16(uint16_t half)
{
    uint32_t rest = (uint32_t)half & 0x7fffu;
    uint32_t normal = (rest << 13) + 0x38000000u;
    uint32_t subnormal = xcvm_f32_bits((float)(int32_t)rest * 0x1p-24f);
    uint32_t bits = rest < 0x0400u ? subnormal : normal;
    bits |= rest >= 0x7c00u ? 0x7f800000u : 0u;
    return xcvm_f32_of(bits | ((uint32_t)half & 0x8000u) << 16);
}

/* Rounds by adding a power of two whose last place is that of the f16 result; the products before it turn what is too
 * great into infinity. Source: M. Dukhan's FP16 library. */
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

void xcvm_halves_load(xcvm_dtype dtype, const void *data, size_t first, size_t count, float *to)
{
    const uint16_t *from = (const uint16_t *)data + first;
    if (dtype == XCVM_F16)
        for (size_t i = 0; i < count; i++)
            to[i] = f32_of_f16(from[i]);
    else if (dtype == XCVM_BF16)
        for (size_t i = 0; i < count; i++)
            to[i] = xcvm_f32_of((uint32_t)from[i] << 16);
    else
        memcpy(to, (const float *)data + first, count * sizeof *to);
}

void xcvm_halves_store(xcvm_dtype dtype, void *data, size_t first, size_t count, const float *from)
{
    uint16_t *to = (uint16_t *)data + first;
    if (dtype == XCVM_F16)
        for (size_t i = 0; i < count; i++)
            to[i] = f16_of_f32(from[i]);
    else if (dtype == XCVM_BF16)
        for (size_t i = 0; i < count; i++)
            to[i] = bf16_of_f32(from[i]);
    else
        memcpy((float *)data + first, from, count * sizeof *from);
}
