/* Statistics, text form and saved programs of schedules. */
#include "tape/static/static.h"
#include "vm/options.h"

#include <stdio.h>
#include <string.h>

void xcvm_static_get_info(const xcvm_static *static_function, xcvm_static_info *stats)
{
    if (!TAPE_ENTER(TAPE_OF(static_function), xcvm_static_get_info))
        return;
    xcvm_static_info all = static_function->stats;
    all.size = stats->size;
    all.schedules = static_function->count;
    for (const tape_schedule *s = static_function->schedules; s != NULL; s = s->next) {
        all.in_use += s->users;
        all.memory_bytes += tape_schedule_memory(s);
    }
    memcpy(stats, &all, stats->size < sizeof all ? stats->size : sizeof all);
}

/* ---- Text ---- */

static bool write_text(xcvm_sink sink, const char *text) { return sink.call(sink.user, text, strlen(text)); }

static bool write_operands(const tape_schedule *s, xcvm_sink sink)
{
    const tape_trace *k = s->trace;
    for (size_t i = 0; i < k->operand_count; i++) {
        const trace_operand *o = &k->operands[i];
        char name[32], type[192], line[320];
        if (o->value == NULL)
            continue;
        snprintf(line, sizeof line, "#   %s = %s, %s%s%s\n", tape_trace_name(k, i, name), o->value->name,
                 xcvm_value_describe(&o->value->type, type, sizeof type), o->requires ? ", with gradient" : "",
                 o->now != o->value ? ", written" : "");
        if (!write_text(sink, line))
            return false;
    }
    return true;
}

static xcvm_status write_schedule(const xcvm_static *f, const tape_schedule *s, xcvm_sink sink)
{
    const tape_trace *k = s->trace;
    char head[480];
    snprintf(head, sizeof head, "# %.100s: %s%s, %zu calls, %s%s\n", f->name, s->training ? "training" : "test",
             s->recording ? "" : ", not recorded", k->call_count,
             k->refusal[0] != '\0'        ? "define-by-run: "
             : s->forward.session != NULL ? "compiled"
                                          : "recorded",
             k->refusal);
    if (!write_text(sink, head) || !write_operands(s, sink))
        return xcvm_error_set(&f->tape->error, XCVM_IO, "the text cannot be written");
    return xcc_graph_dump(k->module.graph, sink);
}

xcvm_status xcvm_static_dump(xcvm_static *static_function, xcvm_sink sink, xcvm_error *error)
{
    xcvm_tape *t = TAPE_OF(static_function);
    TAPE_BEGIN(t, xcvm_static_dump, error);
    XCVM_CHECK(error, sink.call != NULL, INVALID_ARGUMENT, "sink is NULL");
    for (const tape_schedule *s = static_function->schedules; s != NULL; s = s->next)
        if (tape_latch_failure(t, write_schedule(static_function, s, sink)) != XCVM_OK)
            return tape_report(t, error);
    return XCVM_OK;
}

/* ---- Programs ---- */

static xcvm_status check_names(const xcvm_static *f, const char *what, const char *const *names, size_t count,
                               size_t expected, xcvm_error *error)
{
    XCVM_CHECK(error, names == NULL || count == expected, INVALID_ARGUMENT,
               "%.100s: %zu names of %s are given, but there are %zu", f->name, count, what, expected);
    for (size_t i = 0; names != NULL && i < count; i++)
        XCVM_CHECK(error, names[i] == NULL || names[i][0] != '\0', INVALID_ARGUMENT, "%.100s: a name of %s is empty",
                   f->name, what);
    return XCVM_OK;
}

static xcvm_status check_state(const xcvm_static *f, const tape_trace *k, size_t index, xcvm_error *error)
{
    const xcvm_static_state *state = &k->naming->states[index];
    for (size_t i = k->in_count; i < k->operand_count; i++) {
        if (k->operands[i].value == NULL || tape_trace_state(k, i) != state)
            continue;
        XCVM_CHECK(error, state->initial == NULL || xcvm_same_shape(state->initial, &k->operands[i].value->type),
                   SHAPE_MISMATCH, "%.100s: the initial value of state %zu is not of its variable's type", f->name,
                   index);
        return XCVM_OK;
    }
    return xcvm_error_set(error, XCVM_INVALID_ARGUMENT,
                          "%.100s: state %zu is no variable that the function captures or finds in a place", f->name,
                          index);
}

