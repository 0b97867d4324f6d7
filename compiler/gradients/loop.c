/* Gradient of Loop: the body is recomputed for each iteration from the last one, from the iteration number and the
 * states, and differentiated there. So only the initial states of each iteration are kept. */
#include "compiler/gradients/control_flow.h"
#include "compiler/gradients/copying.h"
#include "compiler/gradients/rule.h"

#include <string.h>

/* How the loop keeps a state's value at the start of each iteration. */
typedef enum retention {
    KEEP_NOTHING, /* it never changes */
    KEEP_STACKED, /* a tensor of constant shape: stacked like a scan output */
    KEEP_ITEM,    /* another tensor: an item of a sequence */
    KEEP_ITEMS,   /* a sequence: its items are appended to a sequence, and their numbers are stacked */
    KEEP_NEVER    /* it cannot be kept */
} retention;

typedef struct unwinding {
    xcc_vjp *d;
    xcc_copying c;
    size_t operands, states, extra; /* of the loop: its own operands and states, and states that keep others */
    size_t count;                   /* number of values that may be kept: the states, then drawn values */
    xcc_value **kept;               /* in the body */
    retention *retentions;
    xcc_value **stacks, **starts, **ends; /* kept values; start and end of an iteration's items */
    xcc_value **places;                   /* initial placeholders in the backward iteration */
    xcc_value *trips, *round;             /* number of iterations that ran; number of the current backward iteration */
} unwinding;

static retention retention_of(const xcc_node *n, size_t state)
{
    const xcc_graph *body = n->bodies[0];
    const xcc_value *v = body->inputs[state + 2];
    if (body->outputs[state + 1] == v)
        return KEEP_NOTHING;
    if (v->type.kind == XCVM_KIND_SEQUENCE)
        return KEEP_ITEMS;
    if (v->type.kind != XCVM_KIND_TENSOR)
        return KEEP_NEVER;
    bool same = v->type.rank >= 0 && v->type.rank < XCVM_MAX_RANK;
    for (int k = 0; same && k < v->type.rank; k++)
        same = !xcc_symbol_is_of(n->graph->module, v->type.dims[k], v);
    return same ? KEEP_STACKED : KEEP_ITEM;
}

static bool can_keep(xcc_vjp *d)
{
    for (size_t i = 2; i < d->node->input_count; i++)
        if (retention_of(d->node, i - 2) == KEEP_NEVER) {
            xcc_refuse(d, "has no gradient yet if a state is an optional or a map");
            return false;
        }
    return true;
}

/* Takes the type of a state, whose sizes may differ in other iterations. */
static void take_state_type(xcc_value *v, const xcc_value *state)
{
    xcc_copy_type(v, state);
    for (int k = 0; k < v->type.rank; k++)
        if (xcc_symbol_is_of(state->graph->module, v->type.dims[k], state))
            v->type.dims[k] = XCVM_ANY_DIM;
}

/* A loop's operands and results, and its body's parameters and results, while they are extended. */
typedef struct extension {
    xcc_value **inputs, **outputs, **parameters, **results;
    size_t state_count, scan_count; /* number of additional ones */
} extension;

/* Adds a state, initially an empty sequence, and returns its value in the body. The caller sets its next value. */
static xcc_value *add_state(unwinding *u, extension *e, const xcc_value *kept, size_t *at)
{
    xcc_node *n = u->d->node;
    xcc_graph *body = n->bodies[0];
    const xcvm_dtype dtype = (xcvm_dtype)kept->type.dtype;
    xcc_builder outer = {.graph = n->graph, .before = n, .name = n->name, .origin = n->origin};
    xcc_value *empty = xcc_apply(&outer, SequenceConstruct, y, .dtype = dtype),
              *parameter = xcc_value_create(body, NULL);
    if (empty == NULL || parameter == NULL)
        return NULL;
    xcvm_set_list(&parameter->type, XCVM_KIND_SEQUENCE, dtype);
    *at = u->states + e->state_count++;
    e->inputs[*at + 2] = empty;
    e->parameters[*at + 2] = parameter;
    return parameter;
}

