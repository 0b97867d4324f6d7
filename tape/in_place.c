/* Calls whose result takes the place of what a variable is, and how the walk back finds out. */
#include "tape/batch.h"

#include <string.h>

/* ---- Versions ---- */

static uint32_t version_of(const tape_variable *v)
{
    const xcvm_storage *storage = v != NULL ? v->value.type.storage : NULL;
    return storage != NULL ? storage->version : 0;
}

void tape_note_versions(tape_record *r)
{
    for (uint32_t i = 0; i < r->in_count; i++)
        r->versions[i] = version_of(r->in[i]);
    for (uint32_t i = 0; i < r->out_count; i++)
        r->versions[r->in_count + i] = version_of(r->out[i]);
}

/* The operand of the call on all members that lies where that of each member does; NULL: there is none. */
static const tape_variable *base_of(const tape_batch *b, uint32_t operand)
{
    for (uint32_t i = 0; i < b->call->in_count; i++)
        if (b->operands[i].of == (int32_t)operand && b->operands[i].base != NULL)
            return b->call->in[i];
    return NULL;
}

void tape_batch_note_versions(const tape_batch *b)
{
    tape_record *const *members = b->members;
    const tape_record *like = members[0];
    for (uint32_t i = 0; i < like->in_count; i++) {
        const tape_variable *base = base_of(b, i), *first = like->in[i];
        const uint32_t version = version_of(base != NULL ? base : first);
        for (uint32_t k = 0; k < b->count; k++) {
            const tape_variable *v = members[k]->in[i];
            members[k]->versions[i] = base != NULL || v == first ? version : version_of(v);
        }
    }
    for (uint32_t i = 0; i < like->out_count; i++) {
        const uint32_t version = version_of(b->call->out[i]);
        for (uint32_t k = 0; k < b->count; k++)
            members[k]->versions[like->in_count + i] = version;
    }
}

/* Whether there is another version now; of what was spared nobody asks. */
static bool differs(const tape_variable *v, uint32_t version)
{
    return version != version_of(v) && !(v != NULL && v->spared);
}

/* Whether v, of a record, was overwritten since. */
static bool is_overwritten(const tape_record *r, const tape_variable *v)
{
    for (uint32_t i = 0; v != NULL && i < r->in_count; i++)
        if (r->in[i] == v)
            return differs(v, r->versions[i]);
    for (uint32_t i = 0; v != NULL && i < r->out_count; i++)
        if (r->out[i] == v)
            return differs(v, r->versions[r->in_count + i]);
    return false;
}

bool tape_has_overwritten(const tape_record *r)
{
    for (uint32_t i = 0; i < r->in_count; i++)
        if (differs(r->in[i], r->versions[i]))
            return true;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (differs(r->out[i], r->versions[r->in_count + i]))
            return true;
    return false;
}

xcvm_status tape_check_read(xcvm_tape *t, const tape_variable *v)
{
    const tape_record *r = t->overwritten;
    if (v != NULL && (v->spared || !tape_has_elements(v)))
        return tape_fail(t, XCVM_INTERNAL, "variable %llu, whose elements were not retained, is read by a rule",
                         (unsigned long long)v->serial);
    if (r == NULL || !is_overwritten(r, v))
        return XCVM_OK;
    return tape_fail(t, XCVM_INVALID_ARGUMENT,
                     "call %llu (%s) needs variable %llu for its gradient, which call %u has overwritten",
                     (unsigned long long)r->number, r->operation != NULL ? r->operation->name : r->schema->name,
                     (unsigned long long)v->serial, (unsigned)(version_of(v) - 1));
}

xcvm_status tape_own_elements(xcvm_tape *t, tape_variable *v)
{
    XCVM_TRY(tape_evaluate(v));
    xcvm_value *type = &v->value.type, before = *type;
    if (type->storage != NULL && type->storage->owner == t->kernel.heap)
        return XCVM_OK;
    if (tape_stick(t, tape_variable_allocate(t, v)) != XCVM_OK) {
        *type = before;
        return t->error.status;
    }
    if (type->bytes > 0)
        memcpy(type->data, before.data, type->bytes);
    xcvm_storage_release(before.storage);
    return XCVM_OK;
}

