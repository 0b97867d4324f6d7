/* Steps of a group: its computation node by node, with one function per element in each step. */
#include "compiler/kernel_library/kernel_library.h"

#include <math.h>
#include <string.h>

/* Number of steps of LayerNormalization, the maximum of any node. */
enum { MOST_STEPS = 12 };

typedef struct steps {
    xcc_loops *l;
    const xcc_node *node;
} steps;

static xcc_reading number(double value) { return (xcc_reading){.source = XCC_SOURCE_NUMBER, .number = value}; }

/* A node's index in its group is its mark meanwhile. */
static xcc_reading read_value(const xcc_loops *l, const xcc_value *v)
{
    const xcc_kernel_group *f = l->f;
    if (xcc_is_literal(v))
        return number(xcvm_element_as_double(&v->type, 0));
    if (v->producer != NULL && v->producer->group == &f->group)
        return l->readings[v->producer->mark];
    for (size_t x = 0; x < f->group.x_count; x++)
        if (f->group.xs[x] == v)
            return (xcc_reading){.source = XCC_SOURCE_OPERAND, .index = (uint32_t)x};
    return number(NAN);
}

static uint32_t cost_of(const char *function)
{
    static const char *const quick[] = {"Add", "Sub", "Mul", "Neg", "Abs", "Max", "Min", "Relu", "LeakyRelu", "Clip"};
    for (size_t i = 0; i < sizeof quick / sizeof *quick; i++)
        if (strcmp(function, quick[i]) == 0)
            return 1;
    return 8;
}

/* Per row if all that it reads is. */
static xcc_reading map(steps *s, const char *function, size_t count, const xcc_reading *operands)
{
    xcc_loops *l = s->l;
    xcc_step *step = &l->steps[l->step_count];
    *step = (xcc_step){.function = function, .row = true, .operand_count = count, .node = s->node};
    for (size_t i = 0; i < count; i++) {
        step->operands[i] = operands[i];
        step->row = step->row && xcc_is_per_row(l, &operands[i]);
    }
    step->cost = cost_of(function);
    step->result = XCC_NO_RESULT;
    return (xcc_reading){.source = XCC_SOURCE_STEP, .index = (uint32_t)l->step_count++};
}

static xcc_reading map_of_one(steps *s, const char *function, xcc_reading v)
{
    const xcc_reading operands[] = {v, number(0), number(0)};
    return map(s, function, 3, operands);
}

static xcc_reading map_of_two(steps *s, const char *function, xcc_reading u, xcc_reading v)
{
    const xcc_reading operands[] = {u, v};
    return map(s, function, 2, operands);
}

static xcc_reading reduce(steps *s, xcc_reduce_op how, xcc_reading v)
{
    xcc_loops *l = s->l;
    xcc_step *step = &l->steps[l->step_count];
    *step = (xcc_step){.reduce = how,
                       .row = true,
                       .operands = {v},
                       .operand_count = 1,
                       .cost = 1,
                       .node = s->node,
                       .result = XCC_NO_RESULT};
    return (xcc_reading){.source = XCC_SOURCE_STEP, .index = (uint32_t)l->step_count++};
}

static double length_of(const steps *s) { return (double)xcc_row_length(s->l->f->shape, s->l->f->split); }

static xcc_reading mean(steps *s, xcc_reading v)
{
    return map_of_two(s, "Div", reduce(s, XCC_REDUCE_SUM, v), number(length_of(s)));
}

static bool same_reading(const xcc_reading *a, const xcc_reading *b)
{
    return a->source == b->source && a->source != XCC_SOURCE_NUMBER && a->index == b->index;
}

/* Something less the greatest of it: at most 0. */
static bool is_below_greatest(const xcc_loops *l, const xcc_reading *r)
{
    const xcc_step *step = r->source == XCC_SOURCE_STEP ? &l->steps[r->index] : NULL;
    if (step == NULL || step->function == NULL || strcmp(step->function, "Sub") != 0 ||
        step->operands[1].source != XCC_SOURCE_STEP)
        return false;
    const xcc_step *greatest = &l->steps[step->operands[1].index];
    return greatest->reduce == XCC_REDUCE_MAX && same_reading(&greatest->operands[0], &step->operands[0]);
}

static xcc_reading read_map(steps *s, const xcc_map *m)
{
    xcc_reading u = read_value(s->l, m->operands[0]);
    if (strcmp(m->function, "Exp") == 0 && is_below_greatest(s->l, &u))
        return map_of_one(s, "ExpNegative", u);
    if (m->operands[1] == NULL) {
        const xcc_reading operands[] = {u, number(m->alpha), number(m->beta)};
        return map(s, m->function, 3, operands);
    }
    xcc_reading v = read_value(s->l, m->operands[1]);
    if (strcmp(m->function, "Pow") == 0 && v.source == XCC_SOURCE_NUMBER && v.number == 2)
        return map_of_two(s, "Mul", u, u);
    /* One division a row. */
    if (strcmp(m->function, "Div") == 0 && v.source != XCC_SOURCE_NUMBER && xcc_is_per_row(s->l, &v) &&
        !xcc_is_per_row(s->l, &u))
        return map_of_two(s, "Mul", u, map_of_one(s, "Reciprocal", v));
    return map_of_two(s, m->function, u, v);
}

