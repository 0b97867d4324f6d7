/* Lazy tapes: calls have their types at once, and run when a value is asked for. */
#include "ops/random/random.h"
#include "ops/util/shape.h"
#include "tape/batch.h"

#include <string.h>

/* ---- Recording ---- */

/* Evaluates the operands that a shape is read from, which are not computed again then, or all. */
static xcvm_status evaluate_operands(const tape_record *r, bool all)
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

/* Whether a result's memory is known before its kernel runs. */
static bool has_size(const xcvm_value *type)
{
    return type->kind == XCVM_KIND_TENSOR && type->dtype != XCVM_STRING && type->dtype != XCVM_NO_DTYPE &&
           xcvm_dims_known(type);
}

/* Finds the types of the results out; whether the call can wait. */
static xcvm_status find_types(xcvm_tape *t, const tape_record *r, bool *waits)
{
    *waits = false;
    if (r->schema->effect != XCVM_PURE && r->schema->effect != XCVM_RANDOM)
        return XCVM_OK;
    /* Whether a call draws random numbers is known now, or those of the calls behind it would not be. */
    for (uint32_t i = 1; r->schema->effect == XCVM_RANDOM && i < r->in_count; i++)
        XCVM_TRY(tape_evaluate(r->in[i]));
    for (size_t f = 0; f < r->schema->field_count; f++)
        if (r->schema->fields[f].dynamic)
            return XCVM_OK;
    XCVM_TRY(evaluate_operands(r, false));
    const xcvm_inference inference = tape_inference_of(t, r);
    XCVM_TRY(xcvm_infer(&inference));
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL && !has_size(&r->out[i]->value.type))
            return XCVM_OK;
    *waits = true;
    return XCVM_OK;
}

static bool has_own_seed(const tape_record *r)
{
    for (size_t f = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (field->kind == XCVM_FIELD_INT && strcmp(field->name, "seed") == 0)
            return *(const int64_t *)(const void *)((const char *)r->args + field->offset) != -1;
    }
    return false;
}

/* Outside of training nothing is drawn. */
static bool drops_out(const tape_record *r)
{
    const xcvm_Dropout_args *a = r->args;
    return a->training_mode != NULL && xcvm_element_count(a->training_mode) == 1 &&
           xcvm_element_as_int(a->training_mode, 0) != 0 &&
           (a->ratio == NULL || xcvm_element_count(a->ratio) != 1 || xcvm_element_as_double(a->ratio, 0) != 0);
}

/* What a kernel draws a seed from: as an eager tape would have it, whenever it runs. */
static void draw_seed(xcvm_tape *t, tape_record *r)
{
    r->random = t->random;
    if (r->schema->effect == XCVM_RANDOM && !has_own_seed(r) && (r->schema->opcode != XCVM_OP_Dropout || drops_out(r)))
        xcvm_random_next(&t->random);
}

static xcvm_status run_at_once(xcvm_tape *t, tape_record *r)
{
    XCVM_TRY(evaluate_operands(r, true));
    XCVM_TRY(tape_infer(t, r));
    return tape_run_kernel(t, r, 0);
}

static xcvm_status refuse_to_wait(xcvm_tape *t)
{
    return tape_fail(t, XCVM_OUT_OF_MEMORY, "the allocator has no memory for one more call that waits");
}

xcvm_status tape_execute_lazily(xcvm_tape *t, tape_record *r)
{
    const bool batches = t->batching != XCVM_BATCHING_NONE;
    tape_key key;
    xcvm_status status = t->failed ? t->error.status : XCVM_OK;
    bool waits = false;
    /* What a walk back does is what is waited for. */
    const bool may_wait = status == XCVM_OK && t->walk == NULL,
               recalled = may_wait && batches && tape_signature_recall(t, r, &key);
    if (recalled)
        waits = true;
    else if (may_wait)
        status = find_types(t, r, &waits);
    if (status == XCVM_OK && !waits)
        status = run_at_once(t, r);
    if (status != XCVM_OK || !waits)
        return tape_conclude(t, r, status);
    if (!recalled) {
        tape_let_flow(r);
        if (batches)
            tape_signature_note(t, r, &key);
    }
    if (batches && !tape_pending_add(t, r))
        return tape_conclude(t, r, refuse_to_wait(t));
    draw_seed(t, r);
    r->deferred = r->waiting = true;
    tape_record_keep(r);
    return XCVM_OK;
}

/* ---- Evaluating ---- */

/* What a value that is to be computed (again) is: its type alone. */
static void clear_results(const tape_record *r)
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

void tape_record_settle(tape_record *r)
{
    tape_pending_remove(r);
    tape_record_unlink(r);
    r->waiting = false;
    r->serial = r->tape->serials;
    tape_record_link(r);
}

/* The elements that a shape was read from are still those: the memory of the results is of that shape. */
static xcvm_status check_shape_operands(xcvm_tape *t, const tape_record *r)
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

xcvm_status tape_run_waiting(xcvm_tape *t, tape_record *r)
{
    uint64_t random = r->random;
    uint64_t *drawn_from = t->kernel.random;
    xcvm_status status = check_shape_operands(t, r);
    if (status == XCVM_OK) {
        t->kernel.random = &random;
        status = tape_run_kernel(t, r, 0);
        t->kernel.random = drawn_from;
    }
    if (tape_stick(t, status) == XCVM_OK) {
        tape_record_settle(r);
        tape_note_versions(r);
        return XCVM_OK;
    }
    clear_results(r);
    tape_locate(t, r);
    return status;
}

