/* Images that are resampled. */
#ifndef XC_IMAGES_H
#define XC_IMAGES_H

#include "compiler/export_c/c_runtime/numbers.h"
#include "ops/image/sampling.h"

/* One axis, of `in` positions, becomes one of `out`: each is the sum of `taps` positions times their weights. */
static void xc_resample(const float *from, float *to, size_t outer, size_t in, size_t out, size_t inner, size_t taps,
                        const int64_t *index, const float *weight)
{
    for (size_t o = 0; o < outer; o++, from += in * inner)
        for (size_t i = 0; i < out; i++, to += inner) {
            for (size_t j = 0; j < taps; j++) {
                const float *const line = from + (size_t)index[i * taps + j] * inner;
                const float by = weight[i * taps + j];
                if (j == 0)
                    for (size_t c = 0; c < inner; c++)
                        to[c] = by * line[c];
                else
                    for (size_t c = 0; c < inner; c++)
                        to[c] += by * line[c];
            }
        }
}

static void xc_to_floats_value(const value_t *from, float *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (float)from[i];
}

static void xc_from_floats_value(const float *from, value_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (value_t)from[i];
}

/* Integers are cut off, and bounded; a whole number that lost a few bits on the way stays. */
static void xc_cut_floats_value(const float *from, value_t *to, size_t count, float low, float high)
{
    for (size_t i = 0; i < count; i++) {
        const float v = from[i] + copysignf(1e-4f, from[i]);
        to[i] = (value_t)(!(v > low) ? low : v < high ? v : high);
    }
}

/* ---- Points of a grid ---- */

/* Samples of an image of `channels`: taps along an axis are 1, 2 or 4; positions outside are zero if padding is 0, at
 * the border if it is 1, else mirrored. */
typedef struct xc_grid {
    size_t batch, channels, points, axes, taps;
    int padding, corners, wide; /* corners are the outer elements' middles; coordinates are f64 */
    int64_t dims[6];
} xc_grid;

/* The elements around a coordinate from -1 to 1 along one axis, -1 for zero, and their weights. */
static void xc_grid_taps(const xc_grid *g, double coordinate, int64_t size, int64_t at[4], double weight[4])
{
    const double low = g->corners ? 0 : -0.5, high = (double)size - (g->corners ? 1 : 0.5), most = (double)(size - 1);
    const double scale = g->corners ? most : (double)size, shift = g->corners ? 0 : -1;
    double x = xcvm_grid_place(coordinate, scale, shift);
    x = g->taps == 1 ? nearbyint(x) : x;
    /* Cubic interpolation pads each of the elements around a point. */
    if (g->padding == 1 && g->taps < 4 && !(x >= low && x <= high))
        x = fmin(fmax(x, 0), most);
    if (g->padding > 1 && g->taps < 4 && (x < low || x > high))
        x = xcvm_reflect(x, low, high);
    for (size_t j = 0; j < g->taps; j++) {
        double place = floor(x) + (double)j - (g->taps == 4 ? 1 : 0);
        const double distance = place - x;
        weight[j] = g->taps == 1 ? 1 : g->taps == 2 ? 1 - fabs(distance) : xcvm_cubic(XCVM_GRID_SHARPNESS, distance);
        if (g->padding > 1 && (place < 0 || place > most))
            place = trunc(xcvm_reflect(place, low, high));
        at[j] = place >= 0 && place <= most ? (int64_t)place : g->padding == 0 ? -1 : place < 0 ? 0 : size - 1;
    }
}

static void xc_grid_sample_value(const xc_grid *g, const value_t *x, const void *grid, value_t *y)
{
    int64_t at[6][4];
    double weight[6][4];
    size_t plane = 1, all = 1;
    for (size_t d = 0; d < g->axes; d++) {
        plane *= (size_t)g->dims[d];
        all *= g->taps;
    }
    for (size_t i = 0; i < g->batch * g->points; i++) {
        const size_t image = i / g->points * g->channels;
        /* The first coordinate is that of the last axis. */
        for (size_t d = 0; d < g->axes; d++) {
            const size_t from = (i + 1) * g->axes - 1 - d;
            const float coordinate = g->wide ? (float)((const double *)grid)[from] : ((const float *)grid)[from];
            xc_grid_taps(g, (double)coordinate, g->dims[d], at[d], weight[d]);
        }
        for (size_t c = 0; c < g->channels; c++) {
            double sum = 0;
            for (size_t tap = 0; tap < all; tap++) {
                double by = 1;
                int64_t offset = 0;
                for (size_t d = 0, rest = tap; d < g->axes && offset >= 0; d++, rest /= g->taps) {
                    const size_t j = rest % g->taps;
                    by *= weight[d][j];
                    offset = at[d][j] < 0 ? -1 : offset * g->dims[d] + at[d][j];
                }
                if (offset >= 0)
                    sum += by * (double)x[(image + c) * plane + (size_t)offset];
            }
            y[(image + c) * g->points + i % g->points] = (value_t)sum;
        }
    }
}

