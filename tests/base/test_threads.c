/* Tests of the thread pool: every item once, nested loops, forks, late workers. */
#include "base/clock.h"
#include "base/threads.h"
#include "tests/support.h"

#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 800 };

typedef struct visits {
    uint32_t times[MOST];
    uint32_t ranges;
    int workers; /* greatest worker plus one */
    xcvm_threads *threads;
} visits;

static void visit(void *context, size_t begin, size_t end, int worker)
{
    visits *v = context;
    for (size_t i = begin; i < end; i++)
        __atomic_fetch_add(&v->times[i], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&v->ranges, 1, __ATOMIC_RELAXED);
    int seen = __atomic_load_n(&v->workers, __ATOMIC_RELAXED);
    while (worker >= seen &&
           !__atomic_compare_exchange_n(&v->workers, &seen, worker + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static void check_covered(const visits *v, size_t count)
{
    bool covered = true;
    for (size_t i = 0; i < MOST; i++)
        covered = covered && v->times[i] == (i < count);
    ck_assert(covered);
}

START_TEST(ranges_cover_all)
{
    for (int count = 1; count <= 5; count++) {
        xcvm_threads *threads;
        ck_assert_int_eq(xcvm_threads_create(NULL, count, &threads, NULL), XCVM_OK);
        ck_assert_int_eq(xcvm_threads_count(threads), count);
        const size_t grains[] = {0, 1, 3, 100, MOST, 2 * MOST};
        for (size_t n = 0; n <= MOST; n = n * 3 + 1)
            for (size_t g = 0; g < 6; g++) {
                visits v = {.ranges = 0};
                xcvm_parallel(threads, n, grains[g], visit, &v);
                check_covered(&v, n);
                ck_assert_int_le(v.workers, count);
                if (n > 0 && grains[g] > 0)
                    ck_assert_uint_le(v.ranges, n / grains[g] + 1);
            }
        xcvm_threads_destroy(threads);
    }
    visits v = {.ranges = 0};
    xcvm_parallel(NULL, 10, 1, visit, &v);
    check_covered(&v, 10);
    ck_assert_int_eq(xcvm_threads_count(NULL), 1);
    xcvm_threads_destroy(NULL);
    xcvm_threads *none;
    ck_assert_int_eq(xcvm_threads_create(NULL, 0, &none, NULL), XCVM_INVALID_ARGUMENT);
}
END_TEST

static void nest(void *context, size_t begin, size_t end, int worker)
{
    visits *v = context;
    for (size_t i = begin; i < end; i++) {
        visits inner = {.ranges = 0};
        xcvm_parallel(v->threads, 100, 1, visit, &inner);
        check_covered(&inner, 100);
    }
    visit(context, begin, end, worker);
}

/* Some loops have items for some shares only. The ticket that a late worker has read must not be valid for another
 * loop. */
START_TEST(loops_of_changing_sizes)
{
    enum { LOOPS = 20000, THREADS = 5 };
    xcvm_threads *threads;
    ck_assert_int_eq(xcvm_threads_create(NULL, THREADS, &threads, NULL), XCVM_OK);
    visits v = {.ranges = 0};
    bool right = true;
    uint32_t expected[8 * THREADS] = {0};
    for (size_t loop = 0; loop < LOOPS; loop++) {
        const size_t count = 2 + loop * 7 % (8 * THREADS - 1);
        xcvm_parallel(threads, count, 1, visit, &v);
        for (size_t i = 0; i < count; i++)
            right = right && __atomic_load_n(&v.times[i], __ATOMIC_RELAXED) == ++expected[i];
    }
    ck_assert(right);
    xcvm_threads_destroy(threads);
}
END_TEST

START_TEST(loops_in_loops)
{
    visits v = {.ranges = 0};
    ck_assert_int_eq(xcvm_threads_create(NULL, 3, &v.threads, NULL), XCVM_OK);
    xcvm_parallel(v.threads, 50, 1, nest, &v);
    check_covered(&v, 50);
    xcvm_threads_destroy(v.threads);
}
END_TEST

static void *loop_beside(void *context)
{
    visits v = {.ranges = 0};
    for (int i = 0; i < 200; i++) {
        memset(&v, 0, sizeof v);
        xcvm_parallel(context, 100, 1, visit, &v);
        check_covered(&v, 100);
    }
    return NULL;
}

START_TEST(loops_of_two_threads)
{
    xcvm_threads *threads;
    pthread_t other;
    ck_assert_int_eq(xcvm_threads_create(NULL, 2, &threads, NULL), XCVM_OK);
    ck_assert_int_eq(pthread_create(&other, NULL, loop_beside, threads), 0);
    loop_beside(threads);
    pthread_join(other, NULL);
    xcvm_threads_destroy(threads);
}
END_TEST

typedef struct masks {
    pthread_t caller;
    uint32_t begun; /* atomic */
    bool blocked, own_faults;
} masks;

static void look_at_mask(void *context, size_t begin, size_t end, int worker)
{
    masks *m = context;
    (void)begin;
    (void)end;
    (void)worker;
    /* Neither of two ranges ends before the other has begun, so that two threads take one each. */
    __atomic_fetch_add(&m->begun, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&m->begun, __ATOMIC_ACQUIRE) < 2)
        sched_yield();
    sigset_t set;
    if (pthread_equal(pthread_self(), m->caller) || pthread_sigmask(SIG_SETMASK, NULL, &set) != 0)
        return;
    m->blocked = sigismember(&set, SIGUSR1) == 1 && sigismember(&set, SIGINT) == 1 && sigismember(&set, SIGALRM) == 1;
    m->own_faults = sigismember(&set, SIGSEGV) == 0 && sigismember(&set, SIGPROF) == 0;
}

START_TEST(signals_are_the_callers)
{
    xcvm_threads *threads;
    sigset_t set;
    masks m = {.caller = pthread_self()};
    ck_assert_int_eq(xcvm_threads_create(NULL, 2, &threads, NULL), XCVM_OK);
    xcvm_parallel(threads, 2, 1, look_at_mask, &m);
    ck_assert(m.blocked && m.own_faults);
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &set), 0);
    ck_assert_int_eq(sigismember(&set, SIGUSR1), 0);
    xcvm_threads_destroy(threads);
}
END_TEST

