/* Gradients of unary element-wise instructions. At kinks, ties and zeros they follow PyTorch. */
#include "compiler/gradients/rule.h"

#include <math.h>

#define ARGS(Name) const xcvm_##Name##_args *a = XCC_ARGS(Name, d->node)
#define G xcc_g(d)
#define X xcc_in(d, 0)
#define Y xcc_out(d, 0)

/* 1 - x * x */
static xcc_value *one_minus_square(xcc_vjp *d, xcc_value *x) { return xcc_sub(d, xcc_num(d, x, 1), xcc_square(d, x)); }

static xcc_value *root(xcc_vjp *d, xcc_value *x) { return xcc_op1(d, XCVM_OP_Sqrt, x); }

static xcc_value *compare(xcc_vjp *d, xcvm_opcode op, xcc_value *x, double number)
{
    return xcc_op2(d, op, x, xcc_num(d, x, number));
}

/* ---- From the result only ---- */

XCC_GRADIENT(Neg) { xcc_set_gradient_each(d, 0, xcc_neg(d, G)); }
XCC_GRADIENT(Sqrt) { xcc_set_gradient_times(d, 0, xcc_div(d, xcc_num(d, Y, 0.5), Y)); }
XCC_GRADIENT(Reciprocal) { xcc_set_gradient_times(d, 0, xcc_neg(d, xcc_square(d, Y))); }
XCC_GRADIENT(Exp) { xcc_set_gradient_times(d, 0, Y); }
XCC_GRADIENT(Tan) { xcc_set_gradient_times(d, 0, xcc_plus(d, xcc_square(d, Y), 1)); }
XCC_GRADIENT(Tanh) { xcc_set_gradient_times(d, 0, one_minus_square(d, Y)); }
XCC_GRADIENT(Sigmoid) { xcc_set_gradient_times(d, 0, xcc_mul(d, Y, xcc_sub(d, xcc_num(d, Y, 1), Y))); }

/* 0 at 0. NaN is not <= 0, so it passes the gradient. */
XCC_GRADIENT(Relu) { xcc_set_gradient_where(d, 0, xcc_op1(d, XCVM_OP_Not, compare(d, XCVM_OP_LessOrEqual, Y, 0))); }

/* ---- From the operand ---- */

XCC_GRADIENT(Abs) { xcc_set_gradient_each(d, 0, xcc_mul(d, G, xcc_op1(d, XCVM_OP_Sign, X))); }
XCC_GRADIENT(Log) { xcc_set_gradient_over(d, 0, X); }
XCC_GRADIENT(Sin) { xcc_set_gradient_times(d, 0, xcc_op1(d, XCVM_OP_Cos, X)); }
XCC_GRADIENT(Cos) { xcc_set_gradient_times(d, 0, xcc_neg(d, xcc_op1(d, XCVM_OP_Sin, X))); }
XCC_GRADIENT(Asin) { xcc_set_gradient_over(d, 0, root(d, one_minus_square(d, X))); }
XCC_GRADIENT(Acos) { xcc_set_gradient_over(d, 0, xcc_neg(d, root(d, one_minus_square(d, X)))); }
XCC_GRADIENT(Atan) { xcc_set_gradient_over(d, 0, xcc_plus(d, xcc_square(d, X), 1)); }
XCC_GRADIENT(Sinh) { xcc_set_gradient_times(d, 0, xcc_op1(d, XCVM_OP_Cosh, X)); }
XCC_GRADIENT(Cosh) { xcc_set_gradient_times(d, 0, xcc_op1(d, XCVM_OP_Sinh, X)); }
XCC_GRADIENT(Asinh) { xcc_set_gradient_over(d, 0, root(d, xcc_plus(d, xcc_square(d, X), 1))); }
XCC_GRADIENT(Acosh) { xcc_set_gradient_over(d, 0, root(d, xcc_mul(d, xcc_plus(d, X, -1), xcc_plus(d, X, 1)))); }
XCC_GRADIENT(Atanh) { xcc_set_gradient_over(d, 0, one_minus_square(d, X)); }
XCC_GRADIENT(Softplus) { xcc_set_gradient_times(d, 0, xcc_op1(d, XCVM_OP_Sigmoid, X)); }
XCC_GRADIENT(Softsign) { xcc_set_gradient_over(d, 0, xcc_square(d, xcc_plus(d, xcc_op1(d, XCVM_OP_Abs, X), 1))); }

