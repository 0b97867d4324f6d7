/* The agenda: in which order calls that wait are run, and which of them together. */
#include "base/clock.h"
#include "tape/batch.h"

#include <string.h>

/* A call in the evaluation; its record's mark is its place, + 1. */
typedef struct entry {
    tape_record *record;
    uint32_t needs;      /* calls that have to run before */
    uint32_t depth;      /* the most calls that run one behind the other before it */
    uint32_t kind;       /* 0: it runs by itself */
    uint32_t dependents; /* the end of its part of the list of those */
    uint32_t next;       /* in its kind's queue; 0: none, else place + 1 */
} entry;

/* Calls that can run together. */
typedef struct kind {
    const uint64_t *key;
    size_t words;
    uint64_t hash;
    uint64_t depths; /* their sum */
    uint32_t count;
    uint32_t first, last; /* that can run now */
    uint32_t ready;
} kind;

typedef struct agenda {
    xcvm_tape *tape;
    xcvm_arena arena;
    entry *entries;
    uint32_t count;
    uint32_t *dependents;
    kind *kinds; /* kind 0 is of those that run by themselves */
    uint32_t kind_count, kind_capacity;
    uint32_t *slots; /* kinds by hash */
    uint32_t slot_mask;
    tape_record **members; /* of the batch that is made */
    bool by_depth;
} agenda;

/* ---- Kinds ---- */

static bool grow_kinds(agenda *a)
{
    const uint32_t capacity = a->kind_capacity > 0 ? 2 * a->kind_capacity : 64, slots = 4 * capacity;
    kind *kinds = xcvm_arena_allocate(&a->arena, capacity * sizeof *kinds);
    uint32_t *table = xcvm_arena_allocate(&a->arena, slots * sizeof *table);
    if (kinds == NULL || table == NULL)
        return false;
    if (a->kind_count > 0)
        memcpy(kinds, a->kinds, a->kind_count * sizeof *kinds);
    a->kinds = kinds;
    a->kind_capacity = capacity;
    a->slots = table;
    a->slot_mask = slots - 1;
    for (uint32_t i = 1; i < a->kind_count; i++) {
        uint32_t at = (uint32_t)kinds[i].hash & a->slot_mask;
        while (table[at] != 0)
            at = (at + 1) & a->slot_mask;
        table[at] = i;
    }
    return true;
}

static bool find_kind(agenda *a, entry *e)
{
    tape_key key;
    if (!tape_key_of(e->record, a->by_depth ? e->depth : 0, &key))
        return true;
    if (a->kind_count == a->kind_capacity && !grow_kinds(a))
        return false;
    const uint64_t hash = tape_key_hash(&key);
    uint32_t at = (uint32_t)hash & a->slot_mask;
    for (; a->slots[at] != 0; at = (at + 1) & a->slot_mask) {
        const kind *k = &a->kinds[a->slots[at]];
        if (k->hash == hash && k->words == key.count && memcmp(k->key, key.words, key.count * sizeof *key.words) == 0)
            break;
    }
    if (a->slots[at] == 0) {
        uint64_t *words = xcvm_arena_allocate(&a->arena, key.count * sizeof *words);
        if (words == NULL)
            return false;
        memcpy(words, key.words, key.count * sizeof *words);
        a->slots[at] = a->kind_count;
        a->kinds[a->kind_count++] = (kind){.key = words, .words = key.count, .hash = hash};
    }
    e->kind = a->slots[at];
    kind *k = &a->kinds[e->kind];
    k->count++;
    k->depths += e->depth;
    return true;
}

/* ---- What depends on what ---- */

static entry *entry_that_made(const agenda *a, const tape_variable *v)
{
    const tape_record *creator = v != NULL ? v->creator : NULL;
    return creator != NULL && creator->waiting && creator->mark != 0 ? &a->entries[creator->mark - 1] : NULL;
}

