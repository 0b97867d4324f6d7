/* A cache of small blocks in front of an allocator. A request takes and releases blocks of the same few sizes, which an
 * allocator of aligned blocks makes slowly. Thread-safe. */
#ifndef XCVM_SERVER_POOL_BLOCKS_H
#define XCVM_SERVER_POOL_BLOCKS_H

#include "base/allocator.h"

#include <pthread.h>

enum { XCS_BLOCK_CLASSES = 8, XCS_BLOCKS_OF_CLASS = 8 }; /* of 64 to 8192 bytes */

typedef struct xcs_blocks {
    xcvm_allocator allocator; /* its `user` is this struct */
    xcvm_allocator inner;
    pthread_mutex_t mutex;
    size_t counts[XCS_BLOCK_CLASSES];
    void *blocks[XCS_BLOCK_CLASSES][XCS_BLOCKS_OF_CLASS];
} xcs_blocks;

/* Returns NULL if there is no memory. */
xcs_blocks *xcs_blocks_create(const xcvm_allocator *inner);
/* All blocks must have been released. */
void xcs_blocks_destroy(xcs_blocks *blocks);

#endif
