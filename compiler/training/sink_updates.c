/* Moves updates of states to the end, in their order, and copies operands that share the memory of a state. An update
 * must not read another state under another name. For example, the gradient of a product of two parameters is the other
 * parameter. */
#include "compiler/training/training.h"

#include "compiler/ir/compose.h"

/* Returns the value that owns the memory of v: v or the value that it is a view of. */
static const xcc_value *memory_of(const xcc_value *v)
{
    while (v->producer != NULL && v->producer->kind == XCC_INSTRUCTION) {
        const xcc_node *n = v->producer;
        const xcc_value *from = NULL;
        for (size_t i = 0; i < xcc_node_input_count(n) && from == NULL; i++)
            if (xcc_node_input_field(n, i)->role == XCVM_ROLE_IN_VIEW)
                from = xcc_node_input(n, i);
        if (from == NULL || xcc_node_output(n, 0) != v)
            break;
        v = from;
    }
    return v;
}

/* The memory of a result of If or Loop is not known. */
static bool may_be_state(const xcc_value *v)
{
    const xcc_value *from = memory_of(v);
    return from->kind == XCC_STATE || (from->producer != NULL && from->producer->kind != XCC_INSTRUCTION);
}

/* Inserts copies of operands that may share the memory of a state before the update. */
static xcvm_status copy_states(xcc_module *m, xcc_node *n)
{
    for (size_t i = 0; i < xcc_node_input_count(n); i++) {
        xcc_value *v = xcc_node_input(n, i);
        if (v == NULL || xcc_writes_input(n, i) || !may_be_state(v))
            continue;
        /* Multiplication by 1 preserves each number and needs memory of its own. */
        xcc_builder b = {.graph = m->graph, .before = n, .name = n->name, .origin = n->origin};
        xcc_value *copy = xcc_build_mul(&b, v, xcc_build_number(&b, v, 1));
        if (copy == NULL)
            return m->error->status;
        xcc_node_set_input(n, i, copy);
    }
    return XCVM_OK;
}

xcvm_status xcc_pass_sink_updates(xcc_module *m)
{
    xcc_node *last = m->graph->last;
    for (xcc_node *n = m->graph->first, *next; n != NULL; n = next) {
        XCVM_TRY(xcc_poll(m));
        next = n != last ? n->next : NULL;
        if (!xcc_updates(n))
            continue;
        XCVM_TRY(copy_states(m, n));
        xcc_node_move_before(n, NULL);
    }
    return XCVM_OK;
}
