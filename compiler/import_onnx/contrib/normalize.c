/* Contributed operators: normalization with preceding additions. */
#include "compiler/import_onnx/contrib/contrib.h"

/* ONNX Runtime's for sums with a residual, and for embeddings. */
#define SKIP_EPSILON 1e-12

/* 1 / sqrt(the mean of x squared over the axes from axis on + epsilon), in f32. */
static xcc_value *inverse_rms(xcc_lowering *n, xcc_value *x, int64_t axis, double epsilon)
{
    int64_t axes[XCVM_MAX_RANK];
    size_t count = 0;
    for (int64_t i = axis < 0 ? axis : axis - x->type.rank; i < 0; i++)
        axes[count++] = i;
    xcc_value *wide = xcc_build_cast(&n->b, x, x->type.dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32);
    xcc_value *mean = xcc_build_reduce(&n->b, XCVM_OP_ReduceMean, xcc_build_mul(&n->b, wide, wide),
                                       xcc_build_ints(&n->b, count, axes), true);
    xcc_value *shifted = xcc_build_add(&n->b, mean, xcc_build_number(&n->b, wide, epsilon));
    return xcc_build_unary(&n->b, XCVM_OP_Reciprocal, xcc_build_unary(&n->b, XCVM_OP_Sqrt, shifted));
}

static xcvm_status bind_rms(xcc_lowering *n, xcc_value *x, xcc_value *scale, int64_t axis, double epsilon,
                            size_t inverse)
{
    XCVM_CHECK(n->m->error, axis >= -XCVM_MAX_RANK && axis < XCVM_MAX_RANK, OUT_OF_RANGE, "axis is %lld",
               (long long)axis);
    xcc_value *y = xcc_apply(&n->b, RMSNormalization, y, .x = XCC_IN(x), .scale = XCC_IN(scale), .axis = axis,
                             .epsilon = epsilon, .stash_type = x->type.dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32);
    XCVM_TRY(xcc_bind(n, 0, y));
    if (!xcc_wants(n, inverse))
        return XCVM_OK;
    XCVM_TRY(xcc_need_rank(n, x, "the input"));
    XCVM_TRY(xcc_need_axis(n, axis, x->type.rank, &axis));
    return xcc_bind(n, inverse, inverse_rms(n, x, axis, epsilon));
}

xcvm_status xcc_lower_contrib_simplified_layer_normalization(xcc_lowering *n)
{
    int64_t axis;
    double epsilon;
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_attribute_int(n, "axis", -1, &axis));
    XCVM_TRY(xcc_attribute_float(n, "epsilon", 1e-5, &epsilon));
    xcc_attribute_ignore(n, "stash_type");
    xcc_value *scale = xcc_build_cast(&n->b, n->inputs[1], (xcvm_dtype)n->inputs[0]->type.dtype);
    if (scale == NULL)
        return xcc_failure(n);
    return bind_rms(n, n->inputs[0], scale, axis, epsilon, 1);
}

/* input + skip + bias, which is result 3, too. */
static xcvm_status sum_skip(xcc_lowering *n, xcc_value *bias, xcc_value **sum)
{
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[0], "input", 2, 3));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[1], "skip", 2, 3));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[2], "gamma", 1, 1));
    if (bias != NULL)
        XCVM_TRY(xcc_contrib_need_ranks(n, bias, "bias", 1, 1));
    *sum = xcc_contrib_biased(n, xcc_build_add(&n->b, n->inputs[0], n->inputs[1]), bias);
    return xcc_bind(n, 3, *sum);
}

xcvm_status xcc_lower_contrib_skip_layer_normalization(xcc_lowering *n)
{
    double epsilon;
    xcc_value *sum, *results[3];
    XCVM_TRY(xcc_need_inputs(n, 3, 5));
    XCVM_TRY(xcc_attribute_float(n, "epsilon", SKIP_EPSILON, &epsilon));
    XCVM_TRY(sum_skip(n, xcc_input(n, 4), &sum));
    const size_t count = xcc_wants(n, 2) ? 3 : xcc_wants(n, 1) ? 2 : 1;
    xcvm_LayerNormalization_args args = {.x = XCC_IN(sum),
                                         .scale = XCC_IN(n->inputs[2]),
                                         .b = XCC_IN(xcc_input(n, 3)),
                                         .axis = -1,
                                         .epsilon = epsilon,
                                         .stash_type = XCVM_F32};
    if (sum->type.dtype == XCVM_F64)
        args.stash_type = XCVM_F64;
    for (size_t i = 0; i < count; i++) {
        if ((results[i] = xcc_result(n, i)) == NULL)
            return xcc_failure(n);
        *(i == 0 ? &args.y : i == 1 ? &args.mean : &args.inv_std_dev) = XCC_OUT(results[i]);
    }
    return xcc_append(&n->b, XCVM_OP_LayerNormalization, &args) != NULL ? XCVM_OK : xcc_failure(n);
}

