/* Casts between numbers and strings. */
#include "ops/elementwise/cast_text.h"

#include "base/decimal.h"
#include "ops/util/convert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT = 48 }; /* maximum length of a number's text */

/* ---- Numbers to text ---- */

/* Writes the minimal significant digits, without trailing zeros, of a finite positive number of type `dtype`, and
 * returns their count. The number is 0.DIGITS * 10^*point. */
static int shortest_digits(xcvm_dtype dtype, double value, char digits[XCVM_DECIMAL_DIGITS], int *point)
{
    uint64_t original = 0;
    xcvm_store_f64(dtype, &original, 0, 1, &value, false);
    for (int precision = 1;; precision++) {
        const int count = xcvm_decimal_digits(value, precision, digits, point);
        char text[TEXT];
        uint64_t again = 0;
        snprintf(text, sizeof text, "%.*se%d", count, digits, *point - count);
        const double back = strtod(text, NULL);
        xcvm_store_f64(dtype, &again, 0, 1, &back, false);
        if (original == again || precision == XCVM_DECIMAL_DIGITS)
            return count;
    }
}

/* Types of at most 8 bits are formatted as f32, because their minimal digits could denote another number (220 for the
 * 224 of f8e4m3fn), and integers without ".0". */
static size_t format_finite(xcvm_dtype dtype, double value, char text[TEXT])
{
    char digits[XCVM_DECIMAL_DIGITS];
    const bool tiny = xcvm_dtype_bits(dtype) <= 8;
    int point, count = shortest_digits(tiny ? XCVM_F32 : dtype, fabs(value), digits, &point);
    size_t n = 0;
    if (signbit(value))
        text[n++] = '-';
    if (fabs(value) < 1e-4 || fabs(value) >= 1e16) {
        text[n++] = digits[0];
        if (count > 1)
            text[n++] = '.';
        for (int i = 1; i < count; i++)
            text[n++] = digits[i];
        return n + (size_t)snprintf(text + n, TEXT - n, "e%c%02d", point < 1 ? '-' : '+', abs(point - 1));
    }
    for (int i = point < 1 ? point - 1 : 0; i < count || i < point + !tiny; i++) {
        /* The digit of 10^(point - 1 - i); 0 outside the digits. */
        if (i == point)
            text[n++] = '.';
        text[n++] = i >= 0 && i < count ? digits[i] : '0';
    }
    return n;
}

static size_t format_number(xcvm_dtype dtype, const void *data, size_t index, char text[TEXT])
{
    if (dtype == XCVM_BOOL)
        return (size_t)snprintf(text, TEXT, ((const uint8_t *)data)[index] != 0 ? "True" : "False");
    if (xcvm_dtype_in(dtype, XCVM_TYPES_WHOLE)) {
        int64_t value;
        xcvm_load_i64(dtype, data, index, 1, &value);
        return dtype == XCVM_U64 ? (size_t)snprintf(text, TEXT, "%llu", (unsigned long long)value)
                                 : (size_t)snprintf(text, TEXT, "%lld", (long long)value);
    }
    double value;
    xcvm_load_f64(dtype, data, index, 1, &value);
    if (isnan(value))
        return (size_t)snprintf(text, TEXT, "NaN");
    if (isinf(value))
        return (size_t)snprintf(text, TEXT, value < 0 ? "-INF" : "INF");
    if (value == 0.0)
        return (size_t)snprintf(text, TEXT, "%s0%s", signbit(value) ? "-" : "",
                                xcvm_dtype_bits(dtype) <= 8 ? "" : ".0");
    return format_finite(dtype, value, text);
}

static xcvm_status write_numbers(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x)
{
    size_t count = xcvm_element_count(x), characters = 0;
    char text[TEXT];
    /* Steps equivalent to formatting one number. */
    enum { STEPS = 64 };
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, STEPS));
        characters += format_number(x->dtype, x->data, i, text);
    }
    xcvm_string *spans;
    char *to;
    XCVM_TRY(xcvm_kernel_allocate_strings(k, y, x->rank, x->dims, characters, &spans, &to));
    size_t offset = count * sizeof *spans;
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, STEPS));
        size_t length = format_number(x->dtype, x->data, i, text);
        memcpy(to, text, length);
        spans[i] = (xcvm_string){offset, length};
        offset += length;
        to += length;
    }
    return XCVM_OK;
}

/* ---- Text to numbers ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool equals_ignoring_case(const char *text, size_t length, const char *lower)
{
    if (strlen(lower) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if ((text[i] | 0x20) != lower[i])
            return false;
    return true;
}

/* A parsed decimal without its sign. */
typedef struct decimal {
    char digits[64]; /* significant digits; those that do not fit only adjust the exponent */
    int count;
    long exponent; /* of the last digit */
    bool whole;    /* no point, no exponent, and no digit dropped */
} decimal;

