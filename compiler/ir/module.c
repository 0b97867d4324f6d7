/* The module: its limits, its memory, and errors about exceeded limits. */
#include "compiler/ir/module.h"
#include "base/array.h"
#include "base/clock.h"

#include <string.h>

xcvm_status xcc_out_of_memory(xcc_module *m)
{
    const xcvm_budget *budget = &m->budget;
    if (budget->refused == 0)
        return xcvm_error_set(m->error, XCVM_OUT_OF_MEMORY, "the compiler is out of memory");
    return xcvm_error_set(m->error, XCVM_OUT_OF_MEMORY,
                          "compiling: %zu bytes more than %zu would go past the memory limit of %zu", budget->refused,
                          budget->held, budget->limit);
}

void xcc_name_limit(xcc_module *m, xcvm_status status)
{
    if (status == XCVM_OUT_OF_MEMORY && m->budget.refused != 0)
        xcc_out_of_memory(m);
    else if (status == XCVM_OUT_OF_TIME)
        xcc_out_of_time(m);
    else if (status == XCVM_CANCELLED)
        xcvm_error_set(m->error, XCVM_CANCELLED, "the compilation was cancelled");
}

xcvm_status xcc_stop_status(xcc_stop stop)
{
    if (stop.cancelled != NULL && __atomic_load_n(stop.cancelled, __ATOMIC_RELAXED) != 0)
        return XCVM_CANCELLED;
    return stop.deadline_ns == 0 || xcvm_clock_ns() < stop.deadline_ns ? XCVM_OK : XCVM_OUT_OF_TIME;
}

uint64_t xcc_deadline_within(const xcc_module *m, uint64_t ns)
{
    const uint64_t now = xcvm_clock_ns(), then = ns < UINT64_MAX - now ? now + ns : UINT64_MAX;
    return m->deadline_ns != 0 && m->deadline_ns < then ? m->deadline_ns : then;
}

xcvm_status xcc_out_of_time(xcc_module *m)
{
    return xcvm_error_set(m->error, XCVM_OUT_OF_TIME, "the compilation exceeds its time limit of %llu ms",
                          (unsigned long long)(m->options->limits.timeout_ns / 1000000));
}

xcvm_status xcc_poll(xcc_module *m)
{
    enum { OFTEN = 16 };
    return (m->deadline_ns == 0 && m->cancelled == NULL) || m->polls++ % OFTEN != 0 ? XCVM_OK : xcc_poll_now(m);
}

xcvm_status xcc_poll_now(xcc_module *m)
{
    const xcvm_status status = xcc_stop_status(xcc_stop_of(m));
    if (status == XCVM_OK)
        return XCVM_OK;
    m->polls = 0; /* so that the next call detects it too */
    xcc_name_limit(m, status);
    return status;
}

/* The free list for `bytes` bytes; NULL for larger sizes. */
static void **spare_of(xcc_module *m, size_t bytes)
{
    const size_t units = bytes > 16 ? (bytes - 1) / 16 : 0;
    return units < XCC_SPARE_CLASSES ? &m->spare[units] : NULL;
}

void *xcc_alloc(xcc_module *m, size_t bytes)
{
    void **spare = spare_of(m, bytes);
    if (spare != NULL && *spare != NULL) {
        void *piece = *spare;
        *spare = *(void **)piece;
        return memset(piece, 0, bytes > sizeof(void *) ? bytes : sizeof(void *));
    }
    void *memory = xcvm_arena_allocate(&m->arena, bytes);
    if (memory == NULL)
        xcc_out_of_memory(m);
    return memory;
}

void xcc_free(xcc_module *m, const void *memory, size_t bytes)
{
    void **spare = spare_of(m, bytes);
    if (memory == NULL || spare == NULL)
        return;
    void **piece = (void **)(uintptr_t)memory;
    *piece = *spare;
    *spare = piece;
}

void *xcc_grow(xcc_module *m, void *array, size_t count, size_t *capacity, size_t size)
{
    void *larger = xcvm_arena_grow(&m->arena, array, count, capacity, size);
    if (larger == NULL)
        xcc_out_of_memory(m);
    return larger;
}

const char *xcc_string(xcc_module *m, const char *text, size_t length)
{
    char *copy = length < SIZE_MAX ? xcc_alloc(m, length + 1) : NULL;
    if (copy == NULL)
        xcc_out_of_memory(m);
    else if (length > 0)
        memcpy(copy, text, length);
    return copy;
}