/* 2 / sqrt(pi) * exp(-x * x) */
XCC_GRADIENT(Erf)
{
    xcc_set_gradient_times(d, 0, xcc_scale(d, xcc_op1(d, XCVM_OP_Exp, xcc_neg(d, xcc_square(d, X))), M_2_SQRTPI));
}

/* With t = tanh(softplus(x)): t + x * (1 - t * t) * sigmoid(x) */
XCC_GRADIENT(Mish)
{
    xcc_value *t = xcc_op1(d, XCVM_OP_Tanh, xcc_op1(d, XCVM_OP_Softplus, X));
    xcc_value *slope = xcc_mul(d, one_minus_square(d, t), xcc_op1(d, XCVM_OP_Sigmoid, X));
    xcc_set_gradient_times(d, 0, xcc_add(d, t, xcc_mul(d, X, slope)));
}

/* x / 3 + 1 / 2 in [-3, 3] */
XCC_GRADIENT(HardSwish)
{
    xcc_value *slope = xcc_plus(d, xcc_scale(d, X, 1.0 / 3), 0.5);
    slope = xcc_where(d, compare(d, XCVM_OP_Greater, X, 3), xcc_num(d, X, 1), slope);
    xcc_set_gradient_times(d, 0, xcc_where(d, compare(d, XCVM_OP_Less, X, -3), xcc_num(d, X, 0), slope));
}

/* G where x > 0, `factor` * G elsewhere */
static void set_above(xcc_vjp *d, xcc_value *factor)
{
    xcc_set_gradient_times(d, 0, xcc_where(d, compare(d, XCVM_OP_Greater, X, 0), xcc_num(d, X, 1), factor));
}

/* number * exp(min(x / divisor, 0)) */
static xcc_value *decay(xcc_vjp *d, double number, double divisor)
{
    xcc_value *below = xcc_op2(d, XCVM_OP_Min, X, xcc_num(d, X, 0));
    return xcc_scale(d, xcc_op1(d, XCVM_OP_Exp, xcc_scale(d, below, 1 / divisor)), number);
}

XCC_GRADIENT(LeakyRelu)
{
    ARGS(LeakyRelu);
    set_above(d, xcc_num(d, X, a->alpha));
}

XCC_GRADIENT(Elu)
{
    ARGS(Elu);
    set_above(d, decay(d, a->alpha, 1));
}

XCC_GRADIENT(Selu)
{
    ARGS(Selu);
    xcc_value *slope = xcc_where(d, compare(d, XCVM_OP_Greater, X, 0), xcc_num(d, X, 1), decay(d, a->alpha, 1));
    xcc_set_gradient_times(d, 0, xcc_scale(d, slope, a->gamma));
}

XCC_GRADIENT(Celu)
{
    ARGS(Celu);
    set_above(d, decay(d, 1, a->alpha));
}

XCC_GRADIENT(ThresholdedRelu)
{
    ARGS(ThresholdedRelu);
    xcc_set_gradient_where(d, 0, compare(d, XCVM_OP_Greater, X, a->alpha));
}

/* 0 at both corners */
XCC_GRADIENT(HardSigmoid)
{
    ARGS(HardSigmoid);
    xcc_value *inside = xcc_op2(d, XCVM_OP_And, compare(d, XCVM_OP_Greater, Y, 0), compare(d, XCVM_OP_Less, Y, 1));
    xcc_set_gradient_times(d, 0, xcc_where(d, inside, xcc_num(d, X, a->alpha), xcc_num(d, X, 0)));
}

/* 0 at both thresholds */
XCC_GRADIENT(Shrink)
{
    ARGS(Shrink);
    xcc_set_gradient_where(
        d, 0, xcc_op2(d, XCVM_OP_Or, compare(d, XCVM_OP_Less, X, -a->lambd), compare(d, XCVM_OP_Greater, X, a->lambd)));
}

