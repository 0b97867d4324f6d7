/* Bodies of If, Loop and Scan: constant weights of sums of products and of recurrent nodes become integers; everything
 * else is computed in float. Activations of bodies have no ranges, since calibration observes only the graph. */
#include "compiler/quantize/model_writer.h"

#include "compiler/onnx_model/onnx_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A body and the bodies around it. */
typedef struct scope {
    const Onnx__GraphProto *graph;
    const struct scope *outer;
} scope;

static Onnx__GraphProto *body_at(const Onnx__AttributeProto *a, size_t index)
{
    return index < a->n_graphs ? a->graphs[index] : a->g;
}

static bool is_called(const char *name, const char *other) { return name != NULL && strcmp(name, other) == 0; }

/* Returns the value that a body computes or contains under a name; false if there is none. *constant NULL: it is no
 * constant. */
static bool find_in(const Onnx__GraphProto *g, const char *name, const Onnx__TensorProto **constant)
{
    *constant = NULL;
    for (size_t i = 0; i < g->n_initializer; i++)
        if (is_called(g->initializer[i]->name, name)) {
            *constant = g->initializer[i];
            return true;
        }
    for (size_t i = 0; i < g->n_input; i++)
        if (is_called(g->input[i]->name, name))
            return true;
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++) {
            if (strcmp(g->node[i]->output[k], name) != 0)
                continue;
            const xcc_quant_node n = {.proto = g->node[i]};
            const Onnx__AttributeProto *value = xcc_quant_is(&n, "Constant") ? xcc_quant_attribute(&n, "value") : NULL;
            *constant = value != NULL ? value->t : NULL;
            return true;
        }
    return false;
}

/* ---- Listing ---- */

/* Moves weights that a body contains to an initializer of the graph, with a name of its own, for that operand. */
static xcvm_status hoist(quantizer *q, Onnx__NodeProto *p, size_t index, const scope *s)
{
    const Onnx__TensorProto *constant = NULL;
    bool found = false;
    for (; s != NULL && !found; s = s->outer)
        found = find_in(s->graph, p->input[index], &constant);
    if (constant == NULL || constant->data_type != XCVM_F32 || constant->n_dims < 2)
        return XCVM_OK;
    xcc_quant_tensor *made;
    XCVM_TRY(xcc_quant_hoist(q, p->input[index], constant, &made));
    p->input[index] = (char *)(uintptr_t)made->name;
    return XCVM_OK;
}

static xcvm_status list_node(quantizer *q, Onnx__NodeProto *p, const scope *s, const char *place)
{
    const xcc_quant_rule *rule = xcc_quant_rule_of(p);
    if (rule == NULL || (rule->kind != XCC_QUANT_WEIGHTED && rule->kind != XCC_QUANT_RECURRENT))
        return XCVM_OK;
    XCVM_TRY(xcc_poll(&q->m));
    for (size_t i = 1; i <= 2 && i < p->n_input; i++)
        if (p->input[i][0] != '\0' && (rule->operands >> i & 1) != 0)
            XCVM_TRY(hoist(q, p, i, s));
    xcc_quant_node *nodes =
        xcc_grow(&q->m, q->body_nodes, q->body_node_count, &q->body_node_capacity, sizeof *q->body_nodes);
    if (nodes == NULL)
        return XCVM_OUT_OF_MEMORY;
    q->body_nodes = nodes;
    nodes[q->body_node_count++] = (xcc_quant_node){.proto = p,
                                                   .rule = rule,
                                                   .body = place,
                                                   .reason = "",
                                                   .epilogue = XCC_NO_NODE,
                                                   .epilogue_of = XCC_NO_NODE,
                                                   .harm = (double)NAN,
                                                   .weights_harm = (double)NAN};
    return XCVM_OK;
}

