/* Recomputation: forward results that the backward pass reads are recomputed by copies of their nodes before the first
 * reader, instead of being kept. The pass runs when nodes have their final form and order, so copies give the same bits
 * as the originals, and liveness gives the exact effect of a proposal. Nodes with random numbers or side effects are
 * kept; running statistics come only from the originals. */
#include "compiler/recompute/recompute.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/compilation.h"
#include "proto/arguments.h"
#include "compiler/ir/liveness.h"
#include "compiler/emit/emit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum method { NONE, CHEN, TIME, MEMORY, CUSTOM } method;

static const char *const method_names[] = {"none", "chen", "time", "memory"};
static const char custom[] = "custom:";

size_t xcc_recompute_method_count(void) { return sizeof method_names / sizeof *method_names; }

const char *xcc_recompute_method_at(size_t index)
{
    return index < xcc_recompute_method_count() ? method_names[index] : NULL;
}

/* The result of a proposal. */
typedef struct outcome {
    uint64_t peak;
    double time; /* of all nodes, including copies */
} outcome;

/* A modified operand. */
typedef struct change {
    xcc_node *node;
    uint32_t index;
    xcc_value *old;
} change;

typedef struct recompute {
    xcc_module *m;
    xcc_graph *g;
    method method;
    xcc_forward f;
    /* The applied proposal. */
    const bool *forgotten;
    xcc_value **copies; /* by id, for values that existed when the pass began */
    uint32_t values;
    change *changes;
    size_t change_count, change_capacity;
    xcc_node **added;
    size_t added_count, added_capacity;
    uint32_t *waiting; /* positions of nodes to be copied */
    size_t waiting_count, waiting_capacity;
    bool *listed;  /* by position */
    bool is_final; /* copies get permanent names */
    /* The best proposal so far, and its outcome. */
    bool *best;
    outcome came_to;
    uint64_t budget; /* 0: minimum memory */
} recompute;

