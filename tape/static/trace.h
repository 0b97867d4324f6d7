/* Traces: the op calls of a function, recorded as a graph while they are executed. */
#ifndef XCVM_TAPE_STATIC_TRACE_H
#define XCVM_TAPE_STATIC_TRACE_H

#include "tape/backward/backward.h"
#include "xcvm/tape_static.h"

/* A value that the function reads and has not made. */
typedef struct trace_operand {
    xcvm_var v;       /* handle at the recording */
    xcc_value *value; /* input of the graph; NULL: absent */
    xcc_value *now;   /* current value; differs from `value` after a write */
    xcc_value *fixed; /* constant in its place if its elements determine a shape; NULL: they do not */
    bool present, requires, sparse;
    size_t hooks;         /* hooks of the variable; programs do not call later ones */
    bool changes;         /* an effect changes it, after all op calls */
    size_t written_after; /* number of effects before the write; later effects see the written value */
    uint32_t version;     /* of its storage after the last write */
    bool clears;          /* the function clears its gradient */
    bool adds;            /* the function adds to an earlier gradient, or reads it before clearing it */
    /* Members of an operand in a state slot. */
    xcvm_var *slot;              /* NULL: an operand of the call, or a capture */
    tape_state_slot *slot_owner; /* a reference; NULL: the slot is the host's (xcvm_static_options.held) */
    xcc_value *next;             /* new content; NULL: unchanged or empty */
    bool keeps;                  /* the new content is kept (xcvm_var_keep) */
    bool releases;               /* the old content was released */
    bool empties;                /* the slot is empty at the end */
    size_t filled_after;         /* number of effects before the write; later effects see the new content */
    xcvm_var filled;             /* content at the first of these effects */
    bool next_requires;
    /* Members of rows that the tape gathers, so that the table's gradient is row-sparse. */
    bool gathered;
    size_t table, indices; /* earlier operands */
} trace_operand;

/* A change by an effect, computed by the op calls. */
typedef struct trace_change {
    size_t operand; /* that changes */
    xcc_value *gradient, *rows;
    xcc_value *left_factor, *right_factor; /* factors of a gradient that is a product of few terms; NULL: it is not */
    bool remains;                          /* as in tape_change */
} trace_change;
/* The values that an effect receives: the gradient or its right factor, and the rows or the left factor (NULL:
 * neither). */
static inline xcc_value *trace_change_gradient(const trace_change *c)
{
    return c->left_factor != NULL ? c->right_factor : c->gradient;
}
static inline xcc_value *trace_change_companion(const trace_change *c)
{
    return c->left_factor != NULL ? c->left_factor : c->rows;
}
typedef struct trace_effect {
    tape_effect *effect; /* a reference; NULL: gradients that remain, without an effect */
    trace_change *changes;
    size_t count;
} trace_effect;

/* A call of a host operation, which is a HostCall in the graph. */
typedef struct trace_operation {
    const xcvm_operation *operation;
    const char *name, *vjp; /* names of the HostCall and its gradient */
    size_t in_count, out_count;
    /* Operands that earlier ops have written; HostCall has their new values as extra operands. */
    const size_t *seen;
    size_t seen_count;
} trace_operation;

/* The names of operands and results of a saved program, and the initial values of its states. */
typedef struct trace_naming {
    const char *const *in, *const *out, *const *held; /* may be NULL, and have NULL entries */
    size_t held_count;
    const xcvm_static_state *states;
    size_t state_count;
    bool continues; /* states start with their current values; otherwise with zeros */
} trace_naming;

typedef struct tape_trace {
    tape_tracer tracer; /* first */
    xcvm_tape *tape;
    xcc_options options;
    xcc_module module;
    xcc_builder builder;
    uint64_t calls;               /* number of op calls before the trace */
    uint64_t out_of_memory_count; /* count before the trace */
    uint64_t begun;               /* serial of the latest variable that the function did not make */
    /* Operands of the call, then the host's state slots, then captures and other slots in order of their first
     * use. */
    trace_operand *operands;
    size_t in_count, held_count, operand_count, operand_capacity;
    trace_operation *operations;
    size_t operation_count, operation_capacity;
    trace_effect *effects;
    size_t effect_count, effect_capacity;
    size_t call_count;
    xcc_value **outs;
    bool *out_requires;
    size_t out_count;
    bool differentiable;        /* a gradient can flow from a result */
    bool gathers;               /* the function gathers rows of a sparse table at indices that it computes */
    const trace_naming *naming; /* NULL: names of tape_trace_name, and current elements */
    char refusal[240];          /* why the calls cannot become a schedule; "": they can */
} tape_trace;

