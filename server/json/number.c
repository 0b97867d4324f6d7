/* JSON numbers. Reading: up to 19 digits and small powers of ten are exact in double (Clinger, "How to read floating
 * point numbers accurately", 1990) or in x87's 64-bit mantissa, where one rounding is followed by a check that the
 * second one is safe. Everything else takes the slow, exact path. Writing tries the fewest digits first. */
#include "server/json/number.h"

#include "base/decimal.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Greater than the length of any number, so that digits after the point cannot cancel a greater exponent. */
#define EXPONENT_LIMIT INT64_C(100000000000000000)

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads digits into the number. Returns the first character that is none. */
static const char *scan_digits(const char *at, const char *end, xcs_number *n, bool fraction)
{
    /* Leading zeros count nothing. */
    for (; at < end && is_digit(*at); at++) {
        if (n->digits > (UINT64_MAX - 9) / 10) {
            n->exact = n->exact && *at == '0';
            n->exponent += !fraction;
            continue;
        }
        n->digits = n->digits * 10 + (uint64_t)(*at - '0');
        n->exponent -= fraction;
    }
    return at;
}

static const char *scan_exponent(const char *at, const char *end, xcs_number *n)
{
    const bool negative = at < end && *at == '-';
    int64_t exponent = 0;
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    if (at >= end || !is_digit(*at))
        return NULL;
    for (; at < end && is_digit(*at); at++)
        exponent = exponent < EXPONENT_LIMIT ? exponent * 10 + (*at - '0') : exponent;
    n->exponent += negative ? -exponent : exponent;
    return at;
}

bool xcs_number_scan(const char *at, const char *end, xcs_number *number)
{
    xcs_number n = {.begin = at, .exact = true};
    n.negative = at < end && *at == '-';
    at += n.negative;
    if (at >= end || !is_digit(*at) || (*at == '0' && at + 1 < end && is_digit(at[1])))
        return false;
    at = scan_digits(at, end, &n, false);
    if (at < end && *at == '.') {
        if (++at >= end || !is_digit(*at))
            return false;
        at = scan_digits(at, end, &n, true);
    }
    if (at < end && (*at == 'e' || *at == 'E') && (at = scan_exponent(at + 1, end, &n)) == NULL)
        return false;
    n.end = at;
    *number = n;
    return true;
}

static double parse_slowly(const xcs_number *n)
{
    char buffer[64];
    double value = 0;
    const size_t length = (size_t)(n->end - n->begin);
    /* xcvm_decimal_parse ends at a NUL. Digits beyond the buffer take memory. */
    char *text = length < sizeof buffer ? buffer : xcvm_allocate(NULL, length + 1);
    if (text == NULL)
        return (double)NAN;
    memcpy(text, n->begin, length);
    text[length] = '\0';
    (void)xcvm_decimal_parse(text, &value);
    if (text != buffer)
        xcvm_deallocate(NULL, text, length + 1);
    return value;
}

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

