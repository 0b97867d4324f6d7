/* States that the graph itself shows: an output that is an input with appended rows, or the final state of a recurrence
 * that begins with the input. */
#include "compiler/states/states.h"

/* Maximum number of nodes from an output to an input. */
enum { MOST_STEPS = 64 };

/* Returns the operand whose elements, or some of them, the node returns in another shape. */
static const xcc_value *viewed(const xcc_node *n)
{
    static const xcvm_opcode views[] = {XCVM_OP_Identity,  XCVM_OP_Reshape, XCVM_OP_Squeeze, XCVM_OP_Unsqueeze,
                                        XCVM_OP_Transpose, XCVM_OP_Cast,    XCVM_OP_Slice,   XCVM_OP_Gather,
                                        XCVM_OP_Pad,       XCVM_OP_Expand};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        if (xcc_is(n, views[i]))
            return xcc_node_input(n, 0);
    return NULL;
}

/* Returns the input of the top graph that v is a view of. */
static const xcc_value *shown_input(const xcc_graph *top, const xcc_value *v, int *steps)
{
    while (v != NULL && v->producer != NULL && (*steps)-- > 0)
        v = viewed(v->producer);
    return v != NULL && v->kind == XCC_INPUT && v->graph == top ? v : NULL;
}

/* Returns the operand that is the state before the node, if v is the state after it. */
static const xcvm_value *state_before(const xcc_node *n, const xcc_value *v)
{
    const xcvm_value *type = &v->type;
    switch (n->schema->opcode) {
    case XCVM_OP_RNN:
        return XCC_ARGS(RNN, n)->y_h == type ? XCC_ARGS(RNN, n)->initial_h : NULL;
    case XCVM_OP_GRU:
        return XCC_ARGS(GRU, n)->y_h == type ? XCC_ARGS(GRU, n)->initial_h : NULL;
    case XCVM_OP_LSTM:
        return XCC_ARGS(LSTM, n)->y_h == type   ? XCC_ARGS(LSTM, n)->initial_h
               : XCC_ARGS(LSTM, n)->y_c == type ? XCC_ARGS(LSTM, n)->initial_c
                                                : NULL;
    case XCVM_OP_Attention:
        return XCC_ARGS(Attention, n)->present_key == type     ? XCC_ARGS(Attention, n)->past_key
               : XCC_ARGS(Attention, n)->present_value == type ? XCC_ARGS(Attention, n)->past_value
                                                               : NULL;
    case XCVM_OP_TensorScatter:
        return XCC_ARGS(TensorScatter, n)->past_cache;
    default:
        return NULL;
    }
}

/* Returns true if only this node, and nodes that read its shape, read the input. */
static bool is_read_only_by(const xcc_value *v, const xcc_node *reader)
{
    for (const xcc_use *u = v->users; u != NULL; u = u->next)
        if (u->node != reader && !xcc_is(u->node, XCVM_OP_Shape))
            return false;
    return true;
}

static const xcc_value *next_of(const xcc_graph *top, const xcc_value *v, int *steps);

/* An input with new elements, or the states of several layers. */
static const xcc_value *next_of_concat(const xcc_graph *top, const xcc_node *n, int *steps)
{
    const xcc_value *all = NULL;
    for (size_t i = 0; i < xcc_node_input_count(n); i++) {
        const xcc_value *part = xcc_node_input(n, i);
        if (part != NULL && part->kind == XCC_INPUT && part->graph == top && is_read_only_by(part, n))
            return part;
        const xcc_value *of = next_of(top, part, steps);
        if (of == NULL || (all != NULL && of != all))
            return NULL;
        all = of;
    }
    return all;
}

static const xcc_value *next_of(const xcc_graph *top, const xcc_value *v, int *steps)
{
    while (v != NULL && v->producer != NULL && v->producer->kind == XCC_INSTRUCTION && (*steps)-- > 0) {
        const xcc_node *n = v->producer;
        if (xcc_is(n, XCVM_OP_Concat))
            return next_of_concat(top, n, steps);
        const xcvm_value *before = state_before(n, v);
        if (before != NULL)
            return shown_input(top, xcc_value_of(before), steps);
        v = viewed(n);
    }
    return NULL;
}

static bool is_recurrent(const xcc_value *v, int *steps);

/* The states of several layers. A part that is an input makes it a cache with new rows. */
static bool is_recurrent_concat(const xcc_node *n, int *steps)
{
    for (size_t i = 0; i < xcc_node_input_count(n); i++)
        if (xcc_node_input(n, i) == NULL || !is_recurrent(xcc_node_input(n, i), steps))
            return false;
    return true;
}

static bool is_recurrent(const xcc_value *v, int *steps)
{
    while (v != NULL && v->producer != NULL && (*steps)-- > 0) {
        const xcc_node *n = v->producer;
        if (n->kind == XCC_IF) {
            for (size_t i = 0; i < xcc_node_output_count(n); i++)
                if (xcc_node_output(n, i) == v)
                    return is_recurrent(n->bodies[0]->outputs[i], steps) ||
                           is_recurrent(n->bodies[1]->outputs[i], steps);
            return false;
        }
        if (n->kind != XCC_INSTRUCTION)
            return false;
        if (xcc_is(n, XCVM_OP_LSTM) || xcc_is(n, XCVM_OP_GRU) || xcc_is(n, XCVM_OP_RNN))
            return state_before(n, v) != NULL;
        if (xcc_is(n, XCVM_OP_Concat))
            return is_recurrent_concat(n, steps);
        v = viewed(n);
    }
    return false;
}

bool xcc_state_is_recurrent(const xcc_value *stored)
{
    int steps = MOST_STEPS;
    return is_recurrent(stored, &steps);
}

const xcc_value *xcc_state_of_output(const xcc_graph *g, const xcc_value *output)
{
    int steps = MOST_STEPS;
    return next_of(g, output, &steps);
}
