/* The errors of ops/simd/math.h against libm in f64, over floats of all magnitudes, and its special cases. */
#include "ops/simd/math.h"
#include "ops/simd/math_f64.h"
#include "tests/support.h"

#include <check.h>
#include <float.h>

/* The error of y in units of the last place of the exact result. Subnormal results have the unit of the smallest normal
 * number. */
static double ulps(float y, double exact)
{
    if (isnan(exact) || isnan(y))
        return isnan(exact) && isnan(y) ? 0.0 : INFINITY;
    if ((float)exact == y)
        return !signbit(y) == !signbit(exact) ? 0.0 : INFINITY;
    if (isinf(y) || isinf(exact))
        return INFINITY;
    int exponent;
    frexp(fmax(fabs(exact), (double)FLT_MIN), &exponent);
    return fabs((double)y - exact) / ldexp(1.0, exponent - FLT_MANT_DIG);
}

typedef float (*function_f32)(float);
typedef double (*function_f64)(double);

static void check_over(const char *name, function_f32 f, function_f64 exact, float low, float high, double limit)
{
    double worst = 0.0;
    float at = 0.0f;
    /* A stride that is a prime number visits all low bits. */
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 6007) {
        float x = xcvm_f32_of((uint32_t)bits);
        if (!(x >= low && x <= high) && x == x)
            continue;
        double error = ulps(f(x), exact((double)x));
        if (error > worst) {
            worst = error;
            at = x;
        }
    }
    ck_assert_msg(worst <= limit, "%s(%.9g) = %.9g is off by %.2f ulp, %.2f are allowed", name, (double)at,
                  (double)f(at), worst, limit);
}

static double sigmoid(double x) { return x < 0.0 ? exp(x) / (1.0 + exp(x)) : 1.0 / (1.0 + exp(-x)); }
static double softplus(double x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }
static double gelu(double x) { return 0.5 * x * erfc(-x / sqrt(2.0)); }
static double gelu_tanh(double x) { return x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)); }
static double mish(double x) { return x * tanh(softplus(x)); }

static const struct {
    const char *name;
    function_f32 f;
    function_f64 exact;
    float low, high;
    double limit;
} functions[] = {
    {"exp", xcvm_exp_f32, exp, -INFINITY, INFINITY, 1.2},
    {"exp_negative", xcvm_exp_negative_f32, exp, -87.3f, 88.0f, 1.2},
    {"expm1_negative", xcvm_expm1_negative_f32, expm1, -INFINITY, 0.0f, 1.0},
    {"log", xcvm_log_f32, log, -INFINITY, INFINITY, 0.9},
    {"log1p_unit", xcvm_log1p_unit_f32, log1p, 0.0f, 1.0f, 1.5},
    {"tanh", xcvm_tanh_f32, tanh, -INFINITY, INFINITY, 2.0},
    {"sigmoid", xcvm_sigmoid_f32, sigmoid, -87.3f, INFINITY, 2.5},
    {"softplus", xcvm_softplus_f32, softplus, -87.3f, INFINITY, 2.0},
    {"erf", xcvm_erf_f32, erf, -INFINITY, INFINITY, 1.3},
    {"gelu", xcvm_gelu_f32, gelu, -1.0f, INFINITY, 2.5},
    {"gelu_tail", xcvm_gelu_f32, gelu, -8.4f, -1.0f, 200.0},
    {"gelu_tanh", xcvm_gelu_tanh_f32, gelu_tanh, -4.0f, INFINITY, 40.0},
    {"mish", xcvm_mish_f32, mish, -87.0f, INFINITY, 4.0},
    {"sin", xcvm_sin_f32, sin, -XCVM_SIN_LIMIT, XCVM_SIN_LIMIT, 1.6},
    {"cos", xcvm_cos_f32, cos, -XCVM_SIN_LIMIT, XCVM_SIN_LIMIT, 1.6},
    {"tan", xcvm_tan_f32, tan, -XCVM_SIN_LIMIT, XCVM_SIN_LIMIT, 0.6},
    {"asin", xcvm_asin_f32, asin, -INFINITY, INFINITY, 1.9},
    {"acos", xcvm_acos_f32, acos, -INFINITY, INFINITY, 1.3},
    {"atan", xcvm_atan_f32, atan, -INFINITY, INFINITY, 1.3},
    {"sinh", xcvm_sinh_f32, sinh, -INFINITY, INFINITY, 0.9},
    {"cosh", xcvm_cosh_f32, cosh, -INFINITY, INFINITY, 0.6},
    {"asinh", xcvm_asinh_f32, asinh, -INFINITY, INFINITY, 0.51},
    {"acosh", xcvm_acosh_f32, acosh, -INFINITY, INFINITY, 0.51},
    {"atanh", xcvm_atanh_f32, atanh, -INFINITY, INFINITY, 0.51},
};

