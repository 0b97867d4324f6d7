/* An index from names to numbers. Names are added, then sorted, then looked up. The worst case is O(n log n). */
#ifndef XCVM_PROTO_NAME_INDEX_H
#define XCVM_PROTO_NAME_INDEX_H

#include "base/allocator.h"

typedef struct xcvm_indexed_name {
    const char *text; /* borrowed */
    size_t length;
    size_t number;
} xcvm_indexed_name;

/* Empty when zero-initialized. */
typedef struct xcvm_name_index {
    xcvm_indexed_name *at;
    size_t count, capacity;
} xcvm_name_index;

/* Returns false if there is no memory in the arena. */
bool xcvm_name_index_add(xcvm_name_index *names, xcvm_arena *arena, const char *text, size_t length, size_t number);
/* Sorts by text, then by number. */
void xcvm_name_index_sort(xcvm_name_index *names);
/* Returns the number of entries with that text, capped at 2, and sets *first to the first one. The index must be
 * sorted. */
size_t xcvm_name_index_find(const xcvm_name_index *names, const char *text, size_t length,
                            const xcvm_indexed_name **first);

#endif
