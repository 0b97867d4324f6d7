/* Operations of the host's, with gradients of their own: recorded as one call. */
#include "compiler/gradients/rule.h"
#include "tape/tape.h"

#include <stdio.h>
#include <string.h>

/* What stands for the row of such a call. */
static const xcvm_schema schema = {.name = "operation"};

static xcvm_status adopt(xcvm_tape *t, const tape_record *r, const xcvm_var *out)
{
    for (uint32_t i = 0; i < r->out_count; i++) {
        tape_variable *given = tape_resolve(t, out[i], "a result of the operation");
        if (given == NULL || (r->out[i] = tape_variable_share(t, given)) == NULL)
            return t->error.status;
    }
    return XCVM_OK;
}

static xcvm_status run_forward(xcvm_tape *t, tape_record *r, const xcvm_var *in, xcvm_var *out)
{
    const xcvm_operation *o = r->operation;
    const bool recording = xcvm_tape_set_recording(t, false);
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    tape_tracer *tracer = t->tracer;
    t->tracer = NULL; /* which has the call as a whole */
    xcvm_status status = o->forward(o->user, t, r->in_count, in, r->out_count, out);
    t->recording = recording;
    if (status != XCVM_OK && !t->failed)
        tape_fail(t, status, "the operation failed");
    status = t->failed ? t->error.status : adopt(t, r, out);
    t->tracer = tracer;
    if (tracer != NULL && status == XCVM_OK)
        status = tracer->functions->call(tracer, r);
    for (uint32_t i = 0; i < r->out_count; i++)
        out[i] = status == XCVM_OK ? tape_handle(r->out[i]) : TAPE_FAILED;
    xcvm_tape_scope_end(t, scope, status == XCVM_OK ? r->out_count : 0, out);
    if (status != XCVM_OK)
        memset(r->out, 0, r->out_count * sizeof(tape_variable *)); /* gone with the scope */
    return status;
}

/* `held` is a place for the operands, which the host's function may release while they are needed. */
static xcvm_status operate(xcvm_tape *t, tape_record *r, const xcvm_var *in, xcvm_var *out, tape_variable **held)
{
    const uint32_t count = r->in_count;
    for (uint32_t i = 0; i < count; i++)
        if ((held[i] = r->in[i] = tape_operand(t, in[i], "an operand of the operation")) != NULL)
            held[i]->refs++;
    /* The host's function may read them or not; what it computes stands behind them among what was executed. */
    for (uint32_t i = 0; i < count && !t->failed; i++)
        (void)tape_evaluate(held[i]);
    xcvm_status status = t->failed ? t->error.status : run_forward(t, r, in, out);
    status = tape_conclude(t, r, status);
    for (uint32_t i = 0; i < count; i++)
        if (held[i] != NULL)
            tape_variable_release(held[i]);
    return status;
}

xcvm_var xcvm_tape_call_operation(xcvm_tape *tape, const xcvm_operation *operation, size_t in_count, const xcvm_var *in,
                                  size_t out_count, xcvm_var *out)
{
    xcvm_tape *t = tape;
    void *behind;
    for (size_t i = 0; i < out_count && out != NULL; i++)
        out[i] = TAPE_FAILED;
    if (!TAPE_ENTER(t, xcvm_tape_call_operation))
        return TAPE_FAILED;
    if (operation == NULL || operation->forward == NULL || (out_count > 0 && out == NULL)) {
        tape_fail(t, XCVM_INVALID_ARGUMENT, "an operation needs a function for its results, and a place for them");
        return TAPE_FAILED;
    }
    if (operation->name == NULL) {
        tape_fail(t, XCVM_INVALID_ARGUMENT, "an operation needs a name");
        return TAPE_FAILED;
    }
    tape_record *r = tape_record_make(t, &schema, in_count, out_count, 0, &behind);
    if (r == NULL)
        return TAPE_FAILED;
    r->operation = operation;
    const size_t bytes = (in_count + 1) * sizeof(tape_variable *);
    tape_variable **held = tape_take(t, bytes);
    if (held == NULL)
        return tape_conclude(t, r, t->error.status), TAPE_FAILED;
    const xcvm_status status = operate(t, r, in, out, held);
    tape_give_back(t, held, bytes);
    return status != XCVM_OK ? TAPE_FAILED : out_count > 0 ? out[0] : XCVM_ABSENT;
}

/* A handle of what the host does not name, for as long as its function runs. */
static xcvm_var lend(tape_variable *v)
{
    if (v == NULL)
        return XCVM_ABSENT;
    v->lenders++;
    return tape_handle(v);
}

static void give(xcc_vjp *d, const tape_record *r, uint32_t i, xcvm_var given)
{
    xcvm_tape *t = r->tape;
    tape_variable *v = tape_operand(t, given, "a gradient of the operation");
    if (v == NULL)
        return;
    const xcvm_value *got = &v->value.type, *wanted = &r->in[i]->value.type;
    char a[192], b[192];
    if (got->dtype != wanted->dtype || !xcvm_same_shape(got, wanted))
        tape_fail(t, XCVM_SHAPE_MISMATCH, "the gradient of operand %u is %s, the operand %s", (unsigned)i,
                  xcvm_value_describe(got, a, sizeof a), xcvm_value_describe(wanted, b, sizeof b));
    else
        xcc_give(d, i, &v->value);
}

void tape_operation_backward(xcvm_tape *t, xcc_vjp *d, const tape_record *r)
{
    const size_t ins = r->in_count, outs = r->out_count;
    if (t->tracer != NULL) {
        char why[160];
        snprintf(why, sizeof why, "the gradient of an operation of the host's is taken, %.100s", r->operation->name);
        tape_refuse(t, why);
    }
    xcvm_var *all = xcc_alloc(&t->module, (2 * ins + 2 * outs) * sizeof *all);
    if (all == NULL) {
        d->failed = true;
        return;
    }
    xcvm_var *out = all + ins, *out_gradients = out + outs, *in_gradients = out_gradients + outs;
    for (size_t i = 0; i < ins; i++)
        all[i] = lend(r->in[i]);
    for (size_t i = 0; i < outs; i++) {
        out[i] = lend(r->out[i]);
        out_gradients[i] = lend(d->results[i] != NULL ? tape_variable_of(d->results[i]) : NULL);
    }
    const xcvm_status status =
        r->operation->backward(r->operation->user, t, ins, all, outs, out, out_gradients, in_gradients);
    if (status != XCVM_OK && !t->failed)
        tape_fail(t, status, "the gradient of the operation failed");
    for (uint32_t i = 0; i < ins && !t->failed; i++)
        if (d->wanted[i])
            give(d, r, i, in_gradients[i]);
    for (size_t i = 0; i < ins; i++)
        if (r->in[i] != NULL)
            r->in[i]->lenders--;
    for (size_t i = 0; i < outs; i++) {
        if (r->out[i] != NULL)
            r->out[i]->lenders--;
        if (d->results[i] != NULL)
            tape_variable_of(d->results[i])->lenders--;
    }
    d->failed = t->failed;
}
