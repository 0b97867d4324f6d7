/* Numbers as decimal text and back, the same whatever locale the process has set: printf and strtod are asked for
 * digits without a point, which alone depends on the locale. */
#ifndef XCVM_BASE_DECIMAL_H
#define XCVM_BASE_DECIMAL_H

#include <stdbool.h>

enum {
    XCVM_DECIMAL_DIGITS = 17, /* enough for every double */
    XCVM_DECIMAL_TEXT = 32
};

/* The `precision` (1 to XCVM_DECIMAL_DIGITS) significant digits of a finite number, correctly rounded, without its sign
 * and without zeros at the end; the number is 0.DIGITS * 10^*point. Of zero "0", with *point 1. Returns how many. */
int xcvm_decimal_digits(double value, int precision, char digits[XCVM_DECIMAL_DIGITS], int *point);
/* What printf writes for "%.*g" in the C locale. Returns text. */
const char *xcvm_decimal_text(double value, int precision, char text[XCVM_DECIMAL_TEXT]);
/* A decimal number, correctly rounded; false unless that is all there is. Overflow gives infinity. */
bool xcvm_decimal_parse(const char *text, double *value);

#endif
