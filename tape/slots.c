/* The slots of variables, and the names of scopes. */
#include "base/array.h"
#include "tape/tape.h"

#include <string.h>

/* ---- Slots ---- */

/* Variables never move. Chunks double in size up to a huge page, which keeps TLB misses rare. */
enum { FIRST_CHUNK = 24 * 1024, LARGEST_CHUNK = XCVM_HUGE_PAGE };
typedef struct tape_slot_chunk tape_slot_chunk;
struct tape_slot_chunk {
    tape_slot_chunk *next;
    size_t bytes;         /* including this header */
    tape_variable *slots; /* aligned to a cache line */
    size_t count;
};

/* Mark in the serial number of a slot in the free list, with the number of resets. A slot with an older number is in
 * no list, since a reset empties the list. */
static const uint64_t free_listed = UINT64_C(1) << 63;

static bool make_slots(xcvm_tape *t)
{
    tape_slot_chunk *last = t->slots.chunk;
    const size_t bytes = last == NULL ? FIRST_CHUNK : last->bytes < LARGEST_CHUNK / 2 ? 2 * last->bytes : LARGEST_CHUNK;
    tape_slot_chunk *chunk = xcvm_allocate_zeroed(t->allocator, bytes);
    if (chunk == NULL) {
        tape_fail(t, XCVM_OUT_OF_MEMORY, "the allocator has no %zu bytes for variables", bytes);
        return false;
    }
    const uintptr_t behind = (uintptr_t)(chunk + 1), first = xcvm_round_up(behind, _Alignof(tape_variable));
    *chunk = (tape_slot_chunk){.bytes = bytes,
                               .slots = (tape_variable *)(void *)((char *)(chunk + 1) + (first - behind)),
                               .count = ((uintptr_t)chunk + bytes - first) / sizeof(tape_variable)};
    for (size_t i = 0; i < chunk->count; i++)
        chunk->slots[i].value = (xcc_value){.name = "", .graph = t->module.graph, .id = UINT32_MAX};
    *(last != NULL ? &last->next : &t->slots.chunks) = chunk;
    t->slots.chunk = chunk;
    t->slots.used = 0;
    return true;
}

void tape_slots_release(xcvm_tape *t)
{
    while (t->slots.chunks != NULL) {
        tape_slot_chunk *next = t->slots.chunks->next;
        xcvm_deallocate(t->allocator, t->slots.chunks, t->slots.chunks->bytes);
        t->slots.chunks = next;
    }
}

void tape_slots_restart(xcvm_tape *t)
{
    t->slots.free = NULL;
    t->slots.resets++;
    t->slots.chunk = t->slots.chunks;
    t->slots.used = 0;
}

void tape_variables_each(const xcvm_tape *t, void (*f)(void *user, const tape_variable *v), void *user)
{
    for (const tape_slot_chunk *chunk = t->slots.chunks; chunk != NULL; chunk = chunk->next)
        for (size_t i = 0; i < chunk->count; i++)
            if (chunk->slots[i].serial != 0 && (chunk->slots[i].serial & free_listed) == 0)
                f(user, &chunk->slots[i]);
}

/* Takes a slot from the free list, or the next one of a chunk. NULL with the failure set if there is no memory. */
static tape_variable *allocate_slot(xcvm_tape *t)
{
    tape_variable *v = t->slots.free;
    if (v != NULL) {
        t->slots.free = v->sum;
        return v;
    }
    for (;;) {
        while (t->slots.chunk != NULL && t->slots.used < t->slots.chunk->count) {
            v = &t->slots.chunk->slots[t->slots.used++];
            if (v->serial == 0 || ((v->serial & free_listed) != 0 && v->serial != (free_listed | t->slots.resets)))
                return v;
        }
        if (t->slots.chunk != NULL && t->slots.chunk->next != NULL) {
            t->slots.chunk = t->slots.chunk->next;
            t->slots.used = 0;
        } else if (!make_slots(t)) {
            return NULL;
        }
    }
}