/* Keeps the value at the start of an iteration. `scans` is the index of the first additional scan output; *kept is the
 * loop's result with it. */
static xcvm_status keep_state(unwinding *u, extension *e, size_t i, size_t scans)
{
    xcc_node *n = u->d->node;
    xcc_graph *body = n->bodies[0];
    xcc_builder inner = {.graph = body, .name = n->name, .origin = n->origin};
    xcc_value *state = u->kept[i], *scan = NULL, *parameter, *next = NULL;
    size_t at = 0;
    switch (u->retentions[i]) {
    case KEEP_STACKED:
        scan = xcc_apply(&inner, Identity, y, .x = XCC_IN(state));
        break;
    case KEEP_ITEM:
    case KEEP_ITEMS:
        if ((parameter = add_state(u, e, state, &at)) == NULL)
            return u->c.m->error->status;
        if (u->retentions[i] == KEEP_ITEM) {
            next = xcc_apply(&inner, SequenceInsert, y, .s = XCC_IN(parameter), .x = XCC_IN(state));
        } else {
            next = xcc_apply(&inner, SequenceExtend, y, .s = XCC_IN(parameter), .more = XCC_IN(state));
            scan = xcc_apply(&inner, SequenceLength, y, .s = XCC_IN(state));
        }
        e->outputs[at + 1] = next;
        e->results[at] = u->stacks[i] = xcc_value_create(n->graph, NULL);
        if (next == NULL || u->stacks[i] == NULL)
            return u->c.m->error->status;
        u->stacks[i]->producer = n;
        break;
    default:
        return XCVM_OK;
    }
    if (u->retentions[i] == KEEP_ITEM)
        return XCVM_OK;
    xcc_value *result = xcc_value_create(n->graph, NULL);
    if (scan == NULL || result == NULL)
        return u->c.m->error->status;
    result->producer = n;
    at = scans + e->scan_count++;
    e->outputs[at + 1] = scan;
    e->results[at] = result;
    *(u->retentions[i] == KEEP_STACKED ? &u->stacks[i] : &u->ends[i]) = result;
    return XCVM_OK;
}

/* Replaces the loop's lists by the extended ones. */
static xcvm_status extend(unwinding *u, const extension *e, size_t input_count, size_t result_count)
{
    xcc_node *n = u->d->node;
    for (size_t i = 0; i < n->input_count; i++)
        xcc_node_set_input(n, i, NULL);
    n->inputs = e->inputs;
    n->input_count = input_count;
    XCVM_TRY(xcc_node_link_uses(n));
    n->outputs = e->results;
    n->output_count = result_count;
    XCVM_TRY(xcc_graph_set_inputs(n->bodies[0], input_count, e->parameters));
    return xcc_graph_set_outputs(n->bodies[0], result_count + 1, e->outputs);
}

/* Makes the loop stack its iteration numbers, so that the number of iterations is known. */
static xcvm_status keep_numbers(unwinding *u)
{
    xcc_node *n = u->d->node;
    xcc_graph *body = n->bodies[0];
    xcc_builder inner = {.graph = body, .name = n->name, .origin = n->origin};
    xcc_value **outputs = xcc_alloc(u->c.m, (body->output_count + 1) * sizeof *outputs);
    xcc_value **results = xcc_alloc(u->c.m, (n->output_count + 1) * sizeof *results);
    xcc_value *numbers = xcc_value_create(n->graph, NULL);
    xcc_value *number = xcc_apply(&inner, Identity, y, .x = XCC_IN(body->inputs[0]));
    if (outputs == NULL || results == NULL || numbers == NULL || number == NULL)
        return u->c.m->error->status;
    memcpy(outputs, body->outputs, body->output_count * sizeof *outputs);
    if (n->output_count > 0)
        memcpy(results, n->outputs, n->output_count * sizeof *results);
    outputs[body->output_count] = number;
    results[n->output_count] = numbers;
    numbers->producer = n;
    n->outputs = results;
    n->output_count++;
    XCVM_TRY(xcc_graph_set_outputs(body, body->output_count + 1, outputs));
    XCVM_TRY(xcc_node_infer(n));
    u->trips = xcc_build_reshape(u->d->b, xcc_build_dim_of(u->d->b, numbers, 0), xcc_build_ints(u->d->b, 0, NULL));
    return u->trips != NULL ? XCVM_OK : u->c.m->error->status;
}

