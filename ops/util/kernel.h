/* Kernels: what an instruction does.
 *
 * When a kernel runs, the shape rule has passed and the results have type, shape and memory (uninitialized, not
 * overlapping any operand, except that the first result may be exactly an IN_PLACE or IN_VIEW operand's memory).
 * Results of unknown size and string results have no memory yet: the kernel calls xcvm_kernel_allocate or
 * xcvm_kernel_allocate_strings. Results that are no tensors are set with the list functions. An operand's memory is
 * never written otherwise. A kernel checks the facts that depend on elements (indices, counts) before it relies on
 * them, and fails with XCVM_CHECK(k->error, ...), saying what is wrong; the run loop adds where. */
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
    uint32_t last_use;         /* bit i: operand i (row order, lists spread out, up to 32) is freed right after */
    const uint32_t *cancelled; /* atomic; not 0: stop */
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

/* Defines the kernel of instruction Name: XCVM_KERNEL(Add) { ... uses k and a ... }. Sources in a folder simd/
 * are compiled once more for each instruction set, with XCVM_ISA defined to its suffix; their kernels override the
 * plain ones where the CPU allows. */
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

/* Memory for a tensor result whose shape the kernel found out. */
xcvm_status xcvm_kernel_allocate(xcvm_kernel *k, xcvm_value *tensor, xcvm_dtype dtype, int rank, const int64_t *dims);
/* The same for strings of `characters` characters in all, which the kernel writes to *text, filling in the spans. */
xcvm_status xcvm_kernel_allocate_strings(xcvm_kernel *k, xcvm_value *tensor, int rank, const int64_t *dims,
                                         size_t characters, xcvm_string **spans, char **text);
/* String result of known dims: out[i] = from[indices[i]], or the empty string for an index below 0. */
xcvm_status xcvm_kernel_gather_strings(xcvm_kernel *k, xcvm_value *out, const xcvm_value *from, const int64_t *indices);
/* A list result of `count` null values of kind `kind`, to be filled with xcvm_kernel_keep. */
xcvm_status xcvm_kernel_allocate_list(xcvm_kernel *k, xcvm_value *list, xcvm_kind kind, xcvm_dtype dtype, size_t count);
/* Makes `to` (null) the same value as `from`, for longer than the instruction: shares storage, else copies. */
xcvm_status xcvm_kernel_keep(xcvm_kernel *k, xcvm_value *to, const xcvm_value *from);
/* At least `bytes` bytes of 64-byte aligned memory that is the kernel's until it returns; one block a call of a kernel:
 * a second request may move it. NULL with the error set when there is none. */
void *xcvm_kernel_scratch(xcvm_kernel *k, size_t bytes);

/* ---- Stopping ----
 *
 * A kernel whose work can exceed a million steps looks at the deadline at least that often, on every worker: by
 * xcvm_kernel_parallel between portions of a loop, and by a poller inside of loops whose items may be long. A time that
 * has passed stays so: whoever finds it passed may leave what it makes unfinished without a word, if the kernel looks
 * once more before it succeeds, as xcvm_kernel_parallel does at its end. */

/* OK, or CANCELLED or OUT_OF_TIME with the message set; from any worker. */
xcvm_status xcvm_kernel_poll(const xcvm_kernel *k);

/* Steps between two polls: a step takes some nanoseconds, or some dozens. */
enum {
    XCVM_POLL_STEPS = 1 << 17,
    XCVM_STEP_BYTES = 16, /* of a string, that are compared or copied in a step */
    XCVM_ITEM_STEPS = 16  /* that sharing or allocating an item of a list takes */
};

/* Counts the steps of one worker, and polls when they have become many. */
typedef struct xcvm_poller {
    const xcvm_kernel *k;
    size_t left; /* steps until the next poll */
} xcvm_poller;

static inline xcvm_poller xcvm_poller_of(const xcvm_kernel *k) { return (xcvm_poller){k, XCVM_POLL_STEPS}; }

/* To be called after, or before, so many steps. Once it has failed, it goes on to fail. */
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

/* xcvm_parallel for loops that can be cut anywhere: the body is called for portions of some grains, between which its
 * worker polls. Fails as xcvm_kernel_poll does; what the body wrote is unfinished then. */
xcvm_status xcvm_kernel_parallel(const xcvm_kernel *k, size_t count, size_t grain, xcvm_range_body body, void *context);
/* memcpy and memset of what may be large. */
xcvm_status xcvm_kernel_copy(const xcvm_kernel *k, void *to, const void *from, size_t bytes);
xcvm_status xcvm_kernel_fill(const xcvm_kernel *k, void *to, int byte, size_t bytes);

/* Where the characters of a tensor of strings end. */
static inline const char *xcvm_strings_end(const xcvm_value *strings)
{
    return (const char *)strings->data + strings->bytes;
}

/* xcvm_kernel_copy of a string behind which others are written next: a short one is copied as a whole run of bytes,
 * where there is room before the ends of both sides, since how short it is no branch foretells. */
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
