/* Nodes and tensors of the model that is quantized. */
#include "compiler/quantize/quantize.h"

#include "compiler/onnx_model/onnx_model.h"
#include "compiler/quantize/model_writer.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Listing ---- */

static xcc_quant_tensor *tensor_of(quantizer *q, const char *name)
{
    xcc_module *m = &q->m;
    const struct xcc_table_entry *entry = xcc_table_lookup(&q->names, name);
    if (entry != NULL)
        return (xcc_quant_tensor *)(intptr_t)entry->value;
    xcc_quant_tensor *t = xcc_alloc(m, sizeof *t);
    xcc_quant_tensor **tensors =
        xcc_grow(m, q->tensors, q->tensor_count, &q->tensor_capacity, sizeof(xcc_quant_tensor *));
    if (t == NULL || tensors == NULL || xcc_table_put(m, &q->names, name, (intptr_t)t) != XCVM_OK)
        return NULL;
    *t = (xcc_quant_tensor){.name = name, .producer = XCC_NO_NODE, .like = t, .probe = -1};
    q->tensors = tensors;
    tensors[q->tensor_count++] = t;
    return t;
}

static xcvm_status consume(quantizer *q, const char *name, int node)
{
    if (name[0] == '\0')
        return XCVM_OK;
    xcc_quant_tensor *t = tensor_of(q, name);
    if (t == NULL)
        return XCVM_OUT_OF_MEMORY;
    int *consumers = xcc_grow(&q->m, t->consumers, t->consumer_count, &t->consumer_capacity, sizeof *consumers);
    if (consumers == NULL)
        return XCVM_OUT_OF_MEMORY;
    t->consumers = consumers;
    consumers[t->consumer_count++] = node;
    return XCVM_OK;
}

static xcvm_status take_name(quantizer *q, const char *name)
{
    return name != NULL && name[0] != '\0' ? xcc_table_put(&q->m, &q->taken, name, 1) : XCVM_OK;
}

/* Names in a body: all are reserved, and those of the main graph that it reads are captured. */
static xcvm_status list_body(quantizer *q, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        XCVM_TRY(take_name(q, g->initializer[i]->name));
    for (size_t i = 0; i < g->n_input; i++)
        XCVM_TRY(take_name(q, g->input[i]->name));
    for (size_t i = 0; i < g->n_output; i++) {
        XCVM_CHECK(q->m.error, g->output[i]->name != NULL, INVALID_MODEL, "output %zu of a body has no name", i);
        xcc_quant_tensor *t = xcc_quant_find(q, g->output[i]->name);
        if (t != NULL)
            t->captured = true;
    }
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *n = g->node[i];
        XCVM_TRY(xcc_poll(&q->m));
        XCVM_TRY(take_name(q, n->name));
        for (size_t k = 0; k < n->n_output; k++)
            XCVM_TRY(take_name(q, n->output[k]));
        for (size_t k = 0; k < n->n_input; k++) {
            xcc_quant_tensor *t = xcc_quant_find(q, n->input[k]);
            if (t != NULL)
                t->captured = true;
        }
        for (size_t k = 0; k < n->n_attribute; k++) {
            if (n->attribute[k]->g != NULL)
                XCVM_TRY(list_body(q, n->attribute[k]->g));
            for (size_t b = 0; b < n->attribute[k]->n_graphs; b++)
                XCVM_TRY(list_body(q, n->attribute[k]->graphs[b]));
        }
    }
    return XCVM_OK;
}

