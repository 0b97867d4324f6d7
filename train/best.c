/* The weights of the best epoch: copies of the states that are exported. */
#include "train/trainer.h"

#include <stdio.h>

static const char prefix[] = "best@";

bool xct_best_keeps(const char *state)
{
    const char *parameter;
    return !xct_is_optimizers(state) || xct_averaged(state, &parameter) > 0;
}

const char *xct_best_name(xcvm_arena *arena, const char *state)
{
    const size_t size = sizeof prefix + strlen(state);
    char *name = xcvm_arena_allocate(arena, size);
    if (name != NULL)
        (void)snprintf(name, size, "%s%s", prefix, state);
    return name;
}

static xcvm_status provide(xct_trainer *t, size_t count, xcvm_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const xcvm_value *state = xcvm_session_get_state(t->root.session, i);
        if (xct_best_keeps(xcvm_program_state_at(t->root.program, i)->name))
            XCVM_TRY(xcvm_tensor_create(t->allocator, (xcvm_dtype)state->dtype, state->rank, state->dims, &t->best[i],
                                        error));
    }
    return XCVM_OK;
}

xcvm_status xct_best_provide(xct_trainer *t, xcvm_error *error)
{
    const size_t count = xcvm_program_state_count(t->root.program);
    if (t->best != NULL)
        return XCVM_OK;
    t->best = xcvm_allocate_zeroed(t->allocator, count * sizeof(xcvm_value *));
    XCVM_CHECK(error, t->best != NULL, OUT_OF_MEMORY, "no memory for the weights of the best epoch");
    const xcvm_status status = provide(t, count, error);
    if (status != XCVM_OK)
        xct_best_release(t);
    return status;
}

void xct_best_take(xct_trainer *t)
{
    for (size_t i = 0; i < xcvm_program_state_count(t->root.program); i++)
        if (t->best[i] != NULL && t->best[i]->bytes > 0)
            memcpy(t->best[i]->data, xcvm_session_get_state(t->root.session, i)->data, t->best[i]->bytes);
}

xcvm_status xct_best_give(xct_trainer *t, xcvm_error *error)
{
    for (size_t i = 0; i < xcvm_program_state_count(t->root.program); i++)
        if (t->best[i] != NULL)
            XCVM_TRY(xcvm_session_set_state(t->root.session, i, t->best[i], error));
    return XCVM_OK;
}

void xct_best_release(xct_trainer *t)
{
    const size_t count = t->best != NULL ? xcvm_program_state_count(t->root.program) : 0;
    for (size_t i = 0; i < count; i++)
        xcvm_value_release(t->best[i]);
    xcvm_deallocate(t->allocator, t->best, count * sizeof(xcvm_value *));
    t->best = NULL;
}