#if !TEST_THREAD_SANITIZER
/* Threads of this process. */
static int thread_count(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(tasks);
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

START_TEST(after_a_fork)
{
    visits v = {.ranges = 0};
    xcvm_threads *threads;
    ck_assert_int_eq(xcvm_threads_create(NULL, 2, &threads, NULL), XCVM_OK);
    /* The worker has begun: starting, it may hold the lock of the address sanitizer's allocator, which a child keeps.
     */
    masks m = {.caller = pthread_self()};
    xcvm_parallel(threads, 2, 1, look_at_mask, &m);
    xcvm_parallel(threads, 100, 1, visit, &v);
    pid_t child = fork();
    if (child == 0) {
        /* The parent's threads are not here: the pool starts its own. */
        alarm(10);
        bool all = true;
        for (int loop = 0; loop < 100; loop++) {
            memset(&v, 0, sizeof v);
            xcvm_parallel(threads, 100, 1, visit, &v);
            for (size_t i = 0; i < 100; i++)
                all = all && v.times[i] == 1;
        }
        const bool two = thread_count() >= 2;
        xcvm_threads_destroy(threads);
        _exit(!all ? 1 : !two ? 2 : 0);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    xcvm_threads_destroy(threads);
}
END_TEST
#endif

typedef struct places {
    pthread_t caller;
    const cpu_set_t *allowed; /* processors that the worker may use again */
    uint32_t begun;           /* atomic */
    int workers_processor;
    cpu_set_t workers_set;
} places;

static void look_at_place(void *context, size_t begin, size_t end, int worker)
{
    places *p = context;
    (void)begin;
    (void)end;
    (void)worker;
    __atomic_fetch_add(&p->begun, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&p->begun, __ATOMIC_ACQUIRE) < 2)
        sched_yield();
    if (pthread_equal(pthread_self(), p->caller))
        return;
    p->workers_processor = sched_getcpu();
    /* The thread that moves the worker may be in the middle of it. */
    for (int tries = 0; tries < 1000; tries++) {
        ck_assert_int_eq(sched_getaffinity(0, sizeof p->workers_set, &p->workers_set), 0);
        if (CPU_EQUAL(&p->workers_set, p->allowed))
            break;
        usleep(1000);
    }
}

/* A worker is moved from the processor that the caller comes to, and may go everywhere again afterwards. */
START_TEST(a_worker_in_the_callers_way)
{
    cpu_set_t allowed;
    xcvm_threads *threads;
    ck_assert_int_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    ck_assert_int_eq(xcvm_threads_create(NULL, 2, &threads, NULL), XCVM_OK);
    places p = {.caller = pthread_self(), .allowed = &allowed};
    for (int i = 0; i < 100; i++) {
        p.begun = 0;
        xcvm_parallel(threads, 2, 1, look_at_place, &p);
        ck_assert(CPU_EQUAL(&p.workers_set, &allowed));
        cpu_set_t here;
        CPU_ZERO(&here);
        CPU_SET((size_t)p.workers_processor, &here);
        ck_assert_int_eq(sched_setaffinity(0, sizeof here, &here), 0);
    }
    ck_assert_int_eq(sched_setaffinity(0, sizeof allowed, &allowed), 0);
    xcvm_threads_destroy(threads);
}
END_TEST

typedef struct meeting {
    uint32_t begun; /* atomic */
    pthread_t caller;
    useconds_t hold; /* how long the worker sleeps inside its range */
} meeting;

/* Neither of two ranges ends before the other has begun, so that two threads take one each. */
static void meet(void *context, size_t begin, size_t end, int worker)
{
    meeting *m = context;
    (void)begin;
    (void)end;
    (void)worker;
    __atomic_fetch_add(&m->begun, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&m->begun, __ATOMIC_ACQUIRE) < 2)
        sched_yield();
    if (m->hold != 0 && !pthread_equal(pthread_self(), m->caller))
        usleep(m->hold);
}

