/* The agenda: in which order calls that wait are run, and which of them together. */
#include "base/clock.h"
#include "tape/batch.h"

#include <string.h>

/* A call in the evaluation; its record's mark is its place, + 1. */
typedef struct entry {
    tape_record *record;
    uint32_t needs;      /* calls that have to run before */
    uint32_t depth;      /* the most calls that run one behind the other before it */
    uint32_t used_at;    /* the least depth of a call that needs it */
    uint32_t queue;      /* 0: it runs by itself */
    uint32_t dependents; /* the end, then the beginning, of its part of the list of those */
    uint32_t next;       /* in its queue: place + 1 */
} entry;

/* Calls of one signature, and of one depth where that is the strategy, which can run together. */
typedef struct queue {
    uint64_t key;
    uint64_t depths; /* their sum */
    uint32_t count;
    uint32_t first, last, ready; /* that can run now */
} queue;

typedef struct agenda {
    xcvm_tape *tape;
    entry *entries;
    uint32_t count, capacity;
    uint32_t *needed; /* of each entry in turn, the places of those that it needs */
    uint32_t edges, edge_capacity;
    uint32_t *dependents;
    queue *queues; /* queue 0 is of those that run by themselves */
    uint32_t queue_count, queue_capacity;
    uint32_t *slots; /* queues by key */
    uint32_t slot_mask;
    tape_record **members;   /* of the batch that is made */
    uint32_t *order, *spare; /* places of what is ready in a queue */
    bool by_depth;
} agenda;

/* A larger array in the place of one of `used` elements; false: no memory. */
static bool grow(agenda *a, void **at, uint32_t used, uint32_t *capacity, size_t size)
{
    const uint32_t larger = *capacity > 0 ? 2 * *capacity : 64;
    void *made = larger <= INT32_MAX / 4 ? xcvm_arena_allocate(&a->tape->agenda, larger * size) : NULL;
    if (made == NULL)
        return false;
    if (used > 0)
        memcpy(made, *at, used * size);
    *at = made;
    *capacity = larger;
    return true;
}

/* ---- Queues ---- */

static uint32_t slot_of(const agenda *a, uint64_t key)
{
    uint32_t at = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & a->slot_mask;
    while (a->slots[at] != 0 && a->queues[a->slots[at]].key != key)
        at = (at + 1) & a->slot_mask;
    return at;
}

static bool grow_queues(agenda *a)
{
    if (!grow(a, (void **)&a->queues, a->queue_count, &a->queue_capacity, sizeof *a->queues))
        return false;
    const uint32_t slots = 4 * a->queue_capacity;
    a->slots = xcvm_arena_allocate(&a->tape->agenda, slots * sizeof *a->slots);
    if (a->slots == NULL)
        return false;
    a->slot_mask = slots - 1;
    for (uint32_t i = 1; i < a->queue_count; i++)
        a->slots[slot_of(a, a->queues[i].key)] = i;
    return true;
}

static bool find_queue(agenda *a, entry *e)
{
    if (e->record->signature == 0)
        return true;
    const uint64_t key = (uint64_t)e->record->signature << 32 | (a->by_depth ? e->depth : 0);
    if (a->queue_count == a->queue_capacity && !grow_queues(a))
        return false;
    const uint32_t at = slot_of(a, key);
    if (a->slots[at] == 0) {
        a->slots[at] = a->queue_count;
        a->queues[a->queue_count++] = (queue){.key = key};
    }
    e->queue = a->slots[at];
    a->queues[e->queue].count++;
    a->queues[e->queue].depths += e->depth;
    return true;
}

/* ---- What is to be run ---- */

/* Of a record that is being looked at: the rest of its mark is how many operands have been. */
static const uint32_t open_mark = UINT32_C(1) << 31;

