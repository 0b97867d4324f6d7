/* Gradients of reductions: the gradient, with reduced axes restored, is broadcast to all reduced elements and
 * multiplied by a factor for each. */
#include "compiler/gradients/rule.h"

#define G xcc_g(d)
#define X xcc_in(d, 0)
#define Y xcc_out(d, 0)

/* `v`, a result of the node or its gradient, with the reduced axes restored as size 1. All reductions have the same
 * arguments. */
static xcc_value *put_back(xcc_vjp *d, xcc_value *v)
{
    const xcvm_ReduceSum_args *a = d->node->args;
    xcc_value *axes = xcc_value_of(a->axes);
    if (a->keepdims || v == NULL)
        return v;
    const bool absent = axes == NULL || (axes->type.rank == 1 && axes->type.dims[0] == 0);
    if (!absent)
        return xcc_op2(d, XCVM_OP_Unsqueeze, v, axes);
    if (a->noop_with_empty_axes)
        return v;
    /* All axes are reduced. A known rank becomes a constant shape, so that shapes are known while recording. */
    if (X->type.rank >= 0) {
        int64_t ones[XCVM_MAX_RANK];
        for (int i = 0; i < X->type.rank; i++)
            ones[i] = 1;
        return xcc_build_reshape(d->b, v, xcc_build_ints(d->b, (size_t)X->type.rank, ones));
    }
    return xcc_build_reshape(
        d->b, v,
        xcc_build_expand(d->b, XCC_BUILD_INTS(d->b, 1),
                         xcc_build_reshape(d->b, xcc_build_rank_of(d->b, X), XCC_BUILD_INTS(d->b, 1))));
}

/* Returns true if the axes are sufficiently known: a list that may be empty at run time would mean all axes. */
static bool know_axes(xcc_vjp *d)
{
    const xcvm_ReduceSum_args *a = d->node->args;
    const bool known = a->keepdims || a->axes == NULL || (a->axes->rank == 1 && a->axes->dims[0] >= 0);
    if (!known)
        xcc_refuse(d, "has, without keepdims, a gradient that needs the number of axes, which is not known");
    return known;
}

/* The gradient of x is the product of y's and a factor with the shape of x. */
static void set_product(xcc_vjp *d, xcc_value *g, xcc_value *factor)
{
    xcc_set_gradient(d, 0, xcc_mul(d, put_back(d, g), factor));
}

XCC_GRADIENT(ReduceSum)
{
    if (know_axes(d))
        xcc_set_gradient(d, 0, xcc_expand_like(d->b, put_back(d, G), X));
}

XCC_GRADIENT(ReduceMean)
{
    if (!know_axes(d))
        return;
    xcc_value *count = xcc_op2(d, XCVM_OP_Div, xcc_op1(d, XCVM_OP_Size, X), xcc_op1(d, XCVM_OP_Size, Y));
    xcc_value *share = xcc_div(d, G, xcc_build_cast(d->b, count, (xcvm_dtype)G->type.dtype));
    xcc_set_gradient(d, 0, xcc_expand_like(d->b, put_back(d, share), X));
}

/* Equal extremes share the gradient. */
static void set_extremes(xcc_vjp *d)
{
    if (!know_axes(d))
        return;
    const xcvm_ReduceSum_args *a = d->node->args;
    xcc_value *won = xcc_op2(d, XCVM_OP_Equal, X, put_back(d, Y));
    xcc_value *ones = xcc_build_cast(d->b, won, (xcvm_dtype)X->type.dtype);
    xcc_value *count = ones == NULL ? NULL
                                    : xcc_apply(d->b, ReduceSum, y, .x = XCC_IN(ones), .axes = a->axes, .keepdims = 1,
                                                .noop_with_empty_axes = a->noop_with_empty_axes);
    xcc_value *share = xcc_div(d, put_back(d, G), count);
    xcc_set_gradient(d, 0, xcc_where(d, won, share, xcc_num(d, G, 0)));
}

XCC_GRADIENT(ReduceMax) { set_extremes(d); }
XCC_GRADIENT(ReduceMin) { set_extremes(d); }

/* The product of the other elements. With one zero on an axis, that element gets the product of the rest and the others
 * 0; with several zeros, all get 0. */
