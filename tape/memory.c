/* Statistics: the memory of elements by purpose. */
#include "tape/side_table.h"
#include <string.h>

/* Hash set of the storages that were counted. */
typedef struct counted {
    const xcvm_storage **slots;
    size_t mask;
} counted;

/* The bytes of a storage, or 0 if it was counted before. */
static size_t count_storage(const counted *c, const xcvm_storage *storage)
{
    if (storage == NULL)
        return 0;
    size_t at = ((uintptr_t)storage >> 6) * UINT64_C(0x9e3779b97f4a7c15) >> 20 & c->mask;
    for (; c->slots[at] != NULL; at = (at + 1) & c->mask)
        if (c->slots[at] == storage)
            return 0;
    c->slots[at] = storage;
    return storage->bytes;
}

typedef enum purpose { PARAMETER, GRADIENT, VALUE, PURPOSES } purpose;

static purpose purpose_of(const tape_variable *v)
{
    return v->lent_refs > 0 ? GRADIENT : v->creator == NULL && v->requires && v->kept ? PARAMETER : VALUE;
}

typedef struct counting {
    counted seen;
    purpose purpose;
    size_t bytes;
} counting;

static void count_variable(void *user, const tape_variable *v)
{
    counting *c = user;
    if (purpose_of(v) == c->purpose)
        c->bytes += count_storage(&c->seen, v->value.type.storage);
}

static void add_panels(void *user, const tape_variable *v)
{
    size_t *bytes = user;
    const tape_panels *panels = tape_side(v)->panels;
    for (size_t i = 0; panels != NULL && i < 2; i++)
        *bytes += panels->packed[i] != NULL ? panels->packed[i]->bytes : 0;
}

xcvm_status xcvm_tape_get_memory_info(xcvm_tape *tape, xcvm_tape_memory_info *memory, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_tape_get_memory_info, error);
    XCVM_CHECK(error, memory != NULL && memory->size >= sizeof memory->size, INVALID_ARGUMENT,
               "memory is NULL, or its size is not set");
    size_t slots = 64;
    while (slots < 2 * tape->variables)
        slots *= 2;
    counting c = {.seen = {.slots = xcvm_allocate_zeroed(tape->allocator, slots * sizeof(void *)), .mask = slots - 1}};
    XCVM_CHECK(error, c.seen.slots != NULL, OUT_OF_MEMORY, "no memory to count %zu variables by", tape->variables);
    size_t bytes[PURPOSES];
    for (c.purpose = PARAMETER; c.purpose < PURPOSES; c.purpose++) {
        c.bytes = 0;
        tape_variables_each(tape, count_variable, &c);
        bytes[c.purpose] = c.bytes;
    }
    const xcvm_storage *storage = tape->kernel.scratch_storage;
    size_t scratch = storage != NULL ? storage->bytes : 0;
    tape_variables_each(tape, add_panels, &scratch);
    const size_t reserved = xcvm_heap_reserved(tape->kernel.heap);
    const size_t held = tape->budget.held;
    const xcvm_tape_memory_info all = {
        .size = memory->size,
        .values = bytes[VALUE],
        .gradients = bytes[GRADIENT],
        .parameters = bytes[PARAMETER],
        .scratch = scratch,
        .records = held > reserved + slots * sizeof(void *) ? held - reserved - slots * sizeof(void *) : 0};
    xcvm_deallocate(tape->allocator, c.seen.slots, slots * sizeof(void *));
    memcpy(memory, &all, memory->size < sizeof all ? memory->size : sizeof all);
    return XCVM_OK;
}
