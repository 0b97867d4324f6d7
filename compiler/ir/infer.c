/* Type and shape inference for every value; loop states are iterated to a fixed point. */
#include "compiler/ir/graph.h"

#include <string.h>

/* Rounds for the types of a loop's states to reach a fixed point before their dimensions become open. */
enum { WIDENING_ROUNDS = 4 };

/* ---- Merging old and new knowledge ---- */

/* Both `type`, just inferred, and `old` are valid: keeps the more specific parts, and names open dimensions. */
static xcvm_status refine(xcc_module *m, xcvm_value *type, const xcvm_value *old)
{
    bool comparable = old->kind == type->kind && old->dtype == type->dtype;
    if (comparable && type->kind == XCVM_KIND_TENSOR && type->rank < 0 && old->rank >= 0)
        xcvm_value_set_tensor(type, type->dtype, old->rank, old->dims);
    if (type->kind != XCVM_KIND_TENSOR || type->rank < 0)
        return XCVM_OK;
    comparable = comparable && old->rank == type->rank;
    int64_t dims[XCVM_MAX_RANK];
    for (int i = 0; i < type->rank; i++) {
        dims[i] = type->dims[i];
        if (comparable && (dims[i] == XCVM_ANY_DIM || (dims[i] < 0 && old->dims[i] >= 0)))
            dims[i] = old->dims[i];
        if (dims[i] == XCVM_ANY_DIM && (dims[i] = xcc_symbol(m, NULL)) == XCVM_ANY_DIM)
            return XCVM_OUT_OF_MEMORY;
    }
    xcvm_value_set_tensor(type, type->dtype, type->rank, dims);
    return XCVM_OK;
}

/* Common knowledge about both values; differing dimensions become XCVM_ANY_DIM. A `to` without kind becomes `from`. */
static void join(xcvm_value *to, const xcvm_value *from)
{
    if (to->kind == XCVM_KIND_NULL) {
        if (from->kind == XCVM_KIND_TENSOR && from->rank >= 0) {
            xcvm_value_set_tensor(to, from->dtype, from->rank, from->dims);
        } else {
            to->kind = from->kind;
            to->dtype = from->dtype;
            to->rank = -1;
            to->dims[0] = from->dims[0]; /* of lists: their nesting depth */
        }
        return;
    }
    /* The kind of an optional's value is known only at run time. */
    if (from->kind == XCVM_KIND_NULL)
        return;
    if (to->kind != from->kind)
        to->kind = XCVM_KIND_NULL;
    if (to->dtype != from->dtype && (to->kind != XCVM_KIND_SEQUENCE || from->dtype != XCVM_NO_DTYPE))
        to->dtype = to->dtype == XCVM_NO_DTYPE && to->kind == XCVM_KIND_SEQUENCE ? from->dtype : XCVM_NO_DTYPE;
    if (to->rank != from->rank || to->kind != XCVM_KIND_TENSOR)
        to->rank = -1;
    if (to->rank < 0)
        return;
    int64_t dims[XCVM_MAX_RANK];
    for (int i = 0; i < to->rank; i++)
        dims[i] = to->dims[i] == from->dims[i] ? to->dims[i] : XCVM_ANY_DIM;
    xcvm_value_set_tensor(to, to->dtype, to->rank, dims);
}

/* Only kind, dtype, rank and dims: a constant's type without its elements. */
static xcvm_value type_only(const xcvm_value *v)
{
    xcvm_value type = {.rank = -1};
    join(&type, v);
    return type;
}

static bool same_type(const xcvm_value *a, const xcvm_value *b)
{
    if (a->kind != b->kind || a->dtype != b->dtype)
        return false;
    if (a->kind != XCVM_KIND_TENSOR)
        return true;
    return a->rank == b->rank && (a->rank < 0 || xcvm_same_shape(a, b));
}

static void take_type(xcc_value *v, const xcvm_value *type)
{
    v->type.kind = type->kind;
    v->type.dtype = type->dtype;
    v->type.rank = type->rank;
    v->type.dims[0] = type->dims[0];
    if (type->kind == XCVM_KIND_TENSOR && type->rank >= 0)
        xcvm_value_set_tensor(&v->type, type->dtype, type->rank, type->dims);
}

/* ---- Instructions ---- */

