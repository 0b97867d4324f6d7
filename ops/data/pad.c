#include "ops/move.h"
#include "ops/strided.h"

/* What is added to each dimension; below 0, what is taken away. */
typedef struct padding {
    int64_t before[XCVM_MAX_RANK], after[XCVM_MAX_RANK];
} padding;

/* *known tells whether all of it is; *touched has the bits of axes that may change if it is not. */
static xcvm_status read_padding(xcvm_error *error, const xcvm_Pad_args *a, int rank, padding *p, bool *known,
                                unsigned *touched)
{
    int64_t pads[2 * XCVM_MAX_RANK], axes[XCVM_MAX_RANK];
    size_t count, axis_count = (size_t)rank;
    bool axes_known = true;
    memset(p, 0, sizeof *p);
    for (int i = 0; i < XCVM_MAX_RANK; i++)
        axes[i] = i;
    *touched = ~0U;
    if (a->axes != NULL)
        XCVM_TRY(xcvm_read_ints(error, a->axes, "axes", axes, XCVM_MAX_RANK, &axis_count, &axes_known));
    XCVM_TRY(xcvm_read_ints(error, a->pads, "pads", pads, 2 * XCVM_MAX_RANK, &count, known));
    *known = *known && axes_known;
    if (!axes_known)
        return XCVM_OK;
    XCVM_CHECK(error, !*known || count == 2 * axis_count, SHAPE_MISMATCH, "pads has %zu elements, %zu are needed",
               count, 2 * axis_count);
    *touched = 0;
    for (size_t i = 0; i < axis_count; i++) {
        int axis;
        XCVM_TRY(xcvm_resolve_axis(error, axes[i], rank, &axis));
        XCVM_CHECK(error, !(*touched >> axis & 1), INVALID_ARGUMENT, "axis %d is given twice", axis);
        *touched |= 1U << axis;
        if (*known) {
            /* Far beyond any memory, but far enough from the ends of the type to be added and negated. */
            const int64_t most = INT64_MAX / 4;
            XCVM_CHECK(error,
                       pads[i] >= -most && pads[i] <= most && pads[i + axis_count] >= -most &&
                           pads[i + axis_count] <= most,
                       OUT_OF_RANGE, "pads of axis %d are %lld and %lld", axis, (long long)pads[i],
                       (long long)pads[i + axis_count]);
            p->before[axis] = pads[i];
            p->after[axis] = pads[i + axis_count];
        }
    }
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(Pad)
{
    const xcvm_value *x = a->x;
    int64_t dims[XCVM_MAX_RANK];
    padding p;
    bool known;
    unsigned touched;
    if (a->value != NULL)
        XCVM_TRY(xcvm_scalar_check(t->error, a->value, "value", &known));
    if (x->rank < 0) {
        xcvm_set_unknown(a->y, a->y->dtype, -1);
        return XCVM_OK;
    }
    XCVM_TRY(read_padding(t->error, a, x->rank, &p, &known, &touched));
    for (int i = 0; i < x->rank; i++) {
        int64_t grown;
        dims[i] = x->dims[i];
        if (!known) {
            dims[i] = touched >> i & 1 ? XCVM_ANY_DIM : dims[i];
            continue;
        }
        XCVM_REQUIRE(t, !__builtin_add_overflow(p.before[i], p.after[i], &grown), OUT_OF_RANGE, "pads overflow");
        if (dims[i] < 0) {
            dims[i] = grown == 0 ? dims[i] : XCVM_ANY_DIM;
            continue;
        }
        XCVM_REQUIRE(t, !__builtin_add_overflow(dims[i], grown, &dims[i]) && dims[i] >= 0, OUT_OF_RANGE,
                     "dimension %d of x is %lld, padded by %lld and %lld it would be %lld", i, (long long)x->dims[i],
                     (long long)p.before[i], (long long)p.after[i], (long long)dims[i]);
        XCVM_REQUIRE(t, x->dims[i] > 0 || dims[i] == 0 || a->mode == XCVM_PAD_MODE_constant, OUT_OF_RANGE,
                     "dimension %d of x is empty: there is nothing to pad it with", i);
    }
    xcvm_value_set_tensor(a->y, a->y->dtype, x->rank, dims);
    return XCVM_OK;
}

typedef struct filling {
    const xcvm_Pad_args *a;
    padding p;
} filling;

/* What of x appears in y as it is, by one strided copy. */
static xcvm_status copy_interior(const xcvm_moving *m, const filling *f)
{
    const xcvm_value *x = f->a->x, *y = f->a->y;
    ptrdiff_t from[XCVM_MAX_RANK], to[XCVM_MAX_RANK], begin_from = 0, begin_to = 0;
    xcvm_row_major(x->rank, x->dims, from);
    xcvm_row_major(y->rank, y->dims, to);
    xcvm_strided s = {.rank = 0};
    for (int i = 0; i < x->rank; i++) {
        int64_t cut_before = f->p.before[i] < 0 ? -f->p.before[i] : 0,
                cut_after = f->p.after[i] < 0 ? -f->p.after[i] : 0;
        int64_t kept = x->dims[i] - cut_before - cut_after;
        if (kept <= 0)
            return XCVM_OK;
        begin_from += (ptrdiff_t)cut_before * from[i];
        begin_to += (ptrdiff_t)(f->p.before[i] > 0 ? f->p.before[i] : 0) * to[i];
        xcvm_strided_axis(&s, (size_t)kept, to[i], from[i]);
    }
    ptrdiff_t size = (ptrdiff_t)m->size;
    return xcvm_strided_copy(m->k, &s, m->size, (char *)m->to[0] + begin_to * size,
                             (const char *)m->from[0] + begin_from * size);
}

static xcvm_status pad_constant(const xcvm_moving *m, const void *context)
{
    const filling *f = context;
    XCVM_TRY(xcvm_move_fill(m->k, m->to[0], f->a->value != NULL ? m->from[1] : m->zero, m->size,
                            xcvm_element_count(f->a->y)));
    return copy_interior(m, f);
}

/* The position in a dimension of x that position `i` of y takes its elements from. */
static int64_t source(int mode, int64_t i, int64_t before, int64_t dim)
{
    int64_t at = i - before;
    if (at >= 0 && at < dim)
        return at;
    if (mode == XCVM_PAD_MODE_edge)
        return at < 0 ? 0 : dim - 1;
    if (mode == XCVM_PAD_MODE_wrap)
        return at % dim < 0 ? at % dim + dim : at % dim;
    if (dim == 1)
        return 0;
    /* Reflection repeats every 2 * (dim - 1) steps, there and back. */
    int64_t period = 2 * (dim - 1);
    at = at % period < 0 ? at % period + period : at % period;
    return at < dim ? at : period - at;
}

/* Rows of y, each from one row of x. */
static xcvm_status pad_rows(const xcvm_moving *m, const filling *f, int axis, char *to, const char *from,
                            const ptrdiff_t *to_strides, const ptrdiff_t *from_strides, xcvm_poller *poller)
{
    const xcvm_value *x = f->a->x, *y = f->a->y;
    ptrdiff_t size = (ptrdiff_t)m->size;
    for (int64_t i = 0; i < y->dims[axis]; i++) {
        int64_t at = source(f->a->mode, i, f->p.before[axis], x->dims[axis]);
        XCVM_TRY(xcvm_poll_after(poller, 1));
        if (axis == x->rank - 1) {
            /* The unchanged middle goes at once. */
            int64_t run = at == i - f->p.before[axis] ? x->dims[axis] - at : 1;
            run = run < y->dims[axis] - i ? run : y->dims[axis] - i;
            if (run > 1) {
                XCVM_TRY(xcvm_kernel_copy(m->k, to + i * size, from + at * size, (size_t)(run * size)));
                i += run - 1;
            } else {
                xcvm_move_element(to + i * size, from + at * size, m->size);
            }
        } else {
            XCVM_TRY(pad_rows(m, f, axis + 1, to + i * to_strides[axis] * size, from + at * from_strides[axis] * size,
                              to_strides, from_strides, poller));
        }
    }
    return XCVM_OK;
}

static xcvm_status pad_mirrored(const xcvm_moving *m, const void *context)
{
    const filling *f = context;
    ptrdiff_t from[XCVM_MAX_RANK], to[XCVM_MAX_RANK];
    if (f->a->x->rank == 0) {
        xcvm_move_element(m->to[0], m->from[0], m->size);
        return XCVM_OK;
    }
    xcvm_row_major(f->a->x->rank, f->a->x->dims, from);
    xcvm_row_major(f->a->y->rank, f->a->y->dims, to);
    xcvm_poller poller = xcvm_poller_of(m->k);
    return pad_rows(m, f, 0, m->to[0], m->from[0], to, from, &poller);
}

XCVM_KERNEL(Pad)
{
    filling f = {.a = a};
    bool known;
    unsigned touched;
    XCVM_TRY(read_padding(k->error, a, a->x->rank, &f.p, &known, &touched));
    const xcvm_value *from[2] = {a->x, a->value};
    if (xcvm_element_count(a->y) == 0 && a->y->dtype != XCVM_STRING)
        return XCVM_OK;
    return xcvm_move(k, a->value != NULL ? 2 : 1, from, 1, &a->y,
                     a->mode == XCVM_PAD_MODE_constant ? pad_constant : pad_mirrored, &f);
}
