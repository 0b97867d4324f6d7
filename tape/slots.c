/* Where variables lie, and which of them are named. */
#include "base/array.h"
#include "tape/tape.h"

#include <string.h>

/* ---- Slots ---- */

/* Variables are made many at a time, and never moved: twice as many as the last time, up to those of a huge page, so
 * that to find the page of one takes no time however many there are. */
enum { FIRST_CHUNK = 24 * 1024, LARGEST_CHUNK = XCVM_HUGE_PAGE };
struct tape_chunk {
    tape_chunk *next;
    size_t bytes;         /* with this */
    tape_variable *slots; /* behind it, where a line of the cache begins */
    size_t count;
};

/* A slot that is free has no serial number, or, where it is in the list of free ones, that of the tape's latest reset:
 * those of an earlier one are of a list that is no more. */
static const uint64_t listed = UINT64_C(1) << 63;

static bool make_slots(xcvm_tape *t)
{
    tape_chunk *last = t->chunk;
    const size_t bytes = last == NULL ? FIRST_CHUNK : last->bytes < LARGEST_CHUNK / 2 ? 2 * last->bytes : LARGEST_CHUNK;
    tape_chunk *chunk = xcvm_allocate_zeroed(t->allocator, bytes);
    if (chunk == NULL) {
        tape_fail(t, XCVM_OUT_OF_MEMORY, "the allocator has no %zu bytes for variables", bytes);
        return false;
    }
    const uintptr_t behind = (uintptr_t)(chunk + 1), first = xcvm_round_up(behind, _Alignof(tape_variable));
    *chunk = (tape_chunk){.bytes = bytes,
                          .slots = (tape_variable *)(void *)((char *)(chunk + 1) + (first - behind)),
                          .count = ((uintptr_t)chunk + bytes - first) / sizeof(tape_variable)};
    for (size_t i = 0; i < chunk->count; i++)
        chunk->slots[i].value = (xcc_value){.name = "", .graph = t->module.graph, .id = UINT32_MAX};
    *(last != NULL ? &last->next : &t->chunks) = chunk;
    t->chunk = chunk;
    t->cut = 0;
    return true;
}

void tape_chunks_release(xcvm_tape *t)
{
    while (t->chunks != NULL) {
        tape_chunk *next = t->chunks->next;
        xcvm_deallocate(t->allocator, t->chunks, t->chunks->bytes);
        t->chunks = next;
    }
}

void tape_chunks_order(xcvm_tape *t)
{
    t->free_variables = NULL;
    t->resets++;
    t->chunk = t->chunks;
    t->cut = 0;
}

void tape_variables_each(const xcvm_tape *t, void (*f)(void *user, const tape_variable *v), void *user)
{
    for (const tape_chunk *chunk = t->chunks; chunk != NULL; chunk = chunk->next)
        for (size_t i = 0; i < chunk->count; i++)
            if (chunk->slots[i].serial != 0 && (chunk->slots[i].serial & listed) == 0)
                f(user, &chunk->slots[i]);
}

/* One that was given back, or the next of those that lie side by side. NULL: no memory, which is noted. */
static tape_variable *take_slot(xcvm_tape *t)
{
    tape_variable *v = t->free_variables;
    if (v != NULL) {
        t->free_variables = v->sum;
        return v;
    }
    for (;;) {
        while (t->chunk != NULL && t->cut < t->chunk->count) {
            v = &t->chunk->slots[t->cut++];
            if (v->serial == 0 || ((v->serial & listed) != 0 && v->serial != (listed | t->resets)))
                return v;
        }
        if (t->chunk != NULL && t->chunk->next != NULL) {
            t->chunk = t->chunk->next;
            t->cut = 0;
        } else if (!make_slots(t)) {
            return NULL;
        }
    }
}

void tape_slot_give_back(tape_variable *v)
{
    xcvm_tape *t = v->tape;
    v->serial = listed | t->resets;
    v->sum = t->free_variables;
    t->free_variables = v;
    t->variables--;
}

/* ---- Names ---- */

static bool is_name(const tape_name *n)
{
    return n->variable->serial == n->serial && n->variable->named && !n->variable->kept;
}

static void leave_names_out(xcvm_tape *t)
{
    size_t left = 0;
    for (size_t i = 0; i < t->name_count; i++)
        if (is_name(&t->names[i]))
            t->names[left++] = t->names[i];
    t->name_count = left;
}

/* Room for one more, and for half as many as there are, where it is made by leaving out. */
static bool make_name_room(xcvm_tape *t)
{
    if (t->name_count < t->name_capacity)
        return true;
    if (t->name_count > 2 * t->named) {
        leave_names_out(t);
        return true;
    }
    tape_name *larger = xcvm_array_grow(t->allocator, t->names, t->name_count, &t->name_capacity, sizeof *larger);
    if (larger == NULL) {
        tape_fail(t, XCVM_OUT_OF_MEMORY, "the allocator has no memory for names of %zu variables", t->name_count + 1);
        return false;
    }
    t->names = larger;
    return true;
}

tape_variable *tape_variable_make(xcvm_tape *t)
{
    tape_variable *v = make_name_room(t) ? take_slot(t) : NULL;
    if (v == NULL)
        return NULL;
    /* What is made next lies behind it, most likely. */
    const uintptr_t next = (uintptr_t)(v + 2);
    __builtin_prefetch((const void *)next, 1);
    __builtin_prefetch((const void *)(next + offsetof(tape_variable, value.type.bytes)), 1);
    __builtin_prefetch((const void *)(next + offsetof(tape_variable, creator)), 1);
    v->value.type = (xcvm_value){.rank = -1};
    v->value.kind = XCC_CONSTANT;
    memset(&v->creator, 0, offsetof(tape_variable, next_touched) - offsetof(tape_variable, creator));
    if (t->builds)
        v->built = NULL;
    v->tape = t;
    v->serial = ++t->serials;
    v->refs = 1;
    v->named = true;
    t->named++;
    t->variables++;
    t->names[t->name_count++] = (tape_name){v, v->serial};
    return v;
}

/* That of an older variable stands where it did, or is put there. */
bool tape_variable_name(tape_variable *v)
{
    xcvm_tape *t = v->tape;
    if (!make_name_room(t))
        return false;
    size_t at = t->name_count;
    while (at > 0 && t->names[at - 1].serial > v->serial)
        at--;
    if (at == 0 || t->names[at - 1].serial < v->serial) {
        memmove(&t->names[at + 1], &t->names[at], (t->name_count - at) * sizeof *t->names);
        t->names[at] = (tape_name){v, v->serial};
        t->name_count++;
    }
    v->refs++;
    v->named = true;
    t->named++;
    return true;
}

void tape_names_end(xcvm_tape *t, uint64_t serial)
{
    size_t first = t->named > 0 ? t->name_count : 0, staying = 0;
    for (; first > 0 && t->names[first - 1].serial > serial; first--) {
        tape_variable *v = t->names[first - 1].variable;
        if (!is_name(&t->names[first - 1]))
            continue;
        if (v->stays)
            staying++;
        else
            tape_variable_unname(v);
    }
    for (size_t i = first; staying > 0; i++)
        if (is_name(&t->names[i])) {
            t->names[i].variable->stays = false;
            t->names[first++] = t->names[i];
            staying--;
        }
    t->name_count = first;
}
