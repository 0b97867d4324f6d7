/* Scores of attention become weights. */
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

/* The scores of keys [first, first + count) that a row of a mask for `keys` keys hides become -infinity, and so do
 * those of keys behind its last. */
static inline void xcvm_attention_hide(const uint8_t *mask, size_t keys, size_t first, size_t count, float *score)
{
    const size_t there = keys > first ? xcvm_min(keys - first, count) : 0;
    XCVM_INDEPENDENT
    for (size_t j = 0; j < there; j++)
        score[j] = mask[first + j] != 0 ? score[j] : -INFINITY;
    for (size_t j = there; j < count; j++)
        score[j] = -INFINITY;
}

/* The same with a mask of numbers, which are added. */
static inline void xcvm_attention_bias(const float *mask, size_t keys, size_t first, size_t count, float *score)
{
    const size_t there = keys > first ? xcvm_min(keys - first, count) : 0;
    XCVM_INDEPENDENT
    for (size_t j = 0; j < there; j++)
        score[j] += mask[first + j];
    for (size_t j = there; j < count; j++)
        score[j] = -INFINITY;
}

/* score[j] = e to the (score[j] - base), count a multiple of XCVM_LANES; returns the sum. */
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