static xcc_reading read_reduction(steps *s, xcc_reading x)
{
    switch (s->node->schema->opcode) {
    case XCVM_OP_ReduceMean:
        return mean(s, x);
    case XCVM_OP_ReduceMax:
        return reduce(s, XCC_REDUCE_MAX, x);
    case XCVM_OP_ReduceMin:
        return reduce(s, XCC_REDUCE_MIN, x);
    case XCVM_OP_ReduceL1:
        return reduce(s, XCC_REDUCE_SUM, map_of_one(s, "Abs", x));
    case XCVM_OP_ReduceL2:
        return map_of_one(s, "Sqrt", reduce(s, XCC_REDUCE_SUM, map_of_two(s, "Mul", x, x)));
    case XCVM_OP_ReduceSumSquare:
        return reduce(s, XCC_REDUCE_SUM, map_of_two(s, "Mul", x, x));
    default:
        return reduce(s, XCC_REDUCE_SUM, x);
    }
}

static xcc_reading softmax(steps *s, xcc_reading x, bool logarithm)
{
    xcc_reading less = map_of_two(s, "Sub", x, reduce(s, XCC_REDUCE_MAX, x));
    xcc_reading e = map_of_one(s, "ExpNegative", less), sum = reduce(s, XCC_REDUCE_SUM, e);
    return logarithm ? map_of_two(s, "Sub", less, map_of_one(s, "Log", sum))
                     : map_of_two(s, "Mul", e, map_of_one(s, "Reciprocal", sum));
}

static xcc_reading normalize(steps *s, const xcc_member *member, double epsilon)
{
    xcc_reading x = read_value(s->l, member->operands[0]);
    if (member->kind == XCC_MEMBER_LAYER_NORM)
        x = map_of_two(s, "Sub", x, mean(s, x));
    xcc_reading square = map_of_two(s, "Add", mean(s, map_of_two(s, "Mul", x, x)), number(epsilon));
    xcc_reading y = map_of_two(s, "Mul", x, map_of_one(s, "Reciprocal", map_of_one(s, "Sqrt", square)));
    if (member->operands[1] != NULL)
        y = map_of_two(s, "Mul", y, read_value(s->l, member->operands[1]));
    return member->operands[2] != NULL ? map_of_two(s, "Add", y, read_value(s->l, member->operands[2])) : y;
}

static xcc_reading read_member(steps *s, const xcc_member *member)
{
    switch (member->kind) {
    case XCC_MEMBER_MAP:
        return read_map(s, &member->map);
    case XCC_MEMBER_REDUCE:
        return read_reduction(s, read_value(s->l, member->operands[0]));
    case XCC_MEMBER_SOFTMAX:
    case XCC_MEMBER_LOG_SOFTMAX:
        return softmax(s, read_value(s->l, member->operands[0]), member->kind == XCC_MEMBER_LOG_SOFTMAX);
    case XCC_MEMBER_LAYER_NORM:
        return normalize(s, member, XCC_ARGS(LayerNormalization, s->node)->epsilon);
    case XCC_MEMBER_RMS_NORM:
        return normalize(s, member, XCC_ARGS(RMSNormalization, s->node)->epsilon);
    default:
        return read_value(s->l, member->operands[0]);
    }
}

xcvm_status xcc_kernel_group_steps(xcc_module *m, const xcc_kernel_group *f, xcc_loops *l)
{
    l->steps = xcc_alloc(m, f->group.node_count * MOST_STEPS * sizeof *l->steps);
    l->readings = xcc_alloc(m, f->group.node_count * sizeof *l->readings);
    if (l->steps == NULL || l->readings == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < f->group.node_count; i++)
        f->group.nodes[i]->mark = (uint32_t)i;
    for (size_t i = 0; i < f->group.node_count; i++) {
        steps s = {l, f->group.nodes[i]};
        xcc_member member;
        xcc_member_classify(f->group.nodes[i], &member);
        l->readings[i] = read_member(&s, &member);
    }
    for (size_t r = 0; r < f->result_count; r++) {
        const xcc_reading *reading = &l->readings[f->results[r]];
        if (reading->source == XCC_SOURCE_STEP && l->steps[reading->index].result == XCC_NO_RESULT)
            l->steps[reading->index].result = (int)r;
    }
    return XCVM_OK;
}
