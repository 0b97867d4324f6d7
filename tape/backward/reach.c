/* The first phase of a backward pass, which changes nothing: finds the ops to visit, and refuses those without a
 * gradient. */
#include "compiler/gradients/rule.h"
#include "tape/backward/backward.h"

#include <string.h>

xcvm_status tape_backward_each_operand(tape_backward_pass *pass, tape_op_record *r, tape_operand_visitor body)
{
    uint32_t at = 0;
    if (!r->differentiable)
        return XCVM_OK;
    for (; r->operation != NULL && at < r->in_count; at++)
        if (r->in[at] != NULL && tape_backward_reaches(pass, r->in[at]) && tape_variable_can_have_gradient(r->in[at]))
            XCVM_TRY(body(pass, r, at, r->in[at]));
    for (size_t f = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (!xcvm_field_is_input(field))
            continue;
        for (size_t left = xcvm_field_count(field, r->args); left > 0; left--, at++) {
            tape_variable *v = r->in[at];
            if (v != NULL && field->role != XCVM_ROLE_IN_SHAPE && tape_backward_reaches(pass, v) &&
                tape_variable_can_have_gradient(v))
                XCVM_TRY(body(pass, r, at, v));
        }
    }
    return XCVM_OK;
}

static xcvm_status reach_results(tape_backward_pass *pass, tape_op_record *r, uint32_t index, tape_variable *operand)
{
    (void)index;
    (void)operand;
    for (uint32_t i = 0; i < r->out_count; i++) {
        if (r->out[i] == NULL || !tape_variable_can_have_gradient(r->out[i]))
            continue;
        XCVM_TRY(tape_backward_track(pass, r->out[i]));
        r->out[i]->derived = true;
    }
    return XCVM_OK;
}

xcvm_status tape_backward_find_reached(tape_backward_pass *pass)
{
    const tape_backward_request *q = pass->request;
    uint64_t oldest = UINT64_MAX;
    for (size_t i = 0; i < q->wrt_count; i++) {
        XCVM_TRY(tape_backward_track(pass, q->wrt[i]));
        q->wrt[i]->target = true;
        oldest = q->wrt[i]->serial < oldest ? q->wrt[i]->serial : oldest;
    }
    tape_op_record *first = NULL;
    for (tape_op_record *r = pass->tape->ops.last; r != NULL && r->serial >= oldest; r = r->previous)
        first = r;
    for (tape_op_record *r = first; r != NULL; r = r->next)
        XCVM_TRY(tape_backward_each_operand(pass, r, reach_results));
    return XCVM_OK;
}

static xcvm_status refuse_consumed(const tape_backward_pass *pass, const tape_variable *v)
{
    return tape_fail(pass->tape, XCVM_INVALID_ARGUMENT,
                     "the calls that made variable %llu were consumed by an earlier backward pass, which has "
                     "to retain the graph (retain_graph)",
                     (unsigned long long)v->serial);
}

static xcvm_status mark_record(tape_backward_pass *pass, tape_op_record *r)
{
    if (tape_backward_visits(pass, r))
        return XCVM_OK;
    if (r->pass != NULL || (r->batch != NULL && r->batch->pass != NULL))
        return tape_backward_refuse_overlap(pass);
    if (pass->tape->tracer != NULL)
        pass->tape->tracer->functions->backward(pass->tape->tracer, r);
    r->pass = pass;
    pass->pending++;
    if (r->batch != NULL)
        r->batch->marked++;
    return XCVM_OK;
}

void tape_backward_unmark(tape_backward_pass *pass, tape_op_record *r)
{
    r->pass = NULL;
    pass->pending--;
    if (r->batch != NULL)
        r->batch->marked--;
}

/* The creator of v must be visited. */
static xcvm_status mark_creator(tape_backward_pass *pass, tape_variable *v)
{
    XCVM_TRY(tape_backward_track(pass, v));
    if (pass->request->kind == TAPE_GRADIENTS && !v->derived)
        return XCVM_OK;
    if (v->creator == NULL || !v->creator->differentiable)
        return v->consumed ? refuse_consumed(pass, v) : XCVM_OK;
    XCVM_TRY(mark_record(pass, v->creator));
    return XCVM_OK;
}

static xcvm_status mark_operand(tape_backward_pass *pass, tape_op_record *r, uint32_t index, tape_variable *v)
{
    (void)r;
    (void)index;
    return mark_creator(pass, v);
}

