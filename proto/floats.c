#include "proto/floats.h"
#include "proto/reader.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Sign, exponent and mantissa, from the highest bit. Sources: IEEE 754, and for the types of 8 and 4 bits the ONNX
 * pages "Float stored in 8 bits" and "Float stored in 4 bits". */
typedef struct float_format {
    int bits, mantissa, bias;
    uint64_t greatest; /* bits of the greatest finite number */
    uint64_t infinity; /* 0: the type has none */
    uint64_t nan;      /* 0: the type has none */
} float_format;

static const float_format *format_of(xcvm_dtype dtype)
{
    static const float_format formats[] = {
        [XCVM_F32] = {32, 23, 127, 0x7f7fffff, 0x7f800000, 0x7fc00000},
        [XCVM_F16] = {16, 10, 15, 0x7bff, 0x7c00, 0x7e00},
        [XCVM_F64] = {64, 52, 1023, UINT64_C(0x7fefffffffffffff), UINT64_C(0x7ff0000000000000),
                      UINT64_C(0x7ff8000000000000)},
        [XCVM_BF16] = {16, 7, 127, 0x7f7f, 0x7f80, 0x7fc0},
        [XCVM_F8E4M3FN] = {8, 3, 7, 0x7e, 0, 0x7f},
        [XCVM_F8E4M3FNUZ] = {8, 3, 8, 0x7f, 0, 0x80},
        [XCVM_F8E5M2] = {8, 2, 15, 0x7b, 0x7c, 0x7f},
        [XCVM_F8E5M2FNUZ] = {8, 2, 16, 0x7f, 0, 0x80},
        [XCVM_F4E2M1] = {4, 1, 1, 7, 0, 0},
        [XCVM_F8E8M0] = {8, 0, 127, 0xfe, 0, 0xff},
    };
    bool known = dtype < sizeof formats / sizeof *formats && formats[dtype].bits != 0;
    return known ? &formats[dtype] : NULL;
}

bool xcvm_float_known(xcvm_dtype dtype) { return format_of(dtype) != NULL; }

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Whether the code without its sign is beyond the numbers and infinity; types without a negative zero have their only
 * NaN in its place. */
static bool is_nan(const float_format *f, uint64_t bits)
{
    uint64_t sign = UINT64_C(1) << (f->bits - 1);
    if (f->nan == 0xff)
        return bits == f->nan;
    if (f->nan == sign)
        return bits == sign;
    return f->nan != 0 && (bits & ~sign) > (f->infinity != 0 ? f->infinity : f->greatest);
}

double xcvm_float_from_bits(xcvm_dtype dtype, uint64_t bits)
{
    const float_format *f = format_of(dtype);
    if (f->bits == 64)
        return double_of(bits);
    if (is_nan(f, bits))
        return NAN;
    if (dtype == XCVM_F8E8M0)
        return ldexp(1.0, (int)bits - f->bias);
    uint64_t sign = UINT64_C(1) << (f->bits - 1), code = bits & ~sign;
    double magnitude;
    if (f->infinity != 0 && code == f->infinity) {
        magnitude = INFINITY;
    } else {
        uint64_t one = UINT64_C(1) << f->mantissa;
        int exponent = (int)(code >> f->mantissa);
        uint64_t fraction = (code & (one - 1)) + (exponent > 0 ? one : 0);
        magnitude = ldexp((double)fraction, (exponent > 0 ? exponent : 1) - f->bias - f->mantissa);
    }
    return bits & sign ? -magnitude : magnitude;
}

uint64_t xcvm_float_to_bits(xcvm_dtype dtype, double value, bool *exceeds)
{
    const float_format *f = format_of(dtype);
    uint64_t word, sign = UINT64_C(1) << (f->bits - 1);
    memcpy(&word, &value, sizeof word);
    bool negative = word >> 63 != 0;
    *exceeds = false;
    if (isnan(value))
        return f->nan;
    if (f->bits == 64)
        return word;
    if (dtype == XCVM_F8E8M0) {
        /* A power of two, without a sign; what lies between is rounded up. */
        int power = 0;
        *exceeds = isinf(value) || fabs(value) > 0x1p127;
        const bool exact = frexp(value, &power) == 0.5;
        power += f->bias - (exact ? 1 : 0);
        return *exceeds ? f->nan : power < 0 || value == 0 ? 0 : (uint64_t)power;
    }
    uint64_t overflow = f->infinity != 0 ? f->infinity : f->nan != 0 ? f->nan : f->greatest;
    uint64_t code;
    if (isinf(value)) {
        *exceeds = f->infinity == 0;
        code = overflow;
    } else {
        int exponent = 0, least = 1 - f->bias;
        frexp(value, &exponent);
        exponent = exponent - 1 < least || value == 0 ? least : exponent - 1;
        /* The leading one of a normal number adds 1 to the exponent, and so does a carry. */
        uint64_t fraction = (uint64_t)nearbyint(ldexp(fabs(value), f->mantissa - exponent));
        code = ((uint64_t)(exponent + f->bias - 1) << f->mantissa) + fraction;
        if (code > f->greatest) {
            *exceeds = true;
            code = overflow;
        }
    }
    if (f->nan == sign && (code == 0 || code == sign))
        return code;
    return negative ? code | sign : code;
}

