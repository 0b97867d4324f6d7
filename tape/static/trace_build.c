/* Copies traces into modules that are compiled, or onto the tape. */
#include "tape/static/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Names ---- */

const char *tape_trace_name(const tape_trace *k, size_t operand, char text[32])
{
    if (operand < k->in_count)
        snprintf(text, 32, "in%zu", operand);
    else if (k->operands[operand].gathered)
        snprintf(text, 32, "gathered%zu", operand - k->in_count);
    else if (k->operands[operand].slot != NULL)
        snprintf(text, 32, "held%zu", operand - k->in_count);
    else
        snprintf(text, 32, "capture%zu", operand - k->in_count - k->held_count);
    return text;
}

size_t tape_trace_operand_named(const tape_trace *k, const char *name)
{
    static const char *const prefixes[] = {"in", "held", "gathered", "capture"};
    const size_t own = k->in_count, all = k->operand_count, firsts[] = {0, own, own, own + k->held_count},
                 ends[] = {own, all, all, all};
    for (size_t i = 0; i < 4; i++) {
        const size_t length = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], length) != 0 || name[length] < '0' || name[length] > '9')
            continue;
        char *end;
        const unsigned long long number = strtoull(name + length, &end, 10);
        return *end == '\0' && number < ends[i] - firsts[i] ? firsts[i] + (size_t)number : SIZE_MAX;
    }
    return SIZE_MAX;
}

const xcvm_static_state *tape_trace_state(const tape_trace *k, size_t operand)
{
    const xcvm_var v = k->operands[operand].v;
    for (size_t i = 0; k->naming != NULL && operand >= k->in_count && i < k->naming->state_count; i++)
        if (v.at != NULL && v.at == k->naming->states[i].variable.at &&
            v.serial == k->naming->states[i].variable.serial)
            return &k->naming->states[i];
    return NULL;
}

bool tape_trace_begins_anew(const tape_trace *k, size_t operand)
{
    const trace_operand *o = &k->operands[operand];
    return k->naming != NULL && !k->naming->continues && o->slot != NULL && o->next != NULL && o->value != NULL;
}

/* The name from the naming, or the default one. */
static const char *operand_name(const tape_trace *k, size_t operand, char text[32])
{
    const trace_naming *naming = k->naming;
    const size_t held = operand - k->in_count;
    const xcvm_static_state *state = tape_trace_state(k, operand);
    const char *name = NULL;
    if (naming != NULL && operand < k->in_count)
        name = naming->in != NULL ? naming->in[operand] : NULL;
    else if (state != NULL && state->name != NULL)
        name = state->name;
    else if (naming != NULL && naming->held != NULL && held < naming->held_count)
        name = naming->held[held];
    return name != NULL ? name : tape_trace_name(k, operand, text);
}

/* Fails if a value has another name because the name was in use. */
static xcvm_status check_name(const xcc_value *v, const char *name)
{
    xcc_module *m = v->graph->module;
    XCVM_CHECK(m->error, strcmp(v->name, name) == 0, INVALID_ARGUMENT,
               "two of the inputs, outputs and states of the program have the name \"%.200s\"", name);
    return XCVM_OK;
}

/* ---- Copies ---- */

typedef struct copying {
    const tape_trace *trace;
    xcc_builder *b;
    xcc_value **map; /* by ids of the trace */
    bool stores;     /* written operands are states, which the runner binds */
} copying;

/* The copy of value `v`. `field` is NULL outside of nodes. */
static xcvm_status map_value(void *user, xcc_value *v, const xcvm_field *field, xcc_value **copy)
{
    const copying *c = user;
    xcc_graph *g = c->b->graph;
    if (field != NULL && field->role == XCVM_ROLE_OUT) {
        c->map[v->id] = xcc_value_create(g, NULL);
    } else if (c->map[v->id] == NULL && xcc_is_constant(v)) {
        c->map[v->id] =
            xcc_constant(g, NULL, (xcvm_dtype)v->type.dtype, v->type.rank, v->type.dims, v->type.data, true);
    }
    *copy = c->map[v->id];
    if (*copy != NULL)
        return XCVM_OK;
    xcvm_error *error = g->module->error;
    return error->status != XCVM_OK ? error->status
                                    : xcvm_error_set(error, XCVM_INTERNAL, "value %s of a trace has no copy", v->name);
}

