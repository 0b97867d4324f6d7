/* Reading ahead: slots that the thread fills and the taker empties, in turn. */
#include "train/data/loader.h"

#include <pthread.h>
#include <signal.h>

enum { SLOTS = 3 }; /* one that is lent, one that is ready, one that is filled */

typedef struct slot {
    unsigned char **memory;      /* of each column */
    xcvm_value **whole, **fewer; /* tensors over it, for a whole batch and for the last of an epoch */
    size_t fewer_count;          /* examples of `fewer`; 0: there are none yet */
    xct_batch batch;
} slot;

struct xct_loader {
    xcvm_arena arena;
    xct_order *order;
    xct_loading loading;
    xct_reader *reader;
    slot slots[SLOTS];
    uint64_t epoch, place; /* the thread's */
    pthread_t thread;
    bool running;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Under the mutex. */
    uint64_t filled, taken; /* batches */
    bool ended, stop;
    xcvm_error error; /* status OK: none */
};

/* ---- Memory ---- */

static xcvm_status wrap(const xct_bound *bound, unsigned char *memory, size_t count, xcvm_value **value,
                        xcvm_error *error)
{
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, bound->dims, sizeof dims);
    dims[0] = (int64_t)count;
    return xcvm_tensor_wrap(bound->dtype, bound->rank, dims, memory, (xcvm_finalizer){0}, value, error);
}

static size_t slot_bytes(const xct_loader *l, size_t column)
{
    return l->order->set->bounds[column].row_bytes * l->loading.batch;
}

static xcvm_status make_slot(xct_loader *l, slot *s, xcvm_error *error)
{
    const xct_dataset *set = l->order->set;
    const size_t pointers = set->bound_count * sizeof(void *);
    s->memory = xcvm_arena_allocate(&l->arena, pointers);
    s->whole = xcvm_arena_allocate(&l->arena, pointers);
    s->fewer = xcvm_arena_allocate(&l->arena, pointers);
    XCVM_CHECK(error, s->memory != NULL && s->whole != NULL && s->fewer != NULL, OUT_OF_MEMORY,
               "no memory for batches");
    for (size_t i = 0; i < set->bound_count; i++) {
        size_t bytes;
        const bool fits = xcvm_size_mul(set->bounds[i].row_bytes, l->loading.batch, &bytes);
        s->memory[i] = fits ? xcvm_allocate(set->arena.allocator, bytes) : NULL;
        XCVM_CHECK(error, s->memory[i] != NULL, OUT_OF_MEMORY,
                   "no memory for batches of %zu examples. Use a smaller batch or a larger memory limit",
                   l->loading.batch);
        XCVM_TRY(wrap(&set->bounds[i], s->memory[i], l->loading.batch, &s->whole[i], error));
    }
    return XCVM_OK;
}

static void release_slot(xct_loader *l, slot *s)
{
    const xct_dataset *set = l->order->set;
    for (size_t i = 0; s->fewer != NULL && i < set->bound_count; i++) {
        xcvm_value_release(s->whole[i]);
        xcvm_value_release(s->fewer[i]);
        xcvm_deallocate(set->arena.allocator, s->memory[i], slot_bytes(l, i));
    }
}

/* The tensors for `count` examples of a slot. */
static xcvm_status tensors(xct_loader *l, slot *s, size_t count, xcvm_value *const **values, xcvm_error *error)
{
    const xct_dataset *set = l->order->set;
    *values = s->whole;
    if (count == l->loading.batch)
        return XCVM_OK;
    *values = s->fewer;
    if (s->fewer_count == count)
        return XCVM_OK;
    s->fewer_count = 0;
    for (size_t i = 0; i < set->bound_count; i++) {
        xcvm_value_release(s->fewer[i]);
        s->fewer[i] = NULL;
        XCVM_TRY(wrap(&set->bounds[i], s->memory[i], count, &s->fewer[i], error));
    }
    s->fewer_count = count;
    return XCVM_OK;
}

/* ---- The thread ---- */

/* Number of examples of the batch at the thread's position; 0 at the end of the epoch. */
static size_t batch_size(const xct_loader *l)
{
    if (l->place >= l->order->total)
        return 0;
    const uint64_t left = l->order->total - l->place;
    if (left >= l->loading.batch)
        return l->loading.batch;
    return l->loading.whole || left < l->loading.parts ? 0 : (size_t)left;
}

/* Advances to the next epoch at the end of one; false after the last. */
static bool find_next(xct_loader *l, size_t *count)
{
    while (l->epoch < l->loading.epochs) {
        *count = batch_size(l);
        if (*count > 0)
            return true;
        l->epoch++;
        l->place = 0;
    }
    return false;
}

