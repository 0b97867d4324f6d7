/* Integer regions: in models that quantize and dequantize tensors around every operator, the operators become integer
 * instructions. Rules match a QuantizeLinear with the nodes before it, up to the DequantizeLinear of each operand: a
 * convolution, product, sum, pool, any function of single elements, or data movement. Unmatched nodes stay, with the
 * same meaning. */
#include "compiler/passes/integer.h"
#include "compiler/ir/compilation.h"

#include <math.h>

/* ---- Scales ---- */

bool xcc_scale_of(const xcc_value *scale, const xcc_value *zero_point, bool is_signed, float *number, int *zero)
{
    double value;
    if (scale == NULL || !xcc_number(scale, &value) || scale->type.dtype != XCVM_F32 || !(value > 0.0) ||
        !isfinite(value))
        return false;
    *number = (float)value;
    value = 0.0;
    if (zero_point != NULL && !xcc_number(zero_point, &value))
        return false;
    *zero = (int)value + (is_signed ? 128 : 0);
    return true;
}

bool xcc_scale_of_product(float x, float w, float y, float *scale)
{
    const float unit = x * w;
    *scale = unit / y;
    return (isnormal(unit) || w == 0.0f) && isfinite(*scale);
}

bool xcc_dequantized_of(const xcc_value *v, xcc_dequantized *d)
{
    const xcc_node *n = xcc_producer(v, XCVM_OP_DequantizeLinear);
    if (n == NULL || v->type.dtype != XCVM_F32)
        return false;
    const xcvm_DequantizeLinear_args *a = XCC_ARGS(DequantizeLinear, n);
    d->q = xcc_value_of(a->x);
    return xcvm_dtype_in((xcvm_dtype)a->x->dtype, XCVM_TYPES_BYTE) && a->x->rank >= 0 && a->block_size == 0 &&
           xcc_scale_of(xcc_value_of(a->scale), xcc_value_of(a->zero_point), a->x->dtype == XCVM_I8, &d->scale,
                        &d->zero);
}

/* ---- Region boundaries ---- */

xcc_value *xcc_constant_bytes(xcc_builder *b, xcvm_dtype dtype, const uint8_t *bytes, size_t count)
{
    const int64_t dim = (int64_t)count;
    return xcc_constant(b->graph, NULL, dtype, 1, &dim, bytes, false);
}

/* Converts between s8 and u8, whichever `to` is, by an offset of 128. */
static xcc_value *flip(xcc_builder *b, xcc_value *v, xcvm_dtype to)
{
    uint8_t table[XCC_BYTES];
    for (int i = 0; i < XCC_BYTES; i++)
        table[i] = (uint8_t)(i ^ 0x80);
    const xcc_value *constant = xcc_constant_bytes(b, to, table, XCC_BYTES);
    return constant != NULL ? xcc_apply(b, Lookup, y, .x = XCC_IN(v), .table = XCC_IN(constant)) : NULL;
}

/* The u8 tensor that v, in s8, was made from. */
static xcc_value *flipped(const xcc_value *v)
{
    const xcc_node *n = xcc_producer(v, XCVM_OP_Lookup);
    if (n == NULL || xcc_node_input(n, 0)->type.dtype != XCVM_U8 || !xcc_is_constant(xcc_node_input(n, 1)))
        return NULL;
    const uint8_t *table = xcc_node_input(n, 1)->type.data;
    for (int i = 0; i < XCC_BYTES; i++)
        if (table[i] != (i ^ 0x80))
            return NULL;
    return xcc_node_input(n, 0);
}

static const int64_t to_last[] = {0, 2, 3, 1}, to_first[] = {0, 3, 1, 2};

static xcc_value *transposed_from(const xcc_value *v, const int64_t *perm)
{
    const xcc_node *n = xcc_producer(v, XCVM_OP_Transpose);
    if (n == NULL)
        return NULL;
    const xcvm_Transpose_args *a = XCC_ARGS(Transpose, n);
    for (size_t i = 0; i < 4; i++)
        if (a->perm.count != 4 || a->perm.at[i] != perm[i])
            return NULL;
    return xcc_value_of(a->x);
}