static xcvm_status list_node(quantizer *q, int index)
{
    xcc_quant_node *n = &q->nodes[index];
    Onnx__NodeProto *p = q->graph->node[index];
    *n = (xcc_quant_node){.proto = p,
                          .reason = "",
                          .epilogue = XCC_NO_NODE,
                          .epilogue_of = XCC_NO_NODE,
                          .harm = (double)NAN,
                          .weights_harm = (double)NAN};
    XCVM_TRY(take_name(q, p->name));
    XCVM_CHECK(q->m.error, p->n_output > 0, INVALID_MODEL, "node '%.200s' (%s) has no results", xcc_node_label(p),
               p->op_type);
    for (size_t i = 0; i < p->n_attribute; i++)
        XCVM_CHECK(q->m.error, p->attribute[i]->name != NULL, INVALID_MODEL,
                   "attribute %zu of node '%.200s' has no name", i, xcc_node_label(p));
    for (size_t i = 0; i < p->n_input; i++)
        XCVM_TRY(consume(q, p->input[i], index));
    for (size_t i = 0; i < p->n_output; i++) {
        if (p->output[i][0] == '\0')
            continue;
        xcc_quant_tensor *t = tensor_of(q, p->output[i]);
        if (t == NULL)
            return XCVM_OUT_OF_MEMORY;
        XCVM_CHECK(q->m.error, t->producer == XCC_NO_NODE, INVALID_MODEL, "\"%.200s\" is the result of two nodes",
                   t->name);
        t->producer = index;
    }
    const Onnx__AttributeProto *value = xcc_quant_is(n, "Constant") ? xcc_quant_attribute(n, "value") : NULL;
    xcc_quant_tensor *result = xcc_quant_output(q, n, 0);
    if (value != NULL && value->t != NULL && p->n_output == 1 && result != NULL)
        result->constant = value->t;
    return XCVM_OK;
}

xcvm_status xcc_quant_list(quantizer *q)
{
    Onnx__GraphProto *g = q->graph;
    XCVM_CHECK(q->m.error, g->n_node < INT32_MAX, UNSUPPORTED, "the model has %zu nodes, too many", g->n_node);
    q->node_count = g->n_node;
    q->nodes = xcc_alloc(&q->m, (g->n_node + 1) * sizeof *q->nodes);
    if (q->nodes == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->n_initializer; i++) {
        const Onnx__TensorProto *constant = g->initializer[i];
        XCVM_CHECK(q->m.error, constant->name != NULL && constant->name[0] != '\0', INVALID_MODEL,
                   "initializer %zu has no name", i);
        xcc_quant_tensor *t = tensor_of(q, constant->name);
        if (t == NULL)
            return XCVM_OUT_OF_MEMORY;
        t->constant = constant;
        t->initializer = i + 1;
    }
    q->initializer_capacity = g->n_initializer;
    for (size_t i = 0; i < g->n_input; i++) {
        XCVM_CHECK(q->m.error, g->input[i]->name != NULL, INVALID_MODEL, "input %zu has no name", i);
        xcc_quant_tensor *t = tensor_of(q, g->input[i]->name);
        if (t == NULL)
            return XCVM_OUT_OF_MEMORY;
        t->is_input = t->constant == NULL;
    }
    for (size_t i = 0; i < g->n_node; i++) {
        XCVM_TRY(xcc_poll(&q->m));
        XCVM_TRY(list_node(q, (int)i));
    }
    for (size_t i = 0; i < g->n_output; i++) {
        xcc_quant_tensor *t = xcc_quant_find(q, g->output[i]->name);
        XCVM_CHECK(q->m.error, t != NULL, INVALID_MODEL, "output %zu is computed by no node", i);
        t->is_output = true;
    }
    for (size_t i = 0; i < q->node_count; i++) {
        const Onnx__NodeProto *p = q->nodes[i].proto;
        for (size_t k = 0; k < p->n_attribute; k++) {
            if (p->attribute[k]->g != NULL)
                XCVM_TRY(list_body(q, p->attribute[k]->g));
            for (size_t b = 0; b < p->attribute[k]->n_graphs; b++)
                XCVM_TRY(list_body(q, p->attribute[k]->graphs[b]));
        }
    }
    for (size_t i = 0; i < q->tensor_count; i++)
        XCVM_TRY(take_name(q, q->tensors[i]->name));
    return XCVM_OK;
}

