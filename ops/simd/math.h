/* Branch-free elementary functions of one f32, so that compilers vectorize loops over them. The result does not depend
 * on the element's position in a vector.
 *
 * The stated errors are the largest found over all floats (of the range named), in units in the last place of the exact
 * result; tests/ops/simd/test_math.c measures them. NaN gives NaN; infinities, zeros and subnormal numbers follow C11
 * Annex F. Argument reductions follow Cody and Waite, "Software Manual for the Elementary Functions" (1980).
 * Polynomials marked Cephes are from S. Moshier's Cephes library, single precision; the others are minimax fits made
 * for this file. */
#ifndef XCVM_OPS_SIMD_MATH_H
#define XCVM_OPS_SIMD_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Precedes a loop whose iterations are independent, even if its pointers are equal. */
#if defined(__clang__)
#define XCVM_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define XCVM_INDEPENDENT _Pragma("GCC ivdep")
#endif

static inline uint32_t xcvm_f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float xcvm_f32_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t xcvm_f64_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double xcvm_f64_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float xcvm_copysign_f32(float magnitude, float sign)
{
    return xcvm_f32_of((xcvm_f32_bits(magnitude) & 0x7fffffffu) | (xcvm_f32_bits(sign) & 0x80000000u));
}

static inline float xcvm_absolute_f32(float v) { return xcvm_f32_of(xcvm_f32_bits(v) & 0x7fffffffu); }

