/* Ranges: the interval of a tensor's elements that integers represent. */
#include "compiler/quantize/histogram.h"

#include <math.h>

enum { HALF = XCC_BINS / 2 };

/* One half of a histogram, from zero on, or both halves folded together. Zeros are not in it: they have no error. */
typedef struct half {
    double width;
    uint64_t count;
    uint64_t bins[HALF];
} half;

static void take_half(const xcc_statistics *s, bool above, bool below, half *h)
{
    h->width = s->width;
    h->count = 0;
    for (int i = 0; i < HALF; i++) {
        h->bins[i] = (above ? s->bins[HALF + i] : 0) + (below ? s->bins[HALF - 1 - i] : 0);
        h->count += h->bins[i];
    }
}

/* ---- Percentile ---- */

/* The bin edge that all but `outside` elements are below. */
static double edge_of(const half *h, double outside)
{
    double above = 0;
    int i = HALF;
    while (i > 0 && above + (double)h->bins[i - 1] <= outside)
        above += (double)h->bins[--i];
    return h->width * i;
}

/* ---- Mean squared error ---- */

/* Errors of rounding cancel in sums of products. What is cut off does not: it has one sign, and comes where elements
 * side by side are large, so its squares count for more. Measured on networks of convolutions, where 4 to 16 serve
 * alike.
 */
#define CLIPPING_WEIGHT 8

/* The cost of clipping at `edge`: the sum of the squares of the excess. */
static double clipping(const half *h, double edge)
{
    double sum = 0;
    for (int i = (int)fmin(edge / h->width, HALF); i < HALF; i++) {
        const double over = ((double)i + 0.5) * h->width - edge;
        if (over > 0)
            sum += over * over * (double)h->bins[i];
    }
    return CLIPPING_WEIGHT * sum;
}

/* Candidates are multiples of a hundredth of the largest magnitude. Rounding to multiples of d costs d * d / 12 per
 * element. */
enum { STEPS = 100 };

static void least_squares(const half *below, const half *above, double least, double greatest, int levels,
                          bool symmetric, double *low, double *high)
{
    double cost_below[STEPS + 1], cost_above[STEPS + 1], best = INFINITY;
    const double rounded = (double)(below->count + above->count) / 12;
    for (int i = 0; i <= STEPS; i++) {
        cost_below[i] = clipping(below, -least * i / STEPS);
        cost_above[i] = clipping(above, greatest * i / STEPS);
    }
    if (symmetric) {
        const double most = fmax(-least, greatest);
        for (int i = STEPS; i > 0; i--) {
            const double edge = most * i / STEPS, step = 2 * edge / (levels - 2);
            const double cost = clipping(below, edge) + clipping(above, edge) + rounded * step * step;
            if (cost < best) {
                best = cost;
                *high = edge;
                *low = -edge;
            }
        }
        return;
    }
    for (int i = STEPS; i >= (least < 0 ? 1 : STEPS); i--)
        for (int k = STEPS; k >= (greatest > 0 ? 1 : STEPS); k--) {
            const double from = least * i / STEPS, to = greatest * k / STEPS, step = (to - from) / (levels - 1);
            const double cost = cost_below[i] + cost_above[k] + rounded * step * step;
            if (cost < best) {
                best = cost;
                *low = from;
                *high = to;
            }
        }
}

/* ---- Entropy ---- */

/* The divergence between the histogram, with the tail in the last of `bins` bins, and its quantization to `levels`. As
 * in NVIDIA's "8-bit Inference with TensorRT" (2017). */
