/* The elements of tensors in the text assembly. */
#ifndef XCVM_PROTO_LITERALS_H
#define XCVM_PROTO_LITERALS_H

#include "base/value.h"
#include "proto/types.h"

/* Writes the elements of a tensor whose data, which need not be aligned, is valid; a blank between them. */
void xcvm_elements_write(xcvm_writer *w, const xcvm_value *tensor);
/* "f32[2x2] 1 2 3 4" */
void xcvm_literal_write(xcvm_writer *w, const xcvm_value *tensor);

/* The tensor that a type describes fully, without data; fails unless it is one. */
xcvm_status xcvm_tensor_of_type(xcvm_reader *r, const xcvm_type *type, xcvm_value *tensor);
/* Reads as many elements as a tensor without data has; the data is allocated in the reader's arena, memory_kind
 * CONSTANT. */
xcvm_status xcvm_elements_read(xcvm_reader *r, xcvm_value *tensor);
/* Type and elements. */
xcvm_status xcvm_literal_read(xcvm_reader *r, xcvm_value *tensor);

/* String `index` of a string tensor whose data need not be aligned. */
xcvm_string xcvm_string_span(const void *data, size_t index);

#endif
