/* The gradient of a part of a graph at a given point. */
#include "compiler/gradients/copying.h"
#include "compiler/gradients/gradients.h"
#include "compiler/ir/compilation.h"
#include "compiler/ir/compose.h"

typedef struct part {
    xcc_copying c;
    bool *needed; /* by value id: y depends on it */
} part;

static void need(part *p, const xcc_value *v)
{
    if (v != NULL && v->id < p->c.values)
        p->needed[v->id] = true;
}

/* Marks the values that a node and its bodies read. */
static void need_operands(part *p, const xcc_node *n)
{
    for (size_t i = 0; i < xcc_node_input_count(n); i++)
        need(p, xcc_node_input(n, i));
    for (size_t i = 0; i < n->body_count; i++) {
        for (const xcc_node *inner = n->bodies[i]->first; inner != NULL; inner = inner->next)
            need_operands(p, inner);
        for (size_t k = 0; k < n->bodies[i]->output_count; k++)
            need(p, n->bodies[i]->outputs[k]);
    }
}

static bool makes_needed(const part *p, const xcc_node *n)
{
    for (size_t i = 0; i < xcc_node_output_count(n); i++) {
        const xcc_value *v = xcc_node_output(n, i);
        if (v != NULL && v->id < p->c.values && p->needed[v->id] && p->c.copies[v->id] == NULL)
            return true;
    }
    return false;
}

static bool reads_copies(const part *p, const xcc_node *n)
{
    for (size_t i = 0; i < xcc_node_input_count(n); i++) {
        xcc_value *v = xcc_node_input(n, i);
        if (v != xcc_copy_of(&p->c, v))
            return true;
    }
    for (size_t i = 0; i < n->body_count; i++) {
        for (const xcc_node *inner = n->bodies[i]->first; inner != NULL; inner = inner->next)
            if (reads_copies(p, inner))
                return true;
        for (size_t k = 0; k < n->bodies[i]->output_count; k++)
            if (n->bodies[i]->outputs[k] != xcc_copy_of(&p->c, n->bodies[i]->outputs[k]))
                return true;
    }
    return false;
}

/* Copies to the end of `to` the nodes of g and of enclosing graphs, up to `last`, between the variables and the marked
 * values; nodes of enclosing graphs first. */
static xcvm_status copy_part(part *p, xcc_graph *g, xcc_node *last, xcc_graph *to)
{
    for (const xcc_node *n = last; n != NULL; n = n->previous) {
        XCVM_TRY(xcc_poll(p->c.m));
        if (makes_needed(p, n))
            need_operands(p, n);
    }
    if (g->owner != NULL)
        XCVM_TRY(copy_part(p, g->owner->graph, g->owner->previous, to));
    const xcc_node *end = last != NULL ? last->next : NULL;
    for (xcc_node *n = last != NULL ? g->first : NULL; n != end; n = n->next) {
        XCVM_TRY(xcc_poll(p->c.m));
        XCVM_CHECK(p->c.m->error,
                   p->c.m->compilation->value_limit == 0 || p->c.m->value_count <= p->c.m->compilation->value_limit,
                   UNSUPPORTED, "the gradients of the model need too many nodes");
        if (!makes_needed(p, n) || !reads_copies(p, n))
            continue;
        XCVM_CHECK(p->c.m->error, !xcc_bodies_draw(n), UNSUPPORTED,
                   "node '%.100s' (%.60s) has no gradient here, as its body draws random numbers", n->name, n->origin);
        XCVM_TRY(xcc_copy_node(&p->c, n, to));
    }
    return XCVM_OK;
}

static xcvm_status differentiate(part *p, xcc_builder *b, xcc_value *y, xcc_value *const *variables,
                                 xcc_value *const *points, size_t count, size_t wrt, xcc_value **gradients)
{
    xcc_graph *g = b->graph;
    xcc_node *behind = g->last, *last = y->graph == g ? g->last : y->graph->last;
    xcc_value **stands = xcc_alloc(p->c.m, count * sizeof *stands);
    if (stands == NULL || p->needed == NULL)
        return XCVM_OUT_OF_MEMORY;
    need(p, y);
    for (size_t i = 0; i < count; i++) {
        if ((stands[i] = xcc_apply(b, Identity, y, .x = XCC_IN(points[i]))) == NULL)
            return p->c.m->error->status;
        p->c.copies[variables[i]->id] = stands[i];
    }
    XCVM_TRY(copy_part(p, y->graph, last, g));
    xcc_value *value = xcc_copy_of(&p->c, y);
    for (size_t i = 0; i < wrt; i++)
        gradients[i] = NULL;
    if (value == y) /* it depends on none of them */
        return XCVM_OK;
    const xcc_seed seed = {value, xcc_build_expand(b, xcc_build_number(b, value, 1), xcc_build_shape_of(b, value))};
    if (seed.gradient == NULL)
        return p->c.m->error->status;
    return xcc_differentiate(b, g, behind, &seed, 1, stands, wrt, p->c.m->options->gradients.straight_through,
                             gradients);
}

xcvm_status xcc_differentiate_part(xcc_builder *b, xcc_value *y, xcc_value *const *variables, xcc_value *const *points,
                                   size_t count, size_t wrt, xcc_value **gradients)
{
    part p = {.needed = NULL};
    xcc_module *m = b->graph->module;
    xcvm_status status = xcc_copying_begin(&p.c, m);
    if (status == XCVM_OK && (p.needed = xcvm_allocate_zeroed(m->allocator, p.c.values * sizeof *p.needed)) == NULL)
        status = xcc_out_of_memory(m);
    if (status == XCVM_OK)
        status = differentiate(&p, b, y, variables, points, count, wrt, gradients);
    if (p.needed != NULL)
        xcvm_deallocate(m->allocator, p.needed, p.c.values * sizeof *p.needed);
    xcc_copying_end(&p.c);
    return status;
}