static void name_culprit(const xcc_node *n)
{
    xcvm_error *error = n->graph->module->error;
    if (error == NULL || error->node[0] != '\0')
        return;
    strncpy(error->node, n->name, sizeof error->node - 1);
    const char *what = n->kind == XCC_INSTRUCTION ? n->schema->name : n->kind == XCC_IF ? "If" : "Loop";
    strncpy(error->instruction, what, sizeof error->instruction - 1);
}

enum { FEW = 16 };

/* A node as shape and cost rules see it; up to FEW operands are stored without allocation. */
typedef struct node_inference {
    xcvm_inference t;
    xcvm_value *old; /* memory for the types of the results */
    size_t bytes;
    void *memory;
    const xcvm_value *few_in[FEW];
    xcvm_value *few_out[FEW];
    xcvm_value few_old[FEW];
} node_inference;

static xcvm_status inference_begin(const xcc_node *n, node_inference *s)
{
    xcc_module *m = n->graph->module;
    size_t in = xcc_node_input_count(n), out = xcc_node_output_count(n);
    const xcvm_value **ins = s->few_in;
    xcvm_value **outs = s->few_out;
    s->old = s->few_old;
    s->memory = NULL;
    if (in > FEW || out > FEW) {
        s->bytes = in * sizeof *ins + out * (sizeof *outs + sizeof *s->old);
        s->memory = xcvm_allocate(m->allocator, s->bytes);
        if (s->memory == NULL)
            return xcc_out_of_memory(m);
        s->old = s->memory;
        ins = (const xcvm_value **)(void *)(s->old + out);
        outs = (xcvm_value **)(void *)(ins + in);
    }
    size_t i = 0, o = 0;
    for (size_t f = 0; f < n->schema->field_count; f++) {
        const xcvm_field *field = &n->schema->fields[f];
        size_t count = xcvm_field_is_operand(field) ? xcvm_field_count(field, n->args) : 0;
        for (size_t k = 0; k < count; k++) {
            const xcvm_value *v = xcvm_field_value(field, n->args, k);
            if (field->role == XCVM_ROLE_OUT)
                outs[o++] = v != NULL ? &xcc_value_of(v)->type : NULL;
            else
                ins[i++] = v;
        }
    }
    s->t = (xcvm_inference){n->schema, n->args, ins, in, outs, out, m->error};
    return XCVM_OK;
}

static void inference_end(const xcc_node *n, node_inference *s)
{
    if (s->memory != NULL)
        xcvm_deallocate(n->graph->module->allocator, s->memory, s->bytes);
}

static xcvm_status infer_instruction(xcc_node *n)
{
    xcc_module *m = n->graph->module;
    node_inference s;
    if (n->schema->shape == NULL)
        return xcvm_error_set(m->error, XCVM_UNSUPPORTED, "%s has no shape rule", n->schema->name);
    XCVM_TRY(inference_begin(n, &s));
    for (size_t i = 0; i < s.t.out_count; i++)
        if (s.t.out[i] != NULL)
            s.old[i] = type_only(s.t.out[i]);
    xcvm_status status = xcvm_infer(&s.t);
    for (size_t i = 0; i < s.t.out_count && status == XCVM_OK; i++)
        if (s.t.out[i] != NULL)
            status = refine(m, s.t.out[i], &s.old[i]);
    inference_end(n, &s);
    return status;
}

/* ---- Control flow ---- */

static xcvm_status infer_if(xcc_node *n)
{
    xcc_module *m = n->graph->module;
    const xcvm_value *cond = XCC_IN(n->inputs[0]);
    if (cond != NULL && (cond->kind != XCVM_KIND_TENSOR || cond->dtype != XCVM_BOOL))
        return xcvm_error_set(m->error, XCVM_TYPE_MISMATCH, "the condition is no boolean tensor");
    for (size_t i = 0; i < n->output_count; i++) {
        const xcc_graph *a = n->bodies[0], *b = n->bodies[1];
        if (a->output_count != n->output_count || b->output_count != n->output_count)
            return xcvm_error_set(m->error, XCVM_INVALID_MODEL, "the branches have %zu and %zu results; expected %zu",
                                  a->output_count, b->output_count, n->output_count);
        if (n->outputs[i] == NULL)
            continue;
        xcvm_value type = type_only(&a->outputs[i]->type), old = type_only(&n->outputs[i]->type);
        join(&type, &b->outputs[i]->type);
        if (type.kind == XCVM_KIND_NULL || (type.kind == XCVM_KIND_TENSOR && type.dtype == XCVM_NO_DTYPE))
            return xcvm_error_set(m->error, XCVM_TYPE_MISMATCH, "the types of %s in the branches differ",
                                  n->outputs[i]->name);
        XCVM_TRY(refine(m, &type, &old));
        take_type(n->outputs[i], &type);
    }
    return XCVM_OK;
}

