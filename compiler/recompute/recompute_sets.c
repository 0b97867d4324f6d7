/* Recomputation by lower sets: sets of items that hold, with an item, all that it depends on. A schedule is a sequence
 * of growing lower sets. What a set gives to items outside of it is kept; what else was computed from one set to the
 * next is forgotten, and computed again when the backward comes there, but for what lies behind the last set.
 *
 * All lower sets would be too many. As in the approximate algorithm those are taken that one item and what it depends
 * on make, and here also those of the first items in order, which cut through all branches at once. */
#include "compiler/recompute/recompute.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_SETS = 480,      /* of larger forwards so many are drawn at equal distances */
    MOST_CLOSURES = 4096, /* items; beyond, ancestors are not looked for */
    LEVELS = 256,         /* of time: of schedules within one of them, that which keeps least is pursued */
    PROPOSALS = 24
};

/* From one lower set to a larger one. */
typedef struct step {
    float kept; /* bytes that are kept for it */
    float held; /* bytes that there are besides when the backward goes through it; below 0: no step */
    float time; /* of what is computed again */
} step;

/* The best way found to a set, by time. */
typedef struct state {
    float kept, time; /* kept: FLT_MAX if there is no way */
    uint32_t set;     /* that it comes from */
    uint32_t level;   /* there */
} state;

typedef struct planner {
    const xcc_forward *f;
    size_t words;    /* of a set of items */
    uint64_t *sets;  /* the smallest, which is empty, first, and the one of all items last */
    uint64_t *edges; /* of each set: items in it that items outside read */
    uint32_t set_count;
    step *steps;   /* from set i to set j: steps[j * set_count + i] */
    state *states; /* of set j at level l: states[j * LEVELS + l] */
    bool *needed;  /* scratch, by item */
    bool *forgotten;
    double total; /* time of all items */
} planner;

static bool has(const uint64_t *set, uint32_t i) { return (set[i / 64] >> i % 64 & 1) != 0; }

static void put(uint64_t *set, uint32_t i) { set[i / 64] |= UINT64_C(1) << i % 64; }

static uint64_t *set_at(const planner *p, uint32_t s) { return p->sets + s * p->words; }

static uint64_t *edge_at(const planner *p, uint32_t s) { return p->edges + s * p->words; }

/* ---- The sets ---- */

static size_t size_of(const uint64_t *set, size_t words)
{
    size_t size = 0;
    for (size_t w = 0; w < words; w++)
        size += (size_t)__builtin_popcountll(set[w]);
    return size;
}

/* Sets with their sizes in front while they are sorted: smaller first, equal ones side by side. */
static int smaller_first(const void *pa, const void *pb)
{
    const uint64_t *a = pa, *b = pb;
    return a[0] != b[0] ? (a[0] < b[0] ? -1 : 1) : memcmp(a + 2, b + 2, (size_t)a[1] * sizeof *a);
}

/* Of each item what it depends on, itself included. */
static void find_closures(const planner *p, uint64_t *closures)
{
    const xcc_forward *f = p->f;
    memset(closures, 0, f->count * p->words * sizeof *closures);
    for (uint32_t i = 0; i < f->count; i++) {
        uint64_t *own = closures + i * p->words;
        put(own, i);
        for (uint32_t k = 0; k < f->items[i].input_count; k++) {
            const uint64_t *input = closures + f->inputs[f->items[i].first_input + k] * p->words;
            for (size_t w = 0; w < p->words; w++)
                own[w] |= input[w];
        }
    }
}

/* Fills in set candidates with their sizes, sorts them and keeps one of each. */
static void collect_sets(planner *p, const uint64_t *closures, uint64_t *room, uint32_t drawn)
{
    const size_t stride = p->words + 2;
    const uint32_t count = p->f->count;
    uint32_t found = 0;
    uint64_t *at = room;
    memset(room, 0, (2 * (size_t)drawn + 2) * stride * sizeof *room);
    for (uint32_t d = 0; d <= drawn; d++, at += stride, found++) {
        const uint32_t items = (uint32_t)((uint64_t)count * d / drawn);
        for (uint32_t i = 0; i < items; i++)
            put(at + 2, i);
    }
    for (uint32_t d = 0; d < drawn && closures != NULL; d++, at += stride, found++)
        memcpy(at + 2, closures + (uint64_t)count * d / drawn * p->words, p->words * sizeof *at);
    for (uint32_t s = 0; s < found; s++) {
        room[s * stride] = size_of(room + s * stride + 2, p->words);
        room[s * stride + 1] = p->words;
    }
    qsort(room, found, stride * sizeof *room, smaller_first);
    p->set_count = 0;
    for (uint32_t s = 0; s < found; s++) {
        const uint64_t *set = room + s * stride + 2;
        if (p->set_count > 0 && memcmp(set, set_at(p, p->set_count - 1), p->words * sizeof *set) == 0)
            continue;
        memcpy(set_at(p, p->set_count++), set, p->words * sizeof *set);
    }
}

