/* The pool. A loop is cut into one range for each thread. The caller takes ranges like any other thread and waits only
 * for those that somebody has begun: a worker that is late, because the machine is busy with something else, is not
 * waited for, its range is done by whoever is there. Workers look out for the next loop for a while, soon offering the
 * processor to others between the looks, and then sleep, so that a pool costs nothing while nothing runs. */
#include "base/threads.h"
#include "base/clock.h"
#include "base/denormals.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

enum {
    MAX_WORKERS = 255,
    ASLEEP = -2,         /* in place of a processor */
    WATCH_NS = 40000,    /* how long an idle worker looks out with the processor to itself */
    LINGER_NS = 500000,  /* and how long in all before it sleeps, offering the processor to others between the looks */
    FRESH_NS = 10000000, /* the same for a new pool, whose first loop is likely to come soon */
    POLLS = 64,          /* looks between two looks at the clock */
    WAIT_POLLS = 20000,  /* looks of the caller at unfinished ranges before it yields the processor each time */
    DISPLACE_NS = 200000 /* how long after displacing workers none is displaced: they may have nowhere else to go */
};

/* The loop that is open: its number, and the next range and the count of ranges, in one word, so that a range is
 * claimed for no other loop than the one seen. */
typedef uint64_t ticket;
static ticket make_ticket(uint32_t loop, uint32_t next, uint32_t ranges)
{
    return (uint64_t)loop << 32 | (uint64_t)next << 16 | ranges;
}
static uint32_t ticket_loop(ticket t) { return (uint32_t)(t >> 32); }
static uint32_t ticket_next(ticket t) { return (uint32_t)(t >> 16 & 0xffff); }
static uint32_t ticket_ranges(ticket t) { return (uint32_t)(t & 0xffff); }

struct worker {
    xcvm_threads *pool;
    pthread_t thread;
    int place;       /* atomic; the processor that it last saw itself on, or ASLEEP */
    bool displacing; /* atomic */
};

struct xcvm_threads {
    xcvm_allocator allocator;
    int count;
    pid_t owner;   /* the process that the workers belong to */
    uint32_t busy; /* atomic: a loop is running */

    ticket open;   /* atomic */
    uint32_t done; /* atomic; ranges of the open loop that are finished */
    /* The open loop. Written while no range is open, read by whoever has claimed one. */
    xcvm_range_body body;
    void *context;
    size_t items, chunk;

    bool stopping;          /* atomic */
    bool flushes_denormals; /* atomic */
    int callers_place;      /* atomic; the processor that the pool was created on or opened its latest loop on */
    uint64_t displace_at;   /* no worker is displaced before this time */
    int worker_count;
    uint32_t sleepers; /* atomic, changed under the lock */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct worker *workers;

    xcvm_span *spans; /* NULL: not recorded */
    size_t span_capacity;
    size_t span_count; /* atomic; may count past the capacity */
};

static inline void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int xcvm_threads_count(const xcvm_threads *threads) { return threads != NULL ? threads->count : 1; }

/* ---- Ranges ---- */

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

/* Claims and runs ranges of the open loop until none is left. There is one range for each thread at most, so that the
 * range's index can stand for the worker. */
