/* Runs schedules: the forward program as one op, and the backward program as its gradient. */
#include "base/retain.h"
#include "tape/static/schedule.h"
#include "vm/session.h"

#include <string.h>

/* The definition of such an op. */
static const xcvm_schema schema = {.name = "static"};

/* A failure belongs to the static function, so the instruction of the program goes into the message. */
static xcvm_status run_session(xcvm_tape *t, xcvm_session *session)
{
    if (t->failed) /* in a callback */
        return t->error.status;
    const xcvm_status status = xcvm_session_run(session, NULL, &t->error);
    if (status != XCVM_OK && !t->failed && t->error.instruction[0] != '\0')
        xcvm_error_prefix(&t->error, "%s", t->error.instruction);
    return status;
}

/* ---- Forward ---- */

static xcvm_status bind_result(xcvm_tape *t, tape_schedule *s, size_t i, tape_op_record *r)
{
    const schedule_output *o = &s->outputs[i];
    tape_variable *v = r->out[o->index] = tape_variable_create(t);
    if (v == NULL)
        return t->error.status;
    v->refs++; /* until the run ends */
    if (!o->fixed)
        return XCVM_OK;
    xcvm_value_set_tensor(&v->value.type, o->type->dtype, o->type->rank, o->type->dims);
    XCVM_TRY(tape_variable_allocate(t, v));
    xcvm_session_lend_output(s->forward.session, i, &v->value.type);
    return XCVM_OK;
}

/* Allocates the new value of an operand, which replaces the old one at the end. */
static xcvm_status make_written(xcvm_tape *t, tape_schedule *s, size_t index)
{
    xcvm_storage *storage;
    xcvm_value *next = &s->written[index];
    *next = s->operands[index]->value.type;
    next->storage = NULL;
    XCVM_TRY(xcvm_heap_allocate(t->kernel.heap, next->bytes, &storage, &t->error));
    next->storage = storage;
    next->data = storage->data;
    next->memory_kind = XCVM_MEMORY_OWNED;
    return XCVM_OK;
}

/* In-place updates are the last instructions of the program. If something after it may fail, they work on a copy. */
static xcvm_status bind_state(xcvm_tape *t, tape_schedule *s, size_t i)
{
    const schedule_output *o = &s->outputs[s->output_count + i];
    const xcvm_value *operand = &s->operands[o->index]->value.type, *next = &s->written[o->index];
    if (o->role == SCHEDULE_UPDATED && !s->preserves_operands) {
        xcvm_session_lend_state(s->forward.session, i, operand, NULL);
        return XCVM_OK;
    }
    XCVM_TRY(make_written(t, s, o->index));
    if (o->role == SCHEDULE_UPDATED && operand->bytes > 0)
        memcpy(next->data, operand->data, operand->bytes);
    xcvm_session_lend_state(s->forward.session, i, o->role == SCHEDULE_UPDATED ? next : operand, next);
    return XCVM_OK;
}

static xcvm_status bind_program(xcvm_tape *t, tape_schedule *s, tape_op_record *r)
{
    const xcvm_program *program = s->forward.program;
    for (size_t i = 0; i < program->image.input_count; i++)
        xcvm_session_lend_input(s->forward.session, i, &s->operands[s->forward_inputs[i]]->value.type);
    for (size_t i = 0; i < s->output_count; i++) {
        const schedule_role role = s->outputs[i].role;
        if (role == SCHEDULE_RESULT || role == SCHEDULE_KEPT) {
            XCVM_TRY(bind_result(t, s, i, r));
        } else if (role == SCHEDULE_WRITTEN) {
            XCVM_TRY(make_written(t, s, s->outputs[i].index));
            xcvm_session_lend_output(s->forward.session, i, &s->written[s->outputs[i].index]);
        }
    }
    for (size_t i = 0; i < s->state_count; i++)
        XCVM_TRY(bind_state(t, s, i));
    return XCVM_OK;
}

