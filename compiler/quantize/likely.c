/* Tails: what lies beyond what was seen. */
#include "compiler/quantize/likely.h"

#include <math.h>

enum {
    TAIL = 8,      /* one in so many batches belongs to the tail */
    LEAST_TAIL = 4 /* batches that tell a tail */
};
/* Of as many further batches so many go beyond, in the mean: none does in nine cases of ten. */
#define BEYOND 0.1
/* Of a tail that falls no slower than those of activations do: a few batches that are far out tell little. */
#define MOST_EXPONENT 0.5
/* Standard deviations of a normal distribution below which one case in ten lies. */
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

double xcc_likely_extreme(const float extremes[XCC_EXTREMES], size_t count, size_t batches)
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

double xcc_likely_error(const float extremes[XCC_EXTREMES], size_t count, size_t batches)
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

double xcc_likely_agreement(double sum, double squares, size_t batches)
{
    if (batches == 0)
        return (double)NAN;
    const double count = (double)batches, mean = sum / count;
    /* Both means, this one and that of as many further batches, are off by chance. */
    const double variance = batches > 1 ? fmax(squares - sum * mean, 0) / (count - 1) / count * 2 : 0;
    return fmax(mean - DEVIATIONS * sqrt(variance), 0);
}
