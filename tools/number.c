#include "number.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* How the exponent of all ones is used. */
enum small_style {
    SMALL_IEEE,   /* infinities and NaNs */
    SMALL_FN,     /* NaN where the mantissa is all ones, no infinities */
    SMALL_FNUZ,   /* one NaN, where minus zero would be, no infinities */
    SMALL_FINITE, /* neither */
    SMALL_POWER   /* there is nothing but an exponent; NaN where it is all ones */
};

struct small_float {
    int exponent_bits, mantissa_bits, bias;
    enum small_style style;
};

static const struct small_float *small_float_of(xcvm_dtype dtype)
{
    static const struct small_float f16 = {5, 10, 15, SMALL_IEEE}, bf16 = {8, 7, 127, SMALL_IEEE},
                                    e4m3fn = {4, 3, 7, SMALL_FN}, e4m3fnuz = {4, 3, 8, SMALL_FNUZ},
                                    e5m2 = {5, 2, 15, SMALL_IEEE}, e5m2fnuz = {5, 2, 16, SMALL_FNUZ},
                                    e2m1 = {2, 1, 1, SMALL_FINITE}, e8m0 = {8, 0, 127, SMALL_POWER};
    switch (dtype) {
    case XCVM_F16:
        return &f16;
    case XCVM_BF16:
        return &bf16;
    case XCVM_F8E4M3FN:
        return &e4m3fn;
    case XCVM_F8E4M3FNUZ:
        return &e4m3fnuz;
    case XCVM_F8E5M2:
        return &e5m2;
    case XCVM_F8E5M2FNUZ:
        return &e5m2fnuz;
    case XCVM_F4E2M1:
        return &e2m1;
    case XCVM_F8E8M0:
        return &e8m0;
    default:
        return NULL;
    }
}

xcvm_dtype number_type(xcvm_dtype dtype)
{
    return dtype == XCVM_C64 ? XCVM_F32 : dtype == XCVM_C128 ? XCVM_F64 : dtype;
}

size_t number_parts(xcvm_dtype dtype) { return dtype == XCVM_C64 || dtype == XCVM_C128 ? 2 : 1; }

bool number_is_float(xcvm_dtype dtype)
{
    return dtype == XCVM_F32 || dtype == XCVM_F64 || small_float_of(dtype) != NULL;
}

/* Range of an integer type; false if it is none. */
static bool integer_range(xcvm_dtype dtype, number *low, number *high)
{
    int bits = xcvm_dtype_bits(dtype);
    switch (dtype) {
    case XCVM_BOOL:
        *low = 0;
        *high = 1;
        return true;
    case XCVM_U2:
    case XCVM_U4:
    case XCVM_U8:
    case XCVM_U16:
    case XCVM_U32:
    case XCVM_U64:
        *low = 0;
        *high = ldexpl(1, bits) - 1;
        return true;
    case XCVM_I2:
    case XCVM_I4:
    case XCVM_I8:
    case XCVM_I16:
    case XCVM_I32:
    case XCVM_I64:
        *low = -ldexpl(1, bits - 1);
        *high = ldexpl(1, bits - 1) - 1;
        return true;
    default:
        return false;
    }
}

number number_max(xcvm_dtype dtype)
{
    number low, high;
    return integer_range(dtype, &low, &high) ? high : (number)INFINITY;
}

/* ---- Bits ---- */

/* The bits of an element as an unsigned number. */
static uint64_t get_bits(int bits, const void *data, size_t index)
{
    const unsigned char *bytes = data;
    switch (bits) {
    case 2:
        return bytes[index / 4] >> (index % 4 * 2) & 3;
    case 4:
        return bytes[index / 2] >> (index % 2 * 4) & 15;
    case 8:
        return bytes[index];
    default: {
        uint16_t half;
        uint32_t word;
        uint64_t wide;
        if (bits == 16)
            return memcpy(&half, bytes + index * 2, 2), half;
        if (bits == 32)
            return memcpy(&word, bytes + index * 4, 4), word;
        return memcpy(&wide, bytes + index * 8, 8), wide;
    }
    }
}

