/* The walk back over a batch that is to be differentiated itself: the rule runs for all members, on variables that
 * stand for theirs together. What comes together and apart is recorded as two operations, each the gradient of the
 * other. */
#include "tape/walk.h"

#include <string.h>

/* ---- Together and apart ---- */

static const xcvm_schema schema = {.name = "batch"};

/* Records a call of one of the operations, whose results are there; it is none of the host's. */
static xcvm_status record(xcvm_tape *t, const xcvm_operation *operation, size_t in_count, tape_variable *const *in,
                          size_t out_count, tape_variable *const *out)
{
    void *behind;
    tape_record *r = tape_record_make(t, &schema, in_count, out_count, 0, &behind);
    if (r == NULL)
        return t->error.status;
    t->calls--;
    memcpy(r->in, in, in_count * sizeof *in);
    memcpy(r->out, out, out_count * sizeof *out);
    r->operation = operation;
    return tape_conclude(t, r, XCVM_OK);
}

static xcvm_status join_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients);
static xcvm_status part_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients);
static const xcvm_operation join_operation = {.size = sizeof join_operation, .name = "join", .backward = join_backward},
                            part_operation = {.size = sizeof part_operation, .name = "part", .backward = part_backward};

bool tape_batch_is_inner(const xcvm_operation *operation)
{
    return operation == &join_operation || operation == &part_operation;
}

/* The elements of all, one behind the other, as a variable like `whole`; NULL: a failure. */
static tape_variable *join(xcvm_tape *t, const tape_variable *whole, size_t count, tape_variable *const *parts)
{
    const xcvm_value *type = &whole->value.type;
    tape_variable *all = tape_tensor(t, (xcvm_dtype)type->dtype, type->rank, type->dims, NULL);
    const size_t bytes = type->bytes / count;
    for (size_t i = 0; i < count && all != NULL; i++)
        memcpy((char *)all->value.type.data + i * bytes, parts[i]->value.type.data, bytes);
    return all != NULL && record(t, &join_operation, count, parts, 1, &all) == XCVM_OK ? all : NULL;
}

/* Makes parts, like those, of what is for all. */
static xcvm_status part(xcvm_tape *t, tape_variable *all, size_t count, tape_variable *const *like,
                        tape_variable **parts)
{
    for (size_t i = 0; i < count; i++)
        if ((parts[i] = tape_batch_part(all, like[i], i)) == NULL)
            return t->error.status;
    return record(t, &part_operation, 1, &all, count, parts);
}

/* Room for so many variables, until the rule has run. */
static tape_variable **room_for(xcvm_tape *t, size_t count)
{
    tape_variable **room = xcc_alloc(&t->module, count * sizeof *room);
    if (room == NULL)
        tape_stick(t, XCVM_OUT_OF_MEMORY);
    return room;
}

static xcvm_status join_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    tape_variable **parts = room_for(t, 2 * in_count);
    (void)user;
    (void)out_count;
    (void)out;
    if (parts == NULL)
        return t->error.status;
    for (size_t i = 0; i < in_count; i++)
        parts[in_count + i] = in[i].at;
    XCVM_TRY(part(t, out_gradients[0].at, in_count, parts + in_count, parts));
    for (size_t i = 0; i < in_count; i++)
        in_gradients[i] = tape_handle(parts[i]);
    return XCVM_OK;
}

static xcvm_status part_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    tape_variable **parts = room_for(t, out_count);
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
    const tape_variable *all = parts != NULL ? join(t, in[0].at, out_count, parts) : NULL;
    if (all == NULL)
        return t->error.status;
    in_gradients[0] = tape_handle(all);
    return XCVM_OK;
}

/* ---- The rule ---- */

/* What stands for variables of all members, whose elements `whole` has: the walk knows it until it is untouched. */
static tape_variable *stand_for(tape_walk *w, const tape_variable *whole, size_t count, tape_variable *const *members)
{
    const bool reached = tape_walk_reaches(w, members[0]);
    tape_variable *v = tape_batch_part(whole, whole, 0);
    if (v == NULL || record(w->tape, &join_operation, count, members, 1, &v) != XCVM_OK ||
        tape_walk_touch(w, v) != XCVM_OK)
        return NULL;
    v->derived = reached;
    return v;
}

