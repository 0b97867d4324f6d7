/* AllReduce: sums over the processes that learn together. Several tensors travel as one: each message has its price. */
#include "ops/kernel.h"

XCVM_SHAPE_RULE_OF(AllReduce)
{
    XCVM_CHECK(t->error, a->xs.count == a->ys.count, INVALID_ARGUMENT, "there are %zu results for %zu tensors",
               a->ys.count + 1, a->xs.count + 1);
    xcvm_value_set_tensor(a->y, a->x->dtype, a->x->rank, a->x->dims);
    for (size_t i = 0; i < a->xs.count; i++)
        xcvm_value_set_tensor(a->ys.at[i], a->xs.at[i]->dtype, a->xs.at[i]->rank, a->xs.at[i]->dims);
    return XCVM_OK;
}

static xcvm_status reduce(xcvm_kernel *k, xcvm_dtype dtype, void *elements, size_t count)
{
    if (k->all_reduce == NULL || count == 0)
        return XCVM_OK;
    const xcvm_status status = k->all_reduce(k->all_reduce_user, dtype, elements, count, k->error);
    if (status != XCVM_OK && (k->error == NULL || k->error->status != status))
        return xcvm_error_set(k->error, status, "the sum over all processes failed");
    return status;
}

static xcvm_status copy(xcvm_kernel *k, void *to, const void *from, size_t bytes)
{
    return to != from && bytes > 0 ? xcvm_kernel_copy(k, to, from, bytes) : XCVM_OK;
}

XCVM_KERNEL(AllReduce)
{
    const xcvm_dtype dtype = (xcvm_dtype)a->x->dtype;
    if (a->xs.count == 0) {
        XCVM_TRY(copy(k, a->y->data, a->x->data, a->x->bytes));
        return reduce(k, dtype, a->y->data, xcvm_element_count(a->y));
    }
    size_t bytes = a->x->bytes;
    for (size_t i = 0; i < a->xs.count; i++)
        XCVM_CHECK(k->error, xcvm_size_add(bytes, a->xs.at[i]->bytes, &bytes), OUT_OF_RANGE, "too many elements");
    char *all = xcvm_kernel_scratch(k, bytes);
    if (all == NULL)
        return XCVM_OUT_OF_MEMORY;
    /* Everything is read before anything is written: y may have the memory of x. */
    size_t at = 0;
    for (size_t i = 0; i <= a->xs.count; i++) {
        const xcvm_value *x = i == 0 ? a->x : a->xs.at[i - 1];
        XCVM_TRY(copy(k, all + at, x->data, x->bytes));
        at += x->bytes;
    }
    XCVM_TRY(reduce(k, dtype, all, bytes / ((size_t)xcvm_dtype_bits(dtype) / 8)));
    at = 0;
    for (size_t i = 0; i <= a->xs.count; i++) {
        const xcvm_value *y = i == 0 ? a->y : a->ys.at[i - 1];
        XCVM_TRY(copy(k, y->data, all + at, y->bytes));
        at += y->bytes;
    }
    return XCVM_OK;
}