static bool constant_bool(const xcc_value *v, bool *value)
{
    if (!xcc_is_constant(v) || v->type.dtype != XCVM_BOOL || xcvm_element_count(&v->type) != 1)
        return false;
    *value = *XCVM_CDATA(bool, &v->type);
    return true;
}

/* Returns the certain number of a loop's iterations: its count is constant, and nothing can stop it early. */
bool xcc_loop_trips(const xcc_node *loop, int64_t *trips)
{
    const xcc_value *count = loop->inputs[0], *cond = loop->inputs[1];
    const xcc_graph *body = loop->bodies[0];
    bool value;
    if (cond != NULL && constant_bool(cond, &value) && !value) {
        *trips = 0;
        return true;
    }
    if (!xcc_is_constant(count) || xcvm_element_count(&count->type) != 1)
        return false;
    *trips = xcvm_element_as_int(&count->type, 0);
    *trips = *trips < 0 ? 0 : *trips;
    if (*trips == 0)
        return true;
    if (cond != NULL && !(constant_bool(cond, &value) && value))
        return false;
    const xcc_value *next = body->output_count > 0 ? body->outputs[0] : NULL;
    while (next != NULL && next->producer != NULL && xcc_is(next->producer, XCVM_OP_Identity))
        next = xcc_node_input(next->producer, 0);
    return next == body->inputs[1] || (constant_bool(next, &value) && value);
}

static size_t state_count(const xcc_node *loop) { return loop->input_count - 2; }

static xcvm_status check_loop(const xcc_node *n)
{
    xcvm_error *error = n->graph->module->error;
    const xcc_graph *body = n->bodies[0];
    size_t states = state_count(n);
    if (body->input_count != states + 2)
        return xcvm_error_set(error, XCVM_INVALID_MODEL, "the loop's body has %zu inputs; expected %zu",
                              body->input_count, states + 2);
    if (body->output_count < states + 1 || body->output_count != n->output_count + 1)
        return xcvm_error_set(error, XCVM_INVALID_MODEL, "the loop's body has %zu results; expected %zu",
                              body->output_count, n->output_count + 1);
    return XCVM_OK;
}

static xcvm_status infer_loop(xcc_node *n)
{
    xcc_module *m = n->graph->module;
    const xcc_graph *body = n->bodies[0];
    XCVM_TRY(check_loop(n));
    int64_t trips = XCVM_ANY_DIM;
    bool known = xcc_loop_trips(n, &trips);
    for (size_t i = 0; i < n->output_count; i++) {
        if (n->outputs[i] == NULL)
            continue;
        const xcvm_value *each = &body->outputs[i + 1]->type;
        xcvm_value type = type_only(each), old = type_only(&n->outputs[i]->type);
        if (i < state_count(n)) {
            /* After zero iterations the state is unchanged. */
            join(&type, &n->inputs[i + 2]->type);
        } else {
            if (each->kind != XCVM_KIND_TENSOR)
                return xcvm_error_set(m->error, XCVM_TYPE_MISMATCH, "%s is no tensor, so it cannot be stacked",
                                      body->outputs[i + 1]->name);
            if (each->rank >= XCVM_MAX_RANK)
                return xcvm_error_set(m->error, XCVM_UNSUPPORTED, "the result %s would have rank %d, %d is the limit",
                                      n->outputs[i]->name, each->rank + 1, XCVM_MAX_RANK);
            if (each->rank >= 0) {
                int64_t dims[XCVM_MAX_RANK] = {known ? trips : XCVM_ANY_DIM};
                for (int k = 0; k < each->rank; k++) {
                    /* A made-up symbol of the body has another size in each iteration. */
                    bool local = each->dims[k] < 0 && xcc_symbol_name(m, each->dims[k]) == NULL;
                    dims[k + 1] = local ? XCVM_ANY_DIM : each->dims[k];
                }
                xcvm_value_set_tensor(&type, each->dtype, each->rank + 1, dims);
            }
        }
        XCVM_TRY(refine(m, &type, &old));
        take_type(n->outputs[i], &type);
    }
    return XCVM_OK;
}

