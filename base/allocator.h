/* Taking memory from an xcvm_allocator. The only place of the libraries that reaches malloc is allocator.c. */
#ifndef XCVM_BASE_ALLOCATOR_H
#define XCVM_BASE_ALLOCATOR_H

#include "base/status.h"

enum { XCVM_ALIGNMENT = 64 };

/* `allocator`, or malloc's where it is NULL. */
const xcvm_allocator *xcvm_allocator_or_default(const xcvm_allocator *allocator);
/* NULL when there is none; zero bytes give a valid pointer. The size must be given back on release. */
void *xcvm_allocate(const xcvm_allocator *allocator, size_t bytes);
void *xcvm_allocate_zeroed(const xcvm_allocator *allocator, size_t bytes);
void xcvm_deallocate(const xcvm_allocator *allocator, void *memory, size_t bytes);

/* Bytes of a page that the system maps at once where it can: blocks of the default allocator of that many
 * and more lie on such pages. */
#define XCVM_HUGE_PAGE ((size_t)2 << 20)

/* Maps the pages of memory that is about to be written at once, if there are not too many: cheaper than a fault for
 * each.
 */
void xcvm_memory_populate(void *memory, size_t bytes);

/* Whether memory of `allocator` (NULL: the default) comes from malloc. */
bool xcvm_allocator_is_default(const xcvm_allocator *allocator);
/* Zeros, or NULL, to be given back with their size. A page, a small one, takes memory when it is first written; if
 * there is none then, the system ends the process. */
void *xcvm_memory_map(size_t bytes);
void xcvm_memory_unmap(void *memory, size_t bytes);
/* Makes zeros of a part of such memory, and gives its whole pages back to the system. */
void xcvm_memory_clear(void *memory, size_t bytes);

/* Sizes from outside: false when the result does not fit. */
static inline bool xcvm_size_mul(size_t a, size_t b, size_t *product) { return !__builtin_mul_overflow(a, b, product); }
static inline bool xcvm_size_add(size_t a, size_t b, size_t *sum) { return !__builtin_add_overflow(a, b, sum); }
/* Arithmetic on sizes that are known to be small. */
static inline size_t xcvm_min(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t xcvm_ceil_div(size_t n, size_t by) { return (n + by - 1) / by; }
static inline size_t xcvm_round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/* Memory that is all released at once. Zero-initialized apart from `allocator`, it is empty. */
typedef struct xcvm_arena {
    const xcvm_allocator *allocator;
    struct xcvm_arena_block *blocks;
    size_t used; /* bytes handed out */
} xcvm_arena;

/* Zeroed memory aligned to 16 bytes, or NULL. */
void *xcvm_arena_allocate(xcvm_arena *arena, size_t bytes);
/* A copy with a NUL behind it, or NULL. */
char *xcvm_arena_string(xcvm_arena *arena, const char *text, size_t length);
void xcvm_arena_release(xcvm_arena *arena);
/* Takes back all memory that was handed out, and keeps a block of it for what comes. */
void xcvm_arena_clear(xcvm_arena *arena);

#endif
