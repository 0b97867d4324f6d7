/* The walk back over a batch: one run of the rule for all members. What comes to results of a batch, in order, is added
 * up for all of them, and is there when the walk comes to that batch. */
#include "tape/walk.h"
#include "ops/table/table.h"

#include <string.h>

/* ---- Whether it can be ---- */

/* What the walk has not touched has no target or mask of it. */
static bool is_plain(const tape_walk *w, const tape_variable *v)
{
    return (v->walk != w || (!v->target && v->mask == NULL)) && !v->retains && v->hooks == NULL;
}

/* Gradients come to all members' results, or to none. */
static bool is_complete(const tape_walk *w, const tape_batch *b, uint32_t result)
{
    const tape_variable *whole = b->call->out[result];
    uint32_t sums = 0;
    if (whole == NULL)
        return true;
    for (uint32_t i = 0; i < b->count && b->singled; i++) {
        const tape_variable *v = b->members[i]->out[result];
        if (!tape_carries(v))
            return true;
        if (!is_plain(w, v))
            return false;
        sums += v->sum != NULL;
    }
    return (whole->walk == w && whole->sum != NULL) || sums == 0 || sums == b->count;
}

bool tape_batch_is_whole(const tape_walk *w, const tape_batch *b)
{
    const tape_record *call = b->call;
    if (tape_has_overwritten(call) || !call->flows)
        return false;
    if (b->walk != w || b->singled)
        tape_prefetch_to_pass(b->members, b->count);
    for (uint32_t i = 0; i < b->count && b->walk != w; i++)
        if (b->members[i]->walk != w)
            return false;
    for (uint32_t i = 0; i < call->out_count; i++)
        if (!is_complete(w, b, i))
            return false;
    for (uint32_t i = 0; i < call->in_count; i++) {
        const int32_t of = b->operands[i].of;
        if (of < 0 || call->in[i] == NULL || b->operands[i].shared || !tape_carries(call->in[i]))
            continue;
        const bool reached = tape_walk_reaches(w, b->members[0]->in[of]);
        /* Results of a batch that is whole are all reached, or none is. */
        const bool alike =
            b->operands[i].base != NULL && b->operands[i].base->batch != NULL && w->request->kind == TAPE_BACKWARD;
        for (uint32_t k = 1; k < b->count && !alike; k++)
            if (tape_walk_reaches(w, b->members[k]->in[of]) != reached)
                return false;
        if (w->request->kind == TAPE_BACKWARD && call->in[i]->requires != reached)
            return false;
    }
    return true;
}

/* ---- Blocks ---- */

tape_variable *tape_batch_part(const tape_variable *all, const tape_variable *like, size_t index)
{
    tape_variable *v = tape_variable_make(like->tape);
    if (v == NULL)
        return NULL;
    const xcvm_value *type = &like->value.type;
    xcvm_value_set_tensor(&v->value.type, (xcvm_dtype)type->dtype, type->rank, type->dims);
    tape_variable_lie_in(v, &all->value.type, index * type->bytes);
    return v;
}

/* Whether the elements are nobody else's. */
static bool is_own(const tape_variable *sum)
{
    const xcvm_storage *storage = sum->value.type.storage;
    return sum->refs == 1 && !sum->named && sum->lenders == 0 && storage != NULL &&
           __atomic_load_n(&storage->refs, __ATOMIC_ACQUIRE) == 1;
}

/* Of the members of the batch that `whole` is a result of: which have their part of its sum. */
static uint8_t *given_of(const tape_variable *whole)
{
    const tape_batch *b = whole->batch;
    uint32_t result = 0;
    while (b->call->out[result] != whole)
        result++;
    return b->given + (size_t)result * b->count;
}

static size_t part_bytes(const tape_variable *whole) { return whole->value.type.bytes / whole->batch->count; }

