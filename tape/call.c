/* Calls: executing one at once, and recording it. */
#include "tape/tape.h"
#include "ops/table/table.h"

#include <string.h>

/* ---- Records ---- */

tape_record *tape_record_make(xcvm_tape *t, const xcvm_schema *schema, size_t in_count, size_t out_count, size_t extra,
                              void **behind)
{
    const size_t entries = in_count + out_count;
    if (in_count > INT32_MAX || out_count > INT32_MAX || extra > PTRDIFF_MAX) {
        tape_fail(t, XCVM_OUT_OF_RANGE, "a call with %zu operands and %zu results is too large", in_count, out_count);
        return NULL;
    }
    /* Lists are read far more often than arguments. */
    const size_t lists = xcvm_round_up(sizeof(tape_record), 16),
                 args = lists + xcvm_round_up(entries * (sizeof(tape_variable *) + sizeof(uint32_t)), 16),
                 more = args + xcvm_round_up(schema->args_size, 16);
    tape_record *r = tape_take(t, more + extra);
    if (r == NULL)
        return NULL;
    memset(r, 0, more);
    r->tape = t;
    r->schema = schema;
    r->number = t->calls++;
    r->serial = t->serials;
    r->backward = t->walk != NULL;
    r->args = (char *)r + args;
    r->in = (tape_variable **)(void *)((char *)r + lists);
    r->out = r->in + in_count;
    r->versions = (uint32_t *)(void *)(r->in + entries);
    r->in_count = (uint32_t)in_count;
    r->out_count = (uint32_t)out_count;
    r->bytes = more + extra;
    *behind = (char *)r + more;
    return r;
}

void tape_record_link(tape_record *r)
{
    xcvm_tape *t = r->tape;
    tape_record **last = r->waiting ? &t->last_waiting : &t->last;
    r->previous = *last;
    r->next = NULL;
    *(*last != NULL ? &(*last)->next : r->waiting ? &t->first_waiting : &t->first) = r;
    *last = r;
    t->recorded++;
}

void tape_record_keep(tape_record *r)
{
    tape_record_link(r);
    tape_note_versions(r);
    tape_retain(r);
}

void tape_record_unlink(tape_record *r)
{
    xcvm_tape *t = r->tape;
    *(r->previous != NULL ? &r->previous->next : r->waiting ? &t->first_waiting : &t->first) = r->next;
    *(r->next != NULL ? &r->next->previous : r->waiting ? &t->last_waiting : &t->last) = r->previous;
    t->recorded--;
    for (tape_walk *w = t->walk; w != NULL; w = w->outer)
        if (w->cursor == r)
            w->cursor = r->previous;
}

/* What is left has no way back: a gradient that comes to it would be lost. */
static void orphan(tape_variable *v)
{
    v->creator = NULL;
    v->spent = v->requires;
    if (v->refs == 0) {
        v->refs = 1;
        tape_variable_release(v);
    }
}

/* Operands that nobody needs then go with the calls that made them, one behind the other, however long the chain is. */
void tape_record_remove(tape_record *r)
{
    xcvm_tape *t = r->tape;
    r->dead = t->dead;
    t->dead = r;
    if (!t->removing)
        tape_records_sweep(t);
}

void tape_records_sweep(xcvm_tape *t)
{
    tape_record *r;
    t->removing = true;
    while ((r = t->dead) != NULL) {
        t->dead = r->dead;
        if (r->batch != NULL)
            tape_batch_release(r->batch);
        tape_pending_remove(r);
        tape_record_unlink(r);
        tape_retain_no_more(r);
        for (uint32_t i = 0; i < r->out_count; i++)
            if (r->out[i] != NULL)
                orphan(r->out[i]);
        for (uint32_t i = 0; i < r->in_count; i++)
            if (r->in[i] != NULL)
                tape_variable_release(r->in[i]);
        if (r->users != NULL)
            --*r->users;
        tape_give_back(t, r, r->bytes);
    }
    t->removing = false;
    tape_partings_end(t);
}

/* ---- Executing ---- */

