/* The backward pass over a batch: one run of the rule for all members. Gradients of a batch's results accumulate in
 * one stacked tensor. */
#include "ops/table/table.h"
#include "tape/backward/backward.h"

#include <string.h>

/* ---- Preconditions ---- */

/* An untracked variable has no target or mask. */
static bool is_plain(const tape_backward_pass *pass, const tape_variable *v)
{
    return (v->pass != pass || (!v->target && v->mask == NULL)) && !v->retains && tape_side(v)->hooks == NULL;
}

/* Gradients have come to the results of all members, or of none. */
static bool result_is_complete(const tape_backward_pass *pass, const tape_batch *b, uint32_t result)
{
    const tape_variable *whole = b->call->out[result];
    uint32_t sums = 0;
    if (whole == NULL)
        return true;
    for (uint32_t i = 0; i < b->count && b->separate; i++) {
        const tape_variable *v = b->members[i]->out[result];
        if (!tape_variable_can_have_gradient(v))
            return true;
        if (!is_plain(pass, v))
            return false;
        sums += v->sum != NULL;
    }
    return (whole->pass == pass && whole->sum != NULL) || sums == 0 || sums == b->count;
}

bool tape_batch_is_complete(const tape_backward_pass *pass, const tape_batch *b)
{
    const tape_op_record *call = b->call;
    if (tape_op_has_overwritten(call) || !call->differentiable)
        return false;
    if (b->pass != pass || b->separate)
        tape_prefetch_to_visit(b->members, b->count);
    for (uint32_t i = 0; i < b->count && b->pass != pass; i++)
        if (b->members[i]->pass != pass)
            return false;
    for (uint32_t i = 0; i < call->out_count; i++)
        if (!result_is_complete(pass, b, i))
            return false;
    for (uint32_t i = 0; i < call->in_count; i++) {
        const int32_t of = b->operands[i].of;
        if (of < 0 || call->in[i] == NULL || b->operands[i].shared || !tape_variable_can_have_gradient(call->in[i]))
            continue;
        const bool reached = tape_backward_reaches(pass, b->members[0]->in[of]);
        /* Of a batch whose members are all visited, all results are reached or none. */
        const bool alike = b->operands[i].base != NULL && tape_side(b->operands[i].base)->batch != NULL &&
                           pass->request->kind == TAPE_BACKWARD;
        for (uint32_t k = 1; k < b->count && !alike; k++)
            if (tape_backward_reaches(pass, b->members[k]->in[of]) != reached)
                return false;
        if (pass->request->kind == TAPE_BACKWARD && call->in[i]->requires != reached)
            return false;
    }
    return true;
}

/* ---- Stacked gradients ---- */

tape_variable *tape_batch_slice(const tape_variable *all, const tape_variable *like, size_t index)
{
    tape_variable *v = tape_variable_create(like->tape);
    if (v == NULL)
        return NULL;
    const xcvm_value *type = &like->value.type;
    xcvm_value_set_tensor(&v->value.type, (xcvm_dtype)type->dtype, type->rank, type->dims);
    tape_variable_view(v, &all->value.type, index * type->bytes);
    return v;
}

/* True if nobody else has the elements. */
static bool is_own(const tape_variable *sum)
{
    const xcvm_storage *storage = sum->value.type.storage;
    return sum->refs == 1 && !sum->named && sum->lent_refs == 0 && storage != NULL &&
           __atomic_load_n(&storage->refs, __ATOMIC_ACQUIRE) == 1;
}

/* Flags of the members whose part of the sum of `whole` is present. */
static uint8_t *parts_present(const tape_variable *whole)
{
    const tape_batch *b = tape_side(whole)->batch;
    uint32_t result = 0;
    while (b->call->out[result] != whole)
        result++;
    return b->given + (size_t)result * b->count;
}

static size_t part_bytes(const tape_variable *whole)
{
    return whole->value.type.bytes / tape_side(whole)->batch->count;
}

void tape_batch_fill_missing(tape_variable *whole)
{
    if (!whole->partial)
        return;
    const uint8_t *has_part = parts_present(whole);
    const size_t bytes = part_bytes(whole);
    for (uint32_t i = 0; i < tape_side(whole)->batch->count; i++)
        if (!has_part[i])
            memset((char *)whole->sum->value.type.data + i * bytes, 0, bytes);
    whole->partial = false;
}

