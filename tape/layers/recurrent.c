/* Recurrent layers, which keep a state between calls. */
#include "ops/util/convert.h"
#include "tape/layers/layers.h"

/* 1 - x */
static xcvm_var complement(xcvm_layer *l, xcvm_var x)
{
    return xcvm_Sub(l->tape, xcvm_tape_scalar(l->tape, l->settings.dtype, 1), x);
}

/* ---- LSTM ---- */

static xcvm_var call_lstm(xcvm_layer *l, xcvm_var x)
{
    xcvm_tape *t = l->tape;
    const xcvm_var h_before = layer_state(l, 0), c_before = layer_state(l, 1);
    const bool begun = h_before.at != NULL;
    xcvm_var c, sums = layer_call_child(l, "upward", x);
    if (begun)
        sums = xcvm_Add(t, sums, layer_call_child(l, "lateral", h_before));
    const xcvm_var h =
        xcvm_LSTMCell(t, sums, {&c_before, begun ? 1 : 0}, .layout = XCVM_LSTM_LAYOUT_chainer, .out.c = &c);
    layer_set_state(l, 0, h);
    layer_set_state(l, 1, c);
    return t->failed ? TAPE_FAILED : h;
}

static const layer_kind lstm = {"lstm", call_lstm, 2};

/* The bias of the forget gate, the third of four per unit, starts with 1. */
static void open_forget_gates(xcvm_layer *l, int64_t out)
{
    xcvm_tape *t = l->tape;
    const double one = 1;
    tape_variable *b =
        tape_is_unusable(t) ? NULL : tape_resolve_optional(t, xcvm_layer_get_parameter(l, "upward/b"), "a bias");
    const xcvm_value *type = b != NULL ? tape_variable_type(b) : NULL;
    for (size_t i = 0; type != NULL && type->data != NULL && i < (size_t)out; i++)
        xcvm_store_f64((xcvm_dtype)type->dtype, type->data, 4 * i + 2, 1, &one, false);
}

xcvm_layer *xcvm_layer_create_lstm(xcvm_tape *tape, int64_t in, int64_t out, const xcvm_layer_options *options)
{
    xcvm_layer_options o, lateral;
    if (!TAPE_ENTER(tape, xcvm_layer_create_lstm) || !layer_read_options(tape, &o, options) ||
        !layer_check_size(tape, "in", in) || !layer_check_size(tape, "out", out))
        return NULL;
    if (out > INT64_MAX / 4) {
        tape_fail(tape, XCVM_OUT_OF_RANGE, "an LSTM of %lld units is too large", (long long)out);
        return NULL;
    }
    xcvm_layer *l = layer_make(tape, &lstm);
    if (l == NULL)
        return NULL;
    lateral = o;
    lateral.no_bias = true;
    l->settings.dtype = o.dtype;
    l->settings.size = out;
    xcvm_layer_add(l, "upward", xcvm_layer_create_linear(tape, in, 4 * out, &o));
    xcvm_layer_add(l, "lateral", xcvm_layer_create_linear(tape, out, 4 * out, &lateral));
    if (o.bias.kind == XCVM_INIT_DEFAULT && !o.no_bias)
        open_forget_gates(l, out);
    return layer_made(l);
}

/* ---- GRU ---- */

static xcvm_var call_gru(xcvm_layer *l, xcvm_var x)
{
    xcvm_tape *t = l->tape;
    const xcvm_var before = layer_state(l, 0);
    xcvm_var z = layer_call_child(l, "W_z", x), h = layer_call_child(l, "W", x);
    if (before.at != NULL) {
        const xcvm_var r =
            xcvm_Sigmoid(t, xcvm_Add(t, layer_call_child(l, "W_r", x), layer_call_child(l, "U_r", before)));
        z = xcvm_Add(t, z, layer_call_child(l, "U_z", before));
        h = xcvm_Add(t, h, layer_call_child(l, "U", xcvm_Mul(t, r, before)));
    }
    z = xcvm_Sigmoid(t, z);
    h = xcvm_Mul(t, z, xcvm_Tanh(t, h));
    if (before.at != NULL)
        h = xcvm_Add(t, h, xcvm_Mul(t, complement(l, z), before));
    layer_set_state(l, 0, h);
    return t->failed ? TAPE_FAILED : h;
}

static const layer_kind gru = {"gru", call_gru, 1};

xcvm_layer *xcvm_layer_create_gru(xcvm_tape *tape, int64_t in, int64_t out, const xcvm_layer_options *options)
{
    static const char *const names[] = {"W_r", "U_r", "W_z", "U_z", "W", "U"};
    xcvm_layer_options o;
    if (!TAPE_ENTER(tape, xcvm_layer_create_gru) || !layer_read_options(tape, &o, options) ||
        !layer_check_size(tape, "in", in) || !layer_check_size(tape, "out", out))
        return NULL;
    xcvm_layer *l = layer_make(tape, &gru);
    if (l == NULL)
        return NULL;
    l->settings.dtype = o.dtype;
    l->settings.size = out;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        xcvm_layer_add(l, names[i], xcvm_layer_create_linear(tape, names[i][0] == 'W' ? in : out, out, options));
    return layer_made(l);
}