void tape_batch_complete(tape_variable *whole)
{
    if (!whole->partial)
        return;
    const uint8_t *given = given_of(whole);
    const size_t bytes = part_bytes(whole);
    for (uint32_t i = 0; i < whole->batch->count; i++)
        if (!given[i])
            memset((char *)whole->sum->value.type.data + i * bytes, 0, bytes);
    whole->partial = false;
}

/* The sum of `whole` is its own; that of no member if nothing has come yet. */
static xcvm_status own_sum(tape_walk *w, tape_variable *whole)
{
    const xcvm_value *type = &whole->value.type;
    XCVM_TRY(tape_walk_touch(w, whole));
    if (whole->mask != NULL) {
        tape_variable_release(whole->mask);
        whole->mask = NULL;
    }
    if (whole->sum != NULL && is_own(whole->sum))
        return XCVM_OK;
    const bool first = whole->sum == NULL;
    tape_variable *sum = tape_tensor(w->tape, (xcvm_dtype)type->dtype, type->rank, type->dims,
                                     first ? NULL : whole->sum->value.type.data);
    if (sum == NULL)
        return w->tape->error.status;
    XCVM_TRY(tape_walk_hold(w, &whole->sum, &sum->value, "a sum"));
    tape_variable_unname(sum);
    if (first) {
        memset(given_of(whole), 0, whole->batch->count);
        whole->partial = true;
    }
    return XCVM_OK;
}

/* A call of the kernel takes as long as adding so many elements does. */
enum { FEW_ELEMENTS = 1024 };

static void add_few(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

static xcvm_status add_elements(const tape_walk *w, const xcvm_value *type, void *sum, const void *elements)
{
    xcvm_value from = *type, to = from;
    from.data = (void *)(uintptr_t)elements;
    to.data = sum;
    if (type->dtype == XCVM_F32 && type->bytes <= FEW_ELEMENTS * sizeof(float)) {
        add_few(to.data, from.data, type->bytes / sizeof(float));
        return XCVM_OK;
    }
    const xcvm_Add_args args = {.y = &to, .a = &to, .b = &from};
    return tape_stick(w->tape, xcvm_kernel_of(XCVM_OP_Add)(&w->tape->kernel, &args));
}

/* Adds elements, as many as `type` has, to those of the sum of `whole` that are the members' from `first` on. What
 * comes first to a member is copied. */
static xcvm_status add_part(tape_walk *w, tape_variable *whole, uint32_t first, const xcvm_value *type,
                            const void *elements)
{
    XCVM_TRY(own_sum(w, whole));
    const size_t bytes = part_bytes(whole), count = type->bytes / bytes;
    char *sum = (char *)whole->sum->value.type.data + first * bytes;
    if (!whole->partial)
        return add_elements(w, type, sum, elements);
    uint8_t *given = given_of(whole) + first;
    const bool any = memchr(given, 1, count) != NULL;
    for (size_t i = 0; i < count && any; i++)
        if (!given[i])
            memset(sum + i * bytes, 0, bytes);
    memset(given, 1, count);
    if (any)
        return add_elements(w, type, sum, elements);
    memcpy(sum, elements, type->bytes);
    return XCVM_OK;
}

/* ---- What comes to the results ---- */

/* The members' sums as one: where they lie, or copied. */
static tape_variable *join_sums(tape_walk *w, const tape_batch *b, uint32_t result)
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
        tape_variable *v = tape_variable_make(w->tape);
        if (v == NULL)
            return NULL;
        xcvm_value_set_tensor(&v->value.type, (xcvm_dtype)type->dtype, type->rank, type->dims);
        tape_variable_lie_in(v, first, 0);
        return v;
    }
    tape_variable *v = tape_tensor(w->tape, (xcvm_dtype)type->dtype, type->rank, type->dims, NULL);
    for (uint32_t i = 0; i < b->count && v != NULL; i++)
        memcpy((char *)v->value.type.data + i * bytes, b->members[i]->out[result]->sum->value.type.data, bytes);
    return v;
}

