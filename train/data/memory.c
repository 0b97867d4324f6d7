/* Counting the memory of a data set. */
#include "train/data/memory.h"

#include <stdio.h>
#include <string.h>

static void *budget_allocate(void *user, size_t bytes, size_t alignment)
{
    xct_memory *memory = user;
    pthread_mutex_lock(&memory->mutex);
    void *taken = memory->budget.allocator.allocate(&memory->budget, bytes, alignment);
    pthread_mutex_unlock(&memory->mutex);
    return taken;
}

static void release(void *user, void *taken, size_t bytes)
{
    xct_memory *memory = user;
    pthread_mutex_lock(&memory->mutex);
    memory->budget.allocator.release(&memory->budget, taken, bytes);
    pthread_mutex_unlock(&memory->mutex);
}

xcvm_status xct_memory_create(const xcvm_allocator *from, size_t limit, xct_memory **made, xcvm_error *error)
{
    xct_memory *memory = xcvm_allocate(from, sizeof *memory);
    XCVM_CHECK(error, memory != NULL, OUT_OF_MEMORY, "no memory for a data set");
    *memory = (xct_memory){.allocator = {budget_allocate, release, memory}};
    xcvm_budget_begin(&memory->budget, from, limit);
    pthread_mutex_init(&memory->mutex, NULL);
    *made = memory;
    return XCVM_OK;
}

void xct_memory_destroy(xct_memory *memory)
{
    if (memory == NULL)
        return;
    const xcvm_allocator *from = memory->budget.from;
    pthread_mutex_destroy(&memory->mutex);
    xcvm_deallocate(from, memory, sizeof *memory);
}

size_t xct_memory_left(xct_memory *memory)
{
    if (memory == NULL)
        return SIZE_MAX;
    pthread_mutex_lock(&memory->mutex);
    const size_t left = memory->budget.limit - memory->budget.held;
    pthread_mutex_unlock(&memory->mutex);
    return left;
}

void xct_memory_name(xct_memory *memory, xcvm_status status, xcvm_error *error)
{
    if (status != XCVM_OUT_OF_MEMORY || memory == NULL || error == NULL)
        return;
    pthread_mutex_lock(&memory->mutex);
    const size_t refused = memory->budget.refused, limit = memory->budget.limit;
    pthread_mutex_unlock(&memory->mutex);
    const size_t length = strlen(error->message);
    if (refused != 0)
        (void)snprintf(error->message + length, sizeof error->message - length,
                       "; the data may take %zu bytes at once, the memory limit", limit);
}
