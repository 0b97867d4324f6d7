/* If and Loop. Their bodies are computed again in the backward, from the condition, the iteration and the states, and
 * differentiated there; so nothing is kept of a round but the states that it began with. */
#include "compiler/gradients/control_flow.h"
#include "compiler/gradients/rule.h"

#include <string.h>

/* ---- Copies of bodies ---- */

typedef struct copying {
    xcc_module *m;
    xcc_value **copies; /* by value id; NULL: the value is from outside, and is read as it is */
    uint32_t values;
    xcc_graph *to; /* where nodes are copied to */
} copying;

static xcc_value *copy_of(const copying *c, xcc_value *v)
{
    return v != NULL && v->id < c->values && c->copies[v->id] != NULL ? c->copies[v->id] : v;
}

static xcc_value *new_copy(copying *c, xcc_graph *to, const xcc_value *v)
{
    xcc_value *copy = v != NULL ? xcc_value_create(to, NULL) : NULL;
    if (copy != NULL)
        c->copies[v->id] = copy;
    return copy;
}

static xcvm_status copy_nodes(copying *c, const xcc_graph *from, xcc_graph *to);

static xcvm_status copied(void *user, xcc_value *v, bool is_result, xcc_value **copy)
{
    copying *c = user;
    *copy = is_result ? new_copy(c, c->to, v) : copy_of(c, v);
    return *copy != NULL ? XCVM_OK : c->m->error->status;
}

static void take_type(xcc_value *v, const xcc_value *from)
{
    v->type.kind = from->type.kind;
    v->type.dtype = from->type.dtype;
    v->type.rank = from->type.rank;
    memcpy(v->type.dims, from->type.dims, sizeof v->type.dims);
}

static xcvm_status copy_control(copying *c, const xcc_node *n, xcc_builder *b)
{
    xcc_value **inputs = xcc_alloc(c->m, n->input_count * sizeof *inputs);
    xcc_value **outputs = xcc_alloc(c->m, n->output_count * sizeof *outputs);
    if (inputs == NULL || outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < n->input_count; i++)
        inputs[i] = copy_of(c, n->inputs[i]);
    for (size_t i = 0; i < n->output_count; i++)
        if (n->outputs[i] != NULL && (outputs[i] = new_copy(c, b->graph, n->outputs[i])) == NULL)
            return c->m->error->status;
    xcc_node *copy = xcc_append_control(b, n->kind, n->input_count, inputs, n->output_count, outputs, n->body_count);
    if (copy == NULL)
        return c->m->error->status;
    for (size_t i = 0; i < n->body_count; i++) {
        const xcc_graph *from = n->bodies[i];
        xcc_graph *to = copy->bodies[i];
        xcc_value **ends = xcc_alloc(c->m, (from->input_count + from->output_count) * sizeof *ends);
        if (ends == NULL)
            return XCVM_OUT_OF_MEMORY;
        for (size_t k = 0; k < from->input_count; k++) {
            if ((ends[k] = new_copy(c, to, from->inputs[k])) == NULL)
                return c->m->error->status;
            take_type(ends[k], from->inputs[k]);
        }
        XCVM_TRY(xcc_graph_set_inputs(to, from->input_count, ends));
        XCVM_TRY(copy_nodes(c, from, to));
        for (size_t k = 0; k < from->output_count; k++)
            ends[k] = copy_of(c, from->outputs[k]);
        XCVM_TRY(xcc_graph_set_outputs(to, from->output_count, ends));
    }
    if (n->kind == XCC_LOOP)
        XCVM_TRY(xcc_loop_infer_body(copy));
    return xcc_node_infer(copy);
}

static xcvm_status copy_nodes(copying *c, const xcc_graph *from, xcc_graph *to)
{
    for (const xcc_node *n = from->first; n != NULL; n = n->next) {
        xcc_builder b = {.graph = to, .name = n->name, .origin = n->origin};
        XCVM_TRY(xcc_poll(c->m));
        c->to = to;
        if (n->kind != XCC_INSTRUCTION)
            XCVM_TRY(copy_control(c, n, &b));
        else if (xcc_node_copy(&b, n, copied, c) == NULL)
            return c->m->error->status;
    }
    return XCVM_OK;
}

/* Computed again, it would draw other numbers. */
static bool draws(const xcc_graph *g)
{
    for (const xcc_node *n = g->first; n != NULL; n = n->next) {
        if (n->kind == XCC_INSTRUCTION && n->schema->effect == XCVM_RANDOM)
            return true;
        for (size_t i = 0; i < n->body_count; i++)
            if (draws(n->bodies[i]))
                return true;
    }
    return false;
}

static bool can_copy(xcc_vjp *d)
{
    for (size_t i = 0; i < d->node->body_count; i++)
        if (draws(d->node->bodies[i])) {
            xcc_refuse(d, "has no gradient yet where its body draws random numbers");
            return false;
        }
    return true;
}

