/* Functions that allocate through any xcvm_allocator. */
#include "base/allocator.h"

#include <string.h>

/* An allocator need not accept a request for zero bytes. */
static size_t at_least_one(size_t bytes) { return bytes != 0 ? bytes : 1; }

void *xcvm_allocate(const xcvm_allocator *allocator, size_t bytes)
{
    allocator = xcvm_allocator_or_default(allocator);
    return bytes > PTRDIFF_MAX ? NULL : allocator->allocate(allocator->user, at_least_one(bytes), XCVM_ALIGNMENT);
}

void *xcvm_allocate_zeroed(const xcvm_allocator *allocator, size_t bytes)
{
    void *memory = xcvm_allocate(allocator, bytes);
    if (memory != NULL)
        memset(memory, 0, at_least_one(bytes));
    return memory;
}

void xcvm_deallocate(const xcvm_allocator *allocator, void *memory, size_t bytes)
{
    if (memory == NULL)
        return;
    allocator = xcvm_allocator_or_default(allocator);
    allocator->release(allocator->user, memory, at_least_one(bytes));
}
