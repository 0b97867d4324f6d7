/* Consistency check of the graph (graph.h), between passes in debug builds. */
#include "compiler/ir/graph.h"

typedef struct check {
    xcc_module *m;
    uint8_t *defined; /* by value id */
} check;

#define SANE(condition, ...)                                                                                           \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return xcvm_error_set(c->m->error, XCVM_INTERNAL, __VA_ARGS__);                                            \
    } while (0)

static xcvm_status check_use(check *c, const xcc_use *use, const xcc_value *v, const char *where)
{
    SANE(use->value == v, "the use of %s in %s is not the operand", v != NULL ? v->name : "nothing", where);
    if (v == NULL)
        return XCVM_OK;
    SANE(xcc_is_constant(v) || xcc_is_variable(v) || c->defined[v->id], "%s is used in %s before it is there", v->name,
         where);
    SANE(xcc_is_constant(v) == (v->type.data != NULL), "%s has elements and is no constant, or has none", v->name);
    SANE(use->previous != NULL ? use->previous->next == use : v->users == use, "the uses of %s are not linked",
         v->name);
    return XCVM_OK;
}

static xcvm_status define(check *c, const xcc_graph *g, const xcc_value *v, const xcc_node *producer)
{
    SANE(v->graph == g && v->producer == producer && v->kind == (producer != NULL ? XCC_RESULT : XCC_INPUT),
         "%s is not where it is made", v->name);
    SANE(v->id < c->m->value_count && !c->defined[v->id], "%s is made twice", v->name);
    c->defined[v->id] = 1;
    size_t uses = 0;
    for (const xcc_use *use = v->users; use != NULL && uses <= v->uses; use = use->next)
        uses++;
    SANE(uses == v->uses, "%s has %zu uses, not %u", v->name, uses, v->uses);
    return XCVM_OK;
}

static xcvm_status check_graph(check *c, const xcc_graph *g)
{
    for (size_t i = 0; i < g->input_count; i++)
        XCVM_TRY(define(c, g, g->inputs[i], NULL));
    const xcc_node *previous = NULL;
    for (const xcc_node *n = g->first; n != NULL; previous = n, n = n->next) {
        SANE(n->graph == g && n->previous == previous, "node %s is not linked", n->name);
        size_t inputs = xcc_node_input_count(n), outputs = xcc_node_output_count(n);
        for (size_t i = 0; i < inputs; i++) {
            SANE(n->uses[i].node == n && n->uses[i].index == i, "operand %zu of %s is not linked", i, n->name);
            XCVM_TRY(check_use(c, &n->uses[i], xcc_node_input(n, i), n->name));
        }
        for (size_t i = 0; i < n->body_count; i++) {
            SANE(n->bodies[i]->owner == n, "body %zu of %s has another owner", i, n->name);
            XCVM_TRY(check_graph(c, n->bodies[i]));
        }
        for (size_t i = 0; i < outputs; i++) {
            const xcc_value *v = xcc_node_output(n, i);
            if (v == NULL)
                continue;
            XCVM_TRY(define(c, g, v, n));
            SANE(v->type.kind != XCVM_KIND_NULL || n->kind == XCC_INSTRUCTION, "%s has no type", v->name);
        }
    }
    SANE(g->last == previous, "graph %s is not linked", g->name);
    for (size_t i = 0; i < g->output_count; i++)
        XCVM_TRY(check_use(c, &g->uses[i], g->outputs[i], g->name));
    if (g->owner == NULL)
        return XCVM_OK;
    for (const xcc_node *n = g->first; n != NULL; n = n->next) {
        size_t outputs = xcc_node_output_count(n);
        for (size_t i = 0; i < outputs; i++) {
            const xcc_value *v = xcc_node_output(n, i);
            if (v != NULL)
                c->defined[v->id] = 0;
        }
    }
    return XCVM_OK;
}

xcvm_status xcc_graph_verify(xcc_graph *g)
{
    check c = {.m = g->module};
    c.defined = xcvm_allocate_zeroed(c.m->allocator, c.m->value_count);
    if (c.defined == NULL)
        return xcc_out_of_memory(c.m);
    xcvm_status status = check_graph(&c, g);
    xcvm_deallocate(c.m->allocator, c.defined, c.m->value_count);
    return status;
}