/* Gives `whole` a sum of its own. A new sum has no parts. */
static xcvm_status own_sum(tape_backward_pass *pass, tape_variable *whole)
{
    const xcvm_value *type = &whole->value.type;
    XCVM_TRY(tape_backward_track(pass, whole));
    if (whole->mask != NULL) {
        tape_variable_release(whole->mask);
        whole->mask = NULL;
    }
    if (whole->sum != NULL && is_own(whole->sum))
        return XCVM_OK;
    const bool first = whole->sum == NULL;
    tape_variable *sum = tape_tensor(pass->tape, (xcvm_dtype)type->dtype, type->rank, type->dims,
                                     first ? NULL : whole->sum->value.type.data);
    if (sum == NULL)
        return pass->tape->error.status;
    XCVM_TRY(tape_backward_hold(pass, &whole->sum, &sum->value, "a sum"));
    tape_variable_unname(sum);
    if (first) {
        memset(parts_present(whole), 0, tape_side(whole)->batch->count);
        whole->partial = true;
    }
    return XCVM_OK;
}

/* Adding this many elements takes as long as a kernel call. */
enum { FEW_ELEMENTS = 1024 };

static void add_few(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

static xcvm_status add_elements(const tape_backward_pass *pass, const xcvm_value *type, void *sum, const void *elements)
{
    xcvm_value from = *type, to = from;
    from.data = (void *)(uintptr_t)elements;
    to.data = sum;
    if (type->dtype == XCVM_F32 && type->bytes <= FEW_ELEMENTS * sizeof(float)) {
        add_few(to.data, from.data, type->bytes / sizeof(float));
        return XCVM_OK;
    }
    const xcvm_Add_args args = {.y = &to, .a = &to, .b = &from};
    return tape_latch_failure(pass->tape, xcvm_kernel_of(XCVM_OP_Add)(&pass->tape->kernel, &args));
}

/* Adds elements of `type` to the parts of the sum from member `first` on. The first elements of a part are
 * copied. */
static xcvm_status add_part(tape_backward_pass *pass, tape_variable *whole, uint32_t first, const xcvm_value *type,
                            const void *elements)
{
    XCVM_TRY(own_sum(pass, whole));
    const size_t bytes = part_bytes(whole), count = type->bytes / bytes;
    char *sum = (char *)whole->sum->value.type.data + first * bytes;
    if (!whole->partial)
        return add_elements(pass, type, sum, elements);
    uint8_t *has_part = parts_present(whole) + first;
    const bool any = memchr(has_part, 1, count) != NULL;
    for (size_t i = 0; i < count && any; i++)
        if (!has_part[i])
            memset(sum + i * bytes, 0, bytes);
    memset(has_part, 1, count);
    if (any)
        return add_elements(pass, type, sum, elements);
    memcpy(sum, elements, type->bytes);
    return XCVM_OK;
}

/* ---- Gradients of results ---- */

/* The members' sums as one tensor: a view if they are contiguous, or a copy. */
static tape_variable *join_sums(tape_backward_pass *pass, const tape_batch *b, uint32_t result)
{
    const tape_variable *whole = b->call->out[result];
    const xcvm_value *type = &whole->value.type, *first = &b->members[0]->out[result]->sum->value.type;
    const size_t bytes = first->bytes;
    bool lined_up = first->storage != NULL;
    for (uint32_t i = 1; i < b->count && lined_up; i++) {
        const xcvm_value *sum = &b->members[i]->out[result]->sum->value.type;
        lined_up = sum->storage == first->storage && (const char *)sum->data == (const char *)first->data + i * bytes;
    }
    if (lined_up) {
        tape_variable *v = tape_variable_create(pass->tape);
        if (v == NULL)
            return NULL;
        xcvm_value_set_tensor(&v->value.type, (xcvm_dtype)type->dtype, type->rank, type->dims);
        tape_variable_view(v, first, 0);
        return v;
    }
    tape_variable *v = tape_tensor(pass->tape, (xcvm_dtype)type->dtype, type->rank, type->dims, NULL);
    for (uint32_t i = 0; i < b->count && v != NULL; i++)
        memcpy((char *)v->value.type.data + i * bytes, b->members[i]->out[result]->sum->value.type.data, bytes);
    return v;
}

static xcvm_status collect_sums(tape_backward_pass *pass, const tape_batch *b, uint32_t result)
{
    tape_variable *whole = b->call->out[result];
    uint32_t sums = 0;
    if (whole == NULL || !tape_variable_can_have_gradient(whole))
        return XCVM_OK;
    XCVM_TRY(tape_backward_track(pass, whole));
    for (uint32_t i = 0; i < b->count && b->separate; i++)
        sums += b->members[i]->out[result]->sum != NULL;
    if (sums == b->count) {
        const tape_variable *all = join_sums(pass, b, result);
        return all != NULL ? tape_backward_accumulate(pass, whole, (xcc_value *)(uintptr_t)&all->value, NULL)
                           : pass->tape->error.status;
    }
    for (uint32_t i = 0; i < b->count && sums > 0; i++) {
        const tape_variable *v = b->members[i]->out[result];
        if (v->sum != NULL)
            XCVM_TRY(add_part(pass, whole, i, &v->sum->value.type, v->sum->value.type.data));
    }
    tape_batch_fill_missing(whole);
    return XCVM_OK;
}

/* ---- Gradients of operands ---- */

/* True if the pass will visit each member that made these operands. */
static bool visits_members(const tape_backward_pass *pass, const tape_batch *from, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count && from->pass != pass; i++)
        if (from->members[first + i]->pass != pass)
            return false;
    return true;
}

