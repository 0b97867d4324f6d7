/* Types as text. */
#ifndef XCVM_TOOLS_VALUES_TYPE_H
#define XCVM_TOOLS_VALUES_TYPE_H

#include "cli/buffer.h"

#include <xcvm/xcvm.h>

/* Parses "2x3xf32" (rank 0: "f32"), a text of `length` characters. Returns false if it is not a type. */
bool type_parse(const char *text, size_t length, xcvm_type *type);
/* The start of the text of a list, for example "seq("; NULL for other kinds. */
const char *type_prefix(xcvm_kind kind);
/* Appends a declared type: "f32[Nx3x?]", "f32[...]" for an unknown rank, "seq(f32)". */
void type_print(struct buffer *text, const xcvm_type *type);
/* Appends the type of a value: "f32[2x3]", "seq(f32[2], f32[3])". NULL and null values are "null". */
void value_type_print(struct buffer *text, const xcvm_value *value);
/* The type of a value, including the shape of a tensor. NULL is a null value. */
xcvm_type value_type(const xcvm_value *value);

#endif
