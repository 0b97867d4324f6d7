/* Normalizations, Softmax and related operators, its loss, Dropout, quantization. */
#include "compiler/import_onnx/lower/lower.h"
#include "ops/table/table.h"

/* Scale, bias, mean and variance of the whole of one batch entry rather than of a channel; opsets before 9. */
static xcvm_status normalize_each(xcc_lowering *n)
{
    double epsilon;
    XCVM_TRY(xcc_attribute_float(n, "epsilon", 1e-5, &epsilon));
    xcc_value *x = n->inputs[0];
    xcc_value *deviation = xcc_build_unary(
        &n->b, XCVM_OP_Sqrt, xcc_build_add(&n->b, n->inputs[4], xcc_build_number(&n->b, n->inputs[4], epsilon)));
    xcc_value *normal = xcc_build_div(&n->b, xcc_build_sub(&n->b, x, n->inputs[3]), deviation);
    return xcc_bind(n, 0, xcc_build_add(&n->b, xcc_build_mul(&n->b, normal, n->inputs[1]), n->inputs[2]));
}

/* Training before opset 14: wanted are, besides y, the running mean and variance, and those of the batch. */
static xcvm_status normalize_batch(xcc_lowering *n, bool spatial)
{
    XCVM_CHECK(n->m->error, spatial, UNSUPPORTED,
               "training without attribute 'spatial' is not supported; its inference form is");
    XCVM_CHECK(n->m->error, n->output_count <= 5, INVALID_MODEL, "the node has %zu results; expected at most 5",
               n->output_count);
    const size_t wanted = n->output_count;
    xcc_value *x = n->inputs[0], *axes = NULL;
    if (wanted > 3) {
        xcc_value *rest = xcc_build_axes_from(&n->b, x, 2);
        axes = xcc_build_concat(&n->b, 2, (xcc_value *[]){XCC_BUILD_INTS(&n->b, 0), rest}, 0);
        xcc_value *mean = xcc_build_reduce(&n->b, XCVM_OP_ReduceMean, x, axes, true);
        xcc_value *centered = xcc_build_sub(&n->b, x, mean);
        XCVM_TRY(xcc_bind(n, 3, xcc_build_reshape(&n->b, mean, XCC_BUILD_INTS(&n->b, -1))));
        xcc_value *var =
            xcc_build_reduce(&n->b, XCVM_OP_ReduceMean, xcc_build_mul(&n->b, centered, centered), axes, false);
        if (wanted > 4)
            XCVM_TRY(xcc_bind(n, 4, var));
    }
    n->output_count = wanted < 3 ? wanted : 3;
    XCC_ONE_TO_ONE_ARGS(n, BatchNormalization, args);
    n->output_count = wanted;
    args.training_mode = 1;
    return XCC_EMIT_ONE_TO_ONE(n, BatchNormalization, args);
}

xcvm_status xcc_lower_batch_normalization(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 5, 5));
    if (n->version >= 14)
        return xcc_lower_one_to_one(n);
    bool spatial = true;
    bool training = false, test;
    for (size_t i = 1; i < n->output_count; i++)
        training = training || xcc_wants(n, i);
    if (n->version < 9)
        XCVM_TRY(xcc_attribute_bool(n, "spatial", true, &spatial));
    if (n->version < 7) {
        XCVM_TRY(xcc_attribute_bool(n, "is_test", false, &test));
        training = training && !test;
    }
    xcc_attribute_ignore(n, "consumed_inputs");
    if (training)
        return normalize_batch(n, spatial);
    n->output_count = n->output_count > 0;
    xcc_attribute_ignore(n, "momentum");
    return spatial ? xcc_lower_one_to_one(n) : normalize_each(n);
}

