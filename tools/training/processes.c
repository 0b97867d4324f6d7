/* Open MPI, called through the functions and objects that its library exports (mpi.h defines its constants by these
 * objects). It makes progress only during calls. So one thread makes all calls and polls the pending sums, while the
 * process computes. If all processes are on one machine, MPI only distributes the name of their shared memory, and sums
 * are computed there. */
#include "training/processes.h"
#include "cli/memory.h"
#include "cli/report.h"
#include "training/shared_sums.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static const char file_name[] = "libmpi.so.40"; /* version 2 to 4 of Open MPI, as in Debian */

static struct {
    int (*init)(int *argc, char ***argv, int wanted, int *given);
    int (*finalize)(void);
    int (*comm_rank)(void *comm, int *rank);
    int (*comm_size)(void *comm, int *size);
    int (*all_reduce)(const void *from, void *to, int count, void *type, void *op, void *comm, void **request);
    int (*test_all)(int count, void **requests, int *done, void *statuses);
    int (*abort)(void *comm, int code);
    void *world, *f32, *f64, *sum;
} mpi;

/* MPI_IN_PLACE: the result replaces the operand; MPI_THREAD_FUNNELED: one thread makes all calls. */
static void *const in_place = (void *)1;
enum { FUNNELED = 1 };

typedef enum stage { ASKED, UNDER_WAY, DONE, FAILED } stage;

/* A sum. If the number of elements exceeds an int, it consists of several messages. */
struct sum {
    xcvm_dtype dtype;
    char *elements;
    size_t count, part_count;
    void **parts;
    stage stage;
    struct sum *next;
};

static struct {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed, advanced; /* signals for the thread; for waiting callers */
    /* Protected by the mutex. */
    struct sum *first, *last; /* pending sums, in order of their calls */
    int waiting;              /* a caller waits */
    bool begun, failed;       /* the library is ready, or has failed */
    bool leave, aborted;      /* request to the thread */
    bool broken;              /* a sum was abandoned: no sum makes progress any more */
    int rank, count, exit_code;
    pthread_mutex_t calling; /* held during calls of the library; locked after the other mutex */
} worker = {.mutex = PTHREAD_MUTEX_INITIALIZER,
            .changed = PTHREAD_COND_INITIALIZER,
            .advanced = PTHREAD_COND_INITIALIZER,
            .calling = PTHREAD_MUTEX_INITIALIZER};

/* ---- The library ---- */

static bool started_by_mpirun(void)
{
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    return size != NULL && atoi(size) > 1;
}

/* Processes of another MPI would train separately and write the same files. */
static xcvm_status check_other_launchers(xcvm_error *error)
{
    const char *size = getenv("PMI_SIZE");
    if (size == NULL || atoi(size) <= 1)
        return XCVM_OK;
    return error_set(error, XCVM_UNSUPPORTED,
                     "another mpirun than Open MPI's has started %d processes (PMI_SIZE is set). Start them by that of "
                     "Open MPI: Debian's openmpi-bin has mpirun.openmpi",
                     atoi(size));
}

/* dlsym returns functions as pointers to objects, for which C has no conversion. */
static bool find_function(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    *(void **)function = found;
    return found != NULL;
}

static bool find_all(void *library)
{
    mpi.world = dlsym(library, "ompi_mpi_comm_world");
    mpi.f32 = dlsym(library, "ompi_mpi_float");
    mpi.f64 = dlsym(library, "ompi_mpi_double");
    mpi.sum = dlsym(library, "ompi_mpi_op_sum");
    return find_function(library, "MPI_Init_thread", &mpi.init) &&
           find_function(library, "MPI_Finalize", &mpi.finalize) &&
           find_function(library, "MPI_Comm_rank", &mpi.comm_rank) &&
           find_function(library, "MPI_Comm_size", &mpi.comm_size) &&
           find_function(library, "MPI_Iallreduce", &mpi.all_reduce) &&
           find_function(library, "MPI_Testall", &mpi.test_all) && find_function(library, "MPI_Abort", &mpi.abort) &&
           mpi.world != NULL && mpi.f32 != NULL && mpi.f64 != NULL && mpi.sum != NULL;
}

/* ---- The thread ---- */

static bool start(struct sum *s)
{
    for (size_t i = 0; i < s->part_count; i++) {
        const size_t at = i * INT_MAX, left = s->count - at;
        if (mpi.all_reduce(in_place, s->elements + at * (size_t)xcvm_dtype_bits(s->dtype) / 8,
                           left < INT_MAX ? (int)left : INT_MAX, s->dtype == XCVM_F32 ? mpi.f32 : mpi.f64, mpi.sum,
                           mpi.world, &s->parts[i]) != 0)
            return false;
    }
    return true;
}

/* The next stage of a sum. Called without the mutex: the thread owns requested and running sums. */
static stage advance(struct sum *s)
{
    int done = 0;
    if (s->stage == ASKED && !start(s))
        return FAILED;
    if (mpi.test_all((int)s->part_count, s->parts, &done, NULL) != 0)
        return FAILED;
    return done != 0 ? DONE : UNDER_WAY;
}