/* ---- Calls into a variable ---- */

static xcvm_status check_target(xcvm_tape *t, const tape_record *r, const tape_variable *target)
{
    char text[192];
    if (target->value.type.kind != XCVM_KIND_TENSOR || target->value.type.dtype == XCVM_STRING)
        return tape_fail(t, XCVM_TYPE_MISMATCH, "what the result goes into is %s, a tensor of numbers is needed",
                         xcvm_value_describe(&target->value.type, text, sizeof text));
    if (target->lenders > 0)
        return tape_fail(t, XCVM_INVALID_ARGUMENT,
                         "a gradient that was added up may be that of several variables, and is not overwritten");
    if (t->recording && (target->requires || tape_flows(t, r)))
        return tape_fail(t, XCVM_INVALID_ARGUMENT,
                         "a gradient would have to flow through what is overwritten; turn recording off, or detach it");
    return XCVM_OK;
}

/* Whether the kernel may write to the target's memory while it reads its operands: each that lies there is the target,
 * in full, and one that the first result may take over. */
static bool can_take_over(const tape_record *r, const tape_variable *target)
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

static xcvm_status run_into(xcvm_tape *t, tape_record *r, tape_variable *target)
{
    xcvm_value *result = &r->out[0]->value.type, *to = &target->value.type;
    char a[192], b[192];
    XCVM_TRY(tape_infer(t, r));
    XCVM_CHECK(&t->error, result->kind == XCVM_KIND_TENSOR && result->dtype == to->dtype && xcvm_same_shape(result, to),
               SHAPE_MISMATCH, "the result is %s, what it goes into %s", xcvm_value_describe(result, a, sizeof a),
               xcvm_value_describe(to, b, sizeof b));
    XCVM_TRY(tape_own_elements(t, target));
    if (t->tracer != NULL)
        t->tracer->functions->target(t->tracer, target);
    /* Who looks for NaN looks at the operands, too. */
    const bool direct = !t->check_nan && can_take_over(r, target);
    if (direct)
        xcvm_value_share(result, to);
    XCVM_TRY(tape_run_kernel(t, r, direct ? 1 : 0));
    if (!direct && to->bytes > 0)
        memcpy(to->data, result->data, to->bytes);
    tape_note_overwritten(to, r->number);
    if (t->tracer != NULL) {
        XCVM_TRY(t->tracer->functions->call(t->tracer, r));
        t->tracer->functions->into(t->tracer, r->out[0], target);
    }
    return t->failed ? t->error.status : XCVM_OK;
}

xcvm_status tape_execute_into(xcvm_tape *t, tape_record *r, tape_variable *target)
{
    xcvm_status status = t->failed ? t->error.status : XCVM_OK;
    if (status == XCVM_OK && t->building)
        status =
            tape_fail(t, XCVM_UNSUPPORTED, "a tape that builds has no elements, which a call into a variable needs");
    if (status == XCVM_OK && r->out_count == 0)
        status = tape_fail(t, XCVM_INVALID_ARGUMENT, "the call has no result");
    if (status == XCVM_OK)
        status = check_target(t, r, target);
    /* Calls before this one read what is overwritten. */
    if (status == XCVM_OK)
        status = tape_evaluate_all(t);
    if (status == XCVM_OK)
        status = tape_stick(t, run_into(t, r, target));
    if (status != XCVM_OK)
        tape_locate(t, r);
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
    XCVM_CHECK(error, variable->lenders == 0, INVALID_ARGUMENT,
               "a gradient that was added up may be that of several variables, and is not overwritten");
    if (tape_own_elements(tape, variable) != XCVM_OK)
        return tape_report(tape, error);
    tape_refuse(tape, "the host sets the elements of a variable");
    if (bytes > 0)
        memcpy(type->data, data, bytes);
    tape_note_overwritten(type, tape->calls++);
    return XCVM_OK;
}