static void set_bits(int bits, void *data, size_t index, uint64_t value)
{
    unsigned char *bytes = data;
    if (bits < 8) {
        size_t per_byte = 8 / (size_t)bits;
        unsigned shift = (unsigned)(index % per_byte) * (unsigned)bits, mask = ((1U << bits) - 1) << shift;
        bytes[index / per_byte] =
            (unsigned char)((bytes[index / per_byte] & ~mask) | ((unsigned)value << shift & mask));
    } else if (bits == 8) {
        bytes[index] = (unsigned char)value;
    } else if (bits == 16) {
        uint16_t half = (uint16_t)value;
        memcpy(bytes + index * 2, &half, 2);
    } else if (bits == 32) {
        uint32_t word = (uint32_t)value;
        memcpy(bytes + index * 4, &word, 4);
    } else {
        memcpy(bytes + index * 8, &value, 8);
    }
}

static number small_decode(const struct small_float *type, uint64_t bits)
{
    unsigned mantissa_mask = (1U << type->mantissa_bits) - 1, exponent_mask = (1U << type->exponent_bits) - 1;
    unsigned mantissa = (unsigned)bits & mantissa_mask;
    unsigned exponent = (unsigned)(bits >> type->mantissa_bits) & exponent_mask;
    bool negative = bits >> (type->mantissa_bits + type->exponent_bits) & 1;
    number value;
    if (type->style == SMALL_POWER)
        return bits == exponent_mask ? (number)NAN : ldexpl(1, (int)bits - type->bias);
    if (type->style == SMALL_FNUZ && negative && exponent == 0 && mantissa == 0)
        return (number)NAN;
    if (type->style == SMALL_IEEE && exponent == exponent_mask)
        value = mantissa != 0 ? (number)NAN : (number)INFINITY;
    else if (type->style == SMALL_FN && exponent == exponent_mask && mantissa == mantissa_mask)
        value = (number)NAN;
    else if (exponent == 0)
        value = ldexpl((number)mantissa, 1 - type->bias - type->mantissa_bits);
    else
        value = ldexpl((number)(mantissa + mantissa_mask + 1), (int)exponent - type->bias - type->mantissa_bits);
    return negative ? -value : value;
}

static bool small_encode(const struct small_float *type, number value, uint64_t *bits)
{
    uint64_t one = 1, sign = signbit(value) ? one << (type->mantissa_bits + type->exponent_bits) : 0;
    uint64_t all = (one << (type->mantissa_bits + type->exponent_bits)) - 1;
    uint64_t exponent_ones = all & ~((one << type->mantissa_bits) - 1);
    if (type->style == SMALL_POWER) {
        int power;
        bool finite = !isnan(value) && !isinf(value), exact = finite && frexpl(fabsl(value), &power) == 0.5L;
        *bits = finite && value != 0 ? (uint64_t)(exact ? power - 1 + type->bias : 0) : all;
        return exact && value > 0 && power - 1 >= -type->bias && power - 1 <= type->bias;
    }
    if (isnan(value)) {
        *bits = type->style == SMALL_FNUZ ? one << (type->mantissa_bits + type->exponent_bits)
                : type->style == SMALL_FN ? all
                                          : exponent_ones | one << (type->mantissa_bits - 1);
        return type->style != SMALL_FINITE;
    }
    if (isinf(value)) {
        *bits = sign | exponent_ones;
        return type->style == SMALL_IEEE;
    }
    int exponent;
    number magnitude = fabsl(value);
    frexpl(magnitude, &exponent);
    exponent = magnitude != 0 && exponent - 1 > 1 - type->bias ? exponent - 1 : 1 - type->bias;
    /* Counted in units of the last place; the carry of rounding up runs into the exponent by itself. */
    number units = rintl(ldexpl(magnitude, type->mantissa_bits - exponent));
    uint64_t mantissa = (uint64_t)units;
    uint64_t result = ((uint64_t)(exponent + type->bias - 1) << type->mantissa_bits) + mantissa;
    uint64_t largest = type->style == SMALL_IEEE ? exponent_ones - 1 : type->style == SMALL_FN ? all - 1 : all;
    if (result > largest)
        return false;
    *bits = type->style == SMALL_FNUZ && result == 0 ? 0 : sign | result;
    return true;
}

