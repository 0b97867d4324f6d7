/* Ops that overwrite a variable, and the detection of overwritten elements by the backward pass. */
#include "tape/mode.h"
#include "tape/tracer.h"

#include <string.h>

/* ---- Versions ---- */

void tape_op_save_versions(tape_op_record *r)
{
    for (uint32_t i = 0; i < r->in_count; i++)
        r->versions[i] = tape_variable_version(r->in[i]);
    for (uint32_t i = 0; i < r->out_count; i++)
        r->versions[r->in_count + i] = tape_variable_version(r->out[i]);
}

/* True if the version has changed. Freed elements do not count. */
static bool differs(const tape_variable *v, uint32_t version)
{
    return version != tape_variable_version(v) && !(v != NULL && v->elements_freed);
}

/* True if v, of a record, was overwritten since. */
static bool is_overwritten(const tape_op_record *r, const tape_variable *v)
{
    for (uint32_t i = 0; v != NULL && i < r->in_count; i++)
        if (r->in[i] == v)
            return differs(v, r->versions[i]);
    for (uint32_t i = 0; v != NULL && i < r->out_count; i++)
        if (r->out[i] == v)
            return differs(v, r->versions[r->in_count + i]);
    return false;
}

bool tape_op_has_overwritten(const tape_op_record *r)
{
    for (uint32_t i = 0; i < r->in_count; i++)
        if (differs(r->in[i], r->versions[i]))
            return true;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (differs(r->out[i], r->versions[r->in_count + i]))
            return true;
    return false;
}

xcvm_status tape_variable_check_readable(xcvm_tape *t, const tape_variable *v)
{
    const tape_op_record *r = t->overwritten;
    if (v != NULL && (v->elements_freed || !tape_variable_has_elements(v)))
        return tape_fail(t, XCVM_INTERNAL, "variable %llu, whose elements were not retained, is read by a rule",
                         (unsigned long long)v->serial);
    if (r == NULL || !is_overwritten(r, v))
        return XCVM_OK;
    return tape_fail(t, XCVM_INVALID_ARGUMENT,
                     "call %llu (%s) needs variable %llu for its gradient, which call %u has overwritten",
                     (unsigned long long)r->number, r->operation != NULL ? r->operation->name : r->schema->name,
                     (unsigned long long)v->serial, (unsigned)(tape_variable_version(v) - 1));
}

xcvm_status tape_variable_own_elements(xcvm_tape *t, tape_variable *v)
{
    XCVM_TRY(tape_evaluate(v));
    xcvm_value *type = &v->value.type, before = *type;
    if (type->storage != NULL && type->storage->owner == t->kernel.heap)
        return XCVM_OK;
    if (tape_latch_failure(t, tape_variable_allocate(t, v)) != XCVM_OK) {
        *type = before;
        return t->error.status;
    }
    if (type->bytes > 0)
        memcpy(type->data, before.data, type->bytes);
    xcvm_storage_release(before.storage);
    return XCVM_OK;
}

/* ---- Writing into a variable ---- */

static xcvm_status check_target(xcvm_tape *t, const tape_op_record *r, const tape_variable *target)
{
    char text[192];
    if (target->value.type.kind != XCVM_KIND_TENSOR || target->value.type.dtype == XCVM_STRING)
        return tape_fail(t, XCVM_TYPE_MISMATCH, "the variable to write into is %s, a tensor of numbers is needed",
                         xcvm_value_describe(&target->value.type, text, sizeof text));
    if (target->lent_refs > 0)
        return tape_fail(t, XCVM_INVALID_ARGUMENT,
                         "an accumulated gradient may belong to several variables, and cannot be overwritten");
    if (t->recording && (target->requires || tape_op_is_differentiable(t, r)))
        return tape_fail(
            t, XCVM_INVALID_ARGUMENT,
            "a gradient would have to flow through the overwritten variable; turn recording off, or detach it");
    return XCVM_OK;
}

/* True if the kernel may write to the target while it reads its operands. Each operand in that memory must be the
 * whole target, and one that the op may overwrite. */
