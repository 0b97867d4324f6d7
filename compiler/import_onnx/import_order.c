/* Topological order of the nodes of a graph, and whether every name that they use is there. */
#include "compiler/import_onnx/import.h"

#include <string.h>

typedef struct sorter {
    xcc_importer *imp;
    const xcc_scope *scope;
    Onnx__NodeProto *const *nodes;
    size_t count;
    xcc_table producers; /* index of the node that makes a name */
    size_t *starts;      /* edges of node i are starts[i] .. starts[i + 1] */
    size_t *edges;       /* nodes that it needs */
    size_t edge_count, edge_capacity;
} sorter;

static xcvm_status collect_producers(sorter *s)
{
    xcc_module *m = s->imp->m;
    for (size_t i = 0; i < s->count; i++)
        for (size_t k = 0; k < s->nodes[i]->n_output; k++) {
            const char *name = s->nodes[i]->output[k];
            if (name[0] == '\0')
                continue;
            const struct xcc_table_entry *other = xcc_table_lookup(&s->producers, name);
            XCVM_CHECK(m->error, other == NULL, INVALID_MODEL, "nodes '%s' and '%s' both define a value named '%s'",
                       xcc_node_label(s->nodes[other->value]), xcc_node_label(s->nodes[i]), name);
            XCVM_CHECK(m->error, xcc_table_lookup(&s->scope->names, name) == NULL, INVALID_MODEL,
                       "node '%s' defines a value named '%s', which is also an input or initializer",
                       xcc_node_label(s->nodes[i]), name);
            XCVM_TRY(xcc_table_put(m, &s->producers, name, (int64_t)i));
        }
    return XCVM_OK;
}

static xcvm_status add_edge(sorter *s, size_t from)
{
    size_t *edges = xcc_grow(s->imp->m, s->edges, s->edge_count, &s->edge_capacity, sizeof *edges);
    if (edges == NULL)
        return XCVM_OUT_OF_MEMORY;
    s->edges = edges;
    s->edges[s->edge_count++] = from;
    return XCVM_OK;
}

/* Names that a body defines itself hide those of the graph around it. */
typedef struct locals {
    const struct locals *outer;
    xcc_table names;
} locals;

static xcvm_status use_in_body(sorter *s, const locals *l, const char *name)
{
    for (; l != NULL; l = l->outer)
        if (xcc_table_lookup(&l->names, name) != NULL)
            return XCVM_OK;
    const struct xcc_table_entry *producer = xcc_table_lookup(&s->producers, name);
    return producer != NULL ? add_edge(s, (size_t)producer->value) : XCVM_OK;
}

static xcvm_status visit_node_bodies(sorter *s, const locals *outer, const Onnx__NodeProto *node);

static xcvm_status visit_body(sorter *s, const locals *outer, const Onnx__GraphProto *g)
{
    xcc_module *m = s->imp->m;
    locals l = {.outer = outer};
    for (size_t i = 0; i < g->n_input; i++)
        if (g->input[i]->name != NULL)
            XCVM_TRY(xcc_table_put(m, &l.names, g->input[i]->name, 0));
    for (size_t i = 0; i < g->n_initializer; i++)
        if (g->initializer[i]->name != NULL)
            XCVM_TRY(xcc_table_put(m, &l.names, g->initializer[i]->name, 0));
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            XCVM_TRY(xcc_table_put(m, &l.names, g->node[i]->output[k], 0));
    for (size_t i = 0; i < g->n_node; i++) {
        XCVM_TRY(xcc_poll(m));
        for (size_t k = 0; k < g->node[i]->n_input; k++)
            XCVM_TRY(use_in_body(s, &l, g->node[i]->input[k]));
        XCVM_TRY(visit_node_bodies(s, &l, g->node[i]));
    }
    for (size_t i = 0; i < g->n_output; i++)
        if (g->output[i]->name != NULL)
            XCVM_TRY(use_in_body(s, &l, g->output[i]->name));
    return XCVM_OK;
}

static xcvm_status visit_node_bodies(sorter *s, const locals *outer, const Onnx__NodeProto *node)
{
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *a = node->attribute[i];
        if (a->g != NULL)
            XCVM_TRY(visit_body(s, outer, a->g));
        for (size_t k = 0; k < a->n_graphs; k++)
            XCVM_TRY(visit_body(s, outer, a->graphs[k]));
    }
    return XCVM_OK;
}

