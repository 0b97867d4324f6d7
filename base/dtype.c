/* Element types: names, sizes, sets of types, and conversion of types narrower than f32. */
#include "base/dtype.h"

#include <stdio.h>

const char *xcvm_dtype_name(xcvm_dtype dtype)
{
    switch (dtype) {
#define NAME(name, number, text, bits)                                                                                 \
    case XCVM_##name:                                                                                                  \
        return text;
        XCVM_DTYPE_LIST(NAME)
#undef NAME
    case XCVM_NO_DTYPE:
        break;
    }
    return "?";
}

int xcvm_dtype_bits(xcvm_dtype dtype)
{
    switch (dtype) {
#define BITS(name, number, text, bits)                                                                                 \
    case XCVM_##name:                                                                                                  \
        return bits;
        XCVM_DTYPE_LIST(BITS)
#undef BITS
    case XCVM_NO_DTYPE:
        break;
    }
    return 0;
}

xcvm_dtype xcvm_dtype_from_name(const char *name)
{
#define FIND(symbol, number, text, bits)                                                                               \
    if (strcmp(name, text) == 0)                                                                                       \
        return XCVM_##symbol;
    XCVM_DTYPE_LIST(FIND)
#undef FIND
    return XCVM_NO_DTYPE;
}

const char *xcvm_dtypes_describe(xcvm_dtypes set, char *text, size_t size)
{
    if (size == 0)
        return text;
    size_t length = 0;
    text[0] = '\0';
    static const xcvm_dtype all[] = {
#define NUMBER(name, number, string, bits) XCVM_##name,
        XCVM_DTYPE_LIST(NUMBER)
#undef NUMBER
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!xcvm_dtype_in(all[i], set))
            continue;
        int written = snprintf(text + length, size - length, "%s%s", length != 0 ? " " : "", xcvm_dtype_name(all[i]));
        if (written < 0 || (size_t)written >= size - length)
            break;
        length += (size_t)written;
    }
    return text;
}

float xcvm_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 31;
    uint32_t mantissa = half & 1023;
    uint32_t word;
    if (exponent == 31) {
        word = sign | 0x7f800000 | mantissa << 13;
    } else if (exponent != 0) {
        word = sign | (exponent + 112) << 23 | mantissa << 13;
    } else {
        /* Zero or subnormal: the value is mantissa * 2^-24. */
        float magnitude = (float)mantissa * 0x1p-24f;
        memcpy(&word, &magnitude, sizeof word);
        word |= sign;
    }
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

uint16_t xcvm_f32_to_f16(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    uint32_t sign = word >> 16 & 0x8000;
    uint32_t magnitude = word & 0x7fffffff;
    if (magnitude > 0x7f800000) /* NaN stays a quiet NaN with the upper bits of its payload */
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 1023));
    if (magnitude >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) {
        /* Subnormal: adding 0.5 makes the float addition round to a multiple of 2^-24, ties to even. */
        float absolute, rounded;
        memcpy(&absolute, &magnitude, sizeof absolute);
        rounded = absolute + 0.5f;
        memcpy(&word, &rounded, sizeof word);
        return (uint16_t)(sign | (word - 0x3f000000));
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1) - (UINT32_C(112) << 23);
    return (uint16_t)(sign | rounded >> 13);
}

void xcvm_f32_to_f24(float value, void *to)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    const bool nan = (word & 0x7fffffff) > 0x7f800000;
    word = nan ? word | 0x400000 : word + 0x7f + (word >> 8 & 1);
    memcpy(to, (char *)&word + 1, 3);
}

uint16_t xcvm_f32_to_bf16(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    if ((word & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(word >> 16 | 0x40);
    return (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}