static bool append(agenda *a, tape_record *r)
{
    if (a->count == a->capacity && !grow(a, (void **)&a->entries, a->count, &a->capacity, sizeof *a->entries))
        return false;
    entry *e = &a->entries[a->count];
    *e = (entry){.record = r, .used_at = UINT32_MAX};
    for (uint32_t i = 0; i < r->in_count; i++) {
        const tape_record *creator = r->in[i] != NULL ? r->in[i]->creator : NULL;
        if (creator == NULL || !creator->waiting)
            continue;
        if (a->edges == a->edge_capacity &&
            !grow(a, (void **)&a->needed, a->edges, &a->edge_capacity, sizeof *a->needed))
            return false;
        entry *needed = &a->entries[creator->mark - 1];
        a->needed[a->edges++] = creator->mark - 1;
        e->needs++;
        needed->dependents++;
        e->depth = needed->depth + 1 > e->depth ? needed->depth + 1 : e->depth;
    }
    for (uint32_t i = a->edges - e->needs; i < a->edges; i++) {
        entry *needed = &a->entries[a->needed[i]];
        needed->used_at = e->depth < needed->used_at ? e->depth : needed->used_at;
    }
    r->mark = ++a->count;
    return find_queue(a, e);
}

/* Appends a call, behind what it needs. Records that are being looked at are linked by `order`. */
static bool collect(agenda *a, tape_record *r)
{
    tape_record *open = NULL;
    bool good = true;
    if (r->mark == 0) {
        r->mark = open_mark;
        r->order = NULL;
        open = r;
    }
    while ((r = open) != NULL) {
        const uint32_t looked_at = r->mark & ~open_mark;
        if (good && looked_at < r->in_count) {
            const tape_variable *v = r->in[looked_at];
            tape_record *creator = v != NULL ? v->creator : NULL;
            r->mark++;
            if (creator == NULL || !creator->waiting || creator->mark != 0)
                continue;
            creator->mark = open_mark;
            creator->order = open;
            open = creator;
            for (uint32_t i = 0; i < creator->in_count; i++)
                if (creator->in[i] != NULL)
                    __builtin_prefetch(&creator->in[i]->creator);
            continue;
        }
        open = r->order;
        r->order = NULL;
        good = good && append(a, r);
        if (!good)
            r->mark = 0;
    }
    return good;
}

/* Each entry's part of the list ends where the next begins; filling them from their ends leaves their beginnings. */
static bool find_dependents(agenda *a)
{
    a->members = xcvm_arena_allocate(&a->tape->agenda, a->count * sizeof *a->members);
    a->order = xcvm_arena_allocate(&a->tape->agenda, 2 * a->count * sizeof *a->order);
    a->dependents = xcvm_arena_allocate(&a->tape->agenda, (a->edges + 1) * sizeof *a->dependents);
    if (a->members == NULL || a->order == NULL || a->dependents == NULL)
        return false;
    a->spare = a->order + a->count;
    uint32_t end = 0, edge = a->edges;
    for (uint32_t i = 0; i < a->count; i++)
        end = a->entries[i].dependents += end;
    for (uint32_t i = a->count; i-- > 0;)
        for (uint32_t k = 0; k < a->entries[i].needs; k++)
            a->dependents[--a->entries[a->needed[--edge]].dependents] = i;
    return true;
}

static bool prepare(agenda *a, tape_record *root)
{
    if (!grow_queues(a))
        return false;
    a->queue_count = 1;
    if (root != NULL && !collect(a, root))
        return false;
    for (tape_record *r = root == NULL ? a->tape->first_waiting : NULL; r != NULL; r = r->next)
        if (!collect(a, r))
            return false;
    return find_dependents(a);
}

/* ---- Running ---- */

static void make_ready(agenda *a, uint32_t at)
{
    queue *k = &a->queues[a->entries[at].queue];
    if (k->ready++ == 0)
        k->first = at + 1;
    else
        a->entries[k->last - 1].next = at + 1;
    k->last = at + 1;
}

static void finish(agenda *a, uint32_t at)
{
    const uint32_t end = at + 1 < a->count ? a->entries[at + 1].dependents : a->edges;
    for (uint32_t i = a->entries[at].dependents; i < end; i++)
        if (--a->entries[a->dependents[i]].needs == 0)
            make_ready(a, a->dependents[i]);
}

/* The queue whose calls are the least deep on average: what others wait for the most comes first. */
static uint32_t choose(const agenda *a)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < a->queue_count; i++) {
        const queue *k = &a->queues[i], *b = &a->queues[best];
        if (k->ready > 0 && (best == 0 || k->depths * b->count < b->depths * k->count))
            best = i;
    }
    return best;
}

static size_t bytes_of(tape_variable *const *variables, uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += variables[i] != NULL ? variables[i]->value.type.bytes : 0;
    return bytes;
}

