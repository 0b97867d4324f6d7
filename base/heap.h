/* The heap of a session, from which its values get their memory: blocks that are kept for the next request once they
 * are free, so that a steady state takes nothing from the allocator; counted, and limited. One thread at a time. */
#ifndef XCVM_BASE_HEAP_H
#define XCVM_BASE_HEAP_H

#include "base/value.h"

#include <stdbool.h>

typedef struct xcvm_heap xcvm_heap;

/* `limit` in bytes, 0 for none. The heap lives until it is destroyed and its last storage is released. */
xcvm_status xcvm_heap_create(const xcvm_allocator *allocator, size_t limit, xcvm_heap **heap, xcvm_error *error);
void xcvm_heap_destroy(xcvm_heap *heap);
/* Storage of at least `bytes` bytes, 64-byte aligned, with one reference; fails with OUT_OF_MEMORY, naming the limit.
 */
xcvm_status xcvm_heap_allocate(xcvm_heap *heap, size_t bytes, xcvm_storage **storage, xcvm_error *error);
/* Storage of zeros. With malloc for the allocator a large one takes memory page by page as it is written, but counts
 * whole from the start, and goes back to the system when it is released: for what may never be filled. */
xcvm_status xcvm_heap_allocate_zeros(xcvm_heap *heap, size_t bytes, xcvm_storage **storage, xcvm_error *error);
/* Makes zeros of storage that nobody else holds, as if it was allocated anew. */
void xcvm_heap_clear(xcvm_storage *storage);
/* Storage for a list of `count` values, null at first, which are cleared with it. */
xcvm_status xcvm_heap_allocate_list(xcvm_heap *heap, size_t count, xcvm_storage **storage, xcvm_error *error);
/* Changes the limit, and returns the one before. What is held stays, even beyond the new one. */
size_t xcvm_heap_set_limit(xcvm_heap *heap, size_t limit);
/* Bytes that may still be taken or counted; SIZE_MAX without a limit. */
size_t xcvm_heap_left(const xcvm_heap *heap);
/* Counts memory that is held outside the heap (arena, scratch) against the limit; bytes may be negative. */
xcvm_status xcvm_heap_account(xcvm_heap *heap, ptrdiff_t bytes, xcvm_error *error);
/* Releases storage of this heap, no list, that nobody else holds (NULL: nothing), and gives its block back to the
 * allocator instead of keeping it: for what is outgrown and will not be asked for again. */
void xcvm_heap_discard(xcvm_heap *heap, xcvm_storage *storage);
/* Gives blocks that nobody holds back to the allocator. */
void xcvm_heap_trim(xcvm_heap *heap);

/* Whom the heap asks before it refuses a request: who keeps storages that can be done without releases them and returns
 * whether there were any. It is called in the midst of a request, so it must not allocate, nor release what the
 * request's own caller relies on. */
typedef bool (*xcvm_heap_reclaim)(void *user);
void xcvm_heap_set_reclaim(xcvm_heap *heap, xcvm_heap_reclaim reclaim, void *user);

/* Bytes: requested by storages that are held, with what is counted from outside; the most that this has been; and taken
 * from the allocator, free blocks included, with what is counted from outside. */
size_t xcvm_heap_live(const xcvm_heap *heap);
size_t xcvm_heap_peak(const xcvm_heap *heap);
size_t xcvm_heap_reserved(const xcvm_heap *heap);

#endif
