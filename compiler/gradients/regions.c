/* Gradients of region pooling by formulas: the pixels of each cell, found separately on each axis, with weights from
 * the sample positions. A cell is the sum, or the maximum, over rows of pixels and then over columns. */
#include "compiler/gradients/rule.h"
#include "ops/image/sampling.h"

/* Stands for an absent element in a maximum. */
#define NOTHING (-1e30)

/* An axis of all regions: the pixels of each of its cells. */
typedef struct cells {
    int64_t count;
    xcc_value *index;  /* [regions, cells, taps], i64 */
    xcc_value *weight; /* the same, f64; NULL: all 1 */
    xcc_value *taken;  /* the same: the tap counts */
} cells;

typedef struct pooling {
    xcc_vjp *d;
    xcvm_dtype dtype;  /* computation type */
    xcc_value *x;      /* [batch, channels, height, width] */
    xcc_value *images; /* [regions], i64 */
    bool greatest;
    bool weighted; /* maximum of pixels times weights, not of interpolated samples */
} pooling;

/* A column of rois as [regions, 1, 1], f64, times the scale. */
static xcc_value *corner(xcc_vjp *d, xcc_value *rois, int64_t column, double scale)
{
    xcc_value *c = xcc_build_gather(d->b, xcc_build_cast(d->b, rois, XCVM_F64), XCC_BUILD_INTS(d->b, column), 1);
    return xcc_scale(d, xcc_build_unsqueeze(d->b, c, 1, (const int64_t[]){2}), scale);
}

/* 0 ... limit - 1 in f64; limit is an f64 or i64 scalar. */
static xcc_value *counted(xcc_vjp *d, xcc_value *limit)
{
    xcc_graph *g = d->b->graph;
    limit = xcc_build_reshape(d->b, xcc_build_cast(d->b, limit, XCVM_I64), xcc_build_ints(d->b, 0, NULL));
    xcc_value *numbers =
        xcc_build_call(d->b, XCVM_OP_Range, 3, (xcc_value *[]){xcc_scalar_i64(g, 0), limit, xcc_scalar_i64(g, 1)});
    return xcc_build_cast(d->b, numbers, XCVM_F64);
}

/* The size of an axis of x as an f64 scalar. */
static xcc_value *size_of(const pooling *p, int axis)
{
    xcc_value *size = xcc_build_cast(p->d->b, xcc_build_dim_of(p->d->b, p->x, axis), XCVM_F64);
    return xcc_build_reshape(p->d->b, size, xcc_build_ints(p->d->b, 0, NULL));
}

static xcc_value *number_of_cells(xcc_vjp *d, int64_t count)
{
    xcc_value *numbers = counted(d, xcc_scalar_i64(d->b->graph, count));
    return xcc_build_unsqueeze(d->b, numbers, 1, (const int64_t[]){1});
}

/* The maximum of v, at least 1. */
static xcc_value *most_of(xcc_vjp *d, xcc_value *v)
{
    return xcc_op2(d, XCVM_OP_Max, xcc_build_reduce(d->b, XCVM_OP_ReduceMax, v, NULL, false), xcc_num(d, v, 1));
}

static xcc_value *both(xcc_vjp *d, xcc_value *v, xcc_value *w) { return xcc_op2(d, XCVM_OP_And, v, w); }

/* ---- Whole pixels ---- */

/* Rounds halves away from zero. */
static xcc_value *rounded(xcc_vjp *d, xcc_value *v)
{
    xcc_value *up = xcc_op1(d, XCVM_OP_Floor, xcc_plus(d, xcc_op1(d, XCVM_OP_Abs, v), 0.5));
    return xcc_mul(d, xcc_op1(d, XCVM_OP_Sign, v), up);
}

/* Corners are rounded; a cell includes the pixels that it touches. */
static void take_pixels(const pooling *p, cells *c, int axis, xcc_value *begin, xcc_value *end, double inclusive)
{
    xcc_vjp *d = p->d;
    xcc_value *first = rounded(d, begin), *extent = xcc_plus(d, xcc_sub(d, rounded(d, end), first), inclusive);
    xcc_value *size = size_of(p, axis), *zero = xcc_num(d, first, 0), *number = number_of_cells(d, c->count);
    xcc_value *each = xcc_scale(d, xcc_op2(d, XCVM_OP_Max, extent, xcc_num(d, extent, 1)), 1 / (double)c->count);
    xcc_value *low = xcc_add(d, xcc_op1(d, XCVM_OP_Floor, xcc_mul(d, number, each)), first);
    xcc_value *high = xcc_add(d, xcc_op1(d, XCVM_OP_Ceil, xcc_mul(d, xcc_plus(d, number, 1), each)), first);
    low = xcc_build_call(d->b, XCVM_OP_Clip, 3, (xcc_value *[]){low, zero, size});
    high = xcc_build_call(d->b, XCVM_OP_Clip, 3, (xcc_value *[]){high, zero, size});
    xcc_value *count = xcc_sub(d, high, low), *at = xcc_add(d, low, counted(d, most_of(d, count)));
    c->taken = xcc_op2(d, XCVM_OP_Less, at, high);
    c->index = xcc_build_cast(d->b, xcc_where(d, c->taken, at, zero), XCVM_I64);
    if (p->greatest)
        return;
    xcc_value *share = xcc_div(d, xcc_num(d, count, 1), xcc_op2(d, XCVM_OP_Max, count, xcc_num(d, count, 1)));
    c->weight = xcc_expand_like(d->b, share, at);
}