/* Merges the two halves of order[0 .. count), which are sorted. */
static void sort(const agenda *a, uint32_t *order, uint32_t *spare, uint32_t count)
{
    const uint32_t half = count / 2;
    if (count < 2)
        return;
    sort(a, order, spare, half);
    sort(a, order + half, spare, count - half);
    if (a->entries[order[half - 1]].used_at <= a->entries[order[half]].used_at)
        return;
    memcpy(spare, order, half * sizeof *spare);
    for (uint32_t i = 0, k = half, to = 0; i < half; to++)
        order[to] = k < count && a->entries[order[k]].used_at < a->entries[spare[i]].used_at ? order[k++] : spare[i++];
}

/* What is needed by calls of one depth is to lie side by side, if that is more to move then than it is to move now. */
static void put_in_order(const agenda *a, uint32_t count)
{
    const tape_record *r = a->entries[a->order[0]].record;
    size_t moved = 0;
    for (uint32_t i = 0; i < r->in_count; i++)
        moved += r->in[i] != NULL && r->in[i]->creator != NULL ? r->in[i]->value.type.bytes : 0;
    if (bytes_of(r->out, r->out_count) > moved)
        sort(a, a->order, a->spare, count);
}

static xcvm_status run_members(xcvm_tape *t, tape_record *const *members, uint32_t count)
{
    if (count > 1 && tape_run_batch(t, members, count))
        return XCVM_OK;
    for (uint32_t i = 0; i < count; i++)
        XCVM_TRY(tape_run_waiting(t, members[i]));
    return XCVM_OK;
}

/* Runs what is ready in a queue. */
static xcvm_status run_queue(agenda *a, uint32_t which)
{
    queue *k = &a->queues[which];
    const uint32_t count = k->ready;
    for (uint32_t i = 0, at = k->first; i < count; i++, at = a->entries[at - 1].next)
        a->order[i] = at - 1;
    k->ready = k->first = k->last = 0;
    if (which != 0)
        put_in_order(a, count);
    for (uint32_t i = 0; i < count; i++)
        a->members[i] = a->entries[a->order[i]].record;
    if (which != 0)
        tape_prefetch(a->members, count);
    for (uint32_t i = 0, run; i < count; i += run) {
        run = which != 0 ? tape_batch_length(a->members + i, count - i) : 1;
        XCVM_TRY(run_members(a->tape, a->members + i, run));
    }
    for (uint32_t i = 0; i < count; i++)
        finish(a, a->order[i]);
    return XCVM_OK;
}

static xcvm_status run_all(agenda *a)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->entries[i].needs == 0)
            make_ready(a, i);
    for (;;) {
        const uint32_t which = a->queues[0].ready > 0 ? 0 : choose(a);
        if (a->queues[which].ready == 0)
            return XCVM_OK;
        XCVM_TRY(run_queue(a, which));
    }
}

/* ---- Strategies ---- */

enum { TRIALS = 2, WORTH_TIMING = 32 };

static xcvm_batching strategy_of(const xcvm_tape *t)
{
    if (t->batching != XCVM_BATCHING_TIMED)
        return t->batching;
    const bool depth_next = t->trials < TRIALS ? t->trials % 2 == 1 : t->trial_ns[1] < t->trial_ns[0];
    return depth_next ? XCVM_BATCHING_DEPTH : XCVM_BATCHING_AGENDA;
}

xcvm_status tape_run_agenda(xcvm_tape *t, tape_record *root)
{
    agenda a = {.tape = t, .by_depth = strategy_of(t) == XCVM_BATCHING_DEPTH};
    const bool timed = t->batching == XCVM_BATCHING_TIMED && t->trials < TRIALS;
    const uint64_t begun = timed ? xcvm_clock_ns() : 0;
    const xcvm_status status =
        prepare(&a, root)
            ? run_all(&a)
            : tape_fail(t, XCVM_OUT_OF_MEMORY, "there is no memory for the agenda of %u calls", (unsigned)a.count);
    for (uint32_t i = 0; i < a.count; i++)
        a.entries[i].record->mark = 0;
    if (timed && status == XCVM_OK && a.count >= WORTH_TIMING)
        t->trial_ns[t->trials++] = (double)(xcvm_clock_ns() - begun) / a.count;
    xcvm_arena_clear(&t->agenda);
    return status;
}
