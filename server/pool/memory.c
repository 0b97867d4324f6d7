/* Counting allocator: the limits of a model and of the server hold for programs, sessions and values alike. */
#include "server/pool/memory.h"

static void drop_reference(xcs_memory *memory)
{
    if (__atomic_sub_fetch(&memory->refs, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    xcs_memory *parent = memory->parent;
    xcs_blocks *blocks = memory->blocks;
    xcvm_deallocate(&blocks->allocator, memory, sizeof *memory);
    if (parent != NULL)
        drop_reference(parent);
    else
        xcs_blocks_destroy(blocks);
}

static bool count_bytes(xcs_memory *memory, size_t bytes)
{
    const size_t used = __atomic_add_fetch(&memory->used, bytes, __ATOMIC_RELAXED);
    if (used < bytes || (memory->limit != 0 && used > memory->limit) ||
        (memory->parent != NULL && !count_bytes(memory->parent, bytes))) {
        __atomic_sub_fetch(&memory->used, bytes, __ATOMIC_RELAXED);
        return false;
    }
    size_t peak = __atomic_load_n(&memory->peak, __ATOMIC_RELAXED);
    while (peak < used &&
           !__atomic_compare_exchange_n(&memory->peak, &peak, used, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
    return true;
}

static void uncount_bytes(xcs_memory *memory, size_t bytes)
{
    for (; memory != NULL; memory = memory->parent)
        __atomic_sub_fetch(&memory->used, bytes, __ATOMIC_RELAXED);
}

static void *counted_allocate(void *user, size_t bytes, size_t alignment)
{
    xcs_memory *memory = user;
    if (!count_bytes(memory, bytes))
        return NULL;
    void *block = memory->inner.allocate(memory->inner.user, bytes, alignment);
    if (block == NULL)
        uncount_bytes(memory, bytes);
    else
        __atomic_add_fetch(&memory->refs, 1, __ATOMIC_RELAXED);
    return block;
}

static void counted_release(void *user, void *block, size_t bytes)
{
    xcs_memory *memory = user;
    if (block == NULL)
        return;
    memory->inner.release(memory->inner.user, block, bytes);
    uncount_bytes(memory, bytes);
    drop_reference(memory);
}

xcs_memory *xcs_memory_create(const xcvm_allocator *inner, size_t limit, xcs_memory *parent)
{
    xcs_blocks *blocks = parent != NULL ? parent->blocks : xcs_blocks_create(inner);
    if (blocks == NULL)
        return NULL;
    xcs_memory *memory = xcvm_allocate_zeroed(&blocks->allocator, sizeof *memory);
    if (memory == NULL) {
        if (parent == NULL)
            xcs_blocks_destroy(blocks);
        return NULL;
    }
    memory->allocator = (xcvm_allocator){counted_allocate, counted_release, memory};
    memory->inner = blocks->allocator;
    memory->blocks = blocks;
    memory->limit = limit;
    memory->refs = 1;
    memory->parent = parent;
    if (parent != NULL)
        __atomic_add_fetch(&parent->refs, 1, __ATOMIC_RELAXED);
    return memory;
}

void xcs_memory_release(xcs_memory *memory)
{
    if (memory != NULL)
        drop_reference(memory);
}
