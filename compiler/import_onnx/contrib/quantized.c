/* Contributed operators on quantized values: what ONNX has on floats, between DequantizeLinear and QuantizeLinear, and
 * products of integers. */
#include "compiler/import_onnx/contrib/contrib.h"

/* ---- Shared ---- */

/* A scale or zero point of one element as one of rank 0, which broadcasts to anything. */
static xcc_value *plain(xcc_lowering *n, xcc_value *x)
{
    if (x == NULL || x->type.rank != 1 || x->type.dims[0] != 1)
        return x;
    return xcc_build_reshape(&n->b, x, xcc_build_ints(&n->b, 0, NULL));
}

xcc_value *xcc_contrib_dequantized(xcc_lowering *n, xcc_value *x, xcc_value *scale, xcc_value *zero_point, int64_t axis)
{
    if (x == NULL || scale == NULL)
        return NULL;
    scale = plain(n, scale);
    zero_point = plain(n, zero_point);
    if (scale == NULL)
        return NULL;
    return xcc_apply(&n->b, DequantizeLinear, y, .x = XCC_IN(x), .scale = XCC_IN(scale),
                     .zero_point = XCC_IN(zero_point), .axis = axis);
}

/* x in steps of scale from zero_point on; NULL: 0 of that type. */
static xcc_value *quantized(xcc_lowering *n, xcc_value *x, xcc_value *scale, xcc_value *zero_point, xcvm_dtype dtype)
{
    if (x == NULL || scale == NULL)
        return NULL;
    scale = plain(n, scale);
    zero_point = plain(n, zero_point);
    if (scale == NULL)
        return NULL;
    return xcc_apply(&n->b, QuantizeLinear, y, .x = XCC_IN(x), .scale = XCC_IN(scale), .zero_point = XCC_IN(zero_point),
                     .axis = 1, .saturate = 1, .output_dtype = zero_point == NULL ? dtype : XCVM_NO_DTYPE);
}

xcvm_status xcc_contrib_need_byte(const xcc_lowering *n, const xcc_value *x, const char *what)
{
    XCVM_CHECK(n->m->error, x->type.dtype == XCVM_U8 || x->type.dtype == XCVM_I8, TYPE_MISMATCH,
               "%s is %s, u8 or i8 is expected", what, xcvm_dtype_name((xcvm_dtype)x->type.dtype));
    return XCVM_OK;
}

xcvm_status xcc_contrib_need_operand(const xcc_lowering *n, size_t i, const char *what)
{
    XCVM_CHECK(n->m->error, xcc_input(n, i) != NULL, INVALID_MODEL, "operand %zu (%s) is missing", i, what);
    return XCVM_OK;
}

/* Operand i with the scale and zero point that follow, as floats. */
static xcvm_status read_value(xcc_lowering *n, size_t i, xcc_value **x)
{
    XCVM_TRY(xcc_contrib_need_operand(n, i, "a quantized value"));
    XCVM_TRY(xcc_contrib_need_operand(n, i + 1, "a scale"));
    XCVM_TRY(xcc_contrib_need_byte(n, n->inputs[i], "a quantized value"));
    *x = xcc_contrib_dequantized(n, n->inputs[i], n->inputs[i + 1], xcc_input(n, i + 2), 0);
    return *x != NULL ? XCVM_OK : xcc_failure(n);
}

/* Result 0 is y with the scale in operand i and the zero point in the next operand. */
static xcvm_status bind_quantized(xcc_lowering *n, xcc_value *y, size_t i)
{
    XCVM_TRY(xcc_contrib_need_operand(n, i, "the result's scale"));
    return xcc_bind(n, 0, quantized(n, y, n->inputs[i], xcc_input(n, i + 1), (xcvm_dtype)n->inputs[0]->type.dtype));
}

/* ---- Element-wise ---- */

xcvm_status xcc_lower_contrib_qlinear_binary(xcc_lowering *n)
{
    xcc_value *a, *b;
    XCVM_TRY(xcc_need_inputs(n, 1, 8));
    XCVM_TRY(read_value(n, 0, &a));
    XCVM_TRY(read_value(n, 3, &b));
    const bool product = strcmp(n->op->info.name, "QLinearMul") == 0;
    return bind_quantized(n, xcc_build_binary(&n->b, product ? XCVM_OP_Mul : XCVM_OP_Add, a, b), 6);
}

xcvm_status xcc_lower_contrib_qlinear_leaky_relu(xcc_lowering *n)
{
    double alpha;
    xcc_value *x;
    XCVM_TRY(xcc_need_inputs(n, 1, 5));
    XCVM_TRY(xcc_attribute_float(n, "alpha", 0.01, &alpha));
    XCVM_TRY(read_value(n, 0, &x));
    return bind_quantized(n, xcc_apply(&n->b, LeakyRelu, y, .x = XCC_IN(x), .alpha = alpha), 3);
}

