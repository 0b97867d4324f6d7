/* Conversion of tensors to sequences of their slices, and back. */
#include "ops/data/concat.h"
#include "ops/util/index.h"

/* ---- Splitting ---- */

XCVM_SHAPE_RULE_OF(SplitToSequence)
{
    int axis;
    if (a->x->rank >= 0)
        XCVM_TRY(xcvm_resolve_axis(t->error, a->axis, a->x->rank, &axis));
    xcvm_set_list(a->y, XCVM_KIND_SEQUENCE, a->x->dtype);
    return XCVM_OK;
}

/* Computes the number of pieces, and their size if it is uniform. */
static xcvm_status count_pieces(xcvm_kernel *k, const xcvm_SplitToSequence_args *a, int64_t dim, size_t *count,
                                int64_t *piece)
{
    *piece = 1;
    *count = (size_t)dim;
    if (a->split == NULL)
        return XCVM_OK;
    XCVM_CHECK(k->error, a->split->rank <= 1, SHAPE_MISMATCH, "split has the wrong rank (%d; expected at most 1)",
               a->split->rank);
    if (a->split->rank == 0) {
        XCVM_TRY(xcvm_read_int(k->error, a->split, "split", piece));
        XCVM_CHECK(k->error, *piece > 0, OUT_OF_RANGE, "split is %lld", (long long)*piece);
        *count = (size_t)(dim / *piece + (dim % *piece != 0));
        return XCVM_OK;
    }
    int64_t sum = 0;
    *count = (size_t)a->split->dims[0];
    for (size_t i = 0; i < *count; i++) {
        int64_t size = xcvm_index_at(a->split, i);
        XCVM_CHECK(k->error, size >= 0 && !__builtin_add_overflow(sum, size, &sum), OUT_OF_RANGE,
                   "element %zu of split is %lld", i, (long long)size);
    }
    XCVM_CHECK(k->error, sum == dim, SHAPE_MISMATCH, "split sums up to %lld, the dimension is %lld", (long long)sum,
               (long long)dim);
    return XCVM_OK;
}

/* Sets the shape of every item and, unless it has strings, allocates it. */
static xcvm_status make_items(xcvm_kernel *k, const xcvm_SplitToSequence_args *a, int axis, int64_t piece,
                              const xcvm_value *sizes, xcvm_value **pointers)
{
    xcvm_value *items = a->y->data;
    int64_t dims[XCVM_MAX_RANK], left = a->x->dims[axis];
    memcpy(dims, a->x->dims, sizeof dims);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < a->y->count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, XCVM_ITEM_STEPS));
        dims[axis] = sizes != NULL ? xcvm_index_at(sizes, i) : piece < left ? piece : left;
        left -= dims[axis];
        pointers[i] = &items[i];
        if (a->x->dtype == XCVM_STRING)
            xcvm_value_set_tensor(&items[i], XCVM_STRING, a->x->rank, dims);
        else
            XCVM_TRY(xcvm_kernel_allocate(k, &items[i], a->x->dtype, a->x->rank, dims));
    }
    return XCVM_OK;
}

static void drop_axis(xcvm_value *item, int axis)
{
    for (int i = axis; i + 1 < item->rank; i++)
        item->dims[i] = item->dims[i + 1];
    item->dims[--item->rank] = 0;
}

XCVM_KERNEL(SplitToSequence)
{
    int axis;
    size_t count;
    int64_t piece;
    XCVM_TRY(xcvm_resolve_axis(k->error, a->axis, a->x->rank, &axis));
    XCVM_TRY(count_pieces(k, a, a->x->dims[axis], &count, &piece));
    XCVM_TRY(xcvm_kernel_allocate_list(k, a->y, XCVM_KIND_SEQUENCE, a->x->dtype, count));
    if (count == 0)
        return XCVM_OK;
    xcvm_storage *storage;
    XCVM_TRY(xcvm_heap_allocate(k->heap, count * sizeof(xcvm_value *), &storage, k->error));
    const xcvm_value *sizes = a->split != NULL && a->split->rank == 1 ? a->split : NULL;
    xcvm_value **items = storage->data;
    xcvm_status status = make_items(k, a, axis, piece, sizes, items);
    if (status == XCVM_OK)
        status = xcvm_split(k, count, items, sizes, piece, a->x, axis);
    for (size_t i = 0; i < count && status == XCVM_OK && a->split == NULL && !a->keepdims; i++)
        drop_axis(items[i], axis);
    xcvm_storage_release(storage);
    return status;
}

