/* Finding the groups. Nodes are scheduled already; a group grows from its first node on with later ones that read its
 * results, which move up to it, together with what else they need, unless something that stays between makes that. */
#include "compiler/fuse.h"

#include <string.h>

/* How far behind a group is looked, how deep for what a node needs, and how long a group gets. */
enum { WINDOW = 64, DEPTH = 8, LONGEST = 1024 };

/* xcc_node.mark while a group grows. */
enum { BEFORE, GROUPED, PASSED };

typedef struct growth {
    xcc_module *m;
    const xcvm_value *shape;
    xcc_node *nodes[LONGEST];
    size_t count;
    xcc_node *last;
} growth;

static bool fits(const growth *g, const xcc_node *n)
{
    xcc_map map;
    return n->fusion == NULL && xcc_map_of(n, &map) && xcvm_same_shape(&xcc_node_output(n, 0)->type, g->shape);
}

static void add(growth *g, xcc_node *n)
{
    if (g->last != NULL)
        xcc_node_move_before(n, g->last->next);
    g->last = n;
    g->nodes[g->count++] = n;
    n->mark = GROUPED;
}

/* Adds a node that fits, and before it those that make its operands and stand between, if they can all move. */
static bool join(growth *g, xcc_node *n, int depth)
{
    if (g->count == LONGEST)
        return false;
    size_t inputs = xcc_node_input_count(n);
    for (size_t i = 0; i < inputs; i++) {
        const xcc_value *v = xcc_node_input(n, i);
        xcc_node *maker = v != NULL && v->graph == n->graph ? v->producer : NULL;
        if (maker != NULL && maker->mark == PASSED && (depth == 0 || !fits(g, maker) || !join(g, maker, depth - 1)))
            return false;
    }
    add(g, n);
    return true;
}

static bool reads_group(const xcc_node *n)
{
    size_t inputs = xcc_node_input_count(n);
    for (size_t i = 0; i < inputs; i++) {
        const xcc_value *v = xcc_node_input(n, i);
        if (v != NULL && v->graph == n->graph && v->producer != NULL && v->producer->mark == GROUPED)
            return true;
    }
    return false;
}

static void grow(growth *g, xcc_node *first)
{
    g->count = 0;
    g->last = NULL;
    add(g, first);
    size_t passed = 0;
    for (xcc_node *n = first->next, *next; n != NULL && passed < WINDOW; n = next) {
        next = n->next;
        if (n->mark == GROUPED)
            continue;
        n->mark = PASSED;
        if (!fits(g, n) || !reads_group(n) || !join(g, n, DEPTH))
            passed++;
    }
}

static void unmark(growth *g)
{
    for (size_t i = 0; i < g->count; i++)
        g->nodes[i]->mark = BEFORE;
    size_t passed = 0;
    for (xcc_node *n = g->last->next; n != NULL && passed <= WINDOW; n = n->next, passed++)
        n->mark = BEFORE;
}

static bool is_used_outside(const xcc_fusion *f, const xcc_value *v)
{
    for (const xcc_use *use = v->users; use != NULL; use = use->next)
        if (use->node == NULL || use->node->fusion != f)
            return true;
    return false;
}

static bool take_operand(xcc_fusion *f, xcc_value *v)
{
    if ((v->producer != NULL && v->producer->fusion == f) || xcc_is_literal(v))
        return true;
    for (size_t i = 0; i < f->x_count; i++)
        if (f->xs[i] == v)
            return true;
    if (f->x_count == XCVM_FUSED_OPERANDS)
        return false;
    f->xs[f->x_count++] = v;
    return true;
}

/* What a group of the nodes from `nodes` on reads and gives; false if that is too much for one function. */
static bool describe(xcc_fusion *f)
{
    f->x_count = f->result_count = 0;
    for (size_t i = 0; i < f->node_count; i++) {
        size_t inputs = xcc_node_input_count(f->nodes[i]);
        xcc_map map;
        xcc_map_of(f->nodes[i], &map);
        for (size_t j = 0; j < inputs && j < 2; j++)
            if (map.operands[j] != NULL && !take_operand(f, map.operands[j]))
                return false;
        if (!is_used_outside(f, xcc_node_output(f->nodes[i], 0)))
            continue;
        if (f->result_count == XCVM_FUSED_OPERANDS)
            return false;
        f->results[f->result_count++] = i;
    }
    return true;
}

static void set_fusion(xcc_fusion *f, xcc_fusion *to)
{
    for (size_t i = 0; i < f->node_count; i++)
        f->nodes[i]->fusion = to;
}

static xcvm_status finish(growth *g)
{
    if (g->count < 2)
        return XCVM_OK;
    xcc_fusion *f = xcc_alloc(g->m, sizeof *f);
    xcc_node **nodes = f != NULL ? xcc_alloc(g->m, g->count * sizeof *nodes) : NULL;
    if (nodes == NULL)
        return XCVM_OUT_OF_MEMORY;
    memcpy(nodes, g->nodes, g->count * sizeof *nodes);
    *f = (xcc_fusion){.nodes = nodes, .node_count = g->count};
    set_fusion(f, f);
    if (!describe(f)) {
        set_fusion(f, NULL);
        return XCVM_OK;
    }
    f->kernel = g->m->fusion_count++;
    f->next = g->m->fusions;
    g->m->fusions = f;
    g->m->changes++;
    return XCVM_OK;
}

static xcvm_status fuse_graph(xcc_module *m, xcc_graph *graph, growth *g)
{
    for (xcc_node *n = graph->first; n != NULL; n = n->next)
        n->mark = BEFORE;
    for (xcc_node *n = graph->first; n != NULL; n = n->next) {
        for (size_t i = 0; i < n->body_count; i++)
            XCVM_TRY(fuse_graph(m, n->bodies[i], g));
        xcc_map map;
        if (n->fusion != NULL || !xcc_map_of(n, &map) || xcvm_element_count(&xcc_node_output(n, 0)->type) == 0)
            continue;
        g->shape = &xcc_node_output(n, 0)->type;
        grow(g, n);
        unmark(g);
        XCVM_TRY(finish(g));
        n = g->last;
    }
    return XCVM_OK;
}

xcvm_status xcc_pass_fuse(xcc_module *m)
{
    if (m->options->fuse == NULL)
        return XCVM_OK;
    growth *g = xcc_alloc(m, sizeof *g);
    if (g == NULL)
        return XCVM_OUT_OF_MEMORY;
    g->m = m;
    return fuse_graph(m, m->graph, g);
}
