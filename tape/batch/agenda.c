/* The agenda: chooses the order in which waiting ops run, and which run together. */
#include "base/array.h"
#include "base/clock.h"
#include "tape/batch/batch.h"
#include "tape/lazy/lazy.h"

#include <string.h>

/* An op of the evaluation. */
typedef struct entry {
    tape_op_record *record;
    uint32_t call;       /* index in the queue of waiting ops */
    uint32_t needs;      /* ops that must run before it */
    uint32_t depth;      /* length of the longest chain of ops before it */
    uint32_t used_at;    /* smallest depth of an op that reads it */
    uint32_t queue;      /* 0: it runs alone */
    uint32_t dependents; /* end, then start, of its part of the dependents */
    uint32_t next;       /* in its queue: index + 1 */
} entry;

/* Ops of one signature, and of one depth if that is the strategy, which may run together. */
typedef struct queue {
    uint64_t key;
    uint64_t depths; /* sum of the depths */
    uint32_t count;
    uint32_t first, last, ready; /* ready ops */
} queue;

/* The arrays are reused by the next evaluation. */
struct tape_agenda {
    xcvm_tape *tape;
    entry *entries;
    uint32_t *needed; /* indices of the entries that each entry depends on */
    uint32_t *dependents;
    queue *queues;            /* queue 0 has the ops that run alone */
    uint32_t *slots;          /* hash table of queues */
    tape_op_record **members; /* ready ops of a queue */
    uint32_t *order, *half;   /* indices of them; scratch */
    uint32_t count, edges, queue_count, slot_mask;
    size_t entry_capacity, edge_capacity, dependent_capacity, queue_capacity, slot_capacity, member_capacity,
        order_capacity, half_capacity;
    bool by_depth;
};
typedef struct tape_agenda agenda;

/* Reserves `count` elements behind the used ones; false: no memory. */
static bool make_room(const agenda *a, void *array, size_t used, size_t count, size_t *capacity, size_t size)
{
    void **at = array;
    while (*capacity - used < count) {
        void *larger = xcvm_array_grow(a->tape->allocator, *at, *capacity, capacity, size);
        if (larger == NULL || *capacity > INT32_MAX)
            return false;
        *at = larger;
    }
    return true;
}
#define MAKE_ROOM(array, used, count, capacity) make_room(a, &(array), used, count, &(capacity), sizeof *(array))

void tape_agenda_release(xcvm_tape *t)
{
    agenda *a = t->batching.agenda;
    if (a == NULL)
        return;
    xcvm_deallocate(t->allocator, a->entries, a->entry_capacity * sizeof *a->entries);
    xcvm_deallocate(t->allocator, a->needed, a->edge_capacity * sizeof *a->needed);
    xcvm_deallocate(t->allocator, a->dependents, a->dependent_capacity * sizeof *a->dependents);
    xcvm_deallocate(t->allocator, a->queues, a->queue_capacity * sizeof *a->queues);
    xcvm_deallocate(t->allocator, a->slots, a->slot_capacity * sizeof *a->slots);
    xcvm_deallocate(t->allocator, a->members, a->member_capacity * sizeof *a->members);
    xcvm_deallocate(t->allocator, a->order, a->order_capacity * sizeof *a->order);
    xcvm_deallocate(t->allocator, a->half, a->half_capacity * sizeof *a->half);
    xcvm_deallocate(t->allocator, a, sizeof *a);
    t->batching.agenda = NULL;
}

/* ---- Queues ---- */

static uint32_t queue_slot(const agenda *a, uint64_t key)
{
    uint32_t at = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & a->slot_mask;
    while (a->slots[at] != 0 && a->queues[a->slots[at]].key != key)
        at = (at + 1) & a->slot_mask;
    return at;
}