/* Makes the loop keep initial states of iterations as determined by `retentions`. `before` is the backward loop. */
static xcvm_status keep_states(unwinding *u, xcc_node *before)
{
    xcc_node *n = u->d->node;
    xcc_graph *body = n->bodies[0];
    xcc_module *m = u->c.m;
    const size_t most = 2 * u->count + 1, old_scans = n->output_count - u->states;
    extension e = {.inputs = xcc_alloc(m, (n->input_count + most) * sizeof *e.inputs),
                   .parameters = xcc_alloc(m, (n->input_count + most) * sizeof *e.parameters),
                   .outputs = xcc_alloc(m, (body->output_count + most) * sizeof *e.outputs),
                   .results = xcc_alloc(m, (n->output_count + most) * sizeof *e.results)};
    if (e.inputs == NULL || e.parameters == NULL || e.outputs == NULL || e.results == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < u->count; i++)
        u->extra += u->retentions[i] == KEEP_ITEM || u->retentions[i] == KEEP_ITEMS;
    const size_t scans = u->states + u->extra;
    memcpy(e.inputs, n->inputs, n->input_count * sizeof *e.inputs);
    memcpy(e.parameters, body->inputs, n->input_count * sizeof *e.parameters);
    memcpy(e.outputs, body->outputs, (u->states + 1) * sizeof *e.outputs);
    memcpy(e.outputs + scans + 1, body->outputs + u->states + 1, old_scans * sizeof *e.outputs);
    memcpy(e.results, n->outputs, u->states * sizeof *e.results);
    memcpy(e.results + scans, n->outputs + u->states, old_scans * sizeof *e.results);
    for (size_t i = 0; i < u->count; i++)
        XCVM_TRY(keep_state(u, &e, i, scans + old_scans));
    XCVM_TRY(extend(u, &e, u->operands + u->extra, scans + old_scans + e.scan_count));
    XCVM_TRY(xcc_node_infer(n));
    xcc_builder outer = *u->d->b;
    outer.before = before;
    for (size_t i = 0; i < u->count; i++) {
        xcc_value *lengths = u->ends[i], *axis = xcc_scalar_i64(outer.graph, 0);
        if (u->retentions[i] != KEEP_ITEMS)
            continue;
        if (axis == NULL)
            return m->error->status;
        u->ends[i] = xcc_apply(&outer, CumSum, y, .x = XCC_IN(lengths), .axis = XCC_IN(axis));
        if ((u->starts[i] = xcc_build_sub(&outer, u->ends[i], lengths)) == NULL)
            return m->error->status;
    }
    return XCVM_OK;
}

/* Value of a state at the start of an iteration. */
static xcc_value *state_of(unwinding *u, xcc_builder *b, size_t i, xcc_value *round)
{
    xcc_value *stack = u->stacks[i], *start, *end;
    switch (u->retentions[i]) {
    case KEEP_STACKED:
        return xcc_build_gather(b, stack, round, 0);
    case KEEP_ITEM:
        return xcc_apply(b, SequenceAt, y, .s = XCC_IN(stack), .position = XCC_IN(round));
    default:
        start = xcc_build_gather(b, u->starts[i], round, 0);
        end = xcc_build_gather(b, u->ends[i], round, 0);
        if (start == NULL || end == NULL)
            return NULL;
        return xcc_apply(b, SequenceGetSlice, y, .s = XCC_IN(stack), .start = XCC_IN(start), .end = XCC_IN(end));
    }
}

