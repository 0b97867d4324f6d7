/* What a heap asks before it refuses a request: whoever keeps storages that can be done without. */
#ifndef XCVM_BASE_HEAP_RECLAIM_H
#define XCVM_BASE_HEAP_RECLAIM_H

#include <stdbool.h>

typedef struct xcvm_heap xcvm_heap; /* base/heap.h */

/* Releases such storages and returns whether there were any. It is called in the midst of a request, so it must not
 * allocate, nor release what the request's own caller relies on. */
typedef bool (*xcvm_heap_reclaim)(void *user);
void xcvm_heap_set_reclaim(xcvm_heap *heap, xcvm_heap_reclaim reclaim, void *user);

#endif