xcvm_status xcc_lower_contrib_skip_simplified_layer_normalization(xcc_lowering *n)
{
    double epsilon;
    xcc_value *sum;
    XCVM_TRY(xcc_need_inputs(n, 3, 4));
    XCVM_TRY(xcc_attribute_float(n, "epsilon", SKIP_EPSILON, &epsilon));
    XCVM_TRY(sum_skip(n, xcc_input(n, 3), &sum));
    if (xcc_wants(n, 1))
        XCVM_TRY(xcc_bind(n, 1, xcc_build_reduce(&n->b, XCVM_OP_ReduceMean, sum, XCC_BUILD_INTS(&n->b, -1), true)));
    return bind_rms(n, sum, n->inputs[2], -1, epsilon, 2);
}

/* ---- Embeddings ---- */

/* Embeddings of words, positions and segments added and normalized; and how many words each mask leaves. All tables and
 * gamma and beta are dequantized already. */
static xcvm_status embed(xcc_lowering *n, xcc_value *const *tables, xcc_value *gamma, xcc_value *beta, xcc_value *mask,
                         xcc_value *position_ids)
{
    double epsilon;
    xcc_value *ids = n->inputs[0], *segments = xcc_input(n, 1), *positions;
    XCVM_TRY(xcc_attribute_float(n, "epsilon", SKIP_EPSILON, &epsilon));
    xcc_attribute_ignore(n, "mask_index_type");
    XCVM_TRY(xcc_contrib_need_ranks(n, ids, "input_ids", 2, 2));
    XCVM_CHECK(n->m->error, (segments == NULL) == (tables[2] == NULL), INVALID_MODEL,
               "segment_ids and segment_embedding have to be given both, or neither");
    if (position_ids != NULL) {
        positions = xcc_build_gather(&n->b, tables[1], position_ids, 0);
    } else {
        xcc_value *zero = XCC_BUILD_INTS(&n->b, 0), *first = XCC_BUILD_INTS(&n->b, 0);
        xcc_value *length = xcc_build_dim_of(&n->b, ids, 1);
        positions = xcc_build_call(&n->b, XCVM_OP_Slice, 4, (xcc_value *[]){tables[1], zero, length, first});
    }
    xcc_value *sum = xcc_build_add(&n->b, xcc_build_gather(&n->b, tables[0], ids, 0), positions);
    if (segments != NULL)
        sum = xcc_build_add(&n->b, sum, xcc_build_gather(&n->b, tables[2], segments, 0));
    if (sum == NULL)
        return xcc_failure(n);
    XCVM_TRY(xcc_bind(n, 2, sum));
    xcc_value *y = xcc_apply(&n->b, LayerNormalization, y, .x = XCC_IN(sum), .scale = XCC_IN(gamma), .b = XCC_IN(beta),
                             .axis = -1, .epsilon = epsilon, .stash_type = XCVM_F32);
    XCVM_TRY(xcc_bind(n, 0, y));
    if (!xcc_wants(n, 1))
        return XCVM_OK;
    if (mask == NULL)
        return xcc_bind(n, 1,
                        xcc_build_expand(&n->b, xcc_scalar(n->b.graph, XCVM_I32, 0), xcc_build_dim_of(&n->b, ids, 0)));
    xcc_value *there = xcc_build_binary(&n->b, XCVM_OP_Equal, mask, xcc_build_number(&n->b, mask, 1));
    return xcc_bind(n, 1,
                    xcc_build_reduce(&n->b, XCVM_OP_ReduceSum, xcc_build_cast(&n->b, there, XCVM_I32),
                                     XCC_BUILD_INTS(&n->b, 1), false));
}

xcvm_status xcc_lower_contrib_embed_layer_normalization(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 1, 9));
    static const char *const names[] = {"word_embedding", "position_embedding", "", "gamma", "beta"};
    for (size_t i = 2; i < 7; i++)
        XCVM_CHECK(n->m->error, i == 4 || xcc_input(n, i) != NULL, INVALID_MODEL, "operand %zu (%s) is missing", i,
                   names[i - 2]);
    return embed(n, n->inputs + 2, n->inputs[5], n->inputs[6], xcc_input(n, 7), xcc_input(n, 8));
}

/* The tables, gamma and beta are bytes; scales and then zero points of them follow. */
xcvm_status xcc_lower_contrib_qembed_layer_normalization(xcc_lowering *n)
{
    enum { TABLES = 2, MASK = 7, SCALES = 8, ZERO_POINTS = 13, QUANTIZED = 5 };
    xcc_value *floats[QUANTIZED] = {NULL};
    XCVM_TRY(xcc_need_inputs(n, 1, 18));
    for (size_t i = 0; i < QUANTIZED; i++) {
        xcc_value *x = xcc_input(n, TABLES + i), *scale = xcc_input(n, SCALES + i),
                  *zero = xcc_input(n, ZERO_POINTS + i);
        if (i == 2 && x == NULL)
            continue;
        XCVM_CHECK(n->m->error, x != NULL && scale != NULL && zero != NULL, INVALID_MODEL,
                   "operand %zu, its scale or its zero point is missing", TABLES + i);
        if ((floats[i] = xcc_contrib_dequantized(n, x, scale, zero, 0)) == NULL)
            return xcc_failure(n);
    }
    return embed(n, floats, floats[3], floats[4], xcc_input(n, MASK), NULL);
}