#if LDBL_MANT_DIG == 64
/* 10^27 has 63 significant bits. */
static const long double long_powers[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,
                                          1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L,
                                          1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

/* Returns false if rounding twice could differ from rounding once. */
static bool parse_long(const xcs_number *n, double *value)
{
    if (n->exponent < -27 || n->exponent > 27)
        return false;
    const long double digits = (long double)n->digits;
    const long double exact = n->exponent < 0 ? digits / long_powers[-n->exponent] : digits * long_powers[n->exponent];
    uint64_t mantissa;
    memcpy(&mantissa, &exact, sizeof mantissa);
    /* The 11 bits beyond those of a double: the halfway case, and what rounds to it, are not decided. */
    const uint64_t beyond = mantissa & 0x7ff;
    if (beyond >= 0x3ff && beyond <= 0x401)
        return false;
    *value = (double)exact;
    return true;
}
#else
static bool parse_long(const xcs_number *n, double *value)
{
    (void)n;
    (void)value;
    return false;
}
#endif

double xcs_number_double(const xcs_number *n)
{
    double value = 0;
    if (n->exact && n->digits == 0)
        value = 0;
    else if (n->exact && n->digits <= (UINT64_C(1) << 53) && n->exponent >= -22 && n->exponent <= 22)
        value = n->exponent < 0 ? (double)n->digits / powers[-n->exponent] : (double)n->digits * powers[n->exponent];
    else if (!n->exact || !parse_long(n, &value))
        return parse_slowly(n);
    return n->negative ? -value : value;
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static const uint64_t integer_powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

/* The number of digits at the start of eight characters. */
static unsigned count_digits(uint64_t word)
{
    /* A byte is a digit if its upper half is 3, also after 6 is added. Carries come from bytes that are no digits. */
    const uint64_t others =
        (word & (word + UINT64_C(0x0606060606060606)) & UINT64_C(0xf0f0f0f0f0f0f0f0)) ^ UINT64_C(0x3030303030303030);
    return others == 0 ? 8 : (unsigned)__builtin_ctzll(others) / 8;
}

/* The value of the first `count` of eight characters (Lemire, "Number parsing at a gigabyte per second", 2021). */
static uint64_t value_of_digits(uint64_t word, unsigned count)
{
    word -= UINT64_C(0x3030303030303030);
    word = count > 0 ? word << (64 - 8 * count) : 0; /* the others become zeros before the first digit */
    word = word * 10 + (word >> 8);
    return ((word & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
            ((word >> 16) & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >>
           32;
}
#endif

/* Adds digits to the number. The number of digits varies, so up to 16 are read without a branch. */
static const char *add_digits(const char *at, const char *end, uint64_t *number)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    while (end - at >= 16) {
        uint64_t first, second;
        memcpy(&first, at, sizeof first);
        memcpy(&second, at + 8, sizeof second);
        const unsigned of_first = count_digits(first);
        const unsigned of_second = of_first == 8 ? count_digits(second) : 0;
        *number = (*number * integer_powers[of_first] + value_of_digits(first, of_first)) * integer_powers[of_second] +
                  value_of_digits(second, of_second);
        at += of_first + of_second;
        if (of_first + of_second < 16)
            return at;
    }
#endif
    for (; at < end && is_digit(*at); at++)
        *number = *number * 10 + (uint64_t)(*at - '0');
    return at;
}

const char *xcs_number_read_plain(const char *at, const char *end, float *value)
{
    enum { MOST_DIGITS = 19, MOST_PLACES = 22 };
    uint64_t number = 0, bits;
    const bool negative = at < end && *at == '-';
    const char *const whole = at + negative;
    for (at = whole; at < end && is_digit(*at); at++) /* mostly one digit */
        number = number * 10 + (uint64_t)(*at - '0');
    ptrdiff_t digits = at - whole, places = 0;
    if (digits == 0 || (*whole == '0' && digits > 1))
        return NULL;
    if (at < end && *at == '.') {
        const char *const fraction = at + 1;
        at = add_digits(fraction, end, &number);
        places = at - fraction;
        digits += places;
        if (places == 0)
            return NULL;
    }
    /* A number that ends the text might go on, but not in an array. */
    if (digits > MOST_DIGITS || places > MOST_PLACES || at >= end || *at == 'e' || *at == 'E')
        return NULL;
    /* Two roundings, of the digits and of the quotient, are at most two units from the exact number. They do not matter
     * unless the float would be rounded differently, which is near the middle of two floats. */
    const double approximate = (double)number / powers[places];
    memcpy(&bits, &approximate, sizeof bits);
    const uint64_t beyond = bits & 0x1fffffff; /* the 29 bits beyond those of a float */
    if (number > (UINT64_C(1) << 53) && beyond - (0x10000000 - 4) <= 8)
        return NULL;
    *value = (float)(negative ? -approximate : approximate);
    return at;
}

/* The absolute value of an integer. */
static bool integer_of(const xcs_number *n, uint64_t *value)
{
    uint64_t digits = n->digits;
    int64_t exponent = digits == 0 ? 0 : n->exponent;
    for (; exponent < 0 && digits % 10 == 0; exponent++)
        digits /= 10;
    for (; exponent > 0 && digits <= UINT64_MAX / 10; exponent--)
        digits *= 10;
    *value = digits;
    if (n->exact)
        return exponent == 0;
    /* Twenty digits may fit; the text decides. */
    digits = 0;
    for (const char *c = n->begin + n->negative; c < n->end; c++)
        if (!is_digit(*c) || __builtin_mul_overflow(digits, 10, &digits) ||
            __builtin_add_overflow(digits, (uint64_t)(*c - '0'), &digits))
            return false;
    *value = digits;
    return true;
}

bool xcs_number_signed(const xcs_number *n, int64_t *value)
{
    uint64_t magnitude;
    if (!integer_of(n, &magnitude) || magnitude > (uint64_t)INT64_MAX + n->negative)
        return false;
    *value = n->negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

bool xcs_number_unsigned(const xcs_number *n, uint64_t *value)
{
    return integer_of(n, value) && (!n->negative || *value == 0);
}

/* ---- Writing ---- */

enum { LONGEST = 40 };

static size_t write_unsigned(char *to, uint64_t value)
{
    char digits[24];
    size_t count = 0;
    do
        digits[count++] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    for (size_t i = 0; i < count; i++)
        to[i] = digits[count - 1 - i];
    return count;
}

/* Writes digits * 10^-places, with places in [0, 22], without trailing zeros. */
static size_t write_fixed(char *to, uint64_t digits, int places)
{
    for (; places > 0 && digits % 10 == 0; places--)
        digits /= 10;
    char all[24];
    const size_t count = write_unsigned(all, digits);
    size_t at = 0;
    const size_t after = (size_t)places, whole = count > after ? count - after : 0;
    memcpy(to, all, whole);
    at = whole;
    if (whole == 0)
        to[at++] = '0';
    if (after > 0)
        to[at++] = '.';
    for (size_t i = count; i < after; i++)
        to[at++] = '0';
    memcpy(to + at, all + whole, count - whole);
    return at + count - whole;
}

/* Writes digits * 10^-places, which is less than 1e-5, as 1.2e-7. */
static size_t write_scientific(char *to, uint64_t digits, int places)
{
    for (; digits % 10 == 0; places--)
        digits /= 10;
    char all[24];
    const size_t count = write_unsigned(all, digits);
    size_t at = 0;
    to[at++] = all[0];
    if (count > 1)
        to[at++] = '.';
    memcpy(to + at, all + 1, count - 1);
    at += count - 1;
    to[at++] = 'e';
    to[at++] = '-';
    return at + write_unsigned(to + at, (uint64_t)(places - (int)count + 1));
}

/* Tries few digits of a float in [1e-13, 1e9). Returns 0 if none of them reads as the same float. */
static size_t write_short(char *to, float value)
{
    int places = 0; /* after the decimal point, for 6 digits */
    for (double bound = 1e5; (double)value < bound && places < 19; bound /= 10)
        places++;
    for (int i = 0; i < 4; i++, places++) {
        const uint64_t digits = (uint64_t)((double)value * powers[places] + 0.5);
        if ((float)((double)digits / powers[places]) == value)
            return value < 1e-5f ? write_scientific(to, digits, places) : write_fixed(to, digits, places);
    }
    return 0;
}

static void write_text(xcs_text *text, double value, int least, int most, bool is_float)
{
    char buffer[XCVM_DECIMAL_TEXT];
    for (int precision = least; precision <= most; precision++) {
        double again = 0;
        xcvm_decimal_text(value, precision, buffer);
        (void)xcvm_decimal_parse(buffer, &again);
        if (precision == most || (is_float ? (float)again == (float)value : again == value))
            break;
    }
    xcs_text_put(text, buffer);
}

void xcs_number_write_float(xcs_text *text, float value)
{
    const float magnitude = fabsf(value);
    char *to = xcs_text_reserve(text, LONGEST);
    if (to == NULL)
        return;
    if (!isfinite(value)) {
        xcs_text_put(text, "null");
        return;
    }
    size_t count = 0;
    if (magnitude == 0) {
        to[count++] = '0';
    } else if (magnitude >= 1e-13f && magnitude < 1e9f) {
        count = write_short(to + (signbit(value) ? 1 : 0), magnitude);
    }
    if (count == 0) {
        write_text(text, (double)value, 6, 9, true);
        return;
    }
    if (signbit(value) && magnitude == 0) {
        xcs_text_put(text, "-0.0"); /* -0 would be an integer for many readers */
        return;
    }
    if (signbit(value))
        to[0] = '-';
    text->count += count + (signbit(value) ? 1 : 0);
}

void xcs_number_write_double(xcs_text *text, double value)
{
    if (!isfinite(value))
        xcs_text_put(text, "null");
    else if (value == 0)
        xcs_text_put(text, signbit(value) ? "-0.0" : "0");
    else
        write_text(text, value, 15, XCVM_DECIMAL_DIGITS, false);
}