/* Advances all sums in order. Returns true if one is finished. The mutex must be held. */
static bool advance_all(void)
{
    bool any = false;
    for (struct sum **link = &worker.first, *s; (s = *link) != NULL && !worker.broken;) {
        pthread_mutex_lock(&worker.calling);
        pthread_mutex_unlock(&worker.mutex);
        const stage reached = advance(s);
        pthread_mutex_unlock(&worker.calling);
        pthread_mutex_lock(&worker.mutex);
        s->stage = reached;
        if (reached == UNDER_WAY) {
            link = &s->next;
            continue;
        }
        any = true;
        *link = s->next;
        if (worker.last == s)
            worker.last = NULL;
    }
    /* Other sums may have been appended meanwhile. */
    for (struct sum *s = worker.first; s != NULL; s = s->next)
        worker.last = s;
    return any;
}

static struct timespec after(long ns)
{
    enum { SECOND_NS = 1000000000 };
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ns;
    until.tv_sec += until.tv_nsec / SECOND_NS;
    until.tv_nsec %= SECOND_NS;
    return until;
}

/* Yields the processor. The interval is short compared with a message of gradients, and long compared with a poll. */
static void rest(void)
{
    enum { INTERVAL_NS = 200000 };
    if (worker.waiting > 0) {
        pthread_mutex_unlock(&worker.mutex);
        sched_yield();
        pthread_mutex_lock(&worker.mutex);
        return;
    }
    const struct timespec until = after(INTERVAL_NS);
    pthread_cond_timedwait(&worker.changed, &worker.mutex, &until);
}

static void *communicate(void *user)
{
    int given, rank = 0, count = 0;
    (void)user;
    const bool good = mpi.init(NULL, NULL, FUNNELED, &given) == 0 && mpi.comm_rank(mpi.world, &rank) == 0 &&
                      mpi.comm_size(mpi.world, &count) == 0;
    pthread_mutex_lock(&worker.mutex);
    worker.rank = rank;
    worker.count = count;
    worker.begun = good;
    worker.failed = !good;
    pthread_cond_broadcast(&worker.advanced);
    while (good && !worker.leave) {
        if (worker.first == NULL || worker.broken)
            pthread_cond_wait(&worker.changed, &worker.mutex);
        else if (advance_all())
            pthread_cond_broadcast(&worker.advanced);
        else
            rest();
    }
    pthread_mutex_unlock(&worker.mutex);
    if (good && worker.aborted)
        mpi.abort(mpi.world, worker.exit_code);
    else if (good)
        mpi.finalize();
    return NULL;
}

/* Signals are handled by the main threads. */
static bool start_thread(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int result = pthread_create(&worker.thread, NULL, communicate, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result == 0;
}

/* ---- Sums ---- */

/* NULL: processes are on several machines, or memory cannot be shared. */
static struct shared_sums *shared;

/* Sums that were begun during a run. */
static uint64_t sums_beside;

uint64_t processes_sum_count(void) { return sums_beside; }

static xcvm_status begin_sum(xcvm_dtype dtype, void *elements, size_t count, void **request, xcvm_error *error)
{
    if (shared != NULL)
        return shared_sums_begin(shared, dtype, elements, count, (struct shared_sum **)request, error);
    const size_t parts = count / INT_MAX + (count % INT_MAX != 0);
    struct sum *s = memory_take(1, sizeof *s);
    *s = (struct sum){.dtype = dtype,
                      .elements = elements,
                      .count = count,
                      .part_count = parts,
                      .parts = memory_take(parts + 1, sizeof *s->parts)};
    pthread_mutex_lock(&worker.mutex);
    const bool broken = worker.broken;
    if (!broken) {
        *(worker.last != NULL ? &worker.last->next : &worker.first) = s;
        worker.last = s;
        pthread_cond_signal(&worker.changed);
    }
    pthread_mutex_unlock(&worker.mutex);
    *request = s;
    if (!broken)
        return XCVM_OK;
    free(s->parts);
    free(s);
    return error_set(error, XCVM_IO, "this process has given up a sum, and so cannot talk to the others any more");
}

xcvm_status processes_sum_begin(void *user, xcvm_dtype dtype, void *elements, size_t count, void **request,
                                xcvm_error *error)
{
    (void)user;
    sums_beside++;
    return begin_sum(dtype, elements, count, request, error);
}

xcvm_status processes_sum_end(void *user, void *request, bool *done, xcvm_error *error)
{
    enum { PATIENCE_NS = 10000000 };
    struct sum *s = request;
    (void)user;
    if (shared != NULL)
        return shared_sums_end(shared, request, done, error);
    const struct timespec until = after(PATIENCE_NS);
    pthread_mutex_lock(&worker.mutex);
    worker.waiting++;
    pthread_cond_signal(&worker.changed);
    for (int result = 0; s->stage < DONE && result != ETIMEDOUT;)
        result = pthread_cond_timedwait(&worker.advanced, &worker.mutex, &until);
    worker.waiting--;
    const stage reached = s->stage;
    pthread_mutex_unlock(&worker.mutex);
    *done = reached == DONE;
    if (reached < DONE)
        return XCVM_OK;
    free(s->parts);
    free(s);
    return reached == DONE ? XCVM_OK : error_set(error, XCVM_IO, "the processes cannot talk to each other any more");
}

/* A started operation of Open MPI cannot be canceled. It writes nothing while no function of the library is called. */
void processes_sum_abandon(void *user, void *request)
{
    (void)user;
    if (shared != NULL) {
        shared_sums_abandon(shared, request);
        return;
    }
    pthread_mutex_lock(&worker.mutex);
    worker.broken = true;
    pthread_mutex_unlock(&worker.mutex);
    pthread_mutex_lock(&worker.calling);
    pthread_mutex_unlock(&worker.calling);
}

xcvm_status processes_all_reduce(void *user, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error)
{
    void *request;
    bool done = false;
    xcvm_status status = begin_sum(dtype, elements, count, &request, error);
    while (status == XCVM_OK && !done)
        status = processes_sum_end(user, request, &done, error);
    return status;
}

const xcvm_allocator *processes_allocator(void) { return shared != NULL ? shared_sums_allocator(shared) : NULL; }

/* ---- Coming and going ---- */

/* A process opens the file of process 0 through /proc. On another machine or in another container the path may lead to
 * a different file, so the file contains a token. */
static int open_file_of(pid_t process, int number)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)process, number);
    return open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
}

