/* Blocks are kept by classes, of powers of two. */
#include "server/pool/blocks.h"

enum { FIRST_BYTES = 64 };

/* A sanitizer shall see each end of a block. */
#if defined(__SANITIZE_ADDRESS__)
#define KEEPS_BLOCKS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEPS_BLOCKS 0
#endif
#endif
#ifndef KEEPS_BLOCKS
#define KEEPS_BLOCKS 1
#endif

/* Returns XCS_BLOCK_CLASSES for a size that has no class. */
static size_t class_of(size_t bytes)
{
    size_t class = 0;
    while (class < XCS_BLOCK_CLASSES && (size_t)FIRST_BYTES << class < bytes)
        class ++;
    return class;
}

static void *allocate_block(void *user, size_t bytes, size_t alignment)
{
    xcs_blocks *b = user;
    const size_t class = alignment <= XCVM_ALIGNMENT ? class_of(bytes) : XCS_BLOCK_CLASSES;
    if (!KEEPS_BLOCKS || class == XCS_BLOCK_CLASSES)
        return b->inner.allocate(b->inner.user, bytes, alignment);
    pthread_mutex_lock(&b->mutex);
    void *block = b->counts[class] > 0 ? b->blocks[class][--b->counts[class]] : NULL;
    pthread_mutex_unlock(&b->mutex);
    return block != NULL ? block : b->inner.allocate(b->inner.user, (size_t)FIRST_BYTES << class, XCVM_ALIGNMENT);
}

static void release_block(void *user, void *block, size_t bytes)
{
    xcs_blocks *b = user;
    const size_t class = class_of(bytes);
    if (!KEEPS_BLOCKS || class == XCS_BLOCK_CLASSES) {
        b->inner.release(b->inner.user, block, bytes);
        return;
    }
    pthread_mutex_lock(&b->mutex);
    const bool kept = b->counts[class] < XCS_BLOCKS_OF_CLASS;
    if (kept)
        b->blocks[class][b->counts[class]++] = block;
    pthread_mutex_unlock(&b->mutex);
    if (!kept)
        b->inner.release(b->inner.user, block, (size_t)FIRST_BYTES << class);
}

xcs_blocks *xcs_blocks_create(const xcvm_allocator *inner)
{
    inner = xcvm_allocator_or_default(inner);
    xcs_blocks *created = xcvm_allocate_zeroed(inner, sizeof *created);
    if (created == NULL)
        return NULL;
    created->inner = *inner;
    created->allocator = (xcvm_allocator){allocate_block, release_block, created};
    pthread_mutex_init(&created->mutex, NULL);
    return created;
}

void xcs_blocks_destroy(xcs_blocks *blocks)
{
    if (blocks == NULL)
        return;
    const xcvm_allocator inner = blocks->inner;
    for (size_t class = 0; class < XCS_BLOCK_CLASSES; class ++)
        while (blocks->counts[class] > 0)
            inner.release(inner.user, blocks->blocks[class][--blocks->counts[class]], (size_t)FIRST_BYTES << class);
    pthread_mutex_destroy(&blocks->mutex);
    xcvm_deallocate(&inner, blocks, sizeof *blocks);
}
