/* Gradients of normalizations in closed form: with xhat = (x - mean) * s and g the gradient times the scale, dx = s *
 * (g - mean(g) - xhat * mean(g * xhat)). Computed in at least f32. */
#include "compiler/gradients/rule.h"

#define ARGS(Name) const xcvm_##Name##_args *a = XCC_ARGS(Name, d->node)
#define G xcc_g(d)
#define X xcc_in(d, 0)
#define Y xcc_out(d, 0)

/* Converts to the computation type. */
static xcc_value *wide(xcc_vjp *d, xcc_value *v)
{
    return xcc_build_cast(d->b, v, X->type.dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32);
}

/* Sets a gradient, converted to the operand's type. */
static void set_converted(xcc_vjp *d, size_t i, xcc_value *gradient)
{
    xcc_set_gradient(d, i, xcc_build_cast(d->b, gradient, (xcvm_dtype)xcc_in(d, i)->type.dtype));
}

/* 1 / sqrt(variance + epsilon) */
static xcc_value *inverse_deviation(xcc_vjp *d, xcc_value *variance, double epsilon)
{
    return xcc_op1(d, XCVM_OP_Reciprocal, xcc_op1(d, XCVM_OP_Sqrt, xcc_plus(d, variance, epsilon)));
}

typedef struct normal {
    xcc_value *axes, *s, *xhat;
} normal;

/* x normalized over the axes, about its mean if `centered`. */
static normal normalize(xcc_vjp *d, xcc_value *x, xcc_value *axes, double epsilon, bool centered)
{
    normal n = {.axes = axes};
    xcc_value *from_mean = centered ? xcc_sub(d, x, xcc_mean(d, x, axes)) : x;
    n.s = inverse_deviation(d, xcc_mean(d, xcc_square(d, from_mean), axes), epsilon);
    n.xhat = xcc_mul(d, from_mean, n.s);
    return n;
}

static xcc_value *backward(xcc_vjp *d, const normal *n, xcc_value *g, bool centered)
{
    xcc_value *part = xcc_mul(d, n->xhat, xcc_mean(d, xcc_mul(d, g, n->xhat), n->axes));
    xcc_value *rest = centered ? xcc_sub(d, g, xcc_mean(d, g, n->axes)) : g;
    return xcc_mul(d, n->s, xcc_sub(d, rest, part));
}

/* One number per channel, in the shape of one batch entry. */
static xcc_value *per_channel(xcc_vjp *d, xcc_value *v)
{
    static const int64_t shape[] = {-1, 1, 1, 1, 1, 1, 1, 1};
    const int rank = X->type.rank;
    return xcc_build_reshape(d->b, wide(d, v), xcc_build_ints(d->b, rank > 1 ? (size_t)rank - 1 : 1, shape));
}

/* All axes except the channels. */
static xcc_value *other_axes(xcc_vjp *d)
{
    static const int64_t axes[] = {0, 2, 3, 4, 5, 6, 7};
    const int rank = X->type.rank;
    return xcc_build_ints(d->b, rank > 1 ? (size_t)rank - 1 : 1, axes);
}

static void set_channel_sum(xcc_vjp *d, size_t i, xcc_value *v)
{
    if (xcc_wanted(d, i))
        set_converted(d, i, xcc_build_reduce(d->b, XCVM_OP_ReduceSum, v, other_axes(d), false));
}

/* Sums over all axes except the channels. */
static xcc_value *channel_sums(xcc_vjp *d, xcvm_opcode reduction, xcc_value *v)
{
    return xcc_build_reduce(d->b, reduction, v, other_axes(d), false);
}

/* The gradients of x, scale and b in training mode by a formula, in the computation type. With c = x - mean and sums
 * over the n elements of a channel, dx = scale * s * (g - sum(g) / n - c * s^2 * sum(g * c) / n). */
typedef struct trained {
    xcc_value *dx, *dscale, *db;
} trained;