/* From here on, what is copied gets no more values. */
static xcvm_status begin_copying(copying *c, xcc_module *m)
{
    *c = (copying){.m = m, .values = m->value_count};
    c->copies = xcvm_allocate_zeroed(m->allocator, c->values * sizeof *c->copies);
    return c->copies != NULL ? XCVM_OK : xcc_out_of_memory(m);
}

static void end_copying(copying *c)
{
    if (c->copies != NULL)
        xcvm_deallocate(c->m->allocator, c->copies, c->values * sizeof *c->copies);
}

/* ---- If ---- */

/* The gradients of `wrt` in one branch, as its outputs; zeros where the branch does not use them. */
static xcvm_status fill_branch(xcc_vjp *d, copying *c, const xcc_graph *from, xcc_graph *to, xcc_value *const *wrt,
                               size_t count)
{
    xcc_builder b = {.graph = to, .name = d->b->name, .origin = d->b->origin};
    xcc_seed *seeds = xcc_alloc(c->m, from->output_count * sizeof *seeds);
    xcc_value **gradients = xcc_alloc(c->m, count * sizeof *gradients);
    size_t seed_count = 0;
    if (seeds == NULL || gradients == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(copy_nodes(c, from, to));
    for (size_t i = 0; i < from->output_count; i++)
        if (d->results[i] != NULL)
            seeds[seed_count++] = (xcc_seed){copy_of(c, from->outputs[i]), d->results[i]};
    XCVM_TRY(xcc_differentiate(&b, to, NULL, seeds, seed_count, wrt, count, gradients));
    for (size_t i = 0; i < count; i++) {
        xcc_value *g = gradients[i];
        if (g == NULL)
            g = xcc_zeros_like(&b, wrt[i]);
        if (g != NULL && g->graph != to)
            g = xcc_apply(&b, Identity, y, .x = XCC_IN(g));
        if ((gradients[i] = g) == NULL)
            return c->m->error->status;
    }
    return xcc_graph_set_outputs(to, count, gradients);
}

void xcc_gradient_of_if(xcc_vjp *d)
{
    xcc_node *n = d->node;
    copying c;
    if (!can_copy(d))
        return;
    d->failed = begin_copying(&c, d->b->graph->module) != XCVM_OK;
    if (d->failed)
        return;
    xcc_value **wrt = xcc_alloc(c.m, 2 * d->outside_count * sizeof *wrt), **outputs = wrt + d->outside_count;
    size_t count = 0;
    d->failed = wrt == NULL;
    for (size_t i = 0; i < d->outside_count && !d->failed; i++)
        if (d->wanted[n->input_count + i]) {
            wrt[count] = d->outside[i];
            outputs[count] = xcc_value_create(d->b->graph, NULL);
            d->failed = outputs[count++] == NULL;
        }
    xcc_node *back = d->failed ? NULL : xcc_append_control(d->b, XCC_IF, 1, n->inputs, count, outputs, 2);
    d->failed = back == NULL;
    for (size_t i = 0; i < 2 && !d->failed; i++)
        d->failed = fill_branch(d, &c, n->bodies[i], back->bodies[i], wrt, count) != XCVM_OK;
    d->failed = d->failed || xcc_node_infer(back) != XCVM_OK;
    for (size_t i = d->outside_count; i-- > 0 && !d->failed;)
        if (d->wanted[n->input_count + i])
            xcc_give(d, n->input_count + i, outputs[--count]);
    end_copying(&c);
}

/* ---- Loop ---- */

typedef struct unwinding {
    xcc_vjp *d;
    copying c;
    size_t states;
    xcc_value **stacks; /* for each state, what it was at the beginning of each round; NULL: it never changes */
    xcc_value *trips;   /* rounds that were run, a scalar */
} unwinding;

/* A state that can be kept is a tensor of one shape. */
static bool can_keep(xcc_vjp *d)
{
    const xcc_node *n = d->node;
    for (size_t i = 2; i < n->input_count; i++) {
        const xcc_value *state = n->bodies[0]->inputs[i];
        bool same = state->type.kind == XCVM_KIND_TENSOR && state->type.rank >= 0 && state->type.rank < XCVM_MAX_RANK;
        for (int k = 0; same && k < state->type.rank; k++)
            same = !xcc_symbol_is_of(n->graph->module, state->type.dims[k], state);
        if (!same) {
            xcc_refuse(d, "has no gradient yet where a state is no tensor that keeps its shape");
            return false;
        }
    }
    return true;
}

/* Makes the loop stack the states that its rounds begin with, and their numbers. */
static xcvm_status keep_states(unwinding *u)
{
    xcc_node *n = u->d->node;
    xcc_graph *body = n->bodies[0];
    xcc_builder inner = {.graph = body, .name = n->name, .origin = n->origin};
    const size_t most = u->states + 1;
    xcc_value **outputs = xcc_alloc(u->c.m, (body->output_count + most) * sizeof *outputs);
    xcc_value **results = xcc_alloc(u->c.m, (n->output_count + most) * sizeof *results);
    if (outputs == NULL || results == NULL)
        return XCVM_OUT_OF_MEMORY;
    memcpy(outputs, body->outputs, body->output_count * sizeof *outputs);
    memcpy(results, n->outputs, n->output_count * sizeof *results);
    size_t count = n->output_count;
    xcc_value *numbers = NULL;
    for (size_t i = 0; i < most; i++) {
        const bool state = i < u->states;
        xcc_value *kept = body->inputs[state ? i + 2 : 0];
        if (state && body->outputs[i + 1] == kept)
            continue;
        outputs[count + 1] = xcc_apply(&inner, Identity, y, .x = XCC_IN(kept));
        results[count] = xcc_value_create(n->graph, NULL);
        if (outputs[count + 1] == NULL || results[count] == NULL)
            return u->c.m->error->status;
        results[count]->producer = n;
        *(state ? &u->stacks[i] : &numbers) = results[count++];
    }
    n->outputs = results;
    n->output_count = count;
    XCVM_TRY(xcc_graph_set_outputs(body, count + 1, outputs));
    XCVM_TRY(xcc_node_infer(n));
    u->trips = xcc_build_reshape(u->d->b, xcc_build_dim_of(u->d->b, numbers, 0), xcc_build_ints(u->d->b, 0, NULL));
    return u->trips != NULL ? XCVM_OK : u->c.m->error->status;
}

/* Whether a state carries a gradient from round to round. */
static bool flows(const xcc_node *n, size_t state) { return xcc_is_differentiable(n->bodies[0]->inputs[state + 2]); }

/* One round backwards: what the round began with is read, the round is run again, and its gradients are added up. The
 * states of the loop are the gradients of those of the loop that it unwinds, then those of values from outside. */
static xcvm_status fill_round(unwinding *u, xcc_node *back, xcc_value *const *wrt_outside, size_t outside)
{
    xcc_vjp *d = u->d;
    const xcc_node *n = d->node;
    const xcc_graph *from = n->bodies[0];
    xcc_graph *to = back->bodies[0];
    xcc_builder b = {.graph = to, .name = d->b->name, .origin = d->b->origin};
    const size_t count = back->input_count;
    xcc_value **inputs = xcc_alloc(u->c.m, count * sizeof *inputs),
              **outputs = xcc_alloc(u->c.m, count * sizeof *outputs);
    xcc_value **wrt = xcc_alloc(u->c.m, 2 * count * sizeof *wrt), **gradients = wrt + count;
    xcc_seed *seeds = xcc_alloc(u->c.m, n->output_count * sizeof *seeds);
    if (inputs == NULL || outputs == NULL || wrt == NULL || seeds == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if ((inputs[i] = xcc_value_create(to, NULL)) == NULL)
            return u->c.m->error->status;
        if (i < 2)
            xcvm_value_set_tensor(&inputs[i]->type, i == 0 ? XCVM_I64 : XCVM_BOOL, 0, NULL);
        else
            take_type(inputs[i], back->inputs[i]);
    }
    XCVM_TRY(xcc_graph_set_inputs(to, count, inputs));
    xcc_value *last = xcc_build_sub(&b, u->trips, xcc_scalar_i64(to, 1)), *round = xcc_build_sub(&b, last, inputs[0]);
    u->c.copies[from->inputs[0]->id] = round;
    u->c.copies[from->inputs[1]->id] = inputs[1];
    size_t wrt_count = 0, seed_count = 0;
    for (size_t i = 0; i < u->states && round != NULL; i++) {
        xcc_value *state = u->stacks[i] != NULL ? xcc_build_gather(&b, u->stacks[i], round, 0)
                                                : xcc_apply(&b, Identity, y, .x = XCC_IN(n->inputs[i + 2]));
        if (state == NULL)
            return u->c.m->error->status;
        u->c.copies[from->inputs[i + 2]->id] = state;
        if (flows(n, i))
            wrt[wrt_count++] = state;
    }
    if (round == NULL)
        return u->c.m->error->status;
    XCVM_TRY(copy_nodes(&u->c, from, to));
    for (size_t i = 0, k = 2; i < u->states; i++)
        if (flows(n, i))
            seeds[seed_count++] = (xcc_seed){copy_of(&u->c, from->outputs[i + 1]), inputs[k++]};
    const size_t flowing = wrt_count, stacked = from->output_count - 1;
    for (size_t i = u->states; i < stacked && i < d->result_count; i++)
        if (d->results[i] != NULL) {
            seeds[seed_count] =
                (xcc_seed){copy_of(&u->c, from->outputs[i + 1]), xcc_build_gather(&b, d->results[i], round, 0)};
            if (seeds[seed_count++].gradient == NULL)
                return u->c.m->error->status;
        }
    for (size_t i = 0; i < outside; i++)
        wrt[wrt_count++] = wrt_outside[i];
    XCVM_TRY(xcc_differentiate(&b, to, NULL, seeds, seed_count, wrt, wrt_count, gradients));
    outputs[0] = inputs[1];
    for (size_t i = 0; i < wrt_count; i++) {
        xcc_value *g = gradients[i];
        if (i >= flowing)
            g = g != NULL ? xcc_build_add(&b, inputs[i + 2], g) : inputs[i + 2];
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
    xcc_value **inputs = xcc_alloc(u->c.m, 3 * most * sizeof *inputs), **outputs = inputs + most,
              **wrt = outputs + most;
    u->stacks = xcc_alloc(u->c.m, u->states * sizeof *u->stacks);
    if (inputs == NULL || u->stacks == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(keep_states(u));
    XCVM_TRY(begin_copying(&u->c, u->c.m));
    size_t count = 2, outside = 0;
    inputs[0] = u->trips;
    for (size_t i = 0; i < u->states; i++)
        if (flows(n, i))
            inputs[count++] = d->results[i] != NULL ? d->results[i] : xcc_zeros_like(d->b, n->inputs[i + 2]);
    for (size_t i = 0; i < d->outside_count; i++)
        if (d->wanted[n->input_count + i]) {
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
    XCVM_TRY(xcc_loop_infer_body(back));
    XCVM_TRY(xcc_node_infer(back));
    size_t next = 0;
    for (size_t i = 0; i < u->states; i++) {
        if (!flows(n, i))
            continue;
        if (d->wanted[i + 2])
            xcc_give(d, i + 2, outputs[next]);
        next++;
    }
    for (size_t i = 0; i < d->outside_count; i++)
        if (d->wanted[n->input_count + i])
            xcc_give(d, n->input_count + i, outputs[next++]);
    return XCVM_OK;
}

void xcc_gradient_of_loop(xcc_vjp *d)
{
    unwinding u = {.d = d, .c = {.m = d->b->graph->module}, .states = d->node->input_count - 2};
    if (!can_keep(d) || !can_copy(d))
        return;
    d->failed = unwind(&u) != XCVM_OK;
    end_copying(&u.c);
}

/* ---- What bodies read ---- */

static xcvm_status note_value(xcc_outside *o, xcc_module *m, const xcc_node *n, uint32_t *stamps, uint32_t values,
                              uint32_t stamp, xcc_value *v)
{
    if (v == NULL || v->id >= values || stamps[v->id] == stamp || xcc_is_constant(v) ||
        (v->graph->depth > n->graph->depth && !xcc_is_variable(v)))
        return XCVM_OK;
    stamps[v->id] = stamp;
    if (o->count == o->capacity) {
        const size_t capacity = o->capacity > 0 ? 2 * o->capacity : 16;
        xcc_value **grown = xcc_alloc(m, capacity * sizeof *grown);
        if (grown == NULL)
            return XCVM_OUT_OF_MEMORY;
        if (o->count > 0)
            memcpy(grown, o->values, o->count * sizeof *grown);
        o->values = grown;
        o->capacity = capacity;
    }
    o->values[o->count++] = v;
    return XCVM_OK;
}

static xcvm_status note_graph(xcc_outside *o, const xcc_graph *g, const xcc_node *n, uint32_t *stamps, uint32_t values,
                              uint32_t stamp)
{
    xcc_module *m = g->module;
    for (const xcc_node *inner = g->first; inner != NULL; inner = inner->next) {
        XCVM_TRY(xcc_poll(m));
        for (size_t i = 0; i < xcc_node_input_count(inner); i++)
            XCVM_TRY(note_value(o, m, n, stamps, values, stamp, inner->uses[i].value));
        for (size_t i = 0; i < inner->body_count; i++)
            XCVM_TRY(note_graph(o, inner->bodies[i], n, stamps, values, stamp));
    }
    for (size_t i = 0; i < g->output_count; i++)
        XCVM_TRY(note_value(o, m, n, stamps, values, stamp, g->outputs[i]));
    return XCVM_OK;
}

xcvm_status xcc_outside_find(xcc_outside *o, const xcc_node *n, uint32_t *stamps, uint32_t values, uint32_t stamp)
{
    *o = (xcc_outside){.count = 0};
    for (size_t i = 0; i < n->body_count; i++)
        XCVM_TRY(note_graph(o, n->bodies[i], n, stamps, values, stamp));
    return XCVM_OK;
}