/* Copies results whose sizes the run determines. */
static xcvm_status copy_results(xcvm_tape *t, const tape_schedule *s, const tape_op_record *r)
{
    const xcvm_retention retention = {.heap = t->kernel.heap};
    for (size_t i = 0; i < s->output_count; i++) {
        const schedule_output *o = &s->outputs[i];
        if (o->fixed || (o->role != SCHEDULE_RESULT && o->role != SCHEDULE_KEPT))
            continue;
        xcvm_value *to = &r->out[o->index]->value.type;
        *to = (xcvm_value){.refs = 0};
        XCVM_TRY(xcvm_value_retain_with(&retention, to, xcvm_session_get_output(s->forward.session, i), &t->error));
    }
    return XCVM_OK;
}

static void exchange_bytes(char *a, char *b, size_t bytes)
{
    char piece[1024];
    for (size_t at = 0, size; at < bytes; at += size) {
        size = bytes - at < sizeof piece ? bytes - at : sizeof piece;
        memcpy(piece, a + at, size);
        memcpy(a + at, b + at, size);
        memcpy(b + at, piece, size);
    }
}

void tape_schedule_exchange(xcvm_value *to, xcvm_value *next)
{
    xcvm_storage *before = to->storage;
    if (before->owner == next->storage->owner && __atomic_load_n(&before->refs, __ATOMIC_ACQUIRE) == 1) {
        void *data = to->data;
        to->storage = next->storage;
        to->data = next->data;
        next->storage = before;
        next->data = data;
        return;
    }
    const uint32_t version = before->version;
    exchange_bytes(to->data, next->data, to->bytes);
    before->version = next->storage->version;
    next->storage->version = version;
}

static bool is_written(const schedule_output *o) { return o->role == SCHEDULE_WRITTEN || o->role == SCHEDULE_UPDATED; }

/* Values that are written after `effects` effects become visible to the next effect. */
static void show_written(const tape_schedule *s, size_t effects, uint64_t call)
{
    for (size_t i = 0; i < s->output_count + s->state_count; i++) {
        const size_t at = s->outputs[i].index;
        if (!is_written(&s->outputs[i]) || s->trace->operands[at].written_after != effects)
            continue;
        if (s->written[at].storage != NULL)
            tape_schedule_exchange(&s->operands[at]->value.type, &s->written[at]);
        s->operands[at]->value.type.storage->version = (uint32_t)(call + 1);
    }
}

/* Ends the writes. After a failure, values that `shown` effects have seen are restored. */
static void end_written(const tape_schedule *s, bool succeeded, size_t shown, uint64_t call)
{
    for (size_t i = shown; succeeded && i <= s->trace->effect_count; i++)
        show_written(s, i, call);
    for (size_t i = 0; i < s->output_count + s->state_count; i++) {
        const size_t at = s->outputs[i].index;
        if (!is_written(&s->outputs[i]) || s->written[at].storage == NULL)
            continue;
        if (!succeeded && s->trace->operands[at].written_after < shown)
            tape_schedule_exchange(&s->operands[at]->value.type, &s->written[at]);
        xcvm_storage_release(s->written[at].storage);
        s->written[at].storage = NULL;
    }
}

/* ---- State slots ---- */

static bool is_filled(const trace_operand *o) { return o->next != NULL || o->empties; }

/* State slots that the function sets after `effects` effects are visible to the next effect. */
static void fill_slots(const tape_schedule *s, tape_variable *const *results, size_t effects)
{
    const tape_trace *k = s->trace;
    size_t at = k->out_count;
    for (size_t i = k->in_count; i < k->operand_count; i++) {
        const trace_operand *o = &k->operands[i];
        const tape_variable *v = o->next != NULL ? results[at++] : NULL;
        if (!is_filled(o) || o->filled_after != effects)
            continue;
        s->replaced[i] = *o->slot;
        *o->slot = v != NULL ? tape_handle(v) : XCVM_ABSENT;
    }
}