/* The stacked result that contains v, if the pass will visit its batch. */
static tape_variable *batch_result_of(const tape_backward_pass *pass, const tape_variable *v)
{
    const tape_op_record *creator = v->creator;
    if (creator == NULL || creator->batch == NULL || !tape_backward_visits(pass, creator))
        return NULL;
    uint32_t result = 0;
    while (creator->out_count > 1 && creator->out[result] != v)
        result++;
    return creator->batch->call->out[result];
}

/* Adds each part of a sum to the gradient of the member's operand, or of the batch that made it. Members may be in
 * any order. */
static xcvm_status add_to_members(tape_backward_pass *pass, const tape_batch *b, const tape_variable *sum, int32_t of)
{
    for (uint32_t i = 0; i < b->count; i++) {
        if (i % TAPE_AHEAD == 0)
            tape_prefetch_creators(b->members + i, b->count - i, (uint32_t)of);
        tape_variable *v = b->members[i]->in[of], *whole = batch_result_of(pass, v);
        if (whole != NULL) {
            XCVM_TRY(add_part(pass, whole, v->creator->slot, &v->value.type,
                              (const char *)sum->value.type.data + i * v->value.type.bytes));
            continue;
        }
        tape_variable *part = tape_batch_slice(sum, v, i);
        if (part == NULL)
            return pass->tape->error.status;
        XCVM_TRY(tape_backward_track(pass, v));
        XCVM_TRY(tape_backward_accumulate(pass, v, &part->value, NULL));
        tape_variable_unname(part);
    }
    return XCVM_OK;
}

static xcvm_status add_to_base(tape_backward_pass *pass, const tape_variable *sum, const tape_batch_operand *operand)
{
    tape_variable *base = operand->base;
    XCVM_TRY(tape_backward_track(pass, base));
    if (sum->value.type.bytes != base->value.type.bytes)
        return add_part(pass, base, operand->first, &sum->value.type, sum->value.type.data);
    tape_variable *all = tape_batch_slice(sum, base, 0);
    if (all == NULL)
        return pass->tape->error.status;
    XCVM_TRY(tape_backward_accumulate(pass, base, &all->value, NULL));
    tape_variable_unname(all);
    return XCVM_OK;
}

static xcvm_status distribute_gradient(tape_backward_pass *pass, const tape_batch *b, uint32_t index)
{
    const tape_batch_operand *operand = &b->operands[index];
    tape_variable *v = b->call->in[index], *sum = v->sum;
    const tape_batch *from = operand->base != NULL ? tape_side(operand->base)->batch : NULL;
    const bool passes = from != NULL && visits_members(pass, from, operand->first, b->count);
    if (v == operand->base && passes)
        return XCVM_OK;
    v->sum = NULL;
    const xcvm_status status = passes ? add_to_base(pass, sum, operand) : add_to_members(pass, b, sum, operand->of);
    tape_variable_release(sum);
    return status;
}

