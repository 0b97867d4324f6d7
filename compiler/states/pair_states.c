/* Recurrent states: an output of the model that is an input of its next run becomes a state of the program. */
#include "compiler/passes/rewrite.h"
#include "compiler/states/states.h"

#include <stdio.h>
#include <string.h>

/* Of names that are there twice, the first counts. */
static xcvm_status enter(xcc_module *m, xcc_table *table, const char *name, size_t index)
{
    return xcc_table_lookup(table, name) != NULL ? XCVM_OK : xcc_table_put(m, table, name, (int64_t)index);
}

static xcvm_status index_pairs(xcc_module *m, xcc_state_pairs *pairs)
{
    *pairs = (xcc_state_pairs){.count = 0};
    for (size_t i = 0; i < m->graph->output_count; i++)
        XCVM_TRY(enter(m, &pairs->outputs, m->graph->output_names[i], i));
    XCVM_TRY(xcc_match_pairs(m, pairs));
    pairs->why = xcc_alloc(m, pairs->count * sizeof *pairs->why);
    if (pairs->why == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < pairs->count; i++)
        XCVM_TRY(enter(m, &pairs->inputs, pairs->at[i].input, i));
    return XCVM_OK;
}

size_t xcc_state_pair_of(const xcc_module *m, const xcc_state_pairs *pairs, const xcc_value *present,
                         const xcc_value *past)
{
    const struct xcc_table_entry *pair = NULL, *output = NULL;
    if (past != NULL && present != NULL)
        pair = xcc_table_lookup(&pairs->inputs, past->name);
    if (pair != NULL)
        output = xcc_table_lookup(&pairs->outputs, pairs->at[pair->value].output);
    return output != NULL && m->graph->outputs[output->value] == present ? (size_t)pair->value : SIZE_MAX;
}

/* Where only one size is known, the run compares what is stored. */
bool xcc_state_types_agree(const xcvm_value *stored, const xcvm_value *state)
{
    const xcvm_value *a = stored, *b = state;
    bool same = b->kind == XCVM_KIND_TENSOR && b->dtype != XCVM_STRING && b->dtype != XCVM_NO_DTYPE && b->rank >= 0 &&
                (a->kind == XCVM_KIND_NULL || a->kind == XCVM_KIND_TENSOR) &&
                (a->dtype == XCVM_NO_DTYPE || a->dtype == b->dtype) && (a->rank < 0 || a->rank == b->rank);
    for (int i = 0; same && i < a->rank; i++)
        same = a->dims[i] < 0 || b->dims[i] < 0 || a->dims[i] == b->dims[i];
    return same;
}

static xcvm_status check_types(xcc_module *m, const xcc_state_pair *pair, const xcc_value *from, const xcc_value *to)
{
    const xcvm_value *a = &from->type, *b = &to->type;
    char texts[2][192];
    XCVM_CHECK(m->error, xcc_state_types_agree(a, b), TYPE_MISMATCH,
               "output \"%.100s\", %s, cannot be the state that is input \"%.100s\", %s, of the next run", pair->output,
               xcvm_value_describe(a, texts[0], sizeof texts[0]), pair->input,
               xcvm_value_describe(b, texts[1], sizeof texts[1]));
    return XCVM_OK;
}

