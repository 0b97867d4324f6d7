/* Activations of rows of f32, with the formulas of element-wise instructions. */
#include "ops/elementwise/simd/activation_rows.h"
#include "ops/simd/lanes_math.h"
#include "ops/simd/math.h"

#define ROW(expression)                                                                                                \
    for (size_t i = 0; i < count; i++) {                                                                               \
        const float v = x[i];                                                                                          \
        x[i] = (expression);                                                                                           \
    }                                                                                                                  \
    break

/* Vectorized; the last vector is padded, so that all elements use the same code. */
#define LANES(expression)                                                                                              \
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

XCVM_INLINE xcvm_lanes hard_swish(xcvm_lanes v)
{
    const xcvm_lanes share = v * (1.0f / 6.0f) + 0.5f;
    return v * xcvm_lanes_min(xcvm_lanes_max(share, xcvm_lanes_all(0.0f)), xcvm_lanes_all(1.0f));
}

/* HardSwish with scale and shift in one pass: frequent after the convolutions of small mobile networks. */
static void scaled_hard_swish(float scale, float shift, float *x, size_t count)
{
    do {
        LANES(hard_swish(v) * scale + shift);
    } while (false);
}

static void activate(const xcvm_activation *f, float *x, size_t count)
{
    const float alpha = f->alpha, beta = f->beta;
    switch (f->kind) {
    case XCVM_ACTIVATION_LeakyRelu:
        ROW(v < 0.0f ? alpha * v : v);
    case XCVM_ACTIVATION_Sigmoid: {
        LANES(xcvm_lanes_sigmoid(v));
    }
    case XCVM_ACTIVATION_Tanh:
        ROW(xcvm_tanh_f32(v));
    case XCVM_ACTIVATION_HardSigmoid:
        ROW(xcvm_clamp_f32(alpha * v + beta, 0.0f, 1.0f));
    case XCVM_ACTIVATION_HardSwish: {
        LANES(hard_swish(v));
    }
    case XCVM_ACTIVATION_Swish: {
        LANES(xcvm_lanes_swish(v, alpha));
    }
    case XCVM_ACTIVATION_Gelu:
        if (alpha != 0.0f) {
            LANES(xcvm_lanes_gelu_tanh(v));
        }
        ROW(xcvm_gelu_f32(v));
    default:
        break;
    }
}

void xcvm_activate_row(const xcvm_activation *f, float *x, size_t count)
{
    const float scale = f->scale, shift = f->shift;
    if (f->affine && f->kind == XCVM_ACTIVATION_HardSwish) {
        scaled_hard_swish(scale, shift, x, count);
        return;
    }
    activate(f, x, count);
    for (size_t i = 0; f->affine && i < count; i++)
        x[i] = x[i] * scale + shift;
}