/* snprintf's %g in the C locale. */
static void print_double(char text[XCVM_FLOAT_TEXT], int precision, double value)
{
    text[0] = '\0';
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return;
    locale_t previous = uselocale(c_locale);
    snprintf(text, XCVM_FLOAT_TEXT, "%.*g", precision, value);
    uselocale(previous);
    freelocale(c_locale);
}

const char *xcvm_float_text(xcvm_dtype dtype, uint64_t bits, char text[XCVM_FLOAT_TEXT])
{
    const float_format *f = format_of(dtype);
    if (is_nan(f, bits)) {
        if (bits == f->nan)
            snprintf(text, XCVM_FLOAT_TEXT, "nan");
        else
            snprintf(text, XCVM_FLOAT_TEXT, "0x%0*llx", f->bits / 4 % 17, (unsigned long long)bits);
        return text;
    }
    double value = xcvm_float_from_bits(dtype, bits);
    if (isinf(value)) {
        snprintf(text, XCVM_FLOAT_TEXT, "%s", value > 0 ? "inf" : "-inf");
        return text;
    }
    if (value == trunc(value) && fabs(value) < 1e7) {
        print_double(text, 17, value);
        return text;
    }
    /* Trailing zeros are not printed, so the search may start with what a type always has. */
    bool normal = fabs(value) >= ldexp(1, 1 - f->bias);
    int precision = normal && f->mantissa >= 52 ? 15 : normal && f->mantissa >= 23 ? 6 : 1;
    for (; precision <= 17; precision++) {
        uint64_t back = ~bits;
        print_double(text, precision, value);
        if (xcvm_float_parse(dtype, text, &back) == NULL && back == bits)
            break;
    }
    return text;
}

const char *xcvm_float_parse(xcvm_dtype dtype, const char *token, uint64_t *bits)
{
    const float_format *f = format_of(dtype);
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
        return "is no number";
    *bits = xcvm_float_to_bits(dtype, value, &exceeds);
    if (isnan(value) && f->nan == 0)
        return "is not in the type, which has no NaN";
    return exceeds || (isinf(value) && magnitude[0] != 'i') ? "is beyond the greatest number of the type" : NULL;
}

const char *xcvm_double_text(double value, char text[XCVM_FLOAT_TEXT])
{
    uint64_t bits, back;
    memcpy(&bits, &value, sizeof bits);
    char short_text[XCVM_FLOAT_TEXT];
    xcvm_float_text(XCVM_F64, bits, text);
    /* A float cannot hold every double: the conversion of those beyond its range is not defined. */
    if (!(fabs(value) <= 3.4028234663852886e38) || (double)(float)value != value)
        return text;
    bool exceeds;
    xcvm_float_text(XCVM_F32, xcvm_float_to_bits(XCVM_F32, value, &exceeds), short_text);
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
    /* Behind 0x and in inf, an f is something else. */
    bool is_float = length > 1 && token[length - 1] == 'f' && token[length - 2] >= '.' && token[length - 2] <= '9' &&
                    !(token[0] == '0' && (token[1] == 'x' || token[1] == 'X'));
    if (is_float) {
        memcpy(digits, token, length - 1);
        digits[length - 1] = '\0';
        wrong = xcvm_float_parse(XCVM_F32, digits, &bits);
        if (wrong == NULL)
            *value = xcvm_float_from_bits(XCVM_F32, bits);
        return wrong;
    }
    wrong = xcvm_float_parse(XCVM_F64, token, &bits);
    if (wrong == NULL)
        *value = double_of(bits);
    return wrong;
}
