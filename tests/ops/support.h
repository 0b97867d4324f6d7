/* Helpers for tests of single kernels: tensors in the test's memory, and calls with a number of threads. */
#ifndef XCVM_TESTS_OPS_SUPPORT_H
#define XCVM_TESTS_OPS_SUPPORT_H

#include "tests/support.h"
#include "tests/ops/run_kernel.h"

#include <check.h>
#include <stdlib.h>

static uint32_t random_state = 1;

static UNUSED float random_float(void)
{
    const uint32_t drawn = test_random(&random_state);
    return (float)(int32_t)(drawn ^ drawn >> 15) * 0x1p-31f;
}

/* A tensor of the test's own memory, random but for results. */
static UNUSED xcvm_value tensor(int rank, const int64_t *dims)
{
    xcvm_value v = {.rank = -1};
    xcvm_value_set_tensor(&v, XCVM_F32, rank, dims);
    v.memory_kind = XCVM_MEMORY_BORROWED;
    v.data = malloc(v.bytes + 1);
    ck_assert_ptr_nonnull(v.data);
    for (size_t i = 0; i < xcvm_element_count(&v); i++)
        XCVM_DATA(float, &v)[i] = random_float();
    return v;
}
#define TENSOR(...)                                                                                                    \
    tensor((int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

static UNUSED void run_on_threads(xcvm_kernel_run kernel, const void *args, int thread_count)
{
    run_kernel(kernel, args, thread_count, "the kernel");
}

#endif