/* Copies values that block gradients, so that none flows through. */
static xcvm_status stop_gradients(const copying *c, const xcc_node *n)
{
    for (size_t i = 0; i < xcc_node_output_count(n); i++) {
        const xcc_value *v = xcc_node_output(n, i);
        if (v == NULL || v->mark != TRACE_STOPPED)
            continue;
        xcc_value *from = c->map[v->id];
        c->map[v->id] = xcc_apply(c->b, BitCast, y, .x = XCC_IN(from), .to = (xcvm_dtype)from->type.dtype);
        if (c->map[v->id] == NULL)
            return c->b->graph->module->error->status;
    }
    return XCVM_OK;
}

static xcvm_status copy_nodes(copying *c, bool stops)
{
    for (const xcc_node *n = c->trace->module.graph->first; n != NULL; n = n->next) {
        if (xcc_node_copy(c->b, n, map_value, c) == NULL)
            return c->b->graph->module->error->status;
        if (stops)
            XCVM_TRY(stop_gradients(c, n));
    }
    return XCVM_OK;
}

/* ---- Modules ---- */

/* The value of an operand in the copy, with its current elements if it needs any. */
static xcc_value *build_operand(const copying *c, size_t index, trace_form form)
{
    const tape_trace *k = c->trace;
    const trace_operand *o = &k->operands[index];
    xcc_graph *g = c->b->graph;
    const xcvm_value *type = &o->value->type;
    char text[32];
    const char *name = operand_name(k, index, text), *own = xcc_string(g->module, name, strlen(name));
    if (own == NULL)
        return NULL;
    if (form != TRACE_INPUTS && o->gathered)
        return xcc_apply(c->b, Gather, y, .x = XCC_IN(c->map[k->operands[o->table].value->id]),
                         .indices = XCC_IN(c->map[k->operands[o->indices].value->id]));
    if (form != TRACE_INPUTS && index >= k->in_count) {
        const xcvm_static_state *state = tape_trace_state(k, index);
        const void *data = state != NULL && state->initial != NULL ? state->initial->data
                           : tape_trace_begins_anew(k, index)      ? NULL
                                                                   : o->v.at->value.type.data;
        const bool changes = trace_is_written(o) || o->changes || o->next != NULL;
        if (form == TRACE_STATES || (form == TRACE_SAVED && changes))
            return xcc_state(g, own, (xcvm_dtype)type->dtype, type->rank, type->dims, data, false);
        if (!changes)
            return xcc_constant(g, own, (xcvm_dtype)type->dtype, type->rank, type->dims, data, false);
    }
    if (c->stores && trace_is_written(o) && o->next == NULL)
        return xcc_state(g, own, (xcvm_dtype)type->dtype, type->rank, type->dims, NULL, false);
    xcc_value *v = xcc_value_create(g, own);
    if (v == NULL)
        return NULL;
    v->kind = XCC_INPUT;
    xcvm_value_set_tensor(&v->type, (xcvm_dtype)type->dtype, type->rank, type->dims);
    return v;
}

static xcvm_status build_operands(copying *c, trace_form form)
{
    const tape_trace *k = c->trace;
    xcc_module *m = c->b->graph->module;
    xcc_value **inputs = xcc_alloc(m, k->operand_count * sizeof *inputs);
    size_t count = 0;
    if (inputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < k->operand_count; i++) {
        const trace_operand *o = &k->operands[i];
        if (o->value == NULL)
            continue;
        xcc_value *v = c->map[o->value->id] = build_operand(c, i, form);
        if (v == NULL)
            return m->error->status;
        char text[32];
        if (k->naming != NULL && (v->kind == XCC_INPUT || v->kind == XCC_STATE))
            XCVM_TRY(check_name(v, operand_name(k, i, text)));
        if (v->kind == XCC_INPUT)
            inputs[count++] = v;
    }
    return xcc_graph_set_inputs(c->b->graph, count, inputs);
}