static xcvm_status collect_edges(sorter *s)
{
    xcc_module *m = s->imp->m;
    for (size_t i = 0; i < s->count; i++) {
        const Onnx__NodeProto *node = s->nodes[i];
        XCVM_TRY(xcc_poll(m));
        s->starts[i] = s->edge_count;
        for (size_t k = 0; k < node->n_input; k++) {
            const char *name = node->input[k];
            if (name[0] == '\0')
                continue;
            const struct xcc_table_entry *producer = xcc_table_lookup(&s->producers, name);
            xcc_value *value;
            if (producer != NULL)
                XCVM_TRY(add_edge(s, (size_t)producer->value));
            else
                XCVM_CHECK(m->error, xcc_scope_find(s->scope, name, &value), INVALID_MODEL,
                           "node '%s' (%s) reads '%s', which no node, input or initializer defines",
                           xcc_node_label(node), node->op_type != NULL ? node->op_type : "?", name);
        }
        XCVM_TRY(visit_node_bodies(s, NULL, node));
    }
    s->starts[s->count] = s->edge_count;
    return XCVM_OK;
}

static xcvm_status report_cycle(const sorter *s, const size_t *stack, size_t depth, size_t again)
{
    char text[400];
    size_t length = 0, first = depth;
    while (first > 0 && stack[first - 1] != again)
        first--;
    for (size_t i = first > 0 ? first - 1 : 0; i < depth && length < sizeof text - 1; i++) {
        const char *name = xcc_node_label(s->nodes[stack[i]]);
        size_t room = sizeof text - length - 1, size = strlen(name);
        if (size + 6 > room) {
            memcpy(text + length, room >= 3 ? "..." : "", room >= 3 ? 3 : 0);
            length += room >= 3 ? 3 : 0;
            break;
        }
        text[length++] = '\'';
        memcpy(text + length, name, size);
        length += size;
        text[length++] = '\'';
        if (i + 1 < depth)
            text[length++] = ' ';
    }
    text[length] = '\0';
    return xcvm_error_set(s->imp->m->error, XCVM_INVALID_MODEL,
                          "the graph has a cycle; each of these nodes reads a result of the next: %s", text);
}

/* Depth-first from each node in turn, so nodes that are in order keep their positions. */
static xcvm_status sort(const sorter *s, size_t *order)
{
    enum { NEW, OPEN, DONE };
    xcc_module *m = s->imp->m;
    uint8_t *state = xcc_alloc(m, s->count);
    size_t *stack = xcc_alloc(m, s->count * sizeof *stack), *next = xcc_alloc(m, s->count * sizeof *next);
    if (state == NULL || stack == NULL || next == NULL)
        return XCVM_OUT_OF_MEMORY;
    size_t done = 0;
    for (size_t root = 0; root < s->count; root++) {
        if (state[root] != NEW)
            continue;
        size_t depth = 0;
        stack[depth++] = root;
        state[root] = OPEN;
        next[root] = s->starts[root];
        while (depth > 0) {
            size_t node = stack[depth - 1];
            if (next[node] == s->starts[node + 1]) {
                state[node] = DONE;
                order[done++] = node;
                depth--;
                continue;
            }
            size_t needed = s->edges[next[node]++];
            if (state[needed] == OPEN)
                return report_cycle(s, stack, depth, needed);
            if (state[needed] == NEW) {
                stack[depth++] = needed;
                state[needed] = OPEN;
                next[needed] = s->starts[needed];
            }
        }
    }
    return XCVM_OK;
}

xcvm_status xcc_import_order(xcc_importer *imp, const xcc_scope *scope, Onnx__NodeProto *const *nodes, size_t count,
                             size_t *order)
{
    sorter s = {.imp = imp, .scope = scope, .nodes = nodes, .count = count};
    s.starts = xcc_alloc(imp->m, (count + 1) * sizeof *s.starts);
    if (s.starts == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(collect_producers(&s));
    XCVM_TRY(collect_edges(&s));
    return sort(&s, order);
}
