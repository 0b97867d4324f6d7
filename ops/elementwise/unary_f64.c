/* Element-wise instructions in f64 with libm, compiled once. */
#include "ops/elementwise/unary_generic.h"

#include "ops/simd/math_f64.h"

static double sign_of(double v) { return isnan(v) ? v : (double)((v > 0.0) - (v < 0.0)); }
static double sigmoid_of(double v)
{
    double e = exp(-fabs(v));
    return (v < 0.0 ? e : 1.0) / (1.0 + e);
}
static double softplus_of(double v) { return (v < 0.0 ? 0.0 : v) + log1p(exp(-fabs(v))); }
static double gelu_of(double v) { return 0.5 * v * erfc(-v * 0.70710678118654752440); }
static double gelu_tanh_of(double v)
{
    return 0.5 * v * (1.0 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
}

#define LOOP_SCALAR(Name, formula)                                                                                     \
    void xcvm_unary_f64_##Name(const double *x, double *y, size_t count, const double *p)                              \
    {                                                                                                                  \
        const double alpha = p[0], beta = p[1];                                                                        \
        (void)alpha, (void)beta;                                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const double v = x[i];                                                                                     \
            y[i] = (formula);                                                                                          \
        }                                                                                                              \
    }
#define LOOP_EACH(Name, formula)
#define LOOP_FUNCTION(Name, function)
#define LOOP_PERIODIC(Name, function, general)
#define LOOP(Name, kernel, grain, f32, f64, integers) XCVM_BY_KIND(LOOP_, Name, XCVM_TAKEN_##f64)
XCVM_UNARY_FORMULAS(LOOP)
