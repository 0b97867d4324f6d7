/* Normalisations. Running statistics are those of PyTorch and Chainer: of the sample, where the instruction's are of
 * the population. */
#include "ops/convert.h"
#include "tape/layers/layer.h"

#include <string.h>

/* ---- By channel ---- */

/* Moves a running statistic; `moved` is what the instruction has made of it, of the batch a part of 1 - decay, which
 * `adjust` is the factor of. In place, so that all who share it see it. */
static void move(xcvm_tape *t, xcvm_var running, xcvm_var moved, double decay, double adjust)
{
    tape_variable *to = tape_resolve(t, running, "a running statistic"),
                  *from = to != NULL ? tape_resolve(t, moved, "a running statistic") : NULL;
    /* Calls that wait read what is overwritten. */
    if (from == NULL || tape_evaluate_all(t) != XCVM_OK || tape_stick(t, tape_own_elements(t, to)) != XCVM_OK)
        return;
    const xcvm_dtype dtype = (xcvm_dtype)to->value.type.dtype;
    const size_t count = xcvm_element_count(&to->value.type);
    for (size_t i = 0; i < count; i++) {
        double before, after;
        xcvm_load_f64(dtype, to->value.type.data, i, 1, &before);
        xcvm_load_f64((xcvm_dtype)from->value.type.dtype, from->value.type.data, i, 1, &after);
        after = before * decay + (after - before * decay) * adjust;
        xcvm_store_f64(dtype, to->value.type.data, i, 1, &after, false);
    }
    tape_note_overwritten(&to->value.type, t->calls++);
}

static xcvm_var call_batch(xcvm_layer *l, xcvm_var x)
{
    xcvm_tape *t = l->tape;
    const xcvm_var gamma = layer_tensor_of(l, "gamma"), beta = layer_tensor_of(l, "beta"),
                   mean = layer_tensor_of(l, "avg_mean"), var = layer_tensor_of(l, "avg_var");
    const double decay = l->settings.decay;
    if (!l->training || t->building)
        return xcvm_BatchNormalization(t, x, gamma, beta, mean, var, .epsilon = l->settings.epsilon);
    if (t->trace != NULL)
        tape_trace_refuse(t->trace, "a batch normalisation that trains moves its running statistics");
    /* The recorded call has copies: what it was given must not change. */
    const xcvm_var given[] = {mean, var};
    xcvm_var copies[2], moved[2];
    size_t channels = 0;
    for (int i = 0; i < 2; i++) {
        const tape_variable *v = t->failed ? NULL : tape_resolve(t, given[i], "a running statistic");
        if (v == NULL)
            return TAPE_FAILED;
        const xcvm_value *type = &v->value.type;
        copies[i] = xcvm_tape_constant(t, (xcvm_dtype)type->dtype, type->rank, type->dims, type->data);
        channels = xcvm_element_count(type);
    }
    const xcvm_var y = xcvm_BatchNormalization(t, x, gamma, beta, copies[0], copies[1], .epsilon = l->settings.epsilon,
                                               .momentum = decay, .training_mode = 1,
                                               .out = {.running_mean = &moved[0], .running_var = &moved[1]});
    const tape_variable *result = t->failed ? NULL : tape_resolve(t, y, "a normalised batch");
    if (result == NULL)
        return TAPE_FAILED;
    const double samples = channels > 0 ? (double)(xcvm_element_count(&result->value.type) / channels) : 0;
    move(t, mean, moved[0], decay, 1);
    move(t, var, moved[1], decay, samples > 1 ? samples / (samples - 1) : 1);
    return y;
}

static const layer_kind batch_normalization = {"batch_normalization", call_batch};

static void add_scales(xcvm_layer *l, const xcvm_layer_options *o, int64_t size)
{
    layer_add_tensor(l, "gamma", o->dtype, 1, &size, &o->weight, (xcvm_initialiser){.kind = XCVM_INIT_ONE}, true);
    layer_add_tensor(l, "beta", o->dtype, 1, &size, &o->bias, (xcvm_initialiser){.kind = XCVM_INIT_ZERO}, true);
}

xcvm_layer *xcvm_layer_batch_normalization(xcvm_tape *tape, int64_t channels, const xcvm_layer_options *options)
{
    xcvm_layer_options o;
    const xcvm_initialiser zero = {.kind = XCVM_INIT_ZERO}, one = {.kind = XCVM_INIT_ONE};
    if (!layer_read_options(tape, &o, options) || !layer_check_size(tape, "channels", channels))
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

/* ---- Over the last axis ---- */

static xcvm_var call_layer(xcvm_layer *l, xcvm_var x)
{
    return xcvm_LayerNormalization(l->tape, x, layer_tensor_of(l, "gamma"), layer_tensor_of(l, "beta"),
                                   .epsilon = l->settings.epsilon,
                                   .stash_type = l->settings.dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32);
}

static const layer_kind layer_normalization = {"layer_normalization", call_layer};

xcvm_layer *xcvm_layer_layer_normalization(xcvm_tape *tape, int64_t size, const xcvm_layer_options *options)
{
    xcvm_layer_options o;
    if (!layer_read_options(tape, &o, options) || !layer_check_size(tape, "size", size))
        return NULL;
    xcvm_layer *l = layer_make(tape, &layer_normalization);
    add_scales(l, &o, size);
    if (l != NULL) {
        l->settings.epsilon = o.epsilon != 0.0 ? o.epsilon : 1e-6;
        l->settings.dtype = o.dtype;
    }
    return layer_made(l);
}