void tape_variable_free_slot(tape_variable *v)
{
    xcvm_tape *t = v->tape;
    v->serial = free_listed | t->slots.resets;
    v->sum = t->slots.free;
    t->slots.free = v;
    t->variables--;
}

/* ---- Names ---- */

static bool is_live_name(const tape_name *n)
{
    return n->variable->serial == n->serial && n->variable->named && !n->variable->kept;
}

static void compact_names(xcvm_tape *t)
{
    size_t left = 0;
    for (size_t i = 0; i < t->names.count; i++)
        if (is_live_name(&t->names.at[i]))
            t->names.at[left++] = t->names.at[i];
    t->names.count = left;
}

/* Makes room for one more name. If most names are stale, it removes those instead of growing the list. */
static bool reserve_name(xcvm_tape *t)
{
    if (t->names.count < t->names.capacity)
        return true;
    if (t->names.count > 2 * t->names.live) {
        compact_names(t);
        return true;
    }
    tape_name *larger = xcvm_array_grow(t->allocator, t->names.at, t->names.count, &t->names.capacity, sizeof *larger);
    if (larger == NULL) {
        tape_fail(t, XCVM_OUT_OF_MEMORY, "the allocator has no memory for names of %zu variables", t->names.count + 1);
        return false;
    }
    t->names.at = larger;
    return true;
}

tape_variable *tape_variable_create(xcvm_tape *t)
{
    tape_variable *v = reserve_name(t) ? allocate_slot(t) : NULL;
    if (v == NULL)
        return NULL;
    /* The next variable is usually in the next slot. */
    const uintptr_t next = (uintptr_t)(v + 2);
    __builtin_prefetch((const void *)next, 1);
    __builtin_prefetch((const void *)(next + offsetof(tape_variable, value.type.bytes)), 1);
    __builtin_prefetch((const void *)(next + offsetof(tape_variable, creator)), 1);
    v->value.type = (xcvm_value){.rank = -1};
    v->value.kind = XCC_CONSTANT;
    memset(&v->creator, 0, sizeof *v - offsetof(tape_variable, creator));
    if (t->may_build)
        v->built = NULL;
    v->tape = t;
    v->serial = ++t->serials;
    v->refs = 1;
    v->named = true;
    t->names.live++;
    t->variables++;
    t->names.at[t->names.count++] = (tape_name){v, v->serial};
    return v;
}

/* The name of an older variable is reused or inserted in order. */
bool tape_variable_name(tape_variable *v)
{
    xcvm_tape *t = v->tape;
    if (!reserve_name(t))
        return false;
    size_t at = t->names.count;
    while (at > 0 && t->names.at[at - 1].serial > v->serial)
        at--;
    if (at == 0 || t->names.at[at - 1].serial < v->serial) {
        memmove(&t->names.at[at + 1], &t->names.at[at], (t->names.count - at) * sizeof *t->names.at);
        t->names.at[at] = (tape_name){v, v->serial};
        t->names.count++;
    }
    v->refs++;
    v->named = true;
    t->names.live++;
    return true;
}

void tape_names_end_scope(xcvm_tape *t, uint64_t serial)
{
    size_t first = t->names.live > 0 ? t->names.count : 0, staying = 0;
    for (; first > 0 && t->names.at[first - 1].serial > serial; first--) {
        tape_variable *v = t->names.at[first - 1].variable;
        if (!is_live_name(&t->names.at[first - 1]))
            continue;
        if (v->outlives_scope)
            staying++;
        else
            tape_variable_unname(v);
    }
    for (size_t i = first; staying > 0; i++)
        if (is_live_name(&t->names.at[i])) {
            t->names.at[i].variable->outlives_scope = false;
            t->names.at[first++] = t->names.at[i];
            staying--;
        }
    t->names.count = first;
}