static void find_edges(const planner *p)
{
    const xcc_forward *f = p->f;
    memset(p->edges, 0, p->set_count * p->words * sizeof *p->edges);
    for (uint32_t s = 0; s < p->set_count; s++)
        for (uint32_t i = 0; i < f->count; i++)
            for (uint32_t k = 0; k < f->items[i].input_count && !has(set_at(p, s), i); k++) {
                const uint32_t input = f->inputs[f->items[i].first_input + k];
                if (has(set_at(p, s), input))
                    put(edge_at(p, s), input);
            }
}

/* ---- Steps ---- */

static bool is_within(const uint64_t *small, const uint64_t *large, size_t words)
{
    for (size_t w = 0; w < words; w++)
        if ((small[w] & ~large[w]) != 0)
            return false;
    return true;
}

static step measure_step(const planner *p, uint32_t from, uint32_t to, double edge_bytes)
{
    const xcc_forward *f = p->f;
    const uint64_t *small = set_at(p, from), *large = set_at(p, to), *edge = edge_at(p, to);
    const bool is_last = to == p->set_count - 1;
    double kept = 0, held = 0, time = 0, largest = 0;
    memset(p->needed, 0, f->count);
    for (uint32_t i = f->count; i-- > 0;) {
        const xcc_forward_item *item = &f->items[i];
        if (item->stays || !has(large, i) || has(small, i))
            continue;
        const double bytes = (double)item->bytes;
        largest = bytes > largest ? bytes : largest;
        if (has(edge, i)) {
            kept += bytes;
            continue;
        }
        held += item->read ? bytes : 0;
        if (is_last || !(item->read || p->needed[i]))
            continue;
        time += item->time;
        for (uint32_t k = 0; k < item->input_count; k++)
            p->needed[f->inputs[item->first_input + k]] = true;
    }
    /* Gradients of what the set gives, and of an item and what it is made of. */
    return (step){(float)kept, (float)(held + edge_bytes + 2 * largest), (float)time};
}

static xcvm_status measure_steps(const planner *p)
{
    for (uint32_t to = 0; to < p->set_count; to++) {
        double edge_bytes = 0;
        for (uint32_t i = 0; i < p->f->count; i++)
            edge_bytes += has(edge_at(p, to), i) ? (double)p->f->items[i].bytes : 0;
        for (uint32_t from = 0; from < to; from++) {
            XCVM_TRY(xcc_poll(p->f->m));
            step *s = &p->steps[(size_t)to * p->set_count + from];
            *s = is_within(set_at(p, from), set_at(p, to), p->words) ? measure_step(p, from, to, edge_bytes)
                                                                     : (step){0, -1, 0};
        }
    }
    return XCVM_OK;
}

/* ---- Schedules ---- */

static void follow(planner *p, uint32_t from, uint32_t to, float budget)
{
    const step *s = &p->steps[(size_t)to * p->set_count + from];
    const double scale = p->total > 0 ? (LEVELS - 1) / p->total : 0;
    for (uint32_t l = 0; l < LEVELS; l++) {
        const state *begin = &p->states[(size_t)from * LEVELS + l];
        if (begin->kept == FLT_MAX || begin->kept + s->kept + s->held > budget)
            continue;
        const float kept = begin->kept + s->kept, time = begin->time + s->time;
        const double level = ceil((double)time * scale);
        state *end = &p->states[(size_t)to * LEVELS + (level < LEVELS - 1 ? (uint32_t)level : LEVELS - 1)];
        if (kept < end->kept || (kept == end->kept && time < end->time))
            *end = (state){kept, time, from, l};
    }
}

/* The forgotten items of the way to a state of the last set. */
static void trace(planner *p, uint32_t level)
{
    const xcc_forward *f = p->f;
    uint32_t set = p->set_count - 1;
    for (uint32_t i = 0; i < f->count; i++)
        p->forgotten[i] = !f->items[i].stays;
    while (set > 0) {
        const state *at = &p->states[(size_t)set * LEVELS + level];
        for (uint32_t i = 0; i < f->count; i++)
            if (has(edge_at(p, set), i) || (set == p->set_count - 1 && !has(set_at(p, at->set), i)))
                p->forgotten[i] = false;
        set = at->set;
        level = at->level;
    }
}

