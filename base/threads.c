#include "base/threads.h"
#include "base/clock.h"

#include <pthreadpool.h>
#include <unistd.h>

struct xcvm_threads {
    xcvm_allocator allocator;
    int count;
    pid_t owner;        /* the process that the pool's threads belong to: a fork leaves them behind */
    pthreadpool_t pool; /* NULL until it is needed */
    bool failed;        /* it could not be started */
    uint32_t busy;      /* atomic: a loop is running */
    xcvm_span *spans;   /* NULL: not recorded */
    size_t span_capacity;
    size_t span_count; /* atomic; may count past the capacity */
};

typedef struct loop {
    xcvm_threads *threads;
    xcvm_range_body body;
    void *context;
    size_t count, chunk;
} loop;

xcvm_status xcvm_threads_create(const xcvm_allocator *allocator, int count, xcvm_threads **threads, xcvm_error *error)
{
    XCVM_CHECK(error, count >= 1, INVALID_ARGUMENT, "%d threads are not at least one", count);
    xcvm_threads *created = xcvm_allocate_zeroed(allocator, sizeof *created);
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory for a thread pool");
    created->allocator = *xcvm_allocator_or_default(allocator);
    created->count = count;
    created->owner = getpid();
    *threads = created;
    return XCVM_OK;
}

void xcvm_threads_destroy(xcvm_threads *threads)
{
    if (threads == NULL)
        return;
    /* After a fork the threads that destruction would wait for do not exist; the child gives up their memory. */
    if (threads->pool != NULL && threads->owner == getpid())
        pthreadpool_destroy(threads->pool);
    xcvm_allocator allocator = threads->allocator;
    xcvm_deallocate(&allocator, threads, sizeof *threads);
}

int xcvm_threads_count(const xcvm_threads *threads) { return threads != NULL ? threads->count : 1; }

static void run_range(xcvm_threads *threads, size_t begin, size_t end, int worker, xcvm_range_body body, void *context)
{
    if (threads == NULL || threads->spans == NULL) {
        body(context, begin, end, worker);
        return;
    }
    uint64_t start = xcvm_clock_ns();
    body(context, begin, end, worker);
    size_t slot = __atomic_fetch_add(&threads->span_count, 1, __ATOMIC_RELAXED);
    if (slot < threads->span_capacity)
        threads->spans[slot] = (xcvm_span){.worker = worker, .start_ns = start, .end_ns = xcvm_clock_ns()};
}

/* There is one range for each worker at most, so that the range's index can stand for the worker. */
static void run_chunk(void *context, size_t index)
{
    const loop *l = context;
    size_t begin = index * l->chunk;
    size_t end = l->count - begin < l->chunk ? l->count : begin + l->chunk;
    run_range(l->threads, begin, end, (int)index, l->body, l->context);
}

static pthreadpool_t pool_of(xcvm_threads *threads)
{
    if (threads->owner != getpid())
        return NULL;
    if (threads->pool == NULL && !threads->failed) {
        threads->pool = pthreadpool_create((size_t)threads->count);
        threads->failed = threads->pool == NULL;
    }
    return threads->pool;
}

void xcvm_parallel(xcvm_threads *threads, size_t count, size_t grain, xcvm_range_body body, void *context)
{
    if (count == 0)
        return;
    size_t most = grain == 0 ? count : count / grain;
    size_t workers = (size_t)xcvm_threads_count(threads);
    if (workers > most)
        workers = most;
    if (workers <= 1) {
        run_range(threads, 0, count, 0, body, context);
        return;
    }
    loop l = {threads, body, context, count, (count + workers - 1) / workers};
    size_t chunks = (count + l.chunk - 1) / l.chunk;
    /* A loop inside a loop, or beside one of another thread, runs in place. */
    bool alone = __atomic_exchange_n(&threads->busy, 1, __ATOMIC_ACQUIRE) == 0;
    pthreadpool_t pool = alone ? pool_of(threads) : NULL;
    if (pool != NULL)
        pthreadpool_parallelize_1d(pool, run_chunk, &l, chunks, PTHREADPOOL_FLAG_DISABLE_DENORMALS);
    else
        for (size_t i = 0; i < chunks; i++)
            run_chunk(&l, i);
    if (alone)
        __atomic_store_n(&threads->busy, 0, __ATOMIC_RELEASE);
}

size_t xcvm_threads_record(xcvm_threads *threads, xcvm_span *buffer, size_t capacity)
{
    if (threads == NULL)
        return 0;
    size_t written = threads->span_count < threads->span_capacity ? threads->span_count : threads->span_capacity;
    threads->spans = capacity != 0 ? buffer : NULL;
    threads->span_capacity = threads->spans != NULL ? capacity : 0;
    threads->span_count = 0;
    return written;
}
