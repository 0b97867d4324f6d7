/* Lazy execution: an op has its result types at once, and runs when a value is needed. */
#include "ops/random/random.h"
#include "ops/util/shape.h"
#include "tape/control.h"
#include "tape/lazy/lazy.h"

#include <string.h>

/* ---- Recording ---- */

/* Evaluates all operands, or those that determine a shape. The latter are then not evaluated again after
 * invalidation, since the result types depend on them. */
static xcvm_status evaluate_operands(const tape_op_record *r, bool all)
{
    for (size_t f = 0, at = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (!xcvm_field_is_input(field))
            continue;
        for (size_t left = xcvm_field_count(field, r->args); left > 0; left--, at++) {
            tape_variable *v = r->in[at];
            if (v == NULL || !(all || field->role == XCVM_ROLE_IN_SHAPE))
                continue;
            XCVM_TRY(tape_evaluate(v));
            if (!all && v->creator != NULL)
                v->creator->deferred = false;
        }
    }
    return XCVM_OK;
}

/* True if the size of a result is known before its kernel runs. */
static bool has_static_size(const xcvm_value *type)
{
    return type->kind == XCVM_KIND_TENSOR && type->dtype != XCVM_STRING && type->dtype != XCVM_NO_DTYPE &&
           xcvm_dims_known(type);
}

/* Infers the result types. */
xcvm_status tape_lazy_infer(xcvm_tape *t, const tape_op_record *r, bool *waits)
{
    *waits = false;
    if (r->schema->effect != XCVM_PURE && r->schema->effect != XCVM_RANDOM)
        return XCVM_OK;
    /* Whether an op draws random numbers must be known now, since it changes the numbers of later ops. */
    for (uint32_t i = 1; r->schema->effect == XCVM_RANDOM && i < r->in_count; i++)
        XCVM_TRY(tape_evaluate(r->in[i]));
    for (size_t f = 0; f < r->schema->field_count; f++)
        if (r->schema->fields[f].dynamic)
            return XCVM_OK;
    XCVM_TRY(evaluate_operands(r, false));
    const xcvm_inference inference = tape_op_inference(t, r);
    XCVM_TRY(xcvm_infer(&inference));
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL && !has_static_size(&r->out[i]->value.type))
            return XCVM_OK;
    *waits = true;
    return XCVM_OK;
}

static bool has_own_seed(const tape_op_record *r)
{
    for (size_t f = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (field->kind == XCVM_FIELD_INT && strcmp(field->name, "seed") == 0)
            return *(const int64_t *)(const void *)((const char *)r->args + field->offset) != -1;
    }
    return false;
}

/* Outside of training Dropout draws nothing. */
static bool drops_out(const tape_op_record *r)
{
    const xcvm_Dropout_args *a = r->args;
    return a->training_mode != NULL && xcvm_element_count(a->training_mode) == 1 &&
           xcvm_element_as_int(a->training_mode, 0) != 0 &&
           (a->ratio == NULL || xcvm_element_count(a->ratio) != 1 || xcvm_element_as_double(a->ratio, 0) != 0);
}

/* Saves the state of the generator, so that the op draws the numbers that it would draw on an eager tape. */
static void save_random_state(xcvm_tape *t, tape_op_record *r)
{
    r->random = t->random;
    if (r->schema->effect == XCVM_RANDOM && !has_own_seed(r) && (r->schema->opcode != XCVM_OP_Dropout || drops_out(r)))
        xcvm_random_next(&t->random);
}

xcvm_status tape_lazy_run_immediately(xcvm_tape *t, tape_op_record *r)
{
    XCVM_TRY(evaluate_operands(r, true));
    XCVM_TRY(tape_op_infer(t, r));
    return tape_op_run_kernel(t, r, 0);
}

void tape_lazy_defer(xcvm_tape *t, tape_op_record *r)
{
    save_random_state(t, r);
    r->deferred = r->waiting = true;
    tape_op_record_append(r);
}

/* Ops of a backward pass run at once, since an evaluation waits for them. */
static xcvm_status execute_lazily(xcvm_tape *t, tape_op_record *r)
{
    bool waits = false;
    xcvm_status status = t->failed ? t->error.status : XCVM_OK;
    if (status == XCVM_OK && t->pass == NULL)
        status = tape_lazy_infer(t, r, &waits);
    if (status == XCVM_OK && !waits)
        status = tape_lazy_run_immediately(t, r);
    if (status != XCVM_OK || !waits)
        return tape_op_finish(t, r, status);
    tape_op_mark_differentiable(r);
    tape_lazy_defer(t, r);
    return XCVM_OK;
}

/* ---- Evaluating ---- */

/* A value that is to be computed again has only its type. */
static void clear_results(const tape_op_record *r)
{
    for (uint32_t i = 0; i < r->out_count; i++) {
        xcvm_value *type = r->out[i] != NULL ? &r->out[i]->value.type : NULL;
        if (type == NULL)
            continue;
        xcvm_storage_release(type->storage);
        type->storage = NULL;
        type->data = NULL;
        type->memory_kind = XCVM_MEMORY_NONE;
    }
}

void tape_op_record_complete(tape_op_record *r)
{
    tape_op_record_unlink(r);
    r->waiting = false;
    r->serial = r->tape->serials;
    tape_op_record_link(r);
}

