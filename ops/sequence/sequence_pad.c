/* Conversion of sequences of tensors of different lengths to one padded tensor and back. The length of a tensor is
 * dimension 0. */
#include "ops/util/index.h"
#include "ops/util/move.h"

static xcvm_status check_item(xcvm_kernel *k, const xcvm_value *s, size_t i)
{
    const xcvm_value *item = xcvm_items(s) + i;
    XCVM_CHECK(k->error, item->kind == XCVM_KIND_TENSOR, TYPE_MISMATCH, "item %zu of s is not a tensor", i);
    XCVM_CHECK(k->error, item->rank > 0, SHAPE_MISMATCH, "item %zu of s has rank 0, so it has no length", i);
    return XCVM_OK;
}

/* ---- Lengths ---- */

XCVM_SHAPE_RULE_OF(SequenceLengths)
{
    (void)t;
    const int64_t dim = a->s->data != NULL ? (int64_t)a->s->count : XCVM_ANY_DIM;
    xcvm_value_set_tensor(a->y, XCVM_I64, 1, &dim);
    return XCVM_OK;
}

XCVM_KERNEL(SequenceLengths)
{
    if (a->y->data == NULL)
        XCVM_TRY(xcvm_kernel_allocate(k, a->y, XCVM_I64, 1, &(int64_t){a->s->count}));
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < a->s->count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        XCVM_TRY(check_item(k, a->s, i));
        XCVM_DATA(int64_t, a->y)[i] = xcvm_items(a->s)[i].dims[0];
    }
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(SequenceSizes)
{
    (void)t;
    const int64_t dim = a->s->data != NULL ? (int64_t)a->s->count : XCVM_ANY_DIM;
    xcvm_value_set_tensor(a->y, XCVM_I64, 1, &dim);
    return XCVM_OK;
}

XCVM_KERNEL(SequenceSizes)
{
    if (a->y->data == NULL)
        XCVM_TRY(xcvm_kernel_allocate(k, a->y, XCVM_I64, 1, &(int64_t){a->s->count}));
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < a->s->count; i++) {
        int axis;
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        XCVM_TRY(check_item(k, a->s, i));
        XCVM_TRY(xcvm_resolve_axis(k->error, a->axis, xcvm_items(a->s)[i].rank, &axis));
        XCVM_DATA(int64_t, a->y)[i] = xcvm_items(a->s)[i].dims[axis];
    }
    return XCVM_OK;
}

/* ---- Pad ---- */

XCVM_SHAPE_RULE_OF(SequencePad)
{
    if (a->value != NULL)
        XCVM_CHECK(t->error, a->value->rank <= 0, SHAPE_MISMATCH, "value has the wrong rank (%d; expected 0)",
                   a->value->rank);
    xcvm_set_unknown(a->y, a->y->dtype, -1);
    return XCVM_OK;
}

/* Checks that items have equal types and shapes except for their lengths; *longest is their maximum. */
static xcvm_status compare_items(xcvm_kernel *k, const xcvm_value *s, int64_t *longest)
{
    const xcvm_value *first = xcvm_items(s);
    xcvm_poller poller = xcvm_poller_of(k);
    *longest = 0;
    for (size_t i = 0; i < s->count; i++) {
        const xcvm_value *item = first + i;
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        XCVM_TRY(check_item(k, s, i));
        XCVM_CHECK(k->error, item->dtype == first->dtype, TYPE_MISMATCH,
                   "item %zu of s has element type %s, the first %s", i, xcvm_dtype_name((xcvm_dtype)item->dtype),
                   xcvm_dtype_name((xcvm_dtype)first->dtype));
        XCVM_CHECK(k->error, item->rank == first->rank, SHAPE_MISMATCH, "item %zu of s has rank %d, the first %d", i,
                   item->rank, first->rank);
        for (int d = 1; d < item->rank; d++)
            XCVM_CHECK(k->error, item->dims[d] == first->dims[d], SHAPE_MISMATCH,
                       "dimension %d of item %zu of s is %lld, of the first %lld", d, i, (long long)item->dims[d],
                       (long long)first->dims[d]);
        *longest = item->dims[0] > *longest ? item->dims[0] : *longest;
    }
    return XCVM_OK;
}

