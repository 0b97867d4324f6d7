/* Canonical form and dead code elimination: lists captured values of bodies on their nodes, and removes nodes whose
 * results are unused. */
#include "compiler/passes/passes.h"
#include "base/array.h"

#include <string.h>

/* ---- Unused nodes and results ---- */

static bool has_effect(const xcc_node *n)
{
    if (n->kind == XCC_INSTRUCTION)
        return n->schema->effect == XCVM_EFFECT || n->schema->effect == XCVM_UPDATE;
    for (size_t i = 0; i < n->body_count; i++)
        for (const xcc_node *inner = n->bodies[i]->first; inner != NULL; inner = inner->next)
            if (has_effect(inner))
                return true;
    return false;
}

static bool is_used(const xcc_node *n)
{
    size_t count = xcc_node_output_count(n);
    for (size_t i = 0; i < count; i++) {
        const xcc_value *v = xcc_node_output(n, i);
        if (v != NULL && v->uses > 0)
            return true;
    }
    return false;
}

/* Makes unused optional results of an instruction absent. The first result stays, because some instructions must have
 * one. */
static void drop_optional_results(xcc_node *n)
{
    bool first = true;
    for (size_t i = 0; i < n->schema->field_count; i++) {
        const xcvm_field *f = &n->schema->fields[i];
        if (f->role != XCVM_ROLE_OUT)
            continue;
        xcvm_value **at = (xcvm_value **)(void *)((char *)n->args + f->offset);
        if (!first && f->kind == XCVM_FIELD_OPTIONAL && *at != NULL && xcc_value_of(*at)->uses == 0)
            *at = NULL;
        first = false;
    }
}

/* Removes unused results from both branches of an If, and unused scans from a Loop. */
static xcvm_status drop_control_results(xcc_node *n)
{
    xcc_module *m = n->graph->module;
    size_t fixed = n->kind == XCC_LOOP ? n->input_count - 2 : 0; /* the next iteration needs the states */
    size_t offset = n->kind == XCC_LOOP ? 1 : 0;                 /* the loop's condition */
    size_t kept = 0;
    for (size_t i = 0; i < n->output_count; i++)
        kept += i < fixed || (n->outputs[i] != NULL && n->outputs[i]->uses > 0);
    if (kept == n->output_count)
        return XCVM_OK;
    for (size_t b = 0; b < n->body_count; b++) {
        xcc_graph *body = n->bodies[b];
        xcc_value **outputs = xcc_alloc(m, body->output_count * sizeof *outputs);
        if (outputs == NULL)
            return XCVM_OUT_OF_MEMORY;
        memcpy(outputs, body->outputs, body->output_count * sizeof *outputs);
        size_t count = offset;
        for (size_t i = 0; i < n->output_count; i++)
            if (i < fixed || (n->outputs[i] != NULL && n->outputs[i]->uses > 0))
                outputs[count++] = body->outputs[i + offset];
        XCVM_TRY(xcc_graph_set_outputs(body, count, outputs));
    }
    size_t count = 0;
    for (size_t i = 0; i < n->output_count; i++)
        if (i < fixed || (n->outputs[i] != NULL && n->outputs[i]->uses > 0))
            n->outputs[count++] = n->outputs[i];
    n->output_count = count;
    return XCVM_OK;
}

static xcvm_status drop_unused(xcc_graph *g)
{
    for (xcc_node *n = g->last, *previous; n != NULL; n = previous) {
        previous = n->previous;
        XCVM_TRY(xcc_poll(g->module));
        if (!is_used(n) && !has_effect(n)) {
            xcc_node_remove(n);
        } else if (n->kind == XCC_INSTRUCTION) {
            drop_optional_results(n);
        } else {
            XCVM_TRY(drop_control_results(n));
            for (size_t i = 0; i < n->body_count; i++)
                XCVM_TRY(drop_unused(n->bodies[i]));
        }
    }
    return XCVM_OK;
}

/* ---- Captures ---- */

typedef struct capturing {
    xcc_module *m;
    uint32_t *stamps; /* by value id: the last control-flow node, by number, that captured it */
    uint32_t nodes;
    xcc_value **found;
    size_t count, capacity;
} capturing;

static xcvm_status add_capture(capturing *c, const xcc_node *n, uint32_t stamp, xcc_value *v)
{
    if (v == NULL || xcc_is_constant(v) || v->kind == XCC_PARAMETER || v->graph->depth > n->graph->depth ||
        c->stamps[v->id] == stamp)
        return XCVM_OK;
    c->stamps[v->id] = stamp;
    xcc_value **found = xcvm_array_grow(c->m->allocator, c->found, c->count, &c->capacity, sizeof *found);
    if (found == NULL)
        return xcc_out_of_memory(c->m);
    c->found = found;
    c->found[c->count++] = v;
    return XCVM_OK;
}

static xcvm_status capture_graph(capturing *c, xcc_graph *g);

static xcvm_status capture_node(capturing *c, xcc_node *n)
{
    for (size_t i = 0; i < n->body_count; i++)
        XCVM_TRY(capture_graph(c, n->bodies[i]));
    uint32_t stamp = ++c->nodes;
    c->count = 0;
    for (size_t b = 0; b < n->body_count; b++) {
        const xcc_graph *body = n->bodies[b];
        for (const xcc_node *inner = body->first; inner != NULL; inner = inner->next) {
            size_t inputs = xcc_node_input_count(inner);
            for (size_t i = 0; i < inputs; i++)
                XCVM_TRY(add_capture(c, n, stamp, inner->uses[i].value));
            for (size_t i = 0; i < inner->capture_count; i++)
                XCVM_TRY(add_capture(c, n, stamp, inner->captures[i]));
        }
        for (size_t i = 0; i < body->output_count; i++)
            XCVM_TRY(add_capture(c, n, stamp, body->outputs[i]));
    }
    n->capture_count = c->count;
    n->captures = xcc_alloc(c->m, c->count * sizeof *n->captures);
    if (n->captures == NULL)
        return XCVM_OUT_OF_MEMORY;
    if (c->count > 0)
        memcpy(n->captures, c->found, c->count * sizeof *n->captures);
    return XCVM_OK;
}

static xcvm_status capture_graph(capturing *c, xcc_graph *g)
{
    for (xcc_node *n = g->first; n != NULL; n = n->next) {
        XCVM_TRY(xcc_poll(c->m));
        if (n->kind != XCC_INSTRUCTION)
            XCVM_TRY(capture_node(c, n));
    }
    return XCVM_OK;
}

xcvm_status xcc_pass_canonicalize(xcc_module *m)
{
    XCVM_TRY(drop_unused(m->graph));
    capturing c = {.m = m};
    size_t bytes = m->value_count * sizeof *c.stamps;
    c.stamps = xcvm_allocate_zeroed(m->allocator, bytes);
    if (c.stamps == NULL)
        return xcc_out_of_memory(m);
    xcvm_status status = capture_graph(&c, m->graph);
    xcvm_deallocate(m->allocator, c.stamps, bytes);
    if (c.found != NULL)
        xcvm_deallocate(m->allocator, c.found, c.capacity * sizeof *c.found);
    return status;
}