static trained differentiate_trained(xcc_vjp *d, xcc_value *x, xcc_value *scale, xcc_value *g, double epsilon)
{
    xcc_value *axes = other_axes(d), *mean = xcc_mean(d, x, axes);
    xcc_value *c = xcc_sub(d, x, mean), *one = XCC_BUILD_INTS(d->b, 1);
    xcc_value *channels = xcc_op2(d, XCVM_OP_Max, xcc_op1(d, XCVM_OP_Size, mean), one);
    /* A count of 0 becomes 1, so that empty sums are 0. */
    xcc_value *count = xcc_op2(d, XCVM_OP_Max, xcc_div(d, xcc_op1(d, XCVM_OP_Size, x), channels), one);
    if (x == NULL || count == NULL)
        return (trained){NULL, NULL, NULL};
    count = xcc_build_cast(d->b, count, (xcvm_dtype)x->type.dtype);
    xcc_value *variance = xcc_div(d, channel_sums(d, XCVM_OP_ReduceSumSquare, c), count);
    xcc_value *s = inverse_deviation(d, variance, epsilon);
    xcc_value *of_g = channel_sums(d, XCVM_OP_ReduceSum, g),
              *of_both = xcc_mul(d, s, channel_sums(d, XCVM_OP_ReduceSum, xcc_mul(d, g, c)));
    xcc_value *factor = xcc_mul(d, s, scale), *share = xcc_neg(d, xcc_div(d, factor, count));
    xcc_value *slope = xcc_mul(d, share, xcc_mul(d, s, of_both)), *shift = xcc_mul(d, share, of_g);
    xcc_value *rest = xcc_add(d, xcc_mul(d, c, per_channel(d, slope)), per_channel(d, shift));
    return (trained){xcc_add(d, xcc_mul(d, g, per_channel(d, factor)), rest), of_both, of_g};
}

/* Returns true if instructions without an ONNX operator may be used: when executing eagerly or compiling to a program.
 */
static bool may_be_own(const xcc_vjp *d)
{
    const xcc_module *m = d->b->graph->module;
    return m->recorder != NULL || (m->options != NULL && !m->options->onnx_export.enabled);
}

/* With the statistics of the batch. */
static void set_trained(xcc_vjp *d, double epsilon)
{
    xcc_value *const scale = xcc_in(d, 1);
    trained t;
    if (xcc_wanted(d, 0) && may_be_own(d)) {
        xcc_graph *g = d->b->graph;
        t = (trained){xcc_value_create(g, NULL), xcc_value_create(g, NULL), xcc_value_create(g, NULL)};
        d->failed = t.dx == NULL || t.dscale == NULL || t.db == NULL ||
                    xcc_emit(d->b, BatchNormalizationGradient, .dx = XCC_OUT(t.dx), .dscale = XCC_OUT(t.dscale),
                             .db = XCC_OUT(t.db), .g = XCC_IN(G), .x = XCC_IN(X), .scale = XCC_IN(scale),
                             .epsilon = epsilon) == NULL;
        if (d->failed)
            return;
    } else {
        t = differentiate_trained(d, wide(d, X), wide(d, scale), wide(d, G), epsilon);
    }
    xcc_value *const all[] = {t.dx, t.dscale, t.db};
    for (size_t i = 0; i < 3; i++)
        if (xcc_wanted(d, i))
            set_converted(d, i, all[i]);
}

/* With the batch's own statistics or, in inference form, given ones, which are ordinary operands. */
XCC_GRADIENT(BatchNormalization)
{
    ARGS(BatchNormalization);
    if (d->results[1] != NULL || d->results[2] != NULL) {
        xcc_refuse(d, "has no gradient of its running statistics");
        return;
    }
    if (!xcc_vjp_need_rank(d, 0))
        return;
    if (a->training_mode) {
        set_trained(d, a->epsilon);
        return;
    }
    xcc_value *x = wide(d, X), *g = wide(d, G), *scaled = xcc_mul(d, g, per_channel(d, xcc_in(d, 1)));
    xcc_value *s = inverse_deviation(d, per_channel(d, xcc_in(d, 4)), a->epsilon);
    xcc_value *xhat = xcc_mul(d, xcc_sub(d, x, per_channel(d, xcc_in(d, 3))), s), *shift = xcc_mul(d, scaled, s);
    if (xcc_wanted(d, 0))
        set_converted(d, 0, shift);
    set_channel_sum(d, 1, xcc_mul(d, g, xhat));
    set_channel_sum(d, 2, g);
    set_channel_sum(d, 3, xcc_neg(d, shift));
    set_channel_sum(d, 4, xcc_scale(d, xcc_mul(d, shift, xcc_mul(d, xhat, s)), -0.5));
}

