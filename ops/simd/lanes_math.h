/* Elementary functions of f32 vectors that are faster than compiled loops over ops/simd/math.h, because of special
 * instructions or a looser error bound. Used by the stores of products and convolutions. */
#ifndef XCVM_OPS_SIMD_LANES_MATH_H
#define XCVM_OPS_SIMD_LANES_MATH_H

#include "ops/simd/lanes.h"
#include "ops/simd/math.h"

#define XCVM_LOG2_E 1.44269504f

/* n and r with x = n ln 2 + r, as in xcvm_exp_reduce_f32, with n as a float. */
XCVM_INLINE xcvm_lanes xcvm_lanes_exp_reduce(xcvm_lanes x, xcvm_lanes *n)
{
    *n = (x * XCVM_LOG2_E + XCVM_ROUND_F32) - XCVM_ROUND_F32;
    return (x - *n * 0.693359375f) - *n * -2.12194440e-4f;
}

/* exp(r), like xcvm_exp_reduced_f32. */
XCVM_INLINE xcvm_lanes xcvm_lanes_exp_reduced(xcvm_lanes r)
{
    xcvm_lanes p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r + 1.0f;
    return p * r + 1.0f;
}

#if defined(__AVX512F__)
/* p times 2^n where x >= `least` or NaN, else 0. Masked lanes do not underflow, which takes a hundred cycles on some
 * CPUs. */
XCVM_INLINE xcvm_lanes xcvm_lanes_scale_from(xcvm_lanes x, float least, xcvm_lanes p, xcvm_lanes n)
{
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, xcvm_lanes_all(least), _CMP_NLT_UQ), p, n);
}

/* exp(x), with the same bits as xcvm_exp_f32. */
XCVM_INLINE xcvm_lanes xcvm_lanes_exp(xcvm_lanes x)
{
    const xcvm_lanes given = x;
    /* Large enough for a result of infinity. */
    x = xcvm_lanes_min(xcvm_lanes_max(x, xcvm_lanes_all(-105.0f)), xcvm_lanes_all(90.0f));
    xcvm_lanes n;
    const xcvm_lanes p = xcvm_lanes_exp_reduced(xcvm_lanes_exp_reduce(x, &n));
    return xcvm_lanes_scale_from(given, -104.0f, p, n);
}
#endif

/* exp(x) for x <= 0 or NaN, 1.2 ulp; 0 if the result would be subnormal. */
XCVM_INLINE xcvm_lanes xcvm_lanes_exp_negative(xcvm_lanes x)
{
    const xcvm_lanes least = xcvm_lanes_all(-87.3f), near = xcvm_lanes_max(x, least);
    xcvm_lanes n;
    const xcvm_lanes p = xcvm_lanes_exp_reduced(xcvm_lanes_exp_reduce(near, &n));
#if defined(__AVX512F__)
    return xcvm_lanes_scale_from(x, -87.3f, p, n);
#else
    /* The integer is in the low bits. */
    const xcvm_lanes_mask power = ((xcvm_lanes_mask)(n + (XCVM_ROUND_F32 + 127.0f)) << 23);
    return xcvm_lanes_choose((xcvm_lanes_mask)(x < least), (xcvm_lanes){0}, p * (xcvm_lanes)power);
#endif
}

/* 1 + 2^(factor * x); relative error 2e-7 + 1e-7 |factor * x|. It is 1 if the power is below 2^-126, and infinity if it
 * is above 2^126. It is used as a divisor: at -infinity, x * sigmoid(x) is NaN, as in the formula. The polynomial is a
 * minimax fit of 2^r on [0, 1] with relative error 8.3e-8. */
XCVM_INLINE xcvm_lanes xcvm_lanes_one_plus_exp2(xcvm_lanes x, float factor)
{
    const xcvm_lanes t = x * factor;
#if defined(__AVX512DQ__)
    const xcvm_lanes r = _mm512_reduce_ps(t, _MM_FROUND_TO_NEG_INF);
#else
    /* Adding and subtracting this constant rounds to an integer, which is then in the low bits. */
    enum { MANTISSA_BITS = 23, EXPONENT_BIAS = 127 };
    typedef uint32_t lanes_bits __attribute__((vector_size(sizeof(xcvm_lanes))));
    const float rounder = 12582912.0f;
    const xcvm_lanes near = xcvm_lanes_min(xcvm_lanes_max(t, xcvm_lanes_all(-126.0f)), xcvm_lanes_all(126.5f));
    const xcvm_lanes shifted = near - 0.5f + rounder;
    const xcvm_lanes r = near - (shifted - rounder);
#endif
    xcvm_lanes p = 0.00186713005f * r + 0.00901702978f;
    p = p * r + 0.0557999127f;
    p = p * r + 0.240164444f;
    p = p * r + 0.693151295f;
    p = p * r + 1.0f;
#if defined(__AVX512DQ__)
    return _mm512_scalef_ps(p, t) + 1.0f;
#else
    const xcvm_lanes power = (xcvm_lanes)(((lanes_bits)shifted + EXPONENT_BIAS) << MANTISSA_BITS);
    return xcvm_lanes_choose((xcvm_lanes_mask)(t > 126.0f), xcvm_lanes_all(INFINITY), p * power) + 1.0f;
#endif
}

/* 1 / (1 + exp(-x)); relative error 1e-6 for |x| < 10, absolute error 1e-7. */
XCVM_INLINE xcvm_lanes xcvm_lanes_sigmoid(xcvm_lanes x) { return 1.0f / xcvm_lanes_one_plus_exp2(x, -XCVM_LOG2_E); }
/* x * sigmoid(alpha * x); errors relative to x like those of sigmoid. */
XCVM_INLINE xcvm_lanes xcvm_lanes_swish(xcvm_lanes x, float alpha)
{
    return x / xcvm_lanes_one_plus_exp2(x, -XCVM_LOG2_E * alpha);
}
/* The tanh approximation of gelu: x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)); errors like those of swish. */
XCVM_INLINE xcvm_lanes xcvm_lanes_gelu_tanh(xcvm_lanes x)
{
    return x / xcvm_lanes_one_plus_exp2(x * (1.0f + 0.044715f * (x * x)), -XCVM_LOG2_E * 1.59576912f);
}

#endif
