/* Memory of the system in WebAssembly: malloc alone. The heap has no pages that could be mapped or given back. */
#include "base/allocator.h"

#include <stdlib.h>
#include <string.h>

static void *default_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    void *memory = NULL;
    return posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes) == 0 ? memory : NULL;
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
    void *memory = default_allocate(NULL, bytes, XCVM_ALIGNMENT);
    if (memory != NULL)
        memset(memory, 0, bytes);
    return memory;
}

void xcvm_memory_unmap(void *memory, size_t bytes) { default_release(NULL, memory, bytes); }

void xcvm_memory_clear(void *memory, size_t bytes) { memset(memory, 0, bytes); }

void xcvm_memory_populate(void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
}