/* ---- Samples ---- */

/* `samples` per cell, or one per pixel of it if 0, each with its two neighboring pixels. With `apart` there is a cell
 * per sample. */
static void take_samples(const pooling *p, cells *c, int axis, xcc_value *begin, xcc_value *each, int64_t samples,
                         bool apart)
{
    xcc_vjp *d = p->d;
    xcc_value *size = size_of(p, axis), *zero = xcc_num(d, begin, 0), *last = xcc_plus(d, size, -1), *count;
    if (samples > 0) {
        count = xcc_expand_like(d->b, xcc_num(d, begin, (double)samples), begin);
    } else {
        xcc_value *bounds[] = {xcc_op1(d, XCVM_OP_Ceil, each), xcc_num(d, begin, 0),
                               xcc_num(d, begin, XCVM_MOST_SAMPLES)};
        count = xcc_build_call(d->b, XCVM_OP_Clip, 3, bounds);
    }
    xcc_value *some = xcc_op2(d, XCVM_OP_Max, count, xcc_num(d, count, 1)), *number = counted(d, most_of(d, count));
    xcc_value *own = xcc_op2(d, XCVM_OP_Less, number, count);
    xcc_value *inner = xcc_div(d, xcc_mul(d, xcc_plus(d, number, 0.5), each), some);
    xcc_value *place = xcc_add(d, xcc_add(d, begin, xcc_mul(d, number_of_cells(d, c->count), each)), inner);
    xcc_value *inside = both(d, xcc_op2(d, XCVM_OP_GreaterOrEqual, place, xcc_num(d, place, -1)),
                             xcc_op2(d, XCVM_OP_LessOrEqual, place, size));
    place = xcc_build_call(d->b, XCVM_OP_Clip, 3, (xcc_value *[]){place, zero, last});
    xcc_value *low = xcc_op1(d, XCVM_OP_Floor, place), *beyond = xcc_sub(d, place, low);
    xcc_value *high = xcc_op2(d, XCVM_OP_Min, xcc_plus(d, low, 1), last);
    own = xcc_expand_like(d->b, own, place);
    /* Samples outside have weight 0; in a maximum of samples they do not count at all. */
    const int64_t behind[] = {3};
    xcc_value *ends[2][3] = {{low, xcc_sub(d, xcc_num(d, beyond, 1), beyond), NULL}, {high, beyond, NULL}};
    xcc_value *sides[3][2];
    for (int i = 0; i < 2; i++) {
        ends[i][1] = xcc_where(d, inside, ends[i][1], xcc_num(d, beyond, 0));
        ends[i][2] = p->greatest && !p->weighted ? both(d, own, inside) : own;
        if (!p->greatest)
            ends[i][1] = xcc_div(d, ends[i][1], some);
        for (int k = 0; k < 3; k++)
            sides[k][i] = xcc_build_unsqueeze(d->b, ends[i][k], 1, behind);
    }
    xcc_value **to[] = {&c->index, &c->weight, &c->taken};
    xcc_value *shape = apart ? XCC_BUILD_INTS(d->b, 0, -1, 2) : XCC_BUILD_INTS(d->b, 0, c->count, -1);
    for (int k = 0; k < 3; k++)
        *to[k] = xcc_build_reshape(d->b, xcc_build_concat(d->b, 2, sides[k], 3), shape);
    c->index = xcc_build_cast(d->b, c->index, XCVM_I64);
}

/* ---- Pooling ---- */

/* Reduces rows [rows, ...], which start at `first` for each region, to [regions, cells, ...]. */
static xcc_value *pool_axis(const pooling *p, const cells *c, xcc_value *rows, xcc_value *first, bool greatest)
{
    xcc_vjp *d = p->d;
    const int64_t behind[] = {1, 2}, last[] = {3};
    first = xcc_build_unsqueeze(d->b, first, 2, behind);
    xcc_value *each = xcc_build_gather(d->b, rows, xcc_add(d, c->index, first), 0);
    xcc_value *taken = xcc_build_unsqueeze(d->b, c->taken, 1, last), *none = xcc_num(d, rows, greatest ? NOTHING : 0);
    if (c->weight != NULL)
        each = xcc_mul(d, each, xcc_build_unsqueeze(d->b, xcc_build_cast(d->b, c->weight, p->dtype), 1, last));
    return xcc_build_reduce(d->b, greatest ? XCVM_OP_ReduceMax : XCVM_OP_ReduceSum, xcc_where(d, taken, each, none),
                            XCC_BUILD_INTS(d->b, 2), false);
}

