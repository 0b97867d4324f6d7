/* Effects of a traced function: steps of optimizers, and gradients that it clears or leaves. */
#include "compiler/ir/compose.h"
#include "tape/static/trace.h"

bool tape_trace_gave_gradient(const tape_trace *k, const tape_variable *v)
{
    return (tape_side(v)->gradient != NULL && tape_side(v)->gradient->serial > k->begun) ||
           (tape_side(v)->sparse_rows != NULL && tape_side(v)->sparse_rows->gradient->serial > k->begun);
}

xcvm_status tape_trace_clear(tape_tracer *tracer, const tape_variable *v)
{
    tape_trace *k = tape_trace_of(tracer);
    if (k->refusal[0] != '\0' || tape_trace_is_own(k, v))
        return XCVM_OK;
    trace_operand *o = tape_trace_capture(k, v);
    if (o == NULL)
        return k->tape->error.status;
    o->adds = o->adds || (!o->clears && (k->effect_count > 0 || tape_trace_gave_gradient(k, v)));
    o->clears = true;
    return XCVM_OK;
}

static xcvm_status trace_change_of(tape_trace *k, const tape_change *change, trace_change *to)
{
    const trace_operand *o = tape_trace_is_own(k, change->variable) ? NULL : tape_trace_capture(k, change->variable);
    if (k->tape->failed)
        return k->tape->error.status;
    if (o == NULL)
        tape_trace_refuse(k, "an effect changes what the function has made");
    if (!tape_trace_is_own(k, change->gradient))
        tape_trace_refuse(k, "a gradient from before the function is used");
    if (k->refusal[0] != '\0')
        return XCVM_OK;
    to->operand = (size_t)(o - k->operands);
    to->gradient = tape_trace_value(k, change->gradient);
    if (change->rows != NULL && to->gradient != NULL)
        to->rows = tape_trace_value(k, change->rows);
    const bool complete = to->gradient != NULL && (change->rows == NULL || to->rows != NULL);
    return complete || k->refusal[0] != '\0' ? XCVM_OK : tape_trace_refused(k, "a step");
}

/* A gradient that is a product of few terms is passed to an optimizer as two factors, so that it need not be in
 * memory. */
static void trace_factors(trace_change *c)
{
    const xcvm_value *a, *b;
    const xcc_value *g = c->gradient;
    if (g == NULL || c->rows != NULL || g->uses > 0 || !xcc_is_low_rank_product(g, &a, &b))
        return;
    c->left_factor = xcc_value_of(a);
    c->right_factor = xcc_value_of(b);
}

/* The target of an effect, with or without a gradient this time. */
static xcvm_status trace_target_of(tape_trace *k, const tape_variable *v)
{
    trace_operand *o = tape_trace_is_own(k, v) ? NULL : tape_trace_capture(k, v);
    if (k->tape->failed)
        return k->tape->error.status;
    if (o == NULL)
        return XCVM_OK;
    if (trace_is_written(o))
        tape_trace_refuse(k, "an effect changes what a call has written");
    k->tracer.functions->target(&k->tracer, v);
    o->changes = true;
    return XCVM_OK;
}

/* An effect sees the current contents of state slots. */
static void trace_slots(tape_trace *k)
{
    for (size_t i = k->in_count; i < k->operand_count; i++) {
        trace_operand *o = &k->operands[i];
        if (o->slot == NULL || (o->slot->at == o->filled.at && o->slot->serial == o->filled.serial))
            continue;
        if (o->filled_after != SIZE_MAX)
            tape_trace_refuse(k, "a handle is stored in one place before and after a step");
        o->filled_after = k->effect_count;
        o->filled = *o->slot;
    }
}

xcvm_status tape_trace_step(tape_tracer *tracer, tape_effect *e, size_t count, const tape_change *changes)
{
    tape_trace *k = tape_trace_of(tracer);
    trace_slots(k);
    if (k->refusal[0] != '\0')
        return XCVM_OK;
    trace_effect *effects = xcc_grow(&k->module, k->effects, k->effect_count, &k->effect_capacity, sizeof *effects);
    trace_change *own = xcc_alloc(&k->module, count * sizeof *own);
    if (effects == NULL || own == NULL)
        return tape_latch_failure(k->tape, XCVM_OUT_OF_MEMORY);
    k->effects = effects;
    trace_effect *effect = &effects[k->effect_count++];
    *effect = (trace_effect){.effect = e, .changes = own};
    e->refs++;
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(trace_target_of(k, changes[i].variable));
        if (changes[i].gradient != NULL) {
            XCVM_TRY(trace_change_of(k, &changes[i], &own[effect->count]));
            trace_factors(&own[effect->count++]);
        }
    }
    return XCVM_OK;
}

/* A gradient that remains after the function, from an effect or from a backward pass. */
static void trace_remaining(tape_trace *k, const tape_change *change, trace_effect *left)
{
    trace_change now = {.remains = true};
    bool found = false;
    if (trace_change_of(k, change, &now) != XCVM_OK || k->refusal[0] != '\0')
        return;
    for (size_t i = 0; i < k->effect_count && tape_side(change->variable)->sparse_rows == NULL; i++)
        for (size_t j = 0; j < k->effects[i].count; j++) {
            trace_change *c = &k->effects[i].changes[j];
            if (c->operand == now.operand && c->gradient == now.gradient)
                found = c->remains = true;
        }
    if (!found)
        left->changes[left->count++] = now;
}

/* Lists the gradients and sparse rows that the function leaves (NULL: does not), and returns their number. */
static size_t each_remaining(tape_trace *k, trace_effect *left)
{
    size_t count = 0;
    for (size_t i = 0; i < k->operand_count && k->refusal[0] == '\0' && !k->tape->failed; i++) {
        trace_operand *o = &k->operands[i];
        tape_variable *v = o->v.at;
        if (v == NULL || v->serial != o->v.serial || o->gathered || !tape_trace_gave_gradient(k, v))
            continue;
        o->adds = o->adds || !o->clears;
        count += tape_side(v)->gradient != NULL;
        if (tape_side(v)->gradient != NULL && left != NULL)
            trace_remaining(k, &(tape_change){.variable = v, .gradient = tape_side(v)->gradient}, left);
        for (const tape_sparse_rows *r = tape_side(v)->sparse_rows; r != NULL; r = r->next, count++)
            if (left != NULL)
                trace_remaining(k, &(tape_change){.variable = v, .gradient = r->gradient, .rows = r->indices}, left);
    }
    return count;
}

/* Remaining gradients are recorded as an effect. */
xcvm_status tape_trace_leave(tape_trace *k)
{
    const size_t count = each_remaining(k, NULL);
    if (count == 0)
        return XCVM_OK;
    if (k->differentiable)
        tape_trace_refuse(k, "the function leaves an accumulated gradient, and a gradient can flow from its "
                             "results; clear it, or use xcvm_tape_gradients");
    trace_effect *effects = xcc_grow(&k->module, k->effects, k->effect_count, &k->effect_capacity, sizeof *effects);
    trace_effect left = {.changes = xcc_alloc(&k->module, count * sizeof *left.changes)};
    if (effects == NULL || left.changes == NULL)
        return tape_latch_failure(k->tape, XCVM_OUT_OF_MEMORY);
    k->effects = effects;
    each_remaining(k, &left);
    if (left.count > 0)
        effects[k->effect_count++] = left;
    return k->tape->failed ? k->tape->error.status : XCVM_OK;
}
