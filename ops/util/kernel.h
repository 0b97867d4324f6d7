/* Kernels: the implementation of instructions.
 *
 * When a kernel runs, the shape rule has passed. Results have type, shape and uninitialized memory that overlaps no
 * operand, except that the first result may share the memory of an IN_PLACE or IN_VIEW operand. Results of unknown size
 * and string results have no memory: the kernel calls xcvm_kernel_allocate or xcvm_kernel_allocate_strings. List
 * results are set with the list functions. A kernel never writes to operands otherwise. It checks facts that depend on
 * elements (indices, counts) and fails with XCVM_CHECK(k->error, ...) and a description; the run loop adds the
 * location. */
#ifndef XCVM_OPS_UTIL_KERNEL_H
#define XCVM_OPS_UTIL_KERNEL_H

#include "base/heap.h"
#include "base/threads.h"
#include "ops/op.h"
#include "ops/util/reducer.h"
#include "ops/util/shape.h"

struct xcvm_kernel {
    xcvm_error *error;
    xcvm_heap *heap;
    xcvm_threads *threads;
    uint32_t last_use;         /* bit i: operand i (definition order, expanded, up to 32) is freed directly after */
    const uint32_t *cancelled; /* atomic; nonzero: stop */
    uint64_t deadline_ns;      /* monotonic clock; 0: none */
    uint64_t *random;          /* state of the session's generator (ops/random/random.h) */
    bool (*print)(void *user, const char *text);
    void *print_user;
    const xcvm_host_function *functions;
    size_t function_count;
    xcvm_reducer reducer;
    void *scratch; /* see xcvm_kernel_scratch */
    size_t scratch_bytes;
    xcvm_storage *scratch_storage;
    const xcvm_allocator *allocator;
};

/* Defines the kernel of instruction Name: XCVM_KERNEL(Add) { ... uses k and a ... }. Sources in a directory simd/ are
 * also compiled for each instruction set, with XCVM_ISA defined as its suffix. Their kernels replace the plain ones if
 * the CPU supports them. */
