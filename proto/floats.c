/* Floating-point literals of the text assembly: the shortest decimal that reads back as the same bits. */
#include "proto/floats.h"
#include "base/element.h"
#include "proto/reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *xcvm_float_text(xcvm_dtype dtype, uint64_t bits, char text[XCVM_FLOAT_TEXT])
{
    const xcvm_float_format *f = xcvm_float_format_of(dtype);
    if (xcvm_float_is_nan(f, bits)) {
        if (bits == f->nan)
            snprintf(text, XCVM_FLOAT_TEXT, "nan");
        else
            snprintf(text, XCVM_FLOAT_TEXT, "0x%0*llx", f->bits / 4 % 17, (unsigned long long)bits);
        return text;
    }
    double value = xcvm_float_decode(f, bits);
    if (isinf(value)) {
        snprintf(text, XCVM_FLOAT_TEXT, "%s", value > 0 ? "inf" : "-inf");
        return text;
    }
    if (value == trunc(value) && fabs(value) < 1e7) {
        xcvm_decimal_text(value, 17, text);
        return text;
    }
    /* Trailing zeros are not printed, so the search starts with the precision that always suffices for reading back
     * decimals. */
    bool normal = fabs(value) >= ldexp(1, 1 - f->bias);
    int precision = normal && f->mantissa >= 52 ? 15 : normal && f->mantissa >= 23 ? 6 : 1;
    for (; precision <= 17; precision++) {
        uint64_t back = ~bits;
        xcvm_decimal_text(value, precision, text);
        if (xcvm_float_parse(dtype, text, &back) == NULL && back == bits)
            break;
    }
    return text;
}

const char *xcvm_float_parse(xcvm_dtype dtype, const char *token, uint64_t *bits)
{
    const xcvm_float_format *f = xcvm_float_format_of(dtype);
    if (token[0] == '0' && (token[1] == 'x' || token[1] == 'X')) {
        uint64_t mask = UINT64_MAX >> (64 - f->bits);
        return xcvm_uint_parse(token, bits) && *bits <= mask ? NULL
                                                             : "has more bits than the type, or other characters";
    }
    const char *magnitude = token[0] == '-' ? token + 1 : token;
    double value;
    bool exceeds;
    if (strcmp(token, "nan") == 0)
        value = NAN;
    else if (strcmp(magnitude, "inf") == 0)
        value = magnitude == token ? INFINITY : -INFINITY;
    else if (!xcvm_decimal_parse(token, &value))
        return "is not a number";
    *bits = xcvm_float_encode(f, value, &exceeds);
    if (isnan(value) && f->nan == 0)
        return "is not in the type, which has no NaN";
    return exceeds || (isinf(value) && magnitude[0] != 'i') ? "is beyond the greatest number of the type" : NULL;
}

const char *xcvm_double_text(double value, char text[XCVM_FLOAT_TEXT])
{
    uint64_t back;
    const uint64_t bits = xcvm_double_bits(value);
    char short_text[XCVM_FLOAT_TEXT];
    xcvm_float_text(XCVM_F64, bits, text);
    /* The C conversion from double to float is undefined beyond float's range. */
    if (!(fabs(value) <= 3.4028234663852886e38) || (double)(float)value != value)
        return text;
    bool exceeds;
    xcvm_float_text(XCVM_F32, xcvm_float_encode(xcvm_float_format_of(XCVM_F32), value, &exceeds), short_text);
    if (xcvm_float_parse(XCVM_F64, short_text, &back) != NULL || back != bits) {
        size_t length = strlen(short_text);
        if (length + 1 < strlen(text)) {
            memcpy(text, short_text, length);
            memcpy(text + length, "f", 2);
        }
    }
    return text;
}

const char *xcvm_double_parse(const char *token, double *value)
{
    char digits[XCVM_TOKEN_SIZE];
    size_t length = strlen(token);
    uint64_t bits;
    const char *wrong;
    /* In hexadecimal numbers and in inf, f is not a suffix. */
    bool is_float = length > 1 && token[length - 1] == 'f' && token[length - 2] >= '.' && token[length - 2] <= '9' &&
                    !(token[0] == '0' && (token[1] == 'x' || token[1] == 'X'));
    if (is_float) {
        memcpy(digits, token, length - 1);
        digits[length - 1] = '\0';
        wrong = xcvm_float_parse(XCVM_F32, digits, &bits);
        if (wrong == NULL)
            *value = xcvm_float_decode(xcvm_float_format_of(XCVM_F32), bits);
        return wrong;
    }
    wrong = xcvm_float_parse(XCVM_F64, token, &bits);
    if (wrong == NULL)
        *value = xcvm_double_of(bits);
    return wrong;
}
