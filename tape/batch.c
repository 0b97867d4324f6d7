/* Batches: running calls as one, with their operands together and their results apart. */
#include "ops/util/shape.h"
#include "tape/batch.h"

#include <string.h>

/* ---- Memory of members and of all ---- */

static void prefetch_records(tape_record *const *records, uint32_t count)
{
    /* What is asked for, and the lists behind it. */
    const size_t first = offsetof(tape_record, previous), end = sizeof(tape_record) + TAPE_CLASS_BYTES;
    for (uint32_t i = 0; i < count; i++)
        for (size_t at = first; at < end; at += TAPE_CLASS_BYTES)
            __builtin_prefetch((const char *)records[i] + at, 1);
}

/* What stands before and behind them on the tape. */
static void prefetch_links(const tape_record *r)
{
    if (r->previous != NULL)
        __builtin_prefetch(&r->previous->next, 1);
    if (r->next != NULL)
        __builtin_prefetch(&r->next->previous, 1);
}

void tape_prefetch_to_run(tape_record *const *records, uint32_t count)
{
    prefetch_records(records, count);
    for (uint32_t i = 0; i < count; i++) {
        const tape_record *r = records[i];
        prefetch_links(r);
        for (uint32_t k = 0; k < r->in_count; k++)
            if (r->in[k] != NULL)
                __builtin_prefetch(&r->in[k]->value.type.data);
        for (uint32_t k = 0; k < r->out_count; k++)
            if (r->out[k] != NULL) {
                __builtin_prefetch(&r->out[k]->value.type, 1);
                __builtin_prefetch(&r->out[k]->value.type.data, 1);
            }
    }
}

void tape_prefetch_to_pass(tape_record *const *records, uint32_t count)
{
    prefetch_records(records, count);
    for (uint32_t i = 0; i < count; i++) {
        const tape_record *r = records[i];
        prefetch_links(r);
        /* Results lie behind operands. */
        for (uint32_t k = 0; k < r->in_count + r->out_count; k++)
            if (r->in[k] != NULL)
                __builtin_prefetch(&r->in[k]->creator, 1);
        for (uint32_t k = 0; k < r->out_count; k++)
            if (r->out[k] != NULL)
                __builtin_prefetch(&r->out[k]->value.type.data);
    }
}

void tape_prefetch_creators(tape_record *const *records, uint32_t count, uint32_t operand)
{
    count = count < TAPE_AHEAD ? count : TAPE_AHEAD;
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(&records[i]->in[operand]->creator, 1);
    for (uint32_t i = 0; i < count; i++) {
        const tape_record *creator = records[i]->in[operand]->creator;
        if (creator == NULL)
            continue;
        __builtin_prefetch(&creator->walk, 1);
        __builtin_prefetch(&creator->batch);
        __builtin_prefetch(&creator->out);
        __builtin_prefetch(creator + 1); /* where the lists are */
    }
}

tape_variable *tape_variable_inner(xcvm_tape *t)
{
    tape_variable *v = tape_variable_make(t);
    if (v == NULL)
        return NULL;
    v->refs++;
    tape_variable_unname(v);
    return v;
}

/* The reference to the storage is the caller's to count. */
static void lie_in(tape_variable *v, const xcvm_value *whole, size_t at)
{
    xcvm_value *type = &v->value.type;
    type->storage = whole->storage;
    type->data = (char *)whole->data + at;
    type->memory_kind = XCVM_MEMORY_OWNED;
}

void tape_variable_lie_in(tape_variable *v, const xcvm_value *whole, size_t at)
{
    xcvm_storage_retain(whole->storage);
    lie_in(v, whole, at);
}

/* Whether what b is called with lies behind what a is called with, or is the same: what lies so in one storage are
 * results of one batch. Those of different calls lie far apart, and are not looked at. */
static bool follows(const tape_record *a, const tape_record *b)
{
    for (uint32_t i = 0; i < a->in_count; i++) {
        if (a->in[i] == b->in[i])
            continue;
        const xcvm_value *x = &a->in[i]->value.type, *y = &b->in[i]->value.type;
        if (x->storage == NULL || y->storage != x->storage || (const char *)y->data != (const char *)x->data + x->bytes)
            return false;
    }
    return true;
}

