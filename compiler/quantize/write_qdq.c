/* The QDQ form: the float operators, and between them QuantizeLinear and DequantizeLinear. */
#include "compiler/quantize/model_writer.h"

#include "compiler/quantize/relu.h"

#include <math.h>
#include <string.h>

static bool is_operand(const xcc_quant_node *n, size_t index)
{
    return n->quantized && (index >= 32 || (n->rule->operands >> index & 1) != 0);
}

/* ---- Pairs ---- */

static void put_pair(xcc_model_writer *w, xcc_quant_tensor *t)
{
    const char *scale = xcc_put_scale(w, t), *zero_point = xcc_put_zero_point(w, t);
    const char *domain = xcc_quant_domain(w, w->q->o.activations);
    t->quantized_name = xcc_put_name(w, t->name, "_quantized");
    t->dequantized_name = xcc_put_name(w, t->name, "_dequantized");
    (void)xcc_put_node(w, domain, "QuantizeLinear", 3, (const char *[]){t->name, scale, zero_point}, t->quantized_name);
    (void)xcc_put_node(w, domain, "DequantizeLinear", 3, (const char *[]){t->quantized_name, scale, zero_point},
                       t->dequantized_name);
}

/* A constant that is an operand as activations are. */
static xcvm_status put_constant(xcc_model_writer *w, xcc_quant_tensor *t)
{
    if (t->dequantized_name != NULL)
        return XCVM_OK;
    if (w->q->o.trainable) {
        put_pair(w, t);
        return XCVM_OK;
    }
    xcc_tensor shape;
    XCVM_TRY(xcc_quant_constant(w, t, &shape));
    const char *scale = xcc_put_scale(w, t), *zero_point = xcc_put_zero_point(w, t);
    t->dequantized_name = xcc_put_name(w, t->name, "_dequantized");
    (void)xcc_put_node(w, xcc_quant_domain(w, w->q->o.activations), "DequantizeLinear", 3,
                       (const char *[]){t->quantized_name, scale, zero_point}, t->dequantized_name);
    return XCVM_OK;
}

static const char *put_dequantize(xcc_model_writer *w, xcvm_dtype dtype, const char *x, const char *scale,
                                  const char *zero_point, int axis)
{
    const char *y = xcc_put_name(w, x, "_dequantized");
    Onnx__NodeProto *n = xcc_put_node(w, xcc_quant_domain(w, dtype), "DequantizeLinear", zero_point != NULL ? 3 : 2,
                                      (const char *[]){x, scale, zero_point}, y);
    if (axis >= 0)
        xcc_put_int(w, n, "axis", axis);
    return y;
}

/* ---- Nodes ---- */

/* Weights that learn become integers in the program. Those of two nodes do so once. */
static void put_rounding(xcc_model_writer *w, const char *name, const xcc_integer_weights *weights)
{
    for (size_t i = 0; i < w->node_count; i++)
        if (w->nodes[i]->n_output == 1 && strcmp(w->nodes[i]->output[0], weights->name) == 0)
            return;
    Onnx__NodeProto *n = xcc_put_node(w, xcc_quant_domain(w, w->q->o.weights), "QuantizeLinear", 3,
                                      (const char *[]){name, weights->scale, weights->zero_point}, weights->name);
    if (weights->axis >= 0)
        xcc_put_int(w, n, "axis", weights->axis);
}

xcvm_status xcc_put_dequantized(xcc_model_writer *w, const xcc_quant_node *n, const char **inputs, size_t *input_count)
{
    const quantizer *q = w->q;
    const bool activations = q->o.activations != XCVM_F32 && n->body == NULL && n->rule->kind == XCC_QUANT_WEIGHTED &&
                             n->level == XCC_LEVEL_INTEGER;
    const xcc_quant_tensor *x = xcc_quant_input(q, n, 0);
    const float input_scale = activations ? x->like->scale : 0;
    xcc_integer_weights weights = {.name = NULL};
    for (size_t i = 1; i < n->proto->n_input && i <= 2; i++) {
        const xcc_quant_tensor *t = is_operand(n, i) ? xcc_quant_input(q, n, i) : NULL;
        if (t == NULL || t->constant == NULL)
            continue;
        XCVM_TRY(xcc_put_weights(w, n, i, false, &weights));
        if (q->o.trainable)
            put_rounding(w, t->name, &weights);
        inputs[i] = put_dequantize(w, q->o.weights, weights.name, weights.scale, weights.zero_point, weights.axis);
    }
    if (n->rule->kind != XCC_QUANT_WEIGHTED || xcc_quant_is(n, "MatMul"))
        return XCVM_OK;
    const char *bias = NULL, *name = "", *scale = NULL;
    XCVM_TRY(xcc_put_float_bias(w, n, &bias));
    if (activations && weights.name != NULL && !q->o.trainable)
        XCVM_TRY(xcc_put_bias(w, n, input_scale, &weights, &name, &scale, NULL));
    if (name[0] != '\0')
        bias = put_dequantize(w, XCVM_I32, name, scale, NULL, weights.axis >= 0 ? 0 : -1);
    if (bias != NULL) {
        inputs[2] = bias;
        *input_count = *input_count < 3 ? 3 : *input_count;
    }
    return XCVM_OK;
}

