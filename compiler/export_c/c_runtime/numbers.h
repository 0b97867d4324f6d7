/* Numbers: what functions of any element type are made of, and conversions. */
#ifndef XC_NUMBERS_H
#define XC_NUMBERS_H

#include "ops/simd/math.h"

#include <stddef.h>

/* The element type of functions whose names end in _value: the exporter writes one for each type that is used. */
typedef float value_t;

static inline float xc_exp_f32(float v) { return xcvm_exp_f32(v); }
static inline double xc_exp_f64(double v) { return exp(v); }
static inline float xc_log_f32(float v) { return xcvm_log_f32(v); }
static inline double xc_log_f64(double v) { return log(v); }
static inline float xc_sqrt_f32(float v) { return sqrtf(v); }
static inline double xc_sqrt_f64(double v) { return sqrt(v); }
/* The name of this function in optimizer steps. */
static inline float xcvm_root_f32(float v) { return sqrtf(v); }
static inline double xcvm_root_f64(double v) { return sqrt(v); }
static inline float xc_pow_f32(float u, float v) { return xcvm_pow_f32(u, v); }
static inline double xc_pow_f64(double u, double v) { return pow(u, v); }
static inline float xc_tanh_f32(float v) { return xcvm_tanh_f32(v); }
static inline double xc_tanh_f64(double v) { return tanh(v); }
static inline float xc_sigmoid_f32(float v) { return xcvm_sigmoid_f32(v); }
static inline double xc_sigmoid_f64(double v) { return 1.0 / (1.0 + exp(-v)); }

static inline float xc_multiply_add_f32(float sum, float u, float v) { return sum + u * v; }
static inline double xc_multiply_add_f64(double sum, double u, double v) { return sum + u * v; }
/* Integers wrap around. */
static inline value_t xc_multiply_add_value(value_t sum, value_t u, value_t v)
{
    return (value_t)((uint64_t)sum + (uint64_t)u * (uint64_t)v);
}

/* Integers have no NaN. */
static inline int xc_is_nan_f32(float v) { return v != v; }
static inline int xc_is_nan_f64(double v) { return v != v; }
static inline int xc_is_nan_value(value_t v) { return 0 * (v > 0); }

/* Cut off towards zero; the lowest number where that is out of range. */
static inline int64_t xc_i64_of(double v)
{
    return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? (int64_t)v : INT64_MIN;
}
static inline int32_t xc_i32_of(double v) { return v > -2147483649.0 && v < 2147483648.0 ? (int32_t)v : INT32_MIN; }
static inline uint64_t xc_u64_of(double v)
{
    return v >= 9223372036854775808.0 && v < 18446744073709551616.0 ? (uint64_t)v : (uint64_t)xc_i64_of(v);
}

#endif
