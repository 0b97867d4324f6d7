/* Host operations with a gradient of their own, recorded as one op. */
#include "tape/tracer.h"

#include <string.h>

/* The definition of such an op. */
static const xcvm_schema schema = {.name = "operation"};

static xcvm_status adopt_results(xcvm_tape *t, const tape_op_record *r, const xcvm_var *out)
{
    for (uint32_t i = 0; i < r->out_count; i++) {
        tape_variable *returned = tape_resolve(t, out[i], "a result of the operation");
        if (returned == NULL || (r->out[i] = tape_variable_share(t, returned)) == NULL)
            return t->error.status;
    }
    return XCVM_OK;
}

static xcvm_status run_forward(xcvm_tape *t, tape_op_record *r, const xcvm_var *in, xcvm_var *out)
{
    const xcvm_operation *o = r->operation;
    const bool recording = xcvm_tape_set_recording(t, false);
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    tape_tracer *tracer = t->tracer;
    t->tracer = NULL; /* the tracer sees the operation as one op */
    xcvm_status status = o->forward(o->user, t, r->in_count, in, r->out_count, out);
    t->recording = recording;
    if (status != XCVM_OK && !t->failed)
        tape_fail(t, status, "the operation failed");
    status = t->failed ? t->error.status : adopt_results(t, r, out);
    t->tracer = tracer;
    if (tracer != NULL && status == XCVM_OK)
        status = tracer->functions->call(tracer, r);
    for (uint32_t i = 0; i < r->out_count; i++)
        out[i] = status == XCVM_OK ? tape_handle(r->out[i]) : TAPE_FAILED;
    xcvm_tape_scope_end(t, scope, status == XCVM_OK ? r->out_count : 0, out);
    if (status != XCVM_OK)
        memset(r->out, 0, r->out_count * sizeof(tape_variable *)); /* freed with the scope */
    return status;
}

/* `held` has references to the operands, which the host's function may release. */
static xcvm_status run_operation(xcvm_tape *t, tape_op_record *r, const xcvm_var *in, xcvm_var *out,
                                 tape_variable **held)
{
    const uint32_t count = r->in_count;
    for (uint32_t i = 0; i < count; i++)
        if ((held[i] = r->in[i] = tape_resolve_optional(t, in[i], "an operand of the operation")) != NULL)
            held[i]->refs++;
    /* The host's function may read the operands, so they are evaluated first. */
    for (uint32_t i = 0; i < count && !t->failed; i++)
        (void)tape_evaluate(held[i]);
    xcvm_status status = t->failed ? t->error.status : run_forward(t, r, in, out);
    status = tape_op_finish(t, r, status);
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
    tape_op_record *r = tape_op_record_create(t, &schema, in_count, out_count, 0, &behind);
    if (r == NULL)
        return TAPE_FAILED;
    r->operation = operation;
    const size_t bytes = (in_count + 1) * sizeof(tape_variable *);
    tape_variable **held = tape_allocate(t, bytes);
    if (held == NULL)
        return tape_op_finish(t, r, t->error.status), TAPE_FAILED;
    const xcvm_status status = run_operation(t, r, in, out, held);
    tape_free(t, held, bytes);
    return status != XCVM_OK ? TAPE_FAILED : out_count > 0 ? out[0] : XCVM_ABSENT;
}