/* Bytes to copy that take longer than a call more, forward and backward; and those that take as long as finding where
 * one member's operand lies, and where its gradient goes. */
enum { WORTH_A_CALL = 32768, A_MEMBER = 2048 };

/* What all read is to be read once. */
static bool is_worth_a_call(tape_record *const *members, uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < members[0]->in_count && count > 1; i++)
        if (members[0]->in[i] != members[1]->in[i])
            bytes += count * (members[0]->in[i]->value.type.bytes + A_MEMBER);
        else if (members[0]->in[i] != NULL && members[0]->in[i]->value.type.bytes > TAPE_SMALL)
            return false;
    return bytes >= WORTH_A_CALL;
}

uint32_t tape_batch_length(tape_record *const *members, uint32_t count)
{
    for (uint32_t end = 0, run; end < count; end += run) {
        for (run = 1; end + run < count && follows(members[end + run - 1], members[end + run]);)
            run++;
        if (is_worth_a_call(members + end, run))
            return end > 0 ? end : run;
    }
    return count;
}

/* The batch whose result number *result all these operands are, in order, and the first's place in it. */
static tape_batch *find_base(tape_record *const *members, uint32_t count, uint32_t operand, uint32_t *result,
                             uint32_t *first)
{
    const tape_variable *v = members[0]->in[operand];
    const tape_record *creator = v->creator;
    tape_batch *b = creator != NULL ? creator->batch : NULL;
    if (b == NULL || b->count - creator->slot < count)
        return NULL;
    *first = creator->slot;
    for (*result = 0; *result < creator->out_count && creator->out[*result] != v;)
        ++*result;
    if (*result == creator->out_count)
        return NULL;
    const tape_variable *const *results =
        (const tape_variable *const *)&b->results[(size_t)*result * b->count + *first];
    for (uint32_t i = 1; i < count; i++)
        if (members[i]->in[operand] != results[i])
            return NULL;
    return b;
}

/* The operands of all members as one variable, held: where they lie already, or copied. */
static tape_variable *gather(const tape_plan *p, const tape_piece *piece, tape_stacked *stacked)
{
    xcvm_tape *t = p->tape;
    const tape_variable *like = p->like->in[piece->of];
    const xcvm_dtype dtype = (xcvm_dtype)like->value.type.dtype;
    uint32_t result;
    tape_batch *from = find_base(p->members, p->count, (uint32_t)piece->of, &result, &stacked->first);
    tape_variable *base = from != NULL ? from->call->out[result] : NULL;
    if (base != NULL) {
        base->refs++;
        stacked->base = base;
        if (stacked->first == 0 && from->count == p->count && base->value.type.rank == piece->rank &&
            memcmp(base->value.type.dims, piece->dims, (size_t)piece->rank * sizeof *piece->dims) == 0) {
            base->refs++;
            return base;
        }
    }
    tape_variable *v = tape_variable_inner(t);
    if (v == NULL)
        return NULL;
    xcvm_value_set_tensor(&v->value.type, dtype, piece->rank, piece->dims);
    tape_variable_require(v, like->requires);
    const size_t bytes = like->value.type.bytes;
    if (base != NULL) {
        tape_variable_lie_in(v, &base->value.type, stacked->first * bytes);
        return v;
    }
    if (tape_stick(t, tape_variable_allocate(t, v)) != XCVM_OK) {
        tape_variable_release(v);
        return NULL;
    }
    for (uint32_t i = 0; i < p->count; i++)
        memcpy((char *)v->value.type.data + i * bytes, p->members[i]->in[piece->of]->value.type.data, bytes);
    return v;
}

/* ---- Batches ---- */

static void release(tape_variable *v)
{
    if (v != NULL)
        tape_variable_release(v);
}

