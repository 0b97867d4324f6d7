/* Node orders for recomputation. */
#include "compiler/ir/liveness.h"
#include "compiler/recompute/recompute.h"

void xcc_put_in_order(const xcc_module *m, xcc_node *const *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!nodes[i]->removed)
            xcc_node_move_before(nodes[i], NULL);
    xcc_graph_number(m->graph);
}

/* Returns true if a node produces only program outputs that are larger than its operands. */
static bool can_wait(const xcc_node *n)
{
    uint64_t read = 0, made = 0;
    bool open = false;
    if (n->kind != XCC_INSTRUCTION || n->schema->effect != XCVM_PURE)
        return false;
    for (size_t i = 0; i < xcc_node_input_count(n); i++)
        if (xcc_node_input(n, i) != NULL && !xcc_is_constant(xcc_node_input(n, i)))
            read += xcc_value_bytes(xcc_node_input(n, i), &open);
    for (size_t i = 0; i < xcc_node_output_count(n); i++) {
        const xcc_value *v = xcc_node_output(n, i);
        for (const xcc_use *use = v != NULL ? v->users : NULL; use != NULL; use = use->next)
            if (use->node != NULL)
                return false;
        made += v != NULL ? xcc_value_bytes(v, &open) : 0;
    }
    return !open && read < made;
}

void xcc_let_gradients_wait(xcc_graph *g)
{
    /* Nodes that update states stay last. */
    xcc_node *tail = NULL;
    const xcc_node *last = g->last;
    for (xcc_node *n = g->last; n != NULL && xcc_updates(n); n = n->previous) {
        tail = n;
        last = n->previous;
    }
    for (xcc_node *n = g->first, *next; n != NULL && n != last; n = next) {
        next = n->next;
        if (can_wait(n))
            xcc_node_move_before(n, tail);
    }
    xcc_graph_number(g);
}
