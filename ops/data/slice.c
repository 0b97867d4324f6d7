/* Slice. */
#include "ops/util/move.h"
#include "ops/util/strided.h"

/* One axis of a slice: `count` elements from `start` with step `step`. */
typedef struct range {
    int64_t start, step, count;
} range;

/* Resolves start, end and step for a dimension, as ONNX defines them: negative values count from the end, and all are
 * clamped. */
static range resolve(int64_t start, int64_t end, int64_t step, int64_t dim)
{
    range r = {.step = step};
    int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? dim - 1 : dim;
    start = start < 0 ? start + dim : start;
    end = end < 0 ? end + dim : end;
    start = start < 0 ? 0 : start > highest ? highest : start;
    end = end < lowest ? lowest : end > highest + (step < 0) ? highest + (step < 0) : end;
    r.start = start;
    if (dim == 0)
        return r;
    if (step > 0 && end > start)
        r.count = (end - start - 1) / step + 1;
    else if (step < 0 && start > end)
        r.count = step == INT64_MIN ? 1 : (start - end - 1) / -step + 1;
    return r;
}

/* The known operands: the axis of each entry, and its numbers. */
typedef struct entries {
    size_t count;
    bool known, axes_known;
    int axis[XCVM_MAX_RANK];
    int64_t start[XCVM_MAX_RANK], end[XCVM_MAX_RANK], step[XCVM_MAX_RANK];
} entries;

static xcvm_status read_entries(xcvm_error *error, const xcvm_Slice_args *a, int rank, entries *e)
{
    size_t starts, ends, axes, steps;
    bool ends_known, steps_known = true;
    int64_t axis[XCVM_MAX_RANK];
    XCVM_TRY(xcvm_read_ints(error, a->starts, "starts", e->start, XCVM_MAX_RANK, &starts, &e->known));
    XCVM_TRY(xcvm_read_ints(error, a->ends, "ends", e->end, XCVM_MAX_RANK, &ends, &ends_known));
    for (size_t i = 0; i < XCVM_MAX_RANK; i++)
        e->step[i] = 1;
    if (a->steps != NULL)
        XCVM_TRY(xcvm_read_ints(error, a->steps, "steps", e->step, XCVM_MAX_RANK, &steps, &steps_known));
    XCVM_CHECK(error, !e->known || !ends_known || starts == ends, SHAPE_MISMATCH, "starts has %zu elements, ends %zu",
               starts, ends);
    XCVM_CHECK(error, !e->known || a->steps == NULL || !steps_known || starts == steps, SHAPE_MISMATCH,
               "starts has %zu elements, steps %zu", starts, steps);
    /* Any operand whose elements are known gives the number of entries. */
    bool counted = e->known || ends_known || (a->steps != NULL && steps_known);
    e->count = e->known ? starts : ends_known ? ends : a->steps != NULL && steps_known ? steps : 0;
    if (!counted && a->starts->rank == 1 && a->starts->dims[0] >= 0 && a->starts->dims[0] <= XCVM_MAX_RANK) {
        e->count = (size_t)a->starts->dims[0];
        counted = true;
    }
    e->axes_known = counted;
    for (size_t i = 0; i < XCVM_MAX_RANK; i++)
        axis[i] = (int64_t)i;
    if (a->axes != NULL) {
        XCVM_TRY(xcvm_read_ints(error, a->axes, "axes", axis, XCVM_MAX_RANK, &axes, &e->axes_known));
        XCVM_CHECK(error, !e->axes_known || !counted || axes == e->count, SHAPE_MISMATCH,
                   "starts has %zu elements, axes %zu", e->count, axes);
        if (e->axes_known)
            e->count = axes;
    }
    e->known = e->known && ends_known && steps_known && e->axes_known;
    unsigned seen = 0;
    for (size_t i = 0; e->axes_known && i < e->count; i++) {
        XCVM_TRY(xcvm_resolve_axis(error, axis[i], rank, &e->axis[i]));
        XCVM_CHECK(error, !(seen >> e->axis[i] & 1), INVALID_ARGUMENT, "axis %d is given twice", e->axis[i]);
        seen |= 1U << e->axis[i];
        XCVM_CHECK(error, !e->known || e->step[i] != 0, INVALID_ARGUMENT, "element %zu of steps is 0", i);
    }
    return XCVM_OK;
}