/* The places of outputs are taken by Stores, and inputs are states. */
static xcvm_status pair_states(xcc_module *m, xcc_state_pairs *pairs)
{
    const size_t count = pairs->count;
    xcc_graph *g = m->graph;
    xcc_table inputs = {.count = 0};
    xcc_value **states = xcc_alloc(m, count * sizeof *states);
    xcc_value **values = xcc_alloc(m, count * sizeof *values);
    const char **names = xcc_alloc(m, count * sizeof *names);
    bool *removed = xcc_alloc(m, (g->output_count + count) * sizeof *removed);
    if (states == NULL || values == NULL || names == NULL || removed == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->input_count; i++)
        XCVM_TRY(enter(m, &inputs, g->inputs[i]->name, i));
    for (size_t i = 0; i < count; i++) {
        const xcc_state_pair *pair = &pairs->at[i];
        const struct xcc_table_entry *output = xcc_table_lookup(&pairs->outputs, pair->output),
                                     *input = xcc_table_lookup(&inputs, pair->input);
        XCVM_TRY(xcc_poll(m));
        XCVM_CHECK(m->error, output != NULL, INVALID_ARGUMENT, "there is no output \"%.100s\" to keep as a state",
                   pair->output);
        XCVM_CHECK(m->error, input != NULL, INVALID_ARGUMENT, "there is no input \"%.100s\" to keep as a state",
                   pair->input);
        states[i] = g->inputs[input->value];
        values[i] = g->outputs[output->value];
        names[i] = states[i]->name;
        removed[output->value] = true;
        XCVM_TRY(check_types(m, pair, values[i], states[i]));
        /* Neither can be another state. */
        xcc_table_remove(&pairs->outputs, pair->output);
        xcc_table_remove(&inputs, pair->input);
    }
    XCVM_TRY(xcc_settle_state_sizes(m, count, states, values));
    xcc_values_keep(count, states);
    XCVM_TRY(xcc_graph_add_outputs(g, count, values, names, states));
    return xcc_graph_remove_outputs(g, removed);
}

/* Whether a cache is to be in half precision: it is f32, and but for `scatter`, which will be nobody's, attention alone
 * reads it. */
static bool is_rounded(const xcc_module *m, const xcc_value *state, const xcc_node *scatter)
{
    const xcvm_dtype asked = m->options->states.cache_dtype;
    bool rounded = (asked == XCVM_F16 || asked == XCVM_BF16) && state->type.dtype == XCVM_F32;
    for (const xcc_use *u = state->users; u != NULL; u = u->next)
        rounded = rounded && (u->node == scatter || xcc_is(u->node, XCVM_OP_CachedAttention));
    return rounded;
}

/* Why what is stored is not known to be the state with rows in the place of others, which nobody else reads; NULL:
 * that it is. */
static const char *why_written_whole(const xcc_value *stored, const xcc_value *state)
{
    const xcc_node *scatter = xcc_producer(stored, XCVM_OP_TensorScatter);
    if (scatter == NULL)
        return "it is not itself with rows in the place of others";
    if (stored->users->next != NULL)
        return "something in the run reads what is stored";
    const xcvm_TensorScatter_args *a = XCC_ARGS(TensorScatter, scatter);
    const xcc_value *cache = xcc_value_of(a->past_cache);
    const xcc_node *pad = xcc_producer(cache, XCVM_OP_Pad);
    /* Padded, it would be longer than the state is; rows that have no place are an error either way. */
    if (pad != NULL)
        cache = xcc_value_of(XCC_ARGS(Pad, pad)->x);
    if (cache != state)
        return "it is another tensor with rows in the place of others";
    for (int i = 0; i < state->type.rank; i++)
        if (state->type.dims[i] < 0)
            return "it has open sizes";
    if (state->type.rank != 4 || a->write_indices == NULL || a->mode != XCVM_CACHE_MODE_linear ||
        (a->axis != -2 && a->axis != 2) || a->update->rank != 4)
        return "rows are put elsewhere than one behind the other along axis -2 of 4";
    return NULL;
}

/* A cache of known size, of which rows are replaced and all else stays, is written where it lies, if nobody else reads
 * the result: what goes into it is copied once the run has ended well, and nothing else. */
static xcvm_status append_in_place(xcc_graph *g, const xcc_value *stored, xcc_value *state)
{
    const xcc_node *scatter = stored->producer;
    const xcvm_TensorScatter_args *a = XCC_ARGS(TensorScatter, scatter);
    const xcc_node *pad = xcc_producer(xcc_value_of(a->past_cache), XCVM_OP_Pad);
    xcc_builder b = {.graph = g, .name = scatter->name, .origin = scatter->origin};
    const xcc_value *update = xcc_value_of(a->update);
    if (is_rounded(g->module, state, pad != NULL ? pad : scatter)) {
        int64_t dims[XCVM_MAX_RANK];
        memcpy(dims, state->type.dims, sizeof dims);
        xcvm_value_set_tensor(&state->type, g->module->options->states.cache_dtype, state->type.rank, dims);
        update = xcc_apply(&b, Cast, y, .x = a->update, .to = g->module->options->states.cache_dtype, .saturate = 1);
    }
    if (update == NULL ||
        xcc_emit(&b, CacheAppend, .update = XCC_IN(update), .at = a->write_indices, .cache = XCC_IN(state)) == NULL)
        return g->module->error->status;
    return XCVM_OK;
}