/* Whether there is a schedule within the budget; it is then in p->forgotten. */
static xcvm_status plan(planner *p, float budget, bool coarse, bool *found)
{
    const size_t states = (size_t)p->set_count * LEVELS;
    for (size_t i = 0; i < states; i++)
        p->states[i].kept = FLT_MAX;
    p->states[0] = (state){.kept = 0};
    for (uint32_t to = 1; to < p->set_count; to++)
        for (uint32_t from = 0; from < to; from++) {
            XCVM_TRY(xcc_poll(p->f->m));
            if (p->steps[(size_t)to * p->set_count + from].held >= 0)
                follow(p, from, to, budget);
        }
    const state *last = &p->states[(size_t)(p->set_count - 1) * LEVELS];
    *found = false;
    for (uint32_t l = 0; l < LEVELS && (coarse || !*found); l++)
        if (last[l].kept != FLT_MAX) {
            *found = true;
            trace(p, l);
        }
    return XCVM_OK;
}

static xcvm_status propose(planner *p, bool coarse, const xcc_proposals *to)
{
    double bytes = 0, largest = 0;
    p->total = 0;
    for (uint32_t i = 0; i < p->f->count; i++) {
        const xcc_forward_item *item = &p->f->items[i];
        p->total += item->stays ? 0 : item->time;
        bytes += item->stays ? 0 : (double)item->bytes;
        largest = (double)item->bytes > largest ? (double)item->bytes : largest;
    }
    bytes += 2 * largest;
    bool found = true;
    for (int i = 0; i < PROPOSALS && found && bytes > 0; i++) {
        XCVM_TRY(plan(p, (float)(bytes * pow(0.85, i)), coarse, &found));
        if (found)
            XCVM_TRY(to->take(to->user, p->forgotten));
    }
    return XCVM_OK;
}

xcvm_status xcc_propose_lower_sets(const xcc_forward *f, bool coarse, const xcc_proposals *to)
{
    if (f->count == 0)
        return XCVM_OK;
    const xcvm_allocator *a = f->m->allocator;
    planner p = {.f = f, .words = ((size_t)f->count + 63) / 64};
    const bool closed = f->count <= MOST_CLOSURES;
    const uint32_t drawn = closed && 2 * f->count > MOST_SETS ? MOST_SETS / 2
                           : f->count > MOST_SETS             ? MOST_SETS
                                                              : f->count;
    const uint32_t most = 2 * drawn + 2;
    const size_t set_bytes = most * p.words * sizeof *p.sets, room_bytes = most * (p.words + 2) * sizeof *p.sets,
                 closure_bytes = closed ? f->count * p.words * sizeof *p.sets : 0,
                 step_bytes = (size_t)most * most * sizeof *p.steps,
                 state_bytes = (size_t)most * LEVELS * sizeof *p.states;
    uint64_t *closures = closed ? xcvm_allocate(a, closure_bytes) : NULL, *room = xcvm_allocate(a, room_bytes);
    p.sets = xcvm_allocate(a, set_bytes);
    p.edges = xcvm_allocate(a, set_bytes);
    p.steps = xcvm_allocate(a, step_bytes);
    p.states = xcvm_allocate(a, state_bytes);
    p.needed = xcvm_allocate(a, f->count);
    p.forgotten = xcvm_allocate(a, f->count);
    xcvm_status status = XCVM_OK;
    if ((closed && closures == NULL) || room == NULL || p.sets == NULL || p.edges == NULL || p.steps == NULL ||
        p.states == NULL || p.needed == NULL || p.forgotten == NULL)
        status = xcc_out_of_memory(f->m);
    if (status == XCVM_OK) {
        if (closed)
            find_closures(&p, closures);
        collect_sets(&p, closures, room, drawn);
        find_edges(&p);
        status = measure_steps(&p);
    }
    if (status == XCVM_OK)
        status = propose(&p, coarse, to);
    xcvm_deallocate(a, closures, closure_bytes);
    xcvm_deallocate(a, room, room_bytes);
    xcvm_deallocate(a, p.sets, set_bytes);
    xcvm_deallocate(a, p.edges, set_bytes);
    xcvm_deallocate(a, p.steps, step_bytes);
    xcvm_deallocate(a, p.states, state_bytes);
    xcvm_deallocate(a, p.needed, f->count);
    xcvm_deallocate(a, p.forgotten, f->count);
    return status;
}
