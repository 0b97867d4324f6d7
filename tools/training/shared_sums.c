/* The processes map one file: a ring of records, one per pending sum, followed by a memory region per process. Each
 * process enters its operand into the record of a sum. When all have entered, the elements are divided into chunks. A
 * process that claims a chunk computes its sum and writes it to all regions. A process claims its own share of the
 * chunks when it begins a later sum. It claims any chunk when it is idle, so a late process finds its part done. */
#include "training/shared_sums.h"
#include "cli/clock.h"
#include "cli/memory.h"
#include "cli/report.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    RECORDS = 256,
    MOST_CHUNKS = 64, /* number of bits of a mask */
    LEAST_CHUNK = 4096,
    BLOCK = 1024, /* bytes of a chunk, which fits the first-level cache */
    ALIGNMENT = 64,
    PAGE = 4096
};

/* The entry of a process for a sum. */
struct part {
    uint64_t offset; /* offset of its elements in the file */
    uint64_t count;
    int32_t dtype;
};

struct record {
    _Alignas(ALIGNMENT) _Atomic uint64_t number; /* number of the sum */
    _Atomic uint64_t claimed, added;             /* claimed chunks, one bit each */
    _Atomic uint32_t entered, left;              /* number of processes */
};

struct head {
    uint64_t token;
    struct record records[RECORDS];
    struct part parts[]; /* entries of all processes, record by record */
};

/* A sum in this process. */
struct shared_sum {
    uint64_t number;
    void *elements, *copy; /* elements outside of the region have a copy in it */
    size_t count, bytes;
    xcvm_dtype dtype;
    enum { ASKED, ENTERED, DONE } stage;
    struct shared_sum *next;
};

struct shared_sums {
    struct head *head;
    size_t file_bytes, region_bytes, used; /* used: bytes in use at the beginning of the own region */
    size_t held;                           /* number of pieces in use there */
    char *region;
    int rank, count;
    uint64_t next_number;
    struct shared_sum *first; /* pending sums, in order of their numbers */
    const char *broken;       /* the failure that ended all sums; NULL: none */
    xcvm_allocator allocator;
};

static size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

static size_t head_bytes(int count)
{
    return round_up(sizeof(struct head) + (size_t)RECORDS * (size_t)count * sizeof(struct part), PAGE);
}

/* ---- The file ---- */

int shared_sums_file(int count, uint64_t token)
{
    /* A region is at most as large as the physical memory. Pages that are never written use none. */
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    struct rlimit longest;
    size_t bytes;
    if (pages <= 0 || page <= 0 || __builtin_mul_overflow((size_t)pages * (size_t)page, (size_t)count, &bytes) ||
        __builtin_add_overflow(bytes, head_bytes(count), &bytes) || bytes > PTRDIFF_MAX)
        return -1;
    /* A process that exceeds the maximum file size receives a signal, also for files in memory. */
    if (getrlimit(RLIMIT_FSIZE, &longest) != 0 || (longest.rlim_cur != RLIM_INFINITY && bytes > longest.rlim_cur))
        return -1;
    const int file = memfd_create("xcvm-sums", MFD_CLOEXEC);
    if (file < 0)
        return -1;
    if (ftruncate(file, (off_t)bytes) == 0 && pwrite(file, &token, sizeof token, 0) == (ssize_t)sizeof token)
        return file;
    close(file);
    return -1;
}

static void *allocate(void *user, size_t bytes, size_t alignment)
{
    struct shared_sums *s = user;
    const size_t begin = (size_t)(uintptr_t)s->region;
    const size_t at = round_up(begin + s->used, alignment > ALIGNMENT ? alignment : ALIGNMENT) - begin;
    /* Others may still write to the memory of an abandoned sum, so it is not reused. */
    if (s->broken != NULL || at > s->region_bytes || bytes > s->region_bytes - at)
        return NULL;
    s->used = at + bytes;
    s->held++;
    return s->region + at;
}

/* Pieces are released in reverse order, or all together. */
static void release(void *user, void *memory, size_t bytes)
{
    struct shared_sums *s = user;
    if (--s->held == 0)
        s->used = 0;
    else if ((char *)memory + bytes == s->region + s->used)
        s->used -= bytes;
}

struct shared_sums *shared_sums_join(int file, uint64_t token, int rank, int count)
{
    struct stat status;
    uint64_t found;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || (size_t)status.st_size <= head_bytes(count) ||
        pread(file, &found, sizeof found, 0) != (ssize_t)sizeof found || found != token)
        return NULL;
    const size_t bytes = (size_t)status.st_size;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory == MAP_FAILED)
        return NULL;
    struct shared_sums *s = memory_take(1, sizeof *s);
    *s = (struct shared_sums){.head = memory, .file_bytes = bytes, .rank = rank, .count = count};
    s->region_bytes = (bytes - head_bytes(count)) / (size_t)count / PAGE * PAGE;
    s->region = (char *)memory + head_bytes(count) + (size_t)rank * s->region_bytes;
    s->allocator = (xcvm_allocator){.allocate = allocate, .release = release, .user = s};
    return s;
}

