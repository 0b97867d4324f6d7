/* Gradients of linear transforms: the adjoint transforms. */
#include "compiler/gradients/rule.h"

#define G xcc_g(d)
#define X xcc_in(d, 0)

/* Pads x with zeros along `axis`, or crops it, to `size` elements. */
static xcc_value *fit(xcc_vjp *d, xcc_value *x, xcc_value *size, int axis)
{
    xcc_value *more = xcc_sub(d, size, xcc_build_dim_of(d->b, x, axis)), *along = XCC_BUILD_INTS(d->b, axis);
    xcc_value *pads = xcc_build_concat(d->b, 2, (xcc_value *[]){XCC_BUILD_INTS(d->b, 0), more}, 0);
    if (x == NULL || pads == NULL || along == NULL)
        return NULL;
    return xcc_apply(d->b, Pad, y, .x = XCC_IN(x), .pads = XCC_IN(pads), .axes = XCC_IN(along));
}

/* For a real signal from one side of its spectrum: each frequency counts twice, except the first, and the last of an
 * even number. */
static void set_half(xcc_vjp *d, int axis)
{
    xcc_builder *b = d->b;
    xcc_graph *graph = b->graph;
    xcc_value *along = xcc_scalar_i64(graph, axis), *none = xcc_build_ints(b, 0, NULL);
    xcc_value *half = along != NULL ? xcc_apply(b, DFT, y, .x = XCC_IN(G), .axis = XCC_IN(along), .onesided = 1) : NULL;
    xcc_value *length = xcc_build_reshape(b, xcc_build_dim_of(b, G, axis), none);
    xcc_value *count = xcc_build_reshape(b, xcc_build_dim_of(b, half, axis), none), *zero = xcc_scalar_i64(graph, 0);
    xcc_value *number = xcc_build_call(b, XCVM_OP_Range, 3, (xcc_value *[]){zero, count, xcc_scalar_i64(graph, 1)});
    xcc_value *single =
        xcc_op2(d, XCVM_OP_Or, xcc_op2(d, XCVM_OP_Equal, number, zero),
                xcc_op2(d, XCVM_OP_Equal, xcc_op2(d, XCVM_OP_Mul, number, xcc_scalar_i64(graph, 2)), length));
    xcc_value *weight = xcc_where(d, single, xcc_num(d, G, 1), xcc_num(d, G, 2));
    weight = xcc_div(d, weight, xcc_build_cast(b, length, (xcvm_dtype)G->type.dtype));
    int64_t shape[XCVM_MAX_RANK] = {-1};
    const int rank = X->type.rank;
    for (int i = 1; i < rank - axis; i++)
        shape[i] = 1;
    weight = xcc_build_reshape(b, weight, xcc_build_ints(b, (size_t)(rank - axis), shape));
    xcc_set_gradient(d, 0, fit(d, xcc_mul(d, half, weight), xcc_build_dim_of(b, X, axis), axis));
}

/* The unscaled transform in the other direction. Omitted frequencies have no gradient, and neither has the imaginary
 * part of a real signal. */
XCC_GRADIENT(DFT)
{
    const xcvm_DFT_args *a = XCC_ARGS(DFT, d->node);
    if (!xcc_vjp_need_rank(d, 0))
        return;
    const int rank = X->type.rank;
    double given = -2;
    if (a->axis != NULL && !xcc_constant_number(xcc_value_of(a->axis), &given)) {
        xcc_refuse(d, "has a gradient that needs the axis, which is not known");
        return;
    }
    const int axis = (int)(given < 0 ? given + rank : given);
    if (a->inverse && a->onesided) {
        set_half(d, axis);
        return;
    }
    xcc_value *n = xcc_build_dim_of(d->b, X, axis), *m = n, *number = XCC_BUILD_INTS(d->b, axis);
    if (a->dft_length != NULL)
        m = xcc_build_reshape(d->b, xcc_build_cast(d->b, xcc_value_of(a->dft_length), XCVM_I64),
                              XCC_BUILD_INTS(d->b, 1));
    xcc_value *g = fit(d, G, m, axis), *along = xcc_build_reshape(d->b, number, xcc_build_ints(d->b, 0, NULL));
    if (g == NULL || along == NULL) {
        d->failed = true;
        return;
    }
    xcc_value *back = xcc_apply(d->b, DFT, y, .x = XCC_IN(g), .axis = XCC_IN(along), .inverse = !a->inverse);
    xcc_value *length = xcc_build_cast(d->b, m, (xcvm_dtype)G->type.dtype);
    back = fit(d, a->inverse ? xcc_div(d, back, length) : xcc_mul(d, back, length), n, axis);
    if (X->type.dims[rank - 1] != 2) { /* or possibly 1 */
        xcc_value *parts = xcc_build_dim_of(d->b, X, rank - 1), *last = XCC_BUILD_INTS(d->b, rank - 1);
        back = xcc_build_call(d->b, XCVM_OP_Slice, 4, (xcc_value *[]){back, XCC_BUILD_INTS(d->b, 0), parts, last});
    }
    xcc_set_gradient(d, 0, back);
}

/* Windowed and transformed frames of the signal. */
XCC_GRADIENT(STFT)
{
    const xcvm_STFT_args *a = XCC_ARGS(STFT, d->node);
    xcc_builder *b = d->b;
    xcc_graph *graph = b->graph;
    xcc_formula f;
    if (!xcc_formula_begin(d, &f))
        return;
    xcc_value *none = xcc_build_ints(b, 0, NULL), *step = xcc_build_cast(b, xcc_value_of(a->frame_step), XCVM_I64);
    xcc_value *length = a->frame_length != NULL ? xcc_build_cast(b, xcc_value_of(a->frame_length), XCVM_I64)
                                                : xcc_build_dim_of(b, xcc_value_of(a->window), 0);
    xcc_value *ends[] = {xcc_scalar_i64(graph, 0), xcc_build_reshape(b, length, none), xcc_scalar_i64(graph, 1)};
    xcc_value *inner = xcc_build_call(b, XCVM_OP_Range, 3, ends);
    ends[1] = xcc_build_reshape(b, xcc_build_dim_of(b, xcc_out(d, 0), 1), none);
    xcc_value *frames = xcc_build_call(b, XCVM_OP_Range, 3, ends);
    frames = xcc_mul(d, xcc_build_unsqueeze(b, frames, 1, (const int64_t[]){1}), xcc_build_reshape(b, step, none));
    xcc_value *samples = xcc_build_gather(b, f.operands[0], xcc_add(d, frames, inner), 1);
    if (f.operands[2] != NULL)
        samples = xcc_mul(d, samples, xcc_build_reshape(b, f.operands[2], XCC_BUILD_INTS(b, -1, 1)));
    xcc_value *axis = xcc_scalar_i64(graph, 2);
    xcc_value *y = samples == NULL || axis == NULL
                       ? NULL
                       : xcc_apply(b, DFT, y, .x = XCC_IN(samples), .axis = XCC_IN(axis), .onesided = a->onesided);
    xcc_formula_end(d, &f, &y);
}