static xcvm_status begin(recompute *r)
{
    XCVM_TRY(xcc_forward_find(&r->f));
    r->values = r->m->value_count;
    r->copies = xcc_alloc(r->m, r->values * sizeof *r->copies);
    r->best = xcc_alloc(r->m, r->f.positions);
    r->listed = xcc_alloc(r->m, r->f.positions);
    return r->copies != NULL && r->best != NULL && r->listed != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

/* ---- Applying a proposal ---- */

static bool is_forgotten(const recompute *r, const xcc_value *v)
{
    const uint32_t item = xcc_forward_item_of(&r->f, v);
    return item != 0 && r->forgotten[item - 1];
}

static xcvm_status copied(void *user, xcc_value *v, const xcvm_field *field, xcc_value **copy)
{
    recompute *r = user;
    *copy = v;
    if (field->role != XCVM_ROLE_OUT) {
        if (is_forgotten(r, v))
            *copy = r->copies[v->id];
        return XCVM_OK;
    }
    /* A copy omits optional results that no node reads, such as running statistics, which the program outputs once. */
    bool is_read = v == xcc_node_output(v->producer, 0) || !xcvm_field_may_be_absent(field);
    for (const xcc_use *use = v->users; use != NULL; use = use->next)
        is_read = is_read || use->node != NULL;
    *copy = is_read ? xcc_value_create(r->g, NULL) : NULL;
    if (is_read && *copy == NULL)
        return r->m->error->status;
    r->copies[v->id] = *copy;
    return XCVM_OK;
}

static const char *copy_name(const recompute *r, const xcc_node *n)
{
    static const char prefix[] = "again@";
    if (!r->is_final)
        return n->name;
    const size_t length = sizeof prefix + strlen(n->name);
    char *name = xcc_alloc(r->m, length);
    if (name != NULL)
        snprintf(name, length, "%s%s", prefix, n->name);
    return name;
}

static xcvm_status copy_node(recompute *r, const xcc_node *n, xcc_node *before)
{
    xcc_builder b = {.graph = r->g, .before = before, .name = copy_name(r, n), .origin = n->origin};
    xcc_node *copy = b.name != NULL ? xcc_node_copy(&b, n, copied, r) : NULL;
    if (copy == NULL)
        return r->m->error->status;
    copy->order = UINT32_MAX; /* not an original position */
    r->added = xcc_grow(r->m, r->added, r->added_count, &r->added_capacity, sizeof *r->added);
    if (r->added == NULL)
        return XCVM_OUT_OF_MEMORY;
    r->added[r->added_count++] = copy;
    return XCVM_OK;
}

/* Lists the producer of a value if it is forgotten and not yet recomputed. */
static xcvm_status wait_for(recompute *r, const xcc_value *v)
{
    if (!is_forgotten(r, v) || r->copies[v->id] != NULL || r->listed[v->producer->order])
        return XCVM_OK;
    r->waiting = xcc_grow(r->m, r->waiting, r->waiting_count, &r->waiting_capacity, sizeof *r->waiting);
    if (r->waiting == NULL)
        return XCVM_OUT_OF_MEMORY;
    r->listed[v->producer->order] = true;
    r->waiting[r->waiting_count++] = v->producer->order;
    return XCVM_OK;
}

static int earlier_first(const void *pa, const void *pb)
{
    const uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    return a < b ? -1 : a > b;
}

/* Copies the producer of a forgotten value, and recursively those of its forgotten operands. */
static xcvm_status compute_again(recompute *r, const xcc_value *v, xcc_node *before)
{
    r->waiting_count = 0;
    XCVM_TRY(wait_for(r, v));
    for (size_t w = 0; w < r->waiting_count; w++) {
        const xcc_node *n = r->f.nodes[r->waiting[w]];
        const size_t inputs = xcc_node_input_count(n);
        XCVM_TRY(xcc_poll(r->m));
        for (size_t i = 0; i < inputs; i++)
            XCVM_TRY(wait_for(r, xcc_node_input(n, i)));
    }
    qsort(r->waiting, r->waiting_count, sizeof *r->waiting, earlier_first);
    for (size_t w = 0; w < r->waiting_count; w++) {
        r->listed[r->waiting[w]] = false;
        XCVM_TRY(copy_node(r, r->f.nodes[r->waiting[w]], before));
    }
    return XCVM_OK;
}

static xcvm_status change_input(recompute *r, xcc_node *n, uint32_t index)
{
    xcc_value *v = xcc_node_input(n, index);
    if (!is_forgotten(r, v))
        return XCVM_OK;
    if (r->copies[v->id] == NULL)
        XCVM_TRY(compute_again(r, v, n));
    r->changes = xcc_grow(r->m, r->changes, r->change_count, &r->change_capacity, sizeof *r->changes);
    if (r->changes == NULL)
        return XCVM_OUT_OF_MEMORY;
    r->changes[r->change_count++] = (change){n, index, v};
    xcc_node_set_input(n, index, r->copies[v->id]);
    return XCVM_OK;
}

static xcvm_status apply(recompute *r, const bool *forgotten)
{
    r->forgotten = forgotten;
    for (uint32_t p = 0; p < r->f.positions; p++) {
        if (r->f.item_of[p] != 0)
            continue;
        const size_t inputs = xcc_node_input_count(r->f.nodes[p]);
        for (size_t i = 0; i < inputs; i++)
            XCVM_TRY(change_input(r, r->f.nodes[p], (uint32_t)i));
    }
    return XCVM_OK;
}

/* Reverts a proposal. */
static void undo(recompute *r)
{
    while (r->change_count > 0) {
        const change *c = &r->changes[--r->change_count];
        xcc_node_set_input(c->node, c->index, c->old);
    }
    while (r->added_count > 0)
        xcc_node_discard(r->added[--r->added_count]);
    memset(r->copies, 0, r->values * sizeof(xcc_value *));
    xcc_graph_number(r->g);
}

/* ---- Selection ---- */

static xcvm_status evaluate(recompute *r, const bool *forgotten, outcome *o)
{
    bool open = false;
    XCVM_TRY(apply(r, forgotten));
    o->time = r->f.time;
    for (size_t i = 0; i < r->added_count; i++)
        o->time += xcc_forward_time_of(r->added[i]);
    XCVM_TRY(xcc_graph_peak(r->g, &o->peak, &open));
    undo(r);
    return XCVM_OK;
}

/* Within the budget the faster one is better. Without one, or beyond it, the smaller one is. */
static bool is_better(const recompute *r, const outcome *a, const outcome *b)
{
    if (a->peak <= r->budget && b->peak <= r->budget)
        return a->time < b->time || (a->time <= b->time && a->peak < b->peak);
    return a->peak < b->peak || (a->peak == b->peak && a->time < b->time);
}

static xcvm_status consider(void *user, const bool *forgotten)
{
    recompute *r = user;
    outcome o;
    XCVM_TRY(evaluate(r, forgotten, &o));
    if (!is_better(r, &o, &r->came_to))
        return XCVM_OK;
    r->came_to = o;
    memcpy(r->best, forgotten, r->f.count);
    return XCVM_OK;
}

typedef struct candidate {
    double worth;
    uint32_t item;
} candidate;

static int dearest_first(const void *pa, const void *pb)
{
    const candidate *a = pa, *b = pb;
    if (a->worth > b->worth || a->worth < b->worth)
        return a->worth > b->worth ? -1 : 1;
    return a->item < b->item ? -1 : a->item > b->item;
}

/* Keeps forgotten values that are slow to recompute if the peak stays within the budget: planners do not know about
 * memory that liveness shows to be free. */
static xcvm_status keep_what_fits(recompute *r)
{
    enum { MOST_TRIALS = 200 };
    candidate *candidates = xcc_alloc(r->m, r->f.count * sizeof *candidates);
    bool *trial = xcc_alloc(r->m, r->f.count);
    if (candidates == NULL || trial == NULL)
        return XCVM_OUT_OF_MEMORY;
    const uint64_t limit = r->came_to.peak > r->budget ? r->came_to.peak : r->budget;
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->f.count; i++)
        if (r->best[i] && r->f.items[i].time > 0)
            candidates[count++] = (candidate){r->f.items[i].time, i};
    qsort(candidates, count, sizeof *candidates, dearest_first);
    memcpy(trial, r->best, r->f.count);
    for (uint32_t c = 0; c < count && c < MOST_TRIALS; c++) {
        outcome o;
        trial[candidates[c].item] = false;
        XCVM_TRY(evaluate(r, trial, &o));
        if (o.peak <= limit && o.time <= r->came_to.time) {
            r->came_to = o;
            r->best[candidates[c].item] = false;
        } else {
            trial[candidates[c].item] = true;
        }
    }
    return XCVM_OK;
}

