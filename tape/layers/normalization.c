/* Normalization layers. Running variances are those of the sample, as in PyTorch and Chainer; the instruction's are
 * of the population. */
#include "tape/layers/layers.h"

/* ---- Batch normalization ---- */

/* Updates a running statistic in place, so that shared layers see it. The instruction has moved it by (1 - decay)
 * times the batch statistic, which must still be multiplied by `adjust`. So the result is multiplied by it, and the
 * excess of the old statistic is subtracted. Half precision is computed in f32 and rounded once. */
static void update_statistic(xcvm_tape *t, xcvm_dtype dtype, xcvm_var running, xcvm_var moved, double decay,
                             double adjust)
{
    if (adjust == 1.0) {
        xcvm_Identity(t, moved, .into = running);
        return;
    }
    const bool half = dtype != XCVM_F32 && dtype != XCVM_F64;
    const xcvm_dtype in = half ? XCVM_F32 : dtype;
    const xcvm_var before = half ? xcvm_Cast(t, running, .to = in) : running,
                   scaled = xcvm_Mul(t, half ? xcvm_Cast(t, moved, .to = in) : moved, xcvm_tape_scalar(t, in, adjust)),
                   excess = xcvm_Mul(t, before, xcvm_tape_scalar(t, in, decay * (adjust - 1)));
    if (half)
        xcvm_Cast(t, xcvm_Sub(t, scaled, excess), .to = dtype, .into = running);
    else
        xcvm_Sub(t, scaled, excess, .into = running);
}

static xcvm_var call_batch(xcvm_layer *l, xcvm_var x)
{
    xcvm_tape *t = l->tape;
    const xcvm_var gamma = layer_find_tensor(l, "gamma"), beta = layer_find_tensor(l, "beta"),
                   mean = layer_find_tensor(l, "avg_mean"), var = layer_find_tensor(l, "avg_var");
    const double decay = l->settings.decay;
    if (!l->training || t->mode->builds)
        return xcvm_BatchNormalization(t, x, gamma, beta, mean, var, .epsilon = l->settings.epsilon);
    const tape_variable *statistics[] = {t->failed ? NULL : tape_resolve(t, mean, "a running statistic"),
                                         t->failed ? NULL : tape_resolve(t, var, "a running statistic")};
    xcvm_var moved[2];
    const xcvm_var y =
        xcvm_BatchNormalization(t, x, gamma, beta, mean, var, .epsilon = l->settings.epsilon, .momentum = decay,
                                .training_mode = 1, .out = {.running_mean = &moved[0], .running_var = &moved[1]});
    const tape_variable *result = t->failed ? NULL : tape_resolve(t, y, "a normalized batch");
    if (result == NULL)
        return TAPE_FAILED;
    const size_t channels = xcvm_element_count(&statistics[1]->value.type);
    const double samples = channels > 0 ? (double)(xcvm_element_count(&result->value.type) / channels) : 0;
    const xcvm_dtype dtype = (xcvm_dtype)statistics[1]->value.type.dtype;
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    const bool recording = xcvm_tape_set_recording(t, false);
    update_statistic(t, dtype, mean, moved[0], decay, 1);
    update_statistic(t, dtype, var, moved[1], decay, samples > 1 ? samples / (samples - 1) : 1);
    xcvm_tape_set_recording(t, recording);
    xcvm_tape_scope_end(t, scope, 0, NULL);
    return y;
}

static const layer_kind batch_normalization = {"batch_normalization", call_batch, 0};

static void add_scales(xcvm_layer *l, const xcvm_layer_options *o, int64_t size)
{
    layer_add_tensor(l, "gamma", o->dtype, 1, &size, &o->weight, (xcvm_initializer){.kind = XCVM_INIT_ONE}, true);
    layer_add_tensor(l, "beta", o->dtype, 1, &size, &o->bias, (xcvm_initializer){.kind = XCVM_INIT_ZERO}, true);
}

xcvm_layer *xcvm_layer_create_batch_normalization(xcvm_tape *tape, int64_t channels, const xcvm_layer_options *options)
{
    xcvm_layer_options o;
    const xcvm_initializer zero = {.kind = XCVM_INIT_ZERO}, one = {.kind = XCVM_INIT_ONE};
    if (!TAPE_ENTER(tape, xcvm_layer_create_batch_normalization) || !layer_read_options(tape, &o, options) ||
        !layer_check_size(tape, "channels", channels))
        return NULL;
    xcvm_layer *l = layer_make(tape, &batch_normalization);
    add_scales(l, &o, channels);
    layer_add_tensor(l, "avg_mean", o.dtype, 1, &channels, NULL, zero, false);
    layer_add_tensor(l, "avg_var", o.dtype, 1, &channels, NULL, one, false);
    layer_add_tensor(l, "N", XCVM_I64, 0, NULL, NULL, zero, false);
    if (l != NULL) {
        l->settings.epsilon = o.epsilon != 0.0 ? o.epsilon : 2e-5;
        l->settings.decay = o.decay != 0.0 ? o.decay : 0.9;
    }
    return layer_made(l);
}

/* ---- Layer normalization ---- */

static xcvm_var call_layer(xcvm_layer *l, xcvm_var x)
{
    return xcvm_LayerNormalization(l->tape, x, layer_find_tensor(l, "gamma"), layer_find_tensor(l, "beta"),
                                   .epsilon = l->settings.epsilon,
                                   .stash_type = l->settings.dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32);
}

static const layer_kind layer_normalization = {"layer_normalization", call_layer, 0};

xcvm_layer *xcvm_layer_create_layer_normalization(xcvm_tape *tape, int64_t size, const xcvm_layer_options *options)
{
    xcvm_layer_options o;
    if (!TAPE_ENTER(tape, xcvm_layer_create_layer_normalization) || !layer_read_options(tape, &o, options) ||
        !layer_check_size(tape, "size", size))
        return NULL;
    xcvm_layer *l = layer_make(tape, &layer_normalization);
    add_scales(l, &o, size);
    if (l != NULL) {
        l->settings.epsilon = o.epsilon != 0.0 ? o.epsilon : 1e-6;
        l->settings.dtype = o.dtype;
    }
    return layer_made(l);
}