/* ---- Looking ---- */

xcc_quant_tensor *xcc_quant_find(const quantizer *q, const char *name)
{
    const struct xcc_table_entry *entry = name != NULL && name[0] != '\0' ? xcc_table_lookup(&q->names, name) : NULL;
    return entry != NULL ? (xcc_quant_tensor *)(intptr_t)entry->value : NULL;
}

xcc_quant_tensor *xcc_quant_input(const quantizer *q, const xcc_quant_node *n, size_t index)
{
    return index < n->proto->n_input ? xcc_quant_find(q, n->proto->input[index]) : NULL;
}

xcc_quant_tensor *xcc_quant_output(const quantizer *q, const xcc_quant_node *n, size_t index)
{
    return index < n->proto->n_output ? xcc_quant_find(q, n->proto->output[index]) : NULL;
}

const Onnx__AttributeProto *xcc_quant_attribute(const xcc_quant_node *n, const char *name)
{
    for (size_t i = 0; i < n->proto->n_attribute; i++)
        if (n->proto->attribute[i]->name != NULL && strcmp(n->proto->attribute[i]->name, name) == 0)
            return n->proto->attribute[i];
    return NULL;
}

int64_t xcc_quant_int(const xcc_quant_node *n, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *a = xcc_quant_attribute(n, name);
    return a != NULL && a->has_i ? a->i : otherwise;
}

double xcc_quant_real(const xcc_quant_node *n, const char *name, double otherwise)
{
    const Onnx__AttributeProto *a = xcc_quant_attribute(n, name);
    return a != NULL && a->has_f ? (double)a->f : otherwise;
}

bool xcc_quant_is(const xcc_quant_node *n, const char *op)
{
    return n->proto->op_type != NULL && strcmp(n->proto->op_type, op) == 0 && xcc_domain(n->proto->domain)[0] == '\0';
}

bool xcc_quant_is_weight(const xcc_quant_tensor *t)
{
    return t != NULL && t->constant != NULL && t->constant->data_type == XCVM_F32;
}

/* ---- Constants ---- */

xcvm_status xcc_quant_read(quantizer *q, const xcc_quant_tensor *t, xcc_tensor *tensor)
{
    const xcvm_status status = xcc_tensor_read(t->constant, &q->m.arena, &q->files, tensor, q->m.error);
    if (status != XCVM_OK)
        xcvm_error_prefix(q->m.error, "constant \"%.200s\"", t->name);
    return status;
}

xcvm_status xcc_quant_floats(quantizer *q, const xcc_quant_tensor *t, xcvm_arena *arena, xcc_tensor *shape,
                             float **floats)
{
    XCVM_TRY(xcc_quant_read(q, t, shape));
    *floats = xcvm_arena_allocate(arena, shape->bytes + 1);
    if (*floats == NULL)
        return xcc_out_of_memory(&q->m);
    memcpy(*floats, shape->data, shape->bytes);
    for (size_t i = 0; i < shape->count; i++)
        XCVM_CHECK(q->m.error, fabsf((*floats)[i]) <= FLT_MAX, INVALID_ARGUMENT,
                   "constant \"%.200s\" has %s, which integers cannot represent", t->name,
                   isnan((*floats)[i]) ? "NaN (not a number)" : "an infinity");
    return XCVM_OK;
}

static Onnx__TensorProto *make_constant(quantizer *q, const char *name, int rank, const int64_t *dims,
                                        const float *floats)
{
    size_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= (size_t)dims[i];
    return xcc_tensor_proto(&q->m.arena, name, XCVM_F32, rank, dims, floats, count * sizeof *floats);
}

