/* The thread pool: work stealing over the ranges of one loop (docs/architecture/vm.md). Each thread owns a share of
 * contiguous items, so that a loop reuses what the previous loop left in its caches. A share is cut into ranges of a
 * half, a quarter and two eighths: few, because kernels have a cost per range, and small ones last. A thread takes
 * ranges from the front of its share, then from the back of others. The caller waits only for ranges that have begun. A
 * thread preempted inside a range migrates to the processor of a waiting thread. Idle workers spin, then yield, then
 * park. */
#include "base/threads.h"
#include "base/clock.h"
#include "base/denormals.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_WORKERS = 255,
    PARKED = -2,                 /* replaces the processor number */
    SPIN_NS = 40000,             /* time that an idle worker spins without yielding */
    YIELD_NS = 500000,           /* time after which an idle worker parks; it yields between polls */
    FRESH_NS = 10000000,         /* the same for a new pool, whose first loop probably comes soon */
    POLLS = 64,                  /* polls between two clock readings */
    WAIT_POLLS = 20000,          /* polls of unfinished ranges by the caller before it yields each time */
    RESCUE_NS = 20000,           /* interval at which a waiting caller checks whether workers are running */
    LOOPS_OF_A_TICKET = 1 << 30, /* number of loops after which old tickets are renewed */
    SHARE_UNITS = 8,             /* units per share, if the loop's grain allows */
    MIGRATE_NS = 200000          /* minimum time between migrations: the workers may have no other processor */
};

/* The remaining ranges [first, end) of a share and the loop's number, in one word, so that a range is never claimed for
 * another loop. A share that nobody has claimed from still has the ticket of an earlier loop, so opening a loop writes
 * to no other thread's cache lines. The ticket of the open loop has its number and its units, so a thread that sees the
 * number also sees the partition. */
typedef uint64_t ticket;
static ticket make_ticket(uint32_t loop, uint32_t first, uint32_t end)
{
    return (uint64_t)loop << 32 | (uint64_t)first << 16 | end;
}
static uint32_t ticket_loop(ticket t) { return (uint32_t)(t >> 32); }
static uint32_t ticket_first(ticket t) { return (uint32_t)(t >> 16 & 0xffff); }
static uint32_t ticket_end(ticket t) { return (uint32_t)(t & 0xffff); }

/* A thread of the pool; the first is the caller of the loop. It has cache lines of its own, because its thread writes
 * it for every range. */
struct member {
    ticket left;    /* atomic; remaining ranges of its share */
    bool inside;    /* atomic; it has an unfinished range of any share */
    bool migrating; /* atomic */
    pid_t id;       /* atomic; thread id of the system, 0: unknown */
    char padding[2 * XCVM_ALIGNMENT - 2 * sizeof(ticket)];
};

struct worker {
    xcvm_threads *pool;
    struct member *member;
    pthread_t thread;
    int place; /* atomic; processor that it last ran on, or PARKED */
    /* For the caller while it waits. */
    uint64_t ran_ns; /* CPU time of the thread at the last check, 0: not checked */
};

struct xcvm_threads {
    xcvm_allocator allocator;
    int count;
    pid_t owner;   /* process that the workers belong to */
    uint32_t busy; /* atomic: a loop is running */

    struct member *members; /* caller first, then workers */
    ticket open;            /* atomic; number and units of the open loop */
    /* The open loop. Written while no range remains; read by threads that have claimed a range. */
    xcvm_range_body body;
    void *context;
    size_t items;
    pthread_t caller; /* thread whose id members[0] has */
    char padding[XCVM_ALIGNMENT];
    uint32_t done; /* atomic; finished units of the open loop. Written by workers while others start */
    char more_padding[XCVM_ALIGNMENT];

    bool stopping;          /* atomic */
    bool flushes_denormals; /* atomic */
    int callers_place;      /* atomic; processor on which the pool was created or opened its latest loop */
    uint64_t migrate_at;    /* no worker migrates before this time */
    int worker_count;
    uint32_t parked; /* atomic, changed under the lock */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct worker *workers;