xcc_region_tensor xcc_region_value(xcc_builder *b, xcc_value *q, bool images)
{
    xcc_region_tensor bytes = {.v = q};
    if (q->type.dtype == XCVM_I8) {
        bytes.v = flipped(q);
        if (bytes.v == NULL)
            bytes.v = flip(b, q, XCVM_U8);
        if (bytes.v == NULL)
            return bytes;
    }
    xcc_value *last = transposed_from(bytes.v, to_first);
    if (last == NULL && images)
        last = xcc_apply(b, Transpose, y, .x = XCC_IN(bytes.v), .perm = {to_last, 4});
    if (last != NULL || images)
        bytes = (xcc_region_tensor){last, true};
    return bytes;
}

xcc_value *xcc_region_edge(xcc_builder *b, xcc_region_tensor bytes, bool is_signed)
{
    xcc_value *v = bytes.v;
    if (v != NULL && bytes.last)
        v = xcc_apply(b, Transpose, y, .x = XCC_IN(v), .perm = {to_first, 4});
    return v != NULL && is_signed ? flip(b, v, XCVM_I8) : v;
}

/* ---- The pass ---- */

bool xcc_integer_replace(xcc_rewrite *r, xcc_value *y, xcc_value *made)
{
    if (made != NULL)
        return xcc_rewrite_replace(r, y, made);
    /* If inference fails, the rule's assumptions do not hold, so the graph stays unchanged. */
    const xcvm_status status = r->m->error->status;
    if (status == XCVM_OUT_OF_MEMORY || status == XCVM_OUT_OF_TIME || status == XCVM_CANCELLED)
        (void)xcc_rewrite_ok(r, status);
    else if (status != XCVM_OK)
        *r->m->error = (xcvm_error){.pc = -1};
    return false;
}

static int quantized_number(double x, const xcc_requantized *to)
{
    const double v = rint((double)((float)x / to->scale)) + to->zero;
    return v < to->low ? to->low : v > to->high ? to->high : (int)v;
}

/* Skips Relu and Clip, which become bounds of the result's bytes, because rounding is monotonic. */
static const xcc_value *take_bounds(const xcc_value *x, xcc_requantized *to)
{
    for (;;) {
        const xcc_node *relu = xcc_sole_producer(x, XCVM_OP_Relu), *clip = xcc_sole_producer(x, XCVM_OP_Clip);
        double low = relu != NULL ? 0.0 : -INFINITY, high = INFINITY;
        if (relu == NULL && clip == NULL)
            return x;
        if (clip != NULL) {
            const xcc_value *min = xcc_node_input(clip, 1), *max = xcc_node_input(clip, 2);
            if ((min != NULL && !xcc_number(min, &low)) || (max != NULL && !xcc_number(max, &high)) || isnan(low) ||
                isnan(high) || low > high)
                return x;
        }
        /* Later bounds apply to earlier ones. */
        const int least = low > -INFINITY ? quantized_number(low, to) : to->low;
        const int most = high < INFINITY ? quantized_number(high, to) : to->high;
        to->low = least;
        to->high = most;
        x = xcc_node_input(relu != NULL ? relu : clip, 0);
    }
}

static bool quantize(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_QuantizeLinear_args *a = XCC_ARGS(QuantizeLinear, n);
    xcc_value *y = xcc_node_output(n, 0);
    xcc_requantized to = {.low = 0, .high = UINT8_MAX, .is_signed = y->type.dtype == XCVM_I8};
    if (!xcvm_dtype_in((xcvm_dtype)y->type.dtype, XCVM_TYPES_BYTE) || a->x->dtype != XCVM_F32 || a->block_size != 0 ||
        a->precision != XCVM_NO_DTYPE ||
        !xcc_scale_of(xcc_value_of(a->scale), xcc_value_of(a->zero_point), to.is_signed, &to.scale, &to.zero))
        return false;
    xcc_value *made = xcc_integer_elements(r, n, xcc_value_of(a->x), &to);
    if (made == NULL && r->status == XCVM_OK) {
        xcc_requantized bounded = to;
        const xcc_value *x = take_bounds(xcc_value_of(a->x), &bounded);
        made = xcc_integer_product(r, n, x, &bounded);
        if (made == NULL && r->status == XCVM_OK && x != xcc_value_of(a->x))
            made = xcc_integer_elements(r, n, x, &bounded);
    }
    return xcc_integer_replace(r, y, made);
}