/* ---- The rule ---- */

static xcvm_status run_batch_rule(tape_backward_pass *pass, tape_op_record *call)
{
    const tape_batch *b = call->batch;
    for (uint32_t i = 0; i < call->out_count; i++)
        XCVM_TRY(collect_sums(pass, b, i));
    for (uint32_t i = 0; i < call->in_count; i++) {
        const tape_batch_operand *operand = &b->operands[i];
        if (call->in[i] == NULL || operand->shared || operand->of < 0)
            continue;
        XCVM_TRY(tape_backward_track(pass, call->in[i]));
        call->in[i]->derived = tape_backward_reaches(pass, b->members[0]->in[operand->of]);
    }
    pass->weight_deferred = tape_product_can_wait(pass, call);
    if (pass->weight_deferred)
        XCVM_TRY(tape_product_defer(pass, call));
    const xcvm_status status = tape_backward_apply_rule(pass, call);
    pass->weight_deferred = false;
    XCVM_TRY(status);
    for (uint32_t i = 0; i < call->in_count; i++) {
        tape_variable *v = call->in[i];
        if (v == NULL || b->operands[i].shared || b->operands[i].of < 0 || v->pass != pass)
            continue;
        if (v->sum != NULL)
            XCVM_TRY(distribute_gradient(pass, b, i));
        if (v != b->operands[i].base)
            tape_backward_untrack(pass, v);
    }
    return XCVM_OK;
}

xcvm_status tape_backward_visit_batch(tape_backward_pass *pass, tape_batch *b)
{
    tape_op_record *call = b->call;
    const xcvm_status status = tape_backward_run_scoped(
        pass, call, pass->request->create ? tape_backward_differentiate_batch : run_batch_rule);
    if (status != XCVM_OK)
        return status;
    for (uint32_t i = 0; i < call->out_count; i++)
        if (call->out[i] != NULL && call->out[i]->pass == pass)
            tape_backward_untrack(pass, call->out[i]);
    tape_prefetch_to_visit(b->members, b->count);
    b->pass = NULL;
    b->marked = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        tape_op_record *r = b->members[i];
        r->busy = true;
        r->pass = NULL;
        pass->pending--;
    }
    for (uint32_t i = 0; i < b->count; i++)
        for (uint32_t k = 0; k < b->members[i]->out_count; k++)
            if (b->members[i]->out[k] != NULL)
                tape_backward_finish_variable(pass, b->members[i]->out[k]);
    /* Removing a member releases the batch, so the members to remove are collected first. A busy one is collected
     * once. */
    pass->tape->removal.active = true;
    for (uint32_t i = 0; i < b->count; i++) {
        tape_op_record *r = b->members[i];
        r->busy = false;
        if (pass->request->retain && !tape_op_record_is_dead(r))
            continue;
        r->busy = true;
        tape_op_record_remove(r);
    }
    tape_op_records_sweep(pass->tape);
    return XCVM_OK;
}

static xcvm_status split_sums(tape_backward_pass *pass, tape_op_record *call)
{
    const tape_batch *b = call->batch;
    for (uint32_t k = 0; k < b->call->out_count; k++) {
        tape_variable *whole = b->call->out[k];
        if (whole == NULL || whole->pass != pass)
            continue;
        tape_batch_fill_missing(whole);
        for (uint32_t i = 0; i < b->count && whole->sum != NULL; i++) {
            tape_variable *v = b->members[i]->out[k], *part;
            if (b->members[i]->pass != pass)
                continue;
            XCVM_TRY(tape_backward_track(pass, v));
            if ((part = tape_batch_slice(whole->sum, v, i)) == NULL)
                return pass->tape->error.status;
            XCVM_TRY(tape_backward_accumulate(pass, v, &part->value, NULL));
            tape_variable_unname(part);
        }
        tape_backward_untrack(pass, whole);
    }
    return XCVM_OK;
}

xcvm_status tape_backward_split_batch(tape_backward_pass *pass, tape_batch *b)
{
    for (uint32_t k = 0; k < b->call->out_count; k++)
        if (b->call->out[k] != NULL && b->call->out[k]->pass == pass)
            return tape_backward_run_scoped(pass, b->call, split_sums);
    return XCVM_OK;
}
