/* Formulas of sampling between elements; plain C99, which exported C contains. */
#ifndef XCVM_OPS_IMAGE_SAMPLING_H
#define XCVM_OPS_IMAGE_SAMPLING_H

#include <math.h>
#include <stdint.h>

/* The number a of Keys' kernel that GridSample has. Source: ONNX, GridSample. */
#define XCVM_GRID_SHARPNESS (-0.75)

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

/* Where a coordinate of a grid, from -1 to 1, lies among elements: `scale` and `shift` say how many there are and where
 * the outer ones are. It is bounded, so that an integer holds it; NaN lies far below. */
static inline double xcvm_grid_place(double coordinate, double scale, double shift)
{
    const double x = ((coordinate + 1) * scale + shift) / 2;
    return x > 1e9 ? 1e9 : x >= -1e9 ? x : -1e9;
}

/* Samples along an axis of a cell of a region, at most. */
enum { XCVM_MOST_SAMPLES = 4096 };
/* As many as are asked for or, for 0, one for each pixel that the cell has. */
static inline int64_t xcvm_cell_samples(int64_t asked, double cell)
{
    return asked > 0 ? asked : (int64_t)fmin(fmax(ceil(cell), 0), XCVM_MOST_SAMPLES);
}

#endif