/* A worker that is preempted inside a range is moved to the caller's processor, and may use all processors
 * afterwards. */
START_TEST(a_worker_that_is_held_up)
{
    cpu_set_t allowed;
    xcvm_threads *threads;
    ck_assert_int_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    ck_assert_int_eq(xcvm_threads_create(NULL, 2, &threads, NULL), XCVM_OK);
    for (int i = 0; i < 20; i++) {
        meeting m = {.caller = pthread_self(), .hold = 1000};
        xcvm_parallel(threads, 2, 1, meet, &m);
        ck_assert_uint_eq(m.begun, 2);
        places p = {.caller = pthread_self(), .allowed = &allowed};
        xcvm_parallel(threads, 2, 1, look_at_place, &p);
        ck_assert(CPU_EQUAL(&p.workers_set, &allowed));
    }
    xcvm_threads_destroy(threads);
}
END_TEST

typedef struct hoard {
    visits v;
    size_t most;   /* atomic; items of the largest range */
    uint32_t held; /* atomic */
} hoard;

/* The first range of a loop stays open until all other items are done. */
static void hold_first(void *context, size_t begin, size_t end, int worker)
{
    hoard *h = context;
    visit(&h->v, begin, end, worker);
    size_t most = __atomic_load_n(&h->most, __ATOMIC_RELAXED);
    while (end - begin > most &&
           !__atomic_compare_exchange_n(&h->most, &most, end - begin, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    __atomic_fetch_add(&h->held, (uint32_t)(end - begin), __ATOMIC_ACQ_REL);
    if (begin == 0)
        while (__atomic_load_n(&h->held, __ATOMIC_ACQUIRE) < MOST)
            sched_yield();
}

/* The rest of a thread's share is executed by others while the thread is in a range. The largest range of two threads
 * is a quarter of the loop. */
START_TEST(others_take_what_is_left)
{
    xcvm_threads *threads;
    ck_assert_int_eq(xcvm_threads_create(NULL, 2, &threads, NULL), XCVM_OK);
    for (int i = 0; i < 20; i++) {
        hoard h = {.most = 0};
        xcvm_parallel(threads, MOST, 1, hold_first, &h);
        check_covered(&h.v, MOST);
        ck_assert_uint_eq(h.most, MOST / 4);
        ck_assert_uint_eq(h.v.ranges, 8);
    }
    xcvm_threads_destroy(threads);
}
END_TEST

/* A span is the part of a loop that a thread executed. */
START_TEST(spans)
{
    visits v = {.ranges = 0};
    xcvm_threads *threads;
    xcvm_span buffer[3];
    ck_assert_int_eq(xcvm_threads_create(NULL, 2, &threads, NULL), XCVM_OK);
    xcvm_parallel(threads, 100, 1, visit, &v);
    ck_assert_uint_eq(xcvm_threads_record(threads, buffer, 3), 0);
    xcvm_parallel(threads, 2, 1, meet, &(meeting){.begun = 0});
    ck_assert_uint_eq(xcvm_threads_record(threads, buffer, 3), 2);
    ck_assert_int_ne(buffer[0].worker, buffer[1].worker);
    ck_assert_uint_le(buffer[0].start_ns, buffer[0].end_ns);
    xcvm_parallel(threads, 100, 1, visit, &v);
    const size_t count = xcvm_threads_record(threads, buffer, 3);
    ck_assert(count == 1 || count == 2);
    xcvm_parallel(threads, 2, 1, meet, &(meeting){.begun = 0});
    xcvm_parallel(threads, 2, 1, meet, &(meeting){.begun = 0});
    ck_assert_uint_eq(xcvm_threads_record(threads, NULL, 0), 3);
    xcvm_parallel(threads, 100, 1, visit, &v);
    ck_assert_uint_eq(xcvm_threads_record(threads, NULL, 0), 0);
    ck_assert_uint_eq(xcvm_threads_record(NULL, buffer, 3), 0);
    xcvm_threads_destroy(threads);
}
END_TEST

START_TEST(processors_and_clock)
{
    ck_assert_int_ge(xcvm_available_thread_count(), 1);
    ck_assert_int_le(xcvm_available_thread_count(), (int)sysconf(_SC_NPROCESSORS_CONF));
    uint64_t before = xcvm_clock_ns();
    ck_assert_uint_gt(before, 0);
    ck_assert_uint_ge(xcvm_clock_ns(), before);
}
END_TEST

Suite *suite_base_threads(void);
Suite *suite_base_threads(void)
{
    Suite *suite = suite_create("base_threads");
    TCase *tests = tcase_create("threads");
    tcase_add_test(tests, ranges_cover_all);
    tcase_add_test(tests, loops_of_changing_sizes);
    tcase_add_test(tests, loops_in_loops);
    tcase_add_test(tests, loops_of_two_threads);
    tcase_add_test(tests, signals_are_the_callers);
    tcase_add_test(tests, a_worker_in_the_callers_way);
    tcase_add_test(tests, a_worker_that_is_held_up);
    tcase_add_test(tests, others_take_what_is_left);
    tcase_add_test(tests, spans);
    tcase_add_test(tests, processors_and_clock);
    suite_add_tcase(suite, tests);
#if !TEST_THREAD_SANITIZER
    /* By itself, so that it can be left out where threads are emulated. */
    TCase *forks = tcase_create("forks");
    tcase_set_tags(forks, "fork");
    tcase_add_test(forks, after_a_fork);
    suite_add_tcase(suite, forks);
#endif
    return suite;
}
