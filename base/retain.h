/* Retaining values beyond the lifetime of their owner. */
#ifndef XCVM_BASE_RETAIN_H
#define XCVM_BASE_RETAIN_H

#include "base/heap.h"

typedef struct xcvm_retention {
    xcvm_heap *heap;                 /* heap of copies; NULL: copies come from `allocator` */
    const xcvm_allocator *allocator; /* NULL: malloc and free */
    /* Shares elements and items whose storage is reference-counted and may be released wherever the kept value is;
     * copies all others. Single-threaded storage is shared only within its own heap. */
    bool share;
    /* Copies elements; may fail. NULL: memcpy. */
    xcvm_status (*copy)(void *user, void *to, const void *from, size_t bytes);
    void *user;
} xcvm_retention;

/* Makes `to`, which must be null, equal to `from`; its refs stay. Nested lists are copied at any depth. An item that
 * occurs several times is copied once, because sharing allows a short program to make lists of exponentially many
 * items. On failure `to` is null. Errors: OUT_OF_MEMORY; UNSUPPORTED for an opaque value. */
xcvm_status xcvm_value_retain_with(const xcvm_retention *retention, xcvm_value *to, const xcvm_value *from,
                                   xcvm_error *error);

#endif