void shared_sums_leave(struct shared_sums *s)
{
    if (s == NULL)
        return;
    while (s->first != NULL)
        shared_sums_abandon(s, s->first);
    munmap(s->head, s->file_bytes);
    free(s);
}

const xcvm_allocator *shared_sums_allocator(struct shared_sums *s) { return &s->allocator; }

/* ---- Adding up ---- */

static struct record *record_of(const struct shared_sums *s, const struct shared_sum *sum)
{
    return &s->head->records[sum->number % RECORDS];
}

static struct part *parts_of(const struct shared_sums *s, const struct shared_sum *sum)
{
    return &s->head->parts[sum->number % RECORDS * (size_t)s->count];
}

static size_t element_bytes(xcvm_dtype dtype) { return dtype == XCVM_F64 ? sizeof(double) : sizeof(float); }

static size_t chunk_length(size_t count)
{
    const size_t length = round_up((count + MOST_CHUNKS - 1) / MOST_CHUNKS, ALIGNMENT);
    return length > LEAST_CHUNK ? length : LEAST_CHUNK;
}

static size_t chunk_count(size_t count)
{
    return count > 0 ? (count + chunk_length(count) - 1) / chunk_length(count) : 1;
}

static void add_f32(float *restrict sum, const float *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += x[i];
}

static void add_f64(double *restrict sum, const double *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += x[i];
}

/* Adds in the order of the ranks, so that every process computes the same bits. */
static void add_up(const struct shared_sums *s, const struct shared_sum *sum, size_t chunk)
{
    const struct part *parts = parts_of(s, sum);
    const size_t width = element_bytes(sum->dtype), length = chunk_length(sum->count) * width;
    const size_t end = (chunk + 1) * length < sum->bytes ? (chunk + 1) * length : sum->bytes;
    char *file = (char *)s->head;
    union {
        float f32[BLOCK / sizeof(float)];
        double f64[BLOCK / sizeof(double)];
    } block;
    for (size_t at = chunk * length; at < end; at += BLOCK) {
        const size_t bytes = end - at < BLOCK ? end - at : BLOCK;
        memcpy(&block, file + parts[0].offset + at, bytes);
        for (int r = 1; r < s->count; r++) {
            const void *x = file + parts[r].offset + at;
            if (sum->dtype == XCVM_F64)
                add_f64(block.f64, x, bytes / width);
            else
                add_f32(block.f32, x, bytes / width);
        }
        for (int r = 0; r < s->count; r++)
            memcpy(file + parts[r].offset + at, &block, bytes);
    }
}

/* Sums the unclaimed chunks in [from, to). */
static bool claim(const struct shared_sums *s, const struct shared_sum *sum, size_t from, size_t to)
{
    struct record *record = record_of(s, sum);
    bool any = false;
    for (size_t i = from; i < to; i++) {
        const uint64_t bit = UINT64_C(1) << i;
        if ((atomic_load_explicit(&record->claimed, memory_order_relaxed) & bit) != 0 ||
            (atomic_fetch_or_explicit(&record->claimed, bit, memory_order_relaxed) & bit) != 0)
            continue;
        add_up(s, sum, i);
        atomic_fetch_or_explicit(&record->added, bit, memory_order_release);
        any = true;
    }
    return any;
}

/* ---- Under way ---- */

/* Enters the record if it is free. Returns whether it did. */
static bool enter(const struct shared_sums *s, struct shared_sum *sum)
{
    struct record *record = record_of(s, sum);
    /* Zeros represent the first round of the ring. */
    if (atomic_load_explicit(&record->number, memory_order_acquire) != sum->number / RECORDS)
        return false;
    const char *at = sum->copy != NULL ? sum->copy : sum->elements;
    parts_of(s, sum)[s->rank] = (struct part){
        .offset = (uint64_t)(at - (const char *)s->head), .count = sum->count, .dtype = (int32_t)sum->dtype};
    sum->stage = ENTERED;
    atomic_fetch_add_explicit(&record->entered, 1, memory_order_acq_rel);
    return true;
}

/* The last process frees the record for a later sum. */
static void leave(const struct shared_sums *s, const struct shared_sum *sum)
{
    struct record *record = record_of(s, sum);
    if (atomic_fetch_add_explicit(&record->left, 1, memory_order_acq_rel) + 1 < (uint32_t)s->count)
        return;
    atomic_store_explicit(&record->claimed, 0, memory_order_relaxed);
    atomic_store_explicit(&record->added, 0, memory_order_relaxed);
    atomic_store_explicit(&record->entered, 0, memory_order_relaxed);
    atomic_store_explicit(&record->left, 0, memory_order_relaxed);
    atomic_store_explicit(&record->number, sum->number / RECORDS + 1, memory_order_release);
}

/* Returns true if all processes have entered the same sum with valid offsets. Another process may have written
 * anything. */
