/* Bytes that grow, as what a sink writes to. */
#ifndef XCVM_TRAIN_BYTES_H
#define XCVM_TRAIN_BYTES_H

#include "base/allocator.h"

/* Zero-initialised apart from the allocator it is empty. */
typedef struct xct_bytes {
    const xcvm_allocator *allocator;
    char *at;
    size_t count, capacity;
    bool failed; /* there was no memory */
} xct_bytes;

/* An xcvm_sink whose user is an xct_bytes. */
bool xct_bytes_sink(void *bytes, const void *piece, size_t count);
void xct_bytes_release(xct_bytes *bytes);

#endif