/* Keeps the states that the backward iteration reads, and makes it read the kept values. */
static xcvm_status read_states(unwinding *u, xcc_node *back)
{
    xcc_graph *to = back->bodies[0];
    xcc_body_remove_unread(to, u->round);
    for (size_t i = 0; i < u->count; i++)
        if (u->places[i]->uses == 0)
            u->retentions[i] = KEEP_NOTHING;
    XCVM_TRY(keep_states(u, back));
    for (size_t i = 0; i < u->count; i++) {
        if (u->retentions[i] == KEEP_NOTHING)
            continue;
        xcc_node *place = u->places[i]->producer;
        xcc_builder b = {.graph = to, .before = place, .name = place->name, .origin = place->origin};
        xcc_value *state = state_of(u, &b, i, u->round);
        if (state == NULL)
            return u->c.m->error->status;
        take_state_type(state, u->kept[i]);
        xcc_replace_uses(to, u->places[i], state);
        xcc_node_remove(place);
    }
    return XCVM_OK;
}

/* Returns true if gradients flow through a state between iterations. */
static bool flows(const xcc_node *n, size_t state)
{
    const xcc_value *v = n->bodies[0]->inputs[state + 2];
    return xcc_is_differentiable(v) ||
           (v->type.kind != XCVM_KIND_TENSOR &&
            (v->type.dtype == XCVM_NO_DTYPE || xcvm_dtype_is_float((xcvm_dtype)v->type.dtype)));
}

/* The gradient of a state's final value. */
static xcc_value *last_gradient(unwinding *u, size_t i)
{
    xcc_node *n = u->d->node;
    if (u->d->results[i] != NULL)
        return u->d->results[i];
    if (u->retentions[i] == KEEP_NOTHING || u->retentions[i] == KEEP_STACKED)
        return xcc_zeros_like(u->d->b, n->inputs[i + 2]);
    if (n->outputs[i] == NULL) {
        if ((n->outputs[i] = xcc_value_create(n->graph, NULL)) == NULL)
            return NULL;
        n->outputs[i]->producer = n;
        if (xcc_node_infer(n) != XCVM_OK)
            return NULL;
    }
    return xcc_zeros_like(u->d->b, n->outputs[i]);
}

/* Inputs of the backward loop: the iteration number, its condition, then its states. */
static xcvm_status make_inputs(const unwinding *u, const xcc_node *back, xcc_value **inputs)
{
    const xcc_node *n = u->d->node;
    xcc_graph *to = back->bodies[0];
    for (size_t i = 0; i < back->input_count; i++) {
        if ((inputs[i] = xcc_value_create(to, NULL)) == NULL)
            return u->c.m->error->status;
        if (i < 2)
            xcvm_value_set_tensor(&inputs[i]->type, i == 0 ? XCVM_I64 : XCVM_BOOL, 0, NULL);
        else
            xcc_copy_type(inputs[i], back->inputs[i]);
    }
    for (size_t i = 0, k = 2; i < u->states; i++)
        if (flows(n, i))
            take_state_type(inputs[k++], n->bodies[0]->inputs[i + 2]);
    return xcc_graph_set_inputs(to, back->input_count, inputs);
}

/* A placeholder of the type of `like`, which is replaced once all values are kept. */
static xcc_value *make_place(xcc_builder *b, xcc_value *any, const xcc_value *like)
{
    xcc_value *place = any != NULL ? xcc_apply(b, Identity, y, .x = XCC_IN(any)) : NULL;
    if (place != NULL)
        take_state_type(place, like);
    return place;
}

/* Recomputes an iteration: copies of its nodes read its number, and placeholders for its states and kept values.
 * Placeholders of states with gradients are added to `wrt`. */
