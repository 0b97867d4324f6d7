/* Types in text assembly: f32[Nx3x224x224], seq(f32), and so on (docs/assembly.md). */
#ifndef XCVM_PROTO_TYPES_H
#define XCVM_PROTO_TYPES_H

#include "proto/reader.h"
#include "proto/writer.h"

/* Writes a type, such as `f32[Nx3]` or `seq(f32)`. */
void xcvm_type_write(xcvm_writer *w, const xcvm_type *type);
/* Reads a type. Dimension names are allocated in the reader's arena. */
xcvm_status xcvm_type_read(xcvm_reader *r, xcvm_type *type);
/* Returns the element type with that name, or XCVM_NO_DTYPE. */
xcvm_dtype xcvm_dtype_of_word(const char *word, size_t length);

#endif
