/* Estimates of extremes beyond measured values. */
#include "compiler/quantize/tail_estimate.h"

#include <math.h>

enum {
    TAIL = 8,      /* the tail is this fraction of the batches */
    LEAST_TAIL = 4 /* minimum number of batches in a tail */
};
/* Mean number of exceedances by as many further batches: none in nine of ten cases. */
#define BEYOND 0.1
/* Limit of Hill's exponent, because a few outlying batches say little about the tail. */
#define MOST_EXPONENT 0.5
/* One in ten cases of a normal distribution is that many standard deviations below the mean. */
#define DEVIATIONS 1.2816

void xcc_extremes_add(float extremes[XCC_EXTREMES], size_t *count, float magnitude)
{
    size_t at = *count;
    if (at < XCC_EXTREMES)
        (*count)++;
    else if (!(magnitude > extremes[--at]))
        return;
    for (; at > 0 && extremes[at - 1] < magnitude; at--)
        extremes[at] = extremes[at - 1];
    extremes[at] = magnitude;
}

static size_t tail_of(size_t batches, size_t most)
{
    const size_t tail = batches / TAIL;
    return tail < LEAST_TAIL ? 0 : tail < most ? tail : most;
}

double xcc_tail_extreme(const float extremes[XCC_EXTREMES], size_t count, size_t batches)
{
    const size_t tail = tail_of(batches, count);
    const double greatest = count > 0 ? (double)extremes[0] : 0;
    if (tail < LEAST_TAIL || !(extremes[tail - 1] > 0))
        return greatest;
    double exponent = 0;
    for (size_t i = 0; i + 1 < tail; i++)
        exponent += log((double)extremes[i] / (double)extremes[tail - 1]) / (double)(tail - 1);
    return fmax(greatest, (double)extremes[tail - 1] * pow((double)tail / BEYOND, fmin(exponent, MOST_EXPONENT)));
}

double xcc_tail_error(const float extremes[XCC_EXTREMES], size_t count, size_t batches)
{
    const size_t tail = tail_of(batches, count);
    const double greatest = count > 0 ? (double)extremes[0] : 0;
    if (tail < LEAST_TAIL || !isfinite(greatest))
        return greatest;
    const double threshold = (double)extremes[tail - 1];
    double excess = 0;
    for (size_t i = 0; i + 1 < tail; i++)
        excess += ((double)extremes[i] - threshold) / (double)(tail - 1);
    return fmax(greatest, threshold + excess * log((double)tail / BEYOND));
}

double xcc_tail_agreement(double sum, double squares, size_t batches)
{
    if (batches == 0)
        return (double)NAN;
    const double count = (double)batches, mean = sum / count;
    /* The means of these and of the further batches both vary. */
    const double variance = batches > 1 ? fmax(squares - sum * mean, 0) / (count - 1) / count * 2 : 0;
    return fmax(mean - DEVIATIONS * sqrt(variance), 0);
}
