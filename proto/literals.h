/* Elements of tensors in text assembly. */
#ifndef XCVM_PROTO_LITERALS_H
#define XCVM_PROTO_LITERALS_H

#include "base/value.h"
#include "proto/types.h"

/* Writes the elements of a tensor, separated by blanks. The data must be valid but need not be aligned. */
void xcvm_elements_write(xcvm_writer *w, const xcvm_value *tensor);
/* Writes type and elements: "f32[2x2] 1 2 3 4". */
void xcvm_literal_write(xcvm_writer *w, const xcvm_value *tensor);

/* Makes a tensor without data from a type. Fails unless the type is a tensor with known shape. */
xcvm_status xcvm_tensor_of_type(xcvm_reader *r, const xcvm_type *type, xcvm_value *tensor);
/* Reads all elements of a tensor. The data is allocated in the reader's arena, memory_kind CONSTANT. */
xcvm_status xcvm_elements_read(xcvm_reader *r, xcvm_value *tensor);
/* Reads type and elements. */
xcvm_status xcvm_literal_read(xcvm_reader *r, xcvm_value *tensor);

/* Returns the span of string `index` of a string tensor whose data may be unaligned. */
xcvm_string xcvm_string_span(const void *data, size_t index);

#endif