/* NaN is kept, because comparisons with it are false. */
static inline float xcvm_clamp_f32(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* Selects with masks, because compilers turn long chains of ?: into branches. `condition` is 0 or 1. */
static inline float xcvm_select_f32(int condition, float yes, float no)
{
    uint32_t mask = 0u - (uint32_t)condition;
    return xcvm_f32_of((xcvm_f32_bits(yes) & mask) | (xcvm_f32_bits(no) & ~mask));
}

/* 2^n, for n in [-126, 127]. */
static inline float xcvm_pow2_f32(int32_t n) { return xcvm_f32_of((uint32_t)(n + 127) << 23); }

/* Adding and subtracting this constant rounds |x| < 2^22 to the nearest integer, which is then in the low bits. */
#define XCVM_ROUND_F32 12582912.0f

/* n and r with x = n ln 2 + r, |r| <= ln 2 / 2, for |x| <= 128. */
static inline float xcvm_exp_reduce_f32(float x, int32_t *n)
{
    float shifted = x * 1.44269504f + XCVM_ROUND_F32;
    float rounded = shifted - XCVM_ROUND_F32;
    *n = (int32_t)(xcvm_f32_bits(shifted) - 0x4b400000u);
    return (x - rounded * 0.693359375f) - rounded * -2.12194440e-4f;
}

/* exp(r) - 1, for |r| <= ln 2 / 2 (Cephes expf). */
static inline float xcvm_expm1_reduced_f32(float r)
{
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return p * (r * r) + r;
}

/* exp(r), for |r| <= ln 2 / 2 (Cephes expf). */
static inline float xcvm_exp_reduced_f32(float r)
{
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r + 1.0f;
    return p * r + 1.0f;
}

/* exp(x); 1.2 ulp. */
static inline float xcvm_exp_f32(float x)
{
    int32_t n;
    float y = xcvm_exp_reduced_f32(xcvm_exp_reduce_f32(x, &n));
    /* Two factors, because 2^n itself may be subnormal or infinite when the result is not. */
    float last = x < -80.0f ? 0x1p-100f : 2.0f;
    y = y * xcvm_f32_of(((uint32_t)n << 23) + (0x7f000000u - xcvm_f32_bits(last))) * last;
    /* Beyond these bounds the result is infinity or 0. A NaN fails both comparisons and is kept. */
    y = x > 88.8f ? INFINITY : y;
    return x < -104.0f ? 0.0f : y;
}

/* exp(x), for x <= 88 or NaN: 0 below -87.3, where the result would be subnormal; 1 ulp elsewhere. For sums whose
 * largest term is 1, and other uses where small results do not matter. */
static inline float xcvm_exp_negative_f32(float x)
{
    float clamped = x < -87.3f ? -87.3f : x;
    int32_t n;
    float r = xcvm_exp_reduce_f32(clamped, &n);
    float y = (xcvm_expm1_reduced_f32(r) + 1.0f) * xcvm_pow2_f32(n);
    return x < -87.3f ? 0.0f : y;
}

/* exp(x) - 1, for x <= 0 or NaN; 1 ulp. */
static inline float xcvm_expm1_negative_f32(float x)
{
    x = x < -30.0f ? -30.0f : x;
    int32_t n;
    float r = xcvm_exp_reduce_f32(x, &n);
    float scale = xcvm_pow2_f32(n);
    float y = xcvm_expm1_reduced_f32(r) * scale + (scale - 1.0f);
    return n == 0 ? xcvm_copysign_f32(xcvm_expm1_reduced_f32(r), x) : y;
}

/* Natural logarithm; 0.9 ulp (Cephes logf). */
static inline float xcvm_log_f32(float x)
{
    /* Scales subnormal numbers to normal ones. */
    int subnormal = x < 1.17549435e-38f;
    uint32_t bits = xcvm_f32_bits(subnormal ? x * 8388608.0f : x);
    /* x = m 2^n with m in [sqrt(1/2), sqrt(2)); the bits are offset by those of sqrt(1/2). */
    uint32_t above = bits - 0x3f3504f3u;
    int32_t n = (int32_t)above >> 23;
    float m = xcvm_f32_of((above & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float e = (float)n - (subnormal ? 23.0f : 0.0f);
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    float z = m * m;
    float y = p * m * z + e * -2.12194440e-4f;
    y = y - 0.5f * z;
    y = (m + y) + e * 0.693359375f;
    y = x > 3.40282347e+38f ? x : y;
    y = x == 0.0f ? -INFINITY : y;
    return x < 0.0f ? NAN : x != x ? x : y;
}

/* log(1 + x) for x in [0, 1] or NaN; 1.5 ulp. */
static inline float xcvm_log1p_unit_f32(float x)
{
    float u = 1.0f + x;
    /* First-order correction of the rounding error of u. */
    return xcvm_log_f32(u) + (x - (u - 1.0f)) / u;
}

/* Hyperbolic tangent; 2 ulp. Uses exp(-2 |x|) - 1, which is also accurate for small arguments. */
static inline float xcvm_tanh_f32(float x)
{
    float a = xcvm_f32_of(xcvm_f32_bits(x) & 0x7fffffffu);
    /* From 10 the result is 1. */
    int32_t n;
    float r = xcvm_exp_reduce_f32(a > 10.0f ? -20.0f : -2.0f * a, &n);
    float scale = xcvm_pow2_f32(n);
    float e = xcvm_expm1_reduced_f32(r);
    return xcvm_copysign_f32((e * scale + (scale - 1.0f)) / (e * scale + (scale + 1.0f)), x);
}

/* 1 / (1 + exp(-x)); 2.5 ulp, 0 below -87.3. */
static inline float xcvm_sigmoid_f32(float x)
{
    float e = xcvm_exp_negative_f32(xcvm_f32_of(xcvm_f32_bits(x) | 0x80000000u));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* log(1 + exp(x)); 2 ulp, 0 below -87.3. */
static inline float xcvm_softplus_f32(float x)
{
    float e = xcvm_exp_negative_f32(xcvm_f32_of(xcvm_f32_bits(x) | 0x80000000u));
    return (x < 0.0f ? 0.0f : x) + xcvm_log1p_unit_f32(e);
}

/* erf(x) for |x| < 0.93; 1 ulp. */
static inline float xcvm_erf_small_f32(float x)
{
    float z = x * x;
    float p = -5.97030332e-4f;
    p = p * z + 4.98943683e-3f;
    p = p * z - 2.67643575e-2f;
    p = p * z + 1.12817675e-1f;
    p = p * z - 3.76124918e-1f;
    p = p * z + 1.28379151e-1f;
    return p * x + x;
}

/* 1 - erf(t) for t in [0.92, 6]. */
static inline float xcvm_erfc_large_f32(float t)
{
    float p = -9.79783408e-7f;
    p = p * t + 3.23861168e-5f;
    p = p * t - 4.77646070e-4f;
    p = p * t + 4.19471040e-3f;
    p = p * t - 2.48370506e-2f;
    p = p * t + 1.07399531e-1f;
    p = p * t + 6.34497166e-1f;
    p = p * t + 1.28797397e-1f;
    /* Exponential of a number between -38 and -1. */
    int32_t n;
    const float r = xcvm_exp_reduce_f32(-(p * t + t), &n);
    return (xcvm_expm1_reduced_f32(r) + 1.0f) * xcvm_pow2_f32(n);
}

/* Error function; 1.3 ulp. */
static inline float xcvm_erf_f32(float x)
{
    float a = xcvm_f32_of(xcvm_f32_bits(x) & 0x7fffffffu);
    float large = 1.0f - xcvm_erfc_large_f32(a > 6.0f ? 6.0f : a);
    return a < 0.925f ? xcvm_erf_small_f32(x) : xcvm_copysign_f32(large, x);
}

/* x times the standard normal distribution function of x. 2.5 ulp for x > -1, relative error below 1e-5 for x >= -8.4.
 * Below that the result is -0, or NaN at -infinity as in the formula. */
static inline float xcvm_gelu_f32(float x)
{
    float u = x * 0.707106781f;
    float a = xcvm_f32_of(xcvm_f32_bits(u) & 0x7fffffffu);
    float tail = a > 6.0f ? 0.0f : 0.5f * xcvm_erfc_large_f32(a > 6.0f ? 6.0f : a);
    float large = x < 0.0f ? tail : 1.0f - tail;
    return x * (a < 0.925f ? 0.5f + 0.5f * xcvm_erf_small_f32(u) : large);
}

/* The tanh approximation of gelu: x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)). */
static inline float xcvm_gelu_tanh_f32(float x)
{
    return x * xcvm_sigmoid_f32(1.59576912f * x * (1.0f + 0.044715f * (x * x)));
}

/* x * tanh(softplus(x)); 4 ulp for x > -87. */
static inline float xcvm_mish_f32(float x)
{
    float e = xcvm_exp_negative_f32(x > 20.0f ? 20.0f : x);
    float n = e * (e + 2.0f);
    return x > 20.0f ? x : x * (n / (n + 2.0f));
}

/* Largest argument of sine, cosine and tangent below. */
#define XCVM_SIN_LIMIT 1.0e6f

/* n = x / (pi / 2) rounded, and x - n pi / 2, for |x| <= XCVM_SIN_LIMIT. Computed in f64: the first part of pi / 2 has
 * 33 bits, so its product with n is exact. */
static inline double xcvm_sin_reduce_f64(float x, int32_t *n)
{
    double wide = (double)x;
    double shifted = wide * 0.63661977236758134308 + 6755399441055744.0;
    double rounded = shifted - 6755399441055744.0;
    *n = (int32_t)(uint32_t)xcvm_f64_bits(shifted);
    return (wide - rounded * 1.57079632673412561417e+00) - rounded * 6.07710050650619224932e-11;
}

static inline float xcvm_sin_reduce_f32(float x, int32_t *n) { return (float)xcvm_sin_reduce_f64(x, n); }

/* Sine of r + n pi / 2, |r| <= pi / 4 (Cephes sinf, cosf). */
static inline float xcvm_sin_quadrant_f32(float r, int32_t n)
{
    float z = r * r;
    float s = -1.9515295891e-4f;
    s = s * z + 8.3321608736e-3f;
    s = s * z - 1.6666654611e-1f;
    s = s * z * r + r;
    float c = 2.443315711809948e-5f;
    c = c * z - 1.388731625493765e-3f;
    c = c * z + 4.166664568298827e-2f;
    c = c * z * z + (1.0f - 0.5f * z);
    float y = (n & 1) != 0 ? c : s;
    return xcvm_f32_of(xcvm_f32_bits(y) ^ ((uint32_t)n & 2u) << 30);
}

/* Sine and cosine for |x| <= XCVM_SIN_LIMIT; 1.6 ulp. */
static inline float xcvm_sin_f32(float x)
{
    int32_t n;
    float r = xcvm_sin_reduce_f32(x, &n);
    return x == 0.0f ? x : xcvm_sin_quadrant_f32(r, n);
}

static inline float xcvm_cos_f32(float x)
{
    int32_t n;
    float r = xcvm_sin_reduce_f32(x, &n);
    return xcvm_sin_quadrant_f32(r, (int32_t)((uint32_t)n + 1u));
}

/* Tangent for |x| <= XCVM_SIN_LIMIT; 0.51 ulp. Minimax fits of sine and cosine in f64, because near a pole the reduced
 * argument needs more precision than f32 has. */
static inline float xcvm_tan_f32(float x)
{
    int32_t n;
    double r = xcvm_sin_reduce_f64(x, &n);
    double z = r * r;
    double s = 2.7181217606602228e-06;
    s = s * z - 1.9839315119456118e-04;
    s = s * z + 8.3333293253264017e-03;
    s = s * z - 1.6666666641112510e-01;
    s = s * z * r + r;
    double c = 2.4436610418696521e-05;
    c = c * z - 1.3887352013021558e-03;
    c = c * z + 4.1666646562673208e-02;
    c = c * z * z + (1.0 - 0.5 * z);
    /* A quarter turn later it is -c / s. */
    double above = (n & 1) != 0 ? -c : s;
    double below = (n & 1) != 0 ? s : c;
    return x == 0.0f ? x : (float)(above / below);
}

/* The leading parts of pi / 2 and the remainders. */
#define XCVM_HALF_PI_F32 1.57079637f
#define XCVM_HALF_PI_REST_F32 -4.37113883e-8f

/* Arc tangent; 1.3 ulp. */
static inline float xcvm_atan_f32(float x)
{
    float a = xcvm_f32_of(xcvm_f32_bits(x) & 0x7fffffffu);
    /* For a large argument: pi / 2 minus the arc tangent of the inverse. */
    int is_great = a > 1.0f;
    float t = is_great ? -1.0f / a : a;
    float z = t * t;
    float p = 2.92069104e-3f;
    p = p * z - 1.63679232e-2f;
    p = p * z + 4.32118529e-2f;
    p = p * z - 7.55221360e-2f;
    p = p * z + 1.06660043e-1f;
    p = p * z - 1.42110552e-1f;
    p = p * z + 1.99937728e-1f;
    p = p * z - 3.33331527e-1f;
    p = p * z * t + (is_great ? XCVM_HALF_PI_REST_F32 : 0.0f);
    return xcvm_copysign_f32((is_great ? XCVM_HALF_PI_F32 : 0.0f) + (t + p), x);
}

/* Arc sine of s, where z = s^2 <= 1 / 4. */
static inline float xcvm_asin_reduced_f32(float s, float z)
{
    float p = 4.22185676e-2f;
    p = p * z + 2.41476005e-2f;
    p = p * z + 4.54770990e-2f;
    p = p * z + 7.49524177e-2f;
    p = p * z + 1.66667539e-1f;
    return p * z * s + s;
}

/* Arc sine, 1.9 ulp, and arc cosine, 1.2 ulp. For arguments above 1/2, they use the arc sine of half the chord to 1. */
static inline float xcvm_asin_f32(float x)
{
    float a = xcvm_f32_of(xcvm_f32_bits(x) & 0x7fffffffu);
    int is_great = a > 0.5f;
    float z = is_great ? 0.5f - 0.5f * a : a * a;
    float p = xcvm_asin_reduced_f32(is_great ? sqrtf(z) : a, z);
    float great = (XCVM_HALF_PI_F32 - 2.0f * p) + XCVM_HALF_PI_REST_F32;
    return xcvm_copysign_f32(is_great ? great : p, x);
}

static inline float xcvm_acos_f32(float x)
{
    float a = xcvm_f32_of(xcvm_f32_bits(x) & 0x7fffffffu);
    int is_great = a > 0.5f;
    float z = is_great ? 0.5f - 0.5f * a : a * a;
    float p = xcvm_copysign_f32(xcvm_asin_reduced_f32(is_great ? sqrtf(z) : a, z), x);
    /* The offset 0, pi / 2 or pi. */
    float quarters = is_great ? (x < 0.0f ? 2.0f : 0.0f) : 1.0f;
    p = is_great ? 2.0f * p : -p;
    return quarters * XCVM_HALF_PI_F32 + (p + quarters * XCVM_HALF_PI_REST_F32);
}

/* Base-2 logarithm of a normal positive number; relative error 1e-12 (near 1, relative to a - 1). log2 m = 2 / ln 2
 * atanh((m - 1) / (m + 1)) with a truncated series. */
static inline double xcvm_log2_f64(double a)
{
    int64_t above = (int64_t)(xcvm_f64_bits(a) - 0x3fe6a09e667f3bcdu);
    int64_t exponent = above & (int64_t)0xfff0000000000000u;
    double m = xcvm_f64_of(xcvm_f64_bits(a) - (uint64_t)exponent);
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s;
    double p = 0.22195308321368;
    p = p * z + 0.26230818925253;
    p = p * z + 0.32059889797532;
    p = p * z + 0.41219858311113;
    p = p * z + 0.57707801635558;
    p = p * z + 0.96179669392597;
    p = p * z + 2.88539008177793;
    /* Converts the exponent, an integer times 2^52, exactly through the bits of 2^52 + 2^51 + n. */
    double n = xcvm_f64_of((uint64_t)(exponent >> 52 & 0xfff) ^ 0x800 ^ 0x4338000000000000u) - 6755399441057792.0;
    return n + s * p;
}

/* 2^t, for |t| <= 1000 or NaN; relative error 2e-10 from truncating the Taylor series. */
static inline double xcvm_exp2_f64(double t)
{
    double shifted = t + 6755399441055744.0;
    double f = t - (shifted - 6755399441055744.0);
    double q = 1.3215486790144309e-6;
    q = q * f + 1.5252733804059841e-5;
    q = q * f + 1.5403530393381610e-4;
    q = q * f + 1.3333558146428443e-3;
    q = q * f + 9.6181291076284772e-3;
    q = q * f + 5.5504108664821580e-2;
    q = q * f + 2.4022650695910072e-1;
    q = q * f + 6.9314718055994531e-1;
    q = q * f + 1.0;
    return q * xcvm_f64_of((xcvm_f64_bits(shifted) + 1023u) << 52);
}

/* Hyperbolic sine, 1 ulp, and cosine, 0.51 ulp. */
static inline float xcvm_sinh_f32(float x)
{
    float a = xcvm_f32_of(xcvm_f32_bits(x) & 0x7fffffffu);
    float z = x * x;
    float p = 2.81743951e-6f;
    p = p * z + 1.98360663e-4f;
    p = p * z + 8.33335060e-3f;
    p = p * z + 1.66666665e-1f;
    float small = p * z * x + x;
    /* The results are infinite from a value below 90. */
    double e = xcvm_exp2_f64(1.44269504088896340736 * (double)(a > 100.0f ? 100.0f : a));
    float large = (float)(0.5 * e - 0.5 / e);
    return a < 1.0f ? small : xcvm_copysign_f32(large, x);
}

static inline float xcvm_cosh_f32(float x)
{
    float a = xcvm_f32_of(xcvm_f32_bits(x) & 0x7fffffffu);
    double e = xcvm_exp2_f64(1.44269504088896340736 * (double)(a > 100.0f ? 100.0f : a));
    return (float)(0.5 * e + 0.5 / e);
}

/* Inverse hyperbolic sine, cosine and tangent by logarithms in f64; 0.51 ulp. */
static inline float xcvm_asinh_f32(float x)
{
    float a = xcvm_f32_of(xcvm_f32_bits(x) & 0x7fffffffu);
    double wide = (double)a;
    float y = (float)(0.69314718055994530942 * xcvm_log2_f64(wide + sqrt(wide * wide + 1.0)));
    /* Below 1e-4 the cubic term vanishes; infinity and NaN are kept. */
    return ((a >= 1e-4f) & (a <= 3.40282347e+38f)) != 0 ? xcvm_copysign_f32(y, x) : x;
}

static inline float xcvm_acosh_f32(float x)
{
    double wide = (double)x;
    float y = (float)(0.69314718055994530942 * xcvm_log2_f64(wide + sqrt(wide * wide - 1.0)));
    y = x <= 3.40282347e+38f ? y : x;
    return x < 1.0f ? NAN : y;
}

static inline float xcvm_atanh_f32(float x)
{
    float a = xcvm_f32_of(xcvm_f32_bits(x) & 0x7fffffffu);
    double wide = (double)a;
    float y = (float)(0.34657359027997265471 * xcvm_log2_f64((1.0 + wide) / (1.0 - wide)));
    y = xcvm_copysign_f32(a == 1.0f ? INFINITY : y, x);
    /* Below 1e-4 the cubic term vanishes. */
    y = a >= 1e-4f ? y : x;
    return a > 1.0f ? NAN : y;
}

/* x^y; 0.51 ulp. Logarithm and exponential are computed in f64. */
static inline float xcvm_pow_f32(float x, float y)
{
    float a = xcvm_f32_of(xcvm_f32_bits(x) & 0x7fffffffu);
    double t = (double)y * xcvm_log2_f64((double)a); /* never subnormal in f64 */
    t = t < -200.0 ? -200.0 : t;
    t = t > 200.0 ? 200.0 : t;
    float r = (float)xcvm_exp2_f64(t);

    /* Special cases; later ones take precedence. */
    float ay = xcvm_f32_of(xcvm_f32_bits(y) & 0x7fffffffu);
    float limit = xcvm_select_f32((y > 0.0f) == (a > 1.0f), INFINITY, 0.0f);
    r = xcvm_select_f32(ay > 3.40282347e+38f, xcvm_select_f32(a == 1.0f, 1.0f, limit), r);
    r = xcvm_select_f32((a == 0.0f) | (a > 3.40282347e+38f), limit, r);
    /* Floats of 2^24 and above are even integers. */
    int is_great = ay >= 16777216.0f;
    int32_t whole = (int32_t)xcvm_select_f32(is_great | (y != y), 0.0f, ay);
    int integer = is_great | ((float)whole == ay);
    r = xcvm_f32_of(xcvm_f32_bits(r) | ((uint32_t)(whole & integer) << 31 & xcvm_f32_bits(x)));
    r = xcvm_select_f32((x < 0.0f) & (a <= 3.40282347e+38f) & !integer, NAN, r);
    r = xcvm_select_f32((x != x) | (y != y), x + y, r);
    return xcvm_select_f32((x == 1.0f) | (y == 0.0f), 1.0f, r);
}

#endif