static xcvm_status widen_parameter(xcc_module *m, xcc_value *parameter, const xcvm_value *by, bool *changed)
{
    xcvm_value type = type_only(&parameter->type);
    join(&type, by);
    if (type.kind == XCVM_KIND_NULL || (type.kind == XCVM_KIND_TENSOR && type.dtype == XCVM_NO_DTYPE)) {
        char was[96], is[96];
        return xcvm_error_set(m->error, XCVM_TYPE_MISMATCH, "the loop's state %s starts as %s and becomes %s",
                              parameter->name, xcvm_value_describe(&parameter->type, was, sizeof was),
                              xcvm_value_describe(by, is, sizeof is));
    }
    for (int i = 0; i < type.rank; i++)
        if (xcc_symbol_is_of(m, parameter->type.dims[i], parameter))
            type.dims[i] = parameter->type.dims[i];
    if (same_type(&type, &parameter->type))
        return XCVM_OK;
    for (int i = 0; i < type.rank; i++)
        if (type.dims[i] == XCVM_ANY_DIM && (type.dims[i] = xcc_symbol_of(m, parameter)) == XCVM_ANY_DIM)
            return XCVM_OUT_OF_MEMORY;
    take_type(parameter, &type);
    *changed = true;
    return XCVM_OK;
}

xcvm_status xcc_loop_widen(xcc_node *loop, bool *changed)
{
    xcc_module *m = loop->graph->module;
    xcc_graph *body = loop->bodies[0];
    *changed = false;
    XCVM_TRY(check_loop(loop));
    for (size_t i = 1; i < body->input_count; i++) {
        xcc_value *parameter = body->inputs[i];
        xcvm_value absent = {.rank = -1};
        xcvm_value_set_tensor(&absent, XCVM_BOOL, 0, NULL);
        XCVM_TRY(widen_parameter(m, parameter, loop->inputs[i] != NULL ? &loop->inputs[i]->type : &absent, changed));
        if (body->outputs[i - 1]->type.kind != XCVM_KIND_NULL)
            XCVM_TRY(widen_parameter(m, parameter, &body->outputs[i - 1]->type, changed));
    }
    return XCVM_OK;
}

static void forget_types(xcc_graph *g)
{
    for (xcc_node *n = g->first; n != NULL; n = n->next) {
        size_t count = xcc_node_output_count(n);
        for (size_t i = 0; i < count; i++) {
            xcc_value *v = xcc_node_output(n, i);
            if (v != NULL)
                take_type(v, &(xcvm_value){.rank = -1});
        }
        for (size_t i = 0; i < n->body_count; i++)
            forget_types(n->bodies[i]);
    }
}

static xcvm_status infer_graph(xcc_graph *g)
{
    for (xcc_node *n = g->first; n != NULL; n = n->next) {
        XCVM_TRY(xcc_poll(g->module));
        if (n->kind == XCC_LOOP)
            XCVM_TRY(xcc_loop_infer_body(n));
        else
            for (size_t i = 0; i < n->body_count; i++)
                XCVM_TRY(infer_graph(n->bodies[i]));
        XCVM_TRY(xcc_node_infer(n));
    }
    return XCVM_OK;
}

/* A nested loop keeps its widened types while the outer loop is iterated to its fixed point, so that rounds add up
 * instead of multiplying. */
xcvm_status xcc_loop_infer_body(xcc_node *loop)
{
    xcc_graph *body = loop->bodies[0];
    bool changed;
    XCVM_TRY(check_loop(loop));
    xcvm_value iteration = {.rank = -1};
    xcvm_value_set_tensor(&iteration, XCVM_I64, 0, NULL);
    take_type(body->inputs[0], &iteration);
    forget_types(body);
    XCVM_TRY(xcc_loop_widen(loop, &changed));
    for (int round = 0;; round++) {
        XCVM_TRY(infer_graph(body));
        xcvm_status status = xcc_loop_widen(loop, &changed);
        if (status != XCVM_OK)
            name_culprit(loop);
        if (status != XCVM_OK || !changed)
            return status;
        forget_types(body);
        for (size_t i = 2; round >= WIDENING_ROUNDS && i < body->input_count; i++)
            body->inputs[i]->type.rank = -1;
    }
}

