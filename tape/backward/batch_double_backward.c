/* Differentiable gradients of batches: the rule runs on variables that stand for those of all members. Joining and
 * splitting are recorded as two operations, each the gradient of the other. */
#include "tape/backward/backward.h"

#include <string.h>

/* ---- Joining and splitting ---- */

static const xcvm_schema schema = {.name = "batch"};

/* Records one of the operations, whose results exist. The host did not call it. */
static xcvm_status record_operation(xcvm_tape *t, const xcvm_operation *operation, size_t in_count,
                                    tape_variable *const *in, size_t out_count, tape_variable *const *out)
{
    void *behind;
    tape_op_record *r = tape_op_record_create(t, &schema, in_count, out_count, 0, &behind);
    if (r == NULL)
        return t->error.status;
    t->calls--;
    memcpy(r->in, in, in_count * sizeof *in);
    memcpy(r->out, out, out_count * sizeof *out);
    r->operation = operation;
    return tape_op_finish(t, r, XCVM_OK);
}

static xcvm_status join_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients);
static xcvm_status part_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients);
static const xcvm_operation join_operation = {.size = sizeof join_operation, .name = "join", .backward = join_backward},
                            part_operation = {.size = sizeof part_operation, .name = "part", .backward = part_backward};

bool tape_batch_is_internal(const xcvm_operation *operation)
{
    return operation == &join_operation || operation == &part_operation;
}

/* Concatenates the members' elements into a variable like `whole`; NULL: a failure. */
static tape_variable *join_members(xcvm_tape *t, const tape_variable *whole, size_t count, tape_variable *const *parts)
{
    const xcvm_value *type = &whole->value.type;
    tape_variable *all = tape_tensor(t, (xcvm_dtype)type->dtype, type->rank, type->dims, NULL);
    const size_t bytes = type->bytes / count;
    for (size_t i = 0; i < count && all != NULL; i++)
        memcpy((char *)all->value.type.data + i * bytes, parts[i]->value.type.data, bytes);
    return all != NULL && record_operation(t, &join_operation, count, parts, 1, &all) == XCVM_OK ? all : NULL;
}

/* Splits a stacked tensor into views of the members' types. */
static xcvm_status split_members(xcvm_tape *t, tape_variable *all, size_t count, tape_variable *const *like,
                                 tape_variable **parts)
{
    for (size_t i = 0; i < count; i++)
        if ((parts[i] = tape_batch_slice(all, like[i], i)) == NULL)
            return t->error.status;
    return record_operation(t, &part_operation, 1, &all, count, parts);
}

/* Allocates an array until the rule has run. */
static tape_variable **allocate_variables(xcvm_tape *t, size_t count)
{
    tape_variable **room = xcc_alloc(&t->module, count * sizeof *room);
    if (room == NULL)
        tape_latch_failure(t, XCVM_OUT_OF_MEMORY);
    return room;
}

static xcvm_status join_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    tape_variable **parts = allocate_variables(t, 2 * in_count);
    (void)user;
    (void)out_count;
    (void)out;
    if (parts == NULL)
        return t->error.status;
    for (size_t i = 0; i < in_count; i++)
        parts[in_count + i] = in[i].at;
    XCVM_TRY(split_members(t, out_gradients[0].at, in_count, parts + in_count, parts));
    for (size_t i = 0; i < in_count; i++)
        in_gradients[i] = tape_handle(parts[i]);
    return XCVM_OK;
}

static xcvm_status part_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    tape_variable **parts = allocate_variables(t, out_count);
    (void)user;
    (void)in_count;
    for (size_t i = 0; i < out_count && parts != NULL; i++) {
        const xcvm_value *type = &out[i].at->value.type;
        if ((parts[i] = out_gradients[i].at) != NULL)
            continue;
        parts[i] = tape_tensor(t, (xcvm_dtype)type->dtype, type->rank, type->dims, NULL);
        if (parts[i] == NULL)
            return t->error.status;
        memset(parts[i]->value.type.data, 0, parts[i]->value.type.bytes);
    }
    const tape_variable *all = parts != NULL ? join_members(t, in[0].at, out_count, parts) : NULL;
    if (all == NULL)
        return t->error.status;
    in_gradients[0] = tape_handle(all);
    return XCVM_OK;
}

/* ---- The rule ---- */

/* A tracked variable that stands for the members' variables, with the elements of `whole`. */
static tape_variable *alias_members(tape_backward_pass *pass, const tape_variable *whole, size_t count,
                                    tape_variable *const *members)
{
    const bool reached = tape_backward_reaches(pass, members[0]);
    tape_variable *v = tape_batch_slice(whole, whole, 0);
    if (v == NULL || record_operation(pass->tape, &join_operation, count, members, 1, &v) != XCVM_OK ||
        tape_backward_track(pass, v) != XCVM_OK)
        return NULL;
    v->derived = reached;
    return v;
}

