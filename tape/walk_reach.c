/* The walk back, before anything is changed: which calls are on the way, and whether it can be gone. */
#include "compiler/gradients/rule.h"
#include "tape/walk.h"

#include <string.h>

xcvm_status tape_walk_each_operand(tape_walk *w, tape_record *r, tape_walk_operand body)
{
    uint32_t at = 0;
    if (!r->flows)
        return XCVM_OK;
    for (; r->operation != NULL && at < r->in_count; at++)
        if (r->in[at] != NULL && tape_walk_reaches(w, r->in[at]) && tape_carries(r->in[at]))
            XCVM_TRY(body(w, r, at, r->in[at]));
    for (size_t f = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (!xcvm_field_is_input(field))
            continue;
        for (size_t left = xcvm_field_count(field, r->args); left > 0; left--, at++) {
            tape_variable *v = r->in[at];
            if (v != NULL && field->role != XCVM_ROLE_IN_SHAPE && tape_walk_reaches(w, v) && tape_carries(v))
                XCVM_TRY(body(w, r, at, v));
        }
    }
    return XCVM_OK;
}

static xcvm_status reach_results(tape_walk *w, tape_record *r, uint32_t index, tape_variable *operand)
{
    (void)index;
    (void)operand;
    for (uint32_t i = 0; i < r->out_count; i++) {
        if (r->out[i] == NULL || !tape_carries(r->out[i]))
            continue;
        XCVM_TRY(tape_walk_touch(w, r->out[i]));
        r->out[i]->derived = true;
    }
    return XCVM_OK;
}

xcvm_status tape_walk_find_reached(tape_walk *w)
{
    const tape_walk_request *q = w->request;
    uint64_t oldest = UINT64_MAX;
    for (size_t i = 0; i < q->wrt_count; i++) {
        XCVM_TRY(tape_walk_touch(w, q->wrt[i]));
        q->wrt[i]->target = true;
        oldest = q->wrt[i]->serial < oldest ? q->wrt[i]->serial : oldest;
    }
    tape_record *first = NULL;
    for (tape_record *r = w->tape->last; r != NULL && r->serial >= oldest; r = r->previous)
        first = r;
    for (tape_record *r = first; r != NULL; r = r->next)
        XCVM_TRY(tape_walk_each_operand(w, r, reach_results));
    return XCVM_OK;
}

static xcvm_status refuse_spent(const tape_walk *w, const tape_variable *v)
{
    return tape_fail(
        w->tape, XCVM_INVALID_ARGUMENT,
        "the calls that made variable %llu were gone over by a backward before, and forgotten; that one has "
        "to retain the graph (retain_graph) for another to follow",
        (unsigned long long)v->serial);
}

static xcvm_status pass(tape_walk *w, tape_record *r)
{
    if (tape_walk_passes(w, r))
        return XCVM_OK;
    if (r->walk != NULL || (r->batch != NULL && r->batch->walk != NULL))
        return tape_walk_refuse_overlap(w);
    if (w->tape->tracer != NULL)
        w->tape->tracer->functions->pass(w->tape->tracer, r);
    r->walk = w;
    w->pending++;
    if (r->batch != NULL)
        r->batch->marked++;
    return XCVM_OK;
}

void tape_walk_unmark(tape_walk *w, tape_record *r)
{
    r->walk = NULL;
    w->pending--;
    if (r->batch != NULL)
        r->batch->marked--;
}

/* The call that made v has to be passed. */
static xcvm_status need(tape_walk *w, tape_variable *v)
{
    XCVM_TRY(tape_walk_touch(w, v));
    if (w->request->kind == TAPE_GRADIENTS && !v->derived)
        return XCVM_OK;
    if (v->creator == NULL || !v->creator->flows)
        return v->spent ? refuse_spent(w, v) : XCVM_OK;
    XCVM_TRY(pass(w, v->creator));
    return XCVM_OK;
}

static xcvm_status need_operand(tape_walk *w, tape_record *r, uint32_t index, tape_variable *v)
{
    (void)r;
    (void)index;
    return need(w, v);
}

