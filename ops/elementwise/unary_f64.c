/* Element-wise instructions in f64, by libm. */
#include "ops/elementwise/unary_generic.h"

#include <math.h>

static double sign_of(double v) { return isnan(v) ? v : (double)((v > 0.0) - (v < 0.0)); }
static double sigmoid_of(double v)
{
    double e = exp(-fabs(v));
    return (v < 0.0 ? e : 1.0) / (1.0 + e);
}
static double softplus_of(double v) { return (v < 0.0 ? 0.0 : v) + log1p(exp(-fabs(v))); }
static double clamp_unit(double v) { return v < 0.0 ? 0.0 : v > 1.0 ? 1.0 : v; }
static double gelu_of(double v) { return 0.5 * v * erfc(-v * 0.70710678118654752440); }
static double gelu_tanh_of(double v)
{
    return 0.5 * v * (1.0 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
}
static double celu_of(double v, double alpha) { return v >= 0.0 ? v : alpha * expm1(v / alpha); }
static double shrink_of(double v, double bias, double lambd)
{
    return v < -lambd ? v + bias : v > lambd ? v - bias : 0.0;
}

/* In the order of their numbers: instruction and its value at v with attributes p. */
#define UNARY_LIST(X)                                                                                                  \
    X(Abs, fabs(v))                                                                                                    \
    X(Neg, -v)                                                                                                         \
    X(Sign, sign_of(v))                                                                                                \
    X(Ceil, ceil(v))                                                                                                   \
    X(Floor, floor(v))                                                                                                 \
    X(Round, rint(v))                                                                                                  \
    X(Sqrt, sqrt(v))                                                                                                   \
    X(Reciprocal, 1.0 / v)                                                                                             \
    X(Exp, exp(v))                                                                                                     \
    X(Log, log(v))                                                                                                     \
    X(Sin, sin(v))                                                                                                     \
    X(Cos, cos(v))                                                                                                     \
    X(Tan, tan(v))                                                                                                     \
    X(Asin, asin(v))                                                                                                   \
    X(Acos, acos(v))                                                                                                   \
    X(Atan, atan(v))                                                                                                   \
    X(Sinh, sinh(v))                                                                                                   \
    X(Cosh, cosh(v))                                                                                                   \
    X(Tanh, tanh(v))                                                                                                   \
    X(Asinh, asinh(v))                                                                                                 \
    X(Acosh, acosh(v))                                                                                                 \
    X(Atanh, atanh(v))                                                                                                 \
    X(Erf, erf(v))                                                                                                     \
    X(Sigmoid, sigmoid_of(v))                                                                                          \
    X(Softplus, softplus_of(v))                                                                                        \
    X(Softsign, v / (1.0 + fabs(v)))                                                                                   \
    X(Mish, v *tanh(softplus_of(v)))                                                                                   \
    X(HardSwish, v *clamp_unit(v / 6.0 + 0.5))                                                                         \
    X(Relu, v < 0.0 ? 0.0 : v)                                                                                         \
    X(LeakyRelu, v < 0.0 ? p[0] * v : v)                                                                               \
    X(Elu, v < 0.0 ? p[0] * expm1(v) : v)                                                                              \
    X(Selu, p[1] * (v > 0.0 ? v : p[0] * expm1(v)))                                                                    \
    X(Celu, celu_of(v, p[0]))                                                                                          \
    X(ThresholdedRelu, v > p[0] ? v : 0.0)                                                                             \
    X(HardSigmoid, clamp_unit(p[0] * v + p[1]))                                                                        \
    X(Shrink, shrink_of(v, p[0], p[1]))                                                                                \
    X(Gelu, p[0] != 0.0 ? gelu_tanh_of(v) : gelu_of(v))                                                                \
    X(Swish, v *sigmoid_of(p[0] * v))                                                                                  \
    X(Clip, v<p[0] ? (p[0] > p[1] ? p[1] : p[0]) : v> p[1] ? p[1] : v)

#define LOOP(Name, expression)                                                                                         \
    static void loop_##Name(const double *x, double *y, size_t count, const double *p)                                 \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const double v = x[i];                                                                                     \
            y[i] = expression;                                                                                         \
        }                                                                                                              \
    }
UNARY_LIST(LOOP)

xcvm_unary_f64 xcvm_unary_f64_of(xcvm_opcode opcode)
{
    static const xcvm_unary_f64 loops[] = {
#define ENTRY(Name, expression) [XCVM_OP_##Name] = loop_##Name,
        UNARY_LIST(ENTRY)};
    return loops[opcode];
}
