/* Splits a differentiated graph into a forward and a backward program. Both compilations build the same graph, so they
 * agree on the retained values and their order. The split comes after simplification, so that nothing is retained
 * unnecessarily. */
#include "compiler/passes/passes.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/compilation.h"

#include <stdio.h>
#include <string.h>

typedef struct cut {
    xcc_module *m;
    xcc_graph *g;
    bool *flags; /* by value id: depends on the gradients of the outputs; or the outputs depend on it */
    xcc_value **kept;
    size_t count, capacity; /* forward values that the backward program reads */
} cut;

/* Marks of the top graph's nodes. */
enum { FORWARD, BACKWARD };

/* Returns true if a node or its bodies read a flagged value. */
static bool reads_flagged(const cut *c, const xcc_node *n)
{
    for (size_t i = 0; i < xcc_node_input_count(n); i++) {
        const xcc_value *v = xcc_node_input(n, i);
        if (v != NULL && c->flags[v->id])
            return true;
    }
    for (size_t i = 0; i < n->body_count; i++) {
        for (const xcc_node *inner = n->bodies[i]->first; inner != NULL; inner = inner->next)
            if (reads_flagged(c, inner))
                return true;
        for (size_t k = 0; k < n->bodies[i]->output_count; k++)
            if (c->flags[n->bodies[i]->outputs[k]->id])
                return true;
    }
    return false;
}

static void flag_operands(const cut *c, const xcc_node *n)
{
    for (size_t i = 0; i < xcc_node_input_count(n); i++)
        if (xcc_node_input(n, i) != NULL)
            c->flags[xcc_node_input(n, i)->id] = true;
    for (size_t i = 0; i < n->body_count; i++) {
        for (const xcc_node *inner = n->bodies[i]->first; inner != NULL; inner = inner->next)
            flag_operands(c, inner);
        for (size_t k = 0; k < n->bodies[i]->output_count; k++)
            c->flags[n->bodies[i]->outputs[k]->id] = true;
    }
}

static bool makes_flagged(const cut *c, const xcc_node *n)
{
    for (size_t i = 0; i < xcc_node_output_count(n); i++)
        if (xcc_node_output(n, i) != NULL && c->flags[xcc_node_output(n, i)->id])
            return true;
    return false;
}

/* Returns true if the forward program includes a node that its outputs do not depend on. Shapes are computed there, so
 * that values are not retained only for their shapes. */
static bool belongs_forward(const xcc_node *n)
{
    return n->kind == XCC_INSTRUCTION &&
           (n->schema->effect != XCVM_PURE || xcc_is(n, XCVM_OP_Shape) || xcc_is(n, XCVM_OP_Size));
}

/* The backward program consists of nodes that depend on the gradients of the outputs, and nodes used only by those. */
static xcvm_status mark_nodes(cut *c)
{
    xcc_graph *g = c->g;
    for (size_t i = c->m->compilation->forward_inputs; i < g->input_count; i++)
        c->flags[g->inputs[i]->id] = true;
    for (xcc_node *n = g->first; n != NULL; n = n->next) {
        XCVM_TRY(xcc_poll(c->m));
        n->mark = reads_flagged(c, n) ? BACKWARD : FORWARD;
        for (size_t i = 0; n->mark == BACKWARD && i < xcc_node_output_count(n); i++)
            if (xcc_node_output(n, i) != NULL)
                c->flags[xcc_node_output(n, i)->id] = true;
    }
    memset(c->flags, 0, c->m->value_count * sizeof *c->flags);
    for (size_t i = 0; i < c->m->compilation->forward_outputs; i++)
        c->flags[g->outputs[i]->id] = true;
    for (xcc_node *n = g->last; n != NULL; n = n->previous) {
        XCVM_TRY(xcc_poll(c->m));
        if (n->mark == BACKWARD)
            continue;
        if (makes_flagged(c, n) || belongs_forward(n))
            flag_operands(c, n);
        else
            n->mark = BACKWARD;
    }
    return XCVM_OK;
}

