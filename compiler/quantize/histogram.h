/* What is kept of a tensor's elements while they stream by: memory does not depend on how many there are. */
#ifndef XCVM_COMPILER_QUANTIZE_HISTOGRAM_H
#define XCVM_COMPILER_QUANTIZE_HISTOGRAM_H

#include "compiler/quantize/likely.h"

#include "xcvm/quantize.h"

/* Bins of a histogram, half of them below zero. */
enum { XCC_BINS = 8192 };

/* A histogram around zero whose bins grow: their width is a power of two, and doubles, by adding up pairs of bins, when
 * an element lies outside. So the counts do not depend on the order in which elements come. Zeros are counted apart. */
typedef struct xcc_statistics {
    double least, greatest;
    double moving_least, moving_greatest;
    double width; /* of a bin; 0: nothing but zeros so far */
    uint64_t count, zeros;
    uint64_t batches;
    float lows[XCC_EXTREMES], highs[XCC_EXTREMES]; /* the greatest magnitudes of batches, on either side of zero */
    size_t low_count, high_count;
    uint64_t bins[XCC_BINS]; /* bin i is [i - XCC_BINS / 2, i + 1 - XCC_BINS / 2) times the width */
} xcc_statistics;

/* Adds a batch; false, and nothing is counted, if an element is NaN or infinite, which *bad is then set to. */
bool xcc_statistics_add(xcc_statistics *s, const float *x, size_t count, double averaging, float *bad);

/* Takes all elements below `low`, which is at most 0, for `low`, and those above `high` for that. */
void xcc_statistics_clip(xcc_statistics *s, double low, double high);

/* The range that a method takes, within what was seen but for XCC_RANGE_TAIL. `symmetric`: low is -high. `levels`: of
 * the integer type. */
void xcc_statistics_range(const xcc_statistics *s, xcc_range_method method, double percentile, int levels,
                          bool symmetric, double *low, double *high);

/* How far a tensor is off, summed up. */
typedef struct xcc_difference {
    uint64_t count;
    double signal, noise; /* sums of squares, of what is right and of the differences */
    double magnitudes, max;
    double least, greatest; /* of what is right */
    uint64_t rows, agreeing;
} xcc_difference;
/* `row`: elements of a row, whose greatest elements are compared; below 2: they are not. A row with NaN agrees
 * with none. */
void xcc_difference_add(xcc_difference *d, const float *right, const float *x, size_t count, size_t row);
/* Adds what was summed up apart. */
void xcc_difference_merge(xcc_difference *d, const xcc_difference *more);
/* Signal to noise in dB; infinite if there is no noise. */
double xcc_difference_sqnr(const xcc_difference *d);

#endif
