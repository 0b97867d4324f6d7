/* Operations on rows: softmax, normalizations, attention. */
#ifndef XC_ROWS_H
#define XC_ROWS_H

#include "compiler/export_c/c_runtime/numbers.h"
#include "compiler/export_c/c_runtime/workspace.h"

/* Sums of 16 parts, which vectors add up. */
static value_t xc_sum_value(const value_t *x, size_t count)
{
    value_t part[16] = {0}, sum = 0;
    const size_t whole = count / 16 * 16;
    for (size_t i = 0; i < whole; i += 16)
        for (size_t k = 0; k < 16; k++)
            part[k] += x[i + k];
    for (size_t i = whole; i < count; i++)
        sum += x[i];
    for (size_t k = 0; k < 16; k++)
        sum += part[k];
    return sum;
}

/* The sum of squares of x less `mean`. */
static value_t xc_sum_squares_value(const value_t *x, size_t count, value_t mean)
{
    value_t part[16] = {0}, sum = 0;
    const size_t whole = count / 16 * 16;
    for (size_t i = 0; i < whole; i += 16)
        for (size_t k = 0; k < 16; k++)
            part[k] += (x[i + k] - mean) * (x[i + k] - mean);
    for (size_t i = whole; i < count; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    for (size_t k = 0; k < 16; k++)
        sum += part[k];
    return sum;
}

static value_t xc_greatest_value(const value_t *x, size_t count, size_t step)
{
    value_t greatest = x[0];
    for (size_t i = 1; i < count; i++)
        greatest = x[i * step] > greatest || x[i * step] != x[i * step] ? x[i * step] : greatest;
    return greatest;
}

/* kind 0: softmax, 1: its logarithm, 2: 1 at the first greatest element and 0 elsewhere. */
static void xc_softmax_value(const value_t *x, value_t *y, size_t outer, size_t count, size_t inner, int kind)
{
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            const value_t *const from = x + o * count * inner + i;
            value_t *const to = y + o * count * inner + i;
            const value_t greatest = count > 0 ? xc_greatest_value(from, count, inner) : 0;
            value_t sum = 0;
            if (kind == 0 && inner == 1) {
                XCVM_INDEPENDENT
                for (size_t k = 0; k < count; k++)
                    to[k] = xc_exp_value(from[k] - greatest);
                sum = xc_sum_value(to, count);
                for (size_t k = 0; k < count; k++)
                    to[k] /= sum;
            } else if (kind == 0) {
                for (size_t k = 0; k < count; k++)
                    sum += to[k * inner] = xc_exp_value(from[k * inner] - greatest);
                for (size_t k = 0; k < count; k++)
                    to[k * inner] /= sum;
            } else if (kind == 1) {
                for (size_t k = 0; k < count; k++)
                    sum += xc_exp_value(from[k * inner] - greatest);
                for (size_t k = 0; k < count; k++)
                    to[k * inner] = from[k * inner] - greatest - xc_log_value(sum);
            } else {
                int found = 0;
                for (size_t k = 0; k < count; k++) {
                    const int is = !found && (from[k * inner] == greatest || from[k * inner] != from[k * inner]);
                    found = found || is;
                    to[k * inner] = (value_t)is;
                }
            }
        }
}

/* Rows minus their mean (unless `root`), divided by their deviation, then times `scale` plus `b`. Element i of these
 * belongs to `count / scale_count` elements of the row, or to those of row % rows_a_turn. NULL: none. */
