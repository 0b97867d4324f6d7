/* Arrays that grow by doubling, one element at a time:
 *
 *     item *items = xcvm_arena_grow(arena, a->items, a->count, &a->capacity, sizeof *items);
 *     if (items == NULL) ...
 *     a->items = items;
 *     a->items[a->count++] = ...;
 *
 * `array` has room for `*capacity` elements (NULL if 0), of which the first `count` are used. The result has room for
 * one more: it is `array` itself or a larger copy. If there is no memory or the size overflows, the result is NULL and
 * nothing has changed. */
#ifndef XCVM_BASE_ARRAY_H
#define XCVM_BASE_ARRAY_H

#include "base/allocator.h"

/* The old array stays in the arena, unused. New elements are zeroed. */
void *xcvm_arena_grow(xcvm_arena *arena, void *array, size_t count, size_t *capacity, size_t size);
/* Deallocates the old array. The caller deallocates the last one with xcvm_deallocate(allocator, array, *capacity *
 * size). New elements are not initialized. */
void *xcvm_array_grow(const xcvm_allocator *allocator, void *array, size_t count, size_t *capacity, size_t size);

#endif
