/* Public functions of gradients: accumulated gradients, hooks, seeds, and passes. */
#include "compiler/ir/compose.h"
#include "ops/util/convert.h"
#include "tape/backward/backward.h"
#include "vm/options.h"

/* ---- Accumulated gradients ---- */

xcvm_var xcvm_var_get_gradient(xcvm_tape *tape, xcvm_var v)
{
    tape_variable *variable = TAPE_ENTER(tape, xcvm_var_get_gradient)
                                  ? tape_resolve(tape, v, "the variable whose gradient is asked for")
                                  : NULL;
    const tape_variable *gradient = variable != NULL ? tape_variable_gradient(variable) : NULL;
    if (variable == NULL || tape->failed)
        return TAPE_FAILED;
    return gradient != NULL ? tape_handle(gradient) : XCVM_ABSENT;
}

void xcvm_var_clear_gradient(xcvm_tape *tape, xcvm_var v)
{
    tape_variable *variable = TAPE_ENTER(tape, xcvm_var_clear_gradient)
                                  ? tape_resolve(tape, v, "the variable whose gradient is cleared")
                                  : NULL;
    if (variable != NULL)
        tape_variable_clear_gradient(variable);
}

/* The backward pass must visit this result individually. */
static void ask_for_single(const tape_variable *v)
{
    tape_batch_treat_separately(v);
    if (v->creator != NULL)
        v->tape->batching.separate_results = true;
}

void xcvm_var_retain_gradient(xcvm_tape *tape, xcvm_var v)
{
    tape_variable *variable = TAPE_ENTER(tape, xcvm_var_retain_gradient)
                                  ? tape_resolve(tape, v, "the variable that is to retain its gradient")
                                  : NULL;
    if (variable == NULL)
        return;
    variable->retains = true;
    ask_for_single(variable);
    tape_refuse_trace(tape, "a variable retains its gradient");
}

xcvm_status xcvm_var_add_hook(xcvm_tape *tape, xcvm_var v, xcvm_gradient_hook hook, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_var_add_hook, error);
    XCVM_CHECK(error, hook.call != NULL, INVALID_ARGUMENT, "hook is NULL");
    tape_variable *variable = tape_resolve(tape, v, "the variable of the hook");
    tape_hook *added = variable != NULL ? tape_allocate(tape, sizeof *added) : NULL;
    if (added == NULL)
        return tape_report(tape, error);
    tape_side_state *side = tape_side_reserve(variable);
    if (side == NULL) {
        tape_free(tape, added, sizeof *added);
        return tape_report(tape, error);
    }
    tape_refuse_trace(tape, "a gradient has a hook");
    *added = (tape_hook){.hook = hook};
    tape_hook **last = &side->hooks;
    while (*last != NULL)
        last = &(*last)->next;
    *last = added;
    ask_for_single(variable);
    return XCVM_OK;
}

/* ---- Seeds ---- */

/* 1 for a root of one element. */
static tape_variable *implicit_seed(xcvm_tape *t, const tape_variable *root)
{
    const xcvm_value *type = &root->value.type;
    char text[192];
    if (type->rank < 0 || !xcvm_dims_known(type) || xcvm_element_count(type) != 1) {
        tape_fail(t, XCVM_SHAPE_MISMATCH, "the root is %s, not one number; its gradient has to be given (seed)",
                  xcvm_value_describe(type, text, sizeof text));
        return NULL;
    }
    if (t->mode->build_seed != NULL)
        return t->mode->build_seed(t, root);
    tape_variable *seed = tape_tensor(t, (xcvm_dtype)type->dtype, type->rank, type->dims, NULL);
    const double one = 1;
    if (seed != NULL)
        xcvm_store_f64((xcvm_dtype)type->dtype, seed->value.type.data, 0, 1, &one, false);
    return seed;
}

static tape_variable *seed_of(xcvm_tape *t, const tape_variable *root, xcvm_var given)
{
    const xcvm_value *type = &root->value.type;
    char a[192], b[192];
    if (type->kind != XCVM_KIND_TENSOR || !tape_variable_can_have_gradient(root)) {
        tape_fail(t, XCVM_TYPE_MISMATCH, "the root is %s; only tensors of float types have gradients",
                  xcvm_value_describe(type, a, sizeof a));
        return NULL;
    }
    tape_variable *seed = tape_resolve_optional(t, given, "the seed");
    if (t->failed)
        return NULL;
    if (seed == NULL)
        return implicit_seed(t, root);
    const xcvm_value *other = &seed->value.type;
    if (other->kind != XCVM_KIND_TENSOR || other->dtype != type->dtype || !xcvm_same_shape(other, type)) {
        tape_fail(t, XCVM_SHAPE_MISMATCH, "the seed is %s, the root %s", xcvm_value_describe(other, a, sizeof a),
                  xcvm_value_describe(type, b, sizeof b));
        return NULL;
    }
    return seed;
}