/* Reserves one more queue and its hash slot. */
static bool grow_queues(agenda *a)
{
    const size_t before = a->queue_capacity;
    if (!MAKE_ROOM(a->queues, a->queue_count, 1, a->queue_capacity))
        return false;
    if (a->queue_count > 0 && a->queue_capacity == before)
        return true;
    size_t slots = 4;
    while (slots < 4 * a->queue_capacity)
        slots *= 2;
    if (!MAKE_ROOM(a->slots, 0, slots, a->slot_capacity))
        return false;
    memset(a->slots, 0, slots * sizeof *a->slots);
    a->slot_mask = (uint32_t)slots - 1;
    for (uint32_t i = 1; i < a->queue_count; i++)
        a->slots[queue_slot(a, a->queues[i].key)] = i;
    return true;
}

static bool find_queue(agenda *a, entry *e, uint32_t signature)
{
    if (signature == 0)
        return true;
    const uint64_t key = (uint64_t)signature << 32 | (a->by_depth ? e->depth : 0);
    if (!grow_queues(a))
        return false;
    const uint32_t at = queue_slot(a, key);
    if (a->slots[at] == 0) {
        a->slots[at] = a->queue_count;
        a->queues[a->queue_count++] = (queue){.key = key};
    }
    e->queue = a->slots[at];
    a->queues[e->queue].count++;
    a->queues[e->queue].depths += e->depth;
    return true;
}

/* ---- Ops to run ---- */

/* Mark of an op that is to be appended. */
static const uint32_t wanted_mark = UINT32_MAX;

static bool append_entry(agenda *a, uint32_t number)
{
    const tape_pending *p = a->tape->batching.pending;
    tape_pending_op *call = &p->calls[number];
    const uint32_t end = tape_pending_end(p, number);
    if (!MAKE_ROOM(a->entries, a->count, 1, a->entry_capacity) ||
        !MAKE_ROOM(a->needed, a->edges, end - call->first, a->edge_capacity))
        return false;
    entry *e = &a->entries[a->count];
    *e = (entry){.record = call->record, .call = number, .used_at = UINT32_MAX};
    for (uint32_t i = call->first; i < end; i++) {
        const tape_pending_op *other = &p->calls[p->needed[i]];
        if (other->record == NULL)
            continue;
        entry *needed = &a->entries[other->mark - 1];
        a->needed[a->edges++] = other->mark - 1;
        e->needs++;
        needed->dependents++;
        e->depth = needed->depth + 1 > e->depth ? needed->depth + 1 : e->depth;
    }
    for (uint32_t i = a->edges - e->needs; i < a->edges; i++) {
        entry *needed = &a->entries[a->needed[i]];
        needed->used_at = e->depth < needed->used_at ? e->depth : needed->used_at;
    }
    call->mark = ++a->count;
    return find_queue(a, e, call->signature);
}

/* Marks the ops that `root` depends on, and returns the lowest marked index. The queue is in order of dependencies,
 * so no op before that index is read. */
static uint32_t mark_needed(const tape_pending *p, uint32_t root)
{
    uint32_t open = 1, at = root;
    for (p->calls[root].mark = wanted_mark;; at--) {
        const tape_pending_op *call = &p->calls[at];
        if (call->mark == 0)
            continue;
        const uint32_t end = tape_pending_end(p, at);
        for (uint32_t i = call->first; i < end; i++) {
            tape_pending_op *needed = &p->calls[p->needed[i]];
            if (needed->record == NULL || needed->mark != 0)
                continue;
            needed->mark = wanted_mark;
            open++;
        }
        if (--open == 0)
            return at;
    }
}

/* Appends an op after those that it depends on. */
static bool collect_needed(agenda *a, uint32_t root)
{
    const tape_pending *p = a->tape->batching.pending;
    bool good = true;
    for (uint32_t at = mark_needed(p, root); at <= root; at++) {
        if (p->calls[at].mark != wanted_mark)
            continue;
        p->calls[at].mark = 0;
        good = good && append_entry(a, at);
    }
    return good;
}

