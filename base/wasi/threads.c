/* The thread pool of WebAssembly. All pools of an instance share one team of worker threads, because runs of an
 * instance follow each other: they are calls from one JavaScript thread. Threads claim the ranges of a loop in order:
 * first a half of each thread's share, then a quarter, then two eighths. The main thread of a page must not block, so
 * it polls until workers have finished. Workers poll for the next loop, then wait. Without shared memory there are no
 * workers. */
#include "base/clock.h"
#include "base/threads.h"

enum {
    MAX_THREADS = 256,
    SHARE_UNITS = 8,   /* units of a share, if the loop's grain allows */
    SHARE_RANGES = 4,  /* of 4, 2, 1 and 1 units */
    SPIN_POLLS = 50000 /* polls for the next loop before a worker waits: about 50 us */
};

/* Unclaimed ranges [next, end) of the open loop, for its threads, in one word. A range can only be claimed while it is
 * unclaimed, and a loop only ends after all of its ranges, so a claimed range always belongs to the open loop. */
typedef uint64_t ticket;
#define TICKET_NEXT ((ticket)1 << 32)
static ticket make_ticket(uint32_t end, int threads) { return (ticket)(uint32_t)threads << 16 | end; }
static uint32_t ticket_next(ticket t) { return (uint32_t)(t >> 32); }
static uint32_t ticket_end(ticket t) { return (uint32_t)t & 0xffff; }
static int ticket_threads(ticket t) { return (int)((uint32_t)t >> 16); }

static struct {
    _Alignas(XCVM_ALIGNMENT) ticket open; /* atomic */
    /* The open loop. Written while no range remains; read by threads that have claimed a range. */
    xcvm_range_body body;
    void *context;
    size_t items, units;
    xcvm_threads *pool;
    _Alignas(XCVM_ALIGNMENT) uint32_t loops; /* atomic; number of the loop, never 0. Workers wait for it */
    uint32_t parked;                         /* atomic; workers that wait */
    _Alignas(XCVM_ALIGNMENT) uint32_t done;  /* atomic; finished ranges of the open loop */
    _Alignas(XCVM_ALIGNMENT) bool failed;    /* atomic */
    bool busy;                               /* a loop is running */
    int workers;
} team = {.loops = 1};

struct xcvm_threads {
    xcvm_allocator allocator;
    int count;
    xcvm_span *spans; /* NULL: not recording */
    size_t span_capacity;
    size_t span_count; /* atomic; may exceed the capacity */
};

