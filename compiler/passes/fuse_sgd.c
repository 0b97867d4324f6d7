/* In-place gradient descent: a state stored as itself minus a rate times a gradient becomes an update. A Store would
 * need a second buffer; an update writes in place, after everything that can fail. */
#include "compiler/passes/rewrite.h"

#include <stdlib.h>

typedef struct step {
    size_t output; /* of the graph, where it is stored */
    xcc_value *state, *rate, *gradient;
} step;

static bool is_real(const xcc_value *v) { return v->type.dtype == XCVM_F32 || v->type.dtype == XCVM_F64; }

static bool is_scalar(const xcc_value *v) { return v->type.rank == 0; }

/* Returns true if output `index` is such a step, and only the state needs its result. */
static bool find_step(const xcc_graph *g, size_t index, step *s)
{
    xcc_value *state = xcc_graph_output_state(g, index), *stored = g->outputs[index];
    const xcc_node *sub = state != NULL ? xcc_producer(stored, XCVM_OP_Sub) : NULL;
    if (sub == NULL || stored->users->next != NULL || xcc_node_input(sub, 0) != state || !is_real(state) ||
        !xcc_same_type(state, stored))
        return false;
    const xcc_node *mul = xcc_sole_producer(xcc_node_input(sub, 1), XCVM_OP_Mul);
    for (size_t i = 0; mul != NULL && i < 2; i++) {
        xcc_value *rate = xcc_node_input(mul, i), *gradient = xcc_node_input(mul, 1 - i);
        if (!is_scalar(rate) || !xcc_same_type(gradient, state))
            continue;
        *s = (step){index, state, rate, gradient};
        return true;
    }
    return false;
}

/* Appends one instruction for all steps with the same rate. */
static xcvm_status append_update(xcc_builder *b, const step *steps, size_t count)
{
    xcc_module *m = b->graph->module;
    const xcvm_value **gradients = xcc_alloc(m, count * sizeof *gradients);
    const xcvm_value **parameters = xcc_alloc(m, count * sizeof *parameters);
    if (gradients == NULL || parameters == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        gradients[i] = XCC_IN(steps[i].gradient);
        parameters[i] = XCC_IN(steps[i].state);
    }
    return xcc_emit(b, SGD, .gradients = {gradients, count}, .rate = XCC_IN(steps[0].rate),
                    .parameters = {parameters, count}) != NULL
               ? XCVM_OK
               : m->error->status;
}

/* Orders steps by rate, then by output. */
static int by_rate(const void *a, const void *b)
{
    const step *first = a, *second = b;
    if (first->rate != second->rate)
        return first->rate->id < second->rate->id ? -1 : 1;
    return first->output < second->output ? -1 : 1;
}

xcvm_status xcc_pass_fuse_sgd(xcc_module *m)
{
    xcc_graph *g = m->graph;
    if (g->output_states == NULL)
        return XCVM_OK;
    step *steps = xcc_alloc(m, g->output_count * sizeof *steps);
    bool *removed = steps != NULL ? xcc_alloc(m, g->output_count * sizeof *removed) : NULL;
    if (removed == NULL)
        return XCVM_OUT_OF_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < g->output_count; i++) {
        removed[i] = find_step(g, i, &steps[count]);
        count += removed[i];
    }
    if (count == 0)
        return XCVM_OK;
    qsort(steps, count, sizeof *steps, by_rate);
    xcc_builder b = {.graph = g, .name = "", .origin = ""};
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && steps[end].rate == steps[i].rate; end++)
            continue;
        XCVM_TRY(append_update(&b, steps + i, end - i));
    }
    return xcc_graph_remove_outputs(g, removed);
}
