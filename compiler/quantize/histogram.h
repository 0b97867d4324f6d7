/* Streaming statistics of a tensor's elements, in constant memory. */
#ifndef XCVM_COMPILER_QUANTIZE_HISTOGRAM_H
#define XCVM_COMPILER_QUANTIZE_HISTOGRAM_H

#include "compiler/quantize/tail_estimate.h"

#include "xcvm/quantize.h"

/* Bins of a histogram, half of them below zero. */
enum { XCC_BINS = 8192 };

/* A histogram around zero. The bin width is a power of two. It doubles, by merging pairs of bins, if an element is
 * outside. So the counts do not depend on the order of elements. Zeros are counted separately. */
typedef struct xcc_statistics {
    double least, greatest;
    double moving_least, moving_greatest;
    double width; /* width of a bin; 0: only zeros so far */
    uint64_t count, zeros;
    uint64_t batches;
    float lows[XCC_EXTREMES], highs[XCC_EXTREMES]; /* greatest magnitudes of batches below and above zero */
    size_t low_count, high_count;
    uint64_t bins[XCC_BINS]; /* bin i is [i - XCC_BINS / 2, i + 1 - XCC_BINS / 2) times the width */
} xcc_statistics;

/* Adds a batch. If an element is NaN or infinite, stores it in *bad, counts nothing and returns false. */
bool xcc_statistics_add(xcc_statistics *s, const float *x, size_t count, double averaging, float *bad);

/* Clips all elements to [low, high], which includes 0. */
void xcc_statistics_clip(xcc_statistics *s, double low, double high);

/* Computes the range by a method; only XCC_RANGE_TAIL exceeds the observed range. `symmetric`: low is -high. `levels`:
 * number of integer levels. */
void xcc_statistics_range(const xcc_statistics *s, xcc_range_method method, double percentile, int levels,
                          bool symmetric, double *low, double *high);

/* Accumulated differences of a tensor. */
typedef struct xcc_difference {
    uint64_t count;
    double signal, noise; /* sums of squares of the float values and of the differences */
    double magnitudes, max;
    double least, greatest; /* of the float values */
    uint64_t rows, agreeing;
} xcc_difference;
/* Adds elements. `row`: elements per row, to compare the greatest elements of rows; below 2: no rows. A row with NaN
 * never agrees. */
void xcc_difference_add(xcc_difference *d, const float *right, const float *x, size_t count, size_t row);
/* Adds other accumulated differences. */
void xcc_difference_merge(xcc_difference *d, const xcc_difference *more);
/* Signal-to-noise ratio in dB; infinite without noise. */
double xcc_difference_sqnr(const xcc_difference *d);

#endif