static double divergence(const uint64_t *at, int bins, double outside, int levels)
{
    double total = outside, quantized = 0, sum = 0;
    for (int i = 0; i < bins; i++) {
        total += (double)at[i];
        quantized += (double)at[i];
    }
    if (!(quantized > 0))
        return INFINITY;
    for (int level = 0; level < levels; level++) {
        const int from = (int)((int64_t)level * bins / levels), to = (int)((int64_t)(level + 1) * bins / levels);
        double mass = 0;
        int filled = 0;
        for (int i = from; i < to; i++) {
            mass += (double)at[i];
            filled += at[i] > 0 || (i == bins - 1 && outside > 0);
        }
        if (filled == 0)
            continue;
        for (int i = from; i < to; i++) {
            const double p = ((double)at[i] + (i == bins - 1 ? outside : 0)) / total;
            if (!(p > 0))
                continue;
            const double share = mass / filled / quantized;
            /* Mass of a bin that is empty after quantization: the bin of an outlier counts as a tenth of an element. */
            sum += p * log(p / (share > 0 ? share : 0.1 / total));
        }
    }
    return sum;
}

static double least_divergence(half *h, double most, int levels)
{
    enum { COARSE = 2048 }; /* bins that thresholds are looked for among */
    /* The histogram ends at a power of two. Bins after the largest element are ignored. */
    const int used = (int)fmin(ceil(most / h->width), HALF), merge = (used + COARSE - 1) / COARSE;
    uint64_t at[COARSE] = {0};
    int bins = 0;
    for (int i = 0; i < used; i++) {
        at[i / merge] += h->bins[i];
        bins = i / merge + 1;
    }
    double best = INFINITY, threshold = most, outside = 0;
    if (bins <= levels)
        return most;
    for (int i = bins; i >= levels; i--) {
        const double cost = divergence(at, i, outside, levels);
        if (cost < best) {
            best = cost;
            threshold = fmin(h->width * merge * i, most);
        }
        outside += (double)at[i - 1];
    }
    return threshold;
}

/* ---- The range ---- */

static void widen_to_both_signs(double *low, double *high)
{
    *high = fmax(-*low, *high);
    *low = -*high;
}

void xcc_statistics_range(const xcc_statistics *s, xcc_range_method method, double percentile, int levels,
                          bool symmetric, double *low, double *high)
{
    const double least = fmin(s->least, 0), greatest = fmax(s->greatest, 0), most = fmax(-least, greatest);
    half below, above, both;
    *low = symmetric ? -most : least;
    *high = symmetric ? most : greatest;
    if (s->count == 0 || !(most > 0) || s->width <= 0)
        return;
    take_half(s, false, true, &below);
    take_half(s, true, false, &above);
    take_half(s, true, true, &both);
    switch (method) {
    case XCC_RANGE_MOVING:
        *low = fmin(s->moving_least, 0);
        *high = fmax(s->moving_greatest, 0);
        if (symmetric)
            widen_to_both_signs(low, high);
        break;
    case XCC_RANGE_PERCENTILE: {
        const double outside = (double)s->count * (100 - percentile) / 100;
        *high = symmetric ? edge_of(&both, outside) : edge_of(&above, outside / 2);
        *low = symmetric ? -*high : 0 - edge_of(&below, outside / 2);
        break;
    }
    case XCC_RANGE_ENTROPY: {
        /* If elements have both signs, half of the levels represent magnitudes. */
        const int positive = symmetric || least < 0 ? levels / 2 : levels;
        const double edge = least_divergence(&both, most, positive < 2048 ? positive : 2048);
        *low = -edge;
        *high = edge;
        break;
    }
    case XCC_RANGE_DEFAULT:
    case XCC_RANGE_MSE:
        least_squares(&below, &above, least, greatest, levels, symmetric, low, high);
        break;
    case XCC_RANGE_TAIL:
        *low = -xcc_tail_extreme(s->lows, s->low_count, (size_t)s->batches);
        *high = xcc_tail_extreme(s->highs, s->high_count, (size_t)s->batches);
        if (symmetric)
            widen_to_both_signs(low, high);
        return;
    case XCC_RANGE_MINMAX:
        break;
    }
    if (!symmetric) {
        *low = fmax(*low, least);
        *high = fmin(*high, greatest);
    } else {
        *high = fmin(*high, most);
        *low = -*high;
    }
    /* A share, or an average, may leave nothing: then it is all that there is. */
    if (!(*high - *low > 0)) {
        *low = symmetric ? -most : least;
        *high = symmetric ? most : greatest;
    }
}