void tape_batch_mark_members(tape_batch *b)
{
    if (b->walk == NULL)
        return;
    for (uint32_t i = 0; i < b->count; i++)
        b->members[i]->walk = b->walk;
    b->marked = b->count;
    b->walk = NULL;
}

void tape_batch_release(tape_batch *b)
{
    tape_record *call = b->call;
    xcvm_tape *t = call->tape;
    tape_batch_mark_members(b);
    for (uint32_t i = 0; i < b->count; i++)
        b->members[i]->batch = NULL;
    for (uint32_t i = 0; i < call->out_count; i++) {
        if (call->out[i] != NULL) {
            call->out[i]->batch = NULL;
            call->out[i]->partial = false;
        }
        release(call->out[i]);
    }
    for (uint32_t i = 0; i < call->in_count; i++) {
        release(call->in[i]);
        release(b->operands[i].base);
    }
    tape_give_back(t, call, call->bytes);
    tape_give_back(t, b, b->bytes);
}

static tape_batch *make(const tape_plan *p)
{
    xcvm_tape *t = p->tape;
    const tape_record *like = p->like;
    const size_t members = xcvm_round_up(sizeof(tape_batch), 16),
                 results = members + xcvm_round_up(p->count * sizeof(tape_record *), 16),
                 operands = results + xcvm_round_up((size_t)p->count * like->out_count * sizeof(tape_variable *), 16),
                 given = operands + p->in_count * sizeof(tape_stacked),
                 bytes = given + (size_t)p->count * like->out_count;
    void *behind;
    tape_batch *b = tape_take(t, bytes);
    tape_record *call =
        b != NULL ? tape_record_make(t, p->schema, p->in_count, like->out_count, sizeof p->ints, &behind) : NULL;
    if (call == NULL) {
        if (b != NULL)
            tape_give_back(t, b, bytes);
        return NULL;
    }
    /* It is no call of the host's, and counts as the first of them. */
    t->calls--;
    call->number = like->number;
    call->flows = like->flows;
    call->batch = b;
    memcpy(call->args, p->args, p->schema->args_size);
    if (p->list != NULL) {
        xcvm_ints *list = (xcvm_ints *)(void *)((char *)call->args + ((const char *)p->list - (const char *)p->args));
        list->at = memcpy(behind, p->ints, sizeof p->ints);
    }
    memset(b, 0, given);
    b->call = call;
    b->members = (tape_record **)(void *)((char *)b + members);
    b->results = (tape_variable **)(void *)((char *)b + results);
    b->operands = (tape_stacked *)(void *)((char *)b + operands);
    b->given = (uint8_t *)b + given;
    b->count = p->count;
    b->bytes = bytes;
    memcpy(b->members, p->members, p->count * sizeof *b->members);
    return b;
}

static bool bind_operands(const tape_plan *p, tape_batch *b)
{
    for (uint32_t i = 0; i < p->in_count; i++) {
        const tape_piece *piece = &p->in[i];
        tape_variable *v = piece->constant;
        b->operands[i] = (tape_stacked){.of = piece->of, .shared = piece->shared};
        if (piece->shared)
            v = p->like->in[piece->of];
        else if (piece->of >= 0 && (v = gather(p, piece, &b->operands[i])) == NULL)
            return false;
        /* What was gathered is held already. */
        if (v != NULL && (piece->shared || piece->of < 0))
            v->refs++;
        b->call->in[i] = v;
    }
    return true;
}

static bool bind_results(const tape_plan *p, tape_batch *b)
{
    for (uint32_t i = 0; i < p->like->out_count; i++) {
        if (p->like->out[i] == NULL)
            continue;
        tape_variable *v = tape_variable_inner(p->tape);
        if (v == NULL)
            return false;
        b->call->out[i] = v;
    }
    return true;
}

/* Each member's results are blocks of those of the call. */
static bool fits(const tape_plan *p, const tape_record *call)
{
    for (uint32_t i = 0; i < call->out_count; i++) {
        size_t count, bytes;
        const xcvm_value *whole = call->out[i] != NULL ? &call->out[i]->value.type : NULL;
        if (whole != NULL && (!xcvm_tensor_size((xcvm_dtype)whole->dtype, whole->rank, whole->dims, &count, &bytes) ||
                              whole->dtype != p->like->out[i]->value.type.dtype ||
                              bytes != p->like->out[i]->value.type.bytes * p->count))
            return false;
    }
    return true;
}

