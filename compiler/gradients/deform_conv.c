/* Gradient of DeformConv by a formula: columns of bilinear samples at the shifted window positions, times the filters.
 */
#include "compiler/gradients/rule.h"

typedef struct deformed {
    xcc_vjp *d;
    const xcvm_DeformConv_args *a;
    xcvm_dtype dtype; /* computation type */
    /* Sizes as lists of one element. */
    xcc_value *batch, *channels, *height, *width, *taps, *rows, *columns;
} deformed;

static xcc_value *list(xcc_vjp *d, size_t count, xcc_value *const *sizes)
{
    return xcc_build_concat(d->b, count, sizes, 0);
}

/* first, first + step, ... for `count` entries (a list of one element), with `before` axes of size 1 before it and
 * `behind` after it. */
static xcc_value *positions(const deformed *t, xcc_value *count, int64_t step, int64_t first, int64_t before,
                            int64_t behind)
{
    xcc_vjp *d = t->d;
    xcc_graph *g = d->b->graph;
    xcc_value *limit = xcc_build_reshape(d->b, count, xcc_build_ints(d->b, 0, NULL));
    xcc_value *each =
        xcc_build_call(d->b, XCVM_OP_Range, 3, (xcc_value *[]){xcc_scalar_i64(g, 0), limit, xcc_scalar_i64(g, 1)});
    each = xcc_plus(d, xcc_scale(d, each, (double)step), (double)first);
    int64_t shape[XCVM_MAX_RANK];
    size_t rank = 0;
    for (int64_t i = 0; i < before; i++)
        shape[rank++] = 1;
    shape[rank++] = -1;
    for (int64_t i = 0; i < behind; i++)
        shape[rank++] = 1;
    return xcc_build_reshape(d->b, each, xcc_build_ints(d->b, rank, shape));
}

/* Position of each window element of each result on an axis before shifting: [kernel rows, kernel columns, rows,
 * columns], with all but two of size 1. */
static xcc_value *grid(const deformed *t, int axis)
{
    const xcvm_DeformConv_args *a = t->a;
    xcc_value *kernel = xcc_build_dim_of(t->d->b, xcc_in(t->d, 1), axis + 2);
    xcc_value *tap = positions(t, kernel, a->dilations.at[axis], 0, axis, 3 - axis);
    return xcc_add(
        t->d, tap,
        positions(t, axis == 0 ? t->rows : t->columns, a->strides.at[axis], -a->pads.at[axis], axis + 2, 1 - axis));
}

/* Sample positions on an axis: [batch, offset groups, taps, rows, columns]. */
static xcc_value *places(const deformed *t, xcc_value *offsets, int axis)
{
    xcc_vjp *d = t->d;
    xcc_value *kernel[] = {xcc_build_dim_of(d->b, xcc_in(d, 1), 2), xcc_build_dim_of(d->b, xcc_in(d, 1), 3), t->rows,
                           t->columns};
    xcc_value *at = xcc_build_expand(d->b, grid(t, axis), list(d, 4, kernel));
    at = xcc_build_reshape_to(d->b, at, list(d, 3, (xcc_value *[]){t->taps, t->rows, t->columns}));
    xcc_value *by = xcc_build_gather(d->b, offsets, xcc_scalar_i64(d->b->graph, axis), 3);
    return xcc_add(d, by, xcc_build_cast(d->b, at, t->dtype));
}

static xcc_value *within(xcc_vjp *d, xcc_value *x, xcvm_opcode least, xcc_value *low, xcc_value *high)
{
    return xcc_op2(d, XCVM_OP_And, xcc_op2(d, least, x, low), xcc_op2(d, XCVM_OP_Less, x, high));
}