static void forget_parameters(xcc_graph *g)
{
    for (xcc_node *n = g->first; n != NULL; n = n->next)
        for (size_t i = 0; i < n->body_count; i++) {
            for (size_t k = 0; k < n->bodies[i]->input_count; k++)
                take_type(n->bodies[i]->inputs[k], &(xcvm_value){.rank = -1});
            forget_parameters(n->bodies[i]);
        }
}

/* ---- Whole graphs ---- */

xcvm_status xcc_node_infer(xcc_node *n)
{
    xcvm_status status = n->kind == XCC_INSTRUCTION ? infer_instruction(n)
                         : n->kind == XCC_IF        ? infer_if(n)
                                                    : infer_loop(n);
    if (status != XCVM_OK)
        name_culprit(n);
    return status;
}

xcvm_status xcc_graph_infer(xcc_graph *g)
{
    forget_parameters(g);
    return infer_graph(g);
}

/* ---- Cost ---- */

/* Open dimensions temporarily become 1 for a cost rule. Open ranks give a cost of 0. */
static uint64_t instruction_flops(const xcc_node *n)
{
    node_inference s;
    if (n->schema->cost == NULL || inference_begin(n, &s) != XCVM_OK)
        return 0;
    bool countable = true;
    size_t total = s.t.in_count + s.t.out_count;
    for (size_t i = 0; i < total; i++) {
        const xcvm_value *v = i < s.t.in_count ? s.t.in[i] : s.t.out[i - s.t.in_count];
        countable = countable && (v == NULL || (v->kind == XCVM_KIND_TENSOR && v->rank >= 0));
    }
    int64_t(*dims)[XCVM_MAX_RANK] = NULL;
    size_t bytes = total * sizeof *dims;
    if (countable && (dims = xcvm_allocate(n->graph->module->allocator, bytes)) == NULL)
        countable = false;
    uint64_t flops = 0;
    if (countable) {
        for (size_t i = 0; i < total; i++) {
            xcc_value *v = xcc_value_of(i < s.t.in_count ? s.t.in[i] : s.t.out[i - s.t.in_count]);
            if (v != NULL)
                memcpy(dims[i], v->type.dims, sizeof *dims);
        }
        for (size_t i = 0; i < total; i++) {
            xcc_value *v = xcc_value_of(i < s.t.in_count ? s.t.in[i] : s.t.out[i - s.t.in_count]);
            for (int d = 0; v != NULL && d < v->type.rank; d++)
                if (v->type.dims[d] < 0)
                    v->type.dims[d] = 1;
        }
        flops = n->schema->cost(&s.t);
        for (size_t i = 0; i < total; i++) {
            xcc_value *v = xcc_value_of(i < s.t.in_count ? s.t.in[i] : s.t.out[i - s.t.in_count]);
            if (v != NULL)
                memcpy(v->type.dims, dims[i], sizeof *dims);
        }
        xcvm_deallocate(n->graph->module->allocator, dims, bytes);
    }
    inference_end(n, &s);
    return flops;
}

uint64_t xcc_node_flops(const xcc_node *n)
{
    if (n->kind == XCC_INSTRUCTION)
        return instruction_flops(n);
    uint64_t most = 0;
    for (size_t i = 0; i < n->body_count; i++) {
        uint64_t sum = 0;
        for (const xcc_node *inner = n->bodies[i]->first; inner != NULL; inner = inner->next)
            if (__builtin_add_overflow(sum, xcc_node_flops(inner), &sum))
                sum = UINT64_MAX;
        most = sum > most ? sum : most;
    }
    int64_t trips;
    if (n->kind == XCC_LOOP && xcc_loop_trips(n, &trips) && __builtin_mul_overflow(most, (uint64_t)trips, &most))
        most = UINT64_MAX;
    return most;
}
