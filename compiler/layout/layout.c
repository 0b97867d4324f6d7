/* The pass layout: convolutions, and nodes between them, compute on blocked channels (ops/conv/blocked.h), NCHW16c,
 * where that pays off.
 *
 * Initially all candidates are chosen. Then each in turn takes the cheaper side, given the others: its gain against the
 * layout conversions around it. Finally, regions of chosen nodes that gain less than their conversions cost are
 * dropped. */
#include "compiler/layout/layout.h"

enum { ROUNDS = 8 };

/* ---- Costs ---- */

static bool is_given_blocked(const xcc_layout *s, const xcc_value *v)
{
    const xcc_layout_candidate *c = v->graph == s->g ? xcc_layout_candidate_of(s, v->producer) : NULL;
    return c != NULL && c->chosen && xcc_layout_produces_blocked(c);
}

/* The chosen candidate that takes a value in blocked form at this use, or NULL. */
static xcc_layout_candidate *blocked_user(const xcc_layout *s, const xcc_use *use)
{
    xcc_layout_candidate *c = use->graph == s->g ? xcc_layout_candidate_of(s, use->node) : NULL;
    return c != NULL && c->chosen && xcc_layout_accepts_blocked(c, use->index) ? c : NULL;
}

/* Returns true if a plain value must be converted for this use. */
static bool needs_blocks(const xcc_layout *s, const xcc_use *use)
{
    const xcc_layout_candidate *user = blocked_user(s, use);
    return user != NULL && !(user->plain_input && use->index == 0);
}

/* Chooses a candidate or not. Values count their uses by chosen candidates, because many nodes may read one value. */
static void set_chosen(xcc_layout *s, xcc_layout_candidate *c, bool chosen)
{
    if (c->chosen == chosen)
        return;
    c->chosen = chosen;
    const uint32_t step = chosen ? 1 : UINT32_MAX; /* modulo 2^32: one less */
    const size_t inputs = xcc_node_input_count(c->node);
    for (size_t i = 0; i < inputs; i++) {
        const xcc_value *v = c->node->uses[i].value;
        if (v == NULL || !xcc_layout_accepts_blocked(c, i))
            continue;
        s->values[v->id].accepting += step;
        s->values[v->id].needing += c->plain_input && i == 0 ? 0 : step;
    }
}

/* The cost of the layout conversions that a value needs. */
static double border_ns(const xcc_layout *s, const xcc_value *v)
{
    const xcc_layout_value *value = &s->values[v->id];
    const bool changes = is_given_blocked(s, v) ? value->accepting < v->uses : value->needing > 0;
    return changes ? xcc_layout_conversion_ns(s, v) : 0;
}

static double borders_ns(xcc_layout *s, const xcc_layout_candidate *c)
{
    double sum = 0;
    size_t inputs = xcc_node_input_count(c->node), outputs = xcc_node_output_count(c->node);
    s->traversals++;
    for (size_t i = 0; i < inputs; i++) {
        const xcc_value *v = c->node->uses[i].value;
        if (v == NULL || !xcc_layout_accepts_blocked(c, i) || s->values[v->id].seen == s->traversals)
            continue;
        s->values[v->id].seen = s->traversals; /* one value may be several operands */
        sum += border_ns(s, v);
    }
    for (size_t i = 0; i < outputs && xcc_layout_produces_blocked(c); i++) {
        const xcc_value *v = xcc_node_output(c->node, i);
        if (v != NULL)
            sum += border_ns(s, v);
    }
    return sum;
}

/* ---- Selection ---- */

static xcvm_status update_choices(xcc_layout *s, bool *changed)
{
    *changed = false;
    for (size_t i = 0; i < s->count; i++) {
        XCVM_TRY(xcc_poll(s->m));
        xcc_layout_candidate *c = &s->candidates[i];
        bool was = c->chosen;
        set_chosen(s, c, true);
        double blocked = borders_ns(s, c) - c->gain_ns;
        set_chosen(s, c, false);
        double unblocked = borders_ns(s, c);
        set_chosen(s, c, blocked < unblocked || (blocked == unblocked && was));
        *changed = *changed || c->chosen != was;
    }
    return XCVM_OK;
}

static size_t region_of(xcc_layout *s, size_t i)
{
    while (s->candidates[i].region != i) {
        s->candidates[i].region = s->candidates[s->candidates[i].region].region;
        i = s->candidates[i].region;
    }
    return i;
}

static void join_regions(xcc_layout *s)
{
    for (size_t i = 0; i < s->count; i++)
        s->candidates[i].region = i;
    for (size_t i = 0; i < s->count; i++) {
        const xcc_layout_candidate *c = &s->candidates[i];
        size_t inputs = c->chosen ? xcc_node_input_count(c->node) : 0;
        for (size_t k = 0; k < inputs; k++) {
            const xcc_value *v = c->node->uses[k].value;
            if (v != NULL && xcc_layout_accepts_blocked(c, k) && is_given_blocked(s, v))
                s->candidates[region_of(s, v->producer->mark - 1)].region = region_of(s, i);
        }
    }
}

