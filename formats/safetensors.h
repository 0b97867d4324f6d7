/* The safetensors format (https://huggingface.co/docs/safetensors, "Format"): 8 bytes with the size of a JSON header,
 * the header with type, shape and position of each tensor, and the elements. */
#ifndef XCVM_FORMATS_SAFETENSORS_H
#define XCVM_FORMATS_SAFETENSORS_H

#include "base/value.h"

typedef struct xcvm_safetensor {
    const char *name;
    xcvm_dtype dtype;
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    const void *data; /* possibly unaligned */
    size_t bytes;
} xcvm_safetensor;

/* An entry of the header's "__metadata__". */
typedef struct xcvm_safetensors_note {
    const char *key, *text;
} xcvm_safetensors_note;

/* A parsed file. Zero-initialized except for arena.allocator. */
typedef struct xcvm_safetensors {
    xcvm_arena arena;
    xcvm_safetensor *tensors; /* in header order */
    size_t count, capacity;
    const xcvm_safetensor **by_name; /* sorted by name */
    xcvm_safetensors_note *notes;
    size_t note_count, note_capacity;
} xcvm_safetensors;

/* Reads the header. Tensors point into `bytes`. Must be released after success and failure. */
xcvm_status xcvm_safetensors_read(xcvm_safetensors *file, const void *bytes, size_t count, xcvm_error *error);
/* Returns NULL if there is none. */
const xcvm_safetensor *xcvm_safetensors_find(const xcvm_safetensors *file, const char *name);
const char *xcvm_safetensors_note_find(const xcvm_safetensors *file, const char *key);
void xcvm_safetensors_release(xcvm_safetensors *file);

/* Writes the tensors in the given order, each at a multiple of 64 bytes. Names must differ. String tensors, and types
 * that the format does not have, are UNSUPPORTED. */
xcvm_status xcvm_safetensors_write(const xcvm_safetensor *tensors, size_t count, const xcvm_safetensors_note *notes,
                                   size_t note_count, const xcvm_allocator *allocator, xcvm_sink sink,
                                   xcvm_error *error);

#endif
