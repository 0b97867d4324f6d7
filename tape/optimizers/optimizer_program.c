/* The step of an optimizer as the end of a training program, which continues from the optimizer's state. */
#include "compiler/ir/compose.h"
#include "compiler/training/training.h"
#include "tape/optimizers/optimizers.h"

#include <stdio.h>
#include <string.h>

static xcc_value *state_named(const xcc_module *m, const char *name)
{
    for (xcc_value *v = m->variables; v != NULL; v = v->next_owned)
        if (v->kind == XCC_STATE && strcmp(v->name, name) == 0)
            return v;
    return NULL;
}

/* Sets the initial elements of a state, which are borrowed. False if the program has no such state of that size. */
static bool begin_with(const xcc_module *m, const char *parameter, const char *what, const void *data, size_t bytes)
{
    char name[160];
    snprintf(name, sizeof name, "%s%s%s%s", XCC_OPTIMIZER_PREFIX, parameter, parameter[0] != '\0' ? "." : "", what);
    xcc_value *v = state_named(m, name);
    if (v == NULL || (v->initial != NULL && v->initial_bytes != bytes))
        return false;
    v->initial = data;
    v->initial_bytes = bytes;
    v->initial_lead = 0;
    v->initial_copied = false;
    return true;
}

/* States and the number of steps start with their current values. */
static xcvm_status begin_states(const xcvm_optimizer *o, xcc_module *m, size_t count,
                                const tape_program_change *changes, const int64_t *steps)
{
    bool good = begin_with(m, "", "step", steps, sizeof *steps);
    for (size_t i = 0; i < count; i++) {
        const tape_trainable_parameter *l = tape_parameter_of(o, changes[i].variable);
        for (size_t k = 0; k < STATE_COUNT && good; k++)
            if (l->updated && l->states[k].kind != XCVM_KIND_NULL)
                good = begin_with(m, changes[i].state->name, tape_optimizer_state_name(o, k), l->states[k].data,
                                  l->states[k].bytes);
    }
    return good ? XCVM_OK
                : xcvm_error_set(m->error, XCVM_INTERNAL, "what an optimizer keeps is no state of the program");
}

static xcvm_status check_steps(const xcvm_optimizer *o, xcc_module *m, size_t count, const tape_program_change *changes,
                               int64_t *steps)
{
    XCVM_CHECK(m->error, o->hook_count == 0, UNSUPPORTED, "an optimizer calls update hooks, which no program can");
    XCVM_CHECK(m->error, state_named(m, XCC_OPTIMIZER_PREFIX "step") == NULL, UNSUPPORTED,
               "a program has one optimizer, the function takes steps of several, or several steps");
    *steps = -1;
    for (size_t i = 0; i < count; i++) {
        const tape_trainable_parameter *l = tape_parameter_of(o, changes[i].variable);
        XCVM_CHECK(m->error, l != NULL, INTERNAL, "a parameter is none of the optimizer's");
        XCVM_CHECK(m->error, !changes[i].by_rows, UNSUPPORTED,
                   "the gradient of \"%.80s\" is kept by rows (xcvm_var_set_sparse_gradient), which no program has",
                   l->name);
        XCVM_CHECK(m->error, *steps < 0 || *steps == l->steps, UNSUPPORTED,
                   "\"%.80s\" has had %lld steps, others %lld; a program counts them for all", l->name,
                   (long long)l->steps, (long long)*steps);
        *steps = l->steps;
    }
    return XCVM_OK;
}

static xcvm_status build_update(const xcvm_optimizer *o, xcc_module *m, size_t count,
                                const tape_program_change *changes)
{
    xcc_training t = {.m = m, .b = {.graph = m->graph, .name = "", .origin = "Optimizer"}, .spec = o->spec};
    if ((t.parameters = xcc_alloc(m, count * sizeof *t.parameters)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        xcc_value *gradient = changes[i].gradient;
        if (!tape_parameter_of(o, changes[i].variable)->updated)
            continue;
        if (o->scale != 1.0)
            gradient = xcc_build_mul(&t.b, gradient, xcc_build_number(&t.b, gradient, o->scale));
        if (gradient == NULL)
            return m->error->status;
        t.parameters[t.count++] = (xcc_trainable){.parameter = changes[i].state, .gradient = gradient};
    }
    return t.count > 0 ? xcc_training_update(&t)
                       : xcvm_error_set(m->error, XCVM_UNSUPPORTED, "the optimizer updates nothing");
}

xcvm_status tape_optimizer_build(tape_effect *e, xcc_module *m, size_t count, const tape_program_change *changes)
{
    const xcvm_optimizer *o = (const xcvm_optimizer *)(void *)e;
    const xcc_options *before = m->options;
    int64_t *steps = xcc_alloc(m, sizeof *steps);
    xcc_options *options = xcc_alloc(m, sizeof *options);
    if (steps == NULL || options == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(check_steps(o, m, count, changes, steps));
    *options = *before;
    options->training.clip_norm = o->options.clip_norm;
    options->training.clip_value = o->options.clip_value;
    options->training.average = o->options.average;
    m->options = options;
    const xcvm_status status = build_update(o, m, count, changes);
    m->options = before;
    XCVM_TRY(status);
    return begin_states(o, m, count, changes, steps);
}