/* Distribution function and density of the normal distribution: Phi(x) + x * phi(x) */
static xcc_value *gelu_slope(xcc_vjp *d)
{
    xcc_value *below = xcc_plus(d, xcc_op1(d, XCVM_OP_Erf, xcc_scale(d, X, M_SQRT1_2)), 1);
    xcc_value *density = xcc_op1(d, XCVM_OP_Exp, xcc_scale(d, xcc_square(d, X), -0.5));
    return xcc_add(d, xcc_scale(d, below, 0.5), xcc_mul(d, X, xcc_scale(d, density, 0.5 * M_2_SQRTPI * M_SQRT1_2)));
}

/* With t = tanh(u), u = sqrt(2 / pi) * (x + 0.044715 * x^3): (1 + t + x * (1 - t * t) * u') / 2 */
static xcc_value *gelu_tanh_slope(xcc_vjp *d)
{
    const double k = M_2_SQRTPI * M_SQRT1_2, c = 0.044715;
    xcc_value *square = xcc_square(d, X);
    xcc_value *u = xcc_scale(d, xcc_mul(d, X, xcc_plus(d, xcc_scale(d, square, c), 1)), k);
    xcc_value *t = xcc_op1(d, XCVM_OP_Tanh, u);
    xcc_value *rise = xcc_mul(d, one_minus_square(d, t), xcc_plus(d, xcc_scale(d, square, 3 * c * k), k));
    return xcc_scale(d, xcc_add(d, xcc_plus(d, t, 1), xcc_mul(d, X, rise)), 0.5);
}

XCC_GRADIENT(Gelu)
{
    ARGS(Gelu);
    xcc_set_gradient_times(d, 0, a->approximate == XCVM_GELU_tanh ? gelu_tanh_slope(d) : gelu_slope(d));
}

/* With s = sigmoid(alpha * x): s * (1 + alpha * x * (1 - s)) */
XCC_GRADIENT(Swish)
{
    ARGS(Swish);
    xcc_value *ax = xcc_scale(d, X, a->alpha), *s = xcc_op1(d, XCVM_OP_Sigmoid, ax);
    xcc_value *rest = xcc_mul(d, ax, xcc_sub(d, xcc_num(d, s, 1), s));
    xcc_set_gradient_times(d, 0, xcc_mul(d, s, xcc_plus(d, rest, 1)));
}

/* 1 at both bounds. If min > max, the result is max. */
XCC_GRADIENT(Clip)
{
    ARGS(Clip);
    xcc_value *min = xcc_value_of(a->min), *max = xcc_value_of(a->max);
    xcc_value *low = min != NULL ? xcc_op2(d, XCVM_OP_Less, X, min) : NULL;
    xcc_value *high = max != NULL ? xcc_op2(d, XCVM_OP_Greater, X, max) : NULL;
    xcc_value *crossed = low != NULL && high != NULL ? xcc_op2(d, XCVM_OP_Greater, min, max) : NULL;
    if (xcc_wanted(d, 0)) {
        xcc_value *inside = min != NULL ? xcc_op2(d, XCVM_OP_GreaterOrEqual, X, min) : NULL;
        if (max != NULL) {
            xcc_value *below = xcc_op2(d, XCVM_OP_LessOrEqual, X, max);
            inside = inside != NULL ? xcc_op2(d, XCVM_OP_And, inside, below) : below;
        }
        if (inside != NULL)
            xcc_set_gradient_where(d, 0, inside);
        else
            xcc_set_gradient_each(d, 0, G);
    }
    if (xcc_wanted(d, 1))
        xcc_set_gradient_where(d, 1,
                               crossed != NULL ? xcc_op2(d, XCVM_OP_And, low, xcc_op1(d, XCVM_OP_Not, crossed)) : low);
    if (xcc_wanted(d, 2))
        xcc_set_gradient_where(d, 2, crossed != NULL ? xcc_op2(d, XCVM_OP_Or, high, crossed) : high);
}

/* Gradients of quantized numbers are floats. */
XCC_GRADIENT(Cast)
{
    xcc_set_gradient_each(d, 0, xcc_is_differentiable(X) ? xcc_build_cast(d->b, G, (xcvm_dtype)X->type.dtype) : G);
}

XCC_GRADIENT(straight_through) { xcc_set_gradient_each(d, 0, G); }

XCC_GRADIENT(Identity) { xcc_set_gradient_each(d, 0, G); }
