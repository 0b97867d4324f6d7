/* Locale-independent decimal text of numbers. printf and strtod are used only without a decimal point, the one part
 * that depends on the locale. */
#ifndef XCVM_BASE_DECIMAL_H
#define XCVM_BASE_DECIMAL_H

#include <stdbool.h>

enum {
    XCVM_DECIMAL_DIGITS = 17, /* enough for every double */
    XCVM_DECIMAL_TEXT = 32
};

/* Writes up to `precision` (1 to XCVM_DECIMAL_DIGITS) significant digits of a finite number, correctly rounded, without
 * sign and trailing zeros, and returns their count. The number is 0.DIGITS * 10^*point. Zero gives "0" and *point 1. */
int xcvm_decimal_digits(double value, int precision, char digits[XCVM_DECIMAL_DIGITS], int *point);
/* Writes the result of printf's "%.*g" in the C locale. Returns `text`. */
const char *xcvm_decimal_text(double value, int precision, char text[XCVM_DECIMAL_TEXT]);
/* Parses a decimal number, correctly rounded. Returns false if the text contains anything else. Overflow gives
 * infinity. */
bool xcvm_decimal_parse(const char *text, double *value);

#endif