/* All processes use shared memory, or none. */
static xcvm_status share_memory(const struct processes *processes, xcvm_error *error)
{
    enum { PROCESS, FILE_NUMBER, TOKEN, COUNT };
    const bool is_first = processes->rank == 0;
    double announced[COUNT] = {0}, failures = 0;
    uint64_t token = 0;
    int file = -1;
    if (is_first && getrandom(&token, sizeof token, 0) == (ssize_t)sizeof token) {
        token >>= 11; /* as precise as f64 */
        file = shared_sums_file(processes->count, token);
        announced[PROCESS] = (double)getpid();
        announced[FILE_NUMBER] = (double)file;
        announced[TOKEN] = (double)token;
    }
    TRY(processes_all_reduce(NULL, XCVM_F64, announced, COUNT, error));
    token = (uint64_t)announced[TOKEN];
    if (!is_first && announced[FILE_NUMBER] >= 0)
        file = open_file_of((pid_t)announced[PROCESS], (int)announced[FILE_NUMBER]);
    struct shared_sums *joined = file >= 0 ? shared_sums_join(file, token, processes->rank, processes->count) : NULL;
    failures = joined == NULL;
    const xcvm_status status = processes_all_reduce(NULL, XCVM_F64, &failures, 1, error);
    if (file >= 0)
        close(file);
    if (status == XCVM_OK && failures == 0)
        shared = joined;
    else
        shared_sums_leave(joined);
    return status;
}

xcvm_status processes_begin(struct processes *processes, xcvm_error *error)
{
    *processes = (struct processes){.count = 1};
    if (!started_by_mpirun())
        return check_other_launchers(error);
    /* With Rabenseifner's algorithm each process sums a part. With the default algorithm one process sums everything.
     * For ResNet-18's gradients this takes two processes a fifth longer. */
    (void)setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "3", false);
    /* Its plugins look for its symbols among those of the process. */
    void *library = dlopen(file_name, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        return error_set(error, XCVM_UNSUPPORTED,
                         "mpirun has started several processes, but %s. Install Open MPI's library, as Debian's "
                         "libopenmpi3 has it",
                         dlerror());
    bool good = find_all(library) && start_thread();
    pthread_mutex_lock(&worker.mutex);
    while (good && !worker.begun && !worker.failed)
        pthread_cond_wait(&worker.advanced, &worker.mutex);
    good = good && worker.begun;
    processes->rank = worker.rank;
    processes->count = good ? worker.count : 1;
    pthread_mutex_unlock(&worker.mutex);
    if (!good)
        return error_set(error, XCVM_UNSUPPORTED, "%s cannot be used as Open MPI's", file_name);
    processes->library = library;
    return share_memory(processes, error);
}

bool processes_agree(const struct processes *processes, bool failed, bool *speak)
{
    double failures[2] = {failed, failed && processes->rank == 0};
    xcvm_error error;
    *speak = failed;
    if (processes->library == NULL)
        return !failed;
    if (processes_all_reduce(NULL, XCVM_F64, failures, 2, &error) != XCVM_OK)
        return false;
    *speak = failed && (processes->rank == 0 || failures[1] == 0);
    return failures[0] == 0;
}

void processes_end(struct processes *processes, bool together, int exit_code)
{
    if (processes->library == NULL)
        return;
    pthread_mutex_lock(&worker.mutex);
    worker.leave = true;
    worker.aborted = !together;
    worker.exit_code = exit_code;
    pthread_cond_signal(&worker.changed);
    pthread_mutex_unlock(&worker.mutex);
    pthread_join(worker.thread, NULL);
}

void processes_release(void)
{
    shared_sums_leave(shared);
    shared = NULL;
}
