/* Scales and zero points. */
#include "compiler/quantize/quantize.h"

#include <float.h>
#include <math.h>

void xcc_quant_limits(xcvm_dtype dtype, int32_t *least, int32_t *greatest)
{
    const int bits = xcvm_dtype_bits(dtype);
    const bool has_sign = dtype == XCVM_I8 || dtype == XCVM_I16 || dtype == XCVM_I4;
    *least = has_sign ? -(1 << (bits - 1)) : 0;
    *greatest = has_sign ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
}

void xcc_quant_scale(double low, double high, xcvm_dtype dtype, bool symmetric, float *scale, int32_t *zero_point)
{
    int32_t least, greatest;
    xcc_quant_limits(dtype, &least, &greatest);
    low = fmin(low, 0);
    high = fmax(high, 0);
    const int32_t middle = (int32_t)(((int64_t)least + greatest + 1) / 2);
    if (symmetric) {
        low = -fmax(-low, high);
        high = -low;
    }
    /* Symmetric ranges have the same magnitude on both sides, so the smallest integer is not used. */
    const double steps = symmetric ? 2.0 * (greatest - middle) : (double)greatest - least;
    double s = (high - low) / steps;
    if (!(s > 0)) {
        *scale = 1;
        *zero_point = symmetric ? middle : least;
        return;
    }
    /* Division by a subnormal scale might give infinities. */
    s = fmin(fmax(s, (double)FLT_MIN), (double)FLT_MAX);
    *scale = (float)s;
    *zero_point = symmetric ? middle : (int32_t)fmin(fmax(rint(least - low / s), least), greatest);
}
