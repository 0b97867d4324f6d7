/* Numbers of every element type as f64, and back. */
#include "values/number.h"
#include "base/element.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

xcvm_dtype number_type(xcvm_dtype dtype)
{
    return dtype == XCVM_C64 ? XCVM_F32 : dtype == XCVM_C128 ? XCVM_F64 : dtype;
}

size_t number_parts(xcvm_dtype dtype) { return dtype == XCVM_C64 || dtype == XCVM_C128 ? 2 : 1; }

bool number_is_float(xcvm_dtype dtype) { return xcvm_float_format_of(dtype) != NULL; }

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

number number_get(xcvm_dtype dtype, const void *data, size_t index)
{
    const int bits = xcvm_dtype_bits(dtype);
    const uint64_t word = xcvm_element_get(bits, data, index);
    const xcvm_float_format *format = xcvm_float_format_of(dtype);
    if (format != NULL)
        return (number)xcvm_float_decode(format, word);
    number low, high;
    if (integer_range(dtype, &low, &high) && low < 0 && (word >> (bits - 1) & 1) != 0)
        return (number)(int64_t)(bits < 64 ? word | ~UINT64_C(0) << bits : word);
    return (number)word;
}

/* Rounds to odd: the last bit is set if bits were lost, so that rounding the double to fewer bits equals rounding
 * the number once. */
static double odd_double(number value)
{
    const double nearest = (double)value;
    if ((number)nearest == value || isnan(value) || isinf(nearest))
        return nearest;
    const uint64_t bits = xcvm_double_bits(nearest);
    return xcvm_double_of((fabsl((number)nearest) > fabsl(value) ? bits - 1 : bits) | 1);
}

static bool float_set(const xcvm_float_format *format, number value, uint64_t *word)
{
    bool exceeds;
    *word = xcvm_float_encode(format, format->bits < 64 ? odd_double(value) : (double)value, &exceeds);
    if (isnan(value))
        return format->nan != 0;
    const double back = xcvm_float_decode(format, *word);
    /* A type without sign has powers of two only, and represents no other number. */
    return !exceeds && (!isinf(back) || isinf(value)) && (format->sign != 0 || (number)back == value);
}

bool number_set(xcvm_dtype dtype, void *data, size_t index, number value)
{
    uint64_t word;
    const xcvm_float_format *format = xcvm_float_format_of(dtype);
    if (format != NULL) {
        if (!float_set(format, value, &word))
            return false;
    } else {
        number low, high;
        if (!integer_range(dtype, &low, &high) || !(value >= low && value <= high) || rintl(value) != value)
            return false;
        word = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    }
    xcvm_element_set(xcvm_dtype_bits(dtype), data, index, word);
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