/* ---- Passes ---- */

xcvm_status xcvm_tape_backward(xcvm_tape *tape, xcvm_var root, const xcvm_backward_options *options, xcvm_error *error)
{
    xcvm_backward_options o;
    TAPE_BEGIN(tape, xcvm_tape_backward, error);
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    const xcvm_scope scope = xcvm_tape_scope_begin(tape);
    tape_variable *from = tape_resolve(tape, root, "the root"),
                  *seed = from != NULL ? seed_of(tape, from, o.seed) : NULL;
    if (seed != NULL && !from->requires)
        tape_fail(tape, XCVM_INVALID_ARGUMENT,
                  "the root depends on nothing that requires a gradient, or was computed while recording was off");
    if (!tape->failed) {
        const tape_backward_request request = {.kind = TAPE_BACKWARD,
                                               .root_count = 1,
                                               .roots = &from,
                                               .seeds = &seed,
                                               .retain = o.retain_graph || o.create_graph,
                                               .create = o.create_graph};
        tape_backward_run(tape, &request);
    }
    xcvm_tape_scope_end(tape, scope, 0, NULL);
    return tape_report(tape, error);
}

static xcvm_status resolve_all(xcvm_tape *t, size_t root_count, const xcvm_var *roots, const xcvm_var *seeds,
                               size_t wrt_count, const xcvm_var *wrt, tape_variable **lists)
{
    for (size_t i = 0; i < root_count && !t->failed; i++) {
        lists[i] = tape_resolve(t, roots[i], "a root");
        if (lists[i] != NULL)
            lists[root_count + i] = seed_of(t, lists[i], seeds != NULL ? seeds[i] : XCVM_ABSENT);
    }
    for (size_t i = 0; i < wrt_count && !t->failed; i++) {
        tape_variable *v = lists[2 * root_count + i] = tape_resolve(t, wrt[i], "a differentiation target");
        char text[192];
        if (v != NULL && (v->value.type.kind != XCVM_KIND_TENSOR || !tape_variable_can_have_gradient(v)))
            tape_fail(t, XCVM_TYPE_MISMATCH,
                      "a differentiation target is %s; only tensors of float types have gradients",
                      xcvm_value_describe(&v->value.type, text, sizeof text));
    }
    return t->failed ? t->error.status : XCVM_OK;
}

xcvm_status xcvm_tape_gradients(xcvm_tape *tape, size_t root_count, const xcvm_var *roots, const xcvm_var *seeds,
                                size_t wrt_count, const xcvm_var *wrt, const xcvm_backward_options *options,
                                xcvm_var *gradients, xcvm_error *error)
{
    xcvm_backward_options o;
    size_t bytes;
    TAPE_BEGIN(tape, xcvm_tape_gradients, error);
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    XCVM_CHECK(error, root_count > 0 && roots != NULL, INVALID_ARGUMENT, "there are no roots");
    XCVM_CHECK(error, wrt_count > 0 && wrt != NULL && gradients != NULL, INVALID_ARGUMENT,
               "there are no differentiation targets");
    XCVM_CHECK(error, o.seed.at == NULL, INVALID_ARGUMENT, "options.seed is for one root; seeds has those of several");
    XCVM_CHECK(error,
               root_count < SIZE_MAX / 64 && wrt_count < SIZE_MAX / 64 &&
                   xcvm_size_mul(2 * root_count + 2 * wrt_count, sizeof(tape_variable *), &bytes),
               INVALID_ARGUMENT, "there are too many roots");
    tape_variable **lists = tape_allocate(tape, bytes);
    if (lists == NULL)
        return tape_report(tape, error);
    tape_variable **results = lists + 2 * root_count + wrt_count;
    const xcvm_scope scope = xcvm_tape_scope_begin(tape);
    xcvm_status status = resolve_all(tape, root_count, roots, seeds, wrt_count, wrt, lists);
    if (status == XCVM_OK) {
        const tape_backward_request request = {.kind = TAPE_GRADIENTS,
                                               .root_count = root_count,
                                               .roots = lists,
                                               .seeds = lists + root_count,
                                               .wrt_count = wrt_count,
                                               .wrt = lists + 2 * root_count,
                                               .gradients = results,
                                               .retain = o.retain_graph || o.create_graph,
                                               .create = o.create_graph};
        status =
            (tape->mode->build_gradients != NULL ? tape->mode->build_gradients : tape_backward_run)(tape, &request);
    }
    for (size_t i = 0; i < wrt_count && status == XCVM_OK; i++)
        gradients[i] = results[i] != NULL ? tape_handle(results[i]) : XCVM_ABSENT;
    xcvm_tape_scope_end(tape, scope, status == XCVM_OK ? wrt_count : 0, gradients);
    tape_free(tape, lists, bytes);
    return tape_report(tape, error);
}
