/* Recurrent states: an output of the model and the input of its next run become a state of the program. */
#include "compiler/passes/rewrite.h"
#include "compiler/states/states.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Of equal names the first is used. */
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

/* If only one size is known, the run checks the stored tensor. */
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

/* Stores replace outputs, and states replace inputs. */
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
        /* Neither may be part of another state. */
        xcc_table_remove(&pairs->outputs, pair->output);
        xcc_table_remove(&inputs, pair->input);
    }
    XCVM_TRY(xcc_resolve_state_sizes(m, count, states, values));
    xcc_values_keep(count, states);
    XCVM_TRY(xcc_graph_add_outputs(g, count, values, names, states));
    return xcc_graph_remove_outputs(g, removed);
}

static bool asks_for_rounding(const xcc_options *o)
{
    return o->states.cache_dtype == XCVM_F16 || o->states.cache_dtype == XCVM_BF16;
}

/* Returns why a cache stays f32, as the end of a sentence; NULL: only attention reads it, which also reads f16 and
 * bf16. `scatter` is removed later. */
static const char *why_not_rounded(const xcc_value *state, const xcc_node *scatter)
{
    for (const xcc_use *u = state->users; u != NULL; u = u->next) {
        if (u->node == scatter || xcc_is(u->node, XCVM_OP_CachedAttention))
            continue;
        return xcc_is(u->node, XCVM_OP_CachedMatMul)
                   ? "is read by matrix products, which take f32 only. Export the model with the operator Attention or "
                     "GroupQueryAttention, or omit --caches"
                   : "is read by an operator other than attention. Omit --caches";
    }
    return NULL;
}

static const char open_sizes[] = "it has open sizes";

/* Returns why the stored value is not known to be the state with some rows replaced, without other readers; NULL: it
 * is. */
static const char *why_written_whole(const xcc_value *stored, const xcc_value *state)
{
    const xcc_node *scatter = xcc_producer(stored, XCVM_OP_TensorScatter);
    if (scatter == NULL)
        return "the run computes all of it";
    if (stored->users->next != NULL)
        return "an instruction reads the stored value";
    const xcvm_TensorScatter_args *a = XCC_ARGS(TensorScatter, scatter);
    const xcc_value *cache = xcc_value_of(a->past_cache);
    const xcc_node *pad = xcc_producer(cache, XCVM_OP_Pad);
    /* Padding would make it longer than the state. Rows outside of the state are an error in both forms. */
    if (pad != NULL)
        cache = xcc_value_of(XCC_ARGS(Pad, pad)->x);
    if (cache != state)
        return "it is another tensor with rows replaced";
    for (int i = 0; i < state->type.rank; i++)
        if (state->type.dims[i] < 0)
            return open_sizes;
    if (state->type.rank != 4 || a->write_indices == NULL || a->mode != XCVM_CACHE_MODE_linear ||
        (a->axis != -2 && a->axis != 2) || a->update->rank != 4)
        return "rows are not appended along axis -2 of 4";
    return NULL;
}

/* Sets *exact to the reason why the cache keeps its type, if the options ask for another.
 *
 * A cache of known size is written in place if only some rows are replaced and nothing else reads the result. The
 * replaced rows alone are copied after a successful run. */
