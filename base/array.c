/* Growable arrays: capacity doubles in an arena or with an allocator, with overflow checks. */
#include "base/array.h"

#include <string.h>

enum { FIRST = 16 };

/* Computes capacity and bytes of the next larger array. Returns false on overflow. */
static bool next_size(size_t capacity, size_t size, size_t *wider, size_t *bytes)
{
    *wider = FIRST;
    return (capacity == 0 || xcvm_size_mul(capacity, 2, wider)) && xcvm_size_mul(*wider, size, bytes);
}

static void *moved(void *to, const void *array, size_t count, size_t size)
{
    if (to != NULL && count != 0)
        memcpy(to, array, count * size);
    return to;
}

void *xcvm_arena_grow(xcvm_arena *arena, void *array, size_t count, size_t *capacity, size_t size)
{
    size_t wider, bytes;
    if (count < *capacity)
        return array;
    if (!next_size(*capacity, size, &wider, &bytes))
        return NULL;
    void *larger = moved(xcvm_arena_allocate(arena, bytes), array, count, size);
    *capacity = larger != NULL ? wider : *capacity;
    return larger;
}

void *xcvm_array_grow(const xcvm_allocator *allocator, void *array, size_t count, size_t *capacity, size_t size)
{
    size_t wider, bytes;
    if (count < *capacity)
        return array;
    if (!next_size(*capacity, size, &wider, &bytes))
        return NULL;
    void *larger = moved(xcvm_allocate(allocator, bytes), array, count, size);
    if (larger == NULL)
        return NULL;
    xcvm_deallocate(allocator, array, *capacity * size);
    *capacity = wider;
    return larger;
}
