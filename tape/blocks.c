/* The allocator of small blocks: records, hooks and scratch arrays. */
#include "tape/tape.h"

#include <string.h>

/* A free block holds a pointer, so no block is empty. */
static size_t size_class(size_t bytes)
{
    return (bytes + (bytes == 0) + TAPE_SIZE_CLASS_BYTES - 1) / TAPE_SIZE_CLASS_BYTES;
}

/* Slabs grow to a huge page, which keeps TLB misses rare. */
enum { FIRST_SLAB = 8 * 1024, LARGEST_SLAB = XCVM_HUGE_PAGE };

/* Blocks are aligned to cache lines. */
static size_t first_piece(const tape_slab *slab)
{
    return xcvm_round_up((uintptr_t)slab + sizeof *slab, TAPE_SIZE_CLASS_BYTES) - (uintptr_t)slab;
}

/* Makes the next slab current and empty. A new slab is twice as large as the last. */
static bool next_slab(xcvm_tape *t)
{
    tape_slab *last = t->blocks.slab;
    if (last != NULL && last->next != NULL) {
        t->blocks.slab = last->next;
        t->blocks.slab->used = first_piece(t->blocks.slab);
        return true;
    }
    const size_t size = last == NULL ? FIRST_SLAB : last->bytes < LARGEST_SLAB ? 2 * last->bytes : LARGEST_SLAB;
    tape_slab *made = xcvm_allocate(t->allocator, size);
    if (made == NULL)
        return false;
    *made = (tape_slab){.bytes = size, .used = first_piece(made)};
    *(last != NULL ? &last->next : &t->blocks.slabs) = made;
    t->blocks.slab = made;
    return true;
}

void *tape_allocate(xcvm_tape *t, size_t bytes)
{
    const size_t class = size_class(bytes);
    void *block = class <= TAPE_SIZE_CLASSES ? t->blocks.free[class] : NULL;
    if (block != NULL) {
        t->blocks.free[class] = *(void **)block;
        t->blocks.in_use++;
        return block;
    }
    if (class > TAPE_SIZE_CLASSES) {
        block = xcvm_allocate(t->allocator, bytes);
    } else {
        bytes = class * TAPE_SIZE_CLASS_BYTES;
        if ((t->blocks.slab != NULL && t->blocks.slab->bytes - t->blocks.slab->used >= bytes) || next_slab(t)) {
            block = (char *)t->blocks.slab + t->blocks.slab->used;
            t->blocks.slab->used += bytes;
            t->blocks.in_use++;
        }
    }
    if (block == NULL)
        tape_fail(t, XCVM_OUT_OF_MEMORY, "the allocator has no %zu bytes for the tape", bytes);
    return block;
}

void tape_free(xcvm_tape *t, void *memory, size_t bytes)
{
    const size_t class = size_class(bytes);
    if (class > TAPE_SIZE_CLASSES) {
        xcvm_deallocate(t->allocator, memory, bytes);
        return;
    }
    *(void **)memory = t->blocks.free[class];
    t->blocks.free[class] = memory;
    t->blocks.in_use--;
}

/* Slabs are cut anew, so that the next blocks are contiguous. */
void tape_blocks_restart(xcvm_tape *t)
{
    if (t->blocks.in_use > 0 || t->blocks.slabs == NULL)
        return;
    memset(t->blocks.free, 0, sizeof t->blocks.free);
    t->blocks.slab = t->blocks.slabs;
    t->blocks.slab->used = first_piece(t->blocks.slab);
}

void tape_blocks_release(xcvm_tape *t)
{
    while (t->blocks.slabs != NULL) {
        tape_slab *next = t->blocks.slabs->next;
        xcvm_deallocate(t->allocator, t->blocks.slabs, t->blocks.slabs->bytes);
        t->blocks.slabs = next;
    }
}
