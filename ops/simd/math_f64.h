/* Branch-free elementary functions of one f64, like ops/simd/math.h. The stated errors are the largest found by
 * tests/ops/simd/test_math.c, in units in the last place of the exact result. */
#ifndef XCVM_OPS_SIMD_MATH_F64_H
#define XCVM_OPS_SIMD_MATH_F64_H

#include "ops/simd/math.h"

static inline double xcvm_absolute_f64(double v) { return xcvm_f64_of(xcvm_f64_bits(v) & 0x7fffffffffffffffu); }
/* NaN is kept, as in xcvm_clamp_f32. */
static inline double xcvm_clamp_f64(double x, double low, double high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}
static inline double xcvm_copysign_f64(double magnitude, double sign)
{
    return xcvm_f64_of((xcvm_f64_bits(magnitude) & 0x7fffffffffffffffu) | (xcvm_f64_bits(sign) & 0x8000000000000000u));
}

/* Adding and subtracting this constant rounds |x| < 2^51 to the nearest integer, which is then in the low bits. */
#define XCVM_ROUND_F64 6755399441055744.0

/* r with x = n ln 2 + r, |r| <= ln 2 / 2, for |x| <= 2000; n is in the low bits of *shifted. */
static inline double xcvm_exp_reduce_f64(double x, double *shifted)
{
    *shifted = x * 1.44269504088896340736 + XCVM_ROUND_F64;
    const double n = *shifted - XCVM_ROUND_F64;
    return (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
}

/* exp(r) - 1 - r, for |r| <= ln 2 / 2, by the Taylor series truncated at 4e-18. */
static inline double xcvm_exp_rest_f64(double r)
{
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    return p * (r * r);
}

/* exp(x); 1 ulp. */
static inline double xcvm_exp_f64(double x)
{
    double shifted;
    const double r = xcvm_exp_reduce_f64(x, &shifted);
    double y = 1.0 + (r + xcvm_exp_rest_f64(r));
    /* Two factors, because 2^n itself may be subnormal or infinite when the result is not. */
    const double last = x < -600.0 ? 0x1p-200 : 2.0;
    y = y * xcvm_f64_of((xcvm_f64_bits(shifted) << 52) + (0x7fe0000000000000u - xcvm_f64_bits(last))) * last;
    /* Beyond these bounds the result is infinity or 0. A NaN fails both comparisons and is kept. */
    y = x > 709.8 ? (double)INFINITY : y;
    return x < -745.2 ? 0.0 : y;
}

/* Hyperbolic tangent; 2.1 ulp. Uses exp(-2 |x|) - 1, which is also accurate for small arguments. */
static inline double xcvm_tanh_f64(double x)
{
    const double a = xcvm_absolute_f64(x);
    /* From 20 the result is 1. */
    double shifted;
    const double r = xcvm_exp_reduce_f64(a > 20.0 ? -40.0 : -2.0 * a, &shifted);
    const double scale = xcvm_f64_of((xcvm_f64_bits(shifted) + 1023u) << 52);
    const double e = r + xcvm_exp_rest_f64(r);
    return xcvm_copysign_f64((e * scale + (scale - 1.0)) / (e * scale + (scale + 1.0)), x);
}

/* 1 / (1 + exp(-x)); 2.5 ulp. */
static inline double xcvm_sigmoid_f64(double x)
{
    const double e = xcvm_exp_f64(-xcvm_absolute_f64(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/* n = x / (pi / 2) rounded, and x - n pi / 2 as a sum of r and its rounding error, for |x| <= XCVM_SIN_LIMIT. Uses
 * 33-bit parts of pi / 2, whose products with n are exact (fdlibm). */
static inline double xcvm_turns_reduce_f64(double x, int64_t *n, double *rest)
{
    const double shifted = x * 0.63661977236758134308 + XCVM_ROUND_F64;
    const double turns = shifted - XCVM_ROUND_F64;
    *n = (int64_t)xcvm_f64_bits(shifted);
    const double near = x - turns * 1.57079632673412561417e+00;
    const double second = turns * 6.07710050630396597660e-11, third = turns * 2.02226624879595063154e-21;
    const double sum = near - second;
    const double low = (near - sum) - second;
    const double r = sum + (low - third);
    *rest = (sum - r) + (low - third);
    return r;
}

/* Sine of r + rest + n pi / 2, |r| <= pi / 4 (fdlibm). */
static inline double xcvm_sin_quadrant_f64(double r, double rest, int64_t n)
{
    const double z = r * r;
    double s = 1.58969099521155010221e-10;
    s = s * z - 2.50507602534068634195e-08;
    s = s * z + 2.75573137070700676789e-06;
    s = s * z - 1.98412698298579493134e-04;
    s = s * z + 8.33333333332248946124e-03;
    s = s * z - 1.66666666666666324348e-01;
    s = (s * (z * r) + rest) + r;
    double c = -1.13596475577881948265e-11;
    c = c * z + 2.08757232129817482790e-09;
    c = c * z - 2.75573143513906633035e-07;
    c = c * z + 2.48015872894767294178e-05;
    c = c * z - 1.38888888888741095749e-03;
    c = c * z + 4.16666666666666019037e-02;
    const double half = 0.5 * z, most = 1.0 - half;
    c = most + (((1.0 - most) - half) + (c * (z * z) - r * rest));
    const double y = (n & 1) != 0 ? c : s;
    return xcvm_f64_of(xcvm_f64_bits(y) ^ ((uint64_t)n & 2u) << 62);
}

/* Sine and cosine for |x| <= XCVM_SIN_LIMIT; 0.9 ulp. */
static inline double xcvm_sin_f64(double x)
{
    int64_t n;
    double rest;
    const double r = xcvm_turns_reduce_f64(x, &n, &rest);
    return x == 0.0 ? x : xcvm_sin_quadrant_f64(r, rest, n);
}

static inline double xcvm_cos_f64(double x)
{
    int64_t n;
    double rest;
    const double r = xcvm_turns_reduce_f64(x, &n, &rest);
    return xcvm_sin_quadrant_f64(r, rest, (int64_t)((uint64_t)n + 1u));
}

#endif