/* Returns true if a use is in the backward program. */
static bool is_backward(const cut *c, const xcc_use *use)
{
    const xcc_node *n = use->node;
    if (n == NULL && use->graph->owner == NULL)
        return use->index >= c->m->compilation->forward_outputs;
    for (n = n != NULL ? n : use->graph->owner; n->graph->owner != NULL;)
        n = n->graph->owner;
    return n->mark == BACKWARD;
}

/* Unknown sizes count as 1, as in all reports. */
static uint64_t bytes_of(const xcc_value *v)
{
    int64_t dims[XCVM_MAX_RANK];
    size_t count, bytes;
    for (int i = 0; i < v->type.rank; i++)
        dims[i] = v->type.dims[i] < 0 ? 1 : v->type.dims[i];
    const bool known =
        v->type.kind == XCVM_KIND_TENSOR &&
        xcvm_tensor_size((xcvm_dtype)v->type.dtype, v->type.rank < 0 ? 0 : v->type.rank, dims, &count, &bytes);
    return known ? bytes : 0;
}

static void read_instead(const cut *c, xcc_value *v, xcc_value *other)
{
    xcc_use *next;
    for (xcc_use *use = v->users; use != NULL; use = next) {
        next = use->next;
        if (is_backward(c, use))
            xcc_use_set(use, other);
    }
}

/* Inputs have a fixed kind. So a value whose kind is known only at run time, as from OptionalGetElement, is retained in
 * an optional, which is returned. */
static xcc_value *wrap(const cut *c, xcc_value *v)
{
    xcc_builder b = {
        .graph = c->g, .before = v->producer->next, .name = v->producer->name, .origin = v->producer->origin};
    xcc_value *wrapped = xcc_apply(&b, Optional, y, .xs = {(const xcvm_value *const[]){XCC_IN(v)}, 1});
    if (wrapped == NULL)
        return NULL;
    wrapped->producer->mark = FORWARD;
    xcc_value *again = xcc_apply(&b, OptionalGetElement, y, .x = XCC_IN(wrapped));
    if (again == NULL)
        return NULL;
    again->producer->mark = BACKWARD;
    read_instead(c, v, again);
    return wrapped;
}

static xcvm_status keep_if_read(cut *c, xcc_value *v)
{
    bool read = false;
    for (const xcc_use *use = v != NULL ? v->users : NULL; use != NULL && !read; use = use->next)
        read = is_backward(c, use);
    if (!read)
        return XCVM_OK;
    if (v->type.kind == XCVM_KIND_NULL && (v = wrap(c, v)) == NULL)
        return c->m->error->status;
    xcc_value **grown = xcc_grow(c->m, c->kept, c->count, &c->capacity, sizeof *grown);
    if (grown == NULL)
        return XCVM_OUT_OF_MEMORY;
    c->kept = grown;
    c->kept[c->count++] = v;
    c->m->compilation->retained_count++;
    c->m->compilation->retained_bytes += bytes_of(v);
    return XCVM_OK;
}

static xcvm_status find_kept(cut *c)
{
    for (size_t i = 0; i < c->m->compilation->forward_inputs; i++)
        XCVM_TRY(keep_if_read(c, c->g->inputs[i]));
    const xcc_node *next; /* nodes inserted after n are already retained */
    for (const xcc_node *n = c->g->first; n != NULL; n = next) {
        next = n->next;
        for (size_t i = 0; n->mark == FORWARD && i < xcc_node_output_count(n); i++)
            XCVM_TRY(keep_if_read(c, xcc_node_output(n, i)));
    }
    return XCVM_OK;
}

