/* Arena allocation: zeroed blocks of doubling size, released together. */
#include "base/allocator.h"

#include <string.h>

enum { ARENA_ALIGNMENT = 16, FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

/* The newest block is the first. Bytes after the first `used` are zero. */
struct xcvm_arena_block {
    struct xcvm_arena_block *next;
    size_t bytes; /* includes this header */
    size_t used;
    size_t padding;
};

_Static_assert(sizeof(struct xcvm_arena_block) % ARENA_ALIGNMENT == 0, "the payload must be aligned");

void *xcvm_arena_allocate(xcvm_arena *arena, size_t bytes)
{
    if (bytes > PTRDIFF_MAX - LARGEST_BLOCK)
        return NULL;
    size_t need = xcvm_round_up(bytes != 0 ? bytes : 1, ARENA_ALIGNMENT);
    struct xcvm_arena_block *block = arena->blocks;
    if (block == NULL || block->bytes - block->used < need) {
        /* Doubling keeps the number of blocks logarithmic in the size of the arena. */
        size_t size = block == NULL ? (size_t)FIRST_BLOCK : block->bytes * 2;
        if (size > LARGEST_BLOCK)
            size = LARGEST_BLOCK;
        bool separate = need > size / 4;
        if (separate)
            size = need + sizeof *block;
        struct xcvm_arena_block *fresh = xcvm_allocate_zeroed(arena->allocator, size);
        if (fresh == NULL)
            return NULL;
        fresh->bytes = size;
        fresh->used = sizeof *fresh;
        if (separate && block != NULL) {
            /* The current block stays first, so that its free part can still be used. */
            fresh->next = block->next;
            block->next = fresh;
        } else {
            fresh->next = block;
            arena->blocks = fresh;
        }
        block = fresh;
    }
    void *memory = (char *)block + block->used;
    block->used += need;
    arena->used += need;
    return memory;
}

char *xcvm_arena_string(xcvm_arena *arena, const char *text, size_t length)
{
    if (length == SIZE_MAX)
        return NULL;
    char *copy = xcvm_arena_allocate(arena, length + 1);
    if (copy != NULL && length != 0)
        memcpy(copy, text, length);
    return copy;
}

void xcvm_arena_release(xcvm_arena *arena)
{
    struct xcvm_arena_block *block = arena->blocks;
    while (block != NULL) {
        struct xcvm_arena_block *next = block->next;
        xcvm_deallocate(arena->allocator, block, block->bytes);
        block = next;
    }
    arena->blocks = NULL;
    arena->used = 0;
}

void xcvm_arena_clear(xcvm_arena *arena)
{
    struct xcvm_arena_block *kept = arena->blocks;
    if (kept == NULL)
        return;
    arena->blocks = kept->next;
    xcvm_arena_release(arena);
    memset((char *)kept + sizeof *kept, 0, kept->used - sizeof *kept);
    kept->next = NULL;
    kept->used = sizeof *kept;
    arena->blocks = kept;
}
