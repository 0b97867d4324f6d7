/* Lowering of attention, of gated activations, and of normalizations around them. */
#include "compiler/import_onnx/lower/lower.h"

/* Until opset 23 a mask broadcasts in all dimensions. Later, keys after the end of a shorter mask are masked. */
static xcc_value *broadcast_mask(xcc_lowering *n, xcc_value *mask)
{
    xcc_value *k = xcc_input(n, 1), *past = xcc_input(n, 4);
    const int axis = k->type.rank == 3 ? 1 : 2;
    const int64_t last = mask->type.rank > 0 ? mask->type.dims[mask->type.rank - 1] : XCVM_ANY_DIM;
    const int64_t fresh = k->type.rank >= 3 ? k->type.dims[axis] : XCVM_ANY_DIM;
    if (k->type.rank < 3 || mask->type.rank == 0 || (last >= 0 && last != 1) ||
        (past == NULL && last == fresh && last != XCVM_ANY_DIM))
        return mask;
    xcc_value *keys = xcc_build_dim_of(&n->b, k, axis);
    if (keys != NULL && past != NULL)
        keys = xcc_build_add(&n->b, xcc_build_dim_of(&n->b, past, 2), keys);
    return xcc_build_expand(&n->b, mask, keys);
}

xcvm_status xcc_lower_attention(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 3, n->version < 24 ? 6 : 7));
    xcc_value *q = n->inputs[0], *mask = xcc_input(n, 3);
    if (mask != NULL && n->version < 24) {
        XCVM_TRY(xcc_set_input(n, 3, broadcast_mask(n, mask)));
        mask = xcc_input(n, 3);
    }
    if (mask != NULL && !xcvm_dtype_in((xcvm_dtype)mask->type.dtype, XCVM_TYPES_FLOAT_OR_BOOL))
        XCVM_TRY(xcc_set_input(n, 3, xcc_build_cast(&n->b, mask, (xcvm_dtype)q->type.dtype)));
    XCC_ONE_TO_ONE_ARGS(n, Attention, args);
    /* A scale of 0, or one too small to matter, makes all scores equal. 0 means that there is no scale. */
    if (args.scale == 0 && xcc_attribute_find(n, "scale") != NULL)
        args.scale = 1e-30;
    return XCC_EMIT_ONE_TO_ONE(n, Attention, args);
}

xcvm_status xcc_lower_linear_attention(xcc_lowering *n)
{
    /* A hint for implementations that take several tokens at a time. */
    xcc_attribute_ignore(n, "chunk_size");
    return xcc_lower_one_to_one(n);
}

/* A causal convolution per channel, whose last input elements are kept for the next call. */
xcvm_status xcc_lower_causal_conv_with_state(xcc_lowering *n)
{
    xcvm_text activation;
    XCVM_TRY(xcc_need_inputs(n, 2, 4));
    XCVM_TRY(xcc_attribute_text(n, "activation", "none", &activation));
    const bool swish = xcc_text_is(activation, "silu") || xcc_text_is(activation, "swish");
    XCVM_CHECK(n->m->error, swish || xcc_text_is(activation, "none"), INVALID_MODEL,
               "attribute 'activation' is '%.60s'; expected none, silu or swish", activation.at);
    xcc_value *x = n->inputs[0], *w = n->inputs[1], *past = xcc_input(n, 3);
    XCVM_CHECK(n->m->error, w->type.rank == 3 && w->type.dims[0] > 0 && w->type.dims[2] > 0, UNSUPPORTED,
               "the weights have no known shape of rank 3");
    const int64_t before = w->type.dims[2] - 1;
    if (past != NULL)
        x = xcc_build_concat(&n->b, 2, (xcc_value *[]){past, x}, 2);
    else if (before > 0)
        x = xcc_apply(&n->b, Pad, y, .x = XCC_IN(x), .pads = XCC_IN(XCC_BUILD_INTS(&n->b, 0, 0, before, 0, 0, 0)));
    if (x == NULL)
        return xcc_failure(n);
    xcc_value *y =
        xcc_apply(&n->b, Conv, y, .x = XCC_IN(x), .w = XCC_IN(w), .b = XCC_IN(xcc_input(n, 2)), .strides = XCC_INTS(1),
                  .pads = XCC_INTS(0, 0), .dilations = XCC_INTS(1), .group = w->type.dims[0]);
    if (swish)
        y = xcc_build_unary(&n->b, XCVM_OP_Swish, y);
    XCVM_TRY(xcc_bind(n, 0, y));
    if (!xcc_wants(n, 1))
        return XCVM_OK;
    return xcc_bind(n, 1, xcc_build_slice(&n->b, x, 2, before > 0 ? -before : INT64_MAX, INT64_MAX, 1));
}

xcvm_status xcc_lower_swiglu(xcc_lowering *n)
{
    double alpha;
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_attribute_float(n, "alpha", 1, &alpha));
    xcc_value *gate = xcc_apply(&n->b, Swish, y, .x = XCC_IN(n->inputs[0]), .alpha = alpha);
    return xcc_bind(n, 0, xcc_build_mul(&n->b, gate, n->inputs[1]));
}

xcvm_status xcc_lower_geglu(xcc_lowering *n)
{
    xcvm_text approximate;
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_attribute_text(n, "approximate", "none", &approximate));
    const bool tanh = xcc_text_is(approximate, "tanh");
    XCVM_CHECK(n->m->error, tanh || xcc_text_is(approximate, "none"), INVALID_MODEL,
               "attribute 'approximate' is '%.60s'; expected none or tanh", approximate.at);
    xcc_value *gate =
        xcc_apply(&n->b, Gelu, y, .x = XCC_IN(n->inputs[0]), .approximate = tanh ? XCVM_GELU_tanh : XCVM_GELU_none);
    return xcc_bind(n, 0, xcc_build_mul(&n->b, gate, n->inputs[1]));
}

/* The scale may be of another type than x; the result is of the scale's. */
xcvm_status xcc_lower_rms_normalization(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    const xcvm_dtype x = (xcvm_dtype)n->inputs[0]->type.dtype, scale = (xcvm_dtype)n->inputs[1]->type.dtype;
    if (x == scale)
        return xcc_lower_one_to_one(n);
    const xcvm_dtype common = x == XCVM_F64 || scale == XCVM_F64 ? XCVM_F64 : XCVM_F32;
    for (size_t i = 0; i < 2; i++)
        XCVM_TRY(xcc_set_input(n, i, xcc_build_cast(&n->b, n->inputs[i], common)));
    int64_t axis;
    double epsilon;
    xcvm_dtype stash_type;
    XCVM_TRY(xcc_attribute_int(n, "axis", -1, &axis));
    XCVM_TRY(xcc_attribute_float(n, "epsilon", 1e-5, &epsilon));
    XCVM_TRY(xcc_attribute_dtype(n, "stash_type", XCVM_F32, &stash_type));
    XCVM_CHECK(n->m->error, axis >= -8 && axis <= 7, OUT_OF_RANGE, "axis is %lld", (long long)axis);
    xcc_value *y = xcc_apply(&n->b, RMSNormalization, y, .x = XCC_IN(n->inputs[0]), .scale = XCC_IN(n->inputs[1]),
                             .axis = axis, .epsilon = epsilon, .stash_type = stash_type);
    return xcc_bind(n, 0, xcc_build_cast(&n->b, y, scale));
}
