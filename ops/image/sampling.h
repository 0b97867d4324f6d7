/* Formulas of sampling between elements; plain C99, which exported C contains. */
#ifndef XCVM_OPS_IMAGE_SAMPLING_H
#define XCVM_OPS_IMAGE_SAMPLING_H

#include <math.h>

/* Keys' cubic convolution kernel (IEEE TASSP 29(6), 1981) at distance x. */
static inline double xcvm_cubic(double a, double x)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/* x, mirrored at low and high until it lies between them. */
static inline double xcvm_reflect(double x, double low, double high)
{
    const double range = high - low;
    if (range <= 0)
        return low;
    const double beyond = x < low ? low - x : x > high ? x - high : -1;
    if (beyond < 0)
        return x;
    const double times = floor(beyond / range), rest = beyond - times * range;
    return (fmod(times, 2) == 0) == (x < low) ? low + rest : high - rest;
}

#endif
