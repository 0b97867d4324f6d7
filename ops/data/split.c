/* Split. */
#include "ops/data/concat.h"
#include "ops/util/index.h"
#include "ops/util/move.h"
#include "ops/util/strided.h"

/* The sizes of the pieces must have one entry per result and sum to x's dimension, if known. */
static xcvm_status check_sizes(const xcvm_inference *t, const xcvm_value *split, size_t count, int64_t dim)
{
    int64_t sum = 0;
    XCVM_CHECK(t->error, split->rank == 1 && split->dims[0] == (int64_t)count, SHAPE_MISMATCH,
               "split must be a list of %zu sizes, one for each result", count);
    for (size_t i = 0; i < count; i++) {
        int64_t size = xcvm_index_at(split, i);
        XCVM_CHECK(t->error, size >= 0 && !__builtin_add_overflow(sum, size, &sum), OUT_OF_RANGE,
                   "element %zu of split is %lld", i, (long long)size);
    }
    XCVM_CHECK(t->error, dim < 0 || sum == dim, SHAPE_MISMATCH, "split sums up to %lld, the dimension is %lld",
               (long long)sum, (long long)dim);
    return XCVM_OK;
}

static int64_t equal_piece(int64_t dim, size_t count)
{
    int64_t n = (int64_t)count;
    return dim / n + (dim % n != 0);
}

XCVM_SHAPE_RULE_OF(Split)
{
    const xcvm_value *x = a->x;
    size_t count = a->ys.count;
    bool sizes = a->split != NULL && a->split->data != NULL;
    int axis = 0;
    XCVM_CHECK(t->error, count != 0, INVALID_ARGUMENT, "there are no results");
    if (x->rank >= 0)
        XCVM_TRY(xcvm_resolve_axis(t->error, a->axis, x->rank, &axis));
    if (sizes)
        XCVM_TRY(check_sizes(t, a->split, count, x->rank < 0 ? XCVM_ANY_DIM : x->dims[axis]));
    for (size_t i = 0; i < count; i++) {
        xcvm_value *y = a->ys.at[i];
        if (y == NULL)
            continue;
        if (x->rank < 0) {
            xcvm_set_unknown(y, y->dtype, -1);
            continue;
        }
        int64_t dims[XCVM_MAX_RANK], dim = x->dims[axis];
        memcpy(dims, x->dims, sizeof dims);
        if (sizes) {
            dims[axis] = xcvm_index_at(a->split, i);
        } else if (a->split != NULL || dim < 0) {
            dims[axis] = count == 1 ? dim : XCVM_ANY_DIM;
        } else {
            int64_t piece = equal_piece(dim, count), begin = piece * (int64_t)i;
            dims[axis] = begin >= dim ? 0 : piece < dim - begin ? piece : dim - begin;
        }
        xcvm_value_set_tensor(y, y->dtype, x->rank, dims);
    }
    return XCVM_OK;
}

typedef struct cutting {
    size_t count;
    const xcvm_value *split;
    size_t piece;
    xcvm_around whole; /* of x */
} cutting;

static xcvm_status cut(const xcvm_moving *m, const void *context)
{
    const cutting *c = context;
    size_t at = 0, row = c->whole.dim * c->whole.inner;
    for (size_t i = 0; i < c->count; i++) {
        size_t left = c->whole.dim - at;
        size_t length = c->split != NULL ? (size_t)xcvm_index_at(c->split, i) : c->piece < left ? c->piece : left;
        size_t run = length * c->whole.inner;
        if (m->to[i] != NULL) {
            xcvm_strided s = {.rank = 0};
            xcvm_strided_axis(&s, c->whole.outer, (ptrdiff_t)run, (ptrdiff_t)row);
            xcvm_strided_axis(&s, run, 1, 1);
            XCVM_TRY(xcvm_strided_copy(m->k, &s, m->size, m->to[i],
                                       (const char *)m->from[0] + at * c->whole.inner * m->size));
        }
        at += length;
    }
    return XCVM_OK;
}

xcvm_status xcvm_split(xcvm_kernel *k, size_t count, xcvm_value *const *ys, const xcvm_value *split, int64_t piece,
                       const xcvm_value *x, int axis)
{
    cutting c = {.count = count, .split = split, .piece = (size_t)piece, .whole = xcvm_around_axis(x, axis)};
    return xcvm_move(k, 1, &x, count, ys, cut, &c);
}

XCVM_KERNEL(Split)
{
    int axis = (int)(a->axis < 0 ? a->axis + a->x->rank : a->axis);
    return xcvm_split(k, a->ys.count, a->ys.at, a->split, equal_piece(a->x->dims[axis], a->ys.count), a->x, axis);
}