/* A sum that is the corrected bias of the product before it. */
static xcvm_status put_sum_bias(xcc_model_writer *w, const xcc_quant_node *n, const char **inputs)
{
    const quantizer *q = w->q;
    const xcc_quant_node *product = n->epilogue_of != XCC_NO_NODE ? &q->nodes[n->epilogue_of] : NULL;
    if (product == NULL || product->bias_change == NULL || !product->quantized || !xcc_quant_is(n, "Add"))
        return XCVM_OK;
    for (size_t i = 0; i < 2; i++) {
        const xcc_quant_tensor *t = xcc_quant_input(q, n, i);
        xcc_tensor shape;
        float *x;
        if (!xcc_quant_is_weight(t))
            continue;
        XCVM_TRY(xcc_quant_floats(w->q, t, &w->arena, &shape, &x));
        if (shape.count != product->bias_change_count)
            continue;
        for (size_t k = 0; k < shape.count; k++)
            x[k] += product->bias_change[k];
        inputs[i] = xcc_put_name(w, t->name, "_corrected");
        xcc_put_constant(w, inputs[i], XCVM_F32, shape.rank, shape.dims, x, shape.bytes);
    }
    return XCVM_OK;
}

/* True if a node that computes in floats reads floats that another one computed, which are rounded for other readers
 * only. */
static bool reads_floats(const quantizer *q, const xcc_quant_node *n, const xcc_quant_tensor *t)
{
    const xcc_quant_node *by = xcc_quant_producer(q, t);
    return !xcc_quant_is_integer(n) && t->constant == NULL && (by == NULL || !xcc_quant_is_integer(by));
}

static xcvm_status put_node(xcc_model_writer *w, const xcc_quant_node *n)
{
    const quantizer *q = w->q;
    const Onnx__NodeProto *p = n->proto;
    const char **inputs = xcvm_arena_allocate(&w->arena, (p->n_input + 3) * sizeof *inputs),
               **outputs = xcvm_arena_allocate(&w->arena, (p->n_output + 1) * sizeof *outputs);
    if (inputs == NULL || outputs == NULL)
        return xcc_out_of_memory(&w->q->m);
    inputs[p->n_input] = inputs[p->n_input + 1] = inputs[p->n_input + 2] = "";
    for (size_t i = 0; i < p->n_input; i++) {
        xcc_quant_tensor *t = xcc_quant_input(q, n, i);
        inputs[i] = p->input[i];
        if (t == NULL || !t->quantized)
            continue;
        if (t->constant != NULL && is_operand(n, i) && (n->rule->kind != XCC_QUANT_WEIGHTED || i != 1))
            XCVM_TRY(put_constant(w, t));
        if (t->dequantized_name != NULL && (t->constant == NULL || is_operand(n, i)) && !reads_floats(q, n, t))
            inputs[i] = t->dequantized_name;
    }
    size_t input_count = p->n_input;
    if (n->quantized && (n->rule->kind == XCC_QUANT_WEIGHTED || n->rule->kind == XCC_QUANT_RECURRENT))
        XCVM_TRY(xcc_put_dequantized(w, n, inputs, &input_count));
    XCVM_TRY(put_sum_bias(w, n, inputs));
    for (size_t i = 0; i < p->n_output; i++)
        outputs[i] = p->output[i];
    if (n->epilogue != XCC_NO_NODE && xcc_relu_is_implied(q, &q->nodes[n->epilogue]))
        outputs[0] = q->nodes[n->epilogue].proto->output[0];
    Onnx__NodeProto widened = *p;
    widened.n_input = input_count;
    xcc_quant_node like = *n;
    like.proto = &widened;
    (void)xcc_put_like(w, &like, inputs, outputs);
    for (size_t i = 0; i < p->n_output; i++) {
        xcc_quant_tensor *t = xcc_quant_find(q, outputs[i]);
        if (t != NULL && t->quantized && t->constant == NULL)
            put_pair(w, t);
    }
    return XCVM_OK;
}

xcvm_status xcc_write_qdq(xcc_model_writer *w, bool tensors)
{
    quantizer *q = w->q;
    w->integers = true;
    for (size_t i = 0; i < q->tensor_count; i++)
        if (q->tensors[i]->is_input && q->tensors[i]->quantized)
            put_pair(w, q->tensors[i]);
    for (size_t i = 0; i < q->node_count; i++) {
        const xcc_quant_node *n = &q->nodes[i];
        XCVM_TRY(xcc_poll(&q->m));
        if (n->gone || xcc_relu_is_implied(q, n))
            continue;
        if (n->quantized && xcvm_dtype_bits(q->o.weights) == 4)
            XCVM_TRY(xcc_put_blocks(w, n));
        else
            XCVM_TRY(put_node(w, n));
    }
    for (size_t i = 0; i < q->tensor_count && tensors; i++) {
        const xcc_quant_tensor *t = q->tensors[i];
        if (t->quantized && t->constant == NULL && t->dequantized_name != NULL)
            xcc_put_output(w, t->dequantized_name);
    }
    return XCVM_OK;
}
