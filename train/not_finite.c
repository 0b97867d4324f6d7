/* Finds the first instruction whose result is not finite. */
#include "train/data/convert_rows.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>

typedef struct hunt {
    bool infinities; /* look for them, too */
    int32_t loss_pc;
    bool found;
    char what[300];
} hunt;

static bool is_bad(const xcvm_value *v, bool infinities)
{
    if (v == NULL || v->kind != XCVM_KIND_TENSOR || !xcvm_dtype_is_float((xcvm_dtype)v->dtype))
        return false;
    const size_t count = xcvm_value_count(v), size = xcvm_dtype_size((xcvm_dtype)v->dtype);
    if (xct_has_nan((xcvm_dtype)v->dtype, v->data, count))
        return true;
    for (size_t i = 0; infinities && i < count; i++) {
        double number = 0;
        xct_convert((xcvm_dtype)v->dtype, (const char *)v->data + i * size, XCVM_F64, &number, 1);
        if (isinf(number))
            return true;
    }
    return false;
}

static xcvm_status look(void *user, const xcvm_event *event, xcvm_error *error)
{
    hunt *h = user;
    for (size_t i = 0; i < event->input_count; i++)
        if (is_bad(event->inputs[i], h->infinities))
            return event->pc != h->loss_pc ? XCVM_OK : XCVM_INVALID_ARGUMENT; /* an operand was already not finite */
    for (size_t i = 0; i < event->output_count; i++) {
        if (!is_bad(event->outputs[i], h->infinities))
            continue;
        h->found = true;
        (void)snprintf(h->what, sizeof h->what, "instruction %d, %s%s%.100s%s", (int)event->pc, event->instruction,
                       event->node[0] != '\0' ? ", node \"" : "", event->node, event->node[0] != '\0' ? "\"" : "");
        return xcvm_error_set(error, XCVM_INVALID_ARGUMENT, "%s", h->what);
    }
    /* Stops before the instructions that change parameters. */
    XCVM_CHECK(error, event->pc != h->loss_pc, INVALID_ARGUMENT, "the loss is not finite");
    return XCVM_OK;
}

xcvm_status xct_find_not_finite(xct_trainer *t, xct_engine *e, xcvm_error *error)
{
    const unsigned long long step = (unsigned long long)t->position.step + 1;
    /* A parameter may be not finite because of the previous step. */
    for (size_t i = 0; i < xcvm_program_state_count(e->program); i++)
        XCVM_CHECK(
            error, !is_bad(xcvm_session_get_state(e->session, i), true), INVALID_ARGUMENT,
            "step %llu: the loss is not finite, as \"%s\" is not since the step before, whose gradients were too "
            "large; a lower learning rate, or clipping gradients, may help",
            step, xcvm_program_state_at(e->program, i)->name);
    const uint64_t random = e->session->random;
    /* Processes would find different instructions and wait for each other. */
    XCVM_CHECK(error, t->options.ranks <= 1, INVALID_ARGUMENT, "step %llu: the loss is not finite", step);
    for (int infinities = 0; infinities <= 1; infinities++) {
        hunt h = {.infinities = infinities != 0, .loss_pc = e->loss_pc};
        const xcvm_observer observer = {.size = sizeof observer, .after = look, .user = &h};
        xcvm_error stopped;
        e->session->random = random;
        xcvm_session_set_observer(e->session, &observer);
        const xcvm_status status = xcvm_session_run(e->session, NULL, &stopped);
        xcvm_session_set_observer(e->session, NULL);
        if (h.found && status != XCVM_OK)
            XCVM_FAIL(error, INVALID_ARGUMENT,
                      "step %llu: the loss is not finite; the first number that is %s was made by %s", step,
                      infinities ? "infinite" : "NaN", h.what);
    }
    XCVM_FAIL(error, INVALID_ARGUMENT, "step %llu: the loss is not finite", step);
}