/* Before opset 21 scale and bias are given for groups, since then for channels. */
xcvm_status xcc_lower_group_normalization(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 3, 3));
    XCVM_CHECK(n->m->error, xcc_attribute_find(n, "num_groups") != NULL, INVALID_MODEL,
               "attribute 'num_groups' is missing");
    if (n->version >= 21)
        xcc_attribute_ignore(n, "stash_type");
    for (size_t i = 1; i < 3 && n->version < 21; i++) {
        int64_t groups;
        XCVM_TRY(xcc_attribute_int(n, "num_groups", 1, &groups));
        xcc_value *channels = xcc_build_dim_of(&n->b, n->inputs[0], 1), *group = XCC_BUILD_INTS(&n->b, groups);
        if (channels != NULL && xcc_is_constant(channels) && groups > 0)
            channels = XCC_BUILD_INTS(&n->b, *XCVM_CDATA(int64_t, &channels->type) / groups);
        else
            channels = xcc_build_div(&n->b, channels, group);
        xcc_value *column = xcc_build_unsqueeze(&n->b, n->inputs[i], 1, (const int64_t[]){1});
        xcc_value *spread =
            xcc_build_expand(&n->b, column, xcc_build_concat(&n->b, 2, (xcc_value *[]){group, channels}, 0));
        XCVM_TRY(xcc_set_input(n, i, xcc_build_reshape(&n->b, spread, XCC_BUILD_INTS(&n->b, -1))));
    }
    return xcc_lower_one_to_one(n);
}

/* (x - mean) / (standard deviation + 1e-9), over the axes given. */
xcvm_status xcc_lower_mean_variance_normalization(xcc_lowering *n)
{
    xcvm_ints given;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_ints(n, "axes", &given));
    xcc_value *x = n->inputs[0];
    xcc_value *axes = given.count > 0 ? xcc_build_ints(&n->b, given.count, given.at) : XCC_BUILD_INTS(&n->b, 0, 2, 3);
    xcc_value *centered = xcc_build_sub(&n->b, x, xcc_build_reduce(&n->b, XCVM_OP_ReduceMean, x, axes, true));
    xcc_value *variance =
        xcc_build_reduce(&n->b, XCVM_OP_ReduceMean, xcc_build_mul(&n->b, centered, centered), axes, true);
    xcc_value *deviation =
        xcc_build_add(&n->b, xcc_build_unary(&n->b, XCVM_OP_Sqrt, variance), xcc_build_number(&n->b, x, 1e-9));
    return xcc_bind(n, 0, xcc_build_div(&n->b, centered, deviation));
}

/* Softmax, LogSoftmax and Hardmax; before opset 13 over all dimensions from axis on, made one. */
xcvm_status xcc_lower_softmax(xcc_lowering *n)
{
    int64_t axis;
    bool onnx; /* ONNX+ has the softmax along one axis before opset 13 already */
    XCVM_TRY(xcc_attribute_bool(n, "chainer_is_onnx_semantics", true, &onnx));
    if (n->version >= 13)
        return xcc_lower_one_to_one(n);
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_int(n, "axis", 1, &axis));
    xcc_value *x = n->inputs[0];
    const xcvm_schema *schema = xcvm_schema_named(n->op->info.name, strlen(n->op->info.name));
    XCVM_CHECK(n->m->error, x->type.kind == XCVM_KIND_TENSOR, TYPE_MISMATCH, "operand 0 is no tensor");
    if (!onnx) {
        XCVM_CHECK(n->m->error, axis >= -XCVM_MAX_RANK && axis < XCVM_MAX_RANK, OUT_OF_RANGE, "axis is %lld",
                   (long long)axis);
        /* The instructions of the family have their arguments in common. */
        xcvm_Softmax_args args = {.x = XCC_IN(x), .axis = axis};
        return xcc_bind(n, 0, xcc_apply_at(&n->b, schema->opcode, &args, offsetof(xcvm_Softmax_args, y)));
    }
    if (x->type.rank >= 0)
        XCVM_TRY(xcc_need_axis(n, axis, x->type.rank, &axis));
    if (x->type.rank == axis + 1)
        return xcc_bind(n, 0, xcc_build_unary(&n->b, schema->opcode, x));
    XCVM_CHECK(n->m->error, axis >= -8 && axis <= 8, OUT_OF_RANGE, "axis is %lld", (long long)axis);
    xcc_value *flat = xcc_apply(&n->b, Flatten, y, .x = XCC_IN(x), .axis = axis);
    return xcc_bind(
        n, 0, xcc_build_reshape_to(&n->b, xcc_build_unary(&n->b, schema->opcode, flat), xcc_build_shape_of(&n->b, x)));
}