/* 0, step, 2 * step ... for `count` entries; both are lists of one element. */
static xcc_value *steps(xcc_vjp *d, xcc_value *count, xcc_value *step)
{
    return xcc_mul(d, xcc_build_cast(d->b, counted(d, count), XCVM_I64), step);
}

static xcc_value *shape(xcc_vjp *d, size_t count, xcc_value *const *sizes)
{
    return xcc_build_concat(d->b, count, sizes, 0);
}

/* Returns true where any of a cell's taps counts. */
static xcc_value *any_of(xcc_vjp *d, const cells *c, int64_t axis)
{
    xcc_value *each = xcc_build_cast(d->b, c->taken, XCVM_I32);
    each = xcc_build_reduce(d->b, XCVM_OP_ReduceMax, each, XCC_BUILD_INTS(d->b, 2), false);
    return xcc_build_unsqueeze(d->b, xcc_op2(d, XCVM_OP_Greater, each, xcc_num(d, each, 0)), 2,
                               (const int64_t[]){1, axis});
}

/* [regions, channels, rows of cells, columns of cells] */
static xcc_value *pool(const pooling *p, const cells *rows, const cells *columns, bool apart)
{
    xcc_vjp *d = p->d;
    const bool greatest = p->greatest && !apart;
    xcc_value *sizes[4];
    for (int i = 0; i < 4; i++)
        sizes[i] = xcc_build_dim_of(d->b, p->x, i);
    xcc_value *regions = xcc_build_dim_of(d->b, p->images, 0);
    xcc_value *line = xcc_mul(d, sizes[1], sizes[3]), *lines = xcc_mul(d, sizes[0], sizes[2]);
    xcc_value *flat = xcc_build_reshape_to(d->b, xcc_build_transpose(d->b, p->x, 4, (const int64_t[]){0, 2, 1, 3}),
                                           shape(d, 2, (xcc_value *[]){lines, line}));
    xcc_value *sums = pool_axis(p, rows, flat, xcc_mul(d, p->images, sizes[2]), greatest);
    xcc_value *height = xcc_build_dim_of(d->b, rows->index, 1), *width = xcc_build_dim_of(d->b, columns->index, 1);
    sums = xcc_build_reshape_to(d->b, sums, shape(d, 4, (xcc_value *[]){regions, height, sizes[1], sizes[3]}));
    sums = xcc_build_transpose(d->b, sums, 4, (const int64_t[]){0, 3, 1, 2});
    flat = xcc_build_reshape_to(
        d->b, sums, shape(d, 2, (xcc_value *[]){xcc_mul(d, regions, sizes[3]), xcc_mul(d, height, sizes[1])}));
    sums = pool_axis(p, columns, flat, steps(d, regions, sizes[3]), greatest);
    sums = xcc_build_reshape_to(d->b, sums, shape(d, 4, (xcc_value *[]){regions, width, height, sizes[1]}));
    if (apart) {
        /* [regions, columns, samples, rows, samples, channels] */
        xcc_value *across = XCC_BUILD_INTS(d->b, columns->count), *down = XCC_BUILD_INTS(d->b, rows->count);
        xcc_value *parts[] = {regions, across, xcc_div(d, width, across), down, xcc_div(d, height, down), sizes[1]};
        xcc_value *taken[2];
        const cells *of[] = {columns, rows};
        for (int i = 0; i < 2; i++) {
            xcc_value *first = xcc_build_gather(d->b, of[i]->taken, xcc_scalar_i64(d->b->graph, 0), 2);
            xcc_value *one = XCC_BUILD_INTS(d->b, 1);
            xcc_value *own[] = {regions,
                                i == 0 ? parts[1] : one,
                                i == 0 ? parts[2] : one,
                                i == 1 ? parts[3] : one,
                                i == 1 ? parts[4] : one,
                                one};
            taken[i] = xcc_build_reshape_to(d->b, first, shape(d, 6, own));
        }
        sums = xcc_build_reshape_to(d->b, sums, shape(d, 6, parts));
        sums = xcc_where(d, both(d, taken[0], taken[1]), sums, xcc_num(d, sums, NOTHING));
        sums = xcc_build_reduce(d->b, XCVM_OP_ReduceMax, sums, XCC_BUILD_INTS(d->b, 2, 4), false);
    }
    xcc_value *y = xcc_build_transpose(d->b, sums, 4, (const int64_t[]){0, 3, 2, 1});
    if (greatest) /* a cell without pixels is 0 */
        y = xcc_where(d, both(d, any_of(d, rows, 3), any_of(d, columns, 2)), y, xcc_num(d, y, 0));
    else if (apart) /* and one without samples has no gradient */
        y = xcc_where(d, xcc_op2(d, XCVM_OP_Greater, y, xcc_num(d, y, NOTHING)), y, xcc_num(d, y, 0));
    return y;
}

