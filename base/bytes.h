/* Bytes that grow, as what a sink writes to. */
#ifndef XCVM_BASE_BYTES_H
#define XCVM_BASE_BYTES_H

#include "base/allocator.h"

/* Zero-initialized apart from the allocator it is empty. */
typedef struct xcvm_bytes {
    const xcvm_allocator *allocator;
    uint8_t *at;
    size_t count, capacity;
    bool failed; /* there was no memory, and nothing is taken any more */
} xcvm_bytes;

/* An xcvm_sink whose user is an xcvm_bytes. */
bool xcvm_bytes_sink(void *bytes, const void *piece, size_t count);
void xcvm_bytes_release(xcvm_bytes *bytes);

#endif