static xcvm_status list_bodies(quantizer *q, const Onnx__NodeProto *owner, const scope *outer)
{
    const char *label = xcc_node_label(owner);
    char *place = NULL;
    for (size_t a = 0; a < owner->n_attribute; a++)
        for (size_t b = 0; b <= owner->attribute[a]->n_graphs; b++) {
            const scope s = {.graph = body_at(owner->attribute[a], b), .outer = outer};
            if (s.graph == NULL)
                continue;
            if (place == NULL) {
                const size_t size = strlen(label) + strlen(owner->op_type) + 64;
                place = xcc_alloc(&q->m, size);
                if (place == NULL)
                    return XCVM_OUT_OF_MEMORY;
                (void)snprintf(place, size, "in the body of '%s' (%s)", label, owner->op_type);
            }
            for (size_t i = 0; i < s.graph->n_node; i++) {
                XCVM_TRY(list_node(q, s.graph->node[i], &s, place));
                XCVM_TRY(list_bodies(q, s.graph->node[i], &s));
            }
        }
    return XCVM_OK;
}

xcvm_status xcc_quant_list_bodies(quantizer *q)
{
    for (size_t i = 0; i < q->node_count; i++)
        XCVM_TRY(list_bodies(q, q->nodes[i].proto, NULL));
    return XCVM_OK;
}

const char *xcc_quant_refuse_body(const quantizer *q, const xcc_quant_node *n)
{
    for (size_t i = 1; i <= 2; i++) {
        if ((n->rule->operands >> i & 1) == 0)
            continue;
        const xcc_quant_tensor *t = xcc_quant_input(q, n, i);
        if (!xcc_quant_is_weight(t) || t->constant->n_dims < 2)
            return "its weights are not f32 constants";
    }
    if (xcvm_dtype_bits(q->o.weights) == 4)
        return "weights in blocks are for the graph itself";
    if (q->o.form == XCC_FORM_QOPERATOR)
        return "operators on quantized tensors need ranges, which tensors of bodies do not have";
    return q->o.trainable ? "weights in bodies do not learn" : NULL;
}

/* ---- Writing ---- */

/* The node that was listed for a message; NULL: none. Messages come in the order of the list. */
static const xcc_quant_node *listed(const quantizer *q, const Onnx__NodeProto *p, size_t *next)
{
    for (size_t i = 0; i < q->body_node_count; i++) {
        const size_t at = (*next + i) % q->body_node_count;
        if (q->body_nodes[at].proto == p) {
            *next = at + 1;
            return &q->body_nodes[at];
        }
    }
    return NULL;
}

static bool is_weighted(const Onnx__NodeProto *p)
{
    const xcc_quant_rule *rule = xcc_quant_rule_of(p);
    return rule != NULL && (rule->kind == XCC_QUANT_WEIGHTED || rule->kind == XCC_QUANT_RECURRENT);
}

static xcvm_status put_dequantized(xcc_model_writer *w, const xcc_quant_node *n)
{
    const size_t operands = n->proto->n_input;
    const char **inputs = xcvm_arena_allocate(&w->arena, (operands + 3) * sizeof *inputs);
    if (inputs == NULL)
        return xcc_out_of_memory(&w->q->m);
    size_t count = operands;
    for (size_t i = 0; i < operands; i++)
        inputs[i] = n->proto->input[i];
    XCVM_TRY(xcc_put_dequantized(w, n, inputs, &count));
    (void)xcc_put_like(w, n, inputs, NULL);
    return XCVM_OK;
}

static xcvm_status put_body(xcc_model_writer *w, Onnx__GraphProto **body, size_t *next);

/* The node with the bodies as they are written. */
static xcvm_status put_owner(xcc_model_writer *w, Onnx__NodeProto *n, size_t *next)
{
    Onnx__AttributeProto **all = xcvm_arena_allocate(&w->arena, (n->n_attribute + 1) * sizeof(Onnx__AttributeProto *));
    if (all == NULL)
        return xcc_out_of_memory(&w->q->m);
    for (size_t a = 0; a < n->n_attribute; a++) {
        all[a] = n->attribute[a];
        if (all[a]->g == NULL && all[a]->n_graphs == 0)
            continue;
        Onnx__AttributeProto *own = xcvm_arena_allocate(&w->arena, sizeof *own);
        Onnx__GraphProto **graphs = xcvm_arena_allocate(&w->arena, (all[a]->n_graphs + 1) * sizeof(Onnx__GraphProto *));
        if (own == NULL || graphs == NULL)
            return xcc_out_of_memory(&w->q->m);
        *own = *all[a];
        for (size_t b = 0; b < own->n_graphs; b++) {
            graphs[b] = own->graphs[b];
            XCVM_TRY(put_body(w, &graphs[b], next));
        }
        own->graphs = own->n_graphs > 0 ? graphs : own->graphs;
        if (own->g != NULL)
            XCVM_TRY(put_body(w, &own->g, next));
        all[a] = own;
    }
    n->attribute = all;
    return XCVM_OK;
}