static xcvm_status copy_round(unwinding *u, xcc_builder *b, xcc_value *const *inputs, xcc_value **wrt,
                              size_t *wrt_count)
{
    const xcc_node *n = u->d->node;
    const xcc_graph *from = n->bodies[0];
    xcc_value *last = xcc_build_sub(b, u->trips, xcc_scalar_i64(b->graph, 1));
    u->round = xcc_build_sub(b, last, inputs[0]);
    if (u->round == NULL)
        return u->c.m->error->status;
    u->c.copies[from->inputs[0]->id] = u->round;
    u->c.copies[from->inputs[1]->id] = inputs[1];
    for (size_t i = 0; i < u->count; i++) {
        const bool is_state = i < u->states;
        const xcc_value *stands_for = is_state ? from->inputs[i + 2] : u->kept[i];
        xcc_value *any = is_state ? n->inputs[i + 2] : xcc_scalar(b->graph, (xcvm_dtype)stands_for->type.dtype, 0);
        if ((u->places[i] = make_place(b, any, stands_for)) == NULL)
            return u->c.m->error->status;
        u->c.copies[stands_for->id] = u->places[i];
        if (is_state && flows(n, i))
            wrt[(*wrt_count)++] = u->places[i];
    }
    return xcc_copy_nodes(&u->c, from, b->graph);
}

/* Initial gradients of an iteration: of the states at its end, and of its scan outputs. */
static xcvm_status make_seeds(unwinding *u, xcc_builder *b, xcc_value *const *inputs, xcc_seed *seeds, size_t *count)
{
    const xcc_vjp *d = u->d;
    const xcc_node *n = d->node;
    const xcc_graph *from = n->bodies[0];
    for (size_t i = 0, k = 2; i < u->states; i++)
        if (flows(n, i))
            seeds[(*count)++] = (xcc_seed){xcc_copy_of(&u->c, from->outputs[i + 1]), inputs[k++]};
    for (size_t i = u->states; i < d->result_count; i++)
        if (d->results[i] != NULL) {
            xcc_value *gradient = xcc_build_gather(b, d->results[i], u->round, 0);
            if (gradient == NULL)
                return u->c.m->error->status;
            seeds[(*count)++] = (xcc_seed){xcc_copy_of(&u->c, from->outputs[i + 1]), gradient};
        }
    return XCVM_OK;
}

/* Builds one backward iteration: reads its initial states, recomputes it, and accumulates its gradients. The states of
 * the backward loop are the gradients of the loop's states, then those of values from outside. */
static xcvm_status fill_round(unwinding *u, xcc_node *back, xcc_value *const *wrt_outside, size_t outside)
{
    const xcc_vjp *d = u->d;
    xcc_graph *to = back->bodies[0];
    xcc_builder b = {.graph = to, .name = d->b->name, .origin = d->b->origin};
    const size_t count = back->input_count;
    xcc_value **inputs = xcc_alloc(u->c.m, count * sizeof *inputs),
              **outputs = xcc_alloc(u->c.m, count * sizeof *outputs);
    xcc_value **wrt = xcc_alloc(u->c.m, 2 * count * sizeof *wrt), **gradients = wrt != NULL ? wrt + count : NULL;
    xcc_seed *seeds = xcc_alloc(u->c.m, d->node->output_count * sizeof *seeds);
    if (inputs == NULL || outputs == NULL || wrt == NULL || seeds == NULL)
        return XCVM_OUT_OF_MEMORY;
    size_t wrt_count = 0, seed_count = 0;
    XCVM_TRY(make_inputs(u, back, inputs));
    XCVM_TRY(copy_round(u, &b, inputs, wrt, &wrt_count));
    XCVM_TRY(make_seeds(u, &b, inputs, seeds, &seed_count));
    const size_t flowing = wrt_count;
    for (size_t i = 0; i < outside; i++)
        wrt[wrt_count++] = wrt_outside[i];
    XCVM_TRY(xcc_differentiate(&b, to, NULL, seeds, seed_count, wrt, wrt_count, d->straight_through, gradients));
    outputs[0] = inputs[1];
    for (size_t i = 0; i < wrt_count; i++) {
        xcc_value *g = gradients[i];
        if (i >= flowing)
            g = g != NULL ? xcc_accumulate(&b, inputs[i + 2], g) : inputs[i + 2];
        else if (g == NULL)
            g = xcc_zeros_like(&b, wrt[i]);
        if ((outputs[i + 1] = g) == NULL)
            return u->c.m->error->status;
    }
    return xcc_graph_set_outputs(to, wrt_count + 1, outputs);
}

