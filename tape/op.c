/* Op records, and eager execution of ops. */
#include "ops/table/table.h"
#include "tape/control.h"
#include "tape/op_binding.h"
#include "tape/tracer.h"

#include <string.h>

/* ---- Op records ---- */

tape_op_record *tape_op_record_create(xcvm_tape *t, const xcvm_schema *schema, size_t in_count, size_t out_count,
                                      size_t extra, void **behind)
{
    const size_t entries = in_count + out_count;
    if (in_count > INT32_MAX || out_count > INT32_MAX || extra > PTRDIFF_MAX) {
        tape_fail(t, XCVM_OUT_OF_RANGE, "a call with %zu operands and %zu results is too large", in_count, out_count);
        return NULL;
    }
    /* The operand arrays come first, since they are read far more often than the arguments. */
    const size_t lists = xcvm_round_up(sizeof(tape_op_record), 16),
                 args = lists + xcvm_round_up(entries * (sizeof(tape_variable *) + sizeof(uint32_t)), 16),
                 more = args + xcvm_round_up(schema->args_size, 16);
    tape_op_record *r = tape_allocate(t, more + extra);
    if (r == NULL)
        return NULL;
    memset(r, 0, more);
    r->tape = t;
    r->schema = schema;
    r->number = t->calls++;
    r->serial = t->serials;
    r->backward = t->pass != NULL;
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

void tape_op_record_link(tape_op_record *r)
{
    xcvm_tape *t = r->tape;
    tape_op_list *list = r->waiting ? &t->waiting : &t->ops;
    r->previous = list->last;
    r->next = NULL;
    *(list->last != NULL ? &list->last->next : &list->first) = r;
    list->last = r;
    t->recorded++;
}

void tape_op_record_append(tape_op_record *r)
{
    tape_op_record_link(r);
    tape_op_save_versions(r);
    tape_retain_elements(r);
}

void tape_op_record_unlink(tape_op_record *r)
{
    xcvm_tape *t = r->tape;
    tape_op_list *list = r->waiting ? &t->waiting : &t->ops;
    *(r->previous != NULL ? &r->previous->next : &list->first) = r->next;
    *(r->next != NULL ? &r->next->previous : &list->last) = r->previous;
    t->recorded--;
    for (tape_cursor *c = t->cursors; c != NULL; c = c->outer)
        if (c->next == r)
            c->next = r->previous;
}

bool tape_op_record_is_dead(const tape_op_record *r)
{
    /* A pending backward pass still needs the op for the gradients of its operands. */
    if (r->busy || r->pass != NULL || (r->batch != NULL && tape_batch_pass(r->batch) != NULL))
        return false;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL && r->out[i]->refs > 0)
            return false;
    return true;
}

/* No gradient can flow past a removed op. A later backward pass through the result is refused. */
static void detach_result(tape_variable *v)
{
    v->creator = NULL;
    v->consumed = v->requires;
    if (v->refs == 0) {
        v->refs = 1;
        tape_variable_release(v);
    }
}

/* Operands that are no longer needed are removed with their ops. The list replaces a recursion, so chains may have
 * any length. */
void tape_op_record_remove(tape_op_record *r)
{
    xcvm_tape *t = r->tape;
    r->next_dead = t->removal.dead;
    t->removal.dead = r;
    if (!t->removal.active)
        tape_op_records_sweep(t);
}

void tape_op_records_sweep(xcvm_tape *t)
{
    tape_op_record *r;
    t->removal.active = true;
    while ((r = t->removal.dead) != NULL) {
        t->removal.dead = r->next_dead;
        if (t->mode->detach != NULL)
            t->mode->detach(r);
        tape_op_record_unlink(r);
        tape_unretain_elements(r);
        for (uint32_t i = 0; i < r->out_count; i++)
            if (r->out[i] != NULL)
                detach_result(r->out[i]);
        for (uint32_t i = 0; i < r->in_count; i++)
            if (r->in[i] != NULL)
                tape_variable_release(r->in[i]);
        if (r->schedule_users != NULL)
            --*r->schedule_users;
        tape_free(t, r, r->bytes);
    }
    t->removal.active = false;
    tape_release_deferred_storages(t);
}

/* ---- Executing ---- */

/* Shares the memory of an operand that the first result is a view of. */
static bool share_operand(const tape_op_record *r, xcvm_value *result)
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