static bool has_bodies(const Onnx__NodeProto *n)
{
    for (size_t a = 0; a < n->n_attribute; a++)
        if (n->attribute[a]->g != NULL || n->attribute[a]->n_graphs > 0)
            return true;
    return false;
}

/* Constants that nothing reads any more, since their integers took their place. */
static xcvm_status drop_unread(xcc_model_writer *w, Onnx__GraphProto *g)
{
    xcc_table read = {.key = &w->q->m.key};
    XCVM_TRY(xcc_note_reads(w->q, &read, g->node, g->n_node));
    for (size_t i = 0; i < g->n_output; i++)
        XCVM_TRY(xcc_table_put(&w->q->m, &read, g->output[i]->name, 1));
    Onnx__TensorProto **constants =
        xcvm_arena_allocate(&w->arena, (g->n_initializer + 1) * sizeof(Onnx__TensorProto *));
    if (constants == NULL)
        return xcc_out_of_memory(&w->q->m);
    size_t count = 0;
    for (size_t i = 0; i < g->n_initializer; i++)
        if (g->initializer[i]->name != NULL && xcc_table_lookup(&read, g->initializer[i]->name) != NULL)
            constants[count++] = g->initializer[i];
    g->initializer = constants;
    g->n_initializer = count;
    count = 0;
    for (size_t i = 0; i < g->n_node; i++) {
        const xcc_quant_node n = {.proto = g->node[i]};
        const bool spare = xcc_quant_is(&n, "Constant") && g->node[i]->n_output == 1 &&
                           xcc_table_lookup(&read, g->node[i]->output[0]) == NULL;
        if (!spare)
            g->node[count++] = g->node[i];
    }
    g->n_node = count;
    return XCVM_OK;
}

/* New nodes are collected in a separate list, which then becomes the body's nodes. */
static xcvm_status put_body(xcc_model_writer *w, Onnx__GraphProto **body, size_t *next)
{
    const Onnx__GraphProto *from = *body;
    Onnx__NodeProto **outer = w->nodes;
    const size_t outer_count = w->node_count, outer_capacity = w->node_capacity;
    xcvm_status status = XCVM_OK;
    Onnx__GraphProto *g = xcvm_arena_allocate(&w->arena, sizeof *g);
    if (g == NULL)
        return xcc_out_of_memory(&w->q->m);
    *g = *from;
    w->nodes = NULL;
    w->node_count = w->node_capacity = 0;
    for (size_t i = 0; i < from->n_node && status == XCVM_OK; i++) {
        const xcc_quant_node plain = {.proto = from->node[i]};
        const xcc_quant_node *n = is_weighted(from->node[i]) ? listed(w->q, from->node[i], next) : NULL;
        status = xcc_poll(&w->q->m);
        if (status != XCVM_OK)
            break;
        if (n != NULL && n->quantized) {
            status = put_dequantized(w, n);
            continue;
        }
        Onnx__NodeProto *put = xcc_put_like(w, &plain, NULL, NULL);
        if (put != NULL && has_bodies(put))
            status = put_owner(w, put, next);
    }
    g->node = w->nodes;
    g->n_node = w->node_count;
    w->nodes = outer;
    w->node_count = outer_count;
    w->node_capacity = outer_capacity;
    XCVM_TRY(status);
    *body = g;
    return w->failed ? xcc_out_of_memory(&w->q->m) : drop_unread(w, g);
}

xcvm_status xcc_put_bodies(xcc_model_writer *w)
{
    size_t next = 0;
    for (size_t i = 0; i < w->node_count && w->q->body_node_count > 0; i++)
        if (has_bodies(w->nodes[i]))
            XCVM_TRY(put_owner(w, w->nodes[i], &next));
    return XCVM_OK;
}
