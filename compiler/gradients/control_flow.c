/* Gradient of If, and functions shared by the rules of control flow: recomputation of bodies, and the values that they
 * read. */
#include "compiler/gradients/control_flow.h"
#include "compiler/gradients/copying.h"
#include "compiler/gradients/rule.h"

#include <string.h>

/* ---- Bodies ---- */

bool xcc_bodies_can_copy(xcc_vjp *d)
{
    for (size_t i = 0; i < d->node->body_count; i++)
        for (const xcc_node *n = d->node->bodies[i]->first; n != NULL; n = n->next)
            if (xcc_bodies_draw(n)) {
                xcc_refuse(d, "has no gradient yet if a nested body draws random numbers");
                return false;
            }
    return true;
}

xcvm_status xcc_body_drawn(xcc_graph *g, xcc_value ***values, size_t *count)
{
    size_t most = 0;
    for (const xcc_node *n = g->first; n != NULL; n = n->next)
        most += xcc_draws(n) ? XCC_MAX_DRAWN : 0;
    *count = 0;
    if ((*values = xcc_alloc(g->module, most * sizeof **values)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (xcc_node *n = g->first; n != NULL; n = n->next)
        if (xcc_draws(n))
            *count += xcc_drawn(n, *values + *count);
    for (size_t i = 0; i < *count; i++)
        if ((*values)[i] == NULL)
            return g->module->error->status;
    return XCVM_OK;
}

void xcc_body_remove_unread(xcc_graph *g, const xcc_value *root)
{
    xcc_node *previous;
    for (xcc_node *n = g->last; n != NULL; n = previous) {
        bool read = root != NULL && n == root->producer;
        previous = n->previous;
        for (size_t i = 0; i < xcc_node_output_count(n); i++)
            read = read || (xcc_node_output(n, i) != NULL && xcc_node_output(n, i)->uses > 0);
        if (!read)
            xcc_node_remove(n);
    }
}

/* ---- What bodies read ---- */

static xcvm_status note_value(xcc_outside *o, xcc_module *m, const xcc_node *n, uint32_t *stamps, uint32_t values,
                              uint32_t stamp, xcc_value *v)
{
    if (v == NULL || v->id >= values || stamps[v->id] == stamp || xcc_is_constant(v) ||
        (v->graph->depth > n->graph->depth && !xcc_is_variable(v)))
        return XCVM_OK;
    stamps[v->id] = stamp;
    xcc_value **grown = xcc_grow(m, o->values, o->count, &o->capacity, sizeof *grown);
    if (grown == NULL)
        return XCVM_OUT_OF_MEMORY;
    o->values = grown;
    o->values[o->count++] = v;
    return XCVM_OK;
}

static xcvm_status note_graph(xcc_outside *o, const xcc_graph *g, const xcc_node *n, uint32_t *stamps, uint32_t values,
                              uint32_t stamp)
{
    xcc_module *m = g->module;
    for (const xcc_node *inner = g->first; inner != NULL; inner = inner->next) {
        XCVM_TRY(xcc_poll(m));
        for (size_t i = 0; i < xcc_node_input_count(inner); i++)
            XCVM_TRY(note_value(o, m, n, stamps, values, stamp, inner->uses[i].value));
        for (size_t i = 0; i < inner->body_count; i++)
            XCVM_TRY(note_graph(o, inner->bodies[i], n, stamps, values, stamp));
    }
    for (size_t i = 0; i < g->output_count; i++)
        XCVM_TRY(note_value(o, m, n, stamps, values, stamp, g->outputs[i]));
    return XCVM_OK;
}

xcvm_status xcc_outside_find(xcc_outside *o, const xcc_node *n, uint32_t *stamps, uint32_t values, uint32_t stamp)
{
    *o = (xcc_outside){.count = 0};
    for (size_t i = 0; i < n->body_count; i++)
        XCVM_TRY(note_graph(o, n->bodies[i], n, stamps, values, stamp));
    return XCVM_OK;
}

/* ---- If ---- */

/* Values drawn by one branch, and the results of the If that have them if the branch was run. */
typedef struct drawn {
    xcc_value **values, **results;
    size_t count;
} drawn;

/* Adds the values that a branch draws as results of the If; the other branch returns placeholders that are never read.
 */
static xcvm_status keep_drawn(xcc_node *n, size_t branch, drawn *r)
{
    xcc_module *m = n->graph->module;
    XCVM_TRY(xcc_body_drawn(n->bodies[branch], &r->values, &r->count));
    if (r->count == 0)
        return XCVM_OK;
    const size_t old = n->output_count, count = old + r->count;
    xcc_value **results = xcc_alloc(m, count * sizeof *results);
    if (results == NULL)
        return XCVM_OUT_OF_MEMORY;
    if (old > 0)
        memcpy(results, n->outputs, old * sizeof *results);
    for (size_t i = 0; i < r->count; i++) {
        if ((results[old + i] = xcc_value_create(n->graph, NULL)) == NULL)
            return m->error->status;
        results[old + i]->producer = n;
    }
    for (size_t k = 0; k < 2; k++) {
        xcc_graph *body = n->bodies[k];
        xcc_value **outputs = xcc_alloc(m, count * sizeof *outputs);
        if (outputs == NULL)
            return XCVM_OUT_OF_MEMORY;
        if (old > 0)
            memcpy(outputs, body->outputs, old * sizeof *outputs);
        for (size_t i = 0; i < r->count; i++) {
            outputs[old + i] = k == branch ? r->values[i] : xcc_scalar(body, (xcvm_dtype)r->values[i]->type.dtype, 0);
            if (outputs[old + i] == NULL)
                return m->error->status;
        }
        XCVM_TRY(xcc_graph_set_outputs(body, count, outputs));
    }
    n->outputs = results;
    n->output_count = count;
    r->results = results + old;
    return xcc_node_infer(n);
}

/* Builds the gradients of `wrt` in one branch as its outputs; zeros if the branch does not use them. */
static xcvm_status fill_branch(xcc_vjp *d, xcc_copying *c, const xcc_graph *from, const drawn *r, xcc_graph *to,
                               xcc_value *const *wrt, size_t count)
{
    xcc_builder b = {.graph = to, .name = d->b->name, .origin = d->b->origin};
    xcc_seed *seeds = xcc_alloc(c->m, from->output_count * sizeof *seeds);
    xcc_value **gradients = xcc_alloc(c->m, count * sizeof *gradients);
    size_t seed_count = 0;
    if (seeds == NULL || gradients == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < r->count; i++) {
        xcc_value *place = xcc_apply(&b, Identity, y, .x = XCC_IN(r->results[i]));
        if (place == NULL)
            return c->m->error->status;
        xcc_copy_type(place, r->values[i]);
        c->copies[r->values[i]->id] = place;
    }
    XCVM_TRY(xcc_copy_nodes(c, from, to));
    for (size_t i = 0; i < d->result_count; i++)
        if (d->results[i] != NULL)
            seeds[seed_count++] = (xcc_seed){xcc_copy_of(c, from->outputs[i]), d->results[i]};
    XCVM_TRY(xcc_differentiate(&b, to, NULL, seeds, seed_count, wrt, count, d->straight_through, gradients));
    for (size_t i = 0; i < count; i++) {
        xcc_value *g = gradients[i];
        if (g == NULL)
            g = xcc_zeros_like(&b, wrt[i]);
        if (g != NULL && g->graph != to)
            g = xcc_apply(&b, Identity, y, .x = XCC_IN(g));
        if ((gradients[i] = g) == NULL)
            return c->m->error->status;
    }
    XCVM_TRY(xcc_graph_set_outputs(to, count, gradients));
    xcc_body_remove_unread(to, NULL);
    return XCVM_OK;
}

void xcc_gradient_of_if(xcc_vjp *d)
{
    xcc_node *n = d->node;
    xcc_copying c;
    drawn r[2];
    if (!xcc_bodies_can_copy(d))
        return;
    for (size_t i = 0; i < 2 && !d->failed; i++)
        d->failed = keep_drawn(n, i, &r[i]) != XCVM_OK;
    if (d->failed)
        return;
    d->failed = xcc_copying_begin(&c, d->b->graph->module) != XCVM_OK;
    if (d->failed)
        return;
    xcc_value **wrt = xcc_alloc(c.m, 2 * d->outside_count * sizeof *wrt),
              **outputs = wrt != NULL ? wrt + d->outside_count : NULL;
    size_t count = 0;
    d->failed = wrt == NULL;
    for (size_t i = 0; i < d->outside_count && !d->failed; i++)
        if (d->wanted[n->input_count + i]) {
            wrt[count] = d->outside[i];
            outputs[count] = xcc_value_create(d->b->graph, NULL);
            d->failed = outputs[count++] == NULL;
        }
    xcc_node *back = d->failed ? NULL : xcc_append_control(d->b, XCC_IF, 1, n->inputs, count, outputs, 2);
    d->failed = back == NULL;
    for (size_t i = 0; i < 2 && !d->failed; i++)
        d->failed = fill_branch(d, &c, n->bodies[i], &r[i], back->bodies[i], wrt, count) != XCVM_OK;
    d->failed = d->failed || xcc_node_infer(back) != XCVM_OK;
    for (size_t i = d->outside_count; i-- > 0 && !d->failed;)
        if (d->wanted[n->input_count + i])
            xcc_set_gradient(d, n->input_count + i, outputs[--count]);
    xcc_copying_end(&c);
}
