/* Calling a kernel as a session would, on memory of the test's. */
#ifndef XCVM_TESTS_OPS_RUN_KERNEL_H
#define XCVM_TESTS_OPS_RUN_KERNEL_H

#include "ops/util/kernel.h"
#include "ops/table/table.h"

#include <check.h>

/* `what` is named if it fails, which it must not. */
static inline void run_kernel(xcvm_kernel_run run, const void *args, int thread_count, const char *what)
{
    xcvm_error error = {.status = XCVM_OK};
    xcvm_heap *heap;
    xcvm_threads *threads;
    ck_assert_int_eq(xcvm_heap_create(NULL, 0, &heap, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_threads_create(NULL, thread_count, &threads, &error), XCVM_OK);
    xcvm_kernel k = {.error = &error, .heap = heap, .threads = threads};
    const xcvm_status status = run(&k, args);
    ck_assert_msg(status == XCVM_OK, "%s: %s", what, error.message);
    xcvm_storage_release(k.scratch_storage);
    xcvm_threads_destroy(threads);
    xcvm_heap_destroy(heap);
}

/* The kernel of each instruction set of this CPU, the smallest first; NULL after the last. */
static inline xcvm_kernel_run kernel_variant(xcvm_opcode opcode, size_t index)
{
    const char *isa = xcvm_isa_at(index);
    return isa != NULL ? xcvm_kernel_for(opcode, isa) : NULL;
}

#endif
