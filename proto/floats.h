/* Text of floating-point numbers. */
#ifndef XCVM_PROTO_FLOATS_H
#define XCVM_PROTO_FLOATS_H

#include "base/decimal.h"
#include "base/dtype.h"

enum { XCVM_FLOAT_TEXT = XCVM_DECIMAL_TEXT };

/* `dtype` must have an xcvm_float_format (base/element.h). */

/* Writes the shortest decimal that reads back as the same bits, and all digits of smaller integers. The type's default
 * NaN is "nan"; other NaNs are 0x and the bits. Returns `text`. */
const char *xcvm_float_text(xcvm_dtype dtype, uint64_t bits, char text[XCVM_FLOAT_TEXT]);
/* Parses a decimal, nan, inf, -inf, or 0x and bits. Returns NULL, or a description of the error. */
const char *xcvm_float_parse(xcvm_dtype dtype, const char *token, uint64_t *bits);

/* Text of a double attribute. A value that is exactly a float is written in its shortest float form with suffix `f`,
 * unless that form is also the double's. */
const char *xcvm_double_text(double value, char text[XCVM_FLOAT_TEXT]);
const char *xcvm_double_parse(const char *token, double *value);

#endif