/* Ends the writes to state slots. After a failure, those that `filled` effects have seen are restored. */
static void end_slots(const tape_schedule *s, bool succeeded, size_t filled)
{
    const tape_trace *k = s->trace;
    for (size_t i = filled; succeeded && i <= k->effect_count; i++)
        fill_slots(s, s->results, i);
    size_t at = k->out_count;
    for (size_t i = k->in_count; i < k->operand_count; i++) {
        const trace_operand *o = &k->operands[i];
        tape_variable *v = o->next != NULL ? s->results[at++] : NULL;
        if (!is_filled(o))
            continue;
        if (succeeded && o->keeps)
            tape_variable_keep(v);
        if (succeeded && o->releases)
            xcvm_var_release(k->tape, s->replaced[i]);
        if (!succeeded && o->filled_after < filled)
            *o->slot = s->replaced[i];
    }
}

/* ---- Running ---- */

static xcvm_status run_forward(xcvm_tape *t, tape_schedule *s, tape_op_record *r)
{
    s->preserves_operands = t->check_nan || s->trace->effect_count > 0;
    for (size_t i = 0; i < s->trace->operation_count && !s->preserves_operands; i++)
        s->preserves_operands = s->trace->operations[i].seen_count > 0;
    for (size_t i = 0; i < s->output_count && !s->preserves_operands; i++)
        s->preserves_operands = !s->outputs[i].fixed;
    XCVM_TRY(bind_program(t, s, r));
    const uint64_t begun = t->observer.call != NULL ? tape_op_observe(t, r, 0) : 0;
    XCVM_TRY(run_session(t, s->forward.session));
    XCVM_TRY(copy_results(t, s, r));
    if (t->observer.call != NULL)
        tape_op_observe(t, r, begun);
    return t->check_nan ? tape_op_check_nan(t, r) : XCVM_OK;
}

static bool result_requires(const tape_trace *k, size_t result)
{
    if (result < k->out_count)
        return k->out_requires[result];
    size_t left = result - k->out_count;
    for (size_t i = 0; i < k->operand_count; i++)
        if (k->operands[i].next != NULL && left-- == 0)
            return k->operands[i].next_requires;
    return false;
}

/* The program has succeeded. Changes follow the other results. *shown: number of effects that have seen written
 * values. */
static xcvm_status run_effects(const tape_schedule *s, const tape_op_record *r, size_t *shown)
{
    const tape_trace *k = s->trace;
    size_t at = s->result_count - s->change_count;
    for (size_t i = 0; i < k->operand_count; i++)
        if (k->operands[i].clears)
            tape_variable_clear_gradient(s->operands[i]);
    for (size_t i = 0; i < k->effect_count; i++) {
        const trace_effect *e = &k->effects[i];
        for (size_t j = 0; j < e->count; j++) {
            const trace_change *c = &e->changes[j];
            tape_change *now = &s->changing[j];
            *now = (tape_change){.variable = s->operands[c->operand], .gradient = r->out[at++], .remains = c->remains};
            if (trace_change_companion(c) != NULL)
                *(c->left_factor != NULL ? &now->left_factor : &now->rows) = r->out[at++];
        }
        show_written(s, i, r->number);
        fill_slots(s, r->out, i);
        *shown = i + 1;
        XCVM_TRY(e->effect != NULL ? e->effect->run(e->effect, e->count, s->changing)
                                   : tape_changes_apply(s->trace->tape, e->count, s->changing));
    }
    return XCVM_OK;
}

/* The record refers to the elements that the forward program read. Some operands were overwritten since. */
static void mark_overwritten_operands(const tape_schedule *s, const tape_op_record *r)
{
    for (size_t i = 0; i < s->trace->operand_count; i++) {
        const xcvm_storage *storage = s->operands[i] != NULL ? s->operands[i]->value.type.storage : NULL;
        if (storage != NULL && (int32_t)(storage->version - (uint32_t)(r->number + 1)) >= 0)
            r->versions[i]--;
    }
}

