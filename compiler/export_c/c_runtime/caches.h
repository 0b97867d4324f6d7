/* Attention over key/value caches that are states, and related operations. Returns 1 if a row index is out of range, or
 * if a mask has more keys than there are and more than the cache has rows. */
#ifndef XC_CACHES_H
#define XC_CACHES_H

#include "compiler/export_c/c_runtime/rows.h"

typedef struct xc_cached {
    size_t batch, kv_heads, group, queries, width, v_width, bound, mask_keys;
    int64_t left; /* keys that a query sees before its own place; below 0: all */
    float scale, softcap;
    xc_rows mask;
    int causal, boolean;
} xc_cached;

/* Sums of 16 parts, which vectors add up. */
static float xc_dot(const float *a, const float *b, size_t count)
{
    float part[16] = {0}, sum = 0;
    const size_t whole = count / 16 * 16;
    for (size_t i = 0; i < whole; i += 16)
        for (size_t k = 0; k < 16; k++)
            part[k] += a[i + k] * b[i + k];
    for (size_t i = whole; i < count; i++)
        sum += a[i] * b[i];
    for (size_t k = 0; k < 16; k++)
        sum += part[k];
    return sum;
}

/* Applies a mask to the score of key j; `row` is the query's row of the mask. */
static float xc_masked(const xc_cached *d, const void *mask, size_t row, size_t j, float score)
{
    if (mask == NULL)
        return score;
    if (j >= d->mask_keys)
        return -INFINITY;
    if (d->boolean)
        return ((const uint8_t *)mask)[row + j] != 0 ? score : -INFINITY;
    return score + ((const float *)mask)[row + j];
}

/* Keys and values are the first before[b] rows of the caches, then k and v; `workspace` has a number for each. */
static int xc_cached_attend(const xc_cached *d, const float *q, const float *k, const float *v, const float *past_key,
                            const float *past_value, const int64_t *before, const void *mask, float *y,
                            float *workspace)
{
    const size_t rows = d->group * d->queries;
    size_t most = 0;
    for (size_t b = 0; b < d->batch; b++) {
        if (before[b] < 0 || (uint64_t)before[b] > d->bound)
            return 1;
        most = (size_t)before[b] > most ? (size_t)before[b] : most;
    }
    if (mask != NULL && d->mask_keys > most + d->queries && d->mask_keys > d->bound)
        return 1;
    for (size_t r = 0; r < d->batch * d->kv_heads * rows; r++, q += d->width, y += d->v_width) {
        const size_t unit = r / rows, b = unit / d->kv_heads, past = (size_t)before[b], place = past + r % d->queries;
        const size_t count = d->causal ? place + 1 : past + d->queries;
        const size_t begin = d->left >= 0 && (uint64_t)d->left < place ? place - (size_t)d->left : 0;
        const size_t head = unit % d->kv_heads * d->group + r % rows / d->queries;
        const size_t row = b * d->mask.batch + head * d->mask.head + r % d->queries * d->mask.row;
        float greatest = -INFINITY, sum = 0;
        for (size_t j = begin; j < count; j++) {
            const float *const key =
                j < past ? past_key + (unit * d->bound + j) * d->width : k + (unit * d->queries + j - past) * d->width;
            float score = xc_dot(q, key, d->width) * d->scale;
            if (d->softcap > 0)
                score = d->softcap * xc_tanh_f32(score / d->softcap);
            score = xc_masked(d, mask, row, j, score);
            workspace[j] = score;
            greatest = score > greatest || score != score ? score : greatest;
        }
        greatest = greatest == -INFINITY ? 0 : greatest;
        for (size_t j = begin; j < count; j++) {
            workspace[j] = xc_exp_f32(workspace[j] - greatest);
            sum += workspace[j];
        }
        for (size_t p = 0; p < d->v_width; p++)
            y[p] = 0;
        for (size_t j = begin; j < count; j++) {
            const float *const value = j < past ? past_value + (unit * d->bound + j) * d->v_width
                                                : v + (unit * d->queries + j - past) * d->v_width;
            for (size_t p = 0; p < d->v_width; p++)
                y[p] += workspace[j] * value[p];
        }
        for (size_t p = 0; p < d->v_width; p++)
            y[p] = sum == 0 ? 0 : y[p] / sum;
    }
    return 0;
}

/* Copies rows of `size` bytes of each of `outer` parts of each batch entry to the cache of `rows` rows, from at[b] on.
 * If `circular`, the end wraps around to the beginning. NULL: from 0 on. */
static int xc_cache_write(unsigned char *cache, const unsigned char *update, const int64_t *at, size_t batch,
                          size_t outer, size_t rows, size_t fresh, size_t size, int circular)
{
    for (size_t b = 0; at != NULL && b < batch; b++)
        if (at[b] < 0 || (!circular && (uint64_t)at[b] > rows - fresh))
            return 1;
    for (size_t i = 0; i < batch * outer && rows > 0; i++) {
        const size_t start = at != NULL ? (size_t)((uint64_t)at[i / outer] % rows) : 0;
        const size_t first = rows - start < fresh ? rows - start : fresh;
        memcpy(cache + (i * rows + start) * size, update + i * fresh * size, first * size);
        memcpy(cache + i * rows * size, update + (i * fresh + first) * size, (fresh - first) * size);
    }
    return 0;
}

typedef struct xc_rotation {
    size_t batch, heads, rows, width, pairs, head_step, row_step, angles;
    int64_t positions; /* rows of cos and sin */
    int interleaved;
} xc_rotation;

/* Pairs of elements turned by the angles of row position[i], or of each row's own where there are no positions. */
static int xc_rotate_value(const xc_rotation *d, const value_t *x, const value_t *cosine, const value_t *sine,
                           const int64_t *position, value_t *y)
{
    const size_t step = d->interleaved ? 2 : 1, apart = d->interleaved ? 1 : d->pairs;
    for (size_t i = 0; position != NULL && i < d->batch * d->rows; i++)
        if (position[i] < 0 || position[i] >= d->positions)
            return 1;
    for (size_t row = 0; row < d->batch * d->rows; row++)
        for (size_t head = 0; head < d->heads; head++) {
            const size_t at =
                row / d->rows * d->heads * d->rows * d->width + head * d->head_step + row % d->rows * d->row_step;
            const size_t angle = (position != NULL ? (size_t)position[row] : row) * d->angles;
            for (size_t i = 0; i < d->pairs; i++) {
                const value_t a = x[at + i * step], b = x[at + i * step + apart];
                y[at + i * step] = a * cosine[angle + i] - b * sine[angle + i];
                y[at + i * step + apart] = a * sine[angle + i] + b * cosine[angle + i];
            }
            for (size_t i = 2 * d->pairs; i < d->width; i++)
                y[at + i] = x[at + i];
        }
    return 0;
}

#endif
