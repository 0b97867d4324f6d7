/* Memory of the system: the default allocator, which uses malloc and huge pages, and mapped memory. */
#include "base/allocator.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A larger block may be reserved without being used, and filling it takes so long that page faults do not matter. */
#define MOST_POPULATED ((size_t)64 << 20)

/* Blocks of megabytes request huge pages, and are enlarged to a multiple of them if they nearly fill the last one: a
 * page fault for each 4 KiB costs more than many kernels that write there first. If huge pages are not available,
 * ordinary pages are used. */
static void *default_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    void *memory = NULL;
    const size_t rounded = (bytes + XCVM_HUGE_PAGE / 4) / XCVM_HUGE_PAGE * XCVM_HUGE_PAGE;
    const bool huge = rounded > 0 && alignment < XCVM_HUGE_PAGE;
    if (huge)
        alignment = XCVM_HUGE_PAGE;
    if (huge && bytes < rounded)
        bytes = rounded;
    else if (alignment < sizeof(void *))
        alignment = sizeof(void *);
    if (alignment <= alignof(max_align_t))
        return malloc(bytes);
    if (posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (huge)
        (void)madvise(memory, rounded, MADV_HUGEPAGE);
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

bool xcvm_allocator_is_default(const xcvm_allocator *allocator)
{
    return xcvm_allocator_or_default(allocator)->allocate == default_allocate;
}

void *xcvm_memory_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
#ifdef MADV_NOHUGEPAGE
    /* The rows of a key/value cache are far apart for each head, so one written row would make a whole huge page
     * resident. */
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE);
#endif
    return memory;
}

void xcvm_memory_unmap(void *memory, size_t bytes) { (void)munmap(memory, bytes); }

void xcvm_memory_clear(void *memory, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)memory, end = (at + bytes) / page * page,
                    begin = (at + page - 1) / page * page;
    if (begin >= end || madvise((void *)begin, end - begin, MADV_DONTNEED) != 0) {
        memset(memory, 0, bytes);
        return;
    }
    memset(memory, 0, begin - at);
    memset((void *)end, 0, at + bytes - end);
}

void xcvm_memory_populate(void *memory, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)memory + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)memory + bytes) / page * page;
    if (begin < end && bytes <= MOST_POPULATED)
        (void)madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
#else
    (void)memory;
    (void)bytes;
#endif
}