/* The samples: [batch, offset groups, taps, rows, columns, channels of a group]. */
static xcc_value *sample(const deformed *t, xcc_value *x, xcc_value *offsets)
{
    xcc_vjp *d = t->d;
    const int64_t groups = t->a->offset_group, last[] = {5};
    xcc_value *group = XCC_BUILD_INTS(d->b, groups), *share = xcc_div(d, t->channels, group);
    xcc_value *pixels = xcc_mul(d, t->height, t->width), *planes = xcc_mul(d, t->batch, group);
    x = xcc_build_reshape_to(d->b, x, list(d, 3, (xcc_value *[]){planes, share, pixels}));
    x = xcc_build_reshape_to(d->b, xcc_build_transpose(d->b, x, 3, (const int64_t[]){0, 2, 1}),
                             list(d, 2, (xcc_value *[]){xcc_mul(d, planes, pixels), share}));
    xcc_value *plane =
        xcc_add(d, xcc_mul(d, positions(t, t->batch, 1, 0, 0, 4), group), positions(t, group, 1, 0, 1, 3));
    xcc_value *first = xcc_mul(d, plane, pixels), *sizes[] = {t->height, t->width};
    xcc_value *base[2], *beyond[2], *inside = NULL, *size[2], *sum = NULL;
    for (int i = 0; i < 2; i++) {
        xcc_value *at = places(t, offsets, i);
        size[i] = xcc_build_cast(d->b, sizes[i], t->dtype);
        xcc_value *near = within(d, at, XCVM_OP_Greater, xcc_num(d, at, -1), size[i]);
        inside = inside == NULL ? near : xcc_op2(d, XCVM_OP_And, inside, near);
        base[i] = xcc_op1(d, XCVM_OP_Floor, at);
        beyond[i] = xcc_sub(d, at, base[i]);
    }
    for (int corner = 0; corner < 4; corner++) {
        xcc_value *weight = NULL, *there = inside, *index[2];
        for (int i = 0; i < 2; i++) {
            const bool further = (i == 0 ? corner / 2 : corner % 2) != 0;
            xcc_value *at = further ? xcc_plus(d, base[i], 1) : base[i], *zero = xcc_num(d, at, 0);
            xcc_value *part = further ? beyond[i] : xcc_sub(d, xcc_num(d, at, 1), beyond[i]);
            weight = weight == NULL ? part : xcc_mul(d, weight, part);
            there = xcc_op2(d, XCVM_OP_And, there, within(d, at, XCVM_OP_GreaterOrEqual, zero, size[i]));
            index[i] = at;
        }
        xcc_value *at = xcc_add(d, xcc_mul(d, index[0], size[1]), index[1]);
        at = xcc_build_cast(d->b, xcc_where(d, there, at, xcc_num(d, at, 0)), XCVM_I64);
        weight = xcc_where(d, there, weight, xcc_num(d, weight, 0));
        xcc_value *part = xcc_build_gather(d->b, x, xcc_add(d, at, first), 0);
        part = xcc_mul(d, part, xcc_build_unsqueeze(d->b, weight, 1, last));
        sum = sum == NULL ? part : xcc_add(d, sum, part);
    }
    return sum;
}

XCC_GRADIENT(DeformConv)
{
    const xcvm_DeformConv_args *a = XCC_ARGS(DeformConv, d->node);
    deformed t = {.d = d, .a = a, .dtype = a->x->dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32};
    xcc_formula f;
    if (!xcc_vjp_need_rank(d, 0) || !xcc_vjp_need_rank(d, 1) || !xcc_formula_begin(d, &f))
        return;
    xcc_value *operands[5], *y = xcc_out(d, 0), *group = XCC_BUILD_INTS(d->b, a->group);
    for (size_t i = 0; i < 5; i++)
        operands[i] = f.operands[i] != NULL ? xcc_build_cast(d->b, f.operands[i], t.dtype) : NULL;
    xcc_value *x = operands[0], *w = operands[1], **at[] = {&t.batch, &t.channels, &t.height, &t.width};
    for (int i = 0; i < 4; i++)
        *at[i] = xcc_build_dim_of(d->b, x, i);
    t.taps = xcc_mul(d, xcc_build_dim_of(d->b, w, 2), xcc_build_dim_of(d->b, w, 3));
    t.rows = xcc_build_dim_of(d->b, y, 2);
    t.columns = xcc_build_dim_of(d->b, y, 3);
    xcc_value *moving = XCC_BUILD_INTS(d->b, a->offset_group), *one = XCC_BUILD_INTS(d->b, 1),
              *two = XCC_BUILD_INTS(d->b, 2);
    xcc_value *offsets = xcc_build_reshape_to(
        d->b, operands[2], list(d, 6, (xcc_value *[]){t.batch, moving, t.taps, two, t.rows, t.columns}));
    xcc_value *samples = sample(&t, x, offsets);
    if (operands[4] != NULL)
        samples =
            xcc_mul(d, samples,
                    xcc_build_reshape_to(d->b, operands[4],
                                         list(d, 6, (xcc_value *[]){t.batch, moving, t.taps, t.rows, t.columns, one})));
    samples = xcc_build_transpose(d->b, samples, 6, (const int64_t[]){0, 1, 5, 2, 3, 4});
    xcc_value *depth = xcc_mul(d, xcc_build_dim_of(d->b, w, 1), t.taps), *cells = xcc_mul(d, t.rows, t.columns);
    xcc_value *filters = xcc_div(d, xcc_build_dim_of(d->b, w, 0), group);
    samples = xcc_build_reshape_to(d->b, samples, list(d, 4, (xcc_value *[]){t.batch, group, depth, cells}));
    xcc_value *matrices = xcc_build_reshape_to(d->b, w, list(d, 3, (xcc_value *[]){group, filters, depth}));
    xcc_value *result = xcc_reshape_like(d->b, xcc_op2(d, XCVM_OP_MatMul, matrices, samples), y);
    if (operands[3] != NULL)
        result = xcc_add(d, result, xcc_build_reshape(d->b, operands[3], XCC_BUILD_INTS(d->b, -1, 1, 1)));
    xcc_value *results[] = {xcc_build_cast(d->b, result, (xcvm_dtype)a->x->dtype)};
    xcc_formula_end(d, &f, results);
}