static bool prepare(agenda *a, tape_record *first)
{
    uint32_t at = 0, edges = 0;
    a->entries = xcvm_arena_allocate(&a->arena, a->count * sizeof *a->entries);
    a->members = xcvm_arena_allocate(&a->arena, a->count * sizeof *a->members);
    if (a->entries == NULL || a->members == NULL || !grow_kinds(a))
        return false;
    a->kind_count = 1;
    for (tape_record *r = first; r != NULL; r = r->order) {
        entry *e = &a->entries[at++];
        r->mark = at;
        e->record = r;
        for (uint32_t i = 0; i < r->in_count; i++) {
            entry *needed = entry_that_made(a, r->in[i]);
            if (needed == NULL)
                continue;
            e->needs++;
            needed->dependents++;
            edges++;
            e->depth = needed->depth + 1 > e->depth ? needed->depth + 1 : e->depth;
        }
        if (!find_kind(a, e))
            return false;
    }
    a->dependents = xcvm_arena_allocate(&a->arena, (edges + 1) * sizeof *a->dependents);
    if (a->dependents == NULL)
        return false;
    /* Each entry's part ends where the next begins; filling them from their ends leaves their beginnings. */
    uint32_t end = 0;
    for (uint32_t i = 0; i < a->count; i++)
        end = a->entries[i].dependents += end;
    for (uint32_t i = a->count; i-- > 0;) {
        const tape_record *r = a->entries[i].record;
        for (uint32_t k = 0; k < r->in_count; k++) {
            entry *needed = entry_that_made(a, r->in[k]);
            if (needed != NULL)
                a->dependents[--needed->dependents] = i;
        }
    }
    return true;
}

/* ---- Running ---- */

static void make_ready(agenda *a, uint32_t at)
{
    entry *e = &a->entries[at];
    kind *k = &a->kinds[e->kind];
    e->next = 0;
    if (k->ready++ == 0)
        k->first = at + 1;
    else
        a->entries[k->last - 1].next = at + 1;
    k->last = at + 1;
}

static void release_dependents(agenda *a, uint32_t at, uint32_t end)
{
    for (uint32_t i = a->entries[at].dependents; i < end; i++)
        if (--a->entries[a->dependents[i]].needs == 0)
            make_ready(a, a->dependents[i]);
}

static void finish(agenda *a, uint32_t at, uint32_t edges)
{
    release_dependents(a, at, at + 1 < a->count ? a->entries[at + 1].dependents : edges);
}

/* The kind whose calls are the least deep on average: what others wait for the most comes first. */
static uint32_t choose(const agenda *a)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < a->kind_count; i++) {
        const kind *k = &a->kinds[i], *b = &a->kinds[best];
        if (k->ready > 0 && (best == 0 || k->depths * b->count < b->depths * k->count))
            best = i;
    }
    return best;
}

/* Runs what is ready of a kind. */
static xcvm_status run_kind(agenda *a, uint32_t which, uint32_t edges)
{
    kind *k = &a->kinds[which];
    const uint32_t count = k->ready, first = k->first;
    uint32_t at = first;
    for (uint32_t i = 0; i < count; i++, at = a->entries[at - 1].next)
        a->members[i] = a->entries[at - 1].record;
    k->ready = k->first = k->last = 0;
    const bool batched = which != 0 && count > 1 && tape_run_batch(a->tape, a->members, count);
    for (uint32_t i = 0; i < count && !batched; i++)
        XCVM_TRY(tape_run_waiting(a->tape, a->members[i]));
    at = first;
    for (uint32_t i = 0, next; i < count; i++, at = next) {
        next = a->entries[at - 1].next;
        finish(a, at - 1, edges);
    }
    return XCVM_OK;
}

static xcvm_status run_all(agenda *a)
{
    uint32_t edges = 0;
    for (uint32_t i = 0; i < a->count; i++)
        edges += a->entries[i].needs;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->entries[i].needs == 0)
            make_ready(a, i);
    for (;;) {
        const uint32_t which = a->kinds[0].ready > 0 ? 0 : choose(a);
        if (a->kinds[which].ready == 0)
            return XCVM_OK;
        XCVM_TRY(run_kind(a, which, edges));
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

xcvm_status tape_run_agenda(xcvm_tape *t, tape_record *first, size_t count)
{
    if (count > INT32_MAX)
        return tape_fail(t, XCVM_OUT_OF_RANGE, "%zu calls are too many to be batched", count);
    agenda a = {.tape = t,
                .arena = {.allocator = t->allocator},
                .count = (uint32_t)count,
                .by_depth = strategy_of(t) == XCVM_BATCHING_DEPTH};
    const bool timed = t->batching == XCVM_BATCHING_TIMED && t->trials < TRIALS && count >= WORTH_TIMING;
    const uint64_t begun = timed ? xcvm_clock_ns() : 0;
    xcvm_status status = XCVM_OK;
    if (prepare(&a, first))
        status = run_all(&a);
    else
        status = tape_fail(t, XCVM_OUT_OF_MEMORY, "there is no memory for an agenda of %zu calls", count);
    for (tape_record *r = first, *next; r != NULL; r = next) {
        next = r->order;
        r->mark = 0;
        r->order = NULL;
    }
    if (timed && status == XCVM_OK)
        t->trial_ns[t->trials++] = (double)(xcvm_clock_ns() - begun) / (double)count;
    xcvm_arena_release(&a.arena);
    return status;
}
