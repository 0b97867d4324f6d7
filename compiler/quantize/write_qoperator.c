/* The QOperator form: operators on quantized tensors. What has none is computed in float, between DequantizeLinear and
 * QuantizeLinear. */
#include "compiler/quantize/model_writer.h"
#include "compiler/quantize/relu.h"

#include <string.h>

/* The float form of a tensor, created on first use; inputs and constants exist already. */
static const char *as_float(xcc_model_writer *w, xcc_quant_tensor *t)
{
    if (t->dequantized_name == NULL && t->quantized_name != NULL && t->constant == NULL && !t->is_input) {
        t->dequantized_name = t->name;
        (void)xcc_put_node(w, xcc_quant_domain(w, w->q->o.activations), "DequantizeLinear", 3,
                           (const char *[]){t->quantized_name, xcc_put_scale(w, t), xcc_put_zero_point(w, t)}, t->name);
    }
    return t->name;
}

static const char *put_quantize(xcc_model_writer *w, xcc_quant_tensor *t, const char *name)
{
    const char *y = xcc_put_name(w, t->name, "_quantized");
    (void)xcc_put_node(w, xcc_quant_domain(w, w->q->o.activations), "QuantizeLinear", 3,
                       (const char *[]){name, xcc_put_scale(w, t), xcc_put_zero_point(w, t)}, y);
    return y;
}

/* The integers of an operand. */
static xcvm_status as_integers(xcc_model_writer *w, xcc_quant_tensor *t, const char **name)
{
    xcc_tensor shape;
    if (t->constant != NULL)
        XCVM_TRY(xcc_quant_constant(w, t, &shape));
    if (t->quantized_name == NULL)
        t->quantized_name = put_quantize(w, t, t->name);
    *name = t->quantized_name;
    return XCVM_OK;
}

/* ---- Operands of the operators ---- */

enum { MOST_OPERANDS = 9 };
typedef struct operands {
    const char **at;
    size_t count;
} operands;

/* A tensor, its scale and its zero point. */
static xcvm_status add_tensor(xcc_model_writer *w, operands *o, xcc_quant_tensor *t)
{
    const char *name;
    XCVM_TRY(as_integers(w, t, &name));
    o->at[o->count++] = name;
    o->at[o->count++] = xcc_put_scale(w, t);
    o->at[o->count++] = xcc_put_zero_point(w, t);
    return XCVM_OK;
}

static void add_result_scale(xcc_model_writer *w, operands *o, xcc_quant_tensor *result)
{
    o->at[o->count++] = xcc_put_scale(w, result);
    o->at[o->count++] = xcc_put_zero_point(w, result);
}

static xcvm_status add_weighted(xcc_model_writer *w, const xcc_quant_node *n, xcc_quant_tensor *result, operands *o,
                                bool *possible)
{
    const quantizer *q = w->q;
    xcc_quant_tensor *x = xcc_quant_input(q, n, 0), *t = xcc_quant_input(q, n, 1);
    xcc_integer_weights weights = {.axis = -1};
    const char *bias = "";
    XCVM_TRY(add_tensor(w, o, x));
    if (t->constant != NULL) {
        XCVM_TRY(xcc_put_weights(w, n, 1, false, &weights));
        o->at[o->count++] = weights.name;
        o->at[o->count++] = weights.scale;
        o->at[o->count++] = weights.zero_point;
    } else {
        XCVM_TRY(add_tensor(w, o, t));
    }
    if (!xcc_quant_is(n, "MatMul")) {
        XCVM_TRY(xcc_put_bias(w, n, x->like->scale, &weights, &bias, NULL, NULL));
        const bool has_bias = n->bias_change != NULL || (n->proto->n_input > 2 && n->proto->input[2][0] != '\0');
        *possible = !has_bias || bias[0] != '\0';
    }
    if (xcc_quant_is(n, "Gemm")) {
        o->at[o->count++] = bias;
        add_result_scale(w, o, result);
    } else {
        add_result_scale(w, o, result);
        if (bias[0] != '\0')
            o->at[o->count++] = bias;
    }
    return XCVM_OK;
}

static xcvm_status add_between(xcc_model_writer *w, const xcc_quant_node *n, xcc_quant_tensor *result, operands *o)
{
    const bool first = xcc_quant_is(n, "Concat"); /* the number of operands varies, and they are last */
    if (first)
        add_result_scale(w, o, result);
    for (size_t i = 0; i < n->proto->n_input && (first || i < 2); i++) {
        xcc_quant_tensor *t = xcc_quant_input(w->q, n, i);
        if (t != NULL && (n->rule->operands >> (i < 31 ? i : 31) & 1) != 0)
            XCVM_TRY(add_tensor(w, o, t));
    }
    if (!first)
        add_result_scale(w, o, result);
    return XCVM_OK;
}

/* ---- Nodes ---- */

static bool is_pass_on_integers(const quantizer *q, const xcc_quant_node *n)
{
    return n->rule->kind == XCC_QUANT_PASS && !xcc_quant_is(n, "Dropout") && !xcc_quant_is(n, "Upsample") &&
           (q->opset >= 12 || !xcc_quant_is(n, "MaxPool")) && (q->opset >= 11 || !xcc_quant_is(n, "Resize"));
}