xcvm_status xcc_lower_contrib_qlinear_sigmoid(xcc_lowering *n)
{
    xcc_value *x;
    XCVM_TRY(xcc_need_inputs(n, 1, 5));
    XCVM_TRY(read_value(n, 0, &x));
    return bind_quantized(n, xcc_build_unary(&n->b, XCVM_OP_Sigmoid, x), 3);
}

/* The softmax along one axis since opset 13, before over all dimensions from axis on; the attribute says which. */
xcvm_status xcc_lower_contrib_qlinear_softmax(xcc_lowering *n)
{
    int64_t opset;
    xcc_value *x, *y;
    XCVM_TRY(xcc_need_inputs(n, 1, 5));
    XCVM_TRY(xcc_contrib_need_int(n, "opset", 1, 1000, &opset));
    XCVM_TRY(read_value(n, 0, &x));
    XCVM_TRY(xcc_lower_inner(n, "", "Softmax", opset < 13 ? 1 : 13, 1, &x, 1, &y));
    return bind_quantized(n, y, 3);
}

xcvm_status xcc_lower_contrib_qlinear_where(xcc_lowering *n)
{
    xcc_value *x, *y;
    XCVM_TRY(xcc_need_inputs(n, 9, 9));
    XCVM_TRY(read_value(n, 1, &x));
    XCVM_TRY(read_value(n, 4, &y));
    xcc_value *z = xcc_build_call(&n->b, XCVM_OP_Where, 3, (xcc_value *[]){n->inputs[0], x, y});
    return xcc_bind(n, 0, quantized(n, z, n->inputs[7], n->inputs[8], XCVM_NO_DTYPE));
}

xcvm_status xcc_lower_contrib_qlinear_concat(xcc_lowering *n)
{
    int64_t axis;
    XCVM_TRY(xcc_need_inputs(n, n->input_count, SIZE_MAX));
    XCVM_CHECK(n->m->error, n->input_count >= 5 && n->input_count % 3 == 2, INVALID_MODEL,
               "%zu operands are given; a scale, a zero point and three for each value are expected", n->input_count);
    XCVM_TRY(xcc_contrib_need_int(n, "axis", -XCVM_MAX_RANK, XCVM_MAX_RANK - 1, &axis));
    const size_t count = n->input_count / 3;
    xcc_value **parts = xcc_alloc(n->m, count * sizeof(xcc_value *));
    if (parts == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        XCVM_TRY(read_value(n, 2 + 3 * i, &parts[i]));
    return xcc_bind(
        n, 0, quantized(n, xcc_build_concat(&n->b, count, parts, axis), n->inputs[0], n->inputs[1], XCVM_NO_DTYPE));
}

/* ---- Means ---- */

xcvm_status xcc_lower_contrib_qlinear_reduce_mean(xcc_lowering *n)
{
    xcvm_ints axes;
    bool keep;
    xcc_value *x;
    XCVM_TRY(xcc_need_inputs(n, 1, 5));
    XCVM_TRY(xcc_attribute_ints(n, "axes", &axes));
    XCVM_TRY(xcc_attribute_bool(n, "keepdims", true, &keep));
    XCVM_TRY(read_value(n, 0, &x));
    xcc_value *list = axes.count > 0 ? xcc_build_ints(&n->b, axes.count, axes.at) : NULL;
    XCVM_CHECK(n->m->error, axes.count == 0 || list != NULL, OUT_OF_MEMORY, "no memory for the axes");
    return bind_quantized(n, xcc_build_reduce(&n->b, XCVM_OP_ReduceMean, x, list, keep), 3);
}

/* ONNX's pool of the name after "QLinear", for images whose channels may be last. */
xcvm_status xcc_lower_contrib_qlinear_pool(xcc_lowering *n)
{
    bool last;
    xcc_value *x, *y;
    XCVM_TRY(xcc_need_inputs(n, 1, 5));
    XCVM_TRY(xcc_attribute_bool(n, "channels_last", false, &last));
    XCVM_TRY(read_value(n, 0, &x));
    if (last && (x = xcc_contrib_channels_first(n, x)) == NULL)
        return xcc_failure(n);
    XCVM_TRY(xcc_lower_inner(n, "", n->op->info.name + strlen("QLinear"), 11, 1, &x, 1, &y));
    return bind_quantized(n, last ? xcc_contrib_channels_last(n, y) : y, 3);
}

xcvm_status xcc_lower_contrib_qlinear_conv(xcc_lowering *n)
{
    bool last;
    xcc_value *y;
    XCVM_TRY(xcc_need_inputs(n, 8, 9));
    XCVM_TRY(xcc_attribute_bool(n, "channels_last", false, &last));
    if (last)
        XCVM_TRY(xcc_set_input(n, 0, xcc_contrib_channels_first(n, n->inputs[0])));
    XCVM_TRY(xcc_lower_inner(n, "", "QLinearConv", 10, n->input_count, n->inputs, 1, &y));
    return xcc_bind(n, 0, last ? xcc_contrib_channels_last(n, y) : y);
}

/* ---- Products ---- */

/* The product of bytes in i32. */
static xcc_value *integer_product(xcc_lowering *n, xcc_value *a, xcc_value *b, xcc_value *a_zero, xcc_value *b_zero)
{
    a_zero = plain(n, a_zero);
    b_zero = plain(n, b_zero);
    if (a == NULL || b == NULL)
        return NULL;
    return xcc_apply(&n->b, MatMulInteger, y, .a = XCC_IN(a), .b = XCC_IN(b), .a_zero_point = XCC_IN(a_zero),
                     .b_zero_point = XCC_IN(b_zero));
}

/* The product times both scales, plus bias. */
static xcc_value *scaled(xcc_lowering *n, xcc_value *product, xcc_value *a_scale, xcc_value *b_scale, xcc_value *bias)
{
    xcc_value *scale = xcc_build_mul(&n->b, plain(n, a_scale), plain(n, b_scale));
    if (scale == NULL)
        return NULL;
    xcc_value *y = xcc_build_cast(&n->b, product, (xcvm_dtype)scale->type.dtype);
    return xcc_contrib_biased(n, xcc_build_mul(&n->b, y, scale), bias);
}

xcvm_status xcc_lower_contrib_mat_mul_integer_to_float(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 4, 7));
    xcc_value *y = integer_product(n, n->inputs[0], n->inputs[1], xcc_input(n, 4), xcc_input(n, 5));
    return xcc_bind(n, 0, scaled(n, y, n->inputs[2], n->inputs[3], xcc_input(n, 6)));
}