/* ---- Regions ---- */

typedef struct xc_regions {
    size_t count, batch, channels;
    int64_t in[2], cells[2], samples; /* samples along an axis of a cell, 0: one per pixel */
    int legacy, greatest;             /* without half a pixel's shift; the greatest, not the mean */
    double scale;
} xc_regions;

/* The pixels around a place, and their weights; 0 of them outside. */
static int xc_region_taps(double place, int64_t length, int64_t at[2], double weight[2])
{
    if (!(place >= -1 && place <= (double)length))
        return 0;
    place = fmin(fmax(place, 0), (double)(length - 1));
    at[0] = (int64_t)place;
    at[1] = at[0] + 1;
    weight[1] = place - (double)at[0];
    weight[0] = 1 - weight[1];
    return 1;
}

/* One cell of one channel, `start` and `size` of rows, then columns. A pixel that weighs nothing counts as zero. */
static double xc_region_cell_value(const xc_regions *q, const value_t *x, const double start[2], const double size[2],
                                   const int64_t samples[2])
{
    double sum = 0, greatest = (double)NAN;
    if (samples[0] == 0 || samples[1] == 0)
        return 0;
    for (int64_t i = 0; i < samples[0] * samples[1]; i++) {
        const int64_t step[2] = {i / samples[1], i % samples[1]};
        int64_t at[2][2];
        double weight[2][2];
        int inside = 1;
        for (int d = 0; d < 2; d++)
            inside = xc_region_taps(start[d] + ((double)step[d] + 0.5) * size[d] / (double)samples[d], q->in[d], at[d],
                                    weight[d]) &&
                     inside;
        for (int k = 0; k < (inside ? 4 : 1); k++) {
            const double by = inside ? weight[0][k / 2] * weight[1][k % 2] : 0;
            const double v = by != 0 ? by * (double)x[at[0][k / 2] * q->in[1] + at[1][k % 2]] : 0;
            sum += v;
            greatest = v > greatest || isnan(greatest) ? v : greatest;
        }
    }
    return q->greatest ? greatest : sum / (double)(samples[0] * samples[1]);
}

/* 1 where a region is of no image. */
static int xc_roi_align_value(const xc_regions *q, const value_t *x, const value_t *rois, const int64_t *images,
                              value_t *y)
{
    const double offset = q->legacy ? 0 : 0.5;
    for (size_t r = 0; r < q->count; r++)
        if (images[r] < 0 || (uint64_t)images[r] >= q->batch)
            return 1;
    for (size_t r = 0; r < q->count; r++) {
        double begin[2], size[2];
        int64_t samples[2];
        for (int d = 0; d < 2; d++) {
            begin[d] = (double)rois[r * 4 + 1 - (size_t)d] * q->scale - offset;
            size[d] = (double)rois[r * 4 + 3 - (size_t)d] * q->scale - offset - begin[d];
            size[d] = (q->legacy ? fmax(size[d], 1) : size[d]) / (double)q->cells[d];
            samples[d] = xcvm_cell_samples(q->samples, size[d]);
        }
        for (size_t c = 0; c < q->channels; c++) {
            const value_t *const plane = x + ((size_t)images[r] * q->channels + c) * (size_t)(q->in[0] * q->in[1]);
            for (int64_t i = 0; i < q->cells[0]; i++)
                for (int64_t j = 0; j < q->cells[1]; j++) {
                    const double start[2] = {begin[0] + (double)i * size[0], begin[1] + (double)j * size[1]};
                    *y++ = (value_t)xc_region_cell_value(q, plane, start, size, samples);
                }
        }
    }
    return 0;
}

#endif