/* Of g, x and scale, by differentiating a formula. */
XCC_GRADIENT(BatchNormalizationGradient)
{
    ARGS(BatchNormalizationGradient);
    xcc_formula f;
    if (!xcc_vjp_need_rank(d, 0) || !xcc_formula_begin(d, &f))
        return;
    const trained t =
        differentiate_trained(d, wide(d, f.operands[1]), wide(d, f.operands[2]), wide(d, f.operands[0]), a->epsilon);
    const xcc_value *like[] = {X, xcc_in(d, 2), xcc_in(d, 2)};
    xcc_value *results[] = {t.dx, t.dscale, t.db};
    for (size_t i = 0; i < 3; i++)
        results[i] = xcc_build_cast(d->b, results[i], (xcvm_dtype)like[i]->type.dtype);
    xcc_formula_end(d, &f, results);
}

/* With the statistics of all processes. */
XCC_GRADIENT(SyncBatchNormalization)
{
    ARGS(SyncBatchNormalization);
    if (d->results[1] != NULL || d->results[2] != NULL || d->results[3] != NULL) {
        xcc_refuse(d, "has no gradient of its statistics");
        return;
    }
    if (!may_be_own(d)) {
        xcc_refuse(d, "has a gradient that ONNX has no operators for");
        return;
    }
    xcc_graph *g = d->b->graph;
    xcc_value *const statistics = xcc_extra_result(d, 3), *results[3];
    for (size_t i = 0; i < 3; i++)
        results[i] = xcc_value_create(g, NULL);
    d->failed = statistics == NULL || results[0] == NULL || results[1] == NULL || results[2] == NULL ||
                xcc_emit(d->b, SyncBatchNormalizationGradient, .dx = XCC_OUT(results[0]), .dscale = XCC_OUT(results[1]),
                         .db = XCC_OUT(results[2]), .g = XCC_IN(G), .x = XCC_IN(X), .scale = XCC_IN(xcc_in(d, 1)),
                         .statistics = XCC_IN(statistics), .epsilon = a->epsilon) == NULL;
    for (size_t i = 0; i < 3 && !d->failed; i++)
        if (xcc_wanted(d, i))
            set_converted(d, i, results[i]);
}

/* With x as [batch, groups, elements of a group]. */
static void set_grouped(xcc_vjp *d, xcc_value *groups, double epsilon)
{
    xcc_value *x = wide(d, X), *g = wide(d, G), *scaled = xcc_mul(d, g, per_channel(d, xcc_in(d, 1)));
    xcc_value *rest =
        xcc_div(d, xcc_op1(d, XCVM_OP_Size, X),
                xcc_op2(d, XCVM_OP_Max, xcc_mul(d, xcc_build_dim_of(d->b, X, 0), groups), XCC_BUILD_INTS(d->b, 1)));
    xcc_value *shape = xcc_build_concat(d->b, 3, (xcc_value *[]){xcc_build_dim_of(d->b, X, 0), groups, rest}, 0);
    const normal n = normalize(d, xcc_build_reshape_to(d->b, x, shape), XCC_BUILD_INTS(d->b, 2), epsilon, true);
    if (xcc_wanted(d, 0)) {
        xcc_value *dx = backward(d, &n, xcc_build_reshape_to(d->b, scaled, shape), true);
        set_converted(d, 0, xcc_reshape_like(d->b, dx, X));
    }
    set_channel_sum(d, 1, xcc_mul(d, g, xcc_reshape_like(d->b, n.xhat, X)));
    set_channel_sum(d, 2, g);
}