/* A host operation or a hook may reset the tape, which removes the names of the results. */
static xcvm_status check_results(const tape_schedule *s, tape_op_record *r, xcvm_status status)
{
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL && !r->out[i]->named) {
            r->out[i] = NULL;
            if (status == XCVM_OK)
                status =
                    tape_fail(r->tape, XCVM_INVALID_ARGUMENT, "the tape was reset while %.100s ran", s->operation.name);
        }
    return status;
}

xcvm_status tape_schedule_run(xcvm_tape *t, tape_schedule *s)
{
    const tape_trace *k = s->trace;
    const size_t outs = s->result_count + s->kept_count;
    void *behind;
    tape_op_record *r = tape_op_record_create(t, &schema, k->operand_count, outs, 0, &behind);
    if (r == NULL)
        return t->error.status;
    if (k->operand_count > 0)
        memcpy(r->in, s->operands, k->operand_count * sizeof *r->in);
    r->operation = &s->operation;
    r->schedule_users = &s->users;
    s->users++;
    const uint64_t number = r->number;
    size_t shown = 0;
    xcvm_status status = run_forward(t, s, r);
    if (status == XCVM_OK)
        status = run_effects(s, r, &shown);
    if (outs > 0)
        memcpy(s->results, r->out, outs * sizeof *s->results);
    status = check_results(s, r, status);
    end_written(s, status == XCVM_OK, shown, number);
    const bool recording = xcvm_tape_set_recording(t, t->recording && k->differentiable);
    status = tape_op_finish(t, r, status);
    t->recording = recording;
    const tape_op_record *recorded = NULL;
    for (size_t i = 0; i < outs && status == XCVM_OK && recorded == NULL; i++)
        recorded = s->results[i]->creator;
    if (recorded != NULL)
        mark_overwritten_operands(s, recorded);
    else
        s->users--;
    for (size_t i = 0; i < outs && status == XCVM_OK; i++) {
        if (i >= s->result_count - s->change_count)
            tape_variable_unname(s->results[i]);
        else if (!result_requires(k, i))
            tape_variable_require(s->results[i], false);
    }
    for (size_t i = 0; i < outs; i++)
        if (s->results[i] != NULL)
            tape_variable_release(s->results[i]);
    end_slots(s, status == XCVM_OK, shown);
    return status;
}

/* ---- Backward ---- */

/* Output `of` has no gradient, possibly because it was unchained (xcvm_var_unchain). */
static tape_variable *zero_gradient(xcvm_tape *t, const schedule_output *of, const tape_variable *v)
{
    const xcvm_type *type = of->type;
    if (!of->fixed && v == NULL)
        tape_fail(t, XCVM_UNSUPPORTED, "result %zu is of a size that a run finds out, and was unchained", of->index);
    if (t->failed)
        return NULL;
    tape_variable *zero = tape_tensor(t, type->dtype, type->rank, of->fixed ? type->dims : v->value.type.dims, NULL);
    if (zero != NULL)
        memset(zero->value.type.data, 0, zero->value.type.bytes);
    return zero;
}

static xcvm_status bind_gradient(xcvm_tape *t, const tape_schedule *s, size_t i, const xcvm_var *out,
                                 const xcvm_var *out_gradients)
{
    const schedule_output *of = s->backward_inputs[i].of;
    const bool written = of->role == SCHEDULE_WRITTEN;
    const tape_variable *v = written ? NULL : out_gradients[of->index].at;
    if (v == NULL && (v = zero_gradient(t, of, written ? NULL : out[of->index].at)) == NULL)
        return t->error.status;
    xcvm_session_lend_input(s->backward.session, i, &v->value.type);
    return XCVM_OK;
}