static bool is_aliased(const tape_op_record *call, uint32_t operand)
{
    const tape_batch_operand *o = &call->batch->operands[operand];
    return call->in[operand] != NULL && !o->shared && o->of >= 0;
}

static xcvm_status bind_operands(tape_backward_pass *pass, const tape_op_record *call, tape_op_record *r,
                                 tape_variable **room)
{
    const tape_batch *b = call->batch;
    for (uint32_t i = 0; i < call->in_count; i++) {
        r->in[i] = call->in[i];
        for (uint32_t k = 0; k < b->count && is_aliased(call, i); k++)
            room[k] = b->members[k]->in[b->operands[i].of];
        if (is_aliased(call, i) && (r->in[i] = alias_members(pass, call->in[i], b->count, room)) == NULL)
            return pass->tape->error.status;
    }
    for (uint32_t i = 0; i < call->out_count; i++)
        if (call->out[i] != NULL &&
            (r->out[i] = alias_members(pass, call->out[i], b->count, b->results + (size_t)i * b->count)) == NULL)
            return pass->tape->error.status;
    memcpy(r->args, call->args, call->schema->args_size);
    xcvm_bind_operands(r->schema, r->args, (const xcvm_value **)(void *)r->in, (xcvm_value **)(void *)r->out);
    r->differentiable = call->differentiable;
    tape_op_save_versions(r);
    return XCVM_OK;
}

/* The gradients of the members' results, of all or none, become that of the alias. */
static xcvm_status collect_sums(tape_backward_pass *pass, const tape_batch *b, const tape_op_record *r,
                                tape_variable **room)
{
    for (uint32_t i = 0; i < r->out_count; i++) {
        size_t sums = 0;
        for (uint32_t k = 0; k < b->count && r->out[i] != NULL; k++)
            sums += (room[k] = b->members[k]->out[i]->sum) != NULL;
        if (sums < b->count)
            continue;
        tape_variable *all = join_members(pass->tape, r->out[i], b->count, room);
        if (all == NULL)
            return pass->tape->error.status;
        XCVM_TRY(tape_backward_accumulate(pass, r->out[i], &all->value, NULL));
    }
    return XCVM_OK;
}

static xcvm_status distribute_gradients(tape_backward_pass *pass, const tape_op_record *call, const tape_op_record *r,
                                        tape_variable **room)
{
    const tape_batch *b = call->batch;
    for (uint32_t i = 0; i < r->in_count; i++) {
        if (!is_aliased(call, i) || r->in[i]->sum == NULL)
            continue;
        for (uint32_t k = 0; k < b->count; k++)
            room[k] = b->members[k]->in[b->operands[i].of];
        XCVM_TRY(split_members(pass->tape, r->in[i]->sum, b->count, room, room + b->count));
        for (uint32_t k = 0; k < b->count; k++) {
            XCVM_TRY(tape_backward_track(pass, room[k]));
            XCVM_TRY(tape_backward_accumulate(pass, room[k], &room[b->count + k]->value, NULL));
        }
    }
    return XCVM_OK;
}

xcvm_status tape_backward_differentiate_batch(tape_backward_pass *pass, tape_op_record *call)
{
    xcvm_tape *t = pass->tape;
    const tape_batch *b = call->batch;
    void *behind;
    tape_variable **room = allocate_variables(t, 2 * (size_t)b->count);
    tape_op_record *r =
        room != NULL ? tape_op_record_create(t, call->schema, call->in_count, call->out_count, 0, &behind) : NULL;
    if (r == NULL)
        return t->error.status;
    t->calls--;
    r->number = call->number;
    xcvm_status status = bind_operands(pass, call, r, room);
    if (status == XCVM_OK)
        status = collect_sums(pass, b, r, room);
    if (status == XCVM_OK)
        status = tape_backward_apply_rule(pass, r);
    if (status == XCVM_OK)
        status = distribute_gradients(pass, call, r, room);
    /* A failure ends the pass, which untracks everything. */
    for (uint32_t i = 0; i < r->in_count && status == XCVM_OK; i++)
        if (is_aliased(call, i))
            tape_backward_untrack(pass, r->in[i]);
    for (uint32_t i = 0; i < r->out_count && status == XCVM_OK; i++)
        if (r->out[i] != NULL)
            tape_backward_untrack(pass, r->out[i]);
    tape_free(t, r, r->bytes);
    return status;
}
