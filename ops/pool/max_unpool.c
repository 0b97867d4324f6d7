/* MaxUnpool. */
#include "ops/util/move.h"

/* Smallest operand shape of MaxPool that gives this result; indices refer to this shape. */
static xcvm_status pooled_from(xcvm_error *error, const xcvm_MaxUnpool_args *a, int64_t dims[XCVM_MAX_RANK])
{
    const size_t spatial = (size_t)a->x->rank - 2;
    XCVM_CHECK(error, a->x->rank >= 3, SHAPE_MISMATCH, "x has the wrong rank (%d; expected at least 3)", a->x->rank);
    XCVM_CHECK(error, a->kernel_shape.count == spatial && a->strides.count == spatial && a->pads.count == 2 * spatial,
               SHAPE_MISMATCH, "kernel_shape and strides must have %zu entries, pads %zu", spatial, 2 * spatial);
    dims[0] = a->x->dims[0];
    dims[1] = a->x->dims[1];
    for (size_t d = 0; d < spatial; d++) {
        const int64_t in = a->x->dims[2 + d];
        if (in < 0) {
            dims[2 + d] = XCVM_ANY_DIM;
            continue;
        }
        int64_t size;
        XCVM_CHECK(
            error,
            !__builtin_mul_overflow(in - 1, a->strides.at[d], &size) &&
                !__builtin_add_overflow(size, a->kernel_shape.at[d] - a->pads.at[d] - a->pads.at[d + spatial], &size) &&
                size >= 0,
            OUT_OF_RANGE, "dimension %zu of the result has no valid size", 2 + d);
        dims[2 + d] = size;
    }
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(MaxUnpool)
{
    int64_t dims[XCVM_MAX_RANK];
    if (a->x->rank < 0) {
        xcvm_value_set_tensor(a->y, (xcvm_dtype)a->x->dtype, -1, NULL);
        return XCVM_OK;
    }
    XCVM_TRY(pooled_from(t->error, a, dims));
    if (a->output_shape != NULL) {
        int64_t given[XCVM_MAX_RANK];
        size_t count;
        bool known;
        XCVM_TRY(xcvm_read_ints(t->error, a->output_shape, "output_shape", given, XCVM_MAX_RANK, &count, &known));
        XCVM_CHECK(t->error, !known || count == (size_t)a->x->rank, SHAPE_MISMATCH,
                   "output_shape has %zu entries, x has rank %d", count, a->x->rank);
        for (int d = 0; d < a->x->rank; d++) {
            XCVM_CHECK(t->error, !known || dims[d] < 0 || given[d] >= dims[d], SHAPE_MISMATCH,
                       "output_shape[%d] is too small (%lld; expected at least %lld)", d, (long long)given[d],
                       (long long)dims[d]);
            dims[d] = known ? given[d] : XCVM_ANY_DIM;
        }
    }
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->x->dtype, a->x->rank, dims);
    return XCVM_OK;
}

/* Converts an index into a tensor of shape `dims` to one of shape `to`. */
static ptrdiff_t convert_index(int rank, const int64_t *dims, const int64_t *to, int64_t index)
{
    int64_t at = 0, stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        at += index % dims[d] * stride;
        index /= dims[d];
        stride *= to[d];
    }
    return (ptrdiff_t)at;
}

/* Maximum of indices read as unsigned numbers, so that a negative one is too large. */
static uint64_t greatest_of(const int64_t *indices, size_t count)
{
    enum { CHAINS = 4 };
    uint64_t most[CHAINS] = {0};
    size_t i = 0;
    for (; i + CHAINS <= count; i += CHAINS)
        for (size_t j = 0; j < CHAINS; j++)
            most[j] = (uint64_t)indices[i + j] > most[j] ? (uint64_t)indices[i + j] : most[j];
    for (; i < count; i++)
        most[0] = (uint64_t)indices[i] > most[0] ? (uint64_t)indices[i] : most[0];
    for (size_t j = 1; j < CHAINS; j++)
        most[0] = most[j] > most[0] ? most[j] : most[0];
    return most[0];
}

XCVM_KERNEL(MaxUnpool)
{
    int64_t dims[XCVM_MAX_RANK], total = 1;
    XCVM_TRY(pooled_from(k->error, a, dims));
    XCVM_CHECK(k->error, xcvm_same_shape(a->x, a->indices), SHAPE_MISMATCH, "indices must have the shape of x");
    for (int d = 0; d < a->x->rank; d++)
        XCVM_CHECK(k->error, !__builtin_mul_overflow(total, dims[d], &total), OUT_OF_RANGE, "the result is too large");
    const size_t size = xcvm_dtype_size((xcvm_dtype)a->x->dtype), count = xcvm_element_count(a->x);
    /* If y has the pooled tensor's shape, an index is an offset. */
    bool same = true;
    for (int d = 0; d < a->x->rank; d++)
        same = same && a->y->dims[d] == dims[d];
    /* On 64-bit processors the indices themselves are offsets. */
    const bool direct = same && sizeof(ptrdiff_t) == sizeof(int64_t);
    enum { BLOCK = 2048 };
    ptrdiff_t offsets[BLOCK];
    size_t filled = 0; /* zeroed bytes of y: zeroing stays slightly ahead of the writes */
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t n = count - done < BLOCK ? count - done : BLOCK;
        const int64_t *indices = XCVM_CDATA(int64_t, a->indices) + done;
        uint64_t most = greatest_of(indices, n);
        for (size_t i = 0; i < n && most >= (uint64_t)total; i++)
            XCVM_CHECK(k->error, indices[i] >= 0 && indices[i] < total, OUT_OF_RANGE,
                       "index %lld at %zu is not in [0, %lld)", (long long)indices[i], done + i, (long long)total);
        for (size_t i = 0; i < n && !direct; i++)
            offsets[i] = same ? (ptrdiff_t)indices[i] : convert_index(a->x->rank, dims, a->y->dims, indices[i]);
        if (!same)
            most = (uint64_t)convert_index(a->x->rank, dims, a->y->dims, (int64_t)most);
        if (((size_t)most + 1) * size > filled) {
            const size_t next = ((size_t)most + 1) * size;
            XCVM_TRY(xcvm_kernel_fill(k, XCVM_DATA(char, a->y) + filled, 0, next - filled));
            filled = next;
        }
        xcvm_move_scatter(a->y->data, XCVM_CDATA(char, a->x) + done * size, size, n,
                          direct ? (const ptrdiff_t *)(const void *)indices : offsets);
        XCVM_TRY(xcvm_kernel_poll(k));
    }
    return xcvm_kernel_fill(k, XCVM_DATA(char, a->y) + filled, 0, a->y->bytes - filled);
}