static xcvm_status collect(tape_walk *w, const tape_batch *b, uint32_t result)
{
    tape_variable *whole = b->call->out[result];
    uint32_t sums = 0;
    if (whole == NULL || !tape_carries(whole))
        return XCVM_OK;
    XCVM_TRY(tape_walk_touch(w, whole));
    for (uint32_t i = 0; i < b->count && b->singled; i++)
        sums += b->members[i]->out[result]->sum != NULL;
    if (sums == b->count) {
        const tape_variable *all = join_sums(w, b, result);
        return all != NULL ? tape_walk_add(w, whole, (xcc_value *)(uintptr_t)&all->value, NULL) : w->tape->error.status;
    }
    for (uint32_t i = 0; i < b->count && sums > 0; i++) {
        const tape_variable *v = b->members[i]->out[result];
        if (v->sum != NULL)
            XCVM_TRY(add_part(w, whole, i, &v->sum->value.type, v->sum->value.type.data));
    }
    tape_batch_complete(whole);
    return XCVM_OK;
}

/* ---- What goes to the operands ---- */

/* Whether the walk will come to each member of the batch that made these operands. */
static bool will_pass(const tape_walk *w, const tape_batch *from, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count && from->walk != w; i++)
        if (from->members[first + i]->walk != w)
            return false;
    return true;
}

/* The result of a batch that v is a member's of, if the walk will come to that. */
static tape_variable *whole_of(const tape_walk *w, const tape_variable *v)
{
    const tape_record *creator = v->creator;
    if (creator == NULL || creator->batch == NULL || !tape_walk_passes(w, creator))
        return NULL;
    uint32_t result = 0;
    while (creator->out_count > 1 && creator->out[result] != v)
        result++;
    return creator->batch->call->out[result];
}

/* Adds each member's part of a sum to what comes to its operand, or to the batch's that has made that: their order may
 * be any. */
static xcvm_status give_members(tape_walk *w, const tape_batch *b, const tape_variable *sum, int32_t of)
{
    for (uint32_t i = 0; i < b->count; i++) {
        if (i % TAPE_AHEAD == 0)
            tape_prefetch_creators(b->members + i, b->count - i, (uint32_t)of);
        tape_variable *v = b->members[i]->in[of], *whole = whole_of(w, v);
        if (whole != NULL) {
            XCVM_TRY(add_part(w, whole, v->creator->slot, &v->value.type,
                              (const char *)sum->value.type.data + i * v->value.type.bytes));
            continue;
        }
        tape_variable *part = tape_batch_part(sum, v, i);
        if (part == NULL)
            return w->tape->error.status;
        XCVM_TRY(tape_walk_touch(w, v));
        XCVM_TRY(tape_walk_add(w, v, &part->value, NULL));
        tape_variable_unname(part);
    }
    return XCVM_OK;
}

static xcvm_status give_base(tape_walk *w, const tape_variable *sum, const tape_stacked *operand)
{
    tape_variable *base = operand->base;
    XCVM_TRY(tape_walk_touch(w, base));
    if (sum->value.type.bytes != base->value.type.bytes)
        return add_part(w, base, operand->first, &sum->value.type, sum->value.type.data);
    tape_variable *all = tape_batch_part(sum, base, 0);
    if (all == NULL)
        return w->tape->error.status;
    XCVM_TRY(tape_walk_add(w, base, &all->value, NULL));
    tape_variable_unname(all);
    return XCVM_OK;
}

static xcvm_status distribute(tape_walk *w, const tape_batch *b, uint32_t index)
{
    const tape_stacked *operand = &b->operands[index];
    tape_variable *v = b->call->in[index], *sum = v->sum;
    const tape_batch *from = operand->base != NULL ? operand->base->batch : NULL;
    const bool passes = from != NULL && will_pass(w, from, operand->first, b->count);
    if (v == operand->base && passes)
        return XCVM_OK;
    v->sum = NULL;
    const xcvm_status status = passes ? give_base(w, sum, operand) : give_members(w, b, sum, operand->of);
    tape_variable_release(sum);
    return status;
}