/* ---- Joining ---- */

static bool is_empty(const xcvm_value *s) { return s->data != NULL && s->count == 0; }

XCVM_SHAPE_RULE_OF(ConcatFromSequence)
{
    XCVM_CHECK(t->error, a->empty_dims.count <= XCVM_MAX_RANK, INVALID_ARGUMENT,
               "empty_dims has too many entries (%zu; expected at most %d)", a->empty_dims.count, XCVM_MAX_RANK);
    xcvm_set_unknown(a->y, a->s->dtype != XCVM_NO_DTYPE ? (xcvm_dtype)a->s->dtype : a->empty_dtype, -1);
    return XCVM_OK;
}

/* Computes the common shape of items, with the sum of their sizes on the axis. */
static xcvm_status common_shape(xcvm_kernel *k, const xcvm_ConcatFromSequence_args *a, int axis, int64_t *dims)
{
    const xcvm_value *items = xcvm_items(a->s), *first = &items[0];
    memcpy(dims, first->dims, sizeof first->dims);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 1; i < a->s->count; i++) {
        const xcvm_value *item = &items[i];
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        XCVM_CHECK(k->error, item->kind == XCVM_KIND_TENSOR && item->dtype == first->dtype, TYPE_MISMATCH,
                   "item %zu of s is not a tensor of %s like the first", i, xcvm_dtype_name(first->dtype));
        XCVM_CHECK(k->error, item->rank == first->rank, SHAPE_MISMATCH, "item %zu of s has rank %d, the first %d", i,
                   item->rank, first->rank);
        for (int d = 0; d < item->rank; d++)
            XCVM_CHECK(k->error, item->dims[d] == first->dims[d] || (d == axis && !a->new_axis), SHAPE_MISMATCH,
                       "dimension %d of item %zu of s is %lld, of the first %lld", d, i, (long long)item->dims[d],
                       (long long)first->dims[d]);
        if (!a->new_axis)
            XCVM_CHECK(k->error, !__builtin_add_overflow(dims[axis], item->dims[axis], &dims[axis]), OUT_OF_RANGE,
                       "the sum of the dimensions overflows");
    }
    if (a->new_axis) {
        memmove(dims + axis + 1, dims + axis, (size_t)(first->rank - axis) * sizeof *dims);
        dims[axis] = a->s->count;
    }
    return XCVM_OK;
}

XCVM_KERNEL(ConcatFromSequence)
{
    if (is_empty(a->s)) {
        XCVM_CHECK(k->error, a->empty_dtype != XCVM_NO_DTYPE, OUT_OF_RANGE, "s is empty");
        xcvm_string *spans;
        char *text;
        int rank = (int)a->empty_dims.count;
        if (a->empty_dtype != XCVM_STRING)
            return xcvm_kernel_allocate(k, a->y, a->empty_dtype, rank, a->empty_dims.at);
        return xcvm_kernel_allocate_strings(k, a->y, rank, a->empty_dims.at, 0, &spans, &text);
    }
    const xcvm_value *first = xcvm_items(a->s);
    int axis, rank;
    int64_t dims[XCVM_MAX_RANK + 1];
    XCVM_CHECK(k->error, first->kind == XCVM_KIND_TENSOR, TYPE_MISMATCH, "the items of s are no tensors");
    rank = first->rank + (a->new_axis != 0);
    XCVM_CHECK(k->error, rank <= XCVM_MAX_RANK, UNSUPPORTED,
               "the result has an unsupported rank (%d; expected at most %d)", rank, XCVM_MAX_RANK);
    XCVM_TRY(xcvm_resolve_axis(k->error, a->axis, rank, &axis));
    XCVM_TRY(common_shape(k, a, axis, dims));
    if (first->dtype == XCVM_STRING)
        xcvm_value_set_tensor(a->y, XCVM_STRING, rank, dims);
    else
        XCVM_TRY(xcvm_kernel_allocate(k, a->y, first->dtype, rank, dims));
    xcvm_storage *storage;
    XCVM_TRY(xcvm_heap_allocate(k->heap, a->s->count * sizeof(xcvm_value *), &storage, k->error));
    const xcvm_value **items = storage->data;
    for (size_t i = 0; i < a->s->count; i++)
        items[i] = first + i;
    xcvm_status status = xcvm_concat(k, a->y, a->s->count, items, axis);
    xcvm_storage_release(storage);
    return status;
}
