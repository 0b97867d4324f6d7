/* Tracers: observers of everything that a tape does, from which static functions are made. */
#ifndef XCVM_TAPE_TRACER_H
#define XCVM_TAPE_TRACER_H

#include "tape/tape.h"

/* The change of a variable by a step: by `gradient`, by the rows of it (`rows`), or by the product of `left_factor`,
 * transposed, and `gradient`. */
typedef struct tape_change {
    tape_variable *variable, *gradient, *rows, *left_factor;
    bool remains; /* the gradient stays the variable's afterwards */
} tape_change;

/* The same in a module, where the variable is a state. */
typedef struct tape_program_change {
    const tape_variable *variable;
    xcc_value *state, *gradient;
    bool by_rows;
} tape_program_change;

/* An action that is no op call, but can be repeated with other gradients: a step of an optimizer, which embeds it. */
typedef struct tape_effect tape_effect;
struct tape_effect {
    uint32_t refs;
    bool abandoned; /* its owner has been destroyed */
    xcvm_status (*run)(tape_effect *e, size_t count, const tape_change *changes);
    /* Appends it to a module, whose error it sets. */
    xcvm_status (*build)(tape_effect *e, xcc_module *m, size_t count, const tape_program_change *changes);
    void (*destroy)(tape_effect *e); /* when the last reference is released */
};
static inline void tape_effect_release(tape_effect *e)
{
    if (--e->refs == 0)
        e->destroy(e);
}

/* A slot that holds a handle between calls, such as a state of a layer. Its owner and tracers refer to it. */
typedef struct tape_state_slot {
    xcvm_tape *tape;
    xcvm_var v; /* kept (xcvm_var_keep); absent at first */
    uint32_t refs;
    bool abandoned; /* its owner has been destroyed */
} tape_state_slot;

/* Creates an empty slot; NULL with the failure set if there is no memory. */
tape_state_slot *tape_state_slot_create(xcvm_tape *t);
void tape_state_slot_release(tape_state_slot *p);
/* The owner is being destroyed. NULL is accepted. */
void tape_state_slot_abandon(tape_state_slot *p);
/* Reads or replaces the handle, and informs the tracer. */
xcvm_var tape_state_slot_read(tape_state_slot *p);
void tape_state_slot_write(tape_state_slot *p, xcvm_var v);

/* Functions with a status fail if there is no memory. */
typedef struct tape_tracer_functions {
    /* An op has succeeded. */
    xcvm_status (*call)(tape_tracer *tracer, const tape_op_record *r);
    /* A variable shares the elements of another. */
    void (*share)(tape_tracer *tracer, tape_variable *to, const tape_variable *from);
    /* An op is about to overwrite a variable; it has succeeded. */
    void (*target)(tape_tracer *tracer, const tape_variable *target);
    void (*into)(tape_tracer *tracer, tape_variable *result, tape_variable *target);
    /* No gradient flows to the creator of v any more. */
    void (*cut)(tape_tracer *tracer, const tape_variable *v);
    /* The accumulated gradient of v is about to be cleared. */
    xcvm_status (*clear)(tape_tracer *tracer, const tape_variable *v);
    /* A backward pass is about to visit an op. */
    void (*backward)(tape_tracer *tracer, const tape_op_record *r);
    /* The value of v decides which ops run. */
    void (*branch)(tape_tracer *tracer, tape_variable *v);
    /* A state slot is about to be read or written. */
    xcvm_status (*state_slot)(tape_tracer *tracer, tape_state_slot *slot);
    /* An effect is about to happen. A change without a gradient has none this time. */
    xcvm_status (*effect)(tape_tracer *tracer, tape_effect *e, size_t count, const tape_change *changes);
    /* The tape does something that cannot be repeated; `why` is a sentence. */
    void (*refuse)(tape_tracer *tracer, const char *why);
} tape_tracer_functions;
struct tape_tracer {
    const tape_tracer_functions *functions;
};
static inline void tape_refuse_trace(const xcvm_tape *t, const char *why)
{
    if (t->tracer != NULL)
        t->tracer->functions->refuse(t->tracer, why);
}

#endif