static xcvm_status unwind(unwinding *u)
{
    xcc_vjp *d = u->d;
    const xcc_node *n = d->node;
    const size_t most = u->states + d->outside_count + 2;
    xcc_value **inputs = xcc_alloc(u->c.m, 3 * most * sizeof *inputs),
              **outputs = inputs != NULL ? inputs + most : NULL, **wrt = outputs != NULL ? outputs + most : NULL;
    xcc_value **drew;
    XCVM_TRY(xcc_body_drawn(n->bodies[0], &drew, &u->count));
    u->count += u->states;
    u->stacks = xcc_alloc(u->c.m, 5 * u->count * sizeof *u->stacks);
    u->retentions = xcc_alloc(u->c.m, u->count * sizeof *u->retentions);
    if (inputs == NULL || u->stacks == NULL || u->retentions == NULL)
        return XCVM_OUT_OF_MEMORY;
    u->starts = u->stacks + u->count;
    u->ends = u->starts + u->count;
    u->places = u->ends + u->count;
    u->kept = u->places + u->count;
    for (size_t i = 0; i < u->count; i++) {
        const bool state = i < u->states;
        u->kept[i] = state ? n->bodies[0]->inputs[i + 2] : drew[i - u->states];
        u->retentions[i] = state ? retention_of(n, i) : xcvm_dims_known(&u->kept[i]->type) ? KEEP_STACKED : KEEP_ITEM;
    }
    XCVM_TRY(keep_numbers(u));
    XCVM_TRY(xcc_copying_begin(&u->c, u->c.m));
    size_t count = 2, outside = 0;
    inputs[0] = u->trips;
    for (size_t i = 0; i < u->states; i++)
        if (flows(n, i))
            inputs[count++] = last_gradient(u, i);
    for (size_t i = 0; i < d->outside_count; i++)
        if (d->wanted[u->operands + i]) {
            wrt[outside++] = d->outside[i];
            inputs[count++] = xcc_zeros_like(d->b, d->outside[i]);
        }
    for (size_t i = 2; i < count; i++)
        if (inputs[i] == NULL || (outputs[i - 2] = xcc_value_create(d->b->graph, NULL)) == NULL)
            return u->c.m->error->status;
    xcc_node *back = xcc_append_control(d->b, XCC_LOOP, count, inputs, count - 2, outputs, 1);
    if (back == NULL)
        return u->c.m->error->status;
    XCVM_TRY(fill_round(u, back, wrt, outside));
    XCVM_TRY(read_states(u, back));
    XCVM_TRY(xcc_loop_infer_body(back));
    XCVM_TRY(xcc_node_infer(back));
    size_t next = 0;
    for (size_t i = 0; i < u->states; i++) {
        if (!flows(n, i))
            continue;
        if (d->wanted[i + 2])
            xcc_set_gradient(d, i + 2, outputs[next]);
        next++;
    }
    for (size_t i = 0; i < d->outside_count; i++)
        if (d->wanted[u->operands + i])
            xcc_set_gradient(d, u->operands + i, outputs[next++]);
    return XCVM_OK;
}

void xcc_gradient_of_loop(xcc_vjp *d)
{
    unwinding u = {
        .d = d, .c = {.m = d->b->graph->module}, .operands = d->node->input_count, .states = d->node->input_count - 2};
    if (!can_keep(d) || !xcc_bodies_can_copy(d))
        return;
    d->failed = unwind(&u) != XCVM_OK;
    xcc_copying_end(&u.c);
}
