/* An index of names: numbers by name. Names are added first, then sorted, then looked up; no input makes any of it
 * slow. */
#ifndef XCVM_PROTO_NAME_INDEX_H
#define XCVM_PROTO_NAME_INDEX_H

#include "base/allocator.h"

typedef struct xcvm_indexed_name {
    const char *text; /* lent */
    size_t length;
    size_t number;
} xcvm_indexed_name;

/* Empty when zero-initialized. */
typedef struct xcvm_name_index {
    xcvm_indexed_name *at;
    size_t count, capacity;
} xcvm_name_index;

/* False if there is no memory in the arena. */
bool xcvm_name_index_add(xcvm_name_index *names, xcvm_arena *arena, const char *text, size_t length, size_t number);
/* Entries are ordered by text, then by number. */
void xcvm_name_index_sort(xcvm_name_index *names);
/* How many entries have that text, 2 standing for more; the first of them is *first if there are any. Sorted names
 * only. */
size_t xcvm_name_index_find(const xcvm_name_index *names, const char *text, size_t length,
                            const xcvm_indexed_name **first);

#endif
