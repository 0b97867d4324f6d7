/* Support for tests of layers in static functions. */
#ifndef XCVM_TESTS_TAPE_STATIC_LAYERS_H
#define XCVM_TESTS_TAPE_STATIC_LAYERS_H

#include "tests/tape/static_support.h"
#include "xcvm/optimizers.h"

UNUSED static const xcvm_layer_options with_seed = {.size = sizeof(xcvm_layer_options), .weight = {.seed = 3}};

UNUSED static void must(xcvm_status status, const xcvm_error *error)
{
    ck_assert_msg(status == XCVM_OK, "%s: %s", error->instruction, error->message);
}

UNUSED static xcvm_var rows_of(xcvm_tape *t, float shift) { return batch(t, XCVM_F32, 4, shift); }

UNUSED static xcvm_var words_of(xcvm_tape *t, int64_t i)
{
    return xcvm_tape_constant(t, XCVM_I64, 1, DIMS(4), DIMS(i % 5, (i + 2) % 5, -1, i % 5));
}

/* Takes an optimizer step by the gradients of a loss, and clears them. */
UNUSED static xcvm_status learn_from(xcvm_tape *t, xcvm_optimizer *o, xcvm_var loss)
{
    xcvm_error error;
    XCVM_TRY(xcvm_tape_backward(t, loss, NULL, &error));
    XCVM_TRY(xcvm_optimizer_step(o, &error));
    xcvm_optimizer_clear_gradients(o);
    return XCVM_OK;
}

#endif
