/* The queue of waiting ops and their dependencies, in two arrays. Records and variables are far apart in memory, so
 * an evaluation reads the arrays instead. */
#include "base/array.h"
#include "tape/batch/batch.h"

static const uint32_t gone = UINT32_MAX;

/* Removes entries that have run or were removed. */
static void compact_pending(tape_pending *p)
{
    uint32_t count = 0, edge = 0, edges = 0;
    for (uint32_t i = 0; i < p->count; i++)
        p->calls[i].mark = p->calls[i].record != NULL ? count++ : gone;
    for (uint32_t i = 0; i < p->count; i++) {
        const uint32_t end = tape_pending_end(p, i);
        p->calls[i].first = edges;
        for (; edge < end; edge++)
            if (p->calls[i].mark != gone && p->calls[p->needed[edge]].mark != gone)
                p->needed[edges++] = p->calls[p->needed[edge]].mark;
    }
    count = 0;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->calls[i].mark != gone) {
            p->calls[count] = p->calls[i];
            p->calls[count].mark = 0;
            p->calls[count].record->pending_index = count + 1;
            count++;
        }
    p->count = count;
    p->edges = edges;
}

static bool reserve_op(const xcvm_tape *t, tape_pending *p)
{
    if (p->count == p->capacity && p->count / 2 >= p->live && !p->evaluated)
        compact_pending(p);
    tape_pending_op *calls = xcvm_array_grow(t->allocator, p->calls, p->count, &p->capacity, sizeof *calls);
    if (calls != NULL)
        p->calls = calls;
    return calls != NULL && p->count < INT32_MAX;
}

static bool add_edge(const xcvm_tape *t, tape_pending *p, uint32_t needed)
{
    uint32_t *larger = xcvm_array_grow(t->allocator, p->needed, p->edges, &p->edge_capacity, sizeof *larger);
    if (larger == NULL || p->edges >= INT32_MAX)
        return false;
    p->needed = larger;
    p->needed[p->edges++] = needed;
    return true;
}

bool tape_pending_add(xcvm_tape *t, tape_op_record *r)
{
    if (t->batching.pending == NULL &&
        (t->batching.pending = xcvm_allocate_zeroed(t->allocator, sizeof *t->batching.pending)) == NULL)
        return false;
    tape_pending *p = t->batching.pending;
    if (!reserve_op(t, p))
        return false;
    const uint32_t first = (uint32_t)p->edges;
    for (uint32_t i = 0; i < r->in_count; i++) {
        const tape_op_record *creator = r->in[i] != NULL ? r->in[i]->creator : NULL;
        if (creator != NULL && creator->pending_index != 0 && !add_edge(t, p, creator->pending_index - 1)) {
            p->edges = first;
            return false;
        }
    }
    p->calls[p->count++] = (tape_pending_op){.record = r, .first = first, .signature = r->signature};
    p->live++;
    r->pending_index = (uint32_t)p->count;
    return true;
}

/* Reserves elements; existing ones stay. */
static bool reserve_array(const xcvm_tape *t, void *array, size_t count, size_t *capacity, size_t size)
{
    void **at = array;
    while (*capacity < count) {
        void *larger = xcvm_array_grow(t->allocator, *at, *capacity, capacity, size);
        if (larger == NULL || *capacity > INT32_MAX)
            return false;
        *at = larger;
    }
    return true;
}

bool tape_pending_reserve(xcvm_tape *t, size_t calls, size_t edges)
{
    if (t->batching.pending == NULL &&
        (t->batching.pending = xcvm_allocate_zeroed(t->allocator, sizeof *t->batching.pending)) == NULL)
        return false;
    tape_pending *p = t->batching.pending;
    return reserve_array(t, &p->calls, calls, &p->capacity, sizeof *p->calls) &&
           reserve_array(t, &p->needed, edges, &p->edge_capacity, sizeof *p->needed);
}

static void clear_pending(tape_pending *p) { p->count = p->edges = p->live = 0; }

void tape_pending_remove(tape_op_record *r)
{
    tape_pending *p = r->tape->batching.pending;
    if (r->pending_index == 0)
        return;
    p->calls[r->pending_index - 1].record = NULL;
    r->pending_index = 0;
    if (--p->live == 0 && !p->evaluated)
        clear_pending(p);
}

void tape_pending_evaluate(tape_pending *p, bool begins)
{
    p->evaluated = begins;
    if (!begins && p->live == 0)
        clear_pending(p);
}

void tape_pending_release(xcvm_tape *t)
{
    tape_pending *p = t->batching.pending;
    if (p == NULL)
        return;
    xcvm_deallocate(t->allocator, p->calls, p->capacity * sizeof *p->calls);
    xcvm_deallocate(t->allocator, p->needed, p->edge_capacity * sizeof *p->needed);
    xcvm_deallocate(t->allocator, p, sizeof *p);
    t->batching.pending = NULL;
}
