/* Gradient of GridSample by a formula: elements around each point, found separately on each axis, times weights that
 * depend on the point's position between them. */
#include "compiler/gradients/rule.h"
#include "ops/image/sampling.h"

enum { MOST_TAPS = 4, SPATIAL = XCVM_MAX_RANK - 2 };

typedef struct sampling {
    xcc_vjp *d;
    const xcvm_GridSample_args *a;
    int taps;
    xcvm_dtype dtype; /* computation type */
} sampling;

/* The elements around all points on one axis. */
typedef struct axis {
    xcc_value *size, *most, *low, *high; /* size of the axis, its last index, and the bounds of reflection */
    xcc_value *index[MOST_TAPS], *weight[MOST_TAPS]; /* in the shape of the points */
} axis;

static xcc_value *compare(const sampling *s, xcvm_opcode op, xcc_value *x, xcc_value *y)
{
    return xcc_op2(s->d, op, x, y);
}

static xcc_value *beyond(const sampling *s, xcc_value *x, xcc_value *low, xcc_value *high)
{
    return xcc_op2(s->d, XCVM_OP_Or, compare(s, XCVM_OP_Less, x, low), compare(s, XCVM_OP_Greater, x, high));
}

/* Reflects x between low and high as often as necessary. */
static xcc_value *reflect(const sampling *s, const axis *t, xcc_value *x)
{
    xcc_vjp *d = s->d;
    xcc_value *range = xcc_sub(d, t->high, t->low), *before = compare(s, XCVM_OP_Less, x, t->low);
    xcc_value *by = xcc_where(d, before, xcc_sub(d, t->low, x), xcc_sub(d, x, t->high));
    xcc_value *times = xcc_op1(d, XCVM_OP_Floor, xcc_div(d, by, range));
    xcc_value *rest = xcc_sub(d, by, xcc_mul(d, times, range)), *two = xcc_num(d, x, 2), *zero = xcc_num(d, x, 0);
    xcc_value *even = compare(s, XCVM_OP_Equal, xcc_op2(d, XCVM_OP_Mod, times, two), zero);
    xcc_value *from_high = xcc_op2(d, XCVM_OP_Xor, even, before);
    xcc_value *folded = xcc_where(d, from_high, xcc_sub(d, t->high, rest), xcc_add(d, t->low, rest));
    return xcc_where(d, compare(s, XCVM_OP_LessOrEqual, range, zero), t->low, folded);
}

static xcc_value *between(const sampling *s, xcc_value *x, xcc_value *low, xcc_value *high)
{
    return xcc_build_call(s->d->b, XCVM_OP_Clip, 3, (xcc_value *[]){x, low, high});
}

/* Positions of coordinates in [-1, 1] among the elements. */
static xcc_value *positions_of(const sampling *s, const axis *t, xcc_value *v)
{
    xcc_vjp *d = s->d;
    const bool align = s->a->align_corners != 0;
    xcc_value *x = xcc_mul(d, xcc_plus(d, v, 1), align ? t->most : t->size);
    x = xcc_scale(d, align ? x : xcc_plus(d, x, -1), 0.5);
    if (s->a->mode == XCVM_GRID_MODE_nearest)
        x = xcc_op1(d, XCVM_OP_Round, x);
    /* Cubic interpolation pads each element around a point separately. */
    if (s->a->mode == XCVM_GRID_MODE_cubic)
        return x;
    if (s->a->padding_mode == XCVM_GRID_PADDING_border)
        x = xcc_where(d, beyond(s, x, t->low, t->high), between(s, x, xcc_num(d, v, 0), t->most), x);
    if (s->a->padding_mode == XCVM_GRID_PADDING_reflection)
        x = xcc_where(d, beyond(s, x, t->low, t->high), reflect(s, t, x), x);
    return x;
}

/* Keys' cubic convolution kernel for distances up to 2. */
static xcc_value *keys(const sampling *s, xcc_value *distance)
{
    const double a = XCVM_GRID_SHARPNESS;
    xcc_vjp *d = s->d;
    xcc_value *x = xcc_op1(d, XCVM_OP_Abs, distance);
    xcc_value *near = xcc_plus(d, xcc_mul(d, xcc_plus(d, xcc_scale(d, x, a + 2), -(a + 3)), xcc_square(d, x)), 1);
    xcc_value *far = xcc_plus(d, xcc_mul(d, xcc_plus(d, xcc_mul(d, xcc_plus(d, x, -5), x), 8), x), -4);
    return xcc_where(d, compare(s, XCVM_OP_LessOrEqual, x, xcc_num(d, x, 1)), near, xcc_scale(d, far, a));
}