XCC_GRADIENT(InstanceNormalization)
{
    ARGS(InstanceNormalization);
    if (xcc_vjp_need_rank(d, 0))
        set_grouped(d, xcc_build_dim_of(d->b, X, 1), a->epsilon);
}

XCC_GRADIENT(GroupNormalization)
{
    ARGS(GroupNormalization);
    if (xcc_vjp_need_rank(d, 0))
        set_grouped(d, XCC_BUILD_INTS(d->b, a->num_groups), a->epsilon);
}

/* The axes from `axis`. */
static xcc_value *axes_from(xcc_vjp *d, int64_t axis)
{
    return xcc_build_axes_from(d->b, X, axis < 0 ? axis + X->type.rank : axis);
}

/* Other results may have gradients too: mean(x), and s = (var(x) + epsilon)^(-1/2). */
XCC_GRADIENT(LayerNormalization)
{
    ARGS(LayerNormalization);
    if (!xcc_vjp_need_rank(d, 0))
        return;
    xcc_value *x = wide(d, X), *scale = xcc_in(d, 1), *sum = NULL;
    const normal n = normalize(d, x, axes_from(d, a->axis), a->epsilon, true);
    if (G != NULL) {
        xcc_value *g = wide(d, G);
        sum = xcc_wanted(d, 0) ? backward(d, &n, scale != NULL ? xcc_mul(d, g, wide(d, scale)) : g, true) : NULL;
        if (xcc_wanted(d, 1))
            set_converted(d, 1, xcc_sum_to(d->b, xcc_mul(d, g, n.xhat), scale));
        if (xcc_wanted(d, 2))
            set_converted(d, 2, xcc_sum_to(d->b, g, xcc_in(d, 2)));
    }
    for (size_t i = 1; i <= 2 && xcc_wanted(d, 0); i++) {
        if (d->results[i] == NULL)
            continue;
        /* The gradient of a mean, divided by the number of elements. */
        xcc_value *part = xcc_build_expand(d->b, wide(d, d->results[i]), xcc_build_shape_of(d->b, X));
        xcc_value *size = xcc_div(d, xcc_op1(d, XCVM_OP_Size, X), xcc_op1(d, XCVM_OP_Size, n.s));
        part = xcc_div(d, part, xcc_build_cast(d->b, size, (xcvm_dtype)x->type.dtype));
        if (i == 2)
            part = xcc_neg(d, xcc_mul(d, part, xcc_mul(d, n.xhat, xcc_square(d, n.s))));
        sum = sum != NULL ? xcc_add(d, sum, part) : part;
    }
    if (xcc_wanted(d, 0))
        set_converted(d, 0, sum);
}

XCC_GRADIENT(RMSNormalization)
{
    ARGS(RMSNormalization);
    if (!xcc_vjp_need_rank(d, 0))
        return;
    xcc_value *g = wide(d, G), *scale = xcc_in(d, 1);
    const normal n = normalize(d, wide(d, X), axes_from(d, a->axis), a->epsilon, false);
    if (xcc_wanted(d, 0))
        set_converted(d, 0, backward(d, &n, xcc_mul(d, g, wide(d, scale)), false));
    if (xcc_wanted(d, 1))
        set_converted(d, 1, xcc_sum_to(d->b, xcc_mul(d, g, n.xhat), scale));
}

