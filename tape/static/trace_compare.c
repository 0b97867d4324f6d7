/* Comparison of traces: checks that a function makes the same calls again. */
#include "proto/image.h"
#include "tape/static/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct comparison {
    const tape_trace *before, *now;
    char *text;
    size_t size;
    size_t call;      /* the compared one */
    const char *name; /* of its instruction */
} comparison;

/* Describes a difference, and returns false. */
static bool differ(const comparison *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool differ(const comparison *c, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->text, c->size, format, arguments);
    va_end(arguments);
    return false;
}

static bool equal_types(const xcvm_value *a, const xcvm_value *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank &&
           (a->rank < 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

/* Values are created in order of the calls, so equal values have equal ids. */
static bool compare_operand(const comparison *c, size_t i, const xcc_value *a, const xcc_value *b)
{
    char x[192], y[192];
    if (a == NULL || b == NULL)
        return a == b ||
               differ(c, "operand %zu of call %zu (%s) is %s now", i, c->call, c->name, b == NULL ? "absent" : "given");
    if (!equal_types(&a->type, &b->type))
        return differ(c, "operand %zu of call %zu (%s) is %s, and was %s", i, c->call, c->name,
                      xcvm_value_describe(&b->type, x, sizeof x), xcvm_value_describe(&a->type, y, sizeof y));
    if (a->id != b->id || a->kind != b->kind)
        return differ(c, "operand %zu of call %zu (%s) is another variable", i, c->call, c->name);
    if (xcc_is_constant(a) && memcmp(a->type.data, b->type.data, a->type.bytes) != 0)
        return differ(c, "operand %zu of call %zu (%s) has other numbers of the host's than those recorded", i, c->call,
                      c->name);
    return true;
}

static bool compare_attributes(const comparison *c, const xcc_node *a, const xcc_node *b)
{
    char x[4096], y[4096];
    if (xcc_is(a, XCVM_OP_HostCall))
        return true;
    xcvm_attributes_describe(a->schema, a->args, x, sizeof x);
    xcvm_attributes_describe(b->schema, b->args, y, sizeof y);
    return strcmp(x, y) == 0 ||
           differ(c, "call %zu (%s) has attributes %.100s, and had %.100s", c->call, c->name, y, x);
}

static bool compare_results(const comparison *c, const xcc_node *a, const xcc_node *b)
{
    char x[192], y[192];
    for (size_t i = 0; i < xcc_node_output_count(a); i++) {
        const xcc_value *v = xcc_node_output(a, i), *w = xcc_node_output(b, i);
        if ((v == NULL) != (w == NULL))
            return differ(c, "call %zu (%s) is asked for other results", c->call, c->name);
        if (v == NULL)
            continue;
        if (!equal_types(&v->type, &w->type))
            return differ(c, "result %zu of call %zu (%s) is %s, and was %s", i, c->call, c->name,
                          xcvm_value_describe(&w->type, x, sizeof x), xcvm_value_describe(&v->type, y, sizeof y));
        if (v->mark != w->mark)
            return differ(c, "call %zu (%s) is recorded otherwise: gradients %s through it", c->call, c->name,
                          w->mark == TRACE_STOPPED ? "do not go" : "go");
    }
    return true;
}

static bool compare_nodes(const comparison *c, const xcc_node *a, const xcc_node *b)
{
    if (a->schema != b->schema)
        return differ(c, "call %zu is %s, and was %s", c->call, b->schema->name, a->schema->name);
    const size_t count = xcc_node_input_count(a);
    if (count != xcc_node_input_count(b) || xcc_node_output_count(a) != xcc_node_output_count(b))
        return differ(c, "call %zu (%s) has %zu operands and %zu results, and had %zu and %zu", c->call, c->name,
                      xcc_node_input_count(b), xcc_node_output_count(b), count, xcc_node_output_count(a));
    for (size_t i = 0; i < count; i++)
        if (!compare_operand(c, i, xcc_node_input(a, i), xcc_node_input(b, i)))
            return false;
    return compare_attributes(c, a, b) && compare_results(c, a, b);
}

static bool equal_ids(const xcc_value *a, const xcc_value *b)
{
    return (a == NULL) == (b == NULL) && (a == NULL || a->id == b->id);
}

static bool equal_effects(const tape_trace *a, const tape_trace *b)
{
    if (a->effect_count != b->effect_count)
        return false;
    for (size_t i = 0; i < a->effect_count; i++) {
        const trace_effect *x = &a->effects[i], *y = &b->effects[i];
        if (x->effect != y->effect || x->count != y->count)
            return false;
        for (size_t j = 0; j < x->count; j++)
            if (x->changes[j].operand != y->changes[j].operand ||
                !equal_ids(x->changes[j].gradient, y->changes[j].gradient) ||
                x->changes[j].remains != y->changes[j].remains || !equal_ids(x->changes[j].rows, y->changes[j].rows))
                return false;
    }
    return true;
}

static bool compare_ends(const comparison *c)
{
    const tape_trace *a = c->before, *b = c->now;
    for (size_t i = 0; i < a->out_count; i++)
        if (a->outs[i]->id != b->outs[i]->id || a->out_requires[i] != b->out_requires[i])
            return differ(c, "result %zu is that of another call", i);
    for (size_t i = 0; i < a->operand_count; i++) {
        const trace_operand *x = &a->operands[i], *y = &b->operands[i];
        if (x->gathered != y->gathered || x->table != y->table || x->indices != y->indices)
            return differ(c, "operand %zu is gathered otherwise", i);
        if (x->slot != y->slot || x->slot_owner != y->slot_owner)
            return differ(c, "operand %zu is kept in another place", i);
        const bool same = (x->next != NULL) == (y->next != NULL) && x->keeps == y->keeps &&
                          x->releases == y->releases && x->empties == y->empties &&
                          (x->next == NULL || x->next->id == y->next->id);
        if (!same)
            return differ(c, "something else is left in place %zu", i - a->in_count);
        if (x->value != NULL && y->value != NULL && x->now->id != y->now->id)
            return differ(c, "something else is written into operand %zu", i);
        if (x->slot != NULL && x->filled_after != y->filled_after)
            return differ(c, "operand %zu is put in its place on the other side of a step", i);
        if (x->written_after != y->written_after)
            return differ(c, "operand %zu is written on the other side of a step", i);
        if (x->clears != y->clears || x->adds != y->adds)
            return differ(c, "the gradient of operand %zu is cleared otherwise", i);
        if (x->requires != y->requires)
            return differ(c, "operand %zu %s a gradient now", i, y->requires ? "requires" : "does not require");
        if (trace_is_capture(a, i) && (x->v.at != y->v.at || x->v.serial != y->v.serial))
            return differ(c, "capture %zu is another variable", i - a->in_count - a->held_count);
    }
    if (!equal_effects(a, b))
        return differ(c, "it has another effect, or by other gradients");
    for (size_t i = 0; i < a->operation_count; i++)
        if (a->operations[i].operation != b->operations[i].operation)
            return differ(c, "operation %zu of the host's is another one, %s", i, b->operations[i].operation->name);
    return true;
}

bool tape_trace_equal(const tape_trace *before, const tape_trace *now, char *difference, size_t size)
{
    comparison c = {.before = before, .now = now, .text = difference, .size = size};
    const xcc_node *a = before->module.graph->first, *b = now->module.graph->first;
    for (; a != NULL && b != NULL; a = a->next, b = b->next, c.call++) {
        c.name = b->schema->name;
        if (!compare_nodes(&c, a, b))
            return false;
    }
    if (a != NULL)
        return differ(&c, "%zu calls are made; the first that is missing is call %zu (%s)", c.call, c.call,
                      a->schema->name);
    if (b != NULL)
        return differ(&c, "a call more is made than before: call %zu (%s)", c.call, b->schema->name);
    if (before->operand_count != now->operand_count || before->operation_count != now->operation_count)
        return differ(&c, "other variables are captured");
    return compare_ends(&c);
}