/* Returns retained_<name>, which must not be the name of an input or output of the graph. */
static const char *name_of(const cut *c, const xcc_value *v)
{
    static const char prefix[] = "retained_";
    const xcc_graph *g = c->g;
    const size_t length = sizeof prefix + strlen(v->name);
    char *name = xcc_alloc(c->m, length);
    if (name == NULL)
        return NULL;
    snprintf(name, length, "%s%s", prefix, v->name);
    for (size_t i = 0; i < g->input_count + g->output_count; i++) {
        const char *taken = i < g->input_count ? g->inputs[i]->name : g->output_names[i - g->input_count];
        if (strcmp(taken, name) != 0)
            continue;
        xcvm_error_set(c->m->error, XCVM_INVALID_MODEL, "the model has an input or an output '%.200s' already", name);
        return NULL;
    }
    return name;
}

/* The results of these nodes have no other uses. */
static void remove_nodes(xcc_graph *g, uint32_t mark)
{
    xcc_node *previous;
    for (xcc_node *n = g->last; n != NULL; n = previous) {
        previous = n->previous;
        if (n->mark == mark)
            xcc_node_remove(n);
    }
}

/* Replaced outputs keep their names. */
static xcvm_status set_outputs(xcc_graph *g, size_t count, xcc_value *const *outputs, const char *const *names)
{
    XCVM_TRY(xcc_graph_set_outputs(g, count, outputs));
    if (count > 0)
        memcpy(g->output_names, names, count * sizeof *names);
    return XCVM_OK;
}

static xcvm_status keep_forward(cut *c)
{
    xcc_graph *g = c->g;
    const size_t own = c->m->compilation->forward_outputs, count = own + c->count;
    xcc_value **outputs = xcc_alloc(c->m, count * sizeof *outputs);
    const char **names = xcc_alloc(c->m, count * sizeof *names);
    if (outputs == NULL || names == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        outputs[i] = i < own ? g->outputs[i] : c->kept[i - own];
        if ((names[i] = i < own ? g->output_names[i] : name_of(c, outputs[i])) == NULL)
            return c->m->error->status;
    }
    XCVM_TRY(set_outputs(g, count, outputs, names));
    remove_nodes(g, BACKWARD);
    return xcc_graph_set_inputs(g, c->m->compilation->forward_inputs, g->inputs);
}

static xcvm_status keep_backward(cut *c)
{
    xcc_graph *g = c->g;
    const size_t own = g->input_count - c->m->compilation->forward_inputs, first = c->m->compilation->forward_outputs;
    xcc_value **inputs = xcc_alloc(c->m, (own + c->count) * sizeof *inputs);
    if (inputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    memcpy(inputs, g->inputs + c->m->compilation->forward_inputs, own * sizeof *inputs);
    for (size_t i = 0; i < c->count; i++) {
        xcc_value *v = c->kept[i], *input = inputs[own + i] = xcc_value_create(g, NULL);
        if (input == NULL || (input->name = name_of(c, v)) == NULL)
            return c->m->error->status;
        input->type.kind = v->type.kind;
        input->type.dtype = v->type.dtype;
        input->type.rank = v->type.rank;
        memcpy(input->type.dims, v->type.dims, sizeof v->type.dims);
        read_instead(c, v, input);
    }
    XCVM_TRY(set_outputs(g, g->output_count - first, g->outputs + first, g->output_names + first));
    remove_nodes(g, FORWARD);
    return xcc_graph_set_inputs(g, own + c->count, inputs);
}

xcvm_status xcc_pass_split_phases(xcc_module *m)
{
    cut c = {.m = m, .g = m->graph};
    if (m->options->gradients.phase == XCC_PHASE_WHOLE)
        return XCVM_OK;
    c.flags = xcc_alloc(m, m->value_count * sizeof *c.flags);
    if (c.flags == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(mark_nodes(&c));
    XCVM_TRY(find_kept(&c));
    return m->options->gradients.phase == XCC_PHASE_FORWARD ? keep_forward(&c) : keep_backward(&c);
}