/* Adds an output as a value of its own. */
static xcvm_status add_output(const copying *c, xcc_value *value, const char *name, xcc_value **output)
{
    xcc_value *from;
    XCVM_TRY(map_value((void *)(uintptr_t)c, value, NULL, &from));
    *output = xcc_value_create(c->b->graph, name);
    if (*output == NULL || xcc_emit(c->b, Identity, .y = XCC_OUT(*output), .x = XCC_IN(from)) == NULL)
        return c->b->graph->module->error->status;
    return XCVM_OK;
}

static bool is_stored(const copying *c, size_t operand)
{
    return c->map[c->trace->operands[operand].value->id]->kind == XCC_STATE;
}

/* The new value of operand `index`: the next state, or a further output. */
static xcvm_status build_next(const copying *c, size_t index, xcc_value *value, xcc_value **outputs, size_t *count)
{
    char name[48], operand[32];
    snprintf(name, sizeof name, "%s_next", tape_trace_name(c->trace, index, operand));
    const char *own = xcc_string(c->b->graph->module, name, strlen(name));
    const trace_operand *o = &c->trace->operands[index];
    xcc_value *output;
    if (own == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(add_output(c, value, own, &output));
    if (o->value != NULL && is_stored(c, index))
        return xcc_graph_store(c->b->graph, c->map[o->value->id], output);
    outputs[(*count)++] = output;
    return XCVM_OK;
}

static size_t count_changes(const tape_trace *k)
{
    size_t count = 0;
    for (size_t i = 0; i < k->effect_count; i++)
        count += 2 * k->effects[i].count;
    return count;
}

/* Outputs the changes of effects. */
static xcvm_status build_changes(const copying *c, xcc_value **outputs, size_t *count)
{
    const tape_trace *k = c->trace;
    for (size_t i = 0, number = 0; i < k->effect_count; i++)
        for (size_t j = 0; j < k->effects[i].count; j++) {
            const trace_change *change = &k->effects[i].changes[j];
            xcc_value *const values[] = {trace_change_gradient(change), trace_change_companion(change)};
            for (size_t v = 0; v < 2 && values[v] != NULL; v++) {
                char name[32];
                snprintf(name, sizeof name, "change%zu", number++);
                const char *own = xcc_string(c->b->graph->module, name, strlen(name));
                if (own == NULL)
                    return XCVM_OUT_OF_MEMORY;
                XCVM_TRY(add_output(c, values[v], own, &outputs[(*count)++]));
            }
        }
    return XCVM_OK;
}

static xcvm_status add_outputs(xcc_module *m, xcc_value **outputs, size_t count)
{
    if (count == 0)
        return XCVM_OK;
    const char **names = xcc_alloc(m, count * sizeof *names);
    if (names == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        names[i] = outputs[i]->name;
    return xcc_graph_add_outputs(m->graph, count, outputs, names, NULL);
}

/* Appends the effects to a program. */
static xcvm_status build_effects(const copying *c)
{
    const tape_trace *k = c->trace;
    xcc_module *m = c->b->graph->module;
    for (size_t i = 0; i < k->effect_count; i++) {
        const trace_effect *e = &k->effects[i];
        tape_program_change *changes = xcc_alloc(m, e->count * sizeof *changes);
        if (changes == NULL)
            return XCVM_OUT_OF_MEMORY;
        for (size_t j = 0; j < e->count; j++) {
            const trace_operand *o = &k->operands[e->changes[j].operand];
            changes[j] = (tape_program_change){
                .variable = o->v.at, .state = c->map[o->value->id], .by_rows = e->changes[j].rows != NULL};
            XCVM_TRY(map_value((void *)(uintptr_t)c, e->changes[j].gradient, NULL, &changes[j].gradient));
        }
        XCVM_TRY(e->effect->build(e->effect, m, e->count, changes));
    }
    return XCVM_OK;
}

xcvm_status tape_trace_build(const tape_trace *k, xcc_module *m, trace_form form, bool stops)
{
    xcc_builder b = {.graph = m->graph, .name = "", .origin = ""};
    /* A differentiated trace becomes two programs, and the first may save old values for the second. */
    copying c = {.trace = k, .b = &b, .stores = !stops && (form == TRACE_INPUTS || form == TRACE_CONSTANTS)};
    xcc_value **outputs = xcc_alloc(m, (k->out_count + 2 * k->operand_count + count_changes(k)) * sizeof *outputs);
    size_t count = 0;
    c.map = xcc_alloc(m, k->module.value_count * sizeof *c.map);
    if (outputs == NULL || c.map == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(build_operands(&c, form));
    XCVM_TRY(copy_nodes(&c, stops));
    for (size_t i = 0; i < k->out_count; i++) {
        char text[32];
        snprintf(text, sizeof text, "out%zu", i);
        const bool named = k->naming != NULL && k->naming->out != NULL && k->naming->out[i] != NULL;
        const char *name = named ? k->naming->out[i] : text, *own = xcc_string(m, name, strlen(name));
        if (own == NULL)
            return XCVM_OUT_OF_MEMORY;
        XCVM_TRY(add_output(&c, k->outs[i], own, &outputs[count++]));
        if (k->naming != NULL)
            XCVM_TRY(check_name(outputs[count - 1], own));
    }
    XCVM_TRY(xcc_graph_set_outputs(m->graph, count, outputs));
    count = 0;
    for (size_t i = 0; i < k->operand_count; i++)
        if (k->operands[i].next != NULL)
            XCVM_TRY(build_next(&c, i, k->operands[i].next, outputs, &count));
    if (form == TRACE_INPUTS)
        XCVM_TRY(build_changes(&c, outputs, &count));
    for (size_t i = 0; i < k->operand_count; i++)
        if (k->operands[i].value != NULL && trace_is_written(&k->operands[i]))
            XCVM_TRY(build_next(&c, i, k->operands[i].now, outputs, &count));
    XCVM_TRY(add_outputs(m, outputs, count));
    return form != TRACE_INPUTS ? build_effects(&c) : XCVM_OK;
}

/* ---- The tape ---- */

xcvm_status tape_trace_run(const tape_trace *k, tape_variable *const *operands, tape_variable **outs)
{
    xcvm_tape *t = k->tape;
    xcc_module *m = &t->module;
    xcc_builder b = {.graph = m->graph, .name = "", .origin = "Gradient"};
    copying c = {.trace = k, .b = &b, .map = xcc_alloc(m, k->module.value_count * sizeof *c.map)};
    size_t count = 0;
    if (c.map == NULL)
        return tape_latch_failure(t, XCVM_OUT_OF_MEMORY);
    if (k->operation_count > 0)
        return tape_fail(t, XCVM_UNSUPPORTED,
                         "gradients of operations of the host's in a static function are not differentiated");
    for (size_t i = 0; i < k->operand_count; i++)
        if (k->operands[i].value != NULL && operands[i] != NULL)
            c.map[k->operands[i].value->id] = &operands[i]->value;
    for (const xcc_node *n = k->module.graph->first; n != NULL; n = n->next) {
        if (xcc_node_copy(&b, n, map_value, &c) == NULL)
            return tape_latch_failure(t, t->error.status);
        for (size_t i = 0; i < xcc_node_output_count(n); i++) {
            const xcc_value *v = xcc_node_output(n, i);
            if (v == NULL || v->mark != TRACE_STOPPED)
                continue;
            tape_variable *stopped = tape_variable_share(t, tape_variable_of(c.map[v->id]));
            if (stopped == NULL)
                return t->error.status;
            c.map[v->id] = &stopped->value;
        }
    }
    for (size_t i = 0; i < k->out_count + k->operand_count; i++) {
        xcc_value *v = i < k->out_count ? k->outs[i] : k->operands[i - k->out_count].next;
        if (v == NULL)
            continue;
        xcc_value *copy;
        XCVM_TRY(tape_latch_failure(t, map_value(&c, v, NULL, &copy)));
        outs[count++] = tape_variable_of(copy);
    }
    return XCVM_OK;
}