static bool all_agree(const struct shared_sums *s, const struct shared_sum *sum)
{
    const struct part *parts = parts_of(s, sum);
    for (int r = 0; r < s->count; r++)
        if (parts[r].count != sum->count || parts[r].dtype != (int32_t)sum->dtype || parts[r].offset > s->file_bytes ||
            sum->bytes > s->file_bytes - parts[r].offset)
            return false;
    return true;
}

static void finish(struct shared_sums *s, struct shared_sum *sum)
{
    if (sum->copy != NULL) {
        memcpy(sum->elements, sum->copy, sum->bytes);
        release(s, sum->copy, sum->bytes);
        sum->copy = NULL;
    }
    sum->stage = DONE;
    leave(s, sum);
}

/* Sums chunks of the own share, or all unclaimed chunks. Returns true if there were any. */
static bool work_on(struct shared_sums *s, struct shared_sum *sum, bool all)
{
    const size_t chunks = chunk_count(sum->count), rank = (size_t)s->rank, count = (size_t)s->count;
    const uint64_t every = UINT64_MAX >> (MOST_CHUNKS - chunks);
    bool any = claim(s, sum, chunks * rank / count, chunks * (rank + 1) / count);
    if (all && claim(s, sum, 0, chunks))
        any = true;
    if (atomic_load_explicit(&record_of(s, sum)->added, memory_order_acquire) != every)
        return any;
    finish(s, sum);
    return true;
}

/* The same for all pending sums. A later sum may be finished before the first, whose chunk may belong to a preempted
 * process. */
static bool advance(struct shared_sums *s, bool all)
{
    bool any = false;
    for (struct shared_sum *sum = s->first; sum != NULL && (sum->stage != ASKED || enter(s, sum)); sum = sum->next)
        continue;
    for (struct shared_sum **link = &s->first, *sum; (sum = *link) != NULL && s->broken == NULL;) {
        /* All processes enter the sums in the same order. */
        if (sum->stage == ASKED ||
            atomic_load_explicit(&record_of(s, sum)->entered, memory_order_acquire) < (uint32_t)s->count)
            break;
        if (!all_agree(s, sum)) {
            s->broken = "the processes do not sum up the same";
            break;
        }
        if (work_on(s, sum, all))
            any = true;
        if (sum->stage == DONE)
            *link = sum->next;
        else
            link = &sum->next;
    }
    return any;
}

/* ---- As the host's functions ---- */

static bool is_in_region(const struct shared_sums *s, const void *elements, size_t bytes)
{
    const uintptr_t at = (uintptr_t)elements, from = (uintptr_t)s->region;
    return at >= from && at - from <= s->region_bytes && bytes <= s->region_bytes - (at - from);
}

static xcvm_status fail(const struct shared_sums *s, xcvm_error *error)
{
    return error_set(error, XCVM_IO, "%s", s->broken);
}

xcvm_status shared_sums_begin(struct shared_sums *s, xcvm_dtype dtype, void *elements, size_t count,
                              struct shared_sum **sum, xcvm_error *error)
{
    const size_t bytes = count * element_bytes(dtype);
    void *copy = NULL;
    if (s->broken != NULL)
        return fail(s, error);
    if (!is_in_region(s, elements, bytes)) {
        copy = allocate(s, bytes, ALIGNMENT);
        if (copy == NULL)
            return error_set(error, XCVM_OUT_OF_MEMORY, "the memory that processes share has no %zu bytes more", bytes);
        memcpy(copy, elements, bytes);
    }
    struct shared_sum *made = *sum = memory_take(1, sizeof *made), **link = &s->first;
    *made = (struct shared_sum){
        .number = s->next_number++, .elements = elements, .copy = copy, .count = count, .bytes = bytes, .dtype = dtype};
    while (*link != NULL)
        link = &(*link)->next;
    *link = made;
    (void)advance(s, false);
    return XCVM_OK;
}

xcvm_status shared_sums_end(struct shared_sums *s, struct shared_sum *sum, bool *done, xcvm_error *error)
{
    /* Processes with equal work arrive at nearly the same time, so a longer wait need not be busy. */
    enum { PATIENCE_NS = 10000000, HURRY_NS = 2000000 };
    const struct timespec nap = {.tv_nsec = 100000};
    const uint64_t begun = now_ns();
    for (uint64_t waited = 0; sum->stage != DONE && s->broken == NULL && waited < PATIENCE_NS;
         waited = now_ns() - begun) {
        if (advance(s, true))
            continue;
        if (waited < HURRY_NS)
            sched_yield();
        else
            nanosleep(&nap, NULL);
    }
    *done = sum->stage == DONE;
    if (*done)
        free(sum);
    else if (s->broken != NULL) {
        shared_sums_abandon(s, sum);
        return fail(s, error);
    }
    return XCVM_OK;
}

void shared_sums_abandon(struct shared_sums *s, struct shared_sum *sum)
{
    struct shared_sum **link = &s->first;
    if (s->broken == NULL)
        s->broken = "this process has given up a sum, and so cannot talk to the others any more";
    while (*link != NULL && *link != sum)
        link = &(*link)->next;
    if (*link == sum)
        *link = sum->next;
    free(sum);
}