static xcvm_status allocate_results(xcvm_tape *t, const tape_op_record *r, uint32_t placed)
{
    for (uint32_t i = placed; i < r->out_count; i++) {
        tape_variable *v = r->out[i];
        if (v == NULL)
            continue;
        xcvm_value *type = &v->value.type;
        if (type->kind != XCVM_KIND_TENSOR || type->dtype == XCVM_STRING || type->dtype == XCVM_NO_DTYPE ||
            !xcvm_dims_known(type))
            continue;
        if (i > 0 || !xcvm_schema_has_class(r->schema, XCVM_CLASS_view) || !share_operand(r, type))
            XCVM_TRY(tape_variable_allocate(t, v));
    }
    return XCVM_OK;
}

static xcvm_status check_results(xcvm_tape *t, const tape_op_record *r)
{
    for (uint32_t i = 0; i < r->out_count; i++) {
        const xcvm_value *type = r->out[i] != NULL ? &r->out[i]->value.type : NULL;
        XCVM_CHECK(&t->error, type == NULL || type->kind == XCVM_KIND_NULL || type->data != NULL, INTERNAL,
                   "the kernel left result %u without memory", (unsigned)i);
    }
    return XCVM_OK;
}

xcvm_inference tape_op_inference(xcvm_tape *t, const tape_op_record *r)
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

xcvm_status tape_op_infer(xcvm_tape *t, const tape_op_record *r)
{
    const xcvm_inference inference = tape_op_inference(t, r);
    const bool reads = t->pass != NULL && r->schema->opcode != XCVM_OP_Shape && r->schema->opcode != XCVM_OP_Size;
    for (uint32_t i = 0; reads && i < r->in_count; i++)
        XCVM_TRY(tape_variable_check_readable(t, r->in[i]));
    return xcvm_infer_run(&inference);
}

xcvm_status tape_eager_compute(xcvm_tape *t, const tape_op_record *r)
{
    return xcvm_kernel_of(r->schema->opcode)(&t->kernel, r->args);
}

xcvm_status tape_op_run_kernel(xcvm_tape *t, const tape_op_record *r, uint32_t placed)
{
    XCVM_TRY(allocate_results(t, r, placed));
    const uint64_t begun = t->observer.call != NULL ? tape_op_observe(t, r, 0) : 0;
    XCVM_TRY(t->mode->compute(t, r));
    /* Short kernels do not poll, but many of them make a long pass. */
    if (t->kernel.cancelled != NULL)
        XCVM_TRY(xcvm_kernel_poll(&t->kernel));
    if (t->observer.call != NULL)
        tape_op_observe(t, r, begun);
    if (t->check_nan)
        XCVM_TRY(tape_op_check_nan(t, r));
    return check_results(t, r);
}

static xcvm_status run_eagerly(xcvm_tape *t, const tape_op_record *r)
{
    XCVM_TRY(tape_op_infer(t, r));
    XCVM_TRY(tape_op_run_kernel(t, r, 0));
    return t->tracer != NULL ? t->tracer->functions->call(t->tracer, r) : XCVM_OK;
}

bool tape_op_is_differentiable(const xcvm_tape *t, const tape_op_record *r)
{
    if (!t->recording || r->schema->gradient.zero || r->schema->gradient.step != NULL)
        return false;
    for (uint32_t i = 0; i < r->in_count; i++)
        if (r->in[i] != NULL && r->in[i]->requires)
            return true;
    return false;
}

bool tape_op_mark_differentiable(tape_op_record *r)
{
    if (!tape_op_is_differentiable(r->tape, r))
        return false;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL && tape_variable_can_have_gradient(r->out[i])) {
            tape_variable_require(r->out[i], true);
            r->differentiable = true;
        }
    return r->differentiable;
}

void tape_op_locate_failure(xcvm_tape *t, const tape_op_record *r)
{
    t->error.pc = r->number <= INT32_MAX ? (int32_t)r->number : INT32_MAX;
    strncpy(t->error.instruction, r->operation != NULL ? r->operation->name : r->schema->name,
            sizeof t->error.instruction - 1);
}