xcvm_status xcc_lower_contrib_dynamic_quantize_mat_mul(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 3, 5));
    xcc_value *a = xcc_value_create(n->b.graph, NULL), *scale = xcc_value_create(n->b.graph, NULL),
              *zero = xcc_value_create(n->b.graph, NULL);
    if (a == NULL || scale == NULL || zero == NULL)
        return xcc_failure(n);
    if (xcc_emit(&n->b, DynamicQuantizeLinear, .y = XCC_OUT(a), .scale = XCC_OUT(scale), .zero_point = XCC_OUT(zero),
                 .x = XCC_IN(n->inputs[0])) == NULL)
        return xcc_failure(n);
    xcc_value *y = integer_product(n, a, n->inputs[1], zero, xcc_input(n, 3));
    return xcc_bind(n, 0, scaled(n, y, scale, n->inputs[2], xcc_input(n, 4)));
}

static xcc_value *transposed(xcc_lowering *n, xcc_value *x, bool transpose)
{
    return transpose ? xcc_build_transpose(&n->b, x, 2, (const int64_t[]){1, 0}) : x;
}

/* alpha * (a * b + c), in floats or quantized again; c is an integer in steps of both scales. */
xcvm_status xcc_lower_contrib_qgemm(xcc_lowering *n)
{
    bool exchange[2];
    double alpha;
    XCVM_TRY(xcc_need_inputs(n, 6, 9));
    XCVM_TRY(xcc_attribute_bool(n, "transA", false, &exchange[0]));
    XCVM_TRY(xcc_attribute_bool(n, "transB", false, &exchange[1]));
    XCVM_TRY(xcc_attribute_float(n, "alpha", 1, &alpha));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[0], "A", 2, 2));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[3], "B", 2, 2));
    xcc_value *sum = integer_product(n, transposed(n, n->inputs[0], exchange[0]),
                                     transposed(n, n->inputs[3], exchange[1]), n->inputs[2], n->inputs[5]);
    xcc_value *y = scaled(n, xcc_contrib_biased(n, sum, xcc_input(n, 6)), n->inputs[1], n->inputs[4], NULL);
    if (alpha != 1 && y != NULL)
        y = xcc_build_mul(&n->b, y, xcc_build_number(&n->b, y, alpha));
    if (xcc_input(n, 7) == NULL)
        return xcc_bind(n, 0, y);
    return xcc_bind(n, 0, quantized(n, y, n->inputs[7], xcc_input(n, 8), (xcvm_dtype)n->inputs[0]->type.dtype));
}