XCC_GRADIENT(ReduceProd)
{
    if (!know_axes(d))
        return;
    const xcvm_ReduceSum_args *a = d->node->args;
    xcc_value *none = xcc_num(d, X, 0), *one = xcc_num(d, X, 1);
    xcc_value *is_zero = xcc_op2(d, XCVM_OP_Equal, X, none);
    xcc_value *zeros = xcc_build_cast(d->b, is_zero, (xcvm_dtype)X->type.dtype), *rest = xcc_where(d, is_zero, one, X);
    if (zeros == NULL || rest == NULL) {
        xcc_set_gradient(d, 0, NULL);
        return;
    }
    xcc_value *count = xcc_apply(d->b, ReduceSum, y, .x = XCC_IN(zeros), .axes = a->axes, .keepdims = 1,
                                 .noop_with_empty_axes = a->noop_with_empty_axes);
    xcc_value *product = xcc_apply(d->b, ReduceProd, y, .x = XCC_IN(rest), .axes = a->axes, .keepdims = 1,
                                   .noop_with_empty_axes = a->noop_with_empty_axes);
    /* The number of zeros among the other elements. */
    xcc_value *others = xcc_sub(d, count, zeros);
    xcc_value *factor = xcc_where(d, xcc_op2(d, XCVM_OP_Equal, others, none), xcc_div(d, product, rest), none);
    set_product(d, G, factor);
}

XCC_GRADIENT(ReduceL1)
{
    if (know_axes(d))
        set_product(d, G, xcc_op1(d, XCVM_OP_Sign, X));
}

/* 0 where y is 0 */
XCC_GRADIENT(ReduceL2)
{
    if (!know_axes(d))
        return;
    xcc_value *flat = xcc_op2(d, XCVM_OP_Equal, Y, xcc_num(d, Y, 0));
    set_product(d, xcc_where(d, flat, xcc_num(d, G, 0), xcc_div(d, G, Y)), X);
}

XCC_GRADIENT(ReduceSumSquare)
{
    if (know_axes(d))
        set_product(d, xcc_scale(d, G, 2), X);
}

XCC_GRADIENT(ReduceLogSumExp)
{
    if (know_axes(d))
        set_product(d, G, xcc_op1(d, XCVM_OP_Exp, xcc_sub(d, X, put_back(d, Y))));
}

/* ---- Cumulative sums and products ---- */

static xcc_value *cumulate(xcc_vjp *d, xcvm_opcode op, xcc_value *x, bool exclusive, bool reverse)
{
    /* Both have the same arguments. */
    const xcvm_CumSum_args *a = d->node->args;
    if (x == NULL)
        return NULL;
    xcvm_CumSum_args args = {.x = XCC_IN(x), .axis = a->axis, .exclusive = exclusive, .reverse = reverse};
    return xcc_apply_at(d->b, op, &args, offsetof(xcvm_CumSum_args, y));
}

XCC_GRADIENT(CumSum)
{
    const xcvm_CumSum_args *a = d->node->args;
    xcc_set_gradient(d, 0, cumulate(d, XCVM_OP_CumSum, G, a->exclusive, !a->reverse));
}

/* The sum of gradient times result over all results that include the element, divided by the element. After the first
 * zero all results are 0. The zero itself uses the results with 1 in its place, and later elements have gradient 0. */
XCC_GRADIENT(CumProd)
{
    const xcvm_CumSum_args *a = d->node->args;
    xcc_value *none = xcc_num(d, X, 0), *one = xcc_num(d, X, 1);
    xcc_value *is_zero = xcc_op2(d, XCVM_OP_Equal, X, none);
    xcc_value *seen =
        cumulate(d, XCVM_OP_CumSum, xcc_build_cast(d->b, is_zero, (xcvm_dtype)X->type.dtype), false, a->reverse);
    xcc_value *before = xcc_op2(d, XCVM_OP_Equal, seen, none);
    xcc_value *first = xcc_op2(d, XCVM_OP_And, is_zero, xcc_op2(d, XCVM_OP_Equal, seen, one));
    xcc_value *without = cumulate(d, XCVM_OP_CumProd, xcc_where(d, first, one, X), a->exclusive, a->reverse);
    xcc_value *of_first = cumulate(d, XCVM_OP_CumSum, xcc_mul(d, G, without), a->exclusive, !a->reverse);
    xcc_value *sum = cumulate(d, XCVM_OP_CumSum, xcc_mul(d, G, Y), a->exclusive, !a->reverse);
    xcc_value *rest = xcc_where(d, before, xcc_div(d, sum, xcc_where(d, before, X, one)), none);
    xcc_set_gradient(d, 0, xcc_where(d, first, of_first, rest));
}
