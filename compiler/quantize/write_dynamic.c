/* The dynamic form: weights are integers, and activations become integers in each run, by DynamicQuantizeLinear. */
#include "compiler/quantize/model_writer.h"

#include <string.h>

/* Operators whose meaning is the same from opset 7 to 11, so that a model of them may be called one of opset 11. */
static const char *const steady[] = {
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Concat",
    "Constant",
    "ConstantOfShape",
    "Conv",
    "Div",
    "Dropout",
    "Erf",
    "Exp",
    "Flatten",
    "GRU",
    "Gather",
    "Gemm",
    "GlobalAveragePool",
    "Identity",
    "LRN",
    "LSTM",
    "LeakyRelu",
    "MatMul",
    "MaxPool",
    "Mul",
    "Pow",
    "ReduceMean",
    "Relu",
    "Reshape",
    "Shape",
    "Sigmoid",
    "Softmax",
    "Split",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Sum",
    "Tanh",
    "Transpose",
    "Unsqueeze",
};

xcvm_status xcc_quant_raise_opset(quantizer *q, int64_t least)
{
    if (q->opset >= least)
        return XCVM_OK;
    for (size_t i = 0; i < q->node_count; i++) {
        const xcc_quant_node *n = &q->nodes[i];
        bool is_steady = q->opset >= 7 && !(xcc_quant_is(n, "BatchNormalization") && xcc_quant_attribute(n, "spatial"));
        bool found = n->gone;
        for (size_t k = 0; k < sizeof steady / sizeof *steady && !found; k++)
            found = xcc_quant_is(n, steady[k]);
        XCVM_CHECK(q->m.error, found && is_steady, UNSUPPORTED,
                   "the model has opset %lld, and this form needs %lld, in which node '%.200s' (%s) may have another "
                   "meaning. Convert the model, or use the QDQ form",
                   (long long)q->opset, (long long)least, n->proto->output[0], n->proto->op_type);
    }
    for (size_t i = 0; i < q->model->n_opset_import; i++) {
        const char *domain = q->model->opset_import[i]->domain;
        if (domain == NULL || domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0)
            q->model->opset_import[i]->version = least;
    }
    q->opset = least;
    return XCVM_OK;
}

/* ---- Activations ---- */

/* A tensor as u8; its scale and zero point are results, too. */
static xcvm_status put_activations(xcc_model_writer *w, xcc_quant_tensor *t)
{
    if (t->quantized_name != NULL)
        return XCVM_OK;
    t->quantized_name = xcc_put_name(w, t->name, "_quantized");
    t->scale_name = xcc_put_name(w, t->name, "_scale");
    t->zero_point_name = xcc_put_name(w, t->name, "_zero_point");
    Onnx__NodeProto *n = xcc_put_node(w, "", "DynamicQuantizeLinear", 1, (const char *[]){t->name}, t->quantized_name);
    char **results = xcvm_arena_allocate(&w->arena, 3 * sizeof *results);
    if (n == NULL || results == NULL)
        return xcc_out_of_memory(&w->q->m);
    results[0] = n->output[0];
    results[1] = (char *)(uintptr_t)t->scale_name;
    results[2] = (char *)(uintptr_t)t->zero_point_name;
    n->output = results;
    n->n_output = 3;
    return XCVM_OK;
}

/* ---- Sums of products ---- */

/* A vector of channels, followed by axes of size 1 for the positions. */
static const char *put_channels(xcc_model_writer *w, const char *stem, const char *suffix, const float *x,
                                int64_t count, int positions)
{
    const char *name = xcc_put_name(w, stem, suffix);
    int64_t dims[XCVM_MAX_RANK];
    const int rank = count > 0 ? 1 + positions : 0;
    for (int i = 0; i < rank; i++)
        dims[i] = i == 0 ? count : 1;
    xcc_put_constant(w, name, XCVM_F32, rank, dims, x, (size_t)(count > 0 ? count : 1) * sizeof *x);
    return name;
}