static bool can_take_over(const tape_op_record *r, const tape_variable *target)
{
    uint32_t at = 0;
    for (size_t f = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (!xcvm_field_is_input(field))
            continue;
        for (size_t left = xcvm_field_count(field, r->args); left > 0; left--, at++) {
            const xcvm_value *type = r->in[at] != NULL ? &r->in[at]->value.type : NULL;
            if (type == NULL || (type->kind == XCVM_KIND_TENSOR && type->storage != target->value.type.storage))
                continue;
            if (type->kind != XCVM_KIND_TENSOR || field->role != XCVM_ROLE_IN_PLACE ||
                type->data != target->value.type.data || !xcvm_same_shape(type, &target->value.type) ||
                type->dtype != target->value.type.dtype)
                return false;
        }
    }
    return true;
}

static xcvm_status run_into(xcvm_tape *t, tape_op_record *r, tape_variable *target)
{
    xcvm_value *result = &r->out[0]->value.type, *to = &target->value.type;
    char a[192], b[192];
    XCVM_TRY(tape_op_infer(t, r));
    XCVM_CHECK(&t->error, result->kind == XCVM_KIND_TENSOR && result->dtype == to->dtype && xcvm_same_shape(result, to),
               SHAPE_MISMATCH, "the result is %s, what it goes into %s", xcvm_value_describe(result, a, sizeof a),
               xcvm_value_describe(to, b, sizeof b));
    XCVM_TRY(tape_variable_own_elements(t, target));
    if (t->tracer != NULL)
        t->tracer->functions->target(t->tracer, target);
    /* The NaN check reads the operands afterwards. */
    const bool direct = !t->check_nan && can_take_over(r, target);
    if (direct)
        xcvm_value_share(result, to);
    XCVM_TRY(tape_op_run_kernel(t, r, direct ? 1 : 0));
    if (!direct && to->bytes > 0)
        memcpy(to->data, result->data, to->bytes);
    tape_mark_overwritten(to, r->number);
    if (t->tracer != NULL) {
        XCVM_TRY(t->tracer->functions->call(t->tracer, r));
        t->tracer->functions->into(t->tracer, r->out[0], target);
    }
    return t->failed ? t->error.status : XCVM_OK;
}

xcvm_status tape_eager_execute_into(xcvm_tape *t, tape_op_record *r, tape_variable *target)
{
    xcvm_status status = t->failed ? t->error.status : XCVM_OK;
    if (status == XCVM_OK && r->out_count == 0)
        status = tape_fail(t, XCVM_INVALID_ARGUMENT, "the call has no result");
    if (status == XCVM_OK)
        status = check_target(t, r, target);
    /* Waiting ops read what is overwritten. */
    if (status == XCVM_OK)
        status = tape_evaluate_all(t);
    if (status == XCVM_OK)
        status = tape_latch_failure(t, run_into(t, r, target));
    if (status != XCVM_OK)
        tape_op_locate_failure(t, r);
    return status;
}

xcvm_status xcvm_var_set_data(xcvm_tape *tape, xcvm_var v, const void *data, size_t bytes, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_var_set_data, error);
    tape_variable *variable = tape_resolve(tape, v, "the variable to be set");
    if (variable == NULL || tape_evaluate(variable) != XCVM_OK)
        return tape_report(tape, error);
    xcvm_value *type = &variable->value.type;
    char text[192];
    XCVM_CHECK(error, type->kind == XCVM_KIND_TENSOR && type->dtype != XCVM_STRING, TYPE_MISMATCH,
               "the variable is %s, a tensor of numbers is needed", xcvm_value_describe(type, text, sizeof text));
    XCVM_CHECK(error, bytes == type->bytes && (data != NULL || bytes == 0), SHAPE_MISMATCH,
               "%zu bytes for a variable of %zu bytes", bytes, type->bytes);
    XCVM_CHECK(error, variable->lent_refs == 0, INVALID_ARGUMENT,
               "an accumulated gradient may belong to several variables, and cannot be overwritten");
    if (tape_variable_own_elements(tape, variable) != XCVM_OK)
        return tape_report(tape, error);
    tape_refuse_trace(tape, "the host sets the elements of a variable");
    if (bytes > 0)
        memcpy(type->data, data, bytes);
    tape_mark_overwritten(type, tape->calls++);
    return XCVM_OK;
}