XCVM_KERNEL(SequencePad)
{
    static const uint64_t zero[2] = {0, 0};
    const xcvm_value *first = xcvm_items(a->s);
    int64_t longest, dims[XCVM_MAX_RANK];
    XCVM_CHECK(k->error, a->s->count != 0, OUT_OF_RANGE, "s is empty");
    XCVM_TRY(compare_items(k, a->s, &longest));
    XCVM_CHECK(k->error, a->length == 0 || a->length >= longest, OUT_OF_RANGE,
               "length is %lld, but there is an item of length %lld", (long long)a->length, (long long)longest);
    XCVM_CHECK(k->error, first->rank < XCVM_MAX_RANK, UNSUPPORTED,
               "the result has an unsupported rank (%d; expected at most %d)", first->rank + 1, XCVM_MAX_RANK);
    XCVM_CHECK(k->error, xcvm_dtype_in((xcvm_dtype)first->dtype, XCVM_TYPES_PLAIN), TYPE_MISMATCH,
               "the items of s have element type %s", xcvm_dtype_name((xcvm_dtype)first->dtype));
    XCVM_CHECK(k->error, a->value == NULL || a->value->dtype == first->dtype, TYPE_MISMATCH,
               "value has element type %s, the items of s %s", xcvm_dtype_name((xcvm_dtype)a->value->dtype),
               xcvm_dtype_name((xcvm_dtype)first->dtype));
    dims[0] = a->s->count;
    memcpy(dims + 1, first->dims, (size_t)first->rank * sizeof *dims);
    dims[1] = a->length != 0 ? a->length : longest;
    XCVM_TRY(xcvm_kernel_allocate(k, a->y, (xcvm_dtype)first->dtype, first->rank + 1, dims));
    const size_t size = xcvm_dtype_size((xcvm_dtype)first->dtype), row = a->y->bytes / a->s->count;
    const void *value = a->value != NULL ? a->value->data : zero;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < a->s->count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        char *to = (char *)a->y->data + i * row;
        const size_t bytes = first[i].bytes;
        XCVM_TRY(xcvm_kernel_copy(k, to, first[i].data, bytes));
        XCVM_TRY(xcvm_move_fill(k, to + bytes, value, size, (row - bytes) / size));
    }
    return XCVM_OK;
}

/* ---- Unpad ---- */

XCVM_SHAPE_RULE_OF(SequenceUnpad)
{
    XCVM_CHECK(t->error, a->x->rank < 0 || a->x->rank >= 2, SHAPE_MISMATCH,
               "x has the wrong rank (%d; expected 2 or more)", a->x->rank);
    XCVM_CHECK(t->error, a->lengths->rank < 0 || a->lengths->rank == 1, SHAPE_MISMATCH,
               "lengths has the wrong rank (%d; expected 1)", a->lengths->rank);
    if (a->x->rank >= 0 && a->lengths->rank == 1)
        XCVM_CHECK(t->error, !xcvm_dims_differ(a->x->dims[0], a->lengths->dims[0]), SHAPE_MISMATCH,
                   "there are %lld lengths for the %lld items of x", (long long)a->lengths->dims[0],
                   (long long)a->x->dims[0]);
    xcvm_set_list(a->y, XCVM_KIND_SEQUENCE, (xcvm_dtype)a->x->dtype);
    return XCVM_OK;
}

XCVM_KERNEL(SequenceUnpad)
{
    const size_t count = (size_t)a->x->dims[0], row = count != 0 ? a->x->bytes / count : 0;
    XCVM_TRY(xcvm_kernel_allocate_list(k, a->y, XCVM_KIND_SEQUENCE, (xcvm_dtype)a->x->dtype, count));
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, XCVM_ITEM_STEPS));
        const int64_t length = xcvm_index_at(a->lengths, i);
        XCVM_CHECK(k->error, length >= 0 && length <= a->x->dims[1], OUT_OF_RANGE,
                   "element %zu of lengths is %lld, the items of x have length %lld", i, (long long)length,
                   (long long)a->x->dims[1]);
        int64_t dims[XCVM_MAX_RANK];
        memcpy(dims, a->x->dims + 1, (size_t)(a->x->rank - 1) * sizeof *dims);
        dims[0] = length;
        xcvm_value *item = (xcvm_value *)a->y->data + i;
        XCVM_TRY(xcvm_kernel_allocate(k, item, (xcvm_dtype)a->x->dtype, a->x->rank - 1, dims));
        XCVM_TRY(xcvm_kernel_copy(k, item->data, (const char *)a->x->data + i * row, item->bytes));
    }
    return XCVM_OK;
}