/* The channels-last float images of a convolution in a region whose only use is `v`. */
static const xcc_value *float_images(const xcc_value *v)
{
    const xcc_value *last = xcc_used_once(v) ? transposed_from(v, to_first) : NULL, *made = last;
    if (last != NULL && xcc_producer(last, XCVM_OP_Relu) != NULL)
        made = xcc_node_input(last->producer, 0);
    return made != NULL && xcc_used_once(last) && xcc_producer(made, XCVM_OP_QuantizedGemm) != NULL ? last : NULL;
}

/* Such floats keep their layout until a node with fewer elements. */
static bool relu_of_floats(xcc_rewrite *r, xcc_node *n)
{
    const xcc_value *x = float_images(xcc_node_input(n, 0));
    if (x == NULL)
        return false;
    xcc_builder b = xcc_builder_before(n);
    xcc_value *y = xcc_apply(&b, Relu, y, .x = XCC_IN(x));
    return xcc_rewrite_replace(r, xcc_node_output(n, 0), xcc_region_edge(&b, (xcc_region_tensor){y, true}, false));
}

static bool mean_of_floats(xcc_rewrite *r, xcc_node *n)
{
    static const int64_t rows_and_columns[] = {1, 2};
    const xcvm_ReduceMean_args *a = XCC_ARGS(ReduceMean, n);
    const xcc_value *x = float_images(xcc_node_input(n, 0));
    if (x == NULL || a->axes == NULL || !xcc_is_over_images(xcc_value_of(a->axes)))
        return false;
    xcc_builder b = xcc_builder_before(n);
    const xcc_value *axes = xcc_constant_i64(n->graph, 2, rows_and_columns);
    xcc_value *y = axes != NULL
                       ? xcc_apply(&b, ReduceMean, y, .x = XCC_IN(x), .axes = XCC_IN(axes), .keepdims = a->keepdims)
                       : NULL;
    return xcc_rewrite_replace(r, xcc_node_output(n, 0),
                               xcc_region_edge(&b, (xcc_region_tensor){y, a->keepdims != 0}, false));
}

/* Counts for the report. */
static void count_integer_nodes(xcc_graph *g)
{
    for (xcc_node *n = g->first; n != NULL; n = n->next) {
        g->module->compilation->integers.made += xcc_is(n, XCVM_OP_QuantizedConv) ||
                                                 xcc_is(n, XCVM_OP_QuantizedDepthwiseConv) ||
                                                 xcc_is(n, XCVM_OP_QuantizedGemm) || xcc_is(n, XCVM_OP_QuantizedLSTM);
        xcc_integer_count_left(g->module, n);
        xcc_integer_count_left_lstm(g->module, n);
        for (size_t i = 0; i < n->body_count; i++)
            count_integer_nodes(n->bodies[i]);
    }
}

xcvm_status xcc_pass_integer(xcc_module *m)
{
    static const xcc_rule rules[] = {
        {XCVM_OP_QuantizeLinear, quantize, "quantized result of an operator on dequantized operands"},
        {XCVM_OP_QLinearConv, xcc_integer_qlinear_conv, "convolution with constant filters"},
        {XCVM_OP_QLinearMatMul, xcc_integer_qlinear_matmul, "product with a constant matrix"},
    };
    static const xcc_rule to_float[] = {
        {XCVM_OP_Conv, xcc_integer_conv_to_float, "float result from dequantized bytes"},
        {XCVM_OP_Relu, relu_of_floats, "function of a convolution's float result"},
        {XCVM_OP_ReduceMean, mean_of_floats, "function of a convolution's float result"},
        {XCVM_OP_Gemm, xcc_integer_to_float, "float result from dequantized bytes"},
        {XCVM_OP_MatMul, xcc_integer_to_float, "float result from dequantized bytes"},
        {XCVM_OP_LSTM, xcc_integer_lstm, "LSTM with quantized weights"},
        {XCVM_OP_Mul, xcc_integer_dynamic, "product of integers times a scale"},
        {XCVM_OP_Add, xcc_integer_shift, "addend of each row of a product"},
    };
    const xcc_options *o = m->options;
    if (o->backprop || o->train != NULL || o->training.evaluate || o->quantized.integers == XCC_INTEGER_NEVER)
        return XCVM_OK;
    XCVM_TRY(xcc_rewrite_run(m, rules, sizeof rules / sizeof *rules, NULL));
    XCVM_TRY(xcc_rewrite_run(m, to_float, sizeof to_float / sizeof *to_float, NULL));
    count_integer_nodes(m->graph);
    return XCVM_OK;
}
