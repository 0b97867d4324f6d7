/* What a traced function does besides calls: steps of optimizers, and gradients that it clears or leaves behind. */
#include "compiler/ir/compose.h"
#include "tape/static/trace.h"

bool tape_trace_gave_gradient(const tape_trace *k, const tape_variable *v)
{
    return (v->gradient != NULL && v->gradient->serial > k->begun) ||
           (v->rows != NULL && v->rows->gradient->serial > k->begun);
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

static xcvm_status note_change(tape_trace *k, const tape_change *change, trace_change *to)
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

/* A gradient that calls make as a product of few terms is given to an optimizer as the factors, which need not have it
 * in memory. */
static void note_factors(trace_change *c)
{
    const xcvm_value *a, *b;
    const xcc_value *g = c->gradient;
    if (g == NULL || c->rows != NULL || g->uses > 0 || !xcc_is_low_rank_product(g, &a, &b))
        return;
    c->left = xcc_value_of(a);
    c->right = xcc_value_of(b);
}

/* What an effect changes, or would change if it had a gradient then. */
static xcvm_status note_target(tape_trace *k, const tape_variable *v)
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

/* An effect finds what places hold then. */
static void note_places(tape_trace *k)
{
    for (size_t i = k->in_count; i < k->operand_count; i++) {
        trace_operand *o = &k->operands[i];
        if (o->place == NULL || (o->place->at == o->filled.at && o->place->serial == o->filled.serial))
            continue;
        if (o->filled_after != SIZE_MAX)
            tape_trace_refuse(k, "handles are put in one place before and behind a step");
        o->filled_after = k->effect_count;
        o->filled = *o->place;
    }
}

xcvm_status tape_trace_step(tape_tracer *tracer, tape_effect *e, size_t count, const tape_change *changes)
{
    tape_trace *k = tape_trace_of(tracer);
    note_places(k);
    if (k->refusal[0] != '\0')
        return XCVM_OK;
    trace_effect *effects = xcc_grow(&k->module, k->effects, k->effect_count, &k->effect_capacity, sizeof *effects);
    trace_change *own = xcc_alloc(&k->module, count * sizeof *own);
    if (effects == NULL || own == NULL)
        return tape_stick(k->tape, XCVM_OUT_OF_MEMORY);
    k->effects = effects;
    trace_effect *effect = &effects[k->effect_count++];
    *effect = (trace_effect){.effect = e, .changes = own};
    e->refs++;
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(note_target(k, changes[i].variable));
        if (changes[i].gradient != NULL) {
            XCVM_TRY(note_change(k, &changes[i], &own[effect->count]));
            note_factors(&own[effect->count++]);
        }
    }
    return XCVM_OK;
}

/* A gradient that is there behind the function: that of an effect, which leaves it, or another. */
static void leave(tape_trace *k, const tape_change *change, trace_effect *left)
{
    trace_change now = {.stays = true};
    bool found = false;
    if (note_change(k, change, &now) != XCVM_OK || k->refusal[0] != '\0')
        return;
    for (size_t i = 0; i < k->effect_count && change->variable->rows == NULL; i++)
        for (size_t j = 0; j < k->effects[i].count; j++) {
            trace_change *c = &k->effects[i].changes[j];
            if (c->operand == now.operand && c->gradient == now.gradient)
                found = c->stays = true;
        }
    if (!found)
        left->changes[left->count++] = now;
}

/* Lists each gradient, or rows of one, that the function has added up and left (NULL: does not); gives their number. */
static size_t each_left(tape_trace *k, trace_effect *left)
{
    size_t count = 0;
    for (size_t i = 0; i < k->operand_count && k->refusal[0] == '\0' && !k->tape->failed; i++) {
        trace_operand *o = &k->operands[i];
        tape_variable *v = o->v.at;
        if (v == NULL || v->serial != o->v.serial || o->gathered || !tape_trace_gave_gradient(k, v))
            continue;
        o->adds = o->adds || !o->clears;
        count += v->gradient != NULL;
        if (v->gradient != NULL && left != NULL)
            leave(k, &(tape_change){.variable = v, .gradient = v->gradient}, left);
        for (const tape_rows *r = v->rows; r != NULL; r = r->next, count++)
            if (left != NULL)
                leave(k, &(tape_change){.variable = v, .gradient = r->gradient, .rows = r->indices}, left);
    }
    return count;
}

/* Gradients that the function leaves behind are an effect, too. */
xcvm_status tape_trace_leave(tape_trace *k)
{
    const size_t count = each_left(k, NULL);
    if (count == 0)
        return XCVM_OK;
    if (k->differentiable)
        tape_trace_refuse(k,
                          "the function leaves a gradient that was added up behind, and a gradient can flow from its "
                          "results; clear it, or take xcvm_tape_gradients");
    trace_effect *effects = xcc_grow(&k->module, k->effects, k->effect_count, &k->effect_capacity, sizeof *effects);
    trace_effect left = {.changes = xcc_alloc(&k->module, count * sizeof *left.changes)};
    if (effects == NULL || left.changes == NULL)
        return tape_stick(k->tape, XCVM_OUT_OF_MEMORY);
    k->effects = effects;
    each_left(k, &left);
    if (left.count > 0)
        effects[k->effect_count++] = left;
    return k->tape->failed ? k->tape->error.status : XCVM_OK;
}
