/* An allocator that counts bytes against a limit, and against that of a parent. */
#ifndef XCVM_SERVER_POOL_MEMORY_H
#define XCVM_SERVER_POOL_MEMORY_H

#include "server/pool/blocks.h"

/* All counters are atomic. It lives until its owner and all allocations have released it. */
typedef struct xcs_memory {
    xcvm_allocator allocator;  /* its `user` is this struct */
    xcvm_allocator inner;      /* that of `blocks` */
    xcs_blocks *blocks;        /* shared by children; owned by the one without a parent */
    struct xcs_memory *parent; /* a reference; NULL: none */
    size_t refs;
    size_t limit; /* 0: none */
    size_t used, peak;
} xcs_memory;

/* Returns NULL if there is no memory. `inner` is used if there is no parent, else that of the parent. */
xcs_memory *xcs_memory_create(const xcvm_allocator *inner, size_t limit, xcs_memory *parent);
void xcs_memory_release(xcs_memory *memory);

#endif
