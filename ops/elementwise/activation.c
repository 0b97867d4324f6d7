/* Parameters of activations that are fused into another instruction. */
#include "ops/elementwise/activation.h"

#include <math.h>

static float parameter(xcvm_floats params, size_t index, float otherwise)
{
    return index < params.count ? (float)params.at[index] : otherwise;
}

xcvm_activation xcvm_activation_of(int choice, xcvm_floats params)
{
    xcvm_activation f = {.kind = choice, .low = -INFINITY, .high = INFINITY};
    switch (choice) {
    case XCVM_ACTIVATION_Relu:
        f.kind = XCVM_ACTIVATION_none;
        f.low = 0.0f;
        break;
    case XCVM_ACTIVATION_Clip:
        f.kind = XCVM_ACTIVATION_none;
        f.low = parameter(params, 0, -INFINITY);
        f.high = parameter(params, 1, INFINITY);
        break;
    case XCVM_ACTIVATION_LeakyRelu:
        f.alpha = parameter(params, 0, 0.01f);
        break;
    case XCVM_ACTIVATION_HardSigmoid:
        f.alpha = parameter(params, 0, 0.2f);
        f.beta = parameter(params, 1, 0.5f);
        break;
    case XCVM_ACTIVATION_Swish:
        f.alpha = parameter(params, 0, 1.0f);
        break;
    case XCVM_ACTIVATION_Gelu:
        f.alpha = parameter(params, 0, 0.0f);
        break;
    default:
        break;
    }
    return f;
}

xcvm_activation xcvm_activation_affine(int choice, xcvm_floats params, xcvm_floats affine)
{
    xcvm_activation f = xcvm_activation_of(choice, params);
    if (affine.count == 0)
        return f;
    f.affine = true;
    f.scale = (float)affine.at[0];
    f.shift = (float)affine.at[1];
    /* Stores clamp by themselves and leave other kinds to later code. */
    f.kind = f.kind == XCVM_ACTIVATION_none ? XCVM_ACTIVATION_Clip : f.kind;
    return f;
}

xcvm_status xcvm_affine_check(xcvm_error *error, xcvm_floats affine)
{
    XCVM_CHECK(error, affine.count == 0 || affine.count == 2, INVALID_ARGUMENT,
               "affine has the wrong number of entries (%zu; expected 2, a scale and a shift, or none)", affine.count);
    return XCVM_OK;
}

xcvm_status xcvm_activation_check(xcvm_error *error, int choice, xcvm_floats params)
{
    static const size_t most[XCVM_ACTIVATION_COUNT] = {
        [XCVM_ACTIVATION_Clip] = 2,  [XCVM_ACTIVATION_LeakyRelu] = 1, [XCVM_ACTIVATION_HardSigmoid] = 2,
        [XCVM_ACTIVATION_Swish] = 1, [XCVM_ACTIVATION_Gelu] = 1,
    };
    XCVM_CHECK(error, choice >= 0 && choice < XCVM_ACTIVATION_COUNT, INVALID_ARGUMENT, "there is no activation %d",
               choice);
    XCVM_CHECK(error, params.count <= most[choice], INVALID_ARGUMENT,
               "activation_params has %zu numbers, the activation takes up to %zu", params.count, most[choice]);
    return XCVM_OK;
}

static double clamp(double x, double low, double high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

static double activate(const xcvm_activation *f, double x)
{
    switch (f->kind) {
    case XCVM_ACTIVATION_LeakyRelu:
        return x < 0.0 ? (double)f->alpha * x : x;
    case XCVM_ACTIVATION_Sigmoid:
        return 1.0 / (1.0 + exp(-x));
    case XCVM_ACTIVATION_Tanh:
        return tanh(x);
    case XCVM_ACTIVATION_HardSigmoid:
        return clamp((double)f->alpha * x + (double)f->beta, 0.0, 1.0);
    case XCVM_ACTIVATION_HardSwish:
        return x * clamp(x / 6.0 + 0.5, 0.0, 1.0);
    case XCVM_ACTIVATION_Swish:
        return x / (1.0 + exp(-(double)f->alpha * x));
    case XCVM_ACTIVATION_Gelu:
        if (f->alpha != 0.0f)
            return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
        return 0.5 * x * (1.0 + erf(x * 0.7071067811865476));
    default:
        return clamp(x, (double)f->low, (double)f->high);
    }
}

double xcvm_activate_f64(const xcvm_activation *f, double x)
{
    const double y = activate(f, x);
    return f->affine ? y * (double)f->scale + (double)f->shift : y;
}
