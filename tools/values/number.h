/* Elements of tensors as numbers, for all element types but strings. A complex element counts as two numbers. */
#ifndef XCVM_TOOLS_VALUES_NUMBER_H
#define XCVM_TOOLS_VALUES_NUMBER_H

#include <xcvm/xcvm.h>

/* Holds every 64-bit integer if long double has a mantissa of at least 64 bits. */
typedef long double number;

enum { NUMBER_TEXT = 64 };

/* The element type of the numbers: F32 for C64, F64 for C128, otherwise the same. */
xcvm_dtype number_type(xcvm_dtype dtype);
/* Numbers per element. */
size_t number_parts(xcvm_dtype dtype);
bool number_is_float(xcvm_dtype dtype);
/* The greatest value of an integer type (1 for bool). */
number number_max(xcvm_dtype dtype);

/* `dtype` is that of the numbers; `index` counts numbers. */
number number_get(xcvm_dtype dtype, const void *data, size_t index);
/* Stores a number, rounded for floats. Returns false if the type cannot represent it. */
bool number_set(xcvm_dtype dtype, void *data, size_t index, number value);

/* Writes the shortest text that reads back as the same number. `text` has NUMBER_TEXT bytes. Returns the length. */
size_t number_print(char *text, xcvm_dtype dtype, const void *data, size_t index);
/* Reads a number at the start of `text` and stores it. *end is after it. Returns false if there is no number (*end
 * == text), or if the type cannot represent it. */
bool number_parse(const char *text, const char **end, xcvm_dtype dtype, void *data, size_t index);

#endif
