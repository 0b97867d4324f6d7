/* Host operations in a schedule: the session calls them on temporary variables. */
#include "tape/static/schedule.h"

#include <string.h>

/* ---- Values ---- */

static xcvm_status make_variables(xcvm_tape *t, size_t count, const xcvm_value *const *values, xcvm_var *vs)
{
    for (size_t i = 0; i < count; i++) {
        const xcvm_value *value = values[i];
        const tape_variable *v = tape_tensor(t, (xcvm_dtype)value->dtype, value->rank, value->dims, value->data);
        if (v == NULL)
            return t->error.status;
        vs[i] = tape_handle(v);
    }
    return XCVM_OK;
}

/* Copies a result for the session. An absent one becomes zeros like `like`. */
static xcvm_status return_value(xcvm_tape *t, xcvm_var v, const xcvm_value *like, xcvm_value **value)
{
    const tape_variable *from = tape_resolve_optional(t, v, "a result of the operation");
    if (t->failed)
        return t->error.status;
    const xcvm_value *type = from != NULL ? &from->value.type : like;
    if (type == NULL || type->kind != XCVM_KIND_TENSOR || type->dtype == XCVM_STRING)
        return tape_fail(t, XCVM_TYPE_MISMATCH, "a result of an operation in a schedule is no tensor of numbers");
    XCVM_TRY(tape_latch_failure(
        t, xcvm_tensor_create(t->allocator, (xcvm_dtype)type->dtype, type->rank, type->dims, value, &t->error)));
    if (type->bytes > 0 && from != NULL)
        memcpy((*value)->data, type->data, type->bytes);
    else if (type->bytes > 0)
        memset((*value)->data, 0, type->bytes);
    return XCVM_OK;
}

/* ---- Functions ---- */

/* A running host operation, in a scope in which nothing is recorded. */
typedef struct host_call {
    xcvm_tape *t;
    xcvm_scope scope;
    bool recording;
    size_t bytes;
    xcvm_var *all;
} host_call;

static xcvm_status begin_call(host_call *c, xcvm_tape *t, size_t count)
{
    *c = (host_call){.t = t, .scope = xcvm_tape_scope_begin(t), .bytes = (count + 1) * sizeof *c->all};
    if ((c->all = tape_allocate(t, c->bytes)) == NULL)
        return t->error.status;
    memset(c->all, 0, c->bytes);
    c->recording = xcvm_tape_set_recording(t, false);
    return XCVM_OK;
}

static xcvm_status end_call(const host_call *c, xcvm_status status, xcvm_error *error)
{
    xcvm_tape *t = c->t;
    if (status != XCVM_OK && !t->failed)
        tape_fail(t, status, "the operation failed");
    t->recording = c->recording;
    xcvm_tape_scope_end(t, c->scope, 0, NULL);
    tape_free(t, c->all, c->bytes);
    if (t->failed && error != NULL && error != &t->error)
        *error = t->error;
    return t->failed ? t->error.status : XCVM_OK;
}

/* Operands that op calls have written show their new elements while the host's function runs, and are restored
 * afterwards. `values` are referenced variables with these elements. */
static void exchange_seen(const schedule_operation *o, const xcvm_var *values)
{
    for (size_t i = 0; i < o->of->seen_count; i++)
        tape_schedule_exchange(&o->schedule->operands[o->of->seen[i]]->value.type, &values[i].at->value.type);
}

static xcvm_status call_host(const schedule_operation *o, const xcvm_var *in, size_t out_count, xcvm_var *out)
{
    const xcvm_operation *host = o->of->operation;
    const xcvm_var *values = in + o->of->in_count;
    for (size_t i = 0; i < o->of->seen_count; i++)
        values[i].at->refs++;
    exchange_seen(o, values);
    const xcvm_status status = host->forward(host->user, o->tape, o->of->in_count, in, out_count, out);
    exchange_seen(o, values);
    for (size_t i = 0; i < o->of->seen_count; i++)
        tape_variable_release(values[i].at);
    return status;
}

static xcvm_status call_forward(void *user, size_t in_count, const xcvm_value *const *in, size_t out_count,
                                xcvm_value **out, xcvm_error *error)
{
    const schedule_operation *o = user;
    host_call c;
    XCVM_TRY(begin_call(&c, o->tape, in_count + out_count));
    xcvm_var *results = c.all + in_count;
    xcvm_status status = make_variables(o->tape, in_count, in, c.all);
    if (status == XCVM_OK)
        status = call_host(o, c.all, out_count, results);
    for (size_t i = 0; i < out_count && status == XCVM_OK; i++)
        status = return_value(o->tape, results[i], NULL, &out[i]);
    return end_call(&c, status, error);
}

/* The values are operands, seen operands, results, and gradients of the float results. */
static xcvm_status call_backward(void *user, size_t count, const xcvm_value *const *values, size_t out_count,
                                 xcvm_value **out, xcvm_error *error)
{
    const schedule_operation *o = user;
    const xcvm_operation *host = o->of->operation;
    const size_t own = o->of->in_count, ins = own + o->of->seen_count, outs = o->of->out_count;
    host_call c;
    XCVM_TRY(begin_call(&c, o->tape, count + outs + ins));
    xcvm_var *gradients = c.all + count, *in_gradients = gradients + outs;
    xcvm_status status = make_variables(o->tape, count, values, c.all);
    for (size_t i = 0, at = ins + outs; i < outs && status == XCVM_OK; i++)
        if (xcvm_dtype_is_float((xcvm_dtype)values[ins + i]->dtype))
            gradients[i] = c.all[at++];
    if (status == XCVM_OK)
        status = host->backward(host->user, o->tape, own, c.all, outs, c.all + ins, gradients, in_gradients);
    for (size_t i = 0, at = 0; i < ins && at < out_count && status == XCVM_OK; i++)
        if (xcvm_dtype_is_float((xcvm_dtype)values[i]->dtype))
            status = return_value(o->tape, in_gradients[i], values[i], &out[at++]);
    return end_call(&c, status, error);
}

xcvm_status tape_schedule_functions(xcvm_tape *t, tape_schedule *s)
{
    const tape_trace *k = s->trace;
    const size_t own = t->kernel.function_count;
    schedule_operation *operations = xcvm_arena_allocate(&s->arena, (k->operation_count + 1) * sizeof *operations);
    s->functions = xcvm_arena_allocate(&s->arena, (own + 2 * k->operation_count + 1) * sizeof *s->functions);
    if (operations == NULL || s->functions == NULL)
        return xcvm_error_set(&t->error, XCVM_OUT_OF_MEMORY, "no memory for a schedule");
    if (own > 0)
        memcpy(s->functions, t->kernel.functions, own * sizeof *s->functions);
    s->function_count = own;
    for (size_t i = 0; i < k->operation_count; i++) {
        const trace_operation *o = &k->operations[i];
        operations[i] = (schedule_operation){t, s, o};
        s->functions[s->function_count++] = (xcvm_host_function){o->name, call_forward, &operations[i]};
        if (o->operation->backward != NULL)
            s->functions[s->function_count++] = (xcvm_host_function){o->vjp, call_backward, &operations[i]};
    }
    return XCVM_OK;
}