/* (g - y * sum(g * y)) / norm, or for the 1-norm with the sign of x instead of the first y; 0 where the norm is 0. */
XCC_GRADIENT(LpNormalization)
{
    ARGS(LpNormalization);
    xcc_value *axis = xcc_axis_list(d, X, a->axis), *x = wide(d, X), *g = wide(d, G), *y = wide(d, Y);
    xcc_value *norm = xcc_build_reduce(d->b, a->p == 1 ? XCVM_OP_ReduceL1 : XCVM_OP_ReduceL2, x, axis, true);
    xcc_value *along = xcc_sum(d, xcc_mul(d, g, y), axis), *slope = a->p == 1 ? xcc_op1(d, XCVM_OP_Sign, x) : y;
    xcc_value *zero = xcc_num(d, x, 0), *dx = xcc_div(d, xcc_sub(d, g, xcc_mul(d, slope, along)), norm);
    set_converted(d, 0, xcc_where(d, xcc_op2(d, XCVM_OP_Equal, norm, zero), zero, dx));
}

/* Sums of `size` neighboring channels, `before` of them preceding: a convolution of [batch, 1, channels, rest]. */
static xcc_value *neighbors(xcc_vjp *d, xcc_value *x, int64_t size, int64_t before)
{
    xcc_value *rest = XCC_BUILD_INTS(d->b, 1);
    for (int i = 2; i < X->type.rank; i++)
        rest = xcc_mul(d, rest, xcc_build_dim_of(d->b, X, i));
    xcc_value *parts[] = {xcc_build_dim_of(d->b, X, 0), XCC_BUILD_INTS(d->b, 1), xcc_build_dim_of(d->b, X, 1), rest};
    xcc_value *image = xcc_build_reshape_to(d->b, x, xcc_build_concat(d->b, 4, parts, 0));
    xcc_value *ones = xcc_build_expand(d->b, xcc_num(d, x, 1), XCC_BUILD_INTS(d->b, 1, 1, size, 1));
    if (image == NULL || ones == NULL)
        return NULL;
    xcc_value *sums =
        xcc_apply(d->b, Conv, y, .x = XCC_IN(image), .w = XCC_IN(ones), .strides = XCC_INTS(1, 1),
                  .pads = XCC_INTS(before, 0, size - 1 - before, 0), .dilations = XCC_INTS(1, 1), .group = 1);
    return xcc_reshape_like(d->b, sums, X);
}

/* With n = bias + alpha / size * sum of squares: g * n^-beta - 2 * alpha * beta / size * x * sum of g * x * n^(-beta -
 * 1) over the channels whose window includes this one. */
XCC_GRADIENT(LRN)
{
    ARGS(LRN);
    if (!xcc_vjp_need_rank(d, 0))
        return;
    xcc_value *x = wide(d, X), *g = wide(d, G);
    const double share = a->alpha / (double)a->size;
    const int64_t before = (a->size - 1) / 2;
    xcc_value *n = xcc_plus(d, xcc_scale(d, neighbors(d, xcc_square(d, x), a->size, before), share), a->bias);
    xcc_value *power = xcc_op2(d, XCVM_OP_Pow, n, xcc_num(d, n, -a->beta)), *direct = xcc_mul(d, g, power);
    xcc_value *sum = neighbors(d, xcc_div(d, xcc_mul(d, direct, x), n), a->size, a->size - 1 - before);
    set_converted(d, 0, xcc_sub(d, direct, xcc_scale(d, xcc_mul(d, x, sum), 2 * share * a->beta)));
}

/* The kept elements, divided as in the forward pass; in inference form all elements unchanged. */
XCC_GRADIENT(Dropout)
{
    xcc_value *ratio = xcc_in(d, 1), *training = xcc_in(d, 2), *mask = training != NULL ? xcc_extra_result(d, 1) : NULL;
    if (training == NULL) {
        xcc_set_gradient_each(d, 0, G);
        return;
    }
    xcc_value *kept = ratio != NULL
                          ? xcc_sub(d, xcc_num(d, G, 1), xcc_build_cast(d->b, ratio, (xcvm_dtype)G->type.dtype))
                          : xcc_num(d, G, 0.5);
    xcc_value *scaled = xcc_div(d, G, xcc_where(d, training, kept, xcc_num(d, G, 1)));
    xcc_set_gradient(d, 0, xcc_where(d, mask, scaled, xcc_num(d, G, 0)));
}