/* ---- Methods ---- */

static xcvm_status read_method(xcc_module *m, method *asked)
{
    const char *text = m->options->recompute.method;
    *asked = NONE;
    if (text == NULL)
        return XCVM_OK;
    if (strncmp(text, custom, sizeof custom - 1) == 0) {
        *asked = CUSTOM;
        return XCVM_OK;
    }
    for (size_t i = 0; i < sizeof method_names / sizeof *method_names; i++)
        if (strcmp(text, method_names[i]) == 0) {
            *asked = (method)i;
            return XCVM_OK;
        }
    return xcvm_error_set(m->error, XCVM_INVALID_ARGUMENT,
                          "the recomputation method is '%.200s'; expected none, chen, time, memory or custom:NAMES",
                          text);
}

static xcc_node *find_result(const recompute *r, const char *name, size_t length)
{
    for (uint32_t p = 0; p < r->f.positions; p++)
        for (size_t i = 0; i < xcc_node_output_count(r->f.nodes[p]); i++) {
            const xcc_value *v = xcc_node_output(r->f.nodes[p], i);
            if (v != NULL && strlen(v->name) == length && memcmp(v->name, name, length) == 0)
                return r->f.nodes[p];
        }
    return NULL;
}

/* Forgets the named values. */
static xcvm_status forget_named(recompute *r)
{
    bool *forgotten = xcc_alloc(r->m, r->f.count);
    if (forgotten == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (const char *name = r->m->options->recompute.method + sizeof custom - 1; *name != '\0';) {
        const size_t length = strcspn(name, ",");
        const int shown = length < 200 ? (int)length : 200;
        const xcc_node *n = find_result(r, name, length);
        XCVM_CHECK(r->m->error, n != NULL, INVALID_ARGUMENT,
                   "unknown value '%.*s' in the list of values to recompute. --dump-after schedule shows the values of "
                   "the optimized model",
                   shown, name);
        const uint32_t item = r->f.item_of[n->order];
        XCVM_CHECK(r->m->error, item != 0, INVALID_ARGUMENT,
                   "'%.*s' cannot be forgotten: it is no result of the forward", shown, name);
        XCVM_CHECK(r->m->error, !r->f.items[item - 1].stays, INVALID_ARGUMENT,
                   "'%.*s' cannot be computed again: it is random, of open size, an output, or used by control flow",
                   shown, name);
        forgotten[item - 1] = true;
        name += length + (name[length] == ',');
    }
    XCVM_TRY(evaluate(r, forgotten, &r->came_to));
    memcpy(r->best, forgotten, r->f.count);
    return XCVM_OK;
}

/* The baseline of all methods: nothing forgotten. */
static xcvm_status consider_nothing(recompute *r)
{
    bool open = false;
    XCVM_TRY(xcc_graph_peak(r->g, &r->came_to.peak, &open));
    XCVM_CHECK(r->m->error, !open || r->method == CUSTOM, UNSUPPORTED,
               "recomputation needs known sizes. Fix the open dimensions with --dim NAME=SIZE");
    r->came_to.time = r->f.time;
    return XCVM_OK;
}

static xcvm_status choose(recompute *r)
{
    const xcc_proposals to = {consider, r};
    if (r->method == CUSTOM)
        return forget_named(r);
    if (r->came_to.peak <= r->budget)
        return XCVM_OK;
    const bool coarse = r->method == MEMORY, has_budget = r->m->options->recompute.memory_budget > 0;
    XCVM_TRY(r->method == CHEN ? xcc_propose_chen(&r->f, &to) : xcc_propose_lower_sets(&r->f, coarse, &to));
    /* A budget takes precedence, even if it requires the other kind of schedule. */
    if (has_budget && r->came_to.peak > r->budget)
        XCVM_TRY(xcc_propose_lower_sets(&r->f, !coarse, &to));
    /* Keeping more could fragment the arena if minimum memory is requested. */
    const bool keeps = r->method == TIME ? !has_budget || r->budget > 0 : r->method == MEMORY && r->budget > 0;
    return keeps ? keep_what_fits(r) : XCVM_OK;
}

/* Applies the best proposal within the budget, or the smallest. */
static xcvm_status choose_plan(recompute *r, uint64_t budget, uint64_t *arena)
{
    xcc_plan plan;
    r->budget = budget;
    memset(r->best, 0, r->f.count);
    XCVM_TRY(consider_nothing(r));
    XCVM_TRY(choose(r));
    r->is_final = true;
    XCVM_TRY(apply(r, r->best));
    r->is_final = false;
    XCVM_TRY(xcc_plan_make(r->m, &plan));
    *arena = plan.arena_bytes;
    return XCVM_OK;
}

/* Fragmentation may make the arena larger than the peak of live values. Then the search continues with a budget reduced
 * by that difference, by twice and four times as much, and finally with the smallest schedule. */
static xcvm_status fit(recompute *r)
{
    enum { ATTEMPTS = 6 };
    const uint64_t asked = r->m->options->recompute.memory_budget;
    uint64_t arena, budget = asked;
    XCVM_TRY(choose_plan(r, budget, &arena));
    for (int attempt = 1; attempt <= ATTEMPTS && arena > asked && asked > 0 && r->method != CUSTOM; attempt++) {
        const uint64_t excess = (arena - asked) << (attempt - 1);
        const uint64_t found = r->came_to.peak < budget ? r->came_to.peak : budget;
        budget = attempt < ATTEMPTS && excess < found ? found - excess : 0;
        undo(r);
        XCVM_TRY(choose_plan(r, budget, &arena));
    }
    XCVM_CHECK(r->m->error, asked == 0 || arena <= asked, OUT_OF_MEMORY,
               "a step needs %llu bytes, more than the memory budget of %llu; without recomputation it needs %llu",
               (unsigned long long)arena, (unsigned long long)asked,
               (unsigned long long)r->m->compilation->recomputation.peak_before);
    r->m->compilation->recomputation.peak = arena;
    r->m->compilation->recomputation.time = r->f.time > 0 ? r->came_to.time / r->f.time : 1;
    r->m->compilation->recomputation.copies = r->added_count;
    return XCVM_OK;
}

/* Scheduling delays nodes that increase memory, so gradients of parameters, with all that they read, may come at the
 * end. Recomputation works better in the order of differentiation, except for gradients that are larger than their
 * operands. If that gains nothing, the schedule is kept. */
static xcvm_status plan_in_order(recompute *r)
{
    xcc_module *m = r->m;
    const uint64_t before = m->compilation->recomputation.peak_before, asked = m->options->recompute.memory_budget;
    xcc_node **scheduled = NULL;
    size_t count = 0;
    if (r->method != CUSTOM && asked > 0 && before <= asked)
        return XCVM_OK;
    if (r->method != CUSTOM && r->g->last != NULL) {
        xcc_graph_number(r->g);
        count = (size_t)r->g->last->order + 1;
        if ((scheduled = xcc_alloc(m, count * sizeof *scheduled)) == NULL)
            return XCVM_OUT_OF_MEMORY;
        for (xcc_node *n = r->g->first; n != NULL; n = n->next)
            scheduled[n->order] = n;
        if (m->compilation->unscheduled != NULL)
            xcc_put_in_order(m, m->compilation->unscheduled, count);
        xcc_let_gradients_wait(r->g);
    }
    XCVM_TRY(begin(r));
    XCVM_TRY(fit(r));
    if (r->method == CUSTOM || m->compilation->recomputation.peak < before)
        return XCVM_OK;
    undo(r);
    xcc_put_in_order(m, scheduled, count);
    m->compilation->recomputation.peak = before;
    m->compilation->recomputation.time = 1;
    m->compilation->recomputation.copies = 0;
    return XCVM_OK;
}

xcvm_status xcc_pass_recompute(xcc_module *m)
{
    recompute r = {.m = m, .g = m->graph, .f = {.m = m}};
    xcc_plan plan;
    XCVM_TRY(read_method(m, &r.method));
    if (r.method == NONE || m->compilation->forward_outputs == 0)
        return XCVM_OK;
    XCVM_TRY(xcc_plan_make(m, &plan));
    m->compilation->recomputation.peak_before = m->compilation->recomputation.peak = plan.arena_bytes;
    m->compilation->recomputation.time = 1;
    return plan_in_order(&r);
}