xcvm_status tape_backward_locate_failure(const tape_backward_pass *pass, const tape_op_record *r, xcvm_status status)
{
    xcvm_error *error = &pass->tape->error;
    error->pc = r->number <= INT32_MAX ? (int32_t)r->number : INT32_MAX;
    strncpy(error->instruction, r->operation != NULL ? r->operation->name : r->schema->name,
            sizeof error->instruction - 1);
    return status;
}

static xcvm_status check_has_rule(const tape_backward_pass *pass, const tape_op_record *r)
{
    if (r->operation != NULL ? r->operation->backward != NULL : xcc_gradient_rule_of(r->schema->opcode) != NULL)
        return XCVM_OK;
    const char *why = r->schema->gradient.rule == NULL ? "cannot be differentiated" : "has no gradient yet";
    const char *name = r->operation != NULL ? r->operation->name : r->schema->name;
    return tape_backward_locate_failure(pass, r, tape_fail(pass->tape, XCVM_UNSUPPORTED, "%s %s", name, why));
}

/* The members whose results a batch reads must be visited. The results need no tracking. */
static xcvm_status mark_members(tape_backward_pass *pass, tape_batch *from, uint32_t first, uint32_t count)
{
    if (from->pass == pass)
        return XCVM_OK;
    if (count == from->count && from->pass == NULL && from->marked == 0 && pass->tape->tracer == NULL) {
        from->pass = pass;
        pass->pending += count;
        return XCVM_OK;
    }
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(&from->members[first + i]->pass, 1);
    for (uint32_t i = 0; i < count; i++)
        XCVM_TRY(mark_record(pass, from->members[first + i]));
    return XCVM_OK;
}

static xcvm_status mark_batch_operands(tape_backward_pass *pass, tape_op_record *call, uint32_t index, tape_variable *v)
{
    const tape_batch *b = call->batch;
    const tape_batch_operand *operand = &b->operands[index];
    tape_batch *from = operand->base != NULL ? tape_side(operand->base)->batch : NULL;
    if (operand->shared)
        return mark_creator(pass, v);
    if (from != NULL && from->call->differentiable)
        return mark_members(pass, from, operand->first, b->count);
    for (uint32_t i = 0; i < b->count && operand->of >= 0; i++) {
        if (i % TAPE_AHEAD == 0)
            tape_prefetch_creators(b->members + i, b->count - i, (uint32_t)operand->of);
        tape_variable *of = b->members[i]->in[operand->of];
        XCVM_TRY(of->creator != NULL && of->creator->differentiable ? mark_record(pass, of->creator)
                                                                    : mark_creator(pass, of));
    }
    return XCVM_OK;
}

/* True if the pass visits all members of the batch whose last member is r. */
static bool visits_all_members(tape_backward_pass *pass, const tape_op_record *r)
{
    tape_batch *b = r->batch;
    if (b == NULL || r->slot + 1 != b->count || pass->request->kind != TAPE_BACKWARD || pass->request->create)
        return false;
    if (b->pass == pass || b->marked < b->count)
        return b->pass == pass;
    for (uint32_t i = 0; i < b->count; i++)
        __builtin_prefetch(&b->members[i]->pass, 1);
    for (uint32_t i = 0; i < b->count; i++)
        if (b->members[i]->pass != pass)
            return false;
    b->pass = pass;
    return true;
}

xcvm_status tape_backward_find_needed(tape_backward_pass *pass)
{
    const tape_backward_request *q = pass->request;
    for (size_t i = 0; i < q->root_count; i++) {
        if (!tape_backward_reaches(pass, q->roots[i]))
            continue;
        XCVM_TRY(mark_creator(pass, q->roots[i]));
        q->roots[i]->root = true;
    }
    size_t left = pass->pending;
    for (tape_op_record *r = pass->tape->ops.last; r != NULL && left > 0; r = r->previous) {
        const size_t before = pass->pending;
        if (visits_all_members(pass, r)) {
            XCVM_TRY(check_has_rule(pass, r));
            XCVM_TRY(tape_backward_each_operand(pass, r->batch->call, mark_batch_operands));
            left += pass->pending - before - r->batch->count;
            r = r->batch->members[0]; /* members are consecutive */
            continue;
        }
        if (r->batch != NULL && r->slot + 1 == r->batch->count)
            tape_prefetch_to_visit(r->batch->members, r->batch->count);
        if (!tape_backward_visits(pass, r))
            continue;
        XCVM_TRY(check_has_rule(pass, r));
        XCVM_TRY(tape_backward_each_operand(pass, r, mark_operand));
        left += pass->pending - before - 1;
    }
    return XCVM_OK;
}