static xcvm_status fill(xct_loader *l, slot *s, size_t count, xcvm_error *error)
{
    const size_t parts = l->loading.parts > 0 ? l->loading.parts : 1;
    const size_t from = count * l->loading.part / parts, to = count * (l->loading.part + 1) / parts;
    for (size_t i = from; i < to; i++) {
        size_t shard;
        uint64_t row;
        xct_order_find(l->order, l->epoch, l->place + i, &shard, &row);
        XCVM_TRY(xct_reader_read(l->reader, shard, row, s->memory, i - from, error));
        if (__atomic_load_n(&l->stop, __ATOMIC_RELAXED))
            return xcvm_error_set(error, XCVM_CANCELLED, "nobody waits for the batch any more");
    }
    xcvm_value *const *values;
    XCVM_TRY(tensors(l, s, to - from, &values, error));
    const uint64_t next = l->place + count;
    const uint64_t left = l->order->total - next;
    s->batch =
        (xct_batch){.values = values,
                    .count = to - from,
                    .all = count,
                    .epoch = l->epoch,
                    .next = next,
                    .last = left == 0 || left < l->loading.parts || (l->loading.whole && left < l->loading.batch)};
    l->place = l->loading.stride > 0 ? l->place + l->loading.stride : next;
    return XCVM_OK;
}

static void *read_ahead(void *user)
{
    xct_loader *l = user;
    pthread_mutex_lock(&l->mutex);
    while (!l->stop && l->error.status == XCVM_OK) {
        /* The last returned batch is lent. */
        if (l->filled + 1 > l->taken + SLOTS - (l->taken > 0)) {
            pthread_cond_wait(&l->changed, &l->mutex);
            continue;
        }
        slot *s = &l->slots[l->filled % SLOTS];
        pthread_mutex_unlock(&l->mutex);
        xcvm_error error = {.status = XCVM_OK};
        size_t count = 0;
        const bool more = find_next(l, &count);
        if (more)
            (void)fill(l, s, count, &error);
        pthread_mutex_lock(&l->mutex);
        l->error = error;
        l->filled += more && error.status == XCVM_OK;
        l->ended = !more;
        pthread_cond_signal(&l->changed);
        if (l->ended)
            break;
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

/* Signals are for the program's own threads. */
static int start_thread(xct_loader *l)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int result = pthread_create(&l->thread, NULL, read_ahead, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

/* ---- The taker ---- */

xcvm_status xct_loader_create(xct_order *order, const xct_loading *loading, xct_loader **made, xcvm_error *error)
{
    xcvm_arena arena = {.allocator = order->allocator};
    xct_loader *l = xcvm_arena_allocate(&arena, sizeof *l);
    if (l == NULL) {
        xcvm_arena_release(&arena);
        return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for reading data");
    }
    l->arena = arena;
    l->order = order;
    l->loading = *loading;
    l->epoch = loading->epoch;
    l->place = loading->place;
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->changed, NULL);
    xcvm_status status = xct_reader_create(order->set, &l->reader, error);
    for (size_t i = 0; i < SLOTS && status == XCVM_OK; i++)
        status = make_slot(l, &l->slots[i], error);
    if (status == XCVM_OK && start_thread(l) != 0)
        status = xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "the thread that reads data cannot be started");
    if (status == XCVM_OK) {
        l->running = true;
        *made = l;
    } else {
        xct_loader_destroy(l);
    }
    xct_memory_name(order->set->memory, status, error);
    return status;
}

void xct_loader_destroy(xct_loader *l)
{
    if (l == NULL)
        return;
    if (l->running) {
        pthread_mutex_lock(&l->mutex);
        __atomic_store_n(&l->stop, true, __ATOMIC_RELAXED);
        pthread_cond_signal(&l->changed);
        pthread_mutex_unlock(&l->mutex);
        pthread_join(l->thread, NULL);
    }
    for (size_t i = 0; i < SLOTS; i++)
        release_slot(l, &l->slots[i]);
    xct_reader_destroy(l->reader);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mutex);
    xcvm_arena arena = l->arena;
    xcvm_arena_release(&arena);
}

xcvm_status xct_loader_take(xct_loader *l, xct_batch *batch, bool *more, xcvm_error *error)
{
    pthread_mutex_lock(&l->mutex);
    while (l->filled == l->taken && !l->ended && l->error.status == XCVM_OK)
        pthread_cond_wait(&l->changed, &l->mutex);
    xcvm_status status = XCVM_OK;
    *more = l->filled > l->taken;
    if (*more) {
        *batch = l->slots[l->taken % SLOTS].batch;
        l->taken++;
        pthread_cond_signal(&l->changed);
    } else if (l->error.status != XCVM_OK) {
        status = l->error.status;
        if (error != NULL)
            *error = l->error;
    }
    pthread_mutex_unlock(&l->mutex);
    return status;
}
