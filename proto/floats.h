/* Numbers of floating-point element types as text. */
#ifndef XCVM_PROTO_FLOATS_H
#define XCVM_PROTO_FLOATS_H

#include "base/decimal.h"
#include "base/dtype.h"

enum { XCVM_FLOAT_TEXT = XCVM_DECIMAL_TEXT };

/* `dtype` is a type that xcvm_float_format_of knows (base/element.h). */

/* The shortest decimal that reads back as the same bits, all digits of smaller integers; "nan" for the type's plain
 * NaN, 0x and the bits for others. Returns text. */
const char *xcvm_float_text(xcvm_dtype dtype, uint64_t bits, char text[XCVM_FLOAT_TEXT]);
/* The bits that a token (a decimal, nan, inf, -inf, or 0x and bits) stands for. NULL, or what is wrong with it. */
const char *xcvm_float_parse(xcvm_dtype dtype, const char *token, uint64_t *bits);

/* A double in the text of an attribute: a number that is a float is written with its shortest float form and an `f`
 * behind it where that is not also the double's. */
const char *xcvm_double_text(double value, char text[XCVM_FLOAT_TEXT]);
const char *xcvm_double_parse(const char *token, double *value);

#endif