xcvm_status tape_op_finish(xcvm_tape *t, tape_op_record *r, xcvm_status status)
{
    if (tape_latch_failure(t, status) != XCVM_OK) {
        tape_op_locate_failure(t, r);
        for (uint32_t i = 0; i < r->out_count; i++)
            if (r->out[i] != NULL)
                tape_variable_unname(r->out[i]);
    } else if (tape_op_mark_differentiable(r)) {
        tape_op_record_append(r);
        return XCVM_OK;
    }
    tape_free(t, r, r->bytes);
    return status;
}

xcvm_status tape_eager_execute(xcvm_tape *t, tape_op_record *r)
{
    return tape_op_finish(t, r, t->failed ? t->error.status : run_eagerly(t, r));
}

static xcvm_status evaluate_nothing(xcvm_tape *t, tape_op_record *r)
{
    (void)t;
    (void)r;
    return XCVM_OK;
}

static xcvm_status evaluate_all_of_nothing(xcvm_tape *t)
{
    (void)t;
    return XCVM_OK;
}

const tape_mode tape_eager_mode = {.execute = tape_eager_execute,
                                   .execute_into = tape_eager_execute_into,
                                   .compute = tape_eager_compute,
                                   .evaluate = evaluate_nothing,
                                   .evaluate_all = evaluate_all_of_nothing,
                                   .create_tensor = tape_eager_create_tensor,
                                   .branch = tape_eager_branch,
                                   .loop = tape_eager_loop};

xcvm_status tape_op_execute(xcvm_tape *t, tape_op_record *r) { return t->mode->execute(t, r); }

xcvm_status tape_evaluate_creator(tape_variable *v) { return v->tape->mode->evaluate(v->tape, v->creator); }

xcvm_status tape_evaluate_all(xcvm_tape *t) { return t->mode->evaluate_all(t); }

bool tape_evaluate_kept(xcvm_tape *t, uint64_t serial)
{
    bool enough = true;
    for (tape_variable *v = t->kept, *next; v != NULL && enough; v = next) {
        const bool failed = t->failed; /* an earlier failure does not concern this variable */
        const xcvm_error before = t->error;
        next = v->next_kept;
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

/* ---- Calls of the host ---- */

static xcvm_var execute_host_call_into(xcvm_tape *t, const tape_op_binding *row, const void *call, tape_op_record *r,
                                       xcvm_var into)
{
    tape_variable *target = tape_resolve(t, into, "the variable to write into");
    const xcvm_status status = t->mode->execute_into(t, r, target);
    const tape_variable *first = r->out_count > 0 ? r->out[0] : NULL;
    if (status == XCVM_OK)
        r->out[0] = target;
    const xcvm_var result = row->results(call, status == XCVM_OK ? r : NULL);
    if (first != NULL)
        tape_variable_unname((tape_variable *)(uintptr_t)first);
    for (uint32_t i = 1; i < r->out_count && status != XCVM_OK; i++)
        if (r->out[i] != NULL)
            tape_variable_unname(r->out[i]);
    tape_free(t, r, r->bytes);
    return result;
}

xcvm_var xcvm_call(int32_t instruction, const void *call)
{
    xcvm_tape *t = *(xcvm_tape *const *)call;
    const tape_op_binding *row = tape_op_binding_of(instruction);
    if (!TAPE_ENTER(t, xcvm_call))
        return row != NULL ? row->results(call, NULL) : TAPE_FAILED;
    if (row == NULL) {
        tape_fail(t, XCVM_INVALID_ARGUMENT, "%d is no instruction that can be called", (int)instruction);
        return TAPE_FAILED;
    }
    tape_op_sizes sizes = {0};
    row->measure(call, &sizes);
    void *behind;
    tape_op_record *r =
        tape_op_record_create(t, xcvm_schema_of(instruction), sizes.in, sizes.out, sizes.extra, &behind);
    if (r == NULL)
        return row->results(call, NULL);
    tape_op_binder binder = {.tape = t, .record = r, .behind = behind};
    row->bind(&binder, call, r->args);
    if (row->windows && !t->failed)
        tape_op_fill_windows(r);
    if (binder.into.at != NULL || binder.into.serial != 0)
        return execute_host_call_into(t, row, call, r, binder.into);
    /* Handles are returned first, since executing the op may free the record. */
    const xcvm_var first = row->results(call, r);
    return tape_op_execute(t, r) == XCVM_OK ? first : row->results(call, NULL);
}
