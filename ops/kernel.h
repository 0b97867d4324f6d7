/* Kernels: what an instruction does.
 *
 * When a kernel runs, the shape rule has passed and the results have type, shape and memory (uninitialised, not
 * overlapping any operand, except that the first result may be exactly an IN_PLACE or IN_VIEW operand's memory).
 * Results of unknown size and string results have no memory yet: the kernel calls xcvm_kernel_allocate or
 * xcvm_kernel_allocate_strings. Results that are no tensors are set with the list functions. An operand's memory is
 * never written otherwise. A kernel checks the facts that depend on elements (indices, counts) before it relies on
 * them, and fails with XCVM_CHECK(k->error, ...), saying what is wrong; the run loop adds where. */
#ifndef XCVM_OPS_KERNEL_H
#define XCVM_OPS_KERNEL_H

#include "base/heap.h"
#include "base/threads.h"
#include "ops/op.h"
#include "ops/shape.h"

struct xcvm_kernel {
    xcvm_error *error;
    xcvm_heap *heap;
    xcvm_threads *threads;
    uint32_t dying;            /* bit i: operand i (row order, lists spread out, up to 32) is freed right after */
    const uint32_t *cancelled; /* atomic; not 0: stop */
    uint64_t deadline_ns;      /* monotonic clock; 0: none */
    uint64_t *random;          /* state of the session's generator (ops/random.h) */
    bool (*print)(void *user, const char *text);
    void *print_user;
    const xcvm_host_function *functions;
    size_t function_count;
    void *scratch; /* see xcvm_kernel_scratch */
    size_t scratch_bytes;
    xcvm_storage *scratch_storage;
    const xcvm_allocator *allocator;
};

/* Defines the kernel of instruction Name: XCVM_KERNEL(Add) { ... uses k and a ... }. Sources in ops/vector/
 * are compiled once more for each instruction set, with XCVM_ISA defined to its
 * suffix; their kernels override the plain ones where the CPU allows. */
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
/* Long kernels call this now and then (about every millisecond, from any worker): OK, or CANCELLED or OUT_OF_TIME. */
xcvm_status xcvm_kernel_poll(const xcvm_kernel *k);
static inline bool xcvm_kernel_dying(const xcvm_kernel *k, size_t operand)
{
    return operand < 32 && (k->dying >> operand & 1) != 0;
}

/* Runs one instruction outside a session, as constant folding does: infers, allocates, calls the kernel. Results must
 * be null values; they own their memory. */
xcvm_status xcvm_kernel_execute(xcvm_kernel *k, const xcvm_row *row, const void *args);

#endif
