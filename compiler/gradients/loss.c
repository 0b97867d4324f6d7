/* Gradients of Softmax, LogSoftmax and NegativeLogLikelihoodLoss. */
#include "compiler/gradients/rule.h"

#define ARGS(Name) const xcvm_##Name##_args *a = XCC_ARGS(Name, d->node)
#define G xcc_g(d)
#define Y xcc_out(d, 0)

static xcc_value *sum_along(xcc_vjp *d, xcc_value *x, int64_t axis) { return xcc_sum(d, x, xcc_axis_list(d, x, axis)); }

XCC_GRADIENT(Softmax)
{
    ARGS(Softmax);
    xcc_value *product = xcc_mul(d, G, Y);
    xcc_set_gradient(d, 0, xcc_sub(d, product, xcc_mul(d, Y, sum_along(d, product, a->axis))));
}

/* Returns true if all elements are known to be 0: an expanded number, or a constant. */
static bool is_zero(const xcc_value *v)
{
    double number;
    if (v->producer != NULL)
        return xcc_is(v->producer, XCVM_OP_Expand) && xcc_constant_number(xcc_node_input(v->producer, 0), &number) &&
               number == 0;
    const unsigned char *bytes = xcc_is_constant(v) ? v->type.data : NULL;
    bool zero = bytes != NULL;
    for (size_t i = 0; zero && i < v->type.bytes; i++)
        zero = bytes[i] == 0;
    return zero;
}

/* Returns the node if v is one number per line along the axis scattered into zeros: the gradient of a loss with one
 * class per line. */
static const xcvm_ScatterElements_args *one_of_each_line(const xcc_vjp *d, const xcc_value *v, int64_t axis)
{
    const xcc_node *n = v->producer;
    if (n == NULL || !xcc_is(n, XCVM_OP_ScatterElements) || d->b->graph->module->recorder != NULL || v->type.rank <= 0)
        return NULL;
    const xcvm_ScatterElements_args *a = XCC_ARGS(ScatterElements, n);
    const int64_t at = axis < 0 ? axis + v->type.rank : axis, own = a->axis < 0 ? a->axis + v->type.rank : a->axis;
    const xcvm_value *written = a->updates;
    bool fits = at == own && a->reduction == XCVM_REDUCTION_none && written->rank == v->type.rank &&
                is_zero(xcc_value_of(a->x));
    for (int i = 0; fits && i < written->rank; i++)
        fits =
            i == at ? written->dims[i] == 1 : written->dims[i] != XCVM_ANY_DIM && written->dims[i] == v->type.dims[i];
    return fits ? a : NULL;
}

XCC_GRADIENT(LogSoftmax)
{
    ARGS(LogSoftmax);
    const xcvm_ScatterElements_args *one = one_of_each_line(d, G, a->axis);
    if (one != NULL) { /* the sum is that number, which is added at its position */
        xcc_value *rest = xcc_mul(d, xcc_op1(d, XCVM_OP_Exp, Y), xcc_neg(d, xcc_value_of(one->updates)));
        xcc_set_gradient(d, 0,
                         rest == NULL
                             ? NULL
                             : xcc_apply(d->b, ScatterElements, y, .x = XCC_IN(rest), .indices = one->indices,
                                         .updates = one->updates, .axis = one->axis, .reduction = XCVM_REDUCTION_add));
        return;
    }
    xcc_set_gradient(d, 0, xcc_sub(d, G, xcc_mul(d, xcc_op1(d, XCVM_OP_Exp, Y), sum_along(d, G, a->axis))));
}

/* Minus the weight at the target, divided by the sum of weights for a mean. Ignored targets do not count. If all are
 * ignored, the loss is NaN and the gradient 0. */
XCC_GRADIENT(NegativeLogLikelihoodLoss)
{
    ARGS(NegativeLogLikelihoodLoss);
    xcc_value *x = xcc_in(d, 0), *target = xcc_in(d, 1), *weight = xcc_in(d, 2), *none = xcc_num(d, x, 0);
    const int64_t channels[] = {1};
    xcc_value *ignored = NULL, *class = target, *share = xcc_num(d, x, 1);
    /* The smallest index means none, and one outside the target's type matches no element. */
    if (a->ignore_index != INT64_MIN &&
        (target->type.dtype == XCVM_I64 || (a->ignore_index >= INT32_MIN && a->ignore_index <= INT32_MAX))) {
        xcc_value *index =
            xcc_build_cast(d->b, xcc_scalar_i64(d->b->graph, a->ignore_index), (xcvm_dtype)target->type.dtype);
        ignored = xcc_op2(d, XCVM_OP_Equal, target, index);
        class = xcc_where(d, ignored, xcc_num(d, target, 0), target);
    }
    if (weight != NULL)
        share = xcc_build_gather(d->b, weight, class, 0);
    if (ignored != NULL)
        share = xcc_where(d, ignored, none, share);
    xcc_value *g = G, *each = NULL;
    /* Without weights each share is 1, and their number may be known. */
    const bool equal = weight == NULL && ignored == NULL && target->type.rank >= 0 && xcvm_dims_known(&target->type);
    if (!equal)
        each = xcc_expand_like(d->b, share, target);
    if (a->reduction == XCVM_LOSS_REDUCTION_mean)
        g = xcc_div(d, g,
                    equal ? xcc_num(d, g, (double)xcvm_element_count(&target->type))
                          : xcc_build_reduce(d->b, XCVM_OP_ReduceSum, each, NULL, false));
    xcc_value *at = xcc_build_unsqueeze(d->b, class, 1, channels);
    if (xcc_wanted(d, 0)) {
        xcc_value *column = equal ? xcc_expand_like(d->b, xcc_neg(d, g), target) : xcc_neg(d, xcc_mul(d, each, g));
        if (ignored != NULL)
            column = xcc_where(d, ignored, none, column);
        xcc_value *written = xcc_build_unsqueeze(d->b, column, 1, channels), *zeros = xcc_zeros_like(d->b, x);
        xcc_set_gradient(d, 0,
                         written == NULL || zeros == NULL || at == NULL
                             ? NULL
                             : xcc_apply(d->b, ScatterElements, y, .x = XCC_IN(zeros), .indices = XCC_IN(at),
                                         .updates = XCC_IN(written), .axis = 1, .reduction = XCVM_REDUCTION_none));
    }
    if (xcc_wanted(d, 2)) {
        xcc_value *picked = xcc_build_call(d->b, XCVM_OP_Neg, 1, (xcc_value *[]){x});
        picked = picked == NULL || at == NULL
                     ? NULL
                     : xcc_apply(d->b, GatherElements, y, .x = XCC_IN(picked), .indices = XCC_IN(at), .axis = 1);
        picked = xcc_build_squeeze(d->b, picked, 1, channels);
        if (a->reduction == XCVM_LOSS_REDUCTION_mean)
            picked = xcc_sub(d, picked, Y);
        xcc_value *part = xcc_mul(d, g, picked), *flat = XCC_BUILD_INTS(d->b, -1);
        if (ignored != NULL)
            part = xcc_where(d, ignored, none, part);
        xcc_value *zeros = xcc_zeros_like(d->b, weight), *to = xcc_build_reshape(d->b, class, flat),
                  *from = xcc_build_reshape(d->b, part, flat);
        xcc_set_gradient(d, 2,
                         zeros == NULL || to == NULL || from == NULL
                             ? NULL
                             : xcc_apply(d->b, ScatterElements, y, .x = XCC_IN(zeros), .indices = XCC_IN(to),
                                         .updates = XCC_IN(from), .axis = 0, .reduction = XCVM_REDUCTION_add));
    }
}