static void xc_normalize_value(const value_t *x, value_t *y, const value_t *scale, const value_t *b, value_t *means,
                               value_t *deviations, size_t rows, size_t count, value_t epsilon, int root)
{
    for (size_t r = 0; r < rows; r++, x += count, y += count) {
        const value_t mean = root ? 0 : xc_sum_value(x, count) / (value_t)count;
        const value_t square = xc_sum_squares_value(x, count, mean) / (value_t)count;
        const value_t factor = 1 / xc_sqrt_value(square + epsilon);
        if (means != NULL)
            means[r] = mean;
        if (deviations != NULL)
            deviations[r] = factor;
        for (size_t i = 0; i < count; i++)
            y[i] = (x[i] - mean) * factor;
        if (scale != NULL)
            for (size_t i = 0; i < count; i++)
                y[i] *= scale[i];
        if (b != NULL)
            for (size_t i = 0; i < count; i++)
                y[i] += b[i];
    }
}

/* Each of `groups` groups of channels by itself. */
static void xc_normalize_groups_value(const value_t *x, value_t *y, const value_t *scale, const value_t *b,
                                      size_t batch, size_t channels, size_t groups, size_t plane, value_t epsilon)
{
    const size_t count = channels / groups * plane;
    for (size_t r = 0; r < batch * groups; r++, x += count, y += count) {
        const value_t mean = xc_sum_value(x, count) / (value_t)count;
        const value_t factor = 1 / xc_sqrt_value(xc_sum_squares_value(x, count, mean) / (value_t)count + epsilon);
        for (size_t c = 0; c < channels / groups; c++) {
            const size_t channel = r % groups * (channels / groups) + c;
            for (size_t i = c * plane; i < (c + 1) * plane; i++)
                y[i] = (x[i] - mean) * factor * scale[channel] + b[channel];
        }
    }
}

static void xc_batch_norm_value(const value_t *x, value_t *y, const value_t *scale, const value_t *b,
                                const value_t *mean, const value_t *variance, size_t batch, size_t channels,
                                size_t plane, value_t epsilon)
{
    for (size_t n = 0; n < batch * channels; n++) {
        const size_t c = n % channels;
        const value_t factor = scale[c] / xc_sqrt_value(variance[c] + epsilon), shift = b[c] - mean[c] * factor;
        for (size_t i = n * plane; i < (n + 1) * plane; i++)
            y[i] = x[i] * factor + shift;
    }
}

static void xc_lp_normalize_value(const value_t *x, value_t *y, size_t outer, size_t count, size_t inner, int p)
{
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            const size_t at = o * count * inner + i;
            value_t norm = 0;
            for (size_t k = 0; k < count; k++) {
                const value_t v = x[at + k * inner];
                norm += p == 2 ? v * v : v < 0 ? -v : v;
            }
            norm = p == 2 ? xc_sqrt_value(norm) : norm;
            for (size_t k = 0; k < count; k++)
                y[at + k * inner] = norm == 0 ? 0 : x[at + k * inner] / norm;
        }
}

static void xc_lrn_value(const value_t *x, value_t *y, size_t batch, ptrdiff_t channels, size_t plane, ptrdiff_t size,
                         value_t alpha, value_t beta, value_t bias)
{
    for (size_t n = 0; n < batch; n++)
        for (ptrdiff_t c = 0; c < channels; c++) {
            const ptrdiff_t begin = c - (size - 1) / 2, end = c + size / 2 + 1;
            for (size_t i = 0; i < plane; i++) {
                value_t sum = 0;
                for (ptrdiff_t k = begin < 0 ? 0 : begin; k < (end < channels ? end : channels); k++) {
                    const value_t v = x[(n * (size_t)channels + (size_t)k) * plane + i];
                    sum += v * v;
                }
                const size_t at = (n * (size_t)channels + (size_t)c) * plane + i;
                y[at] = x[at] / xc_pow_value(bias + alpha / (value_t)size * sum, beta);
            }
        }
}

/* ---- Attention ---- */

/* Row r of head h of batch entry b begins at b * batch + h * head + r * row. */
typedef struct xc_rows {
    size_t batch, head, row;
} xc_rows;

typedef struct xc_attention {
    size_t batch, heads, group, queries, keys, width, v_width, mask_keys;
    xc_rows q, k, v, y, mask;
    double scale, softcap;
    int64_t left, right, place; /* number of keys that a query attends to before and after its own position; below 0:
                                 * all */
    int causal, nan_rows, boolean;
} xc_attention;