/* Filling each part from its end moves the end to the start of the part. */
static bool find_dependents(agenda *a)
{
    if (!MAKE_ROOM(a->members, 0, a->count, a->member_capacity) ||
        !MAKE_ROOM(a->order, 0, a->count, a->order_capacity) || !MAKE_ROOM(a->half, 0, a->count, a->half_capacity) ||
        !MAKE_ROOM(a->dependents, 0, a->edges, a->dependent_capacity))
        return false;
    uint32_t end = 0, edge = a->edges;
    for (uint32_t i = 0; i < a->count; i++)
        end = a->entries[i].dependents += end;
    for (uint32_t i = a->count; i-- > 0;)
        for (uint32_t k = 0; k < a->entries[i].needs; k++)
            a->dependents[--a->entries[a->needed[--edge]].dependents] = i;
    return true;
}

static bool build_agenda(agenda *a, tape_op_record *root)
{
    a->count = a->edges = a->queue_count = 0;
    if (!grow_queues(a))
        return false;
    a->queues[a->queue_count++] = (queue){0};
    if (root != NULL && !collect_needed(a, root->pending_index - 1))
        return false;
    for (uint32_t i = 0; root == NULL && i < a->tape->batching.pending->count; i++)
        if (a->tape->batching.pending->calls[i].record != NULL && !append_entry(a, i))
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

static void finish_entry(agenda *a, uint32_t at)
{
    const uint32_t end = at + 1 < a->count ? a->entries[at + 1].dependents : a->edges;
    for (uint32_t i = a->entries[at].dependents; i < end; i++)
        if (--a->entries[a->dependents[i]].needs == 0)
            make_ready(a, a->dependents[i]);
}

/* The queue with the smallest average depth: most ops wait for it. */
static uint32_t choose_queue(const agenda *a)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < a->queue_count; i++) {
        const queue *k = &a->queues[i], *b = &a->queues[best];
        if (k->ready > 0 && (best == 0 || k->depths * b->count < b->depths * k->count))
            best = i;
    }
    return best;
}

static size_t total_bytes(tape_variable *const *variables, uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += variables[i] != NULL ? variables[i]->value.type.bytes : 0;
    return bytes;
}

/* Merge sort: merges the halves of order[0 .. count), which are sorted. */
static void sort_by_use(const agenda *a, uint32_t *order, uint32_t *first, uint32_t count)
{
    const uint32_t half = count / 2;
    if (count < 2)
        return;
    sort_by_use(a, order, first, half);
    sort_by_use(a, order + half, first, count - half);
    if (a->entries[order[half - 1]].used_at <= a->entries[order[half]].used_at)
        return;
    memcpy(first, order, half * sizeof *first);
    for (uint32_t i = 0, k = half, to = 0; i < half; to++)
        order[to] = k < count && a->entries[order[k]].used_at < a->entries[first[i]].used_at ? order[k++] : first[i++];
}

/* Results that ops of one depth read should be contiguous. Sorting is worth it if the results are larger than the
 * operands that must be copied. */
static void order_by_use(const agenda *a, uint32_t count)
{
    const tape_op_record *r = a->entries[a->order[0]].record;
    size_t moved = 0;
    for (uint32_t i = 0; i < r->in_count; i++)
        moved += r->in[i] != NULL && r->in[i]->creator != NULL ? r->in[i]->value.type.bytes : 0;
    if (total_bytes(r->out, r->out_count) > moved)
        sort_by_use(a, a->order, a->half, count);
}

static xcvm_status run_member(xcvm_tape *t, tape_op_record *r)
{
    XCVM_TRY(tape_lazy_run(t, r));
    tape_pending_remove(r);
    return XCVM_OK;
}

static xcvm_status run_members(xcvm_tape *t, tape_op_record *const *members, uint32_t count)
{
    if (count > 1 && tape_run_batch(t, members, count))
        return XCVM_OK;
    for (uint32_t i = 0; i < count; i++)
        XCVM_TRY(run_member(t, members[i]));
    return XCVM_OK;
}