/* The loss of the logarithm of the softmax over classes, dimension 1. */
xcvm_status xcc_lower_cross_entropy(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 3));
    xcc_value *log_prob = xcc_apply(&n->b, LogSoftmax, y, .x = XCC_IN(n->inputs[0]), .axis = 1);
    XCVM_TRY(xcc_set_input(n, 0, log_prob));
    if (xcc_wants(n, 1))
        XCVM_TRY(xcc_bind(n, 1, log_prob));
    const size_t wanted = n->output_count;
    n->output_count = wanted > 0;
    xcvm_status status = xcc_lower_as(n, XCVM_OP_NegativeLogLikelihoodLoss);
    n->output_count = wanted;
    return status;
}

/* Dropout without training mode is the identity. Before opset 12 the ratio was an attribute, and all was inference. */
xcvm_status xcc_lower_dropout(xcc_lowering *n)
{
    double training;
    XCVM_TRY(xcc_need_inputs(n, 1, 3));
    xcc_value *x = n->inputs[0];
    bool inference =
        n->version < 12 || xcc_input(n, 2) == NULL || (xcc_constant_number(n->inputs[2], &training) && training == 0);
    if (!inference)
        return xcc_lower_one_to_one(n);
    xcc_attribute_ignore(n, n->version < 12 ? "ratio" : "seed");
    if (n->version < 7) {
        xcc_attribute_ignore(n, "is_test");
        xcc_attribute_ignore(n, "consumed_inputs");
    }
    XCVM_TRY(xcc_bind(n, 0, x));
    if (!xcc_wants(n, 1))
        return XCVM_OK;
    xcc_value *one = n->version < 10 ? xcc_build_number(&n->b, x, 1) : xcc_scalar(n->b.graph, XCVM_BOOL, 1);
    return xcc_bind(n, 1, xcc_build_expand(&n->b, one, xcc_build_shape_of(&n->b, x)));
}

xcvm_status xcc_lower_quantize_linear(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 3));
    const xcvm_dtype scale = (xcvm_dtype)n->inputs[1]->type.dtype;
    if (scale == XCVM_F8E8M0)
        XCVM_TRY(xcc_set_input(n, 1, xcc_build_cast(&n->b, n->inputs[1], XCVM_F32)));
    XCC_ONE_TO_ONE_ARGS(n, QuantizeLinear, args);
    /* Unless said otherwise, the division is one of the scale's type. */
    if (n->version >= 23 && args.precision == XCVM_NO_DTYPE && xcvm_dtype_is_float(scale))
        args.precision = scale;
    return XCC_EMIT_ONE_TO_ONE(n, QuantizeLinear, args);
}

xcvm_status xcc_lower_dequantize_linear(xcc_lowering *n)
{
    xcvm_dtype dtype;
    if (n->version < 23 || xcc_attribute_find(n, "output_dtype") == NULL)
        return xcc_lower_one_to_one(n);
    XCVM_TRY(xcc_need_inputs(n, 2, 3));
    XCVM_TRY(xcc_attribute_dtype(n, "output_dtype", XCVM_NO_DTYPE, &dtype));
    if (dtype == XCVM_NO_DTYPE || dtype == (xcvm_dtype)n->inputs[1]->type.dtype)
        return xcc_lower_one_to_one(n);
    XCVM_TRY(xcc_set_input(n, 1, xcc_build_cast(&n->b, n->inputs[1], XCVM_F32)));
    /* Copies into a value of its own. */
    const size_t wanted = n->output_count;
    n->output_count = 0;
    XCC_ONE_TO_ONE_ARGS(n, DequantizeLinear, args);
    n->output_count = wanted;
    XCVM_TRY(XCC_EMIT_ONE_TO_ONE(n, DequantizeLinear, args));
    return xcc_bind(n, 0, xcc_build_cast(&n->b, xcc_value_of(args.y), dtype));
}