xcvm_status xcvm_threads_create(const xcvm_allocator *allocator, int count, xcvm_threads **threads, xcvm_error *error)
{
    XCVM_CHECK(error, count >= 1, INVALID_ARGUMENT, "%d threads are not at least one", count);
    XCVM_CHECK(error, count <= MAX_THREADS, INVALID_ARGUMENT, "%d threads are more than %d", count, MAX_THREADS);
    xcvm_threads *created = xcvm_allocate_zeroed(allocator, sizeof *created);
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory for a thread pool");
    created->allocator = *xcvm_allocator_or_default(allocator);
    created->count = count <= team.workers ? count : team.workers + 1;
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

/* WebAssembly has no such mode. */
void xcvm_threads_flush_denormals(xcvm_threads *threads, bool flush)
{
    (void)threads;
    (void)flush;
}

int xcvm_threads_count(const xcvm_threads *threads) { return threads != NULL ? threads->count : 1; }

/* ---- Ranges ---- */

static xcvm_span *next_span(xcvm_threads *t, int thread)
{
    if (t == NULL || t->spans == NULL)
        return NULL;
    const size_t slot = __atomic_fetch_add(&t->span_count, 1, __ATOMIC_RELAXED);
    if (slot >= t->span_capacity)
        return NULL;
    t->spans[slot] = (xcvm_span){.worker = thread, .start_ns = xcvm_clock_ns()};
    return &t->spans[slot];
}

static void run_in_place(xcvm_threads *threads, size_t count, xcvm_range_body body, void *context)
{
    xcvm_span *span = next_span(threads, 0);
    body(context, 0, count, 0);
    if (span != NULL)
        span->end_ns = xcvm_clock_ns();
}

/* First item of a unit. Units differ by at most one item. */
static size_t unit_begin(size_t unit)
{
    const size_t each = team.items / team.units, rest = team.items % team.units;
    return unit * each + xcvm_min(unit, rest);
}

static void run_range(uint32_t range, int threads, int thread)
{
    static const unsigned char FIRST[SHARE_RANGES + 1] = {0, 4, 6, 7, 8};
    size_t first = range, end = first + 1;
    if (team.units == (size_t)threads * SHARE_UNITS) {
        const uint32_t round = range / (uint32_t)threads, share = range % (uint32_t)threads;
        first = (size_t)share * SHARE_UNITS + FIRST[round];
        end = (size_t)share * SHARE_UNITS + FIRST[round + 1];
    }
    team.body(team.context, unit_begin(first), unit_begin(end), thread);
}

/* Claims and runs ranges of the open loop until none remains. The ranges that a thread runs in one loop form one span.
 */
static void run_ranges(int thread)
{
    xcvm_span *span = NULL;
    ticket seen = __atomic_load_n(&team.open, __ATOMIC_ACQUIRE);
    while (ticket_next(seen) < ticket_end(seen) && thread < ticket_threads(seen)) {
        if (!__atomic_compare_exchange_n(&team.open, &seen, seen + TICKET_NEXT, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE))
            continue;
        if (span == NULL)
            span = next_span(team.pool, thread);
        run_range(ticket_next(seen), ticket_threads(seen), thread);
        if (span != NULL)
            span->end_ns = xcvm_clock_ns();
        /* After the last range the caller may open the next loop. */
        const bool last = ticket_next(seen) + 1 == ticket_end(seen);
        __atomic_fetch_add(&team.done, 1, __ATOMIC_RELEASE);
        if (last)
            return;
        seen = __atomic_load_n(&team.open, __ATOMIC_ACQUIRE);
    }
}

/* ---- Workers ---- */

/* Functions for JavaScript (web/js/threads.js and thread.js). */
#define EXPORT(name) __attribute__((export_name(#name), used)) name

/* The main thread has started `count` workers. Pools that are created from now on use them. */
void EXPORT(xcvm_threads_set)(int count);
/* Runs ranges of loops as worker `number`, counted from 1. Returns the number of the latest loop if none follows for
 * some time; the worker then waits while the word at xcvm_thread_loops has that number, and calls again with it. `seen`
 * is 0 for the first call. JavaScript waits, because V8 11.3 loses locals of functions that contain
 * memory.atomic.wait32. */
uint32_t EXPORT(xcvm_thread_run)(int number, uint32_t seen);
uint32_t *EXPORT(xcvm_thread_loops)(void);
/* A worker has failed inside a range: the loop traps instead of waiting for it. */
void EXPORT(xcvm_thread_fail)(void);

void xcvm_threads_set(int count) { team.workers = count < MAX_THREADS ? count : MAX_THREADS - 1; }

void xcvm_thread_fail(void) { __atomic_store_n(&team.failed, true, __ATOMIC_RELEASE); }

/* Polls for another loop than number `seen`. Returns false if the worker should wait. */
static bool spin(uint32_t *seen)
{
    for (int polls = 0; polls < SPIN_POLLS; polls++) {
        const uint32_t loops = __atomic_load_n(&team.loops, __ATOMIC_ACQUIRE);
        if (loops != *seen) {
            *seen = loops;
            return true;
        }
    }
    return false;
}

uint32_t xcvm_thread_run(int number, uint32_t seen)
{
    if (seen != 0)
        __atomic_fetch_sub(&team.parked, 1, __ATOMIC_SEQ_CST);
    else
        seen = 1;
    while (spin(&seen))
        run_ranges(number);
    /* The caller of a loop checks for waiting workers after it changes `loops`, so either it notifies them or they do
     * not wait. */
    __atomic_fetch_add(&team.parked, 1, __ATOMIC_SEQ_CST);
    return seen;
}

uint32_t *xcvm_thread_loops(void) { return &team.loops; }

/* ---- Loops ---- */

static void run_loop(xcvm_threads *t, uint32_t ranges)
{
    __atomic_store_n(&team.done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&team.open, make_ticket(ranges, t->count), __ATOMIC_SEQ_CST);
    if (__atomic_add_fetch(&team.loops, 1, __ATOMIC_SEQ_CST) == 0)
        __atomic_store_n(&team.loops, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&team.parked, __ATOMIC_SEQ_CST) != 0)
        __builtin_wasm_memory_atomic_notify((int *)&team.loops, (unsigned)team.workers);
    run_ranges(0);
    while (__atomic_load_n(&team.done, __ATOMIC_ACQUIRE) != ranges)
        if (__atomic_load_n(&team.failed, __ATOMIC_RELAXED))
            __builtin_trap();
}

void xcvm_parallel(xcvm_threads *threads, size_t count, size_t grain, xcvm_range_body body, void *context)
{
    if (count == 0)
        return;
    const size_t most = grain == 0 ? count : count / grain, workers = (size_t)xcvm_threads_count(threads);
    /* A nested loop runs in place. */
    if (workers == 1 || most <= 1 || __atomic_exchange_n(&team.busy, true, __ATOMIC_ACQUIRE)) {
        run_in_place(threads, count, body, context);
        return;
    }
    team.body = body;
    team.context = context;
    team.items = count;
    team.units = xcvm_min(most, workers * SHARE_UNITS);
    team.pool = threads;
    run_loop(threads, (uint32_t)(team.units == workers * SHARE_UNITS ? workers * SHARE_RANGES : team.units));
    __atomic_store_n(&team.busy, false, __ATOMIC_RELEASE);
}

size_t xcvm_threads_record(xcvm_threads *threads, xcvm_span *buffer, size_t capacity)
{
    if (threads == NULL)
        return 0;
    const size_t written = xcvm_min(threads->span_count, threads->span_capacity);
    threads->spans = capacity != 0 ? buffer : NULL;
    threads->span_capacity = threads->spans != NULL ? capacity : 0;
    threads->span_count = 0;
    return written;
}