/* Runs the backward program, without recording. */
static xcvm_status run_backward(xcvm_tape *t, const tape_schedule *s, const xcvm_var *in, const xcvm_var *out,
                                const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    const xcvm_program *program = s->backward.program;
    for (size_t i = 0; i < program->image.input_count; i++) {
        const schedule_output *of = s->backward_inputs[i].of;
        if (s->backward_inputs[i].is_gradient) {
            XCVM_TRY(bind_gradient(t, s, i, out, out_gradients));
            continue;
        }
        const tape_variable *v = of->role == SCHEDULE_OPERAND ? in[of->index].at : out[of->index].at;
        XCVM_TRY(tape_variable_check_readable(t, v));
        xcvm_session_lend_input(s->backward.session, i, &v->value.type);
    }
    for (size_t i = 0; i < program->image.output_count; i++) {
        const xcvm_type *type = &program->image.outputs[i].type;
        const tape_variable *v = tape_tensor(t, type->dtype, type->rank, type->dims, NULL);
        if (v == NULL)
            return t->error.status;
        xcvm_session_lend_output(s->backward.session, i, &v->value.type);
        in_gradients[s->backward_outputs[i]] = tape_handle(v);
    }
    return run_session(t, s->backward.session);
}

/* Runs the ops again on aliases of the operands, recorded, and differentiates them. */
static xcvm_status differentiate_backward(xcvm_tape *t, const tape_schedule *s, const xcvm_var *in,
                                          const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    const tape_trace *k = s->trace;
    const size_t ins = k->operand_count, outs = s->result_count;
    tape_variable **lists = xcc_alloc(&t->module, (3 * ins + 3 * outs) * sizeof *lists);
    if (lists == NULL)
        return tape_latch_failure(t, XCVM_OUT_OF_MEMORY);
    tape_variable **operands = lists, **wrt = operands + ins, **gradients = wrt + ins, **values = gradients + ins,
                  **roots = values + outs, **seeds = roots + outs;
    size_t wrt_count = 0, root_count = 0;
    for (size_t i = 0; i < ins; i++) {
        operands[i] = in[i].at;
        if (in[i].at == NULL)
            continue;
        XCVM_TRY(tape_variable_check_readable(t, in[i].at));
        if (!k->operands[i].requires)
            continue;
        if ((operands[i] = wrt[wrt_count++] = tape_variable_alias(t, in[i].at)) == NULL)
            return t->error.status;
    }
    XCVM_TRY(tape_trace_run(k, operands, values));
    for (size_t i = 0; i < outs; i++)
        if (out_gradients[i].at != NULL) {
            roots[root_count] = values[i];
            seeds[root_count++] = out_gradients[i].at;
        }
    const tape_backward_request request = {.kind = TAPE_GRADIENTS,
                                           .root_count = root_count,
                                           .roots = roots,
                                           .seeds = seeds,
                                           .wrt_count = wrt_count,
                                           .wrt = wrt,
                                           .gradients = gradients,
                                           .retain = true,
                                           .create = true};
    XCVM_TRY(tape_backward_run(t, &request));
    for (size_t i = 0, at = 0; i < ins; i++)
        if (in[i].at != NULL && k->operands[i].requires && gradients[at++] != NULL)
            in_gradients[i] = tape_handle(gradients[at - 1]);
    return XCVM_OK;
}

xcvm_status tape_schedule_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                   const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    const tape_schedule *s = user;
    (void)in_count;
    (void)out_count;
    if (!t->recording)
        return tape_latch_failure(t, run_backward(t, s, in, out, out_gradients, in_gradients));
    if (!s->double_backprop)
        return tape_fail(t, XCVM_UNSUPPORTED,
                         "the gradient of %.100s is differentiated, which has to be asked for "
                         "(xcvm_static_options.double_backprop)",
                         s->operation.name);
    return differentiate_backward(t, s, in, out_gradients, in_gradients);
}
