/* Scheduling of nodes: a greedy list scheduler that always runs the ready node that increases memory least. The order
 * is used if its peak is lower than that of the model's order. */
#include "compiler/ir/liveness.h"
#include "base/array.h"
#include "compiler/ir/compilation.h"
#include "compiler/passes/passes.h"

#include <string.h>

/* A node at its position in the model. */
typedef struct node_entry {
    xcc_node *node;
    uint32_t waits;             /* number of incoming edges left */
    uint32_t edges, edge_count; /* outgoing edges, in scheduler.edges */
    int64_t score;              /* bytes that it adds when it runs */
    bool done;
} node_entry;

/* Memory of a value and its views. */
typedef struct block {
    uint64_t bytes;
    uint32_t users; /* remaining readers */
    uint32_t sum;   /* sum of their positions (modulo 2^32): the position of the last one left */
    bool stays;     /* needed after the graph */
} block;

typedef struct entry {
    int64_t score;
    uint32_t position;
} entry;

typedef struct scheduler {
    xcc_module *m;
    xcc_graph *g;
    xcc_liveness live_ranges;
    node_entry *places;
    block *blocks; /* by live range */
    uint32_t *edges;
    uint32_t edge_count;
    entry *heap; /* min-heap; entries whose score has changed are skipped */
    size_t heap_count, heap_capacity;
    uint32_t count;
    bool updates; /* all other nodes are scheduled */
} scheduler;

/* ---- The heap ---- */

static bool before(const entry *a, const entry *b)
{
    return a->score != b->score ? a->score < b->score : a->position < b->position;
}

