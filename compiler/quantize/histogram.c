/* Streaming statistics of tensors. */
#include "compiler/quantize/histogram.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { HALF = XCC_BINS / 2 };

/* ---- Streaming ---- */

/* Doubles the width of the bins. Zero is an edge between two, before and after. */
static void widen(xcc_statistics *s)
{
    uint64_t merged[XCC_BINS] = {0};
    for (int i = 0; i < XCC_BINS; i++) {
        const int from_zero = i - HALF;
        merged[(from_zero >= 0 ? from_zero / 2 : -((1 - from_zero) / 2)) + HALF] += s->bins[i];
    }
    memcpy(s->bins, merged, sizeof merged);
    s->width *= 2;
}

/* Extends the histogram to magnitudes up to `most`, which is above 0. */
static void fit(xcc_statistics *s, double most)
{
    if (s->width <= 0) {
        int exponent;
        (void)frexp(most, &exponent); /* most < 2 ** exponent */
        s->width = ldexp(1.0, exponent) / HALF;
    }
    while (most >= s->width * HALF)
        widen(s);
}

bool xcc_statistics_add(xcc_statistics *s, const float *x, size_t count, double averaging, float *bad)
{
    if (count == 0)
        return true;
    float least = x[0], greatest = x[0];
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        least = x[i] < least ? x[i] : least;
        greatest = x[i] > greatest ? x[i] : greatest;
        finite &= fabsf(x[i]) <= FLT_MAX;
    }
    if (!finite) {
        for (size_t i = 0; i < count; i++)
            if (!(fabsf(x[i]) <= FLT_MAX)) {
                *bad = x[i];
                break;
            }
        return false;
    }
    const bool first = s->count == 0;
    s->least = first ? (double)least : fmin(s->least, (double)least);
    s->greatest = first ? (double)greatest : fmax(s->greatest, (double)greatest);
    s->moving_least = first ? (double)least : s->moving_least + averaging * ((double)least - s->moving_least);
    s->moving_greatest =
        first ? (double)greatest : s->moving_greatest + averaging * ((double)greatest - s->moving_greatest);
    s->count += count;
    s->batches++;
    xcc_extremes_add(s->lows, &s->low_count, fmaxf(-least, 0));
    xcc_extremes_add(s->highs, &s->high_count, fmaxf(greatest, 0));
    const double most = fmax(fabs((double)least), fabs((double)greatest));
    if (most > 0)
        fit(s, most);
    if (s->width <= 0) {
        s->zeros += count;
        return true;
    }
    /* A power of two: the product is exact, but for subnormal widths, where the bin is the nearest in any case. */
    const double scale = 1.0 / s->width;
    uint64_t zeros = 0;
    for (size_t i = 0; i < count; i++) {
        if (x[i] == 0.0f) {
            zeros++;
            continue;
        }
        int bin = (int)floor((double)x[i] * scale) + HALF;
        bin = bin < 0 ? 0 : bin >= XCC_BINS ? XCC_BINS - 1 : bin;
        s->bins[bin]++;
    }
    s->zeros += zeros;
    return true;
}

static double clipped(double x, double low, double high) { return fmin(fmax(x, low), high); }

void xcc_statistics_clip(xcc_statistics *s, double low, double high)
{
    const double width = s->width > 0 ? s->width : 1, from = low / width + HALF, to = ceil(high / width) + HALF - 1;
    const int first = from > 0 ? (int)fmin(from, HALF) : 0, last = to < XCC_BINS ? (int)fmax(to, HALF) : XCC_BINS - 1;
    for (int i = 0; i < first; i++) {
        *(first < HALF ? &s->bins[first] : &s->zeros) += s->bins[i];
        s->bins[i] = 0;
    }
    for (int i = last + 1; i < XCC_BINS; i++) {
        s->bins[last] += s->bins[i];
        s->bins[i] = 0;
    }
    s->least = clipped(s->least, low, high);
    s->greatest = clipped(s->greatest, low, high);
    s->moving_least = clipped(s->moving_least, low, high);
    s->moving_greatest = clipped(s->moving_greatest, low, high);
    for (size_t i = 0; i < s->low_count; i++)
        s->lows[i] = (float)fmin((double)s->lows[i], -low);
    for (size_t i = 0; i < s->high_count; i++)
        s->highs[i] = (float)fmin((double)s->highs[i], high);
}

/* ---- Differences ---- */

/* The first of the greatest elements; `count` where one of them is NaN. */
static size_t greatest_at(const float *x, size_t count)
{
    size_t at = 0;
    bool ordered = true;
    for (size_t i = 0; i < count; i++) {
        at = x[i] > x[at] ? i : at;
        ordered &= !isnan(x[i]);
    }
    return ordered ? at : count;
}

void xcc_difference_add(xcc_difference *d, const float *right, const float *x, size_t count, size_t row)
{
    for (size_t i = 0; i < count; i++) {
        const double r = (double)right[i], e = (double)x[i] - r, magnitude = fabs(e);
        d->signal += r * r;
        d->noise += e * e;
        d->magnitudes += magnitude;
        d->max = magnitude > d->max || isnan(magnitude) ? magnitude : d->max;
        d->least = d->count + i == 0 || r < d->least ? r : d->least;
        d->greatest = d->count + i == 0 || r > d->greatest ? r : d->greatest;
    }
    d->count += count;
    if (row < 2)
        return;
    for (size_t i = 0; i + row <= count; i += row) {
        const size_t at = greatest_at(right + i, row);
        d->rows++;
        d->agreeing += at < row && at == greatest_at(x + i, row);
    }
}

void xcc_difference_merge(xcc_difference *d, const xcc_difference *more)
{
    if (more->count > 0) {
        d->least = d->count == 0 || more->least < d->least ? more->least : d->least;
        d->greatest = d->count == 0 || more->greatest > d->greatest ? more->greatest : d->greatest;
    }
    d->signal += more->signal;
    d->noise += more->noise;
    d->magnitudes += more->magnitudes;
    d->max = more->max > d->max || isnan(more->max) ? more->max : d->max;
    d->count += more->count;
    d->rows += more->rows;
    d->agreeing += more->agreeing;
}

double xcc_difference_sqnr(const xcc_difference *d)
{
    return d->noise > 0 ? 10 * log10(fmax(d->signal, DBL_MIN) / d->noise) : (double)INFINITY;
}
