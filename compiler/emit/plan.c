/* Memory planning by best fit: offsets of values in the arena. Only values that live inside a straight run of
 * instructions are planned, because others may be read again after a jump. Runs share the arena, since no planned value
 * lives across two of them. */
#include "compiler/ir/liveness.h"
#include "compiler/emit/emit.h"

#include <stdlib.h>

typedef struct item {
    uint64_t offset, best, bytes; /* bytes rounded up to the alignment */
    uint32_t start, end, root;
} item;

/* Limits of the quadratic strategies: items in a run, and blocks in use that are searched for a gap. */
enum { MANY_ITEMS = 4096, MANY_IN_USE = 4096 };

/* ---- Strategies ---- */

static int compare(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int larger_first(const void *pa, const void *pb)
{
    const item *a = pa, *b = pb;
    int order = compare(b->bytes, a->bytes);
    order = order != 0 ? order : compare(a->start, b->start);
    return order != 0 ? order : compare(a->root, b->root);
}

static int longer_first(const void *pa, const void *pb)
{
    const item *a = pa, *b = pb;
    int order = compare(b->end - b->start, a->end - a->start);
    return order != 0 ? order : larger_first(pa, pb);
}

static int earlier_first(const void *pa, const void *pb)
{
    const item *a = pa, *b = pb;
    int order = compare(a->start, b->start);
    return order != 0 ? order : larger_first(pa, pb);
}

typedef struct gap {
    uint64_t at, smallest, best; /* best: UINT64_MAX until a gap fits */
} gap;

/* Examines the gap before a block in use; blocks come in order of offset. */
static void look_before(gap *g, const item *block, uint64_t bytes)
{
    uint64_t space = block->offset > g->at ? block->offset - g->at : 0;
    if (space >= bytes && space < g->smallest) {
        g->best = g->at;
        g->smallest = space;
    }
    uint64_t end = block->offset + block->bytes;
    g->at = end > g->at ? end : g->at;
}

static void insert_by_offset(const item *items, uint32_t *list, size_t count, uint32_t index)
{
    size_t k = count;
    for (; k > 0 && items[list[k - 1]].offset > items[index].offset; k--)
        list[k] = list[k - 1];
    list[k] = index;
}

/* Places each item in the smallest sufficient gap among previously placed items that are live at the same time. *arena
 * becomes the required size. */
static xcvm_status place_in_turn(xcc_module *m, item *items, size_t count, uint32_t *placed, uint64_t *arena)
{
    uint64_t size = 0;
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcc_poll(m));
        gap g = {0, UINT64_MAX, UINT64_MAX};
        for (size_t k = 0; k < i; k++) {
            const item *other = &items[placed[k]];
            if (other->end >= items[i].start && other->start <= items[i].end)
                look_before(&g, other, items[i].bytes);
        }
        items[i].offset = g.best != UINT64_MAX ? g.best : g.at;
        uint64_t end = items[i].offset + items[i].bytes;
        size = end > size ? end : size;
        insert_by_offset(items, placed, i, (uint32_t)i);
    }
    *arena = size;
    return XCVM_OK;
}

/* Places items in order of time, each in the smallest gap between those in use, as an allocator would at run time. */
static xcvm_status place_by_time(xcc_module *m, item *items, size_t count, uint32_t *in_use, uint64_t *arena)
{
    uint64_t size = 0;
    size_t used = 0;
    bool crowded = false; /* there are blocks in use that in_use does not list */
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcc_poll(m));
        gap g = {0, UINT64_MAX, UINT64_MAX};
        size_t kept = 0;
        for (size_t k = 0; k < used; k++)
            if (items[in_use[k]].end >= items[i].start)
                in_use[kept++] = in_use[k];
        used = kept;
        crowded = crowded || used == MANY_IN_USE;
        for (size_t k = 0; k < used && !crowded; k++)
            look_before(&g, &items[in_use[k]], items[i].bytes);
        items[i].offset = crowded ? size : g.best != UINT64_MAX ? g.best : g.at;
        uint64_t end = items[i].offset + items[i].bytes;
        size = end > size ? end : size;
        if (!crowded)
            insert_by_offset(items, in_use, used++, (uint32_t)i);
    }
    *arena = size;
    return XCVM_OK;
}

/* Places a run's items by the best strategy, with the result in `best`. *arena becomes the required size. */
static xcvm_status place_run(xcc_module *m, item *items, size_t count, uint32_t *room, uint64_t *arena)
{
    uint64_t smallest = UINT64_MAX, size = 0;
    for (int strategy = 0; strategy < 3; strategy++) {
        if (strategy > 0 && count > MANY_ITEMS)
            break;
        qsort(items, count, sizeof *items, strategy == 0 ? earlier_first : strategy == 1 ? larger_first : longer_first);
        XCVM_TRY(strategy == 0 ? place_by_time(m, items, count, room, &size)
                               : place_in_turn(m, items, count, room, &size));
        for (size_t i = 0; i < count && size < smallest; i++)
            items[i].best = items[i].offset;
        smallest = size < smallest ? size : smallest;
    }
    *arena = count > 0 ? smallest : 0;
    return XCVM_OK;
}

