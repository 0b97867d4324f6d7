/* The allocator of the module with shared memory. Debian's libc has no locks, so the linker replaces calls of its
 * functions (--wrap). */
#include <stdbool.h>
#include <stdlib.h>

static bool locked;

static void lock(void)
{
    while (__atomic_exchange_n(&locked, true, __ATOMIC_ACQUIRE))
        while (__atomic_load_n(&locked, __ATOMIC_RELAXED))
            continue;
}

static void unlock(void) { __atomic_store_n(&locked, false, __ATOMIC_RELEASE); }

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t bytes)
{
    lock();
    void *memory = __real_malloc(bytes);
    unlock();
    return memory;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    lock();
    void *memory = __real_calloc(count, bytes);
    unlock();
    return memory;
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    lock();
    void *moved = __real_realloc(memory, bytes);
    unlock();
    return moved;
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    lock();
    const int result = __real_posix_memalign(memory, alignment, bytes);
    unlock();
    return result;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    lock();
    void *memory = __real_aligned_alloc(alignment, bytes);
    unlock();
    return memory;
}

void __wrap_free(void *memory)
{
    lock();
    __real_free(memory);
    unlock();
}