START_TEST(errors)
{
    check_over(functions[_i].name, functions[_i].f, functions[_i].exact, functions[_i].low, functions[_i].high,
               functions[_i].limit);
}
END_TEST

/* ---- f64, against libm in long double: as exact as the test needs where that has more digits than f64 ---- */

static long double sigmoid_long(long double x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }

static const struct {
    const char *name;
    double (*f)(double);
    long double (*exact)(long double);
    double low, high, limit;
} functions_f64[] = {
    {"exp", xcvm_exp_f64, expl, -760.0, 720.0, 1.0},
    {"tanh", xcvm_tanh_f64, tanhl, -25.0, 25.0, 2.1},
    {"sigmoid", xcvm_sigmoid_f64, sigmoid_long, -760.0, 40.0, 2.5},
    {"sin", xcvm_sin_f64, sinl, -(double)XCVM_SIN_LIMIT, (double)XCVM_SIN_LIMIT, 0.9},
    {"cos", xcvm_cos_f64, cosl, -(double)XCVM_SIN_LIMIT, (double)XCVM_SIN_LIMIT, 0.9},
};

static double ulps_f64(double y, long double exact)
{
    if (isnan(exact) || isnan(y))
        return isnan(exact) && isnan(y) ? 0.0 : INFINITY;
    if ((double)exact == y)
        return !signbit(y) == !signbit(exact) ? 0.0 : INFINITY;
    if (isinf(y) || isinf(exact))
        return INFINITY;
    int exponent;
    frexpl(fmaxl(fabsl(exact), DBL_MIN), &exponent);
    return (double)(fabsl((long double)y - exact) / ldexpl(1, exponent - DBL_MANT_DIG));
}

static void check_f64(size_t i, double x)
{
    const double y = functions_f64[i].f(x), error = ulps_f64(y, functions_f64[i].exact((long double)x));
    if (!(error <= functions_f64[i].limit))
        ck_abort_msg("%s(%.17g) = %.17g is off by %.2f ulp, %.2f are allowed", functions_f64[i].name, x, y, error,
                     functions_f64[i].limit);
}

START_TEST(errors_f64)
{
    const size_t i = (size_t)_i;
    const double low = functions_f64[i].low, high = functions_f64[i].high;
    uint64_t state = 88172645463325252u;
    for (int n = 0; n < 300000; n++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        /* Over the range, near zero, and of all magnitudes in turn. */
        const double unit = (double)(state >> 11) * 0x1p-53, all = xcvm_f64_of(state << 1);
        const double x = n % 3 == 0 ? low + (high - low) * unit : n % 3 == 1 ? 8.0 * unit - 4.0 : all;
        if (x >= low && x <= high)
            check_f64(i, x);
    }
    const double edges[] = {0.0, -0.0, NAN, 1.0, -1.0, 0x1p-1074, -0x1p-1074, low, high};
    for (size_t e = 0; e < sizeof edges / sizeof *edges; e++)
        check_f64(i, edges[e]);
    if (high < 1e5) {
        check_f64(i, INFINITY);
        check_f64(i, -INFINITY);
    }
}
END_TEST

static uint32_t scramble(uint32_t *state)
{
    const uint32_t drawn = test_random(state);
    return drawn ^ drawn >> 16;
}

START_TEST(powers)
{
    uint32_t state = 1;
    for (int i = 0; i < 1000000; i++) {
        float x = xcvm_f32_of(scramble(&state)), y = xcvm_f32_of(scramble(&state));
        /* Most floats are too far from 1 for a result inside the range. */
        if (i % 2 == 0)
            y = (float)(int32_t)scramble(&state) * 0x1p-27f;
        if (i % 8 == 2)
            y = rintf(y);
        double error = ulps(xcvm_pow_f32(x, y), pow((double)x, (double)y));
        if (!(error <= 0.52))
            ck_abort_msg("%.9g to the %.9g = %.9g is off by %.2f ulp", (double)x, (double)y, (double)xcvm_pow_f32(x, y),
                         error);
    }
}
END_TEST

START_TEST(special_powers)
{
    const float values[] = {0.0f,        -0.0f,       1.0f,       -1.0f,        2.0f, -2.0f, 3.0f,
                            0.5f,        -0.5f,       INFINITY,   -INFINITY,    NAN,  3e38f, -3e38f,
                            16777216.0f, 16777217.0f, 8388609.0f, -16777215.0f, 1e30f};
    enum { COUNT = sizeof values / sizeof *values };
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++) {
            double exact = pow((double)values[i], (double)values[j]);
            float y = xcvm_pow_f32(values[i], values[j]);
            ck_assert_msg(ulps(y, exact) <= 0.52 && (isnan(exact) || !signbit(y) == !signbit(exact)),
                          "%g to the %g = %g instead of %g", (double)values[i], (double)values[j], (double)y, exact);
        }
}
END_TEST

