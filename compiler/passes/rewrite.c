/* The driver of local rewrites, and helpers with which rules examine nodes. */
#include "compiler/passes/rewrite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Maximum traversals of the module. Few modules need more than three; stopping early only misses optimizations. */
enum { MAX_TRAVERSALS = 16 };

bool xcc_rewrite_ok(xcc_rewrite *r, xcvm_status status)
{
    if (r->status == XCVM_OK)
        r->status = status;
    return status == XCVM_OK;
}

static bool made_up(const xcc_module *m, int64_t dim) { return dim < 0 && xcc_symbol_name(m, dim) == NULL; }

/* Gives a new value the old value's name from the model. */
static void take_name(xcc_value *old, xcc_value *v)
{
    char made[24];
    snprintf(made, sizeof made, "_%lu", (unsigned long)v->id);
    if (strcmp(v->name, made) != 0)
        return;
    const char *name = v->name;
    v->name = old->name;
    old->name = name;
}

bool xcc_rewrite_replace(xcc_rewrite *r, xcc_value *old, xcc_value *v)
{
    if (v == NULL) {
        /* If inference fails, the rule's assumptions do not hold, so the graph stays unchanged. */
        if (r->m->error->status == XCVM_OUT_OF_MEMORY || r->m->error->status == XCVM_OK)
            r->status = xcc_out_of_memory(r->m);
        else
            *r->m->error = (xcvm_error){.pc = -1};
        return false;
    }
    /* Types of body parameters follow from outside, not from their uses. */
    bool refined = v->producer != NULL && v->type.kind == XCVM_KIND_TENSOR && old->type.kind == XCVM_KIND_TENSOR;
    if (refined && v->type.rank == old->type.rank)
        for (int i = 0; i < v->type.rank; i++)
            if (v->type.dims[i] < 0 && (old->type.dims[i] >= 0 || made_up(r->m, v->type.dims[i])))
                v->type.dims[i] = old->type.dims[i];
    if (refined && v->type.rank >= 0)
        xcvm_value_set_tensor(&v->type, (xcvm_dtype)v->type.dtype, v->type.rank, v->type.dims);
    take_name(old, v);
    xcc_replace_uses(old->graph, old, v);
    return true;
}

static bool is_unused(const xcc_node *n)
{
    if (n->removed || n->kind != XCC_INSTRUCTION || n->schema->effect == XCVM_EFFECT || xcc_updates(n))
        return false;
    size_t outputs = xcc_node_output_count(n);
    for (size_t i = 0; i < outputs; i++) {
        const xcc_value *v = xcc_node_output(n, i);
        if (v != NULL && v->uses > 0)
            return false;
    }
    return true;
}

void xcc_rewrite_sweep(xcc_node *n)
{
    if (!is_unused(n))
        return;
    n->pending = NULL;
    while (n != NULL) {
        xcc_node *pending = n->pending;
        size_t inputs = xcc_node_input_count(n);
        xcc_node_remove(n);
        for (size_t i = 0; i < inputs; i++) {
            xcc_value *v = xcc_node_input(n, i);
            if (v == NULL)
                continue;
            xcc_constant_release(v);
            xcc_node *producer = v->producer;
            if (producer == NULL || !is_unused(producer))
                continue;
            producer->removed = true; /* so that a producer of two operands is listed once */
            producer->pending = pending;
            pending = producer;
        }
        n = pending;
    }
}

/* ---- Traversal ---- */

static bool apply_rules(xcc_rewrite *r, const xcc_rule *rules, size_t count, xcc_node *n)
{
    bool changed = false;
    for (size_t i = 0; i < count && !n->removed && r->status == XCVM_OK; i++) {
        if (rules[i].opcode != n->schema->opcode || !rules[i].apply(r, n))
            continue;
        changed = true;
        xcc_rewrite_sweep(n);
    }
    return changed;
}

