/* Keeping values for longer than what lends them. */
#ifndef XCVM_BASE_KEEP_H
#define XCVM_BASE_KEEP_H

#include "base/heap.h"

typedef struct xcvm_keeping {
    xcvm_heap *heap;                 /* what copies are made in; NULL: memory from `allocator` */
    const xcvm_allocator *allocator; /* NULL: malloc's */
    /* Elements and items whose storage is counted, and may be released wherever the kept value is, are shared; all else
     * is copied. Confined storage is shared within its own heap only. */
    bool share;
    /* Copies elements, and may fail; NULL: memcpy. */
    xcvm_status (*copy)(void *user, void *to, const void *from, size_t bytes);
    void *user;
} xcvm_keeping;

/* Makes `to` (null; its refs stay) what `from` is. Lists are followed as deep as they nest; what one holds several
 * times is copied once, since sharing lets a short program make lists of exponentially many items. In failure `to` is
 * null. OUT_OF_MEMORY, or UNSUPPORTED for an opaque value. */
xcvm_status xcvm_value_keep(const xcvm_keeping *keeping, xcvm_value *to, const xcvm_value *from, xcvm_error *error);

#endif
