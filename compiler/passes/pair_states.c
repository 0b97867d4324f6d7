/* Recurrent states: an output of the model that is an input of its next run becomes a state of the program. */
#include "compiler/passes/rewrite.h"

#include <string.h>

static xcvm_status find_output(xcc_module *m, const char *name, size_t *index)
{
    const xcc_graph *g = m->graph;
    for (*index = 0; *index < g->output_count; ++*index)
        if (strcmp(g->output_names[*index], name) == 0)
            return XCVM_OK;
    return xcvm_error_set(m->error, XCVM_INVALID_ARGUMENT, "there is no output \"%.100s\" to keep as a state", name);
}

static xcvm_status find_input(xcc_module *m, const char *name, xcc_value **input)
{
    const xcc_graph *g = m->graph;
    for (size_t i = 0; i < g->input_count; i++)
        if (strcmp(g->inputs[i]->name, name) == 0) {
            *input = g->inputs[i];
            return XCVM_OK;
        }
    return xcvm_error_set(m->error, XCVM_INVALID_ARGUMENT, "there is no input \"%.100s\" to keep as a state", name);
}

/* Sizes that are known must agree; where only one is, the run compares what is stored. */
static xcvm_status check_types(xcc_module *m, const xcc_state_pair *pair, const xcc_value *from, const xcc_value *to)
{
    const xcvm_value *a = &from->type, *b = &to->type;
    char texts[2][192];
    bool same = b->kind == XCVM_KIND_TENSOR && b->dtype != XCVM_STRING && b->dtype != XCVM_NO_DTYPE && b->rank >= 0 &&
                (a->kind == XCVM_KIND_NULL || a->kind == XCVM_KIND_TENSOR) &&
                (a->dtype == XCVM_NO_DTYPE || a->dtype == b->dtype) && (a->rank < 0 || a->rank == b->rank);
    for (int i = 0; same && i < a->rank; i++)
        same = a->dims[i] < 0 || b->dims[i] < 0 || a->dims[i] == b->dims[i];
    XCVM_CHECK(m->error, same, TYPE_MISMATCH,
               "output \"%.100s\", %s, cannot be the state that is input \"%.100s\", %s, of the next run", pair->output,
               xcvm_value_describe(a, texts[0], sizeof texts[0]), pair->input,
               xcvm_value_describe(b, texts[1], sizeof texts[1]));
    return XCVM_OK;
}

/* The output's place is taken by a Store. */
static xcvm_status pair_state(xcc_module *m, const xcc_state_pair *pair)
{
    xcc_graph *g = m->graph;
    xcc_value *input = NULL;
    size_t index;
    XCVM_TRY(find_output(m, pair->output, &index));
    XCVM_TRY(find_input(m, pair->input, &input));
    XCVM_CHECK(m->error, xcc_graph_output_state(g, index) == NULL, INVALID_ARGUMENT,
               "output \"%.100s\" is to be two states", pair->output);
    xcc_value *value = g->outputs[index];
    XCVM_TRY(check_types(m, pair, value, input));
    XCVM_TRY(xcc_value_keep(input));
    XCVM_TRY(xcc_graph_store(g, input, value));
    return xcc_graph_remove_output(g, index);
}

/* Whether a cache is to be in half precision: it is f32, and but for `scatter`, which will be nobody's, attention alone
 * reads it. */
static bool is_rounded(const xcc_module *m, const xcc_value *state, const xcc_node *scatter)
{
    const xcvm_dtype asked = m->options->caches;
    bool rounded = (asked == XCVM_F16 || asked == XCVM_BF16) && state->type.dtype == XCVM_F32;
    for (const xcc_use *u = state->users; u != NULL; u = u->next)
        rounded = rounded && (u->node == scatter || xcc_is(u->node, XCVM_OP_CachedAttention));
    return rounded;
}

/* A cache of known size, of which rows are replaced and all else stays, is written where it lies, if nobody else reads
 * the result: what goes into it is copied once the run has ended well, and nothing else. */
static xcvm_status append_in_place(xcc_graph *g, size_t index, bool *done)
{
    xcc_value *stored = g->outputs[index], *state = xcc_graph_output_state(g, index);
    const xcc_node *scatter = xcc_producer(stored, XCVM_OP_TensorScatter);
    *done = false;
    if (scatter == NULL || stored->users->next != NULL || state == NULL || state->type.rank != 4)
        return XCVM_OK;
    for (int i = 0; i < 4; i++)
        if (state->type.dims[i] < 0)
            return XCVM_OK;
    const xcvm_TensorScatter_args *a = XCC_ARGS(TensorScatter, scatter);
    const xcc_value *cache = xcc_value_of(a->past_cache);
    const xcc_node *pad = xcc_producer(cache, XCVM_OP_Pad);
    /* Padded, it would be longer than the state is; rows that have no place are an error either way. */
    if (pad != NULL)
        cache = xcc_value_of(XCC_ARGS(Pad, pad)->x);
    if (cache != state || a->write_indices == NULL || a->mode != XCVM_CACHE_MODE_linear ||
        (a->axis != -2 && a->axis != 2) || a->update->rank != 4)
        return XCVM_OK;
    xcc_builder b = {.graph = g, .name = scatter->name, .origin = scatter->origin};
    const xcc_value *update = xcc_value_of(a->update);
    if (is_rounded(g->module, state, pad != NULL ? pad : scatter)) {
        int64_t dims[XCVM_MAX_RANK];
        memcpy(dims, state->type.dims, sizeof dims);
        xcvm_value_set_tensor(&state->type, g->module->options->caches, state->type.rank, dims);
        update = xcc_apply(&b, Cast, y, .x = a->update, .to = g->module->options->caches, .saturate = 1);
    }
    if (update == NULL ||
        xcc_emit(&b, CacheAppend, .update = XCC_IN(update), .at = a->write_indices, .cache = XCC_IN(state)) == NULL)
        return g->module->error->status;
    *done = true;
    return xcc_graph_remove_output(g, index);
}

xcvm_status xcc_pair_states(xcc_module *m)
{
    XCVM_TRY(xcc_pair_caches(m));
    for (size_t i = 0; i < m->options->state_count; i++)
        XCVM_TRY(pair_state(m, &m->options->states[i]));
    for (size_t i = 0; m->options->state_count > 0 && i < m->graph->output_count;) {
        bool done;
        XCVM_TRY(append_in_place(m->graph, i, &done));
        i += !done;
    }
    return XCVM_OK;
}