/* Makes `made`, the value of `t`, an initializer, and replaces the existing one, if any. */
static xcvm_status put_initializer(quantizer *q, xcc_quant_tensor *t, Onnx__TensorProto *made)
{
    Onnx__GraphProto *g = q->graph;
    if (t->initializer == 0) {
        Onnx__TensorProto **all =
            xcc_grow(&q->m, g->initializer, g->n_initializer, &q->initializer_capacity, sizeof(Onnx__TensorProto *));
        if (all == NULL)
            return XCVM_OUT_OF_MEMORY;
        g->initializer = all;
        t->initializer = ++g->n_initializer;
    }
    g->initializer[t->initializer - 1] = made;
    return XCVM_OK;
}

xcvm_status xcc_quant_set(quantizer *q, xcc_quant_tensor *t, int rank, const int64_t *dims, const float *floats)
{
    Onnx__TensorProto *made = make_constant(q, t->name, rank, dims, floats);
    if (made == NULL)
        return xcc_out_of_memory(&q->m);
    if (t->producer != XCC_NO_NODE) {
        q->nodes[t->producer].gone = true;
        t->producer = XCC_NO_NODE;
    }
    t->constant = made;
    return put_initializer(q, t, made);
}

xcvm_status xcc_quant_add(quantizer *q, const char *like, int rank, const int64_t *dims, const float *floats,
                          xcc_quant_tensor **made)
{
    const char *name = xcc_quant_name(q, &q->taken, like, "");
    *made = name != NULL ? tensor_of(q, name) : NULL;
    if (*made == NULL)
        return XCVM_OUT_OF_MEMORY;
    return xcc_quant_set(q, *made, rank, dims, floats);
}

xcvm_status xcc_quant_hoist(quantizer *q, const char *like, const Onnx__TensorProto *constant, xcc_quant_tensor **made)
{
    char key[32];
    (void)snprintf(key, sizeof key, "%p", (const void *)constant);
    const struct xcc_table_entry *known = xcc_table_lookup(&q->hoisted, key);
    if (known != NULL) {
        *made = (xcc_quant_tensor *)(intptr_t)known->value;
        return XCVM_OK;
    }
    const char *name = xcc_quant_name(q, &q->taken, like, "_weights");
    const char *own = xcc_string(&q->m, key, strlen(key));
    Onnx__TensorProto *copy = xcc_alloc(&q->m, sizeof *copy);
    *made = name != NULL ? tensor_of(q, name) : NULL;
    if (*made == NULL || own == NULL || copy == NULL)
        return XCVM_OUT_OF_MEMORY;
    *copy = *constant;
    copy->name = (char *)(uintptr_t)name;
    (*made)->constant = copy;
    (*made)->captured = true;
    XCVM_TRY(put_initializer(q, *made, copy));
    return xcc_table_put(&q->m, &q->hoisted, own, (intptr_t)*made);
}

/* The value of a name in `more` is the first number to try for the next derived name. So many names with one stem take
 * linear time. */
const char *xcc_quant_name(quantizer *q, xcc_table *more, const char *stem, const char *suffix)
{
    enum { DIGITS = 24 };
    xcc_module *m = &q->m;
    const size_t size = strlen(stem) + strlen(suffix) + DIGITS;
    char *plain = xcc_alloc(m, size), *numbered;
    if (plain == NULL)
        return NULL;
    (void)snprintf(plain, size, "%s%s", stem, suffix);
    const struct xcc_table_entry *known = xcc_table_lookup(more, plain);
    if (known == NULL && xcc_table_lookup(&q->taken, plain) == NULL)
        return xcc_table_put(m, more, plain, 1) == XCVM_OK ? plain : NULL;
    if ((numbered = xcc_alloc(m, size)) == NULL)
        return NULL;
    for (int64_t i = known != NULL ? known->value : 1;; i++) {
        (void)snprintf(numbered, size, "%s_%lld", plain, (long long)i);
        if (xcc_table_lookup(&q->taken, numbered) != NULL || xcc_table_lookup(more, numbered) != NULL)
            continue;
        return xcc_table_put(m, more, plain, i + 1) == XCVM_OK && xcc_table_put(m, more, numbered, 1) == XCVM_OK
                   ? numbered
                   : NULL;
    }
}