/* Shares the memory of an operand that the first result is a view of. */
static bool share_operand(const tape_record *r, xcvm_value *result)
{
    size_t at = 0;
    for (size_t f = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (!xcvm_field_is_input(field))
            continue;
        const xcvm_value *operand = r->in[at] != NULL ? &r->in[at]->value.type : NULL;
        at += xcvm_field_count(field, r->args);
        if (field->role != XCVM_ROLE_IN_VIEW || operand == NULL || operand->kind != XCVM_KIND_TENSOR ||
            operand->dtype != result->dtype || operand->storage == NULL)
            continue;
        size_t count;
        if (!xcvm_tensor_size((xcvm_dtype)result->dtype, result->rank, result->dims, &count, &result->bytes) ||
            result->bytes != operand->bytes)
            continue;
        xcvm_storage_retain(operand->storage);
        result->storage = operand->storage;
        result->data = operand->data;
        result->memory_kind = XCVM_MEMORY_OWNED;
        return true;
    }
    return false;
}

static xcvm_status place_results(xcvm_tape *t, const tape_record *r, uint32_t placed)
{
    for (uint32_t i = placed; i < r->out_count; i++) {
        tape_variable *v = r->out[i];
        if (v == NULL)
            continue;
        xcvm_value *type = &v->value.type;
        if (type->kind != XCVM_KIND_TENSOR || type->dtype == XCVM_STRING || type->dtype == XCVM_NO_DTYPE ||
            !xcvm_dims_known(type))
            continue;
        if (i > 0 || !xcvm_row_is(r->schema, XCVM_CLASS_view) || !share_operand(r, type))
            XCVM_TRY(tape_variable_allocate(t, v));
    }
    return XCVM_OK;
}

static xcvm_status check_results(xcvm_tape *t, const tape_record *r)
{
    for (uint32_t i = 0; i < r->out_count; i++) {
        const xcvm_value *type = r->out[i] != NULL ? &r->out[i]->value.type : NULL;
        XCVM_CHECK(&t->error, type == NULL || type->kind == XCVM_KIND_NULL || type->data != NULL, INTERNAL,
                   "the kernel left result %u without memory", (unsigned)i);
    }
    return XCVM_OK;
}

xcvm_inference tape_inference_of(xcvm_tape *t, const tape_record *r)
{
    /* A variable begins with its value. */
    return (xcvm_inference){.schema = r->schema,
                            .args = r->args,
                            .in = (const xcvm_value *const *)(void *)r->in,
                            .in_count = r->in_count,
                            .out = (xcvm_value *const *)(void *)r->out,
                            .out_count = r->out_count,
                            .error = &t->error};
}

xcvm_status tape_infer(xcvm_tape *t, const tape_record *r)
{
    const xcvm_inference inference = tape_inference_of(t, r);
    const bool reads = t->walk != NULL && r->schema->opcode != XCVM_OP_Shape && r->schema->opcode != XCVM_OP_Size;
    for (uint32_t i = 0; reads && i < r->in_count; i++)
        XCVM_TRY(tape_check_read(t, r->in[i]));
    return xcvm_infer_run(&inference);
}

xcvm_status tape_run_kernel(xcvm_tape *t, const tape_record *r, uint32_t placed)
{
    XCVM_TRY(place_results(t, r, placed));
    const uint64_t begun = t->observer.call != NULL ? tape_observe(t, r, 0) : 0;
    xcvm_status status;
    if (t->batching == XCVM_BATCHING_NONE || !tape_panels_multiply(t, r, &status))
        status = xcvm_kernel_of(r->schema->opcode)(&t->kernel, r->args);
    XCVM_TRY(status);
    if (t->observer.call != NULL)
        tape_observe(t, r, begun);
    if (t->check_nan)
        XCVM_TRY(tape_check_nan(t, r));
    return check_results(t, r);
}

static xcvm_status run(xcvm_tape *t, const tape_record *r)
{
    XCVM_TRY(tape_infer(t, r));
    XCVM_TRY(tape_run_kernel(t, r, 0));
    return t->tracer != NULL ? t->tracer->functions->call(t->tracer, r) : XCVM_OK;
}