/* ---- Runs ---- */

typedef struct planner {
    xcc_module *m;
    xcc_plan *plan;
    xcc_liveness live_ranges;
    item *items;
    uint32_t *room;
    uint64_t *change; /* live bytes added (modulo 2^64) at each position */
} planner;

/* Larger than any memory, so that sums do not overflow; larger values fail at run time. */
#define LARGEST (UINT64_C(1) << 40)

static bool plannable(const xcc_live_range *group)
{
    return !group->open && !group->escapes && group->bytes > 0 && group->bytes <= LARGEST;
}

/* Plans the groups that begin among `count` results from `first`, in one run of nodes that ends at position `last`. */
static xcvm_status plan_run(planner *p, size_t first, size_t count, uint32_t last)
{
    const xcc_liveness *l = &p->live_ranges;
    size_t items = 0;
    for (size_t i = first; i < first + count; i++) {
        const xcc_live_range *group = &l->at[i];
        /* A value needed after the run has jumps in its lifetime, even if control flow does not use it. */
        if (group->root != i || !plannable(group) || group->end > last)
            continue;
        uint64_t bytes = (group->bytes + XCVM_ALIGNMENT - 1) / XCVM_ALIGNMENT * XCVM_ALIGNMENT;
        p->items[items++] = (item){0, 0, bytes, group->start, group->end, (uint32_t)i};
        p->change[group->start] += bytes;
        p->change[group->end + 1] -= bytes;
    }
    uint64_t size;
    XCVM_TRY(place_run(p->m, p->items, items, p->room, &size));
    p->plan->arena_bytes = size > p->plan->arena_bytes ? size : p->plan->arena_bytes;
    for (size_t i = 0; i < items; i++)
        p->room[p->items[i].root - first] = (uint32_t)i;
    for (size_t i = first; i < first + count; i++) {
        const xcc_live_range *life = &l->at[i], *group = &l->at[life->root];
        /* A view's group may have begun in an earlier run; it is then not planned. */
        if (life->root < first || !plannable(group) || group->end > last)
            continue;
        p->plan->slots[life->value->id].offset = p->items[p->room[life->root - first]].best;
        p->plan->slots[life->value->id].bytes = life->bytes;
    }
    return XCVM_OK;
}

static xcvm_status plan_runs(planner *p, const xcc_graph *g)
{
    size_t first = 0, result = 0;
    uint32_t last_position = g->last != NULL ? g->last->order : 0;
    for (const xcc_node *n = g->first; n != NULL; n = n->next) {
        size_t outputs = xcc_node_output_count(n);
        for (size_t i = 0; i < outputs; i++)
            result += xcc_node_output(n, i) != NULL;
        bool ends = n->next == NULL || n->next->kind != XCC_INSTRUCTION || n->kind != XCC_INSTRUCTION;
        if (!ends)
            continue;
        /* Program results live beyond its last node, where there are no jumps. */
        XCVM_TRY(plan_run(p, first, result - first, n->order == last_position ? p->live_ranges.positions : n->order));
        first = result;
    }
    uint64_t live = 0;
    for (uint32_t i = 0; i <= p->live_ranges.positions; i++) {
        live += p->change[i];
        p->plan->lower_bound = live > p->plan->lower_bound ? live : p->plan->lower_bound;
    }
    return XCVM_OK;
}

static xcvm_status plan_graph(xcc_module *m, xcc_graph *g, xcc_plan *plan)
{
    planner p = {.m = m, .plan = plan};
    XCVM_TRY(xcc_liveness_analyze(g, &p.live_ranges));
    size_t count = p.live_ranges.count, changes = ((size_t)p.live_ranges.positions + 2) * sizeof *p.change;
    p.items = xcvm_allocate(m->allocator, count * sizeof *p.items);
    p.room = xcvm_allocate(m->allocator, count * sizeof *p.room);
    p.change = xcvm_allocate_zeroed(m->allocator, changes);
    xcvm_status status = XCVM_OK;
    if (p.items != NULL && p.room != NULL && p.change != NULL)
        status = plan_runs(&p, g);
    else
        status = xcc_out_of_memory(m);
    xcvm_deallocate(m->allocator, p.items, count * sizeof *p.items);
    xcvm_deallocate(m->allocator, p.room, count * sizeof *p.room);
    xcvm_deallocate(m->allocator, p.change, changes);
    xcc_liveness_release(m, &p.live_ranges);
    for (xcc_node *n = g->first; n != NULL; n = n->next)
        for (size_t i = 0; i < n->body_count && status == XCVM_OK; i++)
            status = plan_graph(m, n->bodies[i], plan);
    return status;
}

xcvm_status xcc_plan_make(xcc_module *m, xcc_plan *plan)
{
    plan->arena_bytes = plan->lower_bound = 0;
    plan->slots = xcc_alloc(m, m->value_count * sizeof *plan->slots);
    return plan->slots != NULL ? plan_graph(m, m->graph, plan) : XCVM_OUT_OF_MEMORY;
}
