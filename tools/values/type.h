/* Types as text: of a tensor (element type and shape), of a list, and of what a value is. */
#ifndef XCVM_TOOLS_VALUES_TYPE_H
#define XCVM_TOOLS_VALUES_TYPE_H

#include "cli/buffer.h"

#include <xcvm/xcvm.h>

/* "2x3xf32" (rank 0: "f32") into a type; false if the text, of `length` characters, is none. */
bool type_parse(const char *text, size_t length, xcvm_type *type);
/* How the text of a list of this kind begins, "seq("; NULL for what is no list. */
const char *type_prefix(xcvm_kind kind);
/* "f32[Nx3x?]", "f32[...]" for an unknown rank, "seq(f32)": what an input or output is declared to be. */
void type_print(struct buffer *text, const xcvm_type *type);
/* "f32[2x3]", "seq(f32[2], f32[3])": what a value is. NULL and null values are "null". */
void value_type_print(struct buffer *text, const xcvm_value *value);
/* The type that a value has, for a tensor with its shape. NULL is a null value. */
xcvm_type value_type(const xcvm_value *value);

#endif