/* Appends a call, behind what it needs and is not in the list yet, to a list that *end is the end of. The list of calls
 * whose operands are looked at has the same links, as each is in one of the two. */
static tape_record **collect(tape_record *r, tape_record **end)
{
    tape_record *open = NULL;
    if (r->mark == 0) {
        r->mark = 1;
        r->order = NULL;
        open = r;
    }
    while ((r = open) != NULL) {
        if (r->mark <= r->in_count) {
            const tape_variable *v = r->in[r->mark++ - 1];
            tape_record *creator = v != NULL ? v->creator : NULL;
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

static xcvm_status run_collected(xcvm_tape *t, tape_record *first)
{
    xcvm_status status = t->failed ? t->error.status : XCVM_OK;
    for (tape_record *r = first, *next; r != NULL; r = next) {
        next = r->order;
        r->mark = 0;
        r->order = NULL;
        if (status == XCVM_OK)
            status = tape_run_waiting(t, r);
    }
    return status;
}

xcvm_status tape_evaluate_creator(tape_variable *v)
{
    tape_record *first = NULL;
    if (v->tape->batching != XCVM_BATCHING_NONE && !v->tape->failed)
        return tape_run_agenda(v->tape, v->creator);
    collect(v->creator, &first);
    return run_collected(v->tape, first);
}

xcvm_status tape_evaluate_all(xcvm_tape *t)
{
    tape_record *first = NULL, **end = &first;
    if (t->batching != XCVM_BATCHING_NONE && !t->failed)
        return tape_run_agenda(t, NULL);
    for (tape_record *r = t->first_waiting; r != NULL; r = r->next)
        end = collect(r, end);
    return run_collected(t, first);
}

bool tape_evaluate_kept(xcvm_tape *t, uint64_t serial)
{
    bool enough = true;
    for (tape_variable *v = t->kept_first, *next; v != NULL && enough; v = next) {
        const bool failed = t->failed; /* before, which is no reason for it to go */
        const xcvm_error before = t->error;
        next = v->next;
        if (v->serial <= serial || v->creator == NULL || !v->creator->waiting)
            continue;
        t->failed = false;
        const xcvm_status status = tape_evaluate(v);
        enough = status != XCVM_OUT_OF_MEMORY;
        if (status != XCVM_OK && enough)
            tape_variable_unname(v);
        if (failed) {
            t->error = before;
            t->failed = true;
        }
    }
    return enough;
}

/* Room for all that waits and all that will. */
static bool reserve_batches(xcvm_tape *t)
{
    size_t calls = 0, edges = 0;
    for (int waiting = 0; waiting < 2; waiting++)
        for (const tape_record *r = waiting ? t->first_waiting : t->first; r != NULL; r = r->next)
            if (waiting || r->deferred) {
                calls++;
                edges += r->in_count;
            }
    return tape_pending_reserve(t, calls, edges);
}

/* All that waits is to be batched anew: there is room for it. */
static void await_batches(xcvm_tape *t)
{
    tape_record *first = NULL, **end = &first;
    for (tape_record *r = t->first_waiting; r != NULL; r = r->next) {
        tape_pending_remove(r);
        end = collect(r, end);
    }
    for (tape_record *r = first, *next; r != NULL; r = next) {
        next = r->order;
        r->mark = 0;
        r->order = NULL;
        (void)tape_pending_add(t, r);
    }
}

/* ---- The public side ---- */

xcvm_status xcvm_tape_forward(xcvm_tape *tape, xcvm_var v, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_tape_forward, error);
    tape_variable *variable = tape_operand(tape, v, "what is asked for");
    if (!tape->failed && variable != NULL)
        (void)tape_evaluate(variable);
    else if (!tape->failed)
        (void)tape_evaluate_all(tape);
    return tape_report(tape, error);
}

/* The rule of a call that does not wait again reads its operands, whether a gradient flows to them or not: the calls
 * that made them do not wait again, either. */
static void stay_behind(const tape_record *r)
{
    for (uint32_t i = 0; i < r->in_count; i++)
        if (r->in[i] != NULL && r->in[i]->creator != NULL)
            r->in[i]->creator->deferred = false;
}

/* What backwards have recorded is of values that are none any more: who goes back over it is refused. */
static void forget_backwards(xcvm_tape *t)
{
    t->removing = true;
    for (tape_record *r = t->last; r != NULL; r = r->previous)
        if (r->backward && !r->deferred) {
            r->busy = true;
            tape_record_remove(r);
        }
    tape_records_sweep(t);
}

void xcvm_tape_invalidate(xcvm_tape *tape)
{
    if (!TAPE_ENTER(tape, xcvm_tape_invalidate))
        return;
    if (tape->batching != XCVM_BATCHING_NONE && !reserve_batches(tape)) {
        tape_fail(tape, XCVM_OUT_OF_MEMORY, "the allocator has no memory for the calls that are to wait again");
        return;
    }
    forget_backwards(tape);
    for (tape_record *r = tape->last; r != NULL; r = r->previous)
        if (r->flows && !r->deferred)
            stay_behind(r);
    for (tape_record *r = tape->first, *next; r != NULL; r = next) {
        next = r->next;
        if (!r->deferred)
            continue;
        if (r->batch != NULL)
            tape_batch_release(r->batch);
        tape_record_unlink(r);
        r->waiting = true;
        tape_record_link(r);
        clear_results(r);
    }
    if (tape->batching != XCVM_BATCHING_NONE)
        await_batches(tape);
}