bool tape_flows(const xcvm_tape *t, const tape_record *r)
{
    if (!t->recording || r->schema->gradient.zero || r->schema->gradient.step != NULL)
        return false;
    for (uint32_t i = 0; i < r->in_count; i++)
        if (r->in[i] != NULL && r->in[i]->requires)
            return true;
    return false;
}

bool tape_let_flow(tape_record *r)
{
    if (!tape_flows(r->tape, r))
        return false;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL && tape_carries(r->out[i])) {
            tape_variable_require(r->out[i], true);
            r->flows = true;
        }
    return r->flows;
}

void tape_locate(xcvm_tape *t, const tape_record *r)
{
    t->error.pc = r->number <= INT32_MAX ? (int32_t)r->number : INT32_MAX;
    strncpy(t->error.instruction, r->operation != NULL ? r->operation->name : r->schema->name,
            sizeof t->error.instruction - 1);
}

xcvm_status tape_conclude(xcvm_tape *t, tape_record *r, xcvm_status status)
{
    if (tape_stick(t, status) != XCVM_OK) {
        tape_locate(t, r);
        for (uint32_t i = 0; i < r->out_count; i++)
            if (r->out[i] != NULL)
                tape_variable_unname(r->out[i]);
    } else if (tape_let_flow(r)) {
        tape_record_keep(r);
        return XCVM_OK;
    }
    tape_give_back(t, r, r->bytes);
    return status;
}

xcvm_status tape_execute(xcvm_tape *t, tape_record *r)
{
    if (t->lazy)
        return tape_execute_lazily(t, r);
    return tape_conclude(t, r, t->failed ? t->error.status : t->building ? tape_build(t, r) : run(t, r));
}

/* ---- The host's calls ---- */

static xcvm_var call_into(xcvm_tape *t, const tape_row *row, const void *call, tape_record *r, xcvm_var into)
{
    tape_variable *target = tape_resolve(t, into, "what the result goes into");
    const xcvm_status status = tape_execute_into(t, r, target);
    const tape_variable *first = r->out_count > 0 ? r->out[0] : NULL;
    if (status == XCVM_OK)
        r->out[0] = target;
    const xcvm_var result = row->give(call, status == XCVM_OK ? r : NULL);
    if (first != NULL)
        tape_variable_unname((tape_variable *)(uintptr_t)first);
    for (uint32_t i = 1; i < r->out_count && status != XCVM_OK; i++)
        if (r->out[i] != NULL)
            tape_variable_unname(r->out[i]);
    tape_give_back(t, r, r->bytes);
    return result;
}

xcvm_var xcvm_call(int32_t instruction, const void *call)
{
    xcvm_tape *t = *(xcvm_tape *const *)call;
    const tape_row *row = tape_row_of(instruction);
    if (!TAPE_ENTER(t, xcvm_call))
        return row != NULL ? row->give(call, NULL) : TAPE_FAILED;
    if (row == NULL) {
        tape_fail(t, XCVM_INVALID_ARGUMENT, "%d is no instruction that can be called", (int)instruction);
        return TAPE_FAILED;
    }
    tape_sizes sizes = {0};
    row->measure(call, &sizes);
    void *behind;
    tape_record *r = tape_record_make(t, xcvm_schema_of(instruction), sizes.in, sizes.out, sizes.extra, &behind);
    if (r == NULL)
        return row->give(call, NULL);
    tape_taking taking = {.tape = t, .record = r, .behind = behind};
    row->take(&taking, call, r->args);
    if (row->windows && !t->failed)
        tape_fill_windows(r);
    if (taking.into.at != NULL || taking.into.serial != 0)
        return call_into(t, row, call, r, taking.into);
    /* Handles go out first: the record may be gone when the call has been executed. */
    const xcvm_var first = row->give(call, r);
    return tape_execute(t, r) == XCVM_OK ? first : row->give(call, NULL);
}