/* Mark of a value that blocks gradients, such as a detached one. */
enum { TRACE_STOPPED = 1 };

/* Creates a trace with memory of its own. */
xcvm_status tape_trace_create(xcvm_tape *t, size_t in_count, size_t held_count, size_t out_count, tape_trace **trace);
void tape_trace_destroy(tape_trace *k);
/* Adds an operand, of the call or of a state slot, before the trace begins. */
xcvm_status tape_trace_operand(tape_trace *k, const tape_variable *v, bool requires, xcvm_var *slot);
/* Starts and ends the recording. The end fails if there is no memory. Calls that cannot be recorded are a
 * refusal. */
void tape_trace_begin(tape_trace *k);
xcvm_status tape_trace_end(tape_trace *k, const xcvm_var *out);
/* True if v has a gradient that was accumulated since the trace began. */
bool tape_trace_gave_gradient(const tape_trace *k, const tape_variable *v);
/* The calls cannot become a schedule. The first reason stays. */
void tape_trace_refuse(tape_trace *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* True if an op call writes the operand. */
static inline bool trace_is_written(const trace_operand *o) { return o->now != o->value; }
static inline bool trace_is_capture(const tape_trace *k, size_t i)
{
    return i >= k->in_count && k->operands[i].slot == NULL && !k->operands[i].gathered;
}

/* True if the function made the variable. Parameters that it makes exist at the next call too, so they are
 * captures. */
bool tape_trace_is_own(const tape_trace *k, const tape_variable *v);
/* The operand of a variable that the function did not make; NULL: a failure. */
trace_operand *tape_trace_capture(tape_trace *k, const tape_variable *v);
/* The graph value of a variable. NULL: a refusal or a failure. */
xcc_value *tape_trace_value(tape_trace *k, tape_variable *v);
/* Turns an error of the compiler into a refusal, since the call itself has succeeded. */
xcvm_status tape_trace_refused(tape_trace *k, const char *what);
/* Tracer functions for effects (trace_effects.c). tape_trace_leave records remaining gradients as an effect. */
xcvm_status tape_trace_step(tape_tracer *tracer, tape_effect *e, size_t count, const tape_change *changes);
xcvm_status tape_trace_clear(tape_tracer *tracer, const tape_variable *v);
xcvm_status tape_trace_leave(tape_trace *k);
static inline tape_trace *tape_trace_of(tape_tracer *tracer) { return (tape_trace *)(void *)tracer; }

/* True if two traces have the same calls; otherwise the first difference, as a sentence. */
bool tape_trace_equal(const tape_trace *before, const tape_trace *now, char *difference, size_t size);

/* The representation of operands in a copy of the graph. */
typedef enum trace_form {
    TRACE_INPUTS,    /* inputs; written operands are states if no gradients are taken */
    TRACE_CONSTANTS, /* captures and slots are constants, unless they change */
    TRACE_SAVED,     /* the same, and what changes is a state */
    TRACE_STATES     /* captures and slots are states */
} trace_form;
/* Copies the trace into another module. The outputs are the results, then contents of slots, then written operands.
 * Names are in0, held0, gathered0, capture0; outputs out0, held0_next, capture0_next. `stops`: the copy is
 * differentiated, so values that block gradients must do so there. */
xcvm_status tape_trace_build(const tape_trace *k, xcc_module *m, trace_form form, bool stops);
/* The name of an operand, such as "capture3". */
const char *tape_trace_name(const tape_trace *k, size_t operand, char text[32]);
/* The named state of an operand; NULL: none. */
const xcvm_static_state *tape_trace_state(const tape_trace *k, size_t operand);
/* True if op calls replace the content of a slot, and the saved program starts without it. */
bool tape_trace_begins_anew(const tape_trace *k, size_t operand);
/* The operand of such a name; SIZE_MAX: none. */
size_t tape_trace_operand_named(const tape_trace *k, const char *name);

/* Runs the ops eagerly on the tape. `operands` replace those of the trace (NULL: absent). */
xcvm_status tape_trace_run(const tape_trace *k, tape_variable *const *operands, tape_variable **outs);

#endif