static bool apply_rules_to_graph(xcc_rewrite *r, const xcc_rule *rules, size_t count, xcc_rule_function control,
                                 xcc_graph *g)
{
    bool changed = false;
    for (xcc_node *n = g->first, *next; n != NULL && r->status == XCVM_OK; n = next) {
        next = n->next;
        if (!xcc_rewrite_ok(r, xcc_poll(r->m)))
            break;
        if (n->kind == XCC_INSTRUCTION) {
            changed = apply_rules(r, rules, count, n) || changed;
            continue;
        }
        for (size_t i = 0; i < n->body_count; i++)
            changed = apply_rules_to_graph(r, rules, count, control, n->bodies[i]) || changed;
        if (control != NULL && r->status == XCVM_OK)
            changed = control(r, n) || changed;
    }
    return changed;
}

xcvm_status xcc_rewrite_run(xcc_module *m, const xcc_rule *rules, size_t count, xcc_rule_function control)
{
    xcc_rewrite r = {.m = m};
    for (int i = 0;
         i < MAX_TRAVERSALS && r.status == XCVM_OK && apply_rules_to_graph(&r, rules, count, control, m->graph); i++)
        m->changes++;
    return r.status;
}

/* ---- Helpers for rules ---- */

xcc_node *xcc_producer(const xcc_value *v, xcvm_opcode opcode)
{
    return v != NULL && xcc_is(v->producer, opcode) ? v->producer : NULL;
}

xcc_node *xcc_sole_producer(const xcc_value *v, xcvm_opcode opcode)
{
    return xcc_used_once(v) ? xcc_producer(v, opcode) : NULL;
}

bool xcc_used_once(const xcc_value *v)
{
    return v != NULL && v->uses == 1 && v->users->node != NULL && v->users->graph == v->graph;
}

bool xcc_same_type(const xcc_value *a, const xcc_value *b)
{
    if (a->type.kind != XCVM_KIND_TENSOR || b->type.kind != XCVM_KIND_TENSOR || a->type.dtype != b->type.dtype ||
        a->type.rank < 0 || a->type.rank != b->type.rank)
        return false;
    for (int i = 0; i < a->type.rank; i++)
        if (a->type.dims[i] != b->type.dims[i] || a->type.dims[i] == XCVM_ANY_DIM)
            return false;
    return true;
}

bool xcc_is_float(const xcc_value *v)
{
    return v->type.kind == XCVM_KIND_TENSOR && xcvm_dtype_is_float((xcvm_dtype)v->type.dtype);
}

bool xcc_number(const xcc_value *v, double *number)
{
    if (!xcc_is_constant(v) || xcvm_element_count(&v->type) != 1 ||
        !xcvm_dtype_in((xcvm_dtype)v->type.dtype, XCVM_TYPES_REAL_OR_BOOL))
        return false;
    *number = xcvm_element_as_double(&v->type, 0);
    return true;
}

bool xcc_is_number(const xcc_value *v, double number)
{
    double value;
    if (!xcc_number(v, &value))
        return false;
    double precision = v->type.dtype == XCVM_F64    ? 1e-12
                       : v->type.dtype == XCVM_F16  ? 2e-3
                       : v->type.dtype == XCVM_BF16 ? 1e-2
                                                    : 1e-6;
    return xcc_is_float(v) ? fabs(value - number) <= precision * fabs(number) : value == number;
}

bool xcc_all_are(xcvm_ints ints, int64_t number)
{
    bool all = true;
    for (size_t i = 0; i < ints.count; i++)
        all = all && ints.at[i] == number;
    return all;
}

int xcc_integers(const xcc_value *v, int64_t *ints, int capacity)
{
    if (!xcc_is_constant(v) || (v->type.dtype != XCVM_I64 && v->type.dtype != XCVM_I32) ||
        xcvm_element_count(&v->type) > (size_t)capacity)
        return -1;
    int count = (int)xcvm_element_count(&v->type);
    for (int i = 0; i < count; i++)
        ints[i] = xcvm_element_as_int(&v->type, (size_t)i);
    return count;
}

bool xcc_split_number(xcc_value *a, xcc_value *b, xcc_value **other, double *number)
{
    *other = a;
    if (xcc_number(b, number))
        return true;
    *other = b;
    return xcc_number(a, number);
}

int64_t xcc_dim_of(const xcc_value *v, int axis)
{
    int rank = v->type.kind == XCVM_KIND_TENSOR ? v->type.rank : -1;
    int at = axis < 0 ? axis + rank : axis;
    return rank >= 0 && at >= 0 && at < rank ? v->type.dims[at] : XCVM_ANY_DIM;
}