static bool stands(const tape_record *call, uint32_t operand)
{
    const tape_stacked *o = &call->batch->operands[operand];
    return call->in[operand] != NULL && !o->shared && o->of >= 0;
}

static xcvm_status bind(tape_walk *w, const tape_record *call, tape_record *r, tape_variable **room)
{
    const tape_batch *b = call->batch;
    for (uint32_t i = 0; i < call->in_count; i++) {
        r->in[i] = call->in[i];
        for (uint32_t k = 0; k < b->count && stands(call, i); k++)
            room[k] = b->members[k]->in[b->operands[i].of];
        if (stands(call, i) && (r->in[i] = stand_for(w, call->in[i], b->count, room)) == NULL)
            return w->tape->error.status;
    }
    for (uint32_t i = 0; i < call->out_count; i++)
        if (call->out[i] != NULL &&
            (r->out[i] = stand_for(w, call->out[i], b->count, b->results + (size_t)i * b->count)) == NULL)
            return w->tape->error.status;
    memcpy(r->args, call->args, call->schema->args_size);
    xcvm_bind_operands(r->schema, r->args, (const xcvm_value **)(void *)r->in, (xcvm_value **)(void *)r->out);
    r->flows = call->flows;
    tape_note_versions(r);
    return XCVM_OK;
}

/* What has come to the members' results, to none or to all, comes to what stands for them. */
static xcvm_status collect(tape_walk *w, const tape_batch *b, const tape_record *r, tape_variable **room)
{
    for (uint32_t i = 0; i < r->out_count; i++) {
        size_t sums = 0;
        for (uint32_t k = 0; k < b->count && r->out[i] != NULL; k++)
            sums += (room[k] = b->members[k]->out[i]->sum) != NULL;
        if (sums < b->count)
            continue;
        tape_variable *all = join(w->tape, r->out[i], b->count, room);
        if (all == NULL)
            return w->tape->error.status;
        XCVM_TRY(tape_walk_add(w, r->out[i], &all->value, NULL));
    }
    return XCVM_OK;
}

static xcvm_status distribute(tape_walk *w, const tape_record *call, const tape_record *r, tape_variable **room)
{
    const tape_batch *b = call->batch;
    for (uint32_t i = 0; i < r->in_count; i++) {
        if (!stands(call, i) || r->in[i]->sum == NULL)
            continue;
        for (uint32_t k = 0; k < b->count; k++)
            room[k] = b->members[k]->in[b->operands[i].of];
        XCVM_TRY(part(w->tape, r->in[i]->sum, b->count, room, room + b->count));
        for (uint32_t k = 0; k < b->count; k++) {
            XCVM_TRY(tape_walk_touch(w, room[k]));
            XCVM_TRY(tape_walk_add(w, room[k], &room[b->count + k]->value, NULL));
        }
    }
    return XCVM_OK;
}

xcvm_status tape_batch_differentiate(tape_walk *w, tape_record *call)
{
    xcvm_tape *t = w->tape;
    const tape_batch *b = call->batch;
    void *behind;
    tape_variable **room = room_for(t, 2 * (size_t)b->count);
    tape_record *r =
        room != NULL ? tape_record_make(t, call->schema, call->in_count, call->out_count, 0, &behind) : NULL;
    if (r == NULL)
        return t->error.status;
    t->calls--;
    r->number = call->number;
    xcvm_status status = bind(w, call, r, room);
    if (status == XCVM_OK)
        status = collect(w, b, r, room);
    if (status == XCVM_OK)
        status = tape_walk_rule(w, r);
    if (status == XCVM_OK)
        status = distribute(w, call, r, room);
    /* In failure the walk ends, and knows nothing any more. */
    for (uint32_t i = 0; i < r->in_count && status == XCVM_OK; i++)
        if (stands(call, i))
            tape_walk_untouch(w, r->in[i]);
    for (uint32_t i = 0; i < r->out_count && status == XCVM_OK; i++)
        if (r->out[i] != NULL)
            tape_walk_untouch(w, r->out[i]);
    tape_give_back(t, r, r->bytes);
    return status;
}
