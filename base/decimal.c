/* Locale-independent printing and parsing of decimal numbers. */
#include "base/decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

int xcvm_decimal_digits(double value, int precision, char digits[XCVM_DECIMAL_DIGITS], int *point)
{
    char text[XCVM_DECIMAL_TEXT];
    int count = 0;
    snprintf(text, sizeof text, "%.*e", precision - 1, fabs(value));
    const char *c = text;
    for (; *c != 'e'; c++)
        if (is_digit(*c))
            digits[count++] = *c;
    *point = (int)strtol(c + 1, NULL, 10) + 1;
    while (count > 1 && digits[count - 1] == '0')
        count--;
    return count;
}

const char *xcvm_decimal_text(double value, int precision, char text[XCVM_DECIMAL_TEXT])
{
    if (!isfinite(value)) {
        snprintf(text, XCVM_DECIMAL_TEXT, "%g", value);
        return text;
    }
    char digits[XCVM_DECIMAL_DIGITS], *to = text;
    int point;
    const int count = xcvm_decimal_digits(value, precision, digits, &point);
    if (signbit(value))
        *to++ = '-';
    /* C11, 7.21.6.1, conversion g. */
    const bool scientific = point - 1 < -4 || point - 1 >= precision;
    /* Position of the decimal point among the digits. Zeros that precede or follow it may be missing from `digits`. */
    const int whole = scientific ? 1 : point;
    for (int i = whole < 1 ? whole - 1 : 0; i < count || i < whole; i++) {
        if (i == whole)
            *to++ = '.';
        *to++ = i >= 0 && i < count ? digits[i] : '0';
    }
    *to = '\0';
    if (scientific)
        snprintf(to, XCVM_DECIMAL_TEXT - (size_t)(to - text), "e%+03d", point - 1);
    return text;
}

bool xcvm_decimal_parse(const char *text, double *value)
{
    /* The exact midpoint between two doubles has up to 767 digits. Of later digits only whether one is nonzero matters.
     */
    enum { KEPT = 780 };
    char digits[KEPT + 32];
    size_t count = 0;
    /* Larger exponents give infinity or zero for every number whose digits fit in memory. */
    const long long largest = 1LL << 60;
    long long exponent = 0, given = 0;
    bool any = false, behind = false, cut = false;
    if (*text == '-')
        digits[count++] = '-';
    const size_t sign = count;
    text += *text == '-' || *text == '+';
    for (; is_digit(*text) || (*text == '.' && !behind); text++) {
        if (*text == '.') {
            behind = true;
            continue;
        }
        any = true;
        exponent -= behind;
        if (count == sign && *text == '0')
            continue;
        if (count < KEPT) {
            digits[count++] = *text;
            continue;
        }
        cut = cut || *text != '0';
        exponent++;
    }
    if (!any)
        return false;
    if (*text == 'e' || *text == 'E') {
        const bool negative = *++text == '-';
        text += *text == '-' || *text == '+';
        if (!is_digit(*text))
            return false;
        for (; is_digit(*text); text++)
            given = given < largest / 10 - 1 ? given * 10 + (*text - '0') : given;
        exponent += negative ? -given : given;
    }
    if (*text != '\0')
        return false;
    if (count == sign) {
        *value = sign != 0 ? -0.0 : 0.0;
        return true;
    }
    if (cut) {
        digits[count++] = '1';
        exponent--;
    }
    /* The bound fits a 32-bit long and does not change the result of strtod. */
    exponent = exponent > 1000000000 ? 1000000000 : exponent < -1000000000 ? -1000000000 : exponent;
    snprintf(digits + count, sizeof digits - count, "e%lld", exponent);
    *value = strtod(digits, NULL);
    return true;
}
