/* Chain, linear, MLP, embedding and dropout layers. */
#include "tape/layers/layers.h"

#include <stdio.h>

/* ---- Chain ---- */

static xcvm_var call_chain(xcvm_layer *l, xcvm_var x)
{
    for (size_t i = 0; i < l->child_count; i++) {
        x = xcvm_layer_call(l->children[i].layer, x);
        if (!l->settings.relu || i + 1 == l->child_count)
            continue;
        x = xcvm_Relu(l->tape, x);
        if (l->training && l->settings.ratio > 0)
            x = xcvm_Dropout(l->tape, x, xcvm_tape_scalar(l->tape, XCVM_F32, l->settings.ratio),
                             xcvm_tape_scalar(l->tape, XCVM_BOOL, 1));
    }
    return x;
}

static const layer_kind chain = {"chain", call_chain, 0};

xcvm_layer *xcvm_layer_create_chain(xcvm_tape *tape)
{
    return TAPE_ENTER(tape, xcvm_layer_create_chain) ? layer_make(tape, &chain) : NULL;
}

/* ---- Linear ---- */

static xcvm_var call_linear(xcvm_layer *l, xcvm_var x)
{
    if (layer_rank_of(l->tape, x) > 2)
        x = xcvm_Flatten(l->tape, x);
    return xcvm_Gemm(l->tape, x, layer_find_tensor(l, "W"), layer_find_tensor(l, "b"), .transB = 1);
}

static const layer_kind linear = {"linear", call_linear, 0};

xcvm_layer *xcvm_layer_create_linear(xcvm_tape *tape, int64_t in, int64_t out, const xcvm_layer_options *options)
{
    xcvm_layer_options o;
    if (!TAPE_ENTER(tape, xcvm_layer_create_linear) || !layer_read_options(tape, &o, options) ||
        !layer_check_size(tape, "in", in) || !layer_check_size(tape, "out", out))
        return NULL;
    xcvm_layer *l = layer_make(tape, &linear);
    layer_add_tensor(l, "W", o.dtype, 2, (const int64_t[]){out, in}, &o.weight,
                     (xcvm_initializer){.kind = XCVM_INIT_LECUN_NORMAL}, true);
    if (!o.no_bias)
        layer_add_tensor(l, "b", o.dtype, 1, &out, &o.bias, (xcvm_initializer){.kind = XCVM_INIT_ZERO}, true);
    return layer_made(l);
}

/* ---- MLP ---- */

xcvm_layer *xcvm_layer_create_mlp(xcvm_tape *tape, size_t count, const int64_t *sizes,
                                  const xcvm_layer_options *options)
{
    xcvm_layer_options o;
    char name[32];
    if (!TAPE_ENTER(tape, xcvm_layer_create_mlp) || !layer_read_options(tape, &o, options))
        return NULL;
    if (count < 2 || sizes == NULL || !(o.dropout >= 0 && o.dropout < 1)) {
        tape_fail(tape, XCVM_INVALID_ARGUMENT, "an MLP has 2 sizes at least, not %zu, and a dropout in [0, 1), not %g",
                  count, o.dropout);
        return NULL;
    }
    xcvm_layer *l = layer_make(tape, &chain);
    for (size_t i = 0; l != NULL && i + 1 < count; i++) {
        snprintf(name, sizeof name, "l%zu", i + 1);
        xcvm_layer_add(l, name, xcvm_layer_create_linear(tape, sizes[i], sizes[i + 1], options));
    }
    if (l != NULL) {
        l->settings.relu = true;
        l->settings.ratio = o.dropout;
    }
    return layer_made(l);
}

/* ---- Embedding ---- */

static xcvm_var call_embedding(xcvm_layer *l, xcvm_var x) { return xcvm_Gather(l->tape, layer_find_tensor(l, "W"), x); }

static const layer_kind embedding = {"embedding", call_embedding, 0};

xcvm_layer *xcvm_layer_create_embedding(xcvm_tape *tape, int64_t count, int64_t width,
                                        const xcvm_layer_options *options)
{
    xcvm_layer_options o;
    if (!TAPE_ENTER(tape, xcvm_layer_create_embedding) || !layer_read_options(tape, &o, options) ||
        !layer_check_size(tape, "count", count) || !layer_check_size(tape, "width", width))
        return NULL;
    xcvm_layer *l = layer_make(tape, &embedding);
    layer_add_tensor(l, "W", o.dtype, 2, (const int64_t[]){count, width}, &o.weight,
                     (xcvm_initializer){.kind = XCVM_INIT_NORMAL}, true);
    if (l != NULL && l->tensor_count > 0)
        l->tensors[0].variable->sparse = !o.dense;
    return layer_made(l);
}

/* ---- Dropout ---- */

static xcvm_var call_dropout(xcvm_layer *l, xcvm_var x)
{
    return !l->training ? x
                        : xcvm_Dropout(l->tape, x, xcvm_tape_scalar(l->tape, XCVM_F32, l->settings.ratio),
                                       xcvm_tape_scalar(l->tape, XCVM_BOOL, 1));
}

static const layer_kind dropout = {"dropout", call_dropout, 0};

xcvm_layer *xcvm_layer_create_dropout(xcvm_tape *tape, double ratio)
{
    if (TAPE_ENTER(tape, xcvm_layer_create_dropout) && !(ratio >= 0 && ratio < 1))
        tape_fail(tape, XCVM_INVALID_ARGUMENT, "the ratio of dropout is %g; it is from 0 to below 1", ratio);
    xcvm_layer *l = layer_make(tape, &dropout);
    if (l != NULL)
        l->settings.ratio = ratio;
    return l;
}
