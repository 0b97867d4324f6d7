/* OneHot. */
#include "ops/util/index.h"
#include "ops/util/move.h"

#include <math.h>

static xcvm_status result_axis(xcvm_error *error, const xcvm_OneHot_args *a, int *axis)
{
    int rank = a->indices->rank + 1;
    XCVM_CHECK(error, rank <= XCVM_MAX_RANK, UNSUPPORTED,
               "the result has an unsupported rank (%d; expected at most %d)", rank, XCVM_MAX_RANK);
    return xcvm_resolve_axis(error, a->axis, rank, axis);
}

XCVM_SHAPE_RULE_OF(OneHot)
{
    const xcvm_value *indices = a->indices;
    int64_t dims[XCVM_MAX_RANK], depth = XCVM_ANY_DIM;
    int axis;
    bool depth_known;
    XCVM_TRY(xcvm_scalar_check(t->error, a->depth, "depth", &depth_known));
    XCVM_CHECK(t->error, !xcvm_dims_known(a->values) || xcvm_element_count(a->values) == 2, SHAPE_MISMATCH,
               "values must have two elements");
    if (depth_known) {
        depth = xcvm_element_as_int(a->depth, 0);
        XCVM_CHECK(t->error, depth >= 0, OUT_OF_RANGE, "depth is %lld", (long long)depth);
    }
    if (indices->rank < 0) {
        xcvm_set_unknown(a->y, a->y->dtype, -1);
        return XCVM_OK;
    }
    XCVM_TRY(result_axis(t->error, a, &axis));
    dims[axis] = depth;
    for (int i = 0; i < indices->rank; i++)
        dims[i < axis ? i : i + 1] = indices->dims[i];
    xcvm_value_set_tensor(a->y, a->y->dtype, indices->rank + 1, dims);
    return XCVM_OK;
}

typedef struct marking {
    const xcvm_OneHot_args *a;
    int axis;
} marking;

/* The position that element `i` of indices selects, or -1 if it is out of range. */
static int64_t selected_position(const xcvm_value *indices, size_t i, int64_t depth)
{
    if (xcvm_dtype_is_float(indices->dtype)) {
        double value = xcvm_element_as_double(indices, i);
        if (value != floor(value))
            return -1;
    }
    int64_t index = indices->dtype == XCVM_I64 ? XCVM_CDATA(int64_t, indices)[i] : xcvm_element_as_int(indices, i);
    if (index < -depth || index >= depth)
        return -1;
    return index < 0 ? index + depth : index;
}

/* Fills the result with `off` and sets selected positions to `on`, in portions of outer positions that stay in the
 * cache between the two steps. */
static xcvm_status mark(const xcvm_moving *m, const void *context)
{
    enum { PORTION = 16 * 1024 };
    const marking *c = context;
    const char *off = m->from[0], *on = off + m->size;
    xcvm_around y = xcvm_around_axis(c->a->y, c->axis);
    xcvm_poller poller = xcvm_poller_of(m->k);
    char *to = m->to[0];
    const size_t bytes = y.dim * y.inner * m->size, some = bytes < PORTION ? PORTION / (bytes + 1) + 1 : 1;
    for (size_t o = 0, end; o < y.outer && y.inner != 0; o = end) {
        end = o + xcvm_min(y.outer - o, some);
        XCVM_TRY(xcvm_move_fill(m->k, to, off, m->size, (end - o) * y.dim * y.inner));
        for (size_t i = o * y.inner, inner = 0; i < end * y.inner; i++) {
            XCVM_TRY(xcvm_poll_after(&poller, 1));
            const int64_t at = selected_position(c->a->indices, i, (int64_t)y.dim);
            if (at >= 0)
                xcvm_move_element(to + ((size_t)at * y.inner + inner) * m->size, on, m->size);
            if (++inner == y.inner) {
                inner = 0;
                to += bytes;
            }
        }
    }
    return XCVM_OK;
}

XCVM_KERNEL(OneHot)
{
    marking c = {.a = a};
    XCVM_TRY(result_axis(k->error, a, &c.axis));
    return xcvm_move_one(k, a->values, a->y, mark, &c);
}