xcvm_status tape_walk_blame(const tape_walk *w, const tape_record *r, xcvm_status status)
{
    xcvm_error *error = &w->tape->error;
    error->pc = r->number <= INT32_MAX ? (int32_t)r->number : INT32_MAX;
    strncpy(error->instruction, r->operation != NULL ? r->operation->name : r->schema->name,
            sizeof error->instruction - 1);
    return status;
}

static xcvm_status check_rule(const tape_walk *w, const tape_record *r)
{
    if (r->operation != NULL ? r->operation->backward != NULL : xcc_gradient_rule_of(r->schema->opcode) != NULL)
        return XCVM_OK;
    const char *why = r->schema->gradient.rule == NULL ? "cannot be differentiated" : "has no gradient yet";
    const char *name = r->operation != NULL ? r->operation->name : r->schema->name;
    return tape_walk_blame(w, r, tape_fail(w->tape, XCVM_UNSUPPORTED, "%s %s", name, why));
}

/* The members of another batch, whose results a batch was called with, have to be passed; of these results themselves
 * nothing need be known. */
static xcvm_status need_members(tape_walk *w, tape_batch *from, uint32_t first, uint32_t count)
{
    if (from->walk == w)
        return XCVM_OK;
    if (count == from->count && from->walk == NULL && from->marked == 0 && w->tape->tracer == NULL) {
        from->walk = w;
        w->pending += count;
        return XCVM_OK;
    }
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(&from->members[first + i]->walk, 1);
    for (uint32_t i = 0; i < count; i++)
        XCVM_TRY(pass(w, from->members[first + i]));
    return XCVM_OK;
}

static xcvm_status need_operands(tape_walk *w, tape_record *call, uint32_t index, tape_variable *v)
{
    const tape_batch *b = call->batch;
    const tape_stacked *operand = &b->operands[index];
    tape_batch *from = operand->base != NULL ? operand->base->batch : NULL;
    if (operand->shared)
        return need(w, v);
    if (from != NULL && from->call->flows)
        return need_members(w, from, operand->first, b->count);
    for (uint32_t i = 0; i < b->count && operand->of >= 0; i++) {
        if (i % TAPE_AHEAD == 0)
            tape_prefetch_creators(b->members + i, b->count - i, (uint32_t)operand->of);
        tape_variable *of = b->members[i]->in[operand->of];
        XCVM_TRY(of->creator != NULL && of->creator->flows ? pass(w, of->creator) : need(w, of));
    }
    return XCVM_OK;
}

/* Whether a backward has to pass all members of the batch that r, the latest of them, is of. */
static bool passes_batch(tape_walk *w, const tape_record *r)
{
    tape_batch *b = r->batch;
    if (b == NULL || r->slot + 1 != b->count || w->request->kind != TAPE_BACKWARD || w->request->create)
        return false;
    if (b->walk == w || b->marked < b->count)
        return b->walk == w;
    for (uint32_t i = 0; i < b->count; i++)
        __builtin_prefetch(&b->members[i]->walk, 1);
    for (uint32_t i = 0; i < b->count; i++)
        if (b->members[i]->walk != w)
            return false;
    b->walk = w;
    return true;
}

xcvm_status tape_walk_find_needed(tape_walk *w)
{
    const tape_walk_request *q = w->request;
    for (size_t i = 0; i < q->root_count; i++) {
        if (!tape_walk_reaches(w, q->roots[i]))
            continue;
        XCVM_TRY(need(w, q->roots[i]));
        q->roots[i]->root = true;
    }
    size_t left = w->pending;
    for (tape_record *r = w->tape->last; r != NULL && left > 0; r = r->previous) {
        const size_t before = w->pending;
        if (passes_batch(w, r)) {
            XCVM_TRY(check_rule(w, r));
            XCVM_TRY(tape_walk_each_operand(w, r->batch->call, need_operands));
            left += w->pending - before - r->batch->count;
            r = r->batch->members[0]; /* they stand one behind the other */
            continue;
        }
        if (r->batch != NULL && r->slot + 1 == r->batch->count)
            tape_prefetch_to_pass(r->batch->members, r->batch->count);
        if (!tape_walk_passes(w, r))
            continue;
        XCVM_TRY(check_rule(w, r));
        XCVM_TRY(tape_walk_each_operand(w, r, need_operand));
        left += w->pending - before - 1;
    }
    return XCVM_OK;
}
