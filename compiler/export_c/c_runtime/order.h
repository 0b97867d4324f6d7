/* Operations along an axis of `count` elements, which are `inner` apart, for each of `outer` parts. */
#ifndef XC_ORDER_H
#define XC_ORDER_H

#include "compiler/export_c/c_runtime/products.h"

static void xc_arg_greatest_value(const value_t *x, int64_t *y, size_t outer, size_t count, size_t inner, int least,
                                  int last)
{
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            const value_t *const from = x + o * count * inner + i;
            size_t best = 0;
            for (size_t k = 1; k < count; k++) {
                const value_t v = from[k * inner], b = from[best * inner];
                const int better = (least ? v < b : v > b) || (xc_is_nan_value(v) && !xc_is_nan_value(b));
                best = better || (last && (v == b || (xc_is_nan_value(v) && xc_is_nan_value(b)))) ? k : best;
            }
            y[o * inner + i] = (int64_t)best;
        }
}

static void xc_cumulate_value(const value_t *x, value_t *y, size_t outer, size_t count, size_t inner, int exclusive,
                              int reverse, int product)
{
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            value_t sum = (value_t)product;
            for (size_t k = 0; k < count; k++) {
                const size_t at = (o * count + (reverse ? count - 1 - k : k)) * inner + i;
                const value_t before = sum, v = x[at];
                sum = product ? xc_multiply_add_value(0, sum, v) : xc_multiply_add_value(sum, 1, v);
                y[at] = exclusive ? before : sum;
            }
        }
}

/* Returns true if element i precedes element k in the order. NaN is greater than any number. */
static int xc_before_value(const value_t *x, size_t inner, size_t i, size_t k, int largest)
{
    const value_t u = x[i * inner], v = x[k * inner];
    const int greater = u > v || (xc_is_nan_value(u) && !xc_is_nan_value(v)),
              less = u < v || (xc_is_nan_value(v) && !xc_is_nan_value(u));
    return greater || less ? (largest ? greater : less) : i < k;
}

/* The k first in descending order, or ascending unless `largest`; equal ones by index. */
static void xc_top_value(const value_t *x, value_t *values, int64_t *indices, size_t outer, size_t count, size_t inner,
                         size_t k, int largest)
{
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            const value_t *const from = x + o * count * inner + i;
            size_t previous = count;
            for (size_t j = 0; j < k; j++) {
                size_t best = count;
                for (size_t at = 0; at < count; at++) {
                    const int behind = previous == count || xc_before_value(from, inner, previous, at, largest);
                    if (behind && (previous == count || at != previous) &&
                        (best == count || xc_before_value(from, inner, at, best, largest)))
                        best = at;
                }
                if (best == count)
                    return;
                if (values != NULL)
                    values[(o * k + j) * inner + i] = from[best * inner];
                if (indices != NULL)
                    indices[(o * k + j) * inner + i] = (int64_t)best;
                previous = best;
            }
        }
}

#endif
