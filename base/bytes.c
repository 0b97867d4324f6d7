/* Growable byte buffer. */
#include "base/bytes.h"

#include <string.h>

enum { FIRST = 4096 };

bool xcvm_bytes_sink(void *user, const void *piece, size_t count)
{
    xcvm_bytes *b = user;
    if (b->failed || count > SIZE_MAX / 4 - b->count) {
        b->failed = true;
        return false;
    }
    const size_t needed = b->count + count;
    if (needed > b->capacity) {
        const size_t grown = needed + needed / 2, capacity = grown > FIRST ? grown : FIRST;
        uint8_t *larger = xcvm_allocate(b->allocator, capacity);
        b->failed = larger == NULL;
        if (b->failed)
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

void xcvm_bytes_release(xcvm_bytes *b)
{
    xcvm_deallocate(b->allocator, b->at, b->capacity);
    *b = (xcvm_bytes){.allocator = b->allocator};
}