/* The cost of a region minus its gain. */
static double region_ns(xcc_layout *s, const xcc_layout_candidate *c)
{
    double sum = -c->gain_ns;
    size_t inputs = xcc_node_input_count(c->node), outputs = xcc_node_output_count(c->node);
    for (size_t i = 0; i < outputs && xcc_layout_produces_blocked(c); i++)
        if (xcc_node_output(c->node, i) != NULL)
            sum += border_ns(s, xcc_node_output(c->node, i));
    /* A value from outside is charged to its first user. */
    for (size_t i = 0; i < inputs; i++) {
        const xcc_use *use = &c->node->uses[i];
        if (use->value == NULL || !needs_blocks(s, use) || is_given_blocked(s, use->value))
            continue;
        const xcc_use **first = &s->values[use->value->id].first;
        if (*first == NULL)
            *first = use->value->users;
        while (!needs_blocks(s, *first))
            *first = (*first)->next;
        sum += *first == use ? xcc_layout_conversion_ns(s, use->value) : 0;
    }
    return sum;
}

/* Drops regions that do not pay off. */
static xcvm_status drop_regions(xcc_layout *s)
{
    double *costs = xcvm_allocate_zeroed(s->m->allocator, s->count * sizeof *costs);
    if (costs == NULL)
        return xcc_out_of_memory(s->m);
    join_regions(s);
    for (size_t i = 0; i < s->count; i++)
        if (s->candidates[i].chosen)
            costs[region_of(s, i)] += region_ns(s, &s->candidates[i]);
    for (size_t i = 0; i < s->count; i++)
        set_chosen(s, &s->candidates[i], s->candidates[i].chosen && costs[region_of(s, i)] < 0);
    xcvm_deallocate(s->m->allocator, costs, s->count * sizeof *costs);
    return XCVM_OK;
}

/* Clears the use counts of values, because the enclosing graph has other candidates. */
static void forget_uses(xcc_layout *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const xcc_node *n = s->candidates[i].node;
        const size_t inputs = xcc_node_input_count(n);
        for (size_t k = 0; k < inputs; k++) {
            xcc_layout_value *value = n->uses[k].value != NULL ? &s->values[n->uses[k].value->id] : NULL;
            if (value != NULL) {
                value->accepting = value->needing = 0;
                value->first = NULL;
            }
        }
    }
}

static xcvm_status choose(xcc_layout *s)
{
    bool changed = true;
    for (size_t i = 0; i < s->count; i++)
        set_chosen(s, &s->candidates[i], true);
    for (int round = 0; round < ROUNDS && changed; round++)
        XCVM_TRY(update_choices(s, &changed));
    const xcvm_status status = drop_regions(s);
    forget_uses(s);
    return status;
}

/* ---- The pass ---- */

static xcvm_status find_candidates(xcc_layout *s)
{
    for (xcc_node *n = s->g->first; n != NULL; n = n->next) {
        xcc_layout_candidate *c = &s->candidates[s->count];
        n->mark = 0;
        if (xcc_layout_classify(n, c))
            n->mark = (uint32_t)++s->count;
    }
    const xcc_options *o = s->m->options;
    for (size_t i = 0; i < s->count; i++) {
        if (o->tune && o->progress.call != NULL)
            o->progress.call(o->progress.user, "tune", (double)i / (double)s->count);
        XCVM_TRY(xcc_poll(s->m));
        xcc_layout_estimate(s, &s->candidates[i]);
    }
    return XCVM_OK;
}

static void assume_sizes(xcc_layout *s, const xcc_graph *g)
{
    for (size_t i = 0; i < g->input_count; i++)
        xcc_layout_assume_size(s, g->inputs[i], NULL);
    for (const xcc_node *n = g->first; n != NULL; n = n->next) {
        size_t outputs = xcc_node_output_count(n);
        for (size_t i = 0; i < outputs; i++)
            xcc_layout_assume_size(s, xcc_node_output(n, i), n);
        for (size_t i = 0; i < n->body_count; i++)
            assume_sizes(s, n->bodies[i]);
    }
}

static xcvm_status block_graph(xcc_layout *s, xcc_graph *g)
{
    size_t nodes = 0, room;
    for (const xcc_node *n = g->first; n != NULL; n = n->next) {
        for (size_t i = 0; i < n->body_count; i++)
            XCVM_TRY(block_graph(s, n->bodies[i]));
        nodes++;
    }
    s->g = g;
    s->count = 0;
    room = nodes * sizeof *s->candidates;
    s->candidates = xcvm_allocate_zeroed(s->m->allocator, room);
    if (s->candidates == NULL)
        return xcc_out_of_memory(s->m);
    xcvm_status status = find_candidates(s);
    if (status == XCVM_OK)
        status = choose(s);
    if (status == XCVM_OK)
        status = xcc_layout_convert(s);
    xcvm_deallocate(s->m->allocator, s->candidates, room);
    return status;
}

xcvm_status xcc_pass_layout(xcc_module *m)
{
    if (m->options->debug.plain_layout)
        return XCVM_OK;
    xcc_layout s = {.m = m, .value_count = m->value_count};
    size_t room = s.value_count * sizeof *s.values;
    s.values = xcvm_allocate_zeroed(m->allocator, room);
    if (s.values == NULL)
        return xcc_out_of_memory(m);
    assume_sizes(&s, m->graph);
    xcvm_status status = block_graph(&s, m->graph);
    xcvm_deallocate(m->allocator, s.values, room);
    return status;
}
