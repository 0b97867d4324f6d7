/* Batches: runs ops as one op on stacked operands, and splits the results. */
#include "tape/batch/batch.h"
#include "ops/util/shape.h"
#include "tape/lazy/lazy.h"

#include <string.h>

/* ---- Memory of members ---- */

static void prefetch_records(tape_op_record *const *records, uint32_t count)
{
    /* The members that are read, and the arrays behind them. */
    const size_t first = offsetof(tape_op_record, previous), end = sizeof(tape_op_record) + TAPE_SIZE_CLASS_BYTES;
    for (uint32_t i = 0; i < count; i++)
        for (size_t at = first; at < end; at += TAPE_SIZE_CLASS_BYTES)
            __builtin_prefetch((const char *)records[i] + at, 1);
}

/* The neighbors in the list of ops. */
static void prefetch_links(const tape_op_record *r)
{
    if (r->previous != NULL)
        __builtin_prefetch(&r->previous->next, 1);
    if (r->next != NULL)
        __builtin_prefetch(&r->next->previous, 1);
}

void tape_prefetch_to_run(tape_op_record *const *records, uint32_t count)
{
    prefetch_records(records, count);
    for (uint32_t i = 0; i < count; i++) {
        const tape_op_record *r = records[i];
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

void tape_prefetch_to_visit(tape_op_record *const *records, uint32_t count)
{
    prefetch_records(records, count);
    for (uint32_t i = 0; i < count; i++) {
        const tape_op_record *r = records[i];
        prefetch_links(r);
        /* Results follow operands. */
        for (uint32_t k = 0; k < r->in_count + r->out_count; k++)
            if (r->in[k] != NULL)
                __builtin_prefetch(&r->in[k]->creator, 1);
        for (uint32_t k = 0; k < r->out_count; k++)
            if (r->out[k] != NULL)
                __builtin_prefetch(&r->out[k]->value.type.data);
    }
}

void tape_prefetch_creators(tape_op_record *const *records, uint32_t count, uint32_t operand)
{
    count = count < TAPE_AHEAD ? count : TAPE_AHEAD;
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(&records[i]->in[operand]->creator, 1);
    for (uint32_t i = 0; i < count; i++) {
        const tape_op_record *creator = records[i]->in[operand]->creator;
        if (creator == NULL)
            continue;
        __builtin_prefetch(&creator->pass, 1);
        __builtin_prefetch(&creator->batch);
        __builtin_prefetch(&creator->out);
        __builtin_prefetch(creator + 1); /* the arrays */
    }
}

/* The caller counts the reference to the storage. */
static void set_view(tape_variable *v, const xcvm_value *whole, size_t at)
{
    xcvm_value *type = &v->value.type;
    type->storage = whole->storage;
    type->data = (char *)whole->data + at;
    type->memory_kind = XCVM_MEMORY_OWNED;
}

void tape_variable_view(tape_variable *v, const xcvm_value *whole, size_t at)
{
    xcvm_storage_retain(whole->storage);
    set_view(v, whole, at);
}

/* True if each operand of b follows that of a in memory, or is the same variable. Operands that follow each other in
 * one storage are results of one batch. */
static bool follows(const tape_op_record *a, const tape_op_record *b)
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

/* Bytes whose copying takes as long as one more op, forward and backward; and as long as looking up one member's
 * operand and its gradient. */
enum { WORTH_A_CALL = 32768, A_MEMBER = 2048 };

/* An operand that all members share should be read once. */
static bool is_worth_separate_call(tape_op_record *const *members, uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < members[0]->in_count && count > 1; i++)
        if (members[0]->in[i] != members[1]->in[i])
            bytes += count * (members[0]->in[i]->value.type.bytes + A_MEMBER);
        else if (members[0]->in[i] != NULL && members[0]->in[i]->value.type.bytes > TAPE_SMALL)
            return false;
    return bytes >= WORTH_A_CALL;
}

uint32_t tape_batch_length(tape_op_record *const *members, uint32_t count)
{
    for (uint32_t end = 0, run; end < count; end += run) {
        for (run = 1; end + run < count && follows(members[end + run - 1], members[end + run]);)
            run++;
        if (is_worth_separate_call(members + end, run))
            return end > 0 ? end : run;
    }
    return count;
}

/* Finds the batch whose result *result these operands are, in order, and the index of the first in it. */
static tape_batch *find_base(tape_op_record *const *members, uint32_t count, uint32_t operand, uint32_t *result,
                             uint32_t *first)
{
    const tape_variable *v = members[0]->in[operand];
    const tape_op_record *creator = v->creator;
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

/* The stacked operands of all members as one variable with a reference: a view of a batch result, or a copy. */
static tape_variable *gather_operand(const tape_batch_plan *p, const tape_batch_operand_plan *operand_plan,
                                     tape_batch_operand *stacked)
{
    xcvm_tape *t = p->tape;
    const tape_variable *like = p->like->in[operand_plan->of];
    const xcvm_dtype dtype = (xcvm_dtype)like->value.type.dtype;
    uint32_t result;
    tape_batch *from = find_base(p->members, p->count, (uint32_t)operand_plan->of, &result, &stacked->first);
    tape_variable *base = from != NULL ? from->call->out[result] : NULL;
    if (base != NULL) {
        base->refs++;
        stacked->base = base;
        if (stacked->first == 0 && from->count == p->count && base->value.type.rank == operand_plan->rank &&
            memcmp(base->value.type.dims, operand_plan->dims,
                   (size_t)operand_plan->rank * sizeof *operand_plan->dims) == 0) {
            base->refs++;
            return base;
        }
    }
    tape_variable *v = tape_variable_create_unnamed(t);
    if (v == NULL)
        return NULL;
    xcvm_value_set_tensor(&v->value.type, dtype, operand_plan->rank, operand_plan->dims);
    tape_variable_require(v, like->requires);
    const size_t bytes = like->value.type.bytes;
    if (base != NULL) {
        tape_variable_view(v, &base->value.type, stacked->first * bytes);
        return v;
    }
    if (tape_latch_failure(t, tape_variable_allocate(t, v)) != XCVM_OK) {
        tape_variable_release(v);
        return NULL;
    }
    for (uint32_t i = 0; i < p->count; i++)
        memcpy((char *)v->value.type.data + i * bytes, p->members[i]->in[operand_plan->of]->value.type.data, bytes);
    return v;
}

/* ---- Batches ---- */

static void release_variable(tape_variable *v)
{
    if (v != NULL)
        tape_variable_release(v);
}

void tape_batch_mark_members(tape_batch *b)
{
    if (b->pass == NULL)
        return;
    for (uint32_t i = 0; i < b->count; i++)
        b->members[i]->pass = b->pass;
    b->marked = b->count;
    b->pass = NULL;
}

void tape_batch_release(tape_batch *b)
{
    tape_op_record *call = b->call;
    xcvm_tape *t = call->tape;
    tape_batch_mark_members(b);
    for (uint32_t i = 0; i < b->count; i++)
        b->members[i]->batch = NULL;
    for (uint32_t i = 0; i < call->out_count; i++) {
        if (call->out[i] != NULL) {
            call->out[i]->side->batch = NULL;
            call->out[i]->partial = false;
        }
        release_variable(call->out[i]);
    }
    for (uint32_t i = 0; i < call->in_count; i++) {
        release_variable(call->in[i]);
        release_variable(b->operands[i].base);
    }
    tape_free(t, call, call->bytes);
    tape_free(t, b, b->bytes);
}

static tape_batch *create_batch(const tape_batch_plan *p)
{
    xcvm_tape *t = p->tape;
    const tape_op_record *like = p->like;
    const size_t members = xcvm_round_up(sizeof(tape_batch), 16),
                 results = members + xcvm_round_up(p->count * sizeof(tape_op_record *), 16),
                 operands = results + xcvm_round_up((size_t)p->count * like->out_count * sizeof(tape_variable *), 16),
                 given = operands + p->in_count * sizeof(tape_batch_operand),
                 bytes = given + (size_t)p->count * like->out_count;
    void *behind;
    tape_batch *b = tape_allocate(t, bytes);
    tape_op_record *call =
        b != NULL ? tape_op_record_create(t, p->schema, p->in_count, like->out_count, sizeof p->ints, &behind) : NULL;
    if (call == NULL) {
        if (b != NULL)
            tape_free(t, b, bytes);
        return NULL;
    }
    /* The host did not call it. */
    t->calls--;
    call->number = like->number;
    call->differentiable = like->differentiable;
    call->batch = b;
    memcpy(call->args, p->args, p->schema->args_size);
    if (p->list != NULL) {
        xcvm_ints *list = (xcvm_ints *)(void *)((char *)call->args + ((const char *)p->list - (const char *)p->args));
        list->at = memcpy(behind, p->ints, sizeof p->ints);
    }
    memset(b, 0, given);
    b->call = call;
    b->members = (tape_op_record **)(void *)((char *)b + members);
    b->results = (tape_variable **)(void *)((char *)b + results);
    b->operands = (tape_batch_operand *)(void *)((char *)b + operands);
    b->given = (uint8_t *)b + given;
    b->count = p->count;
    b->bytes = bytes;
    memcpy(b->members, p->members, p->count * sizeof *b->members);
    return b;
}

static bool bind_operands(const tape_batch_plan *p, tape_batch *b)
{
    for (uint32_t i = 0; i < p->in_count; i++) {
        const tape_batch_operand_plan *operand_plan = &p->in[i];
        tape_variable *v = operand_plan->constant;
        b->operands[i] = (tape_batch_operand){.of = operand_plan->of, .shared = operand_plan->shared};
        if (operand_plan->shared)
            v = p->like->in[operand_plan->of];
        else if (operand_plan->of >= 0 && (v = gather_operand(p, operand_plan, &b->operands[i])) == NULL)
            return false;
        /* A gathered operand has its reference already. */
        if (v != NULL && (operand_plan->shared || operand_plan->of < 0))
            v->refs++;
        b->call->in[i] = v;
    }
    return true;
}

static bool bind_results(const tape_batch_plan *p, tape_batch *b)
{
    for (uint32_t i = 0; i < p->like->out_count; i++) {
        if (p->like->out[i] == NULL)
            continue;
        tape_variable *v = tape_variable_create_unnamed(p->tape);
        if (v == NULL)
            return false;
        if (tape_side_reserve(v) == NULL) {
            tape_variable_release(v);
            return false;
        }
        b->call->out[i] = v;
    }
    return true;
}

/* True if each member's results are blocks of the stacked results. */
static bool results_fit(const tape_batch_plan *p, const tape_op_record *call)
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

/* The stacked operand that is a view of another batch's result; NULL: it was copied. */
static const tape_variable *base_of(const tape_batch *b, uint32_t operand)
{
    for (uint32_t i = 0; i < b->call->in_count; i++)
        if (b->operands[i].of == (int32_t)operand && b->operands[i].base != NULL)
            return b->call->in[i];
    return NULL;
}

void tape_batch_save_versions(const tape_batch *b)
{
    tape_op_record *const *members = b->members;
    const tape_op_record *like = members[0];
    for (uint32_t i = 0; i < like->in_count; i++) {
        const tape_variable *base = base_of(b, i), *first = like->in[i];
        const uint32_t version = tape_variable_version(base != NULL ? base : first);
        for (uint32_t k = 0; k < b->count; k++) {
            const tape_variable *v = members[k]->in[i];
            members[k]->versions[i] = base != NULL || v == first ? version : tape_variable_version(v);
        }
    }
    for (uint32_t i = 0; i < like->out_count; i++) {
        const uint32_t version = tape_variable_version(b->call->out[i]);
        for (uint32_t k = 0; k < b->count; k++)
            members[k]->versions[like->in_count + i] = version;
    }
}

static void bind_members(tape_batch *b)
{
    for (uint32_t i = 0; i < b->call->out_count; i++) {
        tape_variable *whole = b->call->out[i];
        if (whole == NULL)
            continue;
        whole->side->batch = b;
        const size_t bytes = whole->value.type.bytes / b->count;
        tape_variable_require(whole, b->members[0]->out[i]->requires);
        tape_storage_retain(whole->value.type.storage, b->count);
        for (uint32_t k = 0; k < b->count; k++) {
            tape_variable *v = b->members[k]->out[i];
            b->results[(size_t)i * b->count + k] = v;
            set_view(v, &whole->value.type, k * bytes);
        }
    }
    for (uint32_t k = 0; k < b->count; k++) {
        b->members[k]->batch = b;
        b->members[k]->slot = k;
        tape_pending_remove(b->members[k]);
        tape_op_record_complete(b->members[k]);
    }
    b->separate = b->call->tape->batching.separate_results;
    tape_batch_save_versions(b);
    tape_op_save_versions(b->call);
}

static bool run_planned_batch(const tape_batch_plan *p)
{
    xcvm_tape *t = p->tape;
    tape_batch *b = create_batch(p);
    if (b == NULL)
        return false;
    tape_op_record *call = b->call;
    bool good = bind_operands(p, b) && bind_results(p, b);
    if (good) {
        xcvm_bind_operands(call->schema, call->args, (const xcvm_value **)(void *)call->in,
                           (xcvm_value **)(void *)call->out);
        good = tape_op_infer(t, call) == XCVM_OK && results_fit(p, call) && tape_op_run_kernel(t, call, 0) == XCVM_OK;
    }
    if (good) {
        bind_members(b);
        return true;
    }
    b->count = 0; /* members do not refer to the batch yet */
    tape_batch_release(b);
    return false;
}

enum { OPERANDS = 16, ARGUMENTS = 512 };

static void find_shared_operands(tape_op_record *const *members, uint32_t count, bool *same)
{
    const tape_op_record *like = members[0];
    memset(same, true, like->in_count * sizeof *same);
    for (uint32_t k = 1; k < count; k++)
        for (uint32_t i = 0; i < like->in_count; i++)
            same[i] = same[i] && members[k]->in[i] == like->in[i];
}

/* They were equal when the ops were called, but may have been set since. */
static bool operands_are_equal(tape_op_record *const *members, uint32_t count, uint32_t operand)
{
    const xcvm_value *first = &members[0]->in[operand]->value.type;
    for (uint32_t k = 1; k < count; k++)
        if (memcmp(members[k]->in[operand]->value.type.data, first->data, first->bytes) != 0)
            return false;
    return true;
}

bool tape_run_batch(xcvm_tape *t, tape_op_record *const *members, uint32_t count)
{
    const tape_op_record *like = members[0];
    const tape_batching_rule *rule = tape_batching_rule_of(like->schema);
    bool same[OPERANDS];
    tape_batch_operand_plan operand_plans[OPERANDS + 2];
    _Alignas(16) char args[ARGUMENTS];
    if (rule == NULL || like->in_count > OPERANDS || like->schema->args_size > sizeof args)
        return false;
    find_shared_operands(members, count, same);
    for (uint32_t i = 0; i < like->in_count; i++)
        if (!same[i] && tape_batching_rule_needs_same(rule, i) && !operands_are_equal(members, count, i))
            return false;
    memcpy(args, like->args, like->schema->args_size);
    tape_batch_plan plan = {.tape = t,
                            .members = members,
                            .count = count,
                            .like = like,
                            .same = same,
                            .schema = like->schema,
                            .args = args,
                            .in = operand_plans};
    const bool good = rule->plan(&plan) && run_planned_batch(&plan);
    for (size_t i = 0; i < plan.in_count; i++)
        release_variable(operand_plans[i].constant);
    /* The ops run one by one now, and fail by themselves if they must. */
    if (!good && t->error.status != XCVM_OK) {
        t->failed = true;
        (void)tape_report(t, NULL);
    }
    return good;
}
