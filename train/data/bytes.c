/* Bytes that grow. */
#include "train/data/bytes.h"

#include <string.h>

bool xct_bytes_sink(void *user, const void *piece, size_t count)
{
    xct_bytes *b = user;
    size_t needed;
    if (!xcvm_size_add(b->count, count, &needed)) {
        b->failed = true;
        return false;
    }
    if (needed > b->capacity) {
        const size_t capacity = needed > b->capacity * 2 ? needed : b->capacity * 2;
        char *larger = xcvm_allocate(b->allocator, capacity);
        b->failed |= larger == NULL;
        if (larger == NULL)
            return false;
        if (b->count > 0)
            memcpy(larger, b->at, b->count);
        xcvm_deallocate(b->allocator, b->at, b->capacity);
        b->at = larger;
        b->capacity = capacity;
    }
    if (count > 0)
        memcpy(b->at + b->count, piece, count);
    b->count = needed;
    return true;
}

void xct_bytes_release(xct_bytes *b)
{
    xcvm_deallocate(b->allocator, b->at, b->capacity);
    *b = (xct_bytes){.allocator = b->allocator};
}
