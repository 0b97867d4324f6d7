/* Activations over a row of f32, for the stores of products and convolutions. */
#ifndef XCVM_OPS_VECTOR_ACTIVATION_H
#define XCVM_OPS_VECTOR_ACTIVATION_H

#include "ops/activation.h"
#include "ops/vector/lanes_math.h"
#include "ops/vector/math.h"

static inline float xcvm_clamp_f32(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

#define XCVM_ACTIVATE_ROW(expression)                                                                                  \
    for (size_t i = 0; i < count; i++) {                                                                               \
        const float v = x[i];                                                                                          \
        x[i] = (expression);                                                                                           \
    }                                                                                                                  \
    break

/* The same by vectors; the last one is padded, so that all elements go through the same code. */
#define XCVM_ACTIVATE_LANES(expression)                                                                                \
    size_t i = 0;                                                                                                      \
    for (; i + XCVM_LANES <= count; i += XCVM_LANES) {                                                                 \
        const xcvm_lanes v = xcvm_lanes_load(x + i);                                                                   \
        xcvm_lanes_store(x + i, (expression));                                                                         \
    }                                                                                                                  \
    if (i < count) {                                                                                                   \
        float rest[XCVM_LANES] = {0};                                                                                  \
        memcpy(rest, x + i, (count - i) * sizeof *x);                                                                  \
        const xcvm_lanes v = xcvm_lanes_load(rest);                                                                    \
        xcvm_lanes_store(rest, (expression));                                                                          \
        memcpy(x + i, rest, (count - i) * sizeof *x);                                                                  \
    }                                                                                                                  \
    break

/* x[i] = f(x[i]), the clamping between f->low and f->high left out: the stores do that for themselves. */
static inline void xcvm_activate_row(const xcvm_activation *f, float *x, size_t count)
{
    const float alpha = f->alpha, beta = f->beta;
    switch (f->kind) {
    case XCVM_ACTIVATION_LeakyRelu:
        XCVM_ACTIVATE_ROW(v < 0.0f ? alpha * v : v);
    case XCVM_ACTIVATION_Sigmoid: {
        XCVM_ACTIVATE_LANES(xcvm_lanes_sigmoid(v));
    }
    case XCVM_ACTIVATION_Tanh:
        XCVM_ACTIVATE_ROW(xcvm_tanh_f32(v));
    case XCVM_ACTIVATION_HardSigmoid:
        XCVM_ACTIVATE_ROW(xcvm_clamp_f32(alpha * v + beta, 0.0f, 1.0f));
    case XCVM_ACTIVATION_HardSwish:
        XCVM_ACTIVATE_ROW(v * xcvm_clamp_f32(v * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f));
    case XCVM_ACTIVATION_Swish: {
        XCVM_ACTIVATE_LANES(xcvm_lanes_swish(v, alpha));
    }
    case XCVM_ACTIVATION_Gelu:
        if (alpha != 0.0f) {
            XCVM_ACTIVATE_LANES(xcvm_lanes_gelu_tanh(v));
        }
        XCVM_ACTIVATE_ROW(xcvm_gelu_f32(v));
    default:
        break;
    }
}

#undef XCVM_ACTIVATE_ROW
#undef XCVM_ACTIVATE_LANES

#endif
