/* Holders of Python memory that values share. A value may lose its last reference on a thread without the interpreter
 * lock, such as in a run that replaces a state. Its holder then waits in the trash, a lock-free stack, until a call
 * that has the lock empties it. */
#include "xcvm_python.h"

#include <stdlib.h>

struct memory_holder {
    memory_holder *next;
    trash_list *trash;
    PyObject *object;
    Py_buffer buffer;
    bool has_buffer;
};

/* Counted, since a holder may live longer than the module. */
struct trash_list {
    _Atomic(memory_holder *) head;
    _Atomic size_t references;
};

trash_list *trash_create(void)
{
    trash_list *created = calloc(1, sizeof *created);
    if (created == NULL)
        return (trash_list *)PyErr_NoMemory();
    atomic_init(&created->references, 1);
    return created;
}

static void unreference(trash_list *trash)
{
    if (atomic_fetch_sub(&trash->references, 1) == 1)
        free(trash);
}

static void holder_destroy(memory_holder *holder)
{
    if (holder->has_buffer)
        PyBuffer_Release(&holder->buffer);
    Py_XDECREF(holder->object);
    unreference(holder->trash);
    free(holder);
}

void trash_empty(trash_list *trash)
{
    if (atomic_load_explicit(&trash->head, memory_order_relaxed) == NULL)
        return;
    memory_holder *next;
    for (memory_holder *first = atomic_exchange(&trash->head, NULL); first != NULL; first = next) {
        next = first->next;
        holder_destroy(first);
    }
}

void trash_destroy(trash_list *trash)
{
    if (trash == NULL)
        return;
    trash_empty(trash);
    unreference(trash);
}

memory_holder *holder_create(module_state *state, Py_buffer *buffer, PyObject *object)
{
    memory_holder *created = malloc(sizeof *created);
    if (created == NULL)
        return (memory_holder *)PyErr_NoMemory();
    *created = (memory_holder){.trash = state->trash, .object = object, .has_buffer = buffer != NULL};
    if (buffer != NULL)
        created->buffer = *buffer;
    Py_XINCREF(object);
    atomic_fetch_add_explicit(&state->trash->references, 1, memory_order_relaxed);
    return created;
}

void holder_release(void *user)
{
    memory_holder *released = user;
    trash_list *trash = released->trash;
    released->next = atomic_load(&trash->head);
    while (!atomic_compare_exchange_weak(&trash->head, &released->next, released))
        continue;
}

void holder_abandon(memory_holder *holder)
{
    holder->has_buffer = false;
    holder_destroy(holder);
}
