/* Concat: its kernel, and its inverse for Split. */
#include "ops/data/concat.h"
#include "ops/util/index.h"
#include "ops/util/move.h"
#include "ops/util/strided.h"

XCVM_SHAPE_RULE_OF(Concat)
{
    XCVM_CHECK(t->error, a->xs.count != 0, INVALID_ARGUMENT, "there is nothing to concatenate");
    const xcvm_value *first = NULL;
    int axis = 0;
    int64_t dims[XCVM_MAX_RANK] = {0};
    for (size_t i = 0; i < a->xs.count; i++) {
        const xcvm_value *x = a->xs.at[i];
        if (x->rank < 0)
            continue;
        if (first == NULL) {
            first = x;
            XCVM_TRY(xcvm_resolve_axis(t->error, a->axis, x->rank, &axis));
            memcpy(dims, x->dims, sizeof dims);
            continue;
        }
        XCVM_CHECK(t->error, x->rank == first->rank, SHAPE_MISMATCH, "element %zu of xs has rank %d, another %d", i,
                   x->rank, first->rank);
        for (int d = 0; d < x->rank; d++) {
            if (d == axis) {
                bool open = dims[d] < 0 || x->dims[d] < 0;
                if (open)
                    dims[d] = dims[d] == 0 ? x->dims[d] : x->dims[d] == 0 ? dims[d] : XCVM_ANY_DIM;
                else
                    XCVM_CHECK(t->error, !__builtin_add_overflow(dims[d], x->dims[d], &dims[d]), OUT_OF_RANGE,
                               "the sum of the dimensions overflows");
                continue;
            }
            XCVM_CHECK(t->error, xcvm_dims_agree(&dims[d], x->dims[d]), SHAPE_MISMATCH,
                       "dimension %d of element %zu of xs is %lld, of another %lld", d, i, (long long)x->dims[d],
                       (long long)dims[d]);
        }
    }
    if (first == NULL) {
        xcvm_set_unknown(a->y, a->y->dtype, -1);
        return XCVM_OK;
    }
    for (size_t i = 0; i < a->xs.count; i++)
        if (a->xs.at[i]->rank < 0)
            dims[axis] = XCVM_ANY_DIM;
    xcvm_value_set_tensor(a->y, a->y->dtype, first->rank, dims);
    return XCVM_OK;
}

typedef struct joining {
    size_t count;
    const xcvm_value *const *xs;
    xcvm_around whole; /* of the result */
} joining;

static xcvm_status join(const xcvm_moving *m, const void *context)
{
    const joining *j = context;
    size_t unit = j->whole.outer * j->whole.inner, row = j->whole.dim * j->whole.inner, at = 0;
    for (size_t i = 0; i < j->count && unit != 0; i++) {
        size_t run = xcvm_element_count(j->xs[i]) / j->whole.outer;
        xcvm_strided s = {.rank = 0};
        xcvm_strided_axis(&s, j->whole.outer, (ptrdiff_t)row, (ptrdiff_t)run);
        xcvm_strided_axis(&s, run, 1, 1);
        XCVM_TRY(xcvm_strided_copy(m->k, &s, m->size, (char *)m->to[0] + at * m->size, m->from[i]));
        at += run;
    }
    return XCVM_OK;
}

xcvm_status xcvm_concat(xcvm_kernel *k, xcvm_value *y, size_t count, const xcvm_value *const *xs, int axis)
{
    joining j = {.count = count, .xs = xs, .whole = xcvm_around_axis(y, axis)};
    return xcvm_move(k, count, xs, 1, &y, join, &j);
}

XCVM_KERNEL(Concat)
{
    int axis = (int)(a->axis < 0 ? a->axis + a->y->rank : a->axis);
    return xcvm_concat(k, a->y, a->xs.count, a->xs.at, axis);
}
