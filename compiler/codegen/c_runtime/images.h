/* Images that are resampled. */
#ifndef XC_IMAGES_H
#define XC_IMAGES_H

#include "compiler/codegen/c_runtime/numbers.h"

/* One axis, of `in` positions, becomes one of `out`: each is the sum of `taps` positions times their weights. */
static void xc_resample(const float *from, float *to, size_t outer, size_t in, size_t out, size_t inner, size_t taps,
                        const int64_t *index, const float *weight)
{
    for (size_t o = 0; o < outer; o++, from += in * inner)
        for (size_t i = 0; i < out; i++, to += inner) {
            for (size_t j = 0; j < taps; j++) {
                const float *const line = from + (size_t)index[i * taps + j] * inner;
                const float by = weight[i * taps + j];
                if (j == 0)
                    for (size_t c = 0; c < inner; c++)
                        to[c] = by * line[c];
                else
                    for (size_t c = 0; c < inner; c++)
                        to[c] += by * line[c];
            }
        }
}

static void xc_to_floats_value(const value_t *from, float *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (float)from[i];
}

static void xc_from_floats_value(const float *from, value_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (value_t)from[i];
}

/* Integers are cut off, and bounded; a whole number that lost a few bits on the way stays. */
static void xc_cut_floats_value(const float *from, value_t *to, size_t count, float low, float high)
{
    for (size_t i = 0; i < count; i++) {
        const float v = from[i] + copysignf(1e-4f, from[i]);
        to[i] = (value_t)(!(v > low) ? low : v < high ? v : high);
    }
}

#endif