static void run_ranges(xcvm_threads *t)
{
    ticket open = __atomic_load_n(&t->open, __ATOMIC_ACQUIRE);
    while (ticket_next(open) < ticket_ranges(open)) {
        const uint32_t index = ticket_next(open);
        const ticket claimed = make_ticket(ticket_loop(open), index + 1, ticket_ranges(open));
        if (!__atomic_compare_exchange_n(&t->open, &open, claimed, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            continue;
        const size_t begin = index * t->chunk;
        const size_t end = t->items - begin < t->chunk ? t->items : begin + t->chunk;
        run_range(t, begin, end, (int)index, t->body, t->context);
        __atomic_fetch_add(&t->done, 1, __ATOMIC_RELEASE);
        open = __atomic_load_n(&t->open, __ATOMIC_ACQUIRE);
    }
}

/* ---- Workers ---- */

static bool nothing_new(const xcvm_threads *t, uint32_t seen)
{
    return ticket_loop(__atomic_load_n(&t->open, __ATOMIC_SEQ_CST)) == seen &&
           !__atomic_load_n(&t->stopping, __ATOMIC_ACQUIRE);
}

/* Places are read by others often and change rarely: what is not written stays in their caches. */
static void settle(int *place, int processor)
{
    if (__atomic_load_n(place, __ATOMIC_RELAXED) != processor)
        __atomic_store_n(place, processor, __ATOMIC_RELAXED);
}

static void sleep_until_woken(struct worker *w, uint32_t seen)
{
    xcvm_threads *t = w->pool;
    pthread_mutex_lock(&t->lock);
    settle(&w->place, ASLEEP);
    __atomic_fetch_add(&t->sleepers, 1, __ATOMIC_SEQ_CST);
    /* Whoever opens a loop looks at the sleepers after opening it, so either this look or that one sees the other. */
    while (nothing_new(t, seen))
        pthread_cond_wait(&t->wake, &t->lock);
    __atomic_fetch_sub(&t->sleepers, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&t->lock);
}

/* Moves a worker to another processor than the one given, and lets it go where it likes from there. Not by two
 * threads at a time: one would take for the worker's own what the other has left of its processors. */
static void displace(struct worker *w, pthread_t thread, int processor)
{
    cpu_set_t allowed, others;
    if (processor < 0 || processor >= CPU_SETSIZE || __atomic_exchange_n(&w->displacing, true, __ATOMIC_ACQUIRE))
        return;
    if (pthread_getaffinity_np(thread, sizeof allowed, &allowed) == 0) {
        others = allowed;
        CPU_CLR((size_t)processor, &others);
        if (CPU_COUNT(&others) != 0 && pthread_setaffinity_np(thread, sizeof others, &others) == 0)
            pthread_setaffinity_np(thread, sizeof allowed, &allowed);
    }
    __atomic_store_n(&w->displacing, false, __ATOMIC_RELEASE);
}

/* A new thread often begins on its creator's processor, and two that share one and yield to each other can stay there
 * for dozens of milliseconds. */
static void leave_caller(struct worker *w)
{
    int here = sched_getcpu();
    if (here == __atomic_load_n(&w->pool->callers_place, __ATOMIC_RELAXED)) {
        displace(w, pthread_self(), here);
        here = sched_getcpu();
    }
    settle(&w->place, here);
}

static void *work(void *context)
{
    struct worker *w = context;
    xcvm_threads *t = w->pool;
    const uint64_t born = xcvm_clock_ns();
    uint32_t seen = 0;
    while (!__atomic_load_n(&t->stopping, __ATOMIC_ACQUIRE)) {
        leave_caller(w);
        const uint64_t begin = xcvm_clock_ns();
        const uint64_t linger = begin - born < FRESH_NS ? FRESH_NS : LINGER_NS;
        bool idle = true;
        while ((idle = nothing_new(t, seen))) {
            for (int i = 0; i < POLLS && nothing_new(t, seen); i++)
                pause_briefly();
            const uint64_t watched = xcvm_clock_ns() - begin;
            if (watched > linger)
                break;
            if (watched > WATCH_NS) {
                sched_yield();
                leave_caller(w);
            }
        }
        if (idle)
            sleep_until_woken(w, seen);
        seen = ticket_loop(__atomic_load_n(&t->open, __ATOMIC_ACQUIRE));
        xcvm_denormals_set(__atomic_load_n(&t->flushes_denormals, __ATOMIC_RELAXED));
        run_ranges(t);
    }
    return NULL;
}

/* What the process gets signals for is the host's business, on threads of the host's; only what a thread does to
 * itself, and a profiler's clock, reach the workers, which begin with their creator's mask. Returns that, for
 * unblocking. */
static sigset_t block_signals(void)
{
    static const int kept[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        sigdelset(&blocked, kept[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    return before;
}

/* Starts the workers, as many as can be had; without any the caller does everything. */
static void start(xcvm_threads *t)
{
    t->callers_place = sched_getcpu();
    t->workers = xcvm_allocate(&t->allocator, (size_t)(t->count - 1) * sizeof *t->workers);
    if (t->workers == NULL)
        return;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    const sigset_t before = block_signals();
    for (; t->worker_count < t->count - 1; t->worker_count++) {
        struct worker *w = &t->workers[t->worker_count];
        *w = (struct worker){.pool = t, .place = t->callers_place};
        if (pthread_create(&w->thread, NULL, work, w) != 0)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

xcvm_status xcvm_threads_create(const xcvm_allocator *allocator, int count, xcvm_threads **threads, xcvm_error *error)
{
    XCVM_CHECK(error, count >= 1, INVALID_ARGUMENT, "%d threads are not at least one", count);
    XCVM_CHECK(error, count <= MAX_WORKERS + 1, INVALID_ARGUMENT, "%d threads are more than %d", count,
               MAX_WORKERS + 1);
    xcvm_threads *created = xcvm_allocate_zeroed(allocator, sizeof *created);
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory for a thread pool");
    created->allocator = *xcvm_allocator_or_default(allocator);
    created->count = count;
    created->owner = getpid();
    if (count > 1)
        start(created);
    *threads = created;
    return XCVM_OK;
}

void xcvm_threads_flush_denormals(xcvm_threads *threads, bool flush)
{
    if (threads != NULL)
        __atomic_store_n(&threads->flushes_denormals, flush, __ATOMIC_RELAXED);
}

/* Starts workers of this process's own: those of the process that made the pool were left behind by a fork, with the
 * lock in whatever state they had it. */
static void start_after_fork(xcvm_threads *t)
{
    xcvm_deallocate(&t->allocator, t->workers, (size_t)(t->count - 1) * sizeof *t->workers);
    t->worker_count = 0;
    t->sleepers = 0;
    t->owner = getpid();
    start(t);
}

void xcvm_threads_destroy(xcvm_threads *threads)
{
    if (threads == NULL)
        return;
    if (threads->workers != NULL) {
        /* After a fork the threads that would be waited for do not exist. */
        if (threads->owner == getpid()) {
            __atomic_store_n(&threads->stopping, true, __ATOMIC_SEQ_CST);
            pthread_mutex_lock(&threads->lock);
            pthread_cond_broadcast(&threads->wake);
            pthread_mutex_unlock(&threads->lock);
            for (int i = 0; i < threads->worker_count; i++)
                pthread_join(threads->workers[i].thread, NULL);
            pthread_cond_destroy(&threads->wake);
            pthread_mutex_destroy(&threads->lock);
        }
        xcvm_deallocate(&threads->allocator, threads->workers, (size_t)(threads->count - 1) * sizeof *threads->workers);
    }
    xcvm_allocator allocator = threads->allocator;
    xcvm_deallocate(&allocator, threads, sizeof *threads);
}

/* ---- Loops ---- */

/* A worker that was last on the caller's processor and is not asleep waits there for the caller to be done, as long as
 * the scheduler lets the caller go on: milliseconds. */
static void displace_waiting_workers(xcvm_threads *t)
{
    const int here = sched_getcpu();
    uint64_t now = 0;
    settle(&t->callers_place, here);
    for (int i = 0; i < t->worker_count; i++) {
        struct worker *w = &t->workers[i];
        if (__atomic_load_n(&w->place, __ATOMIC_RELAXED) != here)
            continue;
        if (now == 0) {
            now = xcvm_clock_ns();
            if (now < t->displace_at)
                return;
            t->displace_at = now + DISPLACE_NS;
        }
        displace(w, w->thread, here);
    }
}

static void run_loop(xcvm_threads *t, uint32_t ranges)
{
    __atomic_store_n(&t->done, 0, __ATOMIC_RELAXED);
    const uint32_t loop = ticket_loop(__atomic_load_n(&t->open, __ATOMIC_RELAXED)) + 1;
    __atomic_store_n(&t->open, make_ticket(loop, 0, ranges), __ATOMIC_SEQ_CST);
    displace_waiting_workers(t);
    if (__atomic_load_n(&t->sleepers, __ATOMIC_SEQ_CST) != 0) {
        pthread_mutex_lock(&t->lock);
        pthread_cond_broadcast(&t->wake);
        pthread_mutex_unlock(&t->lock);
    }
    run_ranges(t);
    for (int polls = 0; __atomic_load_n(&t->done, __ATOMIC_ACQUIRE) != ranges; polls++) {
        if (polls < WAIT_POLLS)
            pause_briefly();
        else
            sched_yield();
    }
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
    const size_t chunk = (count + workers - 1) / workers, ranges = (count + chunk - 1) / chunk;
    /* A loop inside a loop, or beside one of another thread, runs in place. */
    const bool alone = __atomic_exchange_n(&threads->busy, 1, __ATOMIC_ACQUIRE) == 0;
    if (alone) {
        if (threads->owner != getpid())
            start_after_fork(threads);
        threads->body = body;
        threads->context = context;
        threads->items = count;
        threads->chunk = chunk;
        run_loop(threads, (uint32_t)ranges);
    } else {
        for (size_t i = 0; i < ranges; i++)
            run_range(threads, i * chunk, count - i * chunk < chunk ? count : (i + 1) * chunk, (int)i, body, context);
    }
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
