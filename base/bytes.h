/* A growable byte buffer that a sink can write to. */
#ifndef XCVM_BASE_BYTES_H
#define XCVM_BASE_BYTES_H

#include "base/allocator.h"

/* Zero-initialized except for the allocator, it is empty. */
typedef struct xcvm_bytes {
    const xcvm_allocator *allocator;
    uint8_t *at;
    size_t count, capacity;
    bool failed; /* an allocation failed; later writes are refused */
} xcvm_bytes;

/* An xcvm_sink whose `user` is an xcvm_bytes. */
bool xcvm_bytes_sink(void *bytes, const void *piece, size_t count);
void xcvm_bytes_release(xcvm_bytes *bytes);

#endif
