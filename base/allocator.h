/* Allocation through an xcvm_allocator. In the libraries only allocator.c calls malloc. */
#ifndef XCVM_BASE_ALLOCATOR_H
#define XCVM_BASE_ALLOCATOR_H

#include "base/status.h"

enum { XCVM_ALIGNMENT = 64 };

/* Returns `allocator`, or the malloc allocator if it is NULL. */
const xcvm_allocator *xcvm_allocator_or_default(const xcvm_allocator *allocator);
/* Returns NULL if there is no memory. Zero bytes give a valid pointer. Deallocation needs the same size. */
void *xcvm_allocate(const xcvm_allocator *allocator, size_t bytes);
void *xcvm_allocate_zeroed(const xcvm_allocator *allocator, size_t bytes);
void xcvm_deallocate(const xcvm_allocator *allocator, void *memory, size_t bytes);

/* Bytes of a huge page. The default allocator aligns blocks of at least this size to huge pages. */
#define XCVM_HUGE_PAGE ((size_t)2 << 20)

/* Maps all pages of memory that is about to be written, unless it is too large. One call is cheaper than a fault per
 * page. */
void xcvm_memory_populate(void *memory, size_t bytes);

/* Returns true if memory of `allocator` (NULL: the default) comes from malloc. */
bool xcvm_allocator_is_default(const xcvm_allocator *allocator);
/* Returns zeroed pages, or NULL; unmapping needs the same size. Small pages become resident when they are first
 * written. If the system is then out of memory, it ends the process. */
void *xcvm_memory_map(size_t bytes);
void xcvm_memory_unmap(void *memory, size_t bytes);
/* Zeroes a part of such memory and returns its whole pages to the system. */
void xcvm_memory_clear(void *memory, size_t bytes);

/* Checked arithmetic on untrusted sizes: false if the result does not fit. */
static inline bool xcvm_size_mul(size_t a, size_t b, size_t *product) { return !__builtin_mul_overflow(a, b, product); }
static inline bool xcvm_size_add(size_t a, size_t b, size_t *sum) { return !__builtin_add_overflow(a, b, sum); }
/* Unchecked arithmetic on sizes that are known to be small. */
static inline size_t xcvm_min(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t xcvm_ceil_div(size_t n, size_t by) { return (n + by - 1) / by; }
static inline size_t xcvm_round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/* An arena: memory that is released all at once. Zero-initialized except for `allocator`, it is empty. */
typedef struct xcvm_arena {
    const xcvm_allocator *allocator;
    struct xcvm_arena_block *blocks;
    size_t used; /* bytes allocated from it */
} xcvm_arena;

/* Returns zeroed memory aligned to 16 bytes, or NULL. */
void *xcvm_arena_allocate(xcvm_arena *arena, size_t bytes);
/* Returns a NUL-terminated copy, or NULL. */
char *xcvm_arena_string(xcvm_arena *arena, const char *text, size_t length);
void xcvm_arena_release(xcvm_arena *arena);
/* Invalidates all allocations and keeps one block for reuse. */
void xcvm_arena_clear(xcvm_arena *arena);

#endif