static xcvm_status push(scheduler *s, uint32_t position)
{
    entry *heap = xcvm_array_grow(s->m->allocator, s->heap, s->heap_count, &s->heap_capacity, sizeof *heap);
    if (heap == NULL)
        return xcc_out_of_memory(s->m);
    s->heap = heap;
    entry e = {s->places[position].score, position};
    size_t i = s->heap_count++;
    for (; i > 0 && before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = e;
    return XCVM_OK;
}

static entry pop(scheduler *s)
{
    entry first = s->heap[0], e = s->heap[--s->heap_count];
    size_t i = 0;
    for (size_t child = 1; child < s->heap_count; i = child, child = 2 * i + 1) {
        if (child + 1 < s->heap_count && before(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!before(&s->heap[child], &e))
            break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = e;
    return first;
}

/* ---- Dependencies ---- */

/* Returns true if a node has side effects, so that it must keep its order among such nodes. */
static bool is_ordered(const xcc_node *n)
{
    if (n->kind == XCC_INSTRUCTION)
        return n->schema->effect != XCVM_PURE;
    for (size_t i = 0; i < n->body_count; i++)
        for (const xcc_node *inner = n->bodies[i]->first; inner != NULL; inner = inner->next)
            if (is_ordered(inner))
                return true;
    return false;
}

/* Calls `visit` for each value of this graph that a node reads, including captured ones. */
static void each_operand(scheduler *s, uint32_t position, void (*visit)(scheduler *, uint32_t, const xcc_live_range *))
{
    const xcc_node *n = s->places[position].node;
    size_t inputs = xcc_node_input_count(n);
    for (size_t i = 0; i < inputs + n->capture_count; i++) {
        const xcc_value *v = i < inputs ? n->uses[i].value : n->captures[i - inputs];
        const xcc_live_range *life = xcc_live_range_of(&s->live_ranges, v);
        if (life != NULL)
            visit(s, position, life);
    }
}

static void count_edge(scheduler *s, uint32_t position, const xcc_live_range *life)
{
    s->places[life->value->producer->order].edge_count++;
    s->places[position].waits++;
}

static void add_edge(scheduler *s, uint32_t position, const xcc_live_range *life)
{
    node_entry *from = &s->places[life->value->producer->order];
    s->edges[from->edges + from->edge_count++] = position;
}

static void count_user(scheduler *s, uint32_t position, const xcc_live_range *life)
{
    block *b = &s->blocks[life->root];
    b->users++;
    b->sum += position;
}

static xcvm_status find_edges(scheduler *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        each_operand(s, i, count_edge);
    uint32_t last_ordered = UINT32_MAX;
    for (uint32_t i = 0; i < s->count; i++)
        if (is_ordered(s->places[i].node)) {
            if (last_ordered != UINT32_MAX) {
                s->places[last_ordered].edge_count++;
                s->places[i].waits++;
            }
            last_ordered = i;
        }
    for (uint32_t i = 0; i < s->count; i++) {
        s->places[i].edges = s->edge_count;
        s->edge_count += s->places[i].edge_count;
        s->places[i].edge_count = 0;
    }
    s->edges = xcvm_allocate(s->m->allocator, s->edge_count * sizeof *s->edges);
    if (s->edges == NULL)
        return xcc_out_of_memory(s->m);
    last_ordered = UINT32_MAX;
    for (uint32_t i = 0; i < s->count; i++) {
        each_operand(s, i, add_edge);
        if (!is_ordered(s->places[i].node))
            continue;
        if (last_ordered != UINT32_MAX) {
            node_entry *from = &s->places[last_ordered];
            s->edges[from->edges + from->edge_count++] = i;
        }
        last_ordered = i;
    }
    return XCVM_OK;
}

/* ---- Scores ---- */

/* Credits the last reader of a block with the bytes that it frees. */
static void credit_last_reader(scheduler *s, block *b)
{
    if (b->users == 1 && !b->stays)
        s->places[b->sum].score -= (int64_t)b->bytes;
}

/* Returns true if only nodes of class begin read a value. */
static bool is_taken_away(const xcc_value *v)
{
    for (const xcc_use *use = v->users; use != NULL; use = use->next)
        if (use->node == NULL || use->node->kind != XCC_INSTRUCTION ||
            !xcvm_schema_has_class(use->node->schema, XCVM_CLASS_begin))
            return false;
    return v->users != NULL;
}

/* Such values do not hold memory for long, so their producers are not delayed. */
static void begin_scores(scheduler *s)
{
    const xcc_liveness *l = &s->live_ranges;
    for (size_t i = 0; i < l->count; i++) {
        block *b = &s->blocks[l->at[i].root];
        bool own = l->at[i].root == i;
        /* Saturated, so that sums do not overflow. */
        if (own)
            b->bytes = l->at[i].bytes < UINT64_C(1) << 40 ? l->at[i].bytes : UINT64_C(1) << 40;
        b->stays = b->stays || l->at[i].end == l->positions;
        if (own && !is_taken_away(l->at[i].value))
            s->places[l->at[i].value->producer->order].score += (int64_t)b->bytes;
    }
    for (uint32_t i = 0; i < s->count; i++)
        each_operand(s, i, count_user);
    for (size_t i = 0; i < l->count; i++)
        if (l->at[i].root == i)
            credit_last_reader(s, &s->blocks[i]);
}

/* Removes a reader of an operand; the last remaining one's score changes. */
static void release(scheduler *s, uint32_t position, const xcc_live_range *life)
{
    block *b = &s->blocks[life->root];
    if (b->users == 0)
        return;
    b->users--;
    b->sum -= position;
    credit_last_reader(s, b);
}

/* Nodes that update states wait for all others. */
static bool may_run(const scheduler *s, const xcc_node *n) { return s->updates || !xcc_updates(n); }

static xcvm_status push_again(scheduler *s, const xcc_live_range *life)
{
    const block *b = &s->blocks[life->root];
    if (b->users != 1 || b->stays)
        return XCVM_OK;
    const node_entry *last = &s->places[b->sum];
    return last->waits == 0 && !last->done && may_run(s, last->node) ? push(s, b->sum) : XCVM_OK;
}

/* ---- Scheduling ---- */

static xcvm_status emit_node(scheduler *s, uint32_t position)
{
    node_entry *p = &s->places[position];
    p->done = true;
    each_operand(s, position, release);
    size_t inputs = xcc_node_input_count(p->node);
    for (size_t i = 0; i < inputs + p->node->capture_count; i++) {
        const xcc_value *v = i < inputs ? p->node->uses[i].value : p->node->captures[i - inputs];
        const xcc_live_range *life = xcc_live_range_of(&s->live_ranges, v);
        if (life != NULL)
            XCVM_TRY(push_again(s, life));
    }
    for (uint32_t i = 0; i < p->edge_count; i++) {
        uint32_t next = s->edges[p->edges + i];
        if (--s->places[next].waits == 0 && may_run(s, s->places[next].node))
            XCVM_TRY(push(s, next));
    }
    return XCVM_OK;
}

static xcvm_status drain(scheduler *s)
{
    while (s->heap_count > 0) {
        entry e = pop(s);
        XCVM_TRY(xcc_poll(s->m));
        node_entry *p = &s->places[e.position];
        if (p->done || p->score != e.score)
            continue;
        xcc_node_move_before(p->node, NULL);
        XCVM_TRY(emit_node(s, e.position));
    }
    return XCVM_OK;
}

/* Relinks the graph's nodes in the greedy order, with updates of states last. */
static xcvm_status reorder(scheduler *s)
{
    begin_scores(s);
    for (int updates = 0; updates < 2; updates++) {
        s->updates = updates == 1;
        for (uint32_t i = 0; i < s->count; i++)
            if (s->places[i].waits == 0 && !s->places[i].done && xcc_updates(s->places[i].node) == (updates == 1))
                XCVM_TRY(push(s, i));
        XCVM_TRY(drain(s));
    }
    return XCVM_OK;
}

static void restore(scheduler *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        xcc_node_move_before(s->places[i].node, NULL);
}

/* Saves the previous order for passes that need it. */
static xcvm_status remember(scheduler *s)
{
    s->m->compilation->unscheduled = xcc_alloc(s->m, s->count * sizeof *s->m->compilation->unscheduled);
    for (uint32_t i = 0; i < s->count && s->m->compilation->unscheduled != NULL; i++)
        s->m->compilation->unscheduled[i] = s->places[i].node;
    return s->m->compilation->unscheduled != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

static xcvm_status schedule_with(scheduler *s)
{
    uint64_t naive, greedy;
    bool open = false;
    s->places = xcvm_allocate_zeroed(s->m->allocator, s->count * sizeof *s->places);
    s->blocks = xcvm_allocate_zeroed(s->m->allocator, s->live_ranges.count * sizeof *s->blocks);
    if (s->places == NULL || s->blocks == NULL)
        return xcc_out_of_memory(s->m);
    for (xcc_node *n = s->g->first; n != NULL; n = n->next)
        s->places[n->order].node = n;
    XCVM_TRY(find_edges(s));
    XCVM_TRY(xcc_graph_peak(s->g, &naive, &open));
    xcvm_status status = reorder(s);
    if (status == XCVM_OK)
        status = xcc_graph_peak(s->g, &greedy, &open);
    if (status != XCVM_OK || greedy >= naive)
        restore(s);
    else if (s->g == s->m->graph)
        status = remember(s);
    return status;
}

static xcvm_status schedule_graph(xcc_module *m, xcc_graph *g)
{
    for (xcc_node *n = g->first; n != NULL; n = n->next)
        for (size_t i = 0; i < n->body_count; i++)
            XCVM_TRY(schedule_graph(m, n->bodies[i]));
    scheduler s = {.m = m, .g = g};
    XCVM_TRY(xcc_liveness_analyze(g, &s.live_ranges));
    s.count = s.live_ranges.positions;
    xcvm_status status = schedule_with(&s);
    xcvm_deallocate(m->allocator, s.places, s.count * sizeof *s.places);
    xcvm_deallocate(m->allocator, s.blocks, s.live_ranges.count * sizeof *s.blocks);
    xcvm_deallocate(m->allocator, s.edges, s.edge_count * sizeof *s.edges);
    xcvm_deallocate(m->allocator, s.heap, s.heap_capacity * sizeof *s.heap);
    xcc_liveness_release(m, &s.live_ranges);
    return status;
}

xcvm_status xcc_pass_schedule(xcc_module *m)
{
    if (m->options->debug.scheduling == XCC_SCHEDULE_NAIVE || m->options->optimization < 0)
        return XCVM_OK;
    return schedule_graph(m, m->graph);
}
