/* Gradients of element-wise instructions with broadcasting: each gradient is summed to its operand's shape. */
#include "compiler/gradients/rule.h"

#define ARGS(Name) const xcvm_##Name##_args *a = XCC_ARGS(Name, d->node)
#define G xcc_g(d)
#define A xcc_in(d, 0)
#define B xcc_in(d, 1)
#define Y xcc_out(d, 0)

XCC_GRADIENT(Add)
{
    for (size_t i = 0; i < 2; i++)
        if (xcc_wanted(d, i))
            xcc_set_gradient_each(d, i, G);
}

XCC_GRADIENT(Sub)
{
    if (xcc_wanted(d, 0))
        xcc_set_gradient_each(d, 0, G);
    if (xcc_wanted(d, 1))
        xcc_set_gradient_each(d, 1, xcc_neg(d, G));
}

XCC_GRADIENT(Mul)
{
    if (xcc_wanted(d, 0))
        xcc_set_gradient_times(d, 0, B);
    if (xcc_wanted(d, 1))
        xcc_set_gradient_times(d, 1, A);
}

XCC_GRADIENT(Div)
{
    if (xcc_wanted(d, 0))
        xcc_set_gradient_over(d, 0, B);
    if (xcc_wanted(d, 1))
        xcc_set_gradient_times(d, 1, xcc_neg(d, xcc_div(d, Y, B)));
}

/* A tie gives half to each. With a NaN on one side neither loses, and both get all. */
static void set_winners(xcc_vjp *d, xcvm_opcode loses)
{
    xcc_value *half = xcc_where(d, xcc_op2(d, XCVM_OP_Equal, A, B), xcc_num(d, G, 0.5), xcc_num(d, G, 1));
    for (size_t i = 0; i < 2; i++)
        if (xcc_wanted(d, i)) {
            xcc_value *lost = xcc_op2(d, loses, xcc_in(d, i), xcc_in(d, 1 - i));
            xcc_set_gradient_times(d, i, xcc_where(d, lost, xcc_num(d, G, 0), half));
        }
}

XCC_GRADIENT(Max) { set_winners(d, XCVM_OP_Less); }
XCC_GRADIENT(Min) { set_winners(d, XCVM_OP_Greater); }

/* b * a^(b - 1), 0 where b is 0; the exponent may have another type. */
static xcc_value *power_slope(xcc_vjp *d)
{
    const xcvm_dtype dtype = (xcvm_dtype)A->type.dtype;
    xcc_value *b = B, *zero = xcc_num(d, A, 0);
    double number;
    if (xcc_constant_number(b, &number) && number == 0)
        return zero;
    if (xcc_constant_number(b, &number) && number == 2)
        return xcc_scale(d, A, 2);
    xcc_value *less = xcc_op2(d, XCVM_OP_Pow, A, xcc_plus(d, b, -1)), *factor = xcc_build_cast(d->b, b, dtype);
    xcc_value *slope = xcc_mul(d, factor, less);
    return xcc_is_constant(b) && xcc_constant_number(b, &number)
               ? slope
               : xcc_where(d, xcc_op2(d, XCVM_OP_Equal, factor, zero), zero, slope);
}

/* y * log(a), 0 where a is 0 and b >= 0 */
static xcc_value *exponent_slope(xcc_vjp *d)
{
    xcc_value *flat = xcc_op2(d, XCVM_OP_And, xcc_op2(d, XCVM_OP_Equal, A, xcc_num(d, A, 0)),
                              xcc_op2(d, XCVM_OP_GreaterOrEqual, B, xcc_num(d, B, 0)));
    return xcc_where(d, flat, xcc_num(d, A, 0), xcc_mul(d, Y, xcc_op1(d, XCVM_OP_Log, A)));
}

XCC_GRADIENT(Pow)
{
    if (xcc_wanted(d, 0))
        xcc_set_gradient_times(d, 0, power_slope(d));
    if (xcc_wanted(d, 1)) {
        xcc_value *product = xcc_mul(d, G, exponent_slope(d));
        if (d->masks[0] != NULL)
            product = xcc_where(d, d->masks[0], product, xcc_num(d, product, 0));
        xcc_set_gradient_each(d, 1, xcc_build_cast(d->b, product, (xcvm_dtype)B->type.dtype));
    }
}

/* y = a - b * q with an integer q, which is recomputed without rounding errors. */
XCC_GRADIENT(Mod)
{
    if (xcc_wanted(d, 0))
        xcc_set_gradient_each(d, 0, G);
    if (xcc_wanted(d, 1))
        xcc_set_gradient_times(d, 1, xcc_neg(d, xcc_op1(d, XCVM_OP_Round, xcc_div(d, xcc_sub(d, A, Y), B))));
}

/* The gradient at 0 is slope. */
XCC_GRADIENT(PRelu)
{
    xcc_value *above = xcc_op2(d, XCVM_OP_Greater, A, xcc_num(d, A, 0));
    if (xcc_wanted(d, 0))
        xcc_set_gradient_times(d, 0, xcc_where(d, above, xcc_num(d, A, 1), B));
    if (xcc_wanted(d, 1))
        xcc_set_gradient_times(d, 1, xcc_where(d, above, xcc_num(d, A, 0), A));
}

XCC_GRADIENT(Where)
{
    if (xcc_wanted(d, 1))
        xcc_set_gradient_where(d, 1, A);
    if (xcc_wanted(d, 2))
        xcc_set_gradient_where(d, 2, xcc_op1(d, XCVM_OP_Not, A));
}