/* ---- The rule ---- */

static xcvm_status run(tape_walk *w, tape_record *call)
{
    const tape_batch *b = call->batch;
    for (uint32_t i = 0; i < call->out_count; i++)
        XCVM_TRY(collect(w, b, i));
    for (uint32_t i = 0; i < call->in_count; i++) {
        const tape_stacked *operand = &b->operands[i];
        if (call->in[i] == NULL || operand->shared || operand->of < 0)
            continue;
        XCVM_TRY(tape_walk_touch(w, call->in[i]));
        call->in[i]->derived = tape_walk_reaches(w, b->members[0]->in[operand->of]);
    }
    w->weight_waits = tape_product_waits(w, call);
    if (w->weight_waits)
        XCVM_TRY(tape_product_wait(w, call));
    const xcvm_status status = tape_walk_rule(w, call);
    w->weight_waits = false;
    XCVM_TRY(status);
    for (uint32_t i = 0; i < call->in_count; i++) {
        tape_variable *v = call->in[i];
        if (v == NULL || b->operands[i].shared || b->operands[i].of < 0 || v->walk != w)
            continue;
        if (v->sum != NULL)
            XCVM_TRY(distribute(w, b, i));
        if (v != b->operands[i].base)
            tape_walk_untouch(w, v);
    }
    return XCVM_OK;
}

xcvm_status tape_batch_visit(tape_walk *w, tape_batch *b)
{
    tape_record *call = b->call;
    const xcvm_status status = tape_walk_run(w, call, w->request->create ? tape_batch_differentiate : run);
    if (status != XCVM_OK)
        return status;
    for (uint32_t i = 0; i < call->out_count; i++)
        if (call->out[i] != NULL && call->out[i]->walk == w)
            tape_walk_untouch(w, call->out[i]);
    tape_prefetch_to_pass(b->members, b->count);
    b->walk = NULL;
    b->marked = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        tape_record *r = b->members[i];
        r->busy = true;
        r->walk = NULL;
        w->pending--;
    }
    for (uint32_t i = 0; i < b->count; i++)
        for (uint32_t k = 0; k < b->members[i]->out_count; k++)
            if (b->members[i]->out[k] != NULL)
                tape_walk_finish(w, b->members[i]->out[k]);
    /* Removing one takes the batch with it, so that all are found first; what is busy is found once. */
    w->tape->removing = true;
    for (uint32_t i = 0; i < b->count; i++) {
        tape_record *r = b->members[i];
        r->busy = false;
        if (w->request->retain && !tape_record_is_dead(r))
            continue;
        r->busy = true;
        tape_record_remove(r);
    }
    tape_records_sweep(w->tape);
    return XCVM_OK;
}

static xcvm_status spread(tape_walk *w, tape_record *call)
{
    const tape_batch *b = call->batch;
    for (uint32_t k = 0; k < b->call->out_count; k++) {
        tape_variable *whole = b->call->out[k];
        if (whole == NULL || whole->walk != w)
            continue;
        tape_batch_complete(whole);
        for (uint32_t i = 0; i < b->count && whole->sum != NULL; i++) {
            tape_variable *v = b->members[i]->out[k], *part;
            if (b->members[i]->walk != w)
                continue;
            XCVM_TRY(tape_walk_touch(w, v));
            if ((part = tape_batch_part(whole->sum, v, i)) == NULL)
                return w->tape->error.status;
            XCVM_TRY(tape_walk_add(w, v, &part->value, NULL));
            tape_variable_unname(part);
        }
        tape_walk_untouch(w, whole);
    }
    return XCVM_OK;
}

xcvm_status tape_batch_spread(tape_walk *w, tape_batch *b)
{
    for (uint32_t k = 0; k < b->call->out_count; k++)
        if (b->call->out[k] != NULL && b->call->out[k]->walk == w)
            return tape_walk_run(w, b->call, spread);
    return XCVM_OK;
}