/* Common start of all rules; false: nothing is left to do. */
static bool begin(xcc_vjp *d, xcc_formula *f, pooling *p, size_t images)
{
    if (!xcc_vjp_need_rank(d, 0) || !xcc_formula_begin(d, f))
        return false;
    p->d = d;
    p->dtype = xcc_in(d, 0)->type.dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32;
    p->x = xcc_build_cast(d->b, f->operands[0], p->dtype);
    p->images = images > 0 ? xcc_build_cast(d->b, xcc_in(d, images), XCVM_I64) : NULL;
    return true;
}

static void end(xcc_vjp *d, const xcc_formula *f, xcc_value *y)
{
    xcc_value *results[] = {xcc_build_cast(d->b, y, (xcvm_dtype)xcc_in(d, 0)->type.dtype)};
    xcc_formula_end(d, f, results);
}

XCC_GRADIENT(RoiAlign)
{
    const xcvm_RoiAlign_args *a = XCC_ARGS(RoiAlign, d->node);
    const bool legacy = a->coordinate_transformation_mode == XCVM_ROI_COORDINATE_output_half_pixel;
    pooling p = {.greatest = a->mode == XCVM_ROI_MODE_max, .weighted = true};
    cells axes[2] = {{.count = a->output_height}, {.count = a->output_width}};
    xcc_formula f;
    if (!begin(d, &f, &p, 2))
        return;
    for (int i = 0; i < 2; i++) {
        xcc_value *from = corner(d, f.operands[1], 1 - i, a->spatial_scale);
        xcc_value *to = corner(d, f.operands[1], 3 - i, a->spatial_scale), *extent = xcc_sub(d, to, from);
        if (legacy)
            extent = xcc_op2(d, XCVM_OP_Max, extent, xcc_num(d, extent, 1));
        else
            from = xcc_plus(d, from, -0.5);
        take_samples(&p, &axes[i], i + 2, from, xcc_scale(d, extent, 1 / (double)axes[i].count), a->sampling_ratio,
                     false);
    }
    end(d, &f, pool(&p, &axes[0], &axes[1], false));
}

XCC_GRADIENT(RoiPool)
{
    const xcvm_RoiPool_args *a = XCC_ARGS(RoiPool, d->node);
    const bool sampled = a->samples.count == 2;
    pooling p = {.greatest = a->mode == XCVM_ROI_MODE_max};
    cells axes[2] = {{.count = a->output_height}, {.count = a->output_width}};
    xcc_formula f;
    if (!begin(d, &f, &p, 2))
        return;
    for (int i = 0; i < 2; i++) {
        xcc_value *from = corner(d, f.operands[1], i, a->spatial_scale);
        xcc_value *to = corner(d, f.operands[1], i + 2, a->spatial_scale), *extent = xcc_sub(d, to, from);
        if (!sampled) {
            take_pixels(&p, &axes[i], i + 2, from, to, 0);
            continue;
        }
        extent = xcc_op2(d, XCVM_OP_Max, extent, xcc_num(d, extent, 1));
        take_samples(&p, &axes[i], i + 2, from, xcc_scale(d, extent, 1 / (double)axes[i].count), a->samples.at[i],
                     p.greatest);
    }
    end(d, &f, pool(&p, &axes[0], &axes[1], sampled && p.greatest));
}

XCC_GRADIENT(MaxRoiPool)
{
    const xcvm_MaxRoiPool_args *a = XCC_ARGS(MaxRoiPool, d->node);
    pooling p = {.greatest = true};
    cells axes[2] = {{.count = a->pooled_shape.at[0]}, {.count = a->pooled_shape.at[1]}};
    xcc_formula f;
    if (!begin(d, &f, &p, 0))
        return;
    xcc_value *images = xcc_build_cast(d->b, corner(d, xcc_in(d, 1), 0, 1), XCVM_I64);
    p.images = xcc_build_reshape(d->b, images, XCC_BUILD_INTS(d->b, -1));
    for (int i = 0; i < 2; i++)
        take_pixels(&p, &axes[i], i + 2, corner(d, f.operands[1], 2 - i, a->spatial_scale),
                    corner(d, f.operands[1], 4 - i, a->spatial_scale), 1);
    end(d, &f, pool(&p, &axes[0], &axes[1], false));
}