#define XCVM_PASTE3_(a, b, c) a##b##c
#define XCVM_PASTE3(a, b, c) XCVM_PASTE3_(a, b, c)
#ifndef XCVM_ISA
#define XCVM_ISA
#endif
/* The name of a function shared by files that are compiled per instruction set. */
#define XCVM_PER_ISA(name) XCVM_PASTE3(name, _run, XCVM_ISA)
#define XCVM_KERNEL(Name)                                                                                              \
    static xcvm_status typed_run_##Name(xcvm_kernel *k, const xcvm_##Name##_args *a);                                  \
    xcvm_status XCVM_PER_ISA(xcvm_##Name)(xcvm_kernel * k, const void *args);                                          \
    xcvm_status XCVM_PER_ISA(xcvm_##Name)(xcvm_kernel * k, const void *args) { return typed_run_##Name(k, args); }     \
    static xcvm_status typed_run_##Name(xcvm_kernel *k, const xcvm_##Name##_args *a)

/* Allocates a tensor result whose shape the kernel has computed. */
xcvm_status xcvm_kernel_allocate(xcvm_kernel *k, xcvm_value *tensor, xcvm_dtype dtype, int rank, const int64_t *dims);
/* The same for strings of `characters` characters in total, which the kernel writes to *text along with the spans. */
xcvm_status xcvm_kernel_allocate_strings(xcvm_kernel *k, xcvm_value *tensor, int rank, const int64_t *dims,
                                         size_t characters, xcvm_string **spans, char **text);
/* Makes a string result of known dims: out[i] = from[indices[i]], or the empty string for a negative index. */
xcvm_status xcvm_kernel_gather_strings(xcvm_kernel *k, xcvm_value *out, const xcvm_value *from, const int64_t *indices);
/* Makes a list result of `count` null values of kind `kind`, to be filled with xcvm_kernel_keep. */
xcvm_status xcvm_kernel_allocate_list(xcvm_kernel *k, xcvm_value *list, xcvm_kind kind, xcvm_dtype dtype, size_t count);
/* Makes `to`, which must be null, equal to `from` beyond the duration of the instruction: shares storage, else copies.
 */
xcvm_status xcvm_kernel_keep(xcvm_kernel *k, xcvm_value *to, const xcvm_value *from);
/* Returns at least `bytes` bytes of 64-byte aligned memory, valid until the kernel returns. There is one block per
 * kernel call; another request may move it. Returns NULL with the error set on failure. */
void *xcvm_kernel_scratch(xcvm_kernel *k, size_t bytes);

/* ---- Stopping ----
 *
 * A kernel whose work can exceed a million steps polls the deadline at least that often on every worker: with
 * xcvm_kernel_parallel between portions of a loop, and with a poller in loops of long items. A deadline that has passed
 * stays passed. So code that detects it may leave its results unfinished without an error, if the kernel polls again
 * before it succeeds, as xcvm_kernel_parallel does at its end. */

/* Returns OK, or CANCELLED or OUT_OF_TIME with the message set. Thread-safe. */
xcvm_status xcvm_kernel_poll(const xcvm_kernel *k);

/* Steps between two polls. A step takes nanoseconds to tens of nanoseconds. */
enum {
    XCVM_POLL_STEPS = 1 << 17,
    XCVM_STEP_BYTES = 16, /* bytes of a string compared or copied per step */
    XCVM_ITEM_STEPS = 16  /* steps to share or allocate an item of a list */
};

/* Counts the steps of one worker, and polls after many. */
typedef struct xcvm_poller {
    const xcvm_kernel *k;
    size_t left; /* steps until the next poll */
} xcvm_poller;

static inline xcvm_poller xcvm_poller_of(const xcvm_kernel *k) { return (xcvm_poller){k, XCVM_POLL_STEPS}; }

/* Must be called before or after the given number of steps. After a failure all later calls fail. */
static inline xcvm_status xcvm_poll_after(xcvm_poller *p, size_t steps)
{
    if (__builtin_expect(steps < p->left, 1)) {
        p->left -= steps;
        return XCVM_OK;
    }
    const xcvm_status status = xcvm_kernel_poll(p->k);
    p->left = status == XCVM_OK ? XCVM_POLL_STEPS : 0;
    return status;
}

/* xcvm_parallel for loops that can be split anywhere: calls the body for portions of some grains, with polls in
 * between. Fails as xcvm_kernel_poll does; the results of the body are then incomplete. */
xcvm_status xcvm_kernel_parallel(const xcvm_kernel *k, size_t count, size_t grain, xcvm_range_body body, void *context);
/* memcpy and memset for large sizes. */
xcvm_status xcvm_kernel_copy(const xcvm_kernel *k, void *to, const void *from, size_t bytes);
xcvm_status xcvm_kernel_fill(const xcvm_kernel *k, void *to, int byte, size_t bytes);

/* End of the characters of a string tensor. */
static inline const char *xcvm_strings_end(const xcvm_value *strings)
{
    return (const char *)strings->data + strings->bytes;
}

/* xcvm_kernel_copy of a string that is followed by others. A short one is copied as a run of constant size, if there is
 * room before both ends, because a branch on its length would be unpredictable. */
static inline xcvm_status xcvm_kernel_copy_string(const xcvm_kernel *k, char *to, const char *to_end, const char *from,
                                                  const char *from_end, size_t length)
{
    enum { RUN = XCVM_STEP_BYTES };
    if (length > RUN || to_end - to < RUN || from_end - from < RUN)
        return xcvm_kernel_copy(k, to, from, length);
    memcpy(to, from, RUN);
    return XCVM_OK;
}

static inline bool xcvm_kernel_is_last_use(const xcvm_kernel *k, size_t operand)
{
    return operand < 32 && (k->last_use >> operand & 1) != 0;
}

#endif