static void find_taps(const sampling *s, axis *t, xcc_value *coordinates, int number)
{
    xcc_vjp *d = s->d;
    const bool align = s->a->align_corners != 0;
    xcc_value *size = xcc_build_dim_of(d->b, xcc_in(d, 0), number + 2);
    t->size = xcc_build_cast(d->b, xcc_build_reshape(d->b, size, xcc_build_ints(d->b, 0, NULL)), s->dtype);
    t->most = xcc_plus(d, t->size, -1);
    t->low = xcc_num(d, coordinates, align ? 0 : -0.5);
    t->high = align ? t->most : xcc_plus(d, t->size, -0.5);
    xcc_value *x = positions_of(s, t, coordinates), *base = xcc_op1(d, XCVM_OP_Floor, x),
              *zero = xcc_num(d, coordinates, 0);
    for (int j = 0; j < s->taps; j++) {
        xcc_value *at = xcc_plus(d, base, j - (s->taps == 4 ? 1 : 0)), *distance = xcc_sub(d, at, x);
        t->weight[j] = s->taps == 1   ? xcc_full_like(d->b, x, 1)
                       : s->taps == 2 ? xcc_sub(d, xcc_num(d, x, 1), xcc_op1(d, XCVM_OP_Abs, distance))
                                      : keys(s, distance);
        if (s->a->padding_mode == XCVM_GRID_PADDING_reflection) {
            xcc_value *back = reflect(s, t, at), *whole = xcc_op1(d, XCVM_OP_Floor, xcc_op1(d, XCVM_OP_Abs, back));
            at = xcc_where(d, beyond(s, at, zero, t->most), xcc_mul(d, xcc_op1(d, XCVM_OP_Sign, back), whole), at);
        }
        if (s->a->padding_mode == XCVM_GRID_PADDING_zeros)
            t->weight[j] = xcc_where(d, beyond(s, at, zero, t->most), zero, t->weight[j]);
        t->index[j] = xcc_build_cast(d->b, between(s, at, zero, t->most), XCVM_I64);
    }
}

/* The weighted sum over all combinations of the axes' taps: rows of x, [batch * elements, channels]. */
static xcc_value *sum_taps(const sampling *s, const axis *axes, int spatial, xcc_value *rows, xcc_value *first)
{
    xcc_vjp *d = s->d;
    const int64_t last[] = {-1};
    xcc_value *sum = NULL;
    int all = 1;
    for (int i = 0; i < spatial; i++)
        all *= s->taps;
    for (int tap = 0; tap < all; tap++) {
        xcc_value *offset = NULL, *weight = NULL;
        for (int i = 0, rest = tap; i < spatial; i++, rest /= s->taps) {
            xcc_value *size = xcc_build_cast(d->b, axes[i].size, XCVM_I64), *at = axes[i].index[rest % s->taps];
            offset = offset == NULL ? at : xcc_add(d, xcc_mul(d, offset, size), at);
            weight =
                weight == NULL ? axes[i].weight[rest % s->taps] : xcc_mul(d, weight, axes[i].weight[rest % s->taps]);
        }
        xcc_value *part = xcc_build_gather(d->b, rows, xcc_add(d, offset, first), 0);
        part = xcc_mul(d, part, xcc_build_unsqueeze(d->b, weight, 1, last));
        sum = sum == NULL ? part : xcc_add(d, sum, part);
    }
    return sum;
}

XCC_GRADIENT(GridSample)
{
    const xcvm_GridSample_args *a = XCC_ARGS(GridSample, d->node);
    if (!xcc_vjp_need_rank(d, 0))
        return;
    const int spatial = a->x->rank - 2;
    sampling s = {.d = d,
                  .a = a,
                  .taps = a->mode == XCVM_GRID_MODE_nearest  ? 1
                          : a->mode == XCVM_GRID_MODE_linear ? 2
                                                             : 4,
                  .dtype = a->x->dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32};
    xcc_formula f;
    if (spatial < 1 || spatial > 3 || !xcc_formula_begin(d, &f)) {
        if (!d->failed)
            xcc_refuse(d, "has no gradient yet over %d axes", spatial);
        return;
    }
    xcc_value *x = xcc_build_cast(d->b, f.operands[0], s.dtype), *grid = xcc_build_cast(d->b, f.operands[1], s.dtype);
    axis axes[SPATIAL];
    int64_t ahead[XCVM_MAX_RANK] = {0}, back[XCVM_MAX_RANK] = {0, spatial + 1};
    xcc_value *plane = XCC_BUILD_INTS(d->b, 1), *ones[SPATIAL + 1], *batch = xcc_build_dim_of(d->b, x, 0);
    for (int i = 0; i < spatial; i++) {
        /* The last coordinate belongs to the first axis. */
        xcc_value *coordinates = xcc_build_gather(d->b, grid, xcc_scalar_i64(d->b->graph, spatial - 1 - i), -1);
        if (coordinates == NULL) {
            d->failed = true;
            return;
        }
        find_taps(&s, &axes[i], coordinates, i);
        plane = xcc_mul(d, plane, xcc_build_dim_of(d->b, x, i + 2));
        ahead[i + 1] = i + 2;
        back[i + 2] = i + 1;
        ones[i + 1] = XCC_BUILD_INTS(d->b, 1);
    }
    ahead[spatial + 1] = 1;
    ones[0] = batch;
    xcc_value *none = xcc_build_ints(d->b, 0, NULL), *count = xcc_build_reshape(d->b, batch, none);
    xcc_value *entries = xcc_build_call(
        d->b, XCVM_OP_Range, 3, (xcc_value *[]){xcc_scalar_i64(d->b->graph, 0), count, xcc_scalar_i64(d->b->graph, 1)});
    xcc_value *first =
        xcc_build_reshape_to(d->b, xcc_mul(d, entries, plane), xcc_build_concat(d->b, (size_t)spatial + 1, ones, 0));
    xcc_value *shape[] = {xcc_mul(d, batch, plane), xcc_build_dim_of(d->b, x, 1)};
    xcc_value *rows = xcc_build_reshape_to(d->b, xcc_build_transpose(d->b, x, (size_t)spatial + 2, ahead),
                                           xcc_build_concat(d->b, 2, shape, 0));
    xcc_value *sum = sum_taps(&s, axes, spatial, rows, first);
    xcc_value *results[] = {
        xcc_build_cast(d->b, xcc_build_transpose(d->b, sum, (size_t)spatial + 2, back), (xcvm_dtype)a->x->dtype)};
    xcc_formula_end(d, &f, results);
}
