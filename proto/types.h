/* Types in the text assembly: f32[Nx3x224x224], seq(f32), and so on (docs/assembly.md). */
#ifndef XCVM_PROTO_TYPES_H
#define XCVM_PROTO_TYPES_H

#include "proto/reader.h"
#include "proto/writer.h"

/* As the text assembly has it: `f32[Nx3]`, `seq(f32)`. */
void xcvm_type_write(xcvm_writer *w, const xcvm_type *type);
/* Names of dimensions are allocated in the reader's arena. */
xcvm_status xcvm_type_read(xcvm_reader *r, xcvm_type *type);
/* The element type that a word names; XCVM_NO_DTYPE if none. */
xcvm_dtype xcvm_dtype_of_word(const char *word, size_t length);

#endif
