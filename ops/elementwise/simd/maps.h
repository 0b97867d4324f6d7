/* Branch-free formulas of element-wise instructions for one f32 element, which can be vectorized. Used by kernels and
 * included as text in kernel libraries. */
#ifndef XCVM_OPS_ELEMENTWISE_SIMD_MAPS_H
#define XCVM_OPS_ELEMENTWISE_SIMD_MAPS_H

#include "ops/elementwise/formulas.h"
#include "ops/simd/math.h"

static inline float xcvm_sign_f32(float v)
{
    float sign = v > 0.0f ? 1.0f : v < 0.0f ? -1.0f : 0.0f;
    return v != v ? v : sign;
}
/* alpha * (exp(v) - 1) for negative v; v otherwise. */
static inline float xcvm_elu_f32(float v, float alpha)
{
    float e = alpha * xcvm_expm1_negative_f32(v < 0.0f ? v : 0.0f);
    return v < 0.0f ? e : v;
}

/* Defines a function xcvm_map_Abs for each EACH formula of one or two f32 elements with f32 result. */
#define XCVM_MAP_EACH(Name, formula)                                                                                   \
    static inline float xcvm_map_##Name(float v, float alpha, float beta)                                              \
    {                                                                                                                  \
        (void)alpha, (void)beta;                                                                                       \
        return formula;                                                                                                \
    }
#define XCVM_MAP_PERIODIC(Name, function, general)
#define XCVM_MAP(Name, kernel, grain, f32, f64, integers) XCVM_BY_KIND(XCVM_MAP_, Name, XCVM_TAKEN_##f32)
XCVM_UNARY_FORMULAS(XCVM_MAP)

#define XCVM_PAIR_SAME_EACH(Name, formula)                                                                             \
    static inline float xcvm_map_##Name(float u, float v) { return formula; }
#define XCVM_PAIR_SAME_SMALL(Name, formula) XCVM_PAIR_SAME_EACH(Name, formula)
#define XCVM_PAIR_SAME_PADDED(Name, formula) XCVM_PAIR_SAME_EACH(Name, formula)
#define XCVM_PAIR_SAME_REMAINDER(Name, formula)
#define XCVM_PAIR_SAME_NONE(Name, nothing)
#define XCVM_PAIR_BOOL_SMALL(Name, formula)
#define XCVM_PAIR(Name, kernel, grain, result, f32, f64, integers, booleans)                                           \
    XCVM_BY_KIND(XCVM_PAIR_##result##_, Name, XCVM_TAKEN_##f32)
XCVM_BINARY_FORMULAS(XCVM_PAIR)

#endif
