/* Gradients of host operations, which the host computes in place of a rule. */
#include "compiler/gradients/rule.h"
#include "tape/backward/backward.h"
#include "tape/tracer.h"

#include <stdio.h>

/* A handle that is valid while the host's function runs. */
static xcvm_var lend_handle(tape_variable *v)
{
    if (v == NULL)
        return XCVM_ABSENT;
    v->lent_refs++;
    return tape_handle(v);
}

static void pass_gradient(xcc_vjp *d, const tape_op_record *r, uint32_t i, xcvm_var returned)
{
    xcvm_tape *t = r->tape;
    tape_variable *v = tape_resolve_optional(t, returned, "a gradient of the operation");
    if (v == NULL)
        return;
    const xcvm_value *got = &v->value.type, *wanted = &r->in[i]->value.type;
    char a[192], b[192];
    if (got->dtype != wanted->dtype || !xcvm_same_shape(got, wanted))
        tape_fail(t, XCVM_SHAPE_MISMATCH, "the gradient of operand %u is %s, the operand %s", (unsigned)i,
                  xcvm_value_describe(got, a, sizeof a), xcvm_value_describe(wanted, b, sizeof b));
    else
        xcc_set_gradient(d, i, &v->value);
}

void tape_operation_apply_gradient(xcvm_tape *t, xcc_vjp *d, const tape_op_record *r)
{
    const size_t ins = r->in_count, outs = r->out_count;
    if (t->tracer != NULL) {
        char why[160];
        snprintf(why, sizeof why, "the gradient of an operation of the host's is taken, %.100s", r->operation->name);
        tape_refuse_trace(t, why);
    }
    xcvm_var *all = xcc_alloc(&t->module, (2 * ins + 2 * outs) * sizeof *all);
    if (all == NULL) {
        d->failed = true;
        return;
    }
    xcvm_var *out = all + ins, *out_gradients = out + outs, *in_gradients = out_gradients + outs;
    for (size_t i = 0; i < ins; i++)
        all[i] = lend_handle(r->in[i]);
    for (size_t i = 0; i < outs; i++) {
        out[i] = lend_handle(r->out[i]);
        out_gradients[i] = lend_handle(d->results[i] != NULL ? tape_variable_of(d->results[i]) : NULL);
    }
    const xcvm_status status =
        r->operation->backward(r->operation->user, t, ins, all, outs, out, out_gradients, in_gradients);
    if (status != XCVM_OK && !t->failed)
        tape_fail(t, status, "the gradient of the operation failed");
    for (uint32_t i = 0; i < ins && !t->failed; i++)
        if (d->wanted[i])
            pass_gradient(d, r, i, in_gradients[i]);
    for (size_t i = 0; i < ins; i++)
        if (r->in[i] != NULL)
            r->in[i]->lent_refs--;
    for (size_t i = 0; i < outs; i++) {
        if (r->out[i] != NULL)
            r->out[i]->lent_refs--;
        if (d->results[i] != NULL)
            tape_variable_of(d->results[i])->lent_refs--;
    }
    d->failed = t->failed;
}
