/* The thread pool of WebAssembly without shared memory: the caller is the only thread. */
#include "base/threads.h"
#include "base/clock.h"

struct xcvm_threads {
    xcvm_allocator allocator;
    xcvm_span *spans; /* NULL: not recording */
    size_t span_capacity, span_count;
};

xcvm_status xcvm_threads_create(const xcvm_allocator *allocator, int count, xcvm_threads **threads, xcvm_error *error)
{
    XCVM_CHECK(error, count >= 1, INVALID_ARGUMENT, "%d threads are not at least one", count);
    xcvm_threads *created = xcvm_allocate_zeroed(allocator, sizeof *created);
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory for a thread pool");
    created->allocator = *xcvm_allocator_or_default(allocator);
    *threads = created;
    return XCVM_OK;
}

void xcvm_threads_destroy(xcvm_threads *threads)
{
    if (threads == NULL)
        return;
    const xcvm_allocator allocator = threads->allocator;
    xcvm_deallocate(&allocator, threads, sizeof *threads);
}

void xcvm_threads_flush_denormals(xcvm_threads *threads, bool flush)
{
    (void)threads;
    (void)flush;
}

int xcvm_threads_count(const xcvm_threads *threads)
{
    (void)threads;
    return 1;
}

void xcvm_parallel(xcvm_threads *threads, size_t count, size_t grain, xcvm_range_body body, void *context)
{
    (void)grain;
    if (count == 0)
        return;
    xcvm_span *span = NULL;
    if (threads != NULL && threads->spans != NULL && threads->span_count < threads->span_capacity) {
        span = &threads->spans[threads->span_count++];
        *span = (xcvm_span){.start_ns = xcvm_clock_ns()};
    }
    body(context, 0, count, 0);
    if (span != NULL)
        span->end_ns = xcvm_clock_ns();
}

size_t xcvm_threads_record(xcvm_threads *threads, xcvm_span *buffer, size_t capacity)
{
    if (threads == NULL)
        return 0;
    const size_t count = threads->span_count;
    threads->spans = buffer;
    threads->span_capacity = capacity;
    threads->span_count = 0;
    return count;
}