number number_get(xcvm_dtype dtype, const void *data, size_t index)
{
    int bits = xcvm_dtype_bits(dtype);
    uint64_t word = get_bits(bits, data, index);
    const struct small_float *type = small_float_of(dtype);
    if (type != NULL)
        return small_decode(type, word);
    if (dtype == XCVM_F32) {
        float value;
        uint32_t low = (uint32_t)word;
        memcpy(&value, &low, sizeof value);
        return (number)value;
    }
    if (dtype == XCVM_F64) {
        double value;
        memcpy(&value, &word, sizeof value);
        return (number)value;
    }
    number low, high;
    if (integer_range(dtype, &low, &high) && low < 0 && (word >> (bits - 1) & 1) != 0)
        return (number)(int64_t)(bits < 64 ? word | ~UINT64_C(0) << bits : word);
    return (number)word;
}

bool number_set(xcvm_dtype dtype, void *data, size_t index, number value)
{
    int bits = xcvm_dtype_bits(dtype);
    uint64_t word;
    const struct small_float *type = small_float_of(dtype);
    if (type != NULL) {
        if (!small_encode(type, value, &word))
            return false;
    } else if (dtype == XCVM_F32) {
        float single = (float)value;
        uint32_t low;
        if (isinf(single) && !isinf(value))
            return false;
        memcpy(&low, &single, sizeof low);
        word = low;
    } else if (dtype == XCVM_F64) {
        double wide = (double)value;
        if (isinf(wide) && !isinf(value))
            return false;
        memcpy(&word, &wide, sizeof word);
    } else {
        number low, high;
        if (!integer_range(dtype, &low, &high) || !(value >= low && value <= high) || rintl(value) != value)
            return false;
        word = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    }
    set_bits(bits, data, index, word);
    return true;
}

/* ---- Text ---- */

size_t number_print(char *text, xcvm_dtype dtype, const void *data, size_t index)
{
    number value = number_get(dtype, data, index);
    int length;
    if (dtype == XCVM_BOOL)
        length = snprintf(text, NUMBER_TEXT, "%s", value != 0 ? "true" : "false");
    else if (!number_is_float(dtype) && value < 0)
        length = snprintf(text, NUMBER_TEXT, "%" PRId64, (int64_t)value);
    else if (!number_is_float(dtype))
        length = snprintf(text, NUMBER_TEXT, "%" PRIu64, (uint64_t)value);
    else if (isnan(value))
        length = snprintf(text, NUMBER_TEXT, "nan");
    else if (isinf(value))
        length = snprintf(text, NUMBER_TEXT, "%s", value < 0 ? "-inf" : "inf");
    else {
        int digits = dtype == XCVM_F64 ? 15 : dtype == XCVM_F32 ? 6 : 1;
        do {
            unsigned char again[8] = {0};
            const char *end;
            length = snprintf(text, NUMBER_TEXT, "%.*g", digits, (double)value);
            if (number_parse(text, &end, dtype, again, 0) && number_get(dtype, again, 0) == value)
                break;
        } while (++digits <= 17);
        /* Few digits would make %g write 65500 as 6.55e+04. */
        if (strstr(text, "e+") != NULL && fabsl(value) < 1e15L)
            length = snprintf(text, NUMBER_TEXT, "%.0f", strtod(text, NULL));
    }
    return length > 0 ? (size_t)length : 0;
}

static bool is_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    unsigned char next = strncasecmp(text, word, length) == 0 ? (unsigned char)text[length] : 'x';
    return !((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') || (next >= '0' && next <= '9'));
}

bool number_parse(const char *text, const char **end, xcvm_dtype dtype, void *data, size_t index)
{
    *end = text;
    if (is_word(text, "true") || is_word(text, "false")) {
        bool value = *text == 't' || *text == 'T';
        *end = text + (value ? 4 : 5);
        return number_set(dtype, data, index, value);
    }
    char *stop;
    number value = strtold(text, &stop);
    if (stop == text || *text == ' ' || *text == '\t' || *text == '\n')
        return false;
    *end = stop;
    /* Rounding to the wide type first could round twice. */
    if (dtype == XCVM_F32 && !isinf(value)) {
        float single = strtof(text, NULL);
        return !isinf(single) && number_set(dtype, data, index, single);
    }
    if (dtype == XCVM_F64 && !isinf(value)) {
        double wide = strtod(text, NULL);
        return !isinf(wide) && number_set(dtype, data, index, wide);
    }
    return number_set(dtype, data, index, value);
}