/* Size of an open dimension after slicing: unchanged if the slice takes all of it. */
static int64_t open_size(int64_t dim, int64_t start, int64_t end, int64_t step)
{
    bool forwards = step == 1 && start == 0 && end >= INT32_MAX;
    bool backwards = step == -1 && start >= INT32_MAX && end <= INT32_MIN;
    return forwards || backwards || (start == -1 && step == -1 && end <= INT32_MIN) ? dim : XCVM_ANY_DIM;
}

XCVM_SHAPE_RULE_OF(Slice)
{
    const xcvm_value *x = a->x;
    int64_t dims[XCVM_MAX_RANK];
    entries e;
    if (x->rank < 0) {
        xcvm_set_unknown(a->y, a->y->dtype, -1);
        return XCVM_OK;
    }
    XCVM_TRY(read_entries(t->error, a, x->rank, &e));
    memcpy(dims, x->dims, sizeof dims);
    for (int i = 0; !e.axes_known && i < x->rank; i++)
        dims[i] = XCVM_ANY_DIM;
    for (size_t i = 0; e.axes_known && i < e.count; i++) {
        int64_t *dim = &dims[e.axis[i]];
        if (!e.known)
            *dim = XCVM_ANY_DIM;
        else if (*dim < 0)
            *dim = open_size(*dim, e.start[i], e.end[i], e.step[i]);
        else
            *dim = resolve(e.start[i], e.end[i], e.step[i], *dim).count;
    }
    xcvm_value_set_tensor(a->y, a->y->dtype, x->rank, dims);
    return XCVM_OK;
}

typedef struct slicing {
    const xcvm_Slice_args *a;
    range ranges[XCVM_MAX_RANK];
} slicing;

static xcvm_status slice(const xcvm_moving *m, const void *context)
{
    const slicing *c = context;
    const xcvm_value *x = c->a->x, *y = c->a->y;
    ptrdiff_t from[XCVM_MAX_RANK], to[XCVM_MAX_RANK], begin = 0;
    xcvm_row_major(x->rank, x->dims, from);
    xcvm_row_major(y->rank, y->dims, to);
    xcvm_strided s = {.rank = 0};
    for (int i = 0; i < x->rank; i++) {
        const range *r = &c->ranges[i];
        begin += (ptrdiff_t)r->start * from[i];
        /* A step larger than the dimension is never taken, but its product with the stride could overflow. */
        xcvm_strided_axis(&s, (size_t)y->dims[i], to[i], y->dims[i] > 1 ? from[i] * (ptrdiff_t)r->step : from[i]);
    }
    return xcvm_strided_copy(m->k, &s, m->size, m->to[0], (const char *)m->from[0] + begin * (ptrdiff_t)m->size);
}

XCVM_KERNEL(Slice)
{
    slicing c = {.a = a};
    entries e;
    XCVM_TRY(read_entries(k->error, a, a->x->rank, &e));
    for (int i = 0; i < a->x->rank; i++)
        c.ranges[i] = (range){0, 1, a->x->dims[i]};
    for (size_t i = 0; i < e.count; i++)
        c.ranges[e.axis[i]] = resolve(e.start[i], e.end[i], e.step[i], a->x->dims[e.axis[i]]);
    if (xcvm_element_count(a->y) == 0 && a->y->dtype != XCVM_STRING)
        return XCVM_OK;
    return xcvm_move_one(k, a->x, a->y, slice, &c);
}
