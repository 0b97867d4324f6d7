/* e to the elements of a line, less its greatest. */
#ifndef XCVM_OPS_VECTOR_EXP_LINE_H
#define XCVM_OPS_VECTOR_EXP_LINE_H

#include "ops/vector/folds.h"
#include "ops/vector/math.h"

/* y[i] = e to the (x[i] - greatest) for x[i] <= greatest, whose sum is returned; y may be x. */
static inline double xcvm_exp_line(const float *x, size_t count, float greatest, float *y)
{
    enum { LANES = 16, BLOCK = 1024 };
    double sum = 0.0;
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? count - at : BLOCK, full = n & ~(size_t)(LANES - 1);
        const float *from = x + at;
        float *to = y + at;
        XCVM_INDEPENDENT
        for (size_t i = 0; i < full; i++)
            to[i] = xcvm_exp_negative_f32(from[i] - greatest);
        if (full < n) {
            /* Padded, so that all elements go through the same vector code. */
            float rest[LANES];
            for (size_t i = 0; i < LANES; i++)
                rest[i] = full + i < n ? from[full + i] - greatest : 0.0f;
            for (size_t i = 0; i < LANES; i++)
                rest[i] = xcvm_exp_negative_f32(rest[i]);
            for (size_t i = full; i < n; i++)
                to[i] = rest[i - full];
        }
        sum += xcvm_fold_sum(xcvm_lanes_same, to, n);
    }
    return sum;
}

#endif