/* Keys come transposed, so that scores are sums of rows. Of the keys of batch entry b the first nonpad[b] count, all if
 * it is NULL; where the place of query 0 is below 0, the queries are the last of those. */
static void xc_attend_value(const xc_attention *d, const value_t *q, const value_t *k, const value_t *v,
                            const void *mask, const int64_t *nonpad, value_t *y, value_t *workspace)
{
    value_t *const score = workspace + xc_attend_workspace_of(d->keys, d->width).scores;
    for (size_t b = 0; b < d->batch; b++)
        for (size_t h = 0; h < d->heads; h++) {
            const value_t *const keys = k + b * d->k.batch + h / d->group * d->k.head;
            const value_t *const values = v + b * d->v.batch + h / d->group * d->v.head;
            for (size_t j = 0; j < d->keys; j++)
                for (size_t p = 0; p < d->width; p++)
                    workspace[p * d->keys + j] = keys[j * d->k.row + p];
            for (size_t i = 0; i < d->queries; i++) {
                const value_t *const query = q + b * d->q.batch + h * d->q.head + i * d->q.row;
                value_t *const to = y + b * d->y.batch + h * d->y.head + i * d->y.row;
                const int64_t first = d->place >= 0 || nonpad == NULL ? d->place : nonpad[b] - (int64_t)d->queries;
                const int64_t place = first + (int64_t)i;
                int64_t begin = d->left >= 0 && place > d->left ? place - d->left : 0;
                int64_t end = nonpad != NULL ? nonpad[b] : (int64_t)d->keys;
                const size_t at = b * d->mask.batch + h * d->mask.head + i * d->mask.row;
                value_t sum = 0;
                end = d->causal && place + 1 < end ? place + 1 : end;
                end = d->right >= 0 && place + d->right + 1 < end ? place + d->right + 1 : end;
                begin = begin < end ? begin : end;
                for (size_t j = 0; j < d->keys; j++)
                    score[j] = 0;
                for (size_t p = 0; p < d->width; p++) {
                    const value_t factor = query[p] * (value_t)d->scale, *const row = workspace + p * d->keys;
                    for (size_t j = 0; j < d->keys; j++)
                        score[j] += factor * row[j];
                }
                for (size_t j = 0; j < d->keys; j++) {
                    if (d->softcap > 0)
                        score[j] = (value_t)d->softcap * xc_tanh_value(score[j] / (value_t)d->softcap);
                    if ((int64_t)j < begin || (int64_t)j >= end || (mask != NULL && j >= d->mask_keys))
                        score[j] = -(value_t)INFINITY;
                    else if (mask != NULL && d->boolean)
                        score[j] = ((const uint8_t *)mask)[at + j] != 0 ? score[j] : -(value_t)INFINITY;
                    else if (mask != NULL)
                        score[j] += ((const value_t *)mask)[at + j];
                }
                const value_t greatest = d->keys > 0 ? xc_greatest_value(score, d->keys, 1) : 0;
                const value_t base = greatest == -(value_t)INFINITY ? 0 : greatest;
                XCVM_INDEPENDENT
                for (size_t j = 0; j < d->keys; j++)
                    score[j] = xc_exp_value(score[j] - base);
                sum = xc_sum_value(score, d->keys);
                for (size_t p = 0; p < d->v_width; p++)
                    to[p] = 0;
                for (size_t j = 0; j < d->keys; j++) {
                    const value_t factor = score[j], *const row = values + j * d->v.row;
                    if (factor != 0)
                        for (size_t p = 0; p < d->v_width; p++)
                            to[p] += factor * row[p];
                }
                for (size_t p = 0; p < d->v_width; p++)
                    to[p] = sum == 0 ? (d->nan_rows ? (value_t)NAN : 0) : to[p] / sum;
            }
        }
}

#endif