static bool parse_decimal(const char *text, size_t length, decimal *d)
{
    const char *c = text, *end = text + length;
    bool any = false, point = false;
    *d = (decimal){.whole = true};
    for (; c < end && (is_digit(*c) || (*c == '.' && !point)); c++) {
        if (*c == '.') {
            point = true;
            continue;
        }
        any = true;
        if (d->count == 0 && *c == '0') {
            d->exponent -= point;
            continue;
        }
        if (d->count < 40) {
            d->digits[d->count++] = *c;
            d->exponent -= point;
        } else {
            d->exponent += !point;
            d->whole = false;
        }
    }
    d->whole = d->whole && !point && c == end;
    if (!any || c == end)
        return any;
    if (*c != 'e' && *c != 'E')
        return false;
    bool negative = ++c < end && *c == '-';
    if (c < end && (*c == '-' || *c == '+'))
        c++;
    if (c == end)
        return false;
    long exponent = 0;
    for (; c < end && is_digit(*c); c++)
        if (exponent < 100000)
            exponent = exponent * 10 + (*c - '0');
    d->exponent += negative ? -exponent : exponent;
    return c == end;
}

/* Without a decimal point, which would depend on the locale. */
static double decimal_value(const decimal *d)
{
    char text[96];
    if (d->count == 0)
        return 0.0;
    long exponent = d->exponent > 1000000 ? 1000000 : d->exponent < -1000000 ? -1000000 : d->exponent;
    snprintf(text, sizeof text, "%.*se%ld", d->count, d->digits, exponent);
    return strtod(text, NULL);
}

/* Exact value of an integer that fits in 64 bits; a double would keep only 53. */
static bool parse_whole(const decimal *d, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < d->count; i++)
        if (__builtin_mul_overflow(*value, 10u, value) ||
            __builtin_add_overflow(*value, (uint64_t)(d->digits[i] - '0'), value))
            return false;
    return d->whole;
}

static bool parse_number(const char *text, size_t length, xcvm_dtype dtype, void *data, size_t index)
{
    while (length > 0 && is_space(text[length - 1]))
        length--;
    for (; length > 0 && is_space(*text); length--)
        text++;
    if (dtype == XCVM_BOOL &&
        (equals_ignoring_case(text, length, "true") || equals_ignoring_case(text, length, "false"))) {
        ((uint8_t *)data)[index] = length == 4;
        return true;
    }
    bool negative = length > 0 && *text == '-';
    if (length > 0 && (*text == '-' || *text == '+')) {
        text++;
        length--;
    }
    double value;
    uint64_t magnitude;
    decimal d;
    if (equals_ignoring_case(text, length, "inf") || equals_ignoring_case(text, length, "infinity")) {
        value = (double)INFINITY;
    } else if (equals_ignoring_case(text, length, "nan")) {
        value = (double)NAN;
    } else if (!parse_decimal(text, length, &d)) {
        return false;
    } else if (xcvm_dtype_in(dtype, XCVM_TYPES_WHOLE) && parse_whole(&d, &magnitude)) {
        int64_t whole = (int64_t)(negative ? 0 - magnitude : magnitude);
        xcvm_store_i64(dtype, data, index, 1, &whole);
        return true;
    } else {
        value = decimal_value(&d);
    }
    value = negative ? -value : value;
    xcvm_store_f64(dtype, data, index, 1, &value, true);
    return true;
}

static xcvm_status read_numbers(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x)
{
    XCVM_CHECK(k->error, xcvm_dtype_in(y->dtype, XCVM_TYPES_WHOLE | XCVM_TYPES_FRACTIONAL), TYPE_MISMATCH,
               "str cannot be cast to %s", xcvm_dtype_name(y->dtype));
    size_t count = xcvm_element_count(x);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < count; i++) {
        size_t length;
        const char *text = xcvm_string_at(x, i, &length);
        XCVM_TRY(xcvm_poll_after(&poller, 16 + length));
        XCVM_CHECK(k->error, parse_number(text, length, y->dtype, y->data, i), INVALID_ARGUMENT,
                   "element %zu of x, \"%.*s\", is not a number", i, length < 60 ? (int)length : 60, text);
    }
    return XCVM_OK;
}

/* ---- Text to text ---- */

static xcvm_status copy_strings(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x)
{
    int64_t *indices = xcvm_kernel_scratch(k, (xcvm_element_count(x) + 1) * sizeof *indices);
    if (indices == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < xcvm_element_count(x); i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        indices[i] = (int64_t)i;
    }
    return xcvm_kernel_gather_strings(k, y, x, indices);
}

xcvm_status xcvm_cast_strings(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x)
{
    if (x->dtype == XCVM_STRING)
        return y->dtype == XCVM_STRING ? copy_strings(k, y, x) : read_numbers(k, y, x);
    XCVM_CHECK(k->error, xcvm_dtype_in(x->dtype, XCVM_TYPES_WHOLE | XCVM_TYPES_FRACTIONAL), TYPE_MISMATCH,
               "%s cannot be cast to str", xcvm_dtype_name(x->dtype));
    return write_numbers(k, y, x);
}