/* Runs the ready ops of a queue. */
static xcvm_status run_queue(agenda *a, uint32_t which)
{
    queue *k = &a->queues[which];
    const uint32_t count = k->ready;
    for (uint32_t i = 0, at = k->first; i < count; i++, at = a->entries[at - 1].next)
        a->order[i] = at - 1;
    k->ready = k->first = k->last = 0;
    if (which != 0)
        order_by_use(a, count);
    for (uint32_t i = 0; i < count; i++)
        a->members[i] = a->entries[a->order[i]].record;
    if (which != 0)
        tape_prefetch_to_run(a->members, count);
    for (uint32_t i = 0, run; i < count; i += run) {
        run = which != 0 ? tape_batch_length(a->members + i, count - i) : 1;
        XCVM_TRY(run_members(a->tape, a->members + i, run));
    }
    for (uint32_t i = 0; i < count; i++)
        finish_entry(a, a->order[i]);
    return XCVM_OK;
}

static xcvm_status run_all(agenda *a)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->entries[i].needs == 0)
            make_ready(a, i);
    for (;;) {
        const uint32_t which = a->queues[0].ready > 0 ? 0 : choose_queue(a);
        if (a->queues[which].ready == 0)
            return XCVM_OK;
        XCVM_TRY(run_queue(a, which));
    }
}

/* ---- Strategies ---- */

enum { TRIALS = 2, WORTH_TIMING = 32 };

static xcvm_batching strategy_of(const xcvm_tape *t)
{
    if (t->batching.strategy != XCVM_BATCHING_TIMED)
        return t->batching.strategy;
    const bool depth_next = t->batching.trial_count < TRIALS ? t->batching.trial_count % 2 == 1
                                                             : t->batching.trial_ns[1] < t->batching.trial_ns[0];
    return depth_next ? XCVM_BATCHING_DEPTH : XCVM_BATCHING_AGENDA;
}

static agenda *agenda_of(xcvm_tape *t)
{
    if (t->batching.agenda == NULL &&
        (t->batching.agenda = xcvm_allocate_zeroed(t->allocator, sizeof *t->batching.agenda)) != NULL)
        t->batching.agenda->tape = t;
    return t->batching.agenda;
}

static xcvm_status run_agenda(xcvm_tape *t, tape_op_record *root, xcvm_batching strategy, uint32_t *count)
{
    agenda *a = agenda_of(t);
    if (a == NULL)
        return tape_fail(t, XCVM_OUT_OF_MEMORY, "there is no memory for an agenda");
    a->by_depth = strategy == XCVM_BATCHING_DEPTH;
    const xcvm_status status =
        build_agenda(a, root)
            ? run_all(a)
            : tape_fail(t, XCVM_OUT_OF_MEMORY, "there is no memory for the agenda of %u calls", (unsigned)a->count);
    for (uint32_t i = 0; i < a->count; i++)
        t->batching.pending->calls[a->entries[i].call].mark = 0;
    *count = a->count;
    return status;
}

xcvm_status tape_run_agenda(xcvm_tape *t, tape_op_record *root)
{
    const bool timed = t->batching.strategy == XCVM_BATCHING_TIMED && t->batching.trial_count < TRIALS;
    const uint64_t begun = timed ? xcvm_clock_ns() : 0;
    uint32_t count = 0;
    if (t->batching.pending == NULL)
        return XCVM_OK; /* no op has ever waited */
    tape_pending_evaluate(t->batching.pending, true);
    const xcvm_status status = run_agenda(t, root, strategy_of(t), &count);
    tape_pending_evaluate(t->batching.pending, false);
    if (timed && status == XCVM_OK && count >= WORTH_TIMING)
        t->batching.trial_ns[t->batching.trial_count++] = (double)(xcvm_clock_ns() - begun) / count;
    return status;
}