/* A line of what became of a state. `difference` is what why_written_whole says. */
static void tell(xcc_module *m, const xcc_state_pairs *pairs, const xcc_value *state, const char *difference)
{
    const xcc_options *o = m->options;
    const struct xcc_table_entry *pair = xcc_table_lookup(&pairs->inputs, state->name);
    if (o->diagnostics.call == NULL || pair == NULL)
        return;
    const bool asked = o->states.cache_dtype != XCVM_NO_DTYPE && o->states.cache_dtype != XCVM_F32,
               rounded = state->type.dtype == o->states.cache_dtype;
    const char *type = xcvm_dtype_name((xcvm_dtype)state->type.dtype);
    const char *why = pairs->why[pair->value] != NULL ? pairs->why[pair->value] : difference;
    char text[512];
    if (difference != NULL)
        snprintf(text, sizeof text, "state %.200s is written whole in each run: %s", state->name, why);
    else
        snprintf(text, sizeof text, "state %.200s is a cache of %lld rows of %s%s, which are added where it lies",
                 state->name, (long long)state->type.dims[2], type,
                 !asked || rounded               ? ""
                 : state->type.dtype == XCVM_F32 ? ", as something besides CachedAttention reads it"
                                                 : ", as f32 alone is rounded");
    o->diagnostics.call(o->diagnostics.user, XCC_DIAGNOSTIC_STATE, text);
}

/* A cache whose batch is open grows, whatever number of rows it is to hold. */
static void note_open_batch(const xcc_module *m, const xcc_value *state)
{
    const char *name = xcc_symbol_name(m, state->type.dims[0]);
    char text[512];
    snprintf(text, sizeof text,
             "state \"%.200s\" has an open batch, so that it grows and is copied in each run, and its number of "
             "rows has no effect%s%.100s%s",
             state->name, name != NULL ? "; fix it: --dim " : "", name != NULL ? name : "", name != NULL ? "=1" : "");
    m->options->diagnostics.call(m->options->diagnostics.user, XCC_DIAGNOSTIC_STATE_PAIR, text);
}

static xcvm_status append_all_in_place(xcc_module *m, const xcc_state_pairs *pairs)
{
    xcc_graph *g = m->graph;
    bool noted = m->options->states.cache_rows == 0 || m->options->diagnostics.call == NULL;
    bool *removed = xcc_alloc(m, g->output_count * sizeof *removed);
    if (removed == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->output_count; i++) {
        xcc_value *stored = g->outputs[i], *state = xcc_graph_output_state(g, i);
        if (state == NULL)
            continue;
        const char *difference = why_written_whole(stored, state);
        removed[i] = difference == NULL;
        XCVM_TRY(xcc_poll(m));
        if (removed[i])
            XCVM_TRY(append_in_place(g, stored, state));
        tell(m, pairs, state, difference);
        if (!noted && difference != NULL && state->type.rank == 4 && state->type.dims[0] < 0) {
            noted = true;
            note_open_batch(m, state);
        }
    }
    return xcc_graph_remove_outputs(g, removed);
}

xcvm_status xcc_pair_states(xcc_module *m)
{
    xcc_state_pairs pairs;
    if (m->options->states.pair_count == 0 && m->options->states.pattern_count == 0)
        return XCVM_OK;
    XCVM_TRY(index_pairs(m, &pairs));
    XCVM_TRY(xcc_pair_caches(m, &pairs));
    XCVM_TRY(pair_states(m, &pairs));
    return append_all_in_place(m, &pairs);
}