/* Writes a node without an integer operator: it computes in float, between conversions. */
static xcvm_status put_float(xcc_model_writer *w, const xcc_quant_node *n)
{
    const quantizer *q = w->q;
    const Onnx__NodeProto *p = n->proto;
    const char **inputs = xcvm_arena_allocate(&w->arena, (p->n_input + 3) * sizeof *inputs);
    if (inputs == NULL)
        return xcc_out_of_memory(&w->q->m);
    inputs[p->n_input] = inputs[p->n_input + 1] = inputs[p->n_input + 2] = "";
    for (size_t i = 0; i < p->n_input; i++) {
        xcc_quant_tensor *t = xcc_quant_input(q, n, i);
        inputs[i] = t != NULL ? as_float(w, t) : p->input[i];
    }
    Onnx__NodeProto widened = *p;
    xcc_quant_node like = *n;
    if (n->quantized && (n->rule->kind == XCC_QUANT_WEIGHTED || n->rule->kind == XCC_QUANT_RECURRENT))
        XCVM_TRY(xcc_put_dequantized(w, n, inputs, &widened.n_input));
    like.proto = &widened;
    (void)xcc_put_like(w, &like, inputs, NULL);
    for (size_t i = 0; i < p->n_output; i++) {
        xcc_quant_tensor *t = xcc_quant_output(q, n, i);
        if (t != NULL)
            t->dequantized_name = t->name;
    }
    return XCVM_OK;
}

/* Writes the integer operator. *done is false, and nothing is written, if there is none. */
static xcvm_status put_linear(xcc_model_writer *w, const xcc_quant_node *n, bool *done)
{
    const quantizer *q = w->q;
    const xcc_quant_node *last = xcc_quant_last(q, n);
    xcc_quant_tensor *result = xcc_quant_output(q, last, 0);
    *done = false;
    if (!n->quantized || n->level != XCC_LEVEL_INTEGER || result == NULL || !result->quantized)
        return XCVM_OK;
    operands o = {.at = xcvm_arena_allocate(&w->arena, (3 * n->proto->n_input + MOST_OPERANDS) * sizeof *o.at)};
    if (o.at == NULL)
        return xcc_out_of_memory(&w->q->m);
    if (is_pass_on_integers(q, n)) {
        const char **outputs = xcvm_arena_allocate(&w->arena, (n->proto->n_output + 1) * sizeof *outputs);
        if (outputs == NULL)
            return xcc_out_of_memory(&w->q->m);
        for (size_t i = 0; i < n->proto->n_input; i++)
            o.at[i] = n->proto->input[i];
        XCVM_TRY(as_integers(w, xcc_quant_input(q, n, 0), &o.at[0]));
        for (size_t i = 0; i < n->proto->n_output; i++) {
            xcc_quant_tensor *t = xcc_quant_output(q, n, i);
            outputs[i] = t != NULL ? t->quantized_name = xcc_put_name(w, t->name, "_quantized") : "";
        }
        (void)xcc_put_like(w, n, o.at, outputs);
        *done = true;
        return XCVM_OK;
    }
    if (n->rule->linear == NULL)
        return XCVM_OK;
    bool possible = true;
    if (n->rule->kind == XCC_QUANT_WEIGHTED)
        XCVM_TRY(add_weighted(w, n, result, &o, &possible));
    else
        XCVM_TRY(add_between(w, n, result, &o));
    if (!possible)
        return XCVM_OK;
    const char *y = xcc_put_name(w, result->name, "_quantized");
    Onnx__NodeProto *node = xcc_put_node(w, n->rule->linear_domain, n->rule->linear, o.count, o.at, y);
    for (size_t i = 0; i < n->proto->n_attribute; i++)
        if (strcmp(n->proto->attribute[i]->name, "beta") != 0)
            xcc_put_attribute(w, node, n, n->proto->attribute[i]->name);
    *done = true;
    result->quantized_name = y;
    if (last == n || xcc_relu_is_implied(q, last))
        return XCVM_OK;
    /* A bound that no integer ends at: it is drawn in float. */
    const char *x = xcc_put_name(w, y, "_dequantized"), *bounded = xcc_put_name(w, y, "_bounded");
    const char **inputs = xcvm_arena_allocate(&w->arena, (last->proto->n_input + 1) * sizeof *inputs);
    if (inputs == NULL)
        return xcc_out_of_memory(&w->q->m);
    (void)xcc_put_node(w, xcc_quant_domain(w, q->o.activations), "DequantizeLinear", 3,
                       (const char *[]){y, xcc_put_scale(w, result), xcc_put_zero_point(w, result)}, x);
    for (size_t i = 1; i < last->proto->n_input; i++)
        inputs[i] = last->proto->input[i];
    inputs[0] = x;
    (void)xcc_put_like(w, last, inputs, (const char *[]){bounded});
    result->quantized_name = put_quantize(w, result, bounded);
    return XCVM_OK;
}

xcvm_status xcc_write_qoperator(xcc_model_writer *w)
{
    quantizer *q = w->q;
    for (size_t i = 0; i < q->node_count; i++) {
        const xcc_quant_node *n = &q->nodes[i];
        bool done = false;
        XCVM_TRY(xcc_poll(&q->m));
        if (n->gone)
            continue;
        const xcc_quant_node *first = n;
        while (first->epilogue_of != XCC_NO_NODE)
            first = &q->nodes[first->epilogue_of];
        /* An epilogue is part of the integer operator before it. */
        const xcc_quant_tensor *own = xcc_quant_output(q, xcc_quant_last(q, first), 0);
        if (first != n && own != NULL && own->quantized_name != NULL)
            continue;
        XCVM_TRY(put_linear(w, n, &done));
        if (!done)
            XCVM_TRY(put_float(w, n));
        const xcc_quant_node *last = done ? xcc_quant_last(q, n) : n;
        for (size_t k = 0; k < last->proto->n_output; k++) {
            xcc_quant_tensor *t = xcc_quant_output(q, last, k);
            if (t != NULL && (t->is_output || t->captured))
                (void)as_float(w, t);
        }
    }
    return XCVM_OK;
}
