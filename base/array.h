/* Arrays that grow by doubling, an element at a time:
 *
 *     item *items = xcvm_arena_grow(arena, a->items, a->count, &a->capacity, sizeof *items);
 *     if (items == NULL) ...
 *     a->items = items;
 *     a->items[a->count++] = ...;
 *
 * `array` has room for `*capacity` elements, of which the first `count` are used; NULL where that is 0. The result has
 * room for one more: `array` itself, or a copy with more. NULL if there is no memory, or the bytes would overflow; then
 * nothing has changed. */
#ifndef XCVM_BASE_ARRAY_H
#define XCVM_BASE_ARRAY_H

#include "base/allocator.h"

/* The old array stays in the arena, unused; what is new is zeroed. */
void *xcvm_arena_grow(xcvm_arena *arena, void *array, size_t count, size_t *capacity, size_t size);
/* The old array is given back to the allocator, as the new one is in the end, with xcvm_deallocate(allocator, array,
 * *capacity * size); what is new is not initialized. */
void *xcvm_array_grow(const xcvm_allocator *allocator, void *array, size_t count, size_t *capacity, size_t size);

#endif