START_TEST(special_values)
{
    ck_assert(xcvm_exp_f32(-INFINITY) == 0.0f && isinf(xcvm_exp_f32(INFINITY)) && isnan(xcvm_exp_f32(NAN)));
    ck_assert(xcvm_exp_f32(0.0f) == 1.0f && isinf(xcvm_exp_f32(88.73f)) && isfinite(xcvm_exp_f32(88.72f)));
    ck_assert(xcvm_exp_negative_f32(-INFINITY) == 0.0f && isnan(xcvm_exp_negative_f32(NAN)));
    ck_assert(xcvm_log_f32(0.0f) == -INFINITY && xcvm_log_f32(-0.0f) == -INFINITY && isnan(xcvm_log_f32(-1.0f)));
    ck_assert(xcvm_log_f32(INFINITY) == INFINITY && xcvm_log_f32(1.0f) == 0.0f && isnan(xcvm_log_f32(NAN)));
    ck_assert(xcvm_tanh_f32(INFINITY) == 1.0f && xcvm_tanh_f32(-INFINITY) == -1.0f && isnan(xcvm_tanh_f32(NAN)));
    ck_assert(signbit(xcvm_tanh_f32(-0.0f)) && signbit(xcvm_erf_f32(-0.0f)) && signbit(xcvm_sin_f32(-0.0f)));
    ck_assert(xcvm_sigmoid_f32(-INFINITY) == 0.0f && xcvm_sigmoid_f32(INFINITY) == 1.0f &&
              isnan(xcvm_sigmoid_f32(NAN)));
    ck_assert(xcvm_softplus_f32(-INFINITY) == 0.0f && isinf(xcvm_softplus_f32(INFINITY)) &&
              isnan(xcvm_softplus_f32(NAN)));
    ck_assert(xcvm_erf_f32(INFINITY) == 1.0f && xcvm_erf_f32(-INFINITY) == -1.0f && isnan(xcvm_erf_f32(NAN)));
    ck_assert(isinf(xcvm_gelu_f32(INFINITY)) && isnan(xcvm_gelu_f32(NAN)) && xcvm_gelu_f32(-100.0f) == 0.0f);
    ck_assert(isinf(xcvm_mish_f32(INFINITY)) && isnan(xcvm_mish_f32(NAN)));
    ck_assert(xcvm_exp_f32(-104.0f) == 0.0f && xcvm_exp_f32(-103.9f) == 0x1p-149f && xcvm_exp_f32(-87.5f) > 0.0f);
    static const float lost[] = {INFINITY, -INFINITY, 1.00000012f, -1.00000012f, 3e38f};
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        ck_assert(isnan(xcvm_asin_f32(lost[i])) && isnan(xcvm_acos_f32(lost[i])) && isnan(xcvm_atanh_f32(lost[i])));
    ck_assert(xcvm_acos_f32(1.0f) == 0.0f && !signbit(xcvm_acos_f32(1.0f)) && xcvm_asin_f32(-1.0f) == -1.57079637f);
    ck_assert(xcvm_atan_f32(INFINITY) == 1.57079637f && xcvm_atan_f32(-INFINITY) == -1.57079637f);
    ck_assert(xcvm_atanh_f32(1.0f) == INFINITY && xcvm_atanh_f32(-1.0f) == -INFINITY);
    ck_assert(xcvm_sinh_f32(-INFINITY) == -INFINITY && xcvm_cosh_f32(-INFINITY) == INFINITY);
    ck_assert(isfinite(xcvm_sinh_f32(89.41f)) && isinf(xcvm_sinh_f32(89.42f)) && isinf(xcvm_cosh_f32(-89.42f)));
    ck_assert(xcvm_asinh_f32(-INFINITY) == -INFINITY && xcvm_asinh_f32(FLT_MAX) < 90.0f);
    ck_assert(xcvm_acosh_f32(1.0f) == 0.0f && isnan(xcvm_acosh_f32(0.99999994f)) && isinf(xcvm_acosh_f32(INFINITY)));
    ck_assert(xcvm_expm1_negative_f32(-INFINITY) == -1.0f && isnan(xcvm_expm1_negative_f32(NAN)));
}
END_TEST

Suite *suite_ops_math(void);
Suite *suite_ops_math(void)
{
    Suite *suite = suite_create("ops_math");
    TCase *cases = tcase_create("math");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, errors, 0, (int)(sizeof functions / sizeof *functions));
    tcase_add_loop_test(cases, errors_f64, 0, (int)(sizeof functions_f64 / sizeof *functions_f64));
    tcase_add_test(cases, powers);
    tcase_add_test(cases, special_powers);
    tcase_add_test(cases, special_values);
    suite_add_tcase(suite, cases);
    return suite;
}
