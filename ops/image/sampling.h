/* Formulas of sampling between elements, in plain C99, because exported C includes them. */
#ifndef XCVM_OPS_IMAGE_SAMPLING_H
#define XCVM_OPS_IMAGE_SAMPLING_H

#include <math.h>
#include <stdint.h>

/* Parameter a of Keys' kernel in GridSample. Source: ONNX, GridSample. */
#define XCVM_GRID_SHARPNESS (-0.75)

/* Keys' cubic convolution kernel (IEEE TASSP 29(6), 1981) at distance x. */
static inline double xcvm_cubic(double a, double x)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/* Reflects x at low and high until it is between them. */
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

/* Maps a grid coordinate in [-1, 1] to element positions. `scale` and `shift` encode the size and align_corners. The
 * result is bounded so that it fits an integer; NaN maps far below. */
static inline double xcvm_grid_place(double coordinate, double scale, double shift)
{
    const double x = ((coordinate + 1) * scale + shift) / 2;
    return x > 1e9 ? 1e9 : x >= -1e9 ? x : -1e9;
}

/* Maximum samples of a region's cell on an axis. */
enum { XCVM_MOST_SAMPLES = 4096 };
/* The requested number of samples or, for 0, one per pixel of the cell. */
static inline int64_t xcvm_cell_samples(int64_t asked, double cell)
{
    return asked > 0 ? asked : (int64_t)fmin(fmax(ceil(cell), 0), XCVM_MOST_SAMPLES);
}

#endif