static xcvm_status append_in_place(xcc_graph *g, const xcc_value *stored, xcc_value *state, const char **exact)
{
    const xcc_node *scatter = stored->producer;
    const xcvm_TensorScatter_args *a = XCC_ARGS(TensorScatter, scatter);
    const xcc_node *pad = xcc_producer(xcc_value_of(a->past_cache), XCVM_OP_Pad);
    xcc_builder b = {.graph = g, .name = scatter->name, .origin = scatter->origin};
    const xcc_value *update = xcc_value_of(a->update);
    if (asks_for_rounding(g->module->options))
        *exact = state->type.dtype != XCVM_F32 ? "is not f32. Omit --caches"
                                               : why_not_rounded(state, pad != NULL ? pad : scatter);
    if (asks_for_rounding(g->module->options) && *exact == NULL) {
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

/* ---- Messages ---- */

static void report(const xcc_module *m, xcc_diagnostic_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void report(const xcc_module *m, xcc_diagnostic_kind kind, const char *format, ...)
{
    const xcc_options *o = m->options;
    if (o->diagnostics.call == NULL)
        return;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    o->diagnostics.call(o->diagnostics.user, kind, text);
}

/* A state, and why the cache options have no effect on it. */
typedef struct exception {
    const xcc_value *state;
    const char *why;
} exception;

/* The first states that the cache options have no effect on. */
typedef struct exceptions {
    exception copied, exact; /* it grows and is copied; it stays f32 */
    size_t rounded;
} exceptions;

/* Writes the line of --report about a state. `difference` is the result of why_written_whole, and `exact` is the reason
 * why the state stays f32. */
static void report_state(const xcc_module *m, const xcc_value *state, const char *difference, const char *why,
                         const char *exact)
{
    if (difference != NULL)
        report(m, XCC_DIAGNOSTIC_STATE, "state %.200s is written in full in each run: %s", state->name, why);
    else
        report(m, XCC_DIAGNOSTIC_STATE, "state %.200s is a cache of %lld rows of %s, appended in place%s%s",
               state->name, (long long)state->type.dims[2], xcvm_dtype_name((xcvm_dtype)state->type.dtype),
               exact != NULL ? "; it stays f32, because it " : "", exact != NULL ? exact : "");
}

/* The name by which --dim sets an open dimension of a state; `unnamed` has room for one without a name of its own. */
static const char *dim_name(const xcc_module *m, const xcc_value *state, int axis, char unnamed[128])
{
    const char *name = xcc_symbol_name(m, state->type.dims[axis]);
    if (name != NULL)
        return name;
    (void)snprintf(unnamed, 128, "%.100s.%d", state->name, axis);
    return unnamed;
}

/* Reports options without effect, each with the first state concerned. */
static void note_exceptions(const xcc_module *m, const xcc_state_pairs *pairs, const exceptions *e)
{
    const xcc_value *copied = e->copied.state, *exact = e->exact.state;
    if (copied != NULL && copied->type.rank == 4 && copied->type.dims[0] < 0) {
        char unnamed[128];
        report(m, XCC_DIAGNOSTIC_STATE_PAIR,
               "state \"%.200s\" has an open batch, so that it grows and is copied in each run%s. Fix the "
               "batch: --dim %.100s=1",
               copied->name,
               m->options->states.cache_rows > 0 ? ", and its number of rows has no effect"
                                                 : ", and no room can be reserved with --cache-rows",
               dim_name(m, copied, 0, unnamed));
    } else if (copied != NULL && e->copied.why == open_sizes) {
        char unnamed[128];
        report(m, XCC_DIAGNOSTIC_STATE_PAIR,
               "state \"%.200s\" is copied in each run, because its number of rows is open. Fix it: --dim %.100s=N",
               copied->name, dim_name(m, copied, 2, unnamed));
    } else if (copied != NULL && e->copied.why == xcc_no_cache_rows) {
        report(m, XCC_DIAGNOSTIC_STATE_PAIR,
               "state \"%.200s\" grows and is copied in each run. Reserve room: --cache-rows N", copied->name);
    } else if (copied != NULL && m->options->states.cache_rows > 0) {
        report(m, XCC_DIAGNOSTIC_STATE_PAIR,
               "state \"%.200s\" grows and is copied in each run, and its number of rows has no effect: %s",
               copied->name, e->copied.why);
    } else if (m->options->states.cache_rows > 0 && pairs->bounded == 0) {
        report(
            m, XCC_DIAGNOSTIC_STATE_PAIR,
            "the number of cache rows (%lld) has no effect: no state is a cache to which the graph only appends rows, "
            "so that each run copies all states. Omit --cache-rows",
            (long long)m->options->states.cache_rows);
    }
    if (exact == NULL || !asks_for_rounding(m->options))
        return;
    report(m, XCC_DIAGNOSTIC_STATE_PAIR, "--caches %s has no effect%s state \"%.200s\" %s%s",
           xcvm_dtype_name(m->options->states.cache_dtype), e->rounded == 0 ? ":" : " on", exact->name,
           e->rounded == 0 ? "" : "because it ", e->exact.why);
}

static xcvm_status append_all_in_place(xcc_module *m, const xcc_state_pairs *pairs)
{
    xcc_graph *g = m->graph;
    exceptions found = {.rounded = 0};
    bool *removed = xcc_alloc(m, g->output_count * sizeof *removed);
    if (removed == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->output_count; i++) {
        xcc_value *stored = g->outputs[i], *state = xcc_graph_output_state(g, i);
        const struct xcc_table_entry *pair = state != NULL ? xcc_table_lookup(&pairs->inputs, state->name) : NULL;
        const char *exact = NULL;
        if (state == NULL)
            continue;
        XCVM_TRY(xcc_poll(m));
        const char *difference = why_written_whole(stored, state);
        const char *why = pair != NULL && pairs->why[pair->value] != NULL ? pairs->why[pair->value] : difference;
        removed[i] = difference == NULL;
        if (removed[i]) {
            XCVM_TRY(append_in_place(g, stored, state, &exact));
            found.rounded += asks_for_rounding(m->options) && exact == NULL;
        }
        if (pair == NULL)
            continue;
        report_state(m, state, difference, why, exact);
        const bool grows = difference != NULL && state->type.rank == 4 && state->type.dims[2] < 0;
        if (grows && found.copied.state == NULL)
            found.copied = (exception){state, why};
        if (difference != NULL)
            exact = grows ? "is copied in each run. Reserve room: --cache-rows N"
                          : "is not a cache to which rows are appended. Omit --caches";
        if (exact != NULL && found.exact.state == NULL)
            found.exact = (exception){state, exact};
    }
    note_exceptions(m, pairs, &found);
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