    xcvm_span *spans; /* NULL: not recording */
    size_t span_capacity;
    size_t span_count; /* atomic; may exceed the capacity */
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

/* Returns the next span to record; NULL if recording is off or the buffer is full. */
static xcvm_span *next_span(xcvm_threads *t, int worker)
{
    if (t == NULL || t->spans == NULL)
        return NULL;
    const size_t slot = __atomic_fetch_add(&t->span_count, 1, __ATOMIC_RELAXED);
    if (slot >= t->span_capacity)
        return NULL;
    t->spans[slot] = (xcvm_span){.worker = worker, .start_ns = xcvm_clock_ns()};
    return &t->spans[slot];
}

static void run_in_place(xcvm_threads *threads, size_t count, xcvm_range_body body, void *context)
{
    xcvm_span *span = next_span(threads, 0);
    body(context, 0, count, 0);
    if (span != NULL)
        span->end_ns = xcvm_clock_ns();
}

/* First unit of a share of the loop `open`. */
static size_t share_begin(const xcvm_threads *t, ticket open, int share)
{
    return (size_t)share * ticket_end(open) / (size_t)t->count;
}

/* First unit of a range in a share of `units` units. Each range is half of the remaining units. */
static size_t range_begin(size_t units, uint32_t range)
{
    size_t left = units;
    for (uint32_t i = 0; i < range; i++)
        left /= 2;
    return units - left;
}

static uint32_t range_count(size_t units)
{
    uint32_t count = 0;
    for (; units > 0; units /= 2)
        count++;
    return count;
}

/* First item of a unit. Units differ by at most one item. */
static size_t unit_begin(const xcvm_threads *t, ticket open, size_t unit)
{
    const size_t units = ticket_end(open), each = t->items / units, rest = t->items % units;
    return unit * each + xcvm_min(unit, rest);
}

/* Claims a range of the loop `open` from the front of the thread's own share or the back of another share of `units`
 * units. The ticket belongs to that loop, an earlier one, or, if this thread is late, a later one. A loop ends only
 * when every nonempty share has a ticket of it, so a late thread claims nothing of an earlier loop. */
static bool claim(struct member *member, ticket open, size_t units, bool own, uint32_t *range)
{
    const uint32_t loop = ticket_loop(open), count = range_count(units);
    ticket seen = __atomic_load_n(&member->left, __ATOMIC_ACQUIRE);
    for (;;) {
        const int32_t behind = (int32_t)(loop - ticket_loop(seen));
        const uint32_t first = behind > 0 ? 0 : ticket_first(seen), end = behind > 0 ? count : ticket_end(seen);
        if (behind < 0 || first >= end)
            return false;
        const ticket rest = make_ticket(loop, own ? first + 1 : first, own ? end : end - 1);
        *range = own ? first : end - 1;
        if (__atomic_compare_exchange_n(&member->left, &seen, rest, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return true;
    }
}

/* Claims and runs ranges of a share until none remains. Returns the units in them. */
static uint32_t run_share(xcvm_threads *t, ticket open, int share, int thread, xcvm_span **span)
{
    const size_t first = share_begin(t, open, share), units = share_begin(t, open, share + 1) - first;
    const bool own = share == thread;
    uint32_t range, done = 0;
    while (claim(&t->members[share], open, units, own, &range)) {
        const size_t begin = range_begin(units, range), end = range_begin(units, range + 1);
        if (*span == NULL)
            *span = next_span(t, thread);
        t->body(t->context, unit_begin(t, open, first + begin), unit_begin(t, open, first + end), thread);
        if (*span != NULL)
            (*span)->end_ns = xcvm_clock_ns();
        done += (uint32_t)(end - begin);
    }
    return done;
}

/* Runs ranges of the loop `open`, its own share first. All ranges that a thread runs in one loop form one span. */
static void run_ranges(xcvm_threads *t, ticket open, int thread)
{
    bool *const inside = &t->members[thread].inside;
    xcvm_span *span = NULL;
    __atomic_store_n(inside, true, __ATOMIC_RELAXED);
    for (int i = 0; i < t->count; i++) {
        const uint32_t done = run_share(t, open, (thread + i) % t->count, thread, &span);
        if (done > 0)
            __atomic_fetch_add(&t->done, done, __ATOMIC_RELEASE);
    }
    __atomic_store_n(inside, false, __ATOMIC_RELAXED);
}

/* ---- Workers ---- */

static bool nothing_new(const xcvm_threads *t, ticket seen)
{
    return __atomic_load_n(&t->open, __ATOMIC_SEQ_CST) == seen && !__atomic_load_n(&t->stopping, __ATOMIC_ACQUIRE);
}

/* The processor number is read often and changes rarely. Avoiding writes keeps it in the caches of other threads. */
static void publish_place(int *place, int processor)
{
    if (__atomic_load_n(place, __ATOMIC_RELAXED) != processor)
        __atomic_store_n(place, processor, __ATOMIC_RELAXED);
}

static void park(struct worker *w, ticket seen)
{
    xcvm_threads *t = w->pool;
    pthread_mutex_lock(&t->lock);
    publish_place(&w->place, PARKED);
    __atomic_fetch_add(&t->parked, 1, __ATOMIC_SEQ_CST);
    /* The caller checks for parked workers after it opens a loop, so either this check or that one sees the other
     * thread. */
    while (nothing_new(t, seen))
        pthread_cond_wait(&t->wake, &t->lock);
    __atomic_fetch_sub(&t->parked, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&t->lock);
}

/* Moves a thread to a processor, or to any other one, and then restores its affinity. Two threads must not do this at
 * the same time: the second would save the temporary affinity mask of the first as the original. */
static void migrate(struct member *m, int processor, bool there)
{
    cpu_set_t allowed, wanted;
    const pid_t id = __atomic_load_n(&m->id, __ATOMIC_RELAXED);
    if (id == 0 || processor < 0 || processor >= CPU_SETSIZE ||
        __atomic_exchange_n(&m->migrating, true, __ATOMIC_ACQUIRE))
        return;
    if (sched_getaffinity(id, sizeof allowed, &allowed) == 0) {
        if (there) {
            CPU_ZERO(&wanted);
            if (CPU_ISSET((size_t)processor, &allowed))
                CPU_SET((size_t)processor, &wanted);
        } else {
            wanted = allowed;
            CPU_CLR((size_t)processor, &wanted);
        }
        if (CPU_COUNT(&wanted) != 0 && sched_setaffinity(id, sizeof wanted, &wanted) == 0)
            sched_setaffinity(id, sizeof allowed, &allowed);
    }
    __atomic_store_n(&m->migrating, false, __ATOMIC_RELEASE);
}

/* A new thread often starts on its creator's processor. Two threads that share one and yield to each other can stay
 * there for tens of milliseconds. */
static void leave_caller(struct worker *w)
{
    int here = sched_getcpu();
    if (here == __atomic_load_n(&w->pool->callers_place, __ATOMIC_RELAXED)) {
        migrate(w->member, here, false);
        here = sched_getcpu();
    }
    publish_place(&w->place, here);
}

/* ---- Preemption ---- */

/* CPU time of a thread, 0 if not available. The clock is derived from the kernel's thread id
 * (include/linux/posix-timers.h, MAKE_THREAD_CPUCLOCK), because a caller's thread may have ended. */
static uint64_t time_run(const struct member *m)
{
    const pid_t id = __atomic_load_n(&m->id, __ATOMIC_RELAXED);
    const clockid_t clock = (clockid_t)(~(unsigned)id << 3 | 6);
    struct timespec ran;
    if (id == 0 || clock_gettime(clock, &ran) != 0)
        return 0;
    return (uint64_t)ran.tv_sec * 1000000000u + (uint64_t)ran.tv_nsec;
}

/* Returns true if a thread is inside a range and has not run since the last check, which *ran_ns records. */
static bool is_preempted(const struct member *m, uint64_t *ran_ns)
{
    const uint64_t before = *ran_ns;
    *ran_ns = __atomic_load_n(&m->inside, __ATOMIC_RELAXED) ? time_run(m) : 0;
    return *ran_ns != 0 && *ran_ns == before;
}

/* Migrates workers that were preempted inside a range to the caller's processor: other processes occupy theirs for
 * milliseconds, and the caller only waits. Returns true if there were any. */
static bool rescue_workers(xcvm_threads *t)
{
    const int here = sched_getcpu();
    bool any = false;
    for (int i = 0; i < t->worker_count; i++)
        if (is_preempted(t->workers[i].member, &t->workers[i].ran_ns)) {
            migrate(t->workers[i].member, here, true);
            any = true;
        }
    return any;
}

/* The same for a preempted caller, which the loop and the worker wait for. The worker moves to another processor. */
static void rescue_caller(struct worker *w, uint64_t *ran_ns)
{
    if (!is_preempted(&w->pool->members[0], ran_ns))
        return;
    const int here = sched_getcpu();
    migrate(&w->pool->members[0], here, true);
    publish_place(&w->pool->callers_place, here);
    leave_caller(w);
}

/* Spins for the next loop. Returns false if the worker should park. */
static bool spin(struct worker *w, ticket seen, uint64_t yield_ns)
{
    xcvm_threads *t = w->pool;
    const uint64_t begin = xcvm_clock_ns();
    uint64_t asked = begin, caller_ran_ns = 0;
    while (nothing_new(t, seen)) {
        for (int i = 0; i < POLLS && nothing_new(t, seen); i++)
            pause_briefly();
        const uint64_t now = xcvm_clock_ns();
        if (now - begin > yield_ns)
            return false;
        if (now - asked > RESCUE_NS) {
            asked = now;
            rescue_caller(w, &caller_ran_ns);
        }
        if (now - begin > SPIN_NS) {
            sched_yield();
            leave_caller(w);
        }
    }
    return true;
}

static void *run_worker(void *context)
{
    struct worker *w = context;
    xcvm_threads *t = w->pool;
    __atomic_store_n(&w->member->id, gettid(), __ATOMIC_RELAXED);
    const uint64_t born = xcvm_clock_ns();
    ticket seen = 0;
    while (!__atomic_load_n(&t->stopping, __ATOMIC_ACQUIRE)) {
        leave_caller(w);
        if (!spin(w, seen, xcvm_clock_ns() - born < FRESH_NS ? FRESH_NS : YIELD_NS))
            park(w, seen);
        seen = __atomic_load_n(&t->open, __ATOMIC_ACQUIRE);
        xcvm_denormals_set(__atomic_load_n(&t->flushes_denormals, __ATOMIC_RELAXED));
        run_ranges(t, seen, (int)(w->member - t->members));
    }
    return NULL;
}

/* Blocks signals for new workers, which inherit the creator's mask: signals to the process belong to the host's
 * threads. Synchronous signals and a profiler's clock are not blocked. Returns the previous mask. */
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

/* Starts as many workers as the system allows. Without workers the caller runs everything. */
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
        *w = (struct worker){.pool = t, .member = &t->members[t->worker_count + 1], .place = t->callers_place};
        if (pthread_create(&w->thread, NULL, run_worker, w) != 0)
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
    created->members = xcvm_allocate_zeroed(allocator, (size_t)count * sizeof *created->members);
    if (created->members == NULL) {
        xcvm_threads_destroy(created);
        return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for a thread pool");
    }
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

/* Starts new workers in a forked process, which has none and whose lock is in an unknown state. */
static void start_after_fork(xcvm_threads *t)
{
    xcvm_deallocate(&t->allocator, t->workers, (size_t)(t->count - 1) * sizeof *t->workers);
    t->worker_count = 0;
    t->parked = 0;
    /* The latest loop has no ranges left: new workers see it first. */
    for (int i = 0; i < t->count; i++)
        t->members[i] = (struct member){.left = make_ticket(ticket_loop(t->open), 0, 0)};
    t->owner = getpid();
    start(t);
}

void xcvm_threads_destroy(xcvm_threads *threads)
{
    if (threads == NULL)
        return;
    if (threads->workers != NULL) {
        /* After a fork there are no threads to join. */
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
    xcvm_deallocate(&allocator, threads->members, (size_t)threads->count * sizeof *threads->members);
    xcvm_deallocate(&allocator, threads, sizeof *threads);
}

/* ---- Loops ---- */

/* A worker that was last on the caller's processor and is not parked waits until the scheduler preempts the caller,
 * which takes milliseconds. */
static void migrate_waiting_workers(xcvm_threads *t)
{
    const int here = sched_getcpu();
    uint64_t now = 0;
    publish_place(&t->callers_place, here);
    for (int i = 0; i < t->worker_count; i++) {
        struct worker *w = &t->workers[i];
        if (__atomic_load_n(&w->place, __ATOMIC_RELAXED) != here)
            continue;
        if (now == 0) {
            now = xcvm_clock_ns();
            if (now < t->migrate_at)
                return;
            t->migrate_at = now + MIGRATE_NS;
        }
        migrate(w->member, here, false);
    }
}

/* After half of all loop numbers an old ticket would compare as a future one. */
static void renew_tickets(xcvm_threads *t, uint32_t loop)
{
    for (int i = 0; i < t->count; i++)
        __atomic_store_n(&t->members[i].left, make_ticket(loop - 1, 0, 0), __ATOMIC_RELEASE);
}

static ticket open_loop(xcvm_threads *t, uint32_t units)
{
    const uint32_t loop = ticket_loop(__atomic_load_n(&t->open, __ATOMIC_RELAXED)) + 1;
    const ticket open = make_ticket(loop, 0, units);
    if (!pthread_equal(t->caller, pthread_self()) || t->members[0].id == 0) {
        t->caller = pthread_self();
        __atomic_store_n(&t->members[0].id, gettid(), __ATOMIC_RELAXED);
    }
    __atomic_store_n(&t->done, 0, __ATOMIC_RELAXED);
    if (loop % LOOPS_OF_A_TICKET == 0)
        renew_tickets(t, loop);
    __atomic_store_n(&t->open, open, __ATOMIC_SEQ_CST);
    migrate_waiting_workers(t);
    if (__atomic_load_n(&t->parked, __ATOMIC_SEQ_CST) != 0) {
        pthread_mutex_lock(&t->lock);
        pthread_cond_broadcast(&t->wake);
        pthread_mutex_unlock(&t->lock);
    }
    return open;
}

/* Waits until all units are finished. */
static void wait_for_workers(xcvm_threads *t, uint32_t units)
{
    uint64_t asked = 0;
    for (int polls = 0; __atomic_load_n(&t->done, __ATOMIC_ACQUIRE) != units; polls++) {
        pause_briefly();
        if (polls % POLLS != POLLS - 1)
            continue;
        const uint64_t now = xcvm_clock_ns();
        if (asked == 0) {
            for (int i = 0; i < t->worker_count; i++)
                t->workers[i].ran_ns = 0;
            asked = now;
        } else if (now - asked >= RESCUE_NS) {
            asked = now;
            if (rescue_workers(t) || polls >= WAIT_POLLS)
                sched_yield();
        }
    }
}

static void run_loop(xcvm_threads *t, uint32_t units)
{
    run_ranges(t, open_loop(t, units), 0);
    wait_for_workers(t, units);
}

void xcvm_parallel(xcvm_threads *threads, size_t count, size_t grain, xcvm_range_body body, void *context)
{
    if (count == 0)
        return;
    const size_t most = grain == 0 ? count : count / grain, workers = (size_t)xcvm_threads_count(threads);
    /* A nested loop, or a concurrent loop of another thread, runs in place. */
    if (workers == 1 || most <= 1 || __atomic_exchange_n(&threads->busy, 1, __ATOMIC_ACQUIRE) != 0) {
        run_in_place(threads, count, body, context);
        return;
    }
    if (threads->owner != getpid())
        start_after_fork(threads);
    threads->body = body;
    threads->context = context;
    threads->items = count;
    run_loop(threads, (uint32_t)xcvm_min(most, workers * SHARE_UNITS));
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
