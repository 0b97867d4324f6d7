/* Matching of calls with cached schedules. */
#include "tape/static/static.h"

#include <string.h>

/* The same type, gradient requirement and hooks. */
static bool same_type(const trace_operand *o, const tape_variable *v)
{
    if (!o->present || v == NULL)
        return !o->present && v == NULL;
    const xcvm_value *a = o->value != NULL ? &o->value->type : NULL, *b = &v->value.type;
    if (o->requires != v->requires || o->sparse != v->sparse || o->hooks != tape_hook_count(v))
        return false;
    if (a == NULL) /* a list or strings, which no schedule supports */
        return b->kind != XCVM_KIND_TENSOR || b->dtype == XCVM_STRING;
    return b->kind == XCVM_KIND_TENSOR && a->dtype == b->dtype && xcvm_same_shape(a, b);
}

/* Elements that determine shapes are those of the recording. */
static bool same_elements(const trace_operand *o, const tape_variable *v)
{
    return o->fixed == NULL || v == NULL ||
           (o->fixed->type.bytes == v->value.type.bytes &&
            memcmp(o->fixed->type.data, v->value.type.data, v->value.type.bytes) == 0);
}

static const tape_variable *variable_of(xcvm_var v) { return v.at; }

const tape_variable *tape_static_operand(const tape_trace *k, const xcvm_var *in, size_t i)
{
    if (k->operands[i].gathered)
        return NULL;
    return variable_of(i < k->in_count ? in[i] : k->operands[i].slot != NULL ? *k->operands[i].slot : k->operands[i].v);
}

/* True if the slot has an owner, and its handle is not stale. A stale one is reported by the owner. */
static bool slot_is_valid(const trace_operand *o)
{
    const xcvm_var v = *o->slot;
    return !o->slot_owner->abandoned && (v.at == NULL || tape_find(v) != NULL);
}

static bool schedule_fits(const xcvm_static *s, const tape_schedule *c, size_t in_count, const xcvm_var *in,
                          size_t out_count)
{
    const tape_trace *k = c->trace;
    if (k->in_count != in_count || k->out_count != out_count || c->recording != s->tape->recording ||
        c->training != s->training)
        return false;
    for (size_t i = 0; i < k->operand_count; i++) {
        const trace_operand *o = &k->operands[i];
        if (trace_is_capture(k, i) || o->gathered)
            continue;
        const tape_variable *v = tape_static_operand(k, in, i);
        if ((o->slot_owner != NULL && !slot_is_valid(o)) || !same_type(o, v) || !same_elements(o, v))
            return false;
    }
    for (size_t i = 0; i < k->effect_count; i++)
        if (k->effects[i].effect != NULL && k->effects[i].effect->abandoned)
            return false;
    return true;
}

tape_schedule *tape_static_find(const xcvm_static *s, size_t in_count, const xcvm_var *in, size_t out_count)
{
    for (tape_schedule *c = s->schedules; c != NULL; c = c->next)
        if (schedule_fits(s, c, in_count, in, out_count))
            return c;
    return NULL;
}

bool tape_static_has_captures(const xcvm_static *s, const tape_schedule *c)
{
    const tape_trace *k = c->trace;
    for (size_t i = k->in_count; i < k->operand_count; i++) {
        const trace_operand *o = &k->operands[i];
        const tape_variable *v = o->v.at;
        if (!trace_is_capture(k, i))
            continue;
        const bool there = tape_find(o->v) != NULL;
        if (there && same_type(o, v) && same_elements(o, v))
            continue;
        tape_static_say(s, 1, "capture %zu %s; the function is recorded anew", i - k->in_count - k->held_count,
                        !there             ? "is gone"
                        : !same_type(o, v) ? "is of another type, or has another hook"
                                           : "decides another shape");
        return false;
    }
    return true;
}

static bool is_changed(const trace_operand *o) { return trace_is_written(o) || o->changes; }

bool tape_static_has_gradients(const tape_trace *k, const xcvm_var *in)
{
    for (size_t i = 0; i < k->operand_count; i++) {
        const tape_variable *v = k->operands[i].adds ? tape_static_operand(k, in, i) : NULL;
        if (v != NULL && (tape_side(v)->gradient != NULL || tape_side(v)->sparse_rows != NULL))
            return true;
    }
    return false;
}

bool tape_static_reads_what_is_written(const tape_trace *k, const xcvm_var *in)
{
    for (size_t i = 0; i < k->operand_count; i++) {
        const tape_variable *v = !trace_is_capture(k, i) ? tape_static_operand(k, in, i) : NULL;
        const xcvm_storage *storage = v != NULL ? v->value.type.storage : NULL;
        for (size_t other = 0; storage != NULL && other < k->operand_count; other++) {
            const tape_variable *w = tape_static_operand(k, in, other);
            if (other != i && w != NULL && w->value.type.storage == storage &&
                (is_changed(&k->operands[i]) || is_changed(&k->operands[other])))
                return true;
        }
    }
    return false;
}
