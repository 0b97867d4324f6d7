#include "base/allocator.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* Blocks of some megabytes ask for huge pages: a page fault for each 4 KiB costs more than many a kernel that is the
 * first to write there. Memory without them does as well. */
static void *default_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    void *memory = NULL;
    const bool huge = bytes >= 2 * HUGE_PAGE && alignment < HUGE_PAGE;
    if (huge)
        alignment = HUGE_PAGE;
    else if (alignment < sizeof(void *))
        alignment = sizeof(void *);
    if (posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (huge)
        (void)madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
    return memory;
}

static void default_release(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
}

const xcvm_allocator *xcvm_allocator_or_default(const xcvm_allocator *allocator)
{
    static const xcvm_allocator standard = {default_allocate, default_release, NULL};
    return allocator != NULL ? allocator : &standard;
}

/* Allocators need not know what to do with zero bytes. */
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