static xcvm_status put_product(xcc_model_writer *w, const xcc_quant_node *n)
{
    quantizer *q = w->q;
    static const char *const window[] = {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"};
    const bool conv = xcc_quant_is(n, "Conv"), gemm = xcc_quant_is(n, "Gemm");
    xcc_quant_tensor *x = xcc_quant_input(q, n, 0);
    const xcc_quant_tensor *t = xcc_quant_input(q, n, 1);
    const char *result = n->proto->output[0];
    const bool has_bias = n->proto->n_input > 2 && n->proto->input[2][0] != '\0';
    xcc_integer_weights weights;
    XCVM_TRY(put_activations(w, x));
    XCVM_TRY(xcc_put_weights(w, n, 1, gemm && xcc_quant_int(n, "transB", 0) != 0, &weights));
    const int positions = conv ? (int)t->constant->n_dims - 2 : 0;
    const char *sums = xcc_put_name(w, result, "_sums"), *floats = xcc_put_name(w, result, "_float"),
               *scale = xcc_put_name(w, result, "_scale"),
               *product = has_bias ? xcc_put_name(w, result, "_product") : result;
    Onnx__NodeProto *node =
        xcc_put_node(w, "", conv ? "ConvInteger" : "MatMulInteger", 4,
                     (const char *[]){x->quantized_name, weights.name, x->zero_point_name, weights.zero_point}, sums);
    for (size_t i = 0; conv && i < sizeof window / sizeof *window; i++)
        xcc_put_attribute(w, node, n, window[i]);
    xcc_put_int(w, xcc_put_node(w, "", "Cast", 1, (const char *[]){sums}, floats), "to", XCVM_F32);
    /* Gemm multiplies products with alpha. */
    const size_t count = weights.channels > 0 ? (size_t)weights.channels : 1;
    float *factors = xcvm_arena_allocate(&w->arena, count * sizeof *factors);
    if (factors == NULL)
        return xcc_out_of_memory(&q->m);
    for (size_t i = 0; i < count; i++)
        factors[i] = weights.scales[i] * (gemm ? (float)xcc_quant_real(n, "alpha", 1) : 1);
    const char *factor = put_channels(w, t->name, "_factor", factors, weights.channels, positions);
    (void)xcc_put_node(w, "", "Mul", 2, (const char *[]){x->scale_name, factor}, scale);
    (void)xcc_put_node(w, "", "Mul", 2, (const char *[]){floats, scale}, product);
    if (!has_bias)
        return XCVM_OK;
    const char *bias = n->proto->input[2];
    const xcc_quant_tensor *b = xcc_quant_input(q, n, 2);
    const float beta = gemm ? (float)xcc_quant_real(n, "beta", 1) : 1;
    if (conv && xcc_quant_is_weight(b)) {
        xcc_tensor shape;
        float *values;
        XCVM_TRY(xcc_quant_floats(q, b, &w->arena, &shape, &values));
        bias = put_channels(w, b->name, "_channels", values, (int64_t)shape.count, positions);
    } else if (conv) {
        int64_t dims[XCVM_MAX_RANK] = {-1};
        const char *column = xcc_put_name(w, bias, "_dims"), *wide = xcc_put_name(w, result, "_bias");
        const int64_t rank = positions + 1;
        for (int i = 1; i < rank; i++)
            dims[i] = 1;
        xcc_put_constant(w, column, XCVM_I64, 1, &rank, dims, (size_t)rank * sizeof *dims);
        (void)xcc_put_node(w, "", "Reshape", 2, (const char *[]){bias, column}, wide);
        bias = wide;
    } else {
        bias = xcc_put_scaled(w, bias, beta);
    }
    (void)xcc_put_node(w, "", "Add", 2, (const char *[]){product, bias}, result);
    return XCVM_OK;
}

/* ---- LSTM ---- */

/* Scales [directions, gates], and zero points likewise, of weights [directions, in, gates]. */
static xcvm_status put_gates(xcc_model_writer *w, const xcc_quant_node *n, size_t index, const char **operands)
{
    quantizer *q = w->q;
    const xcc_quant_tensor *t = xcc_quant_input(q, n, index);
    xcc_integer_weights weights;
    XCVM_TRY(xcc_put_weights(w, n, index, true, &weights));
    const int64_t directions = t->constant->dims[0], gates = weights.channels;
    const size_t each = gates > 0 ? (size_t)gates : 1, count = (size_t)directions * each;
    float *scales = xcvm_arena_allocate(&w->arena, (count + 1) * sizeof *scales);
    uint8_t *zero_points = xcvm_arena_allocate(&w->arena, count + 1);
    if (scales == NULL || zero_points == NULL)
        return xcc_out_of_memory(&q->m);
    for (size_t i = 0; i < count; i++)
        scales[i] = weights.scales[i % each];
    memset(zero_points, q->o.weights == XCVM_U8 ? 128 : 0, count);
    const char *scale = xcc_put_name(w, t->name, "_scales"), *zero_point = xcc_put_name(w, t->name, "_zero_points");
    const int rank = gates > 0 ? 2 : 1;
    xcc_put_constant(w, scale, XCVM_F32, rank, (const int64_t[]){directions, gates}, scales, count * sizeof *scales);
    xcc_put_constant(w, zero_point, q->o.weights, rank, (const int64_t[]){directions, gates}, zero_points, count);
    operands[index] = weights.name;
    operands[index == 1 ? 8 : 10] = scale;
    operands[index == 1 ? 9 : 11] = zero_point;
    return XCVM_OK;
}

static xcvm_status put_lstm(xcc_model_writer *w, const xcc_quant_node *n)
{
    enum { OPERANDS = 12, OWN = 8 };
    const char *operands[OPERANDS];
    for (size_t i = 0; i < OPERANDS; i++)
        operands[i] = i < OWN && i < n->proto->n_input ? n->proto->input[i] : "";
    XCVM_TRY(put_gates(w, n, 1, operands));
    XCVM_TRY(put_gates(w, n, 2, operands));
    Onnx__NodeProto *node =
        xcc_put_node(w, "com.microsoft", "DynamicQuantizeLSTM", OPERANDS, operands, n->proto->output[0]);
    if (node == NULL)
        return xcc_out_of_memory(&w->q->m);
    node->output = n->proto->output;
    node->n_output = n->proto->n_output;
    for (size_t i = 0; i < n->proto->n_attribute; i++)
        xcc_put_attribute(w, node, n, n->proto->attribute[i]->name);
    return XCVM_OK;
}

xcvm_status xcc_write_dynamic(xcc_model_writer *w)
{
    const quantizer *q = w->q;
    w->integers = true;
    for (size_t i = 0; i < q->node_count; i++) {
        const xcc_quant_node *n = &q->nodes[i];
        XCVM_TRY(xcc_poll(&w->q->m));
        if (n->gone)
            continue;
        if (!n->quantized)
            (void)xcc_put_like(w, n, NULL, NULL);
        else if (n->rule->kind == XCC_QUANT_RECURRENT)
            XCVM_TRY(put_lstm(w, n));
        else
            XCVM_TRY(put_product(w, n));
    }
    return XCVM_OK;
}