static xcvm_status check_naming(const xcvm_static *f, const tape_trace *k, const xcvm_static_save_options *o,
                                xcvm_error *error)
{
    XCVM_TRY(check_names(f, "inputs", o->in_names, o->in_count, k->in_count, error));
    XCVM_TRY(check_names(f, "outputs", o->out_names, o->out_count, k->out_count, error));
    XCVM_TRY(check_names(f, "what is held", o->held_names, o->held_count, k->held_count, error));
    XCVM_CHECK(error, o->named_count == 0 || o->named != NULL, INVALID_ARGUMENT, "%.100s: named is NULL", f->name);
    for (size_t i = 0; i < o->named_count; i++)
        XCVM_TRY(check_state(f, k, i, error));
    return XCVM_OK;
}

/* Updates captures and state slots to their current variables. */
static xcvm_status find_operands(const xcvm_static *f, tape_trace *k, bool continues, xcvm_error *error)
{
    for (size_t i = k->in_count; i < k->operand_count; i++) {
        trace_operand *operand = &k->operands[i];
        const size_t slot = i - k->in_count;
        /* A state that starts anew needs no variable. */
        const bool anew = operand->slot != NULL && operand->next != NULL && !continues;
        if (operand->gathered || (anew && operand->slot->at == NULL))
            continue;
        if (operand->slot != NULL && operand->present)
            operand->v = *operand->slot;
        const tape_variable *v = tape_find(operand->v);
        XCVM_CHECK(error, !operand->present || v != NULL, INVALID_ARGUMENT,
                   "a variable that %.100s has captured is gone", f->name);
        XCVM_CHECK(error,
                   !operand->present ||
                       (v->value.type.kind == XCVM_KIND_TENSOR && v->value.type.dtype == operand->value->type.dtype &&
                        xcvm_same_shape(&v->value.type, &operand->value->type)),
                   SHAPE_MISMATCH, "what is held in place %zu is of another type or shape than at the last call", slot);
    }
    return XCVM_OK;
}

xcvm_status xcvm_static_save(xcvm_static *static_function, const xcvm_static_save_options *options, xcvm_sink sink,
                             xcvm_error *error)
{
    xcvm_tape *t = TAPE_OF(static_function);
    xcvm_static_save_options o;
    tape_schedule *last = NULL;
    TAPE_BEGIN(t, xcvm_static_save, error);
    XCVM_CHECK(error, sink.call != NULL, INVALID_ARGUMENT, "sink is NULL");
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    for (tape_schedule *s = static_function->schedules; s != NULL; s = s->next)
        if (last == NULL || s->used > last->used)
            last = s;
    XCVM_CHECK(error, last != NULL, INVALID_ARGUMENT, "%.100s has no schedule: it was not called, or is not enabled",
               static_function->name);
    XCVM_CHECK(error, last->trace->refusal[0] == '\0', UNSUPPORTED, "%.100s is no schedule: %.240s",
               static_function->name, last->trace->refusal);
    tape_trace *k = last->trace;
    const trace_naming naming = {.in = o.in_names,
                                 .out = o.out_names,
                                 .held = o.held_names,
                                 .held_count = o.held_count,
                                 .states = o.named,
                                 .state_count = o.named_count,
                                 .continues = o.continue_states};
    for (size_t i = 0; i < k->effect_count; i++)
        XCVM_CHECK(error, k->effects[i].effect != NULL, UNSUPPORTED,
                   "%.100s leaves accumulated gradients, which programs cannot have; use xcvm_tape_gradients",
                   static_function->name);
    XCVM_TRY(find_operands(static_function, k, o.continue_states, error));
    k->naming = &naming;
    const xcvm_status fits = check_naming(static_function, k, &o, error);
    if (fits != XCVM_OK) {
        k->naming = NULL;
        return fits;
    }
    const xcc_options how = {
        .size = sizeof how, .allocator = t->allocator, .optimization = static_function->options.optimization};
    const xcvm_status status = tape_schedule_emit(t, k, &how, o.states ? TRACE_STATES : TRACE_SAVED, sink);
    k->naming = NULL;
    return tape_latch_failure(t, status) != XCVM_OK ? tape_report(t, error) : XCVM_OK;
}
