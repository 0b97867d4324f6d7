/* What element-wise instructions do with one f32 element, without branches, so that loops over them are vectorised: the
 * kernels' loops, and those of the fused kernels that the compiler makes, which contain the text of this file. */
#ifndef XCVM_OPS_VECTOR_MAPS_H
#define XCVM_OPS_VECTOR_MAPS_H

#include "ops/simd/math.h"

/* NaN passes through minima and maxima: it fails the comparison that would replace it. */
static inline float xcvm_at_least_f32(float v, float low) { return v < low ? low : v; }
static inline float xcvm_at_most_f32(float v, float high) { return v > high ? high : v; }
static inline float xcvm_absolute_f32(float v) { return xcvm_f32_of(xcvm_f32_bits(v) & 0x7fffffffu); }
static inline float xcvm_sign_f32(float v)
{
    float sign = v > 0.0f ? 1.0f : v < 0.0f ? -1.0f : 0.0f;
    return v != v ? v : sign;
}
/* e to the v, less 1, where v is negative; v elsewhere. */
static inline float xcvm_elu_f32(float v, float alpha)
{
    float e = alpha * xcvm_expm1_negative_f32(v < 0.0f ? v : 0.0f);
    return v < 0.0f ? e : v;
}
static inline float xcvm_shrink_f32(float v, float bias, float lambd)
{
    return v < -lambd ? v + bias : v > lambd ? v - bias : 0.0f;
}

/* MAP(instruction, attributes that it takes, result for v). */
/* clang-format off */
#define XCVM_MAPS(MAP) \
    MAP(Abs, NONE, xcvm_absolute_f32(v)) \
    MAP(Neg, NONE, -v) \
    MAP(Sign, NONE, xcvm_sign_f32(v)) \
    MAP(Ceil, NONE, ceilf(v)) \
    MAP(Floor, NONE, floorf(v)) \
    MAP(Round, NONE, rintf(v)) \
    MAP(Sqrt, NONE, sqrtf(v)) \
    MAP(Reciprocal, NONE, 1.0f / v) \
    MAP(Exp, NONE, xcvm_exp_f32(v)) \
    MAP(Log, NONE, xcvm_log_f32(v)) \
    MAP(Asin, NONE, xcvm_asin_f32(v)) \
    MAP(Acos, NONE, xcvm_acos_f32(v)) \
    MAP(Atan, NONE, xcvm_atan_f32(v)) \
    MAP(Sinh, NONE, xcvm_sinh_f32(v)) \
    MAP(Cosh, NONE, xcvm_cosh_f32(v)) \
    MAP(Tanh, NONE, xcvm_tanh_f32(v)) \
    MAP(Asinh, NONE, xcvm_asinh_f32(v)) \
    MAP(Acosh, NONE, xcvm_acosh_f32(v)) \
    MAP(Atanh, NONE, xcvm_atanh_f32(v)) \
    MAP(Erf, NONE, xcvm_erf_f32(v)) \
    MAP(Sigmoid, NONE, xcvm_sigmoid_f32(v)) \
    MAP(Softplus, NONE, xcvm_softplus_f32(v)) \
    MAP(Softsign, NONE, v / (1.0f + xcvm_absolute_f32(v))) \
    MAP(Mish, NONE, xcvm_mish_f32(v)) \
    MAP(HardSwish, NONE, v * xcvm_at_most_f32(xcvm_at_least_f32(v *(1.0f / 6.0f) + 0.5f, 0.0f), 1.0f)) \
    MAP(Relu, NONE, xcvm_at_least_f32(v, 0.0f)) \
    MAP(LeakyRelu, ALPHA, v < 0.0f ? alpha * v : v) \
    MAP(Elu, ALPHA, xcvm_elu_f32(v, alpha)) \
    MAP(Selu, ALPHA_BETA, beta * xcvm_elu_f32(v, alpha)) \
    MAP(Celu, ALPHA, v < 0.0f ? xcvm_elu_f32(v / alpha, alpha) : v) \
    MAP(ThresholdedRelu, ALPHA, v > alpha ? v : 0.0f) \
    MAP(HardSigmoid, ALPHA_BETA, xcvm_at_most_f32(xcvm_at_least_f32(alpha * v + beta, 0.0f), 1.0f)) \
    MAP(Shrink, ALPHA_BETA, xcvm_shrink_f32(v, alpha, beta)) \
    MAP(Gelu, NONE, xcvm_gelu_f32(v)) \
    MAP(GeluTanh, NONE, xcvm_gelu_tanh_f32(v)) \
    MAP(Swish, ALPHA, v * xcvm_sigmoid_f32(alpha * v)) \
    MAP(Clip, ALPHA_BETA, xcvm_at_most_f32(xcvm_at_least_f32(v, alpha), beta))

/* MAP(instruction, result for u and v). */
#define XCVM_MAPS_OF_TWO(MAP) \
    MAP(Add, u + v) \
    MAP(Sub, u - v) \
    MAP(Mul, u * v) \
    MAP(Div, u / v) \
    MAP(Max, ((u > v) | (u != u)) ? u : v) \
    MAP(Min, ((u < v) | (u != u)) ? u : v) \
    MAP(PRelu, u < 0.0f ? u * v : u) \
    MAP(Pow, xcvm_pow_f32(u, v))
/* clang-format on */

#define XCVM_MAP_FUNCTION(Name, takes, expression)                                                                     \
    static inline float xcvm_map_##Name(float v, float alpha, float beta)                                              \
    {                                                                                                                  \
        (void)alpha, (void)beta;                                                                                       \
        return expression;                                                                                             \
    }
XCVM_MAPS(XCVM_MAP_FUNCTION)
#define XCVM_MAP_FUNCTION_OF_TWO(Name, expression)                                                                     \
    static inline float xcvm_map_##Name(float u, float v) { return expression; }
XCVM_MAPS_OF_TWO(XCVM_MAP_FUNCTION_OF_TWO)

#endif
