/* The heap of a session, which provides memory for its values. It keeps free blocks for reuse, so that a steady state
 * takes nothing from the allocator. It counts bytes and enforces a limit. Not thread-safe. */
#ifndef XCVM_BASE_HEAP_H
#define XCVM_BASE_HEAP_H

#include "base/value.h"

#include <stdbool.h>

typedef struct xcvm_heap xcvm_heap;

/* `limit` is in bytes; 0 means no limit. The heap lives until it is destroyed and its last storage is released. */
xcvm_status xcvm_heap_create(const xcvm_allocator *allocator, size_t limit, xcvm_heap **heap, xcvm_error *error);
void xcvm_heap_destroy(xcvm_heap *heap);
/* Allocates storage of at least `bytes` bytes with one reference, 64-byte aligned. Fails with OUT_OF_MEMORY and names
 * the limit. */
xcvm_status xcvm_heap_allocate(xcvm_heap *heap, size_t bytes, xcvm_storage **storage, xcvm_error *error);
/* Allocates zeroed storage. If the allocator is malloc, a large one becomes resident page by page, but its full size
 * counts immediately. It is returned to the system on release. Meant for memory that may never be filled. */
xcvm_status xcvm_heap_allocate_zeros(xcvm_heap *heap, size_t bytes, xcvm_storage **storage, xcvm_error *error);
/* Zeroes storage with a single reference, as if it were newly allocated. */
void xcvm_heap_clear(xcvm_storage *storage);
/* Allocates storage for a list of `count` null values, which are cleared when it is released. */
xcvm_status xcvm_heap_allocate_list(xcvm_heap *heap, size_t count, xcvm_storage **storage, xcvm_error *error);
/* Sets the limit and returns the previous one. Existing storage stays, even beyond the new limit. */
size_t xcvm_heap_set_limit(xcvm_heap *heap, size_t limit);
/* Returns the bytes that may still be allocated or counted; SIZE_MAX without a limit. */
size_t xcvm_heap_left(const xcvm_heap *heap);
/* Counts memory that is held outside the heap (arena, scratch) against the limit. `bytes` may be negative. */
xcvm_status xcvm_heap_account(xcvm_heap *heap, ptrdiff_t bytes, xcvm_error *error);
/* Releases storage of this heap that is not a list and has a single reference (NULL: no effect). Its block is returned
 * to the allocator instead of being kept. Meant for buffers that were replaced by larger ones. */
void xcvm_heap_discard(xcvm_heap *heap, xcvm_storage *storage);
/* Returns free blocks to the allocator. */
void xcvm_heap_trim(xcvm_heap *heap);

/* Callback before a request is refused. It releases storages that the session can do without, and returns true if there
 * were any. It runs during a request, so it must neither allocate nor release storage that the requester relies on. */
typedef bool (*xcvm_heap_reclaim)(void *user);
void xcvm_heap_set_reclaim(xcvm_heap *heap, xcvm_heap_reclaim reclaim, void *user);

/* Bytes requested by retained storages, including those counted from outside; the maximum of that; bytes taken from the
 * allocator, with free blocks and those counted from outside. */
size_t xcvm_heap_live(const xcvm_heap *heap);
size_t xcvm_heap_peak(const xcvm_heap *heap);
size_t xcvm_heap_reserved(const xcvm_heap *heap);

#endif