static void hand_out(tape_batch *b)
{
    for (uint32_t i = 0; i < b->call->out_count; i++) {
        tape_variable *whole = b->call->out[i];
        if (whole == NULL)
            continue;
        whole->batch = b;
        const size_t bytes = whole->value.type.bytes / b->count;
        tape_variable_require(whole, b->members[0]->out[i]->requires);
        tape_storage_retain(whole->value.type.storage, b->count);
        for (uint32_t k = 0; k < b->count; k++) {
            tape_variable *v = b->members[k]->out[i];
            b->results[(size_t)i * b->count + k] = v;
            lie_in(v, &whole->value.type, k * bytes);
        }
    }
    for (uint32_t k = 0; k < b->count; k++) {
        b->members[k]->batch = b;
        b->members[k]->slot = k;
        tape_record_settle(b->members[k]);
    }
    b->singled = b->call->tape->singles;
    tape_batch_note_versions(b);
    tape_note_versions(b->call);
}

static bool run(const tape_plan *p)
{
    xcvm_tape *t = p->tape;
    tape_batch *b = make(p);
    if (b == NULL)
        return false;
    tape_record *call = b->call;
    bool good = bind_operands(p, b) && bind_results(p, b);
    if (good) {
        xcvm_bind_operands(call->schema, call->args, (const xcvm_value **)(void *)call->in,
                           (xcvm_value **)(void *)call->out);
        good = tape_infer(t, call) == XCVM_OK && fits(p, call) && tape_run_kernel(t, call, 0) == XCVM_OK;
    }
    if (good) {
        hand_out(b);
        return true;
    }
    b->count = 0; /* members know nothing of it yet */
    tape_batch_release(b);
    return false;
}

enum { OPERANDS = 16, ARGUMENTS = 512 };

static void find_same(tape_record *const *members, uint32_t count, bool *same)
{
    const tape_record *like = members[0];
    memset(same, true, like->in_count * sizeof *same);
    for (uint32_t k = 1; k < count; k++)
        for (uint32_t i = 0; i < like->in_count; i++)
            same[i] = same[i] && members[k]->in[i] == like->in[i];
}

/* They were when the calls were made, but can have been set since. */
static bool are_equal(tape_record *const *members, uint32_t count, uint32_t operand)
{
    const xcvm_value *first = &members[0]->in[operand]->value.type;
    for (uint32_t k = 1; k < count; k++)
        if (memcmp(members[k]->in[operand]->value.type.data, first->data, first->bytes) != 0)
            return false;
    return true;
}

bool tape_run_batch(xcvm_tape *t, tape_record *const *members, uint32_t count)
{
    const tape_record *like = members[0];
    const tape_form *form = tape_form_of(like->schema);
    bool same[OPERANDS];
    tape_piece pieces[OPERANDS + 2];
    _Alignas(16) char args[ARGUMENTS];
    if (form == NULL || like->in_count > OPERANDS || like->schema->args_size > sizeof args)
        return false;
    find_same(members, count, same);
    for (uint32_t i = 0; i < like->in_count; i++)
        if (!same[i] && tape_form_needs_same(form, i) && !are_equal(members, count, i))
            return false;
    memcpy(args, like->args, like->schema->args_size);
    tape_plan plan = {.tape = t,
                      .members = members,
                      .count = count,
                      .like = like,
                      .same = same,
                      .schema = like->schema,
                      .args = args,
                      .in = pieces};
    const bool good = form->plan(&plan) && run(&plan);
    for (size_t i = 0; i < plan.in_count; i++)
        release(pieces[i].constant);
    /* Whatever it was, the calls will fail by themselves, or not at all. */
    if (!good && t->error.status != XCVM_OK) {
        t->failed = true;
        (void)tape_report(t, NULL);
    }
    return good;
}
