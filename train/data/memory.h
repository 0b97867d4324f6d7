/* The memory of a data set that has a limit: a budget that several threads take from. */
#ifndef XCVM_TRAIN_DATA_MEMORY_H
#define XCVM_TRAIN_DATA_MEMORY_H

#include "base/budget.h"

#include <pthread.h>

typedef struct xct_memory {
    xcvm_allocator allocator; /* for those whose memory counts, from any thread */
    xcvm_budget budget;       /* under the mutex */
    pthread_mutex_t mutex;
} xct_memory;

/* `from` as in xcvm_budget_begin, which is called from any thread, too. */
xcvm_status xct_memory_create(const xcvm_allocator *from, size_t limit, xct_memory **memory, xcvm_error *error);
/* All memory must have been released. */
void xct_memory_destroy(xct_memory *memory);
/* Bytes that remain. `memory` may be NULL, here and below: there is no limit. */
size_t xct_memory_left(xct_memory *memory);
/* If `status` is OUT_OF_MEMORY because of the limit, adds this to the error. */
void xct_memory_name(xct_memory *memory, xcvm_status status, xcvm_error *error);

#endif
