/* Initial sizes of states with open dimensions. A session takes the size from the input that has a dimension of the
 * same name. Other open dimensions start as 0. */
#include "compiler/states/states.h"

#include <stdio.h>
#include <string.h>

/* Maximum number of instructions visited before a result. */
enum { MOST_STEPS = 64 };

/* Symbols that are dimensions of inputs that do not become states, with their positions. */
typedef struct input_dims {
    struct place {
        const xcc_value *input;
        int axis;
    } * at; /* by symbol */
    size_t count;
} input_dims;

static bool is_symbol(const input_dims *dims, int64_t dim)
{
    return dim < XCVM_ANY_DIM && (uint64_t)(-2 - dim) < dims->count;
}

static bool is_of_input(const input_dims *dims, int64_t dim)
{
    return is_symbol(dims, dim) && dims->at[-2 - dim].input != NULL;
}

static xcvm_status collect(xcc_module *m, size_t count, xcc_value *const *states, input_dims *dims)
{
    xcc_graph *g = m->graph;
    dims->count = m->symbol_count;
    dims->at = xcc_alloc(m, (m->symbol_count + 1) * sizeof *dims->at);
    bool *is_state = xcc_alloc(m, (m->value_count + 1) * sizeof *is_state);
    if (dims->at == NULL || is_state == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        is_state[states[i]->id] = true;
    for (size_t i = 0; i < g->input_count; i++) {
        const xcvm_value *type = &g->inputs[i]->type;
        XCVM_TRY(xcc_poll(m));
        for (int k = 0; !is_state[g->inputs[i]->id] && type->kind == XCVM_KIND_TENSOR && k < type->rank; k++)
            if (is_symbol(dims, type->dims[k]) && dims->at[-2 - type->dims[k]].input == NULL)
                dims->at[-2 - type->dims[k]] = (struct place){g->inputs[i], k};
    }
    return XCVM_OK;
}

/* The program finds the input by the name of the dimension, so the dimension needs a name. */
static xcvm_status name_dim(xcc_module *m, const input_dims *dims, int64_t dim)
{
    xcc_symbol_entry *symbol = &m->symbols[-2 - dim];
    const struct place *place = &dims->at[-2 - dim];
    if (symbol->name != NULL)
        return XCVM_OK;
    const size_t room = strlen(place->input->name) + 8;
    char *name = xcc_alloc(m, room);
    if (name == NULL)
        return XCVM_OUT_OF_MEMORY;
    snprintf(name, room, "%s.%d", place->input->name, place->axis);
    symbol->name = name;
    return XCVM_OK;
}

/* Returns true if the stored value is certainly longer along the axis than the state was. */
static bool grows(const xcc_value *stored, int axis)
{
    const xcc_node *n = stored->producer;
    while (xcc_is(n, XCVM_OP_Identity) || xcc_is(n, XCVM_OP_Cast))
        n = xcc_node_input(n, 0)->producer;
    if (xcc_is(n, XCVM_OP_Attention))
        return axis == 2;
    if (!xcc_is(n, XCVM_OP_Concat))
        return n != NULL && n->kind != XCC_INSTRUCTION && axis > 0;
    const int64_t along = XCC_ARGS(Concat, n)->axis;
    return axis == along || axis == along + stored->type.rank;
}

/* Returns the dimension of an input that element-wise instructions broadcast a result to, or XCVM_ANY_DIM. */
static int64_t broadcast_dim(const input_dims *dims, const xcc_value *v, int axis, int *steps)
{
    const xcc_node *n = v->producer;
    if (is_of_input(dims, v->type.dims[axis]))
        return v->type.dims[axis];
    if (n == NULL || n->kind != XCC_INSTRUCTION ||
        !xcvm_schema_has_class(n->schema, XCVM_CLASS_unary | XCVM_CLASS_binary))
        return XCVM_ANY_DIM;
    int64_t found = XCVM_ANY_DIM;
    for (size_t i = 0; i < xcc_node_input_count(n) && found == XCVM_ANY_DIM && (*steps)-- > 0; i++) {
        const xcc_value *operand = xcc_node_input(n, i);
        if (operand != NULL && operand->type.kind == XCVM_KIND_TENSOR && operand->type.rank == v->type.rank)
            found = broadcast_dim(dims, operand, axis, steps);
    }
    return found;
}

static xcvm_status refuse(xcc_module *m, const xcc_value *state, int axis)
{
    const char *name = xcc_symbol_name(m, state->type.dims[axis]);
    char remedy[192];
    if (name != NULL)
        snprintf(remedy, sizeof remedy, "Fix it: --dim %.100s=1, or the size that it has", name);
    else
        snprintf(remedy, sizeof remedy, "Fix it: --dim %.100s.%d=1, or the size that it has", state->name, axis);
    return xcvm_error_set(m->error, XCVM_INVALID_ARGUMENT,
                          "state \"%.200s\": dimension %d%s%.100s%s is open, and no input has it, so that its size is "
                          "not known when the state begins. %s",
                          state->name, axis, name != NULL ? ", \"" : "", name != NULL ? name : "",
                          name != NULL ? "\"," : "", remedy);
}

/* Returns the initial size of the dimension, for a run that stores `next`. */
static xcvm_status choose_state_dim(xcc_module *m, const input_dims *dims, xcc_value *state, const xcc_value *stored,
                                    int axis, int64_t *dim)
{
    int steps = MOST_STEPS;
    const int64_t own = *dim;
    int64_t next = stored->type.rank == state->type.rank ? stored->type.dims[axis] : XCVM_ANY_DIM;
    if (next < 0 && next != own && stored->type.rank == state->type.rank)
        next = broadcast_dim(dims, stored, axis, &steps);
    const bool recurrent = next < 0 && xcc_state_is_recurrent(stored);
    if (next >= 0 || is_of_input(dims, next)) {
        *dim = next;
    } else if ((next == own && next != XCVM_ANY_DIM) || (recurrent && !is_of_input(dims, own))) {
        return refuse(m, state, axis);
    } else if (!recurrent && is_of_input(dims, own) && grows(stored, axis)) {
        *dim = xcc_symbol(m, NULL);
        return *dim != XCVM_ANY_DIM ? XCVM_OK : XCVM_OUT_OF_MEMORY;
    }
    return is_of_input(dims, *dim) ? name_dim(m, dims, *dim) : XCVM_OK;
}

xcvm_status xcc_resolve_state_sizes(xcc_module *m, size_t count, xcc_value *const *states, xcc_value *const *stored)
{
    input_dims dims = {.count = 0};
    XCVM_TRY(collect(m, count, states, &dims));
    for (size_t i = 0; i < count; i++) {
        xcc_value *state = states[i];
        int64_t sizes[XCVM_MAX_RANK];
        XCVM_TRY(xcc_poll(m));
        memcpy(sizes, state->type.dims, sizeof sizes);
        for (int k = 0; k < state->type.rank; k++)
            if (sizes[k] < 0)
                XCVM_TRY(choose_state_dim(m, &dims, state, stored[i], k, &sizes[k]));
        xcvm_value_set_tensor(&state->type, (xcvm_dtype)state->type.dtype, state->type.rank, sizes);
    }
    return XCVM_OK;
}
