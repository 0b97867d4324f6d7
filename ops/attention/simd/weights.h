/* Conversion of attention scores to weights. */
#ifndef XCVM_OPS_ATTENTION_SIMD_WEIGHTS_H
#define XCVM_OPS_ATTENTION_SIMD_WEIGHTS_H

#include "ops/simd/math.h"
#include "ops/simd/reductions.h"

/* score[j] = limit * tanh(score[j] / limit). */
static inline void xcvm_attention_cap(float *score, size_t count, float limit)
{
    const float inverse = 1.0f / limit;
    XCVM_INDEPENDENT
    for (size_t j = 0; j < count; j++)
        score[j] = limit * xcvm_tanh_f32(score[j] * inverse);
}

/* Masks scores of `count` keys, starting with key `first`. The mask has `keys` keys and its row begins at element
 * `row`. Hidden keys, and keys after its last, become -infinity; an f32 mask is added. `score` does not overlap the
 * mask. */
static inline void xcvm_attention_mask(xcvm_dtype dtype, const void *mask, size_t row, size_t keys, size_t first,
                                       size_t count, float *score)
{
    const size_t there = keys > first ? xcvm_min(keys - first, count) : 0;
    if (there > 0 && dtype == XCVM_BOOL) {
        const uint8_t *sees = (const uint8_t *)mask + row + first;
        XCVM_INDEPENDENT
        for (size_t j = 0; j < there; j++)
            score[j] = sees[j] != 0 ? score[j] : -INFINITY;
    } else if (there > 0) {
        const float *bias = (const float *)mask + row + first;
        XCVM_INDEPENDENT
        for (size_t j = 0; j < there; j++)
            score[j] += bias[j];
    }
    for (size_t j = there; j < count; j++)
        score[j] = -INFINITY;
}

/* score[j] = exp(score[j] - base), with `count` a multiple of XCVM_LANES. Returns the sum. */
static inline float xcvm_attention_weigh(float *score, size_t count, float base)
{
    XCVM_INDEPENDENT
    for (size_t j = 0; j < count; j++)
        score[j] = xcvm_exp_negative_f32(score[j] - base);
    xcvm_lanes sum[2] = {{0}, {0}};
    size_t j = 0;
    for (; j + 2 * XCVM_LANES <= count; j += 2 * XCVM_LANES) {
        sum[0] += xcvm_lanes_load(score + j);
        sum[1] += xcvm_lanes_load(score + j + XCVM_LANES);
    }
    if (j < count)
        sum[0] += xcvm_lanes_load(score + j);
    return xcvm_lanes_reduce(xcvm_lanes_plus, sum[0] + sum[1]);
}

static inline float xcvm_attention_greatest(const float *score, size_t count)
{
    const xcvm_lanes none = xcvm_lanes_all(-INFINITY);
    xcvm_lanes most[2] = {none, none};
    size_t j = 0;
    for (; j + 2 * XCVM_LANES <= count; j += 2 * XCVM_LANES) {
        most[0] = xcvm_lanes_max(xcvm_lanes_load(score + j), most[0]);
        most[1] = xcvm_lanes_max(xcvm_lanes_load(score + j + XCVM_LANES), most[1]);
    }
    if (j < count)
        most[0] = xcvm_lanes_max(xcvm_lanes_load(score + j), most[0]);
    return xcvm_lanes_reduce(xcvm_lanes_max, xcvm_lanes_max(most[1], most[0]));
}

#endif
