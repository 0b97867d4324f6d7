/* Estimates how often quantization changes the greatest element of a row. */
#include "compiler/quantize/leads.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* The smallest probability that is distinguished from zero. */
#define LEAST 1e-30

void xcc_leads_clear(xcc_leads *l)
{
    l->count = l->skipped = 0;
    l->step = 1;
}

static bool are_probabilities(const float *x, size_t row)
{
    double sum = 0;
    for (size_t i = 0; i < row; i++) {
        if (!(x[i] >= 0))
            return false;
        sum += (double)x[i];
    }
    return fabs(sum - 1) < 1e-3;
}

static double score_of(float x, bool probability) { return probability ? log(fmax((double)x, LEAST)) : (double)x; }

/* The lead of element `top`, negative where another one is greater. */
static double lead_of(const float *x, size_t row, size_t top, bool probability)
{
    float next = -INFINITY;
    for (size_t i = 0; i < row; i++)
        if (i != top && x[i] > next)
            next = x[i];
    return score_of(x[top], probability) - score_of(next, probability);
}

/* Makes space by dropping every second row. */
static void thin_out(xcc_leads *l)
{
    for (size_t i = 0; i < XCC_LEADS / 2; i++) {
        l->leads[i] = l->leads[2 * i];
        l->losses[i] = l->losses[2 * i];
    }
    l->count = XCC_LEADS / 2;
    l->step *= 2;
}

void xcc_leads_add(xcc_leads *l, const float *right, const float *x, size_t count, size_t row)
{
    for (size_t at = 0; at + row <= count; at += row) {
        const float *r = right + at, *y = x + at;
        size_t top = 0;
        bool ordered = true;
        if (++l->skipped < l->step)
            continue;
        l->skipped = 0;
        for (size_t i = 0; i < row; i++) {
            top = r[i] > r[top] ? i : top;
            ordered = ordered && !isnan(r[i]) && !isnan(y[i]);
        }
        if (!ordered)
            continue;
        const bool probability = are_probabilities(r, row) && are_probabilities(y, row);
        const double lead = lead_of(r, row, top, probability), loss = lead - lead_of(y, row, top, probability);
        if (isnan(lead) || isnan(loss))
            continue;
        if (l->count == XCC_LEADS)
            thin_out(l);
        l->leads[l->count] = (float)lead;
        l->losses[l->count++] = (float)loss;
    }
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double xcc_leads_agreement(xcc_leads *l)
{
    double kept = 0;
    if (l->count == 0)
        return (double)NAN;
    qsort(l->losses, l->count, sizeof *l->losses, by_size);
    for (size_t i = 0; i < l->count; i++) {
        /* Losses that do not exceed the lead. */
        size_t low = 0, high = l->count;
        while (low < high) {
            const size_t middle = low + (high - low) / 2;
            if (l->losses[middle] <= l->leads[i])
                low = middle + 1;
            else
                high = middle;
        }
        kept += (double)low / (double)l->count;
    }
    return kept / (double)l->count;
}