/* The elements that determined a shape must be unchanged, since the results have memory of that shape. */
static xcvm_status check_shape_operands(xcvm_tape *t, const tape_op_record *r)
{
    for (size_t f = 0, at = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (!xcvm_field_is_input(field))
            continue;
        for (size_t left = xcvm_field_count(field, r->args); left > 0; left--, at++) {
            const xcvm_storage *storage = r->in[at] != NULL ? r->in[at]->value.type.storage : NULL;
            XCVM_CHECK(
                &t->error, field->role != XCVM_ROLE_IN_SHAPE || storage == NULL || storage->version == r->versions[at],
                INVALID_ARGUMENT, "%s, which decides the shape, was overwritten since the call was made", field->name);
        }
    }
    return XCVM_OK;
}

xcvm_status tape_lazy_run(xcvm_tape *t, tape_op_record *r)
{
    uint64_t random = r->random;
    uint64_t *drawn_from = t->kernel.random;
    xcvm_status status = check_shape_operands(t, r);
    if (status == XCVM_OK) {
        t->kernel.random = &random;
        status = tape_op_run_kernel(t, r, 0);
        t->kernel.random = drawn_from;
    }
    if (tape_latch_failure(t, status) == XCVM_OK) {
        tape_op_record_complete(r);
        tape_op_save_versions(r);
        return XCVM_OK;
    }
    clear_results(r);
    tape_op_locate_failure(t, r);
    return status;
}

/* Depth-first traversal without recursion. Ops whose operands are being visited form a list with the same links,
 * since each op is in one of the two. */
tape_op_record **tape_lazy_collect(tape_op_record *r, tape_op_record **end)
{
    tape_op_record *open = NULL;
    if (r->mark == 0) {
        r->mark = 1;
        r->order = NULL;
        open = r;
    }
    while ((r = open) != NULL) {
        if (r->mark <= r->in_count) {
            const tape_variable *v = r->in[r->mark++ - 1];
            tape_op_record *creator = v != NULL ? v->creator : NULL;
            if (creator == NULL || !creator->waiting || creator->mark != 0)
                continue;
            creator->mark = 1;
            creator->order = open;
            open = creator;
        } else {
            open = r->order;
            r->order = NULL;
            *end = r;
            end = &r->order;
        }
    }
    return end;
}

static xcvm_status run_collected(xcvm_tape *t, tape_op_record *first)
{
    xcvm_status status = t->failed ? t->error.status : XCVM_OK;
    for (tape_op_record *r = first, *next; r != NULL; r = next) {
        next = r->order;
        r->mark = 0;
        r->order = NULL;
        if (status == XCVM_OK)
            status = tape_lazy_run(t, r);
    }
    return status;
}

xcvm_status tape_lazy_evaluate(xcvm_tape *t, tape_op_record *r)
{
    tape_op_record *first = NULL;
    tape_lazy_collect(r, &first);
    return run_collected(t, first);
}

xcvm_status tape_lazy_evaluate_all(xcvm_tape *t)
{
    tape_op_record *first = NULL, **end = &first;
    for (tape_op_record *r = t->waiting.first; r != NULL; r = r->next)
        end = tape_lazy_collect(r, end);
    return run_collected(t, first);
}

const tape_mode tape_lazy_mode = {.defers = true,
                                  .execute = execute_lazily,
                                  .execute_into = tape_eager_execute_into,
                                  .compute = tape_eager_compute,
                                  .evaluate = tape_lazy_evaluate,
                                  .evaluate_all = tape_lazy_evaluate_all,
                                  .create_tensor = tape_eager_create_tensor,
                                  .branch = tape_eager_branch,
                                  .loop = tape_eager_loop};

/* ---- Public functions ---- */

xcvm_status xcvm_tape_forward(xcvm_tape *tape, xcvm_var v, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_tape_forward, error);
    tape_variable *variable = tape_resolve_optional(tape, v, "what is asked for");
    if (!tape->failed && variable != NULL)
        (void)tape_evaluate(variable);
    else if (!tape->failed)
        (void)tape_evaluate_all(tape);
    return tape_report(tape, error);
}

/* The rule of an op that does not run again reads its operands, so their ops do not run again either. */
static void keep_operands_evaluated(const tape_op_record *r)
{
    for (uint32_t i = 0; i < r->in_count; i++)
        if (r->in[i] != NULL && r->in[i]->creator != NULL)
            r->in[i]->creator->deferred = false;
}

/* Ops of backward passes used values that are now invalid. A later pass through them is refused. */
static void remove_backward_records(xcvm_tape *t)
{
    t->removal.active = true;
    for (tape_op_record *r = t->ops.last; r != NULL; r = r->previous)
        if (r->backward && !r->deferred) {
            r->busy = true;
            tape_op_record_remove(r);
        }
    tape_op_records_sweep(t);
}

void xcvm_tape_invalidate(xcvm_tape *tape)
{
    if (!TAPE_ENTER(tape, xcvm_tape_invalidate))
        return;
    if (tape->mode->reserve_queue != NULL && !tape->mode->reserve_queue(tape)) {
        tape_fail(tape, XCVM_OUT_OF_MEMORY, "the allocator has no memory for the calls that are to wait again");
        return;
    }
    remove_backward_records(tape);
    for (tape_op_record *r = tape->ops.last; r != NULL; r = r->previous)
        if (r->differentiable && !r->deferred)
            keep_operands_evaluated(r);
    for (tape_op_record *r = tape->ops.first, *next; r != NULL; r = next) {
        next = r->next;
        if (!r->deferred)
            continue;
        if (tape->mode->detach != NULL)
            tape->mode->detach(r);
        tape_op_record_unlink(r);
        r->waiting = true;
        tape_op_record_link(r);
        clear_results(r);
    }
    if (tape->mode->requeue != NULL)
        tape->mode->requeue(tape);
}
