/* Traces: the calls of a function of variables as a graph, recorded while they are executed. */
#ifndef XCVM_TAPE_STATIC_TRACE_H
#define XCVM_TAPE_STATIC_TRACE_H

#include "tape/tape.h"
#include "xcvm/tape_static.h"

/* What the function reads and has not made itself. */
typedef struct trace_operand {
    xcvm_var v;       /* as the function knew it */
    xcc_value *value; /* an input of the graph; NULL: absent */
    xcc_value *now;   /* what the variable is behind the calls so far: another if one of them wrote into it */
    xcc_value *fixed; /* the constant that stands for it where its elements decide a shape; NULL: they do not */
    bool present, requires, sparse;
    size_t hooks;         /* that the variable had: programs do not call those that come later */
    bool changes;         /* an effect changes it, behind all calls */
    size_t written_after; /* if calls write into it: how many effects come before them; later effects see the result */
    uint32_t version;     /* of its storage, if calls write into it, behind the latest of these */
    bool clears;          /* the function clears its gradient */
    bool adds;            /* it adds to what that was before the call, or has use for it, before it clears it */
    /* Of one that is found in a place at each call: what the function leaves there. */
    xcvm_var *place;     /* NULL: it is an operand of the call, or a capture */
    tape_place *owner;   /* of the place, referred to; NULL: the host's (xcvm_static_options.held) */
    xcc_value *next;     /* NULL: what was there, or nothing */
    bool keeps;          /* it is kept (xcvm_var_keep) */
    bool releases;       /* what was there is gone */
    bool empties;        /* nothing is left there */
    size_t filled_after; /* how many effects come before the function puts it there; later effects find it */
    xcvm_var filled;     /* what was there at the first of these; absent, and of no place, if there are none */
    bool next_requires;
    /* Of one that the tape gathers at each call, so that the gradient of the table is kept by rows. */
    bool gathered;
    size_t table, indices; /* operands before it */
} trace_operand;

/* An effect behind the calls, by what they have computed. */
typedef struct trace_change {
    size_t operand; /* that changes */
    xcc_value *gradient, *rows;
    xcc_value *left, *right; /* the factors of a gradient that is a product of few terms; NULL: it is not */
    bool stays;              /* as of tape_change */
} trace_change;
/* What effects are given of a change: the gradient, or its factor b, and rows or the factor a (NULL: neither). */
static inline xcc_value *trace_change_given(const trace_change *c) { return c->left != NULL ? c->right : c->gradient; }
static inline xcc_value *trace_change_with(const trace_change *c) { return c->left != NULL ? c->left : c->rows; }
typedef struct trace_effect {
    tape_effect *effect; /* referred to; NULL: gradients are left behind, no more */
    trace_change *changes;
    size_t count;
} trace_effect;

/* A call of an operation of the host's, which the graph has as HostCall. */
typedef struct trace_operation {
    const xcvm_operation *operation;
    const char *name, *vjp; /* as HostCall knows it and its gradient */
    size_t in_count, out_count;
    /* Operands of the trace that calls before it have written into: what they are then, HostCall is given, too. */
    const size_t *seen;
    size_t seen_count;
} trace_operation;

/* How a program that is saved names operands and results, and what its states begin with. */
typedef struct trace_naming {
    const char *const *in, *const *out, *const *held; /* may be NULL, and have NULL entries */
    size_t held_count;
    const xcvm_static_state *states;
    size_t state_count;
    bool continues; /* states that calls replace begin as they are now; else as zeros */
} trace_naming;

typedef struct tape_trace {
    tape_tracer tracer; /* first */
    xcvm_tape *tape;
    xcc_options options;
    xcc_module module;
    xcc_builder builder;
    uint64_t calls;     /* that the tape had made before */
    uint64_t shortages; /* of memory, that there had been before */
    uint64_t begun;     /* serial of the latest variable that the function did not make */
    /* First those of the call, then those of the host's places, then captures and those of other places, in the order
     * of their first use. */
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
    bool gathers;               /* rows, at indices of its own, of a table whose gradient is kept by rows */
    const trace_naming *naming; /* NULL: as tape_trace_name says, with the elements of now */
    char refusal[240];          /* why these calls cannot be a schedule; "": they can */
} tape_trace;

/* The mark of a value behind which no gradient flows, as of what was detached. */
enum { TRACE_STOPPED = 1 };

/* The memory of a trace is its own; `operands` receives what stands for the operands of the call, absent ones too. */
xcvm_status tape_trace_create(xcvm_tape *t, size_t in_count, size_t held_count, size_t out_count, tape_trace **trace);
void tape_trace_destroy(tape_trace *k);
/* An operand of the call, or of a place of the host's (NULL: the call's), before the trace begins. */
xcvm_status tape_trace_operand(tape_trace *k, const tape_variable *v, bool requires, xcvm_var *place);
/* The calls of the tape are recorded from here to the end, which notes what the results are. Fails if there is no
 * memory; what cannot be recorded is a refusal. */
void tape_trace_begin(tape_trace *k);
xcvm_status tape_trace_end(tape_trace *k, const xcvm_var *out);
/* Whether v has a gradient that was added up since the trace began. */
bool tape_trace_gave_gradient(const tape_trace *k, const tape_variable *v);
/* These calls cannot be a schedule; the first reason stays. */
void tape_trace_refuse(tape_trace *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether an operand is something else behind the function: a call writes into it, or an effect changes it. */
static inline bool trace_is_written(const trace_operand *o) { return o->now != o->value; }
static inline bool trace_is_capture(const tape_trace *k, size_t i)
{
    return i >= k->in_count && k->operands[i].place == NULL && !k->operands[i].gathered;
}

/* Parts of tracing. Whether the function has made a variable; parameters that it has made are there at the next call,
 * too. */
bool tape_trace_is_own(const tape_trace *k, const tape_variable *v);
/* The operand that a variable is, which the function has not made; NULL: a failure. */
trace_operand *tape_trace_capture(tape_trace *k, const tape_variable *v);
/* What a variable is in the graph. NULL: a refusal or a failure. */
xcc_value *tape_trace_value(tape_trace *k, tape_variable *v);
/* What the compiler does not take is no failure of the call that was made: makes its error a refusal. */
xcvm_status tape_trace_refused(tape_trace *k, const char *what);
/* The tracer's functions for effects (trace_effects.c), and the gradients that the function leaves behind as one. */
xcvm_status tape_trace_step(tape_tracer *tracer, tape_effect *e, size_t count, const tape_change *changes);
xcvm_status tape_trace_clear(tape_tracer *tracer, const tape_variable *v);
xcvm_status tape_trace_leave(tape_trace *k);
static inline tape_trace *tape_trace_of(tape_tracer *tracer) { return (tape_trace *)(void *)tracer; }

/* Whether two traces are of the same calls; else the first difference, as a sentence. */
bool tape_trace_equal(const tape_trace *before, const tape_trace *now, char *difference, size_t size);

/* What takes the place of operands in a copy of the graph. */
typedef enum trace_form {
    TRACE_INPUTS,    /* all are inputs, but for what is written into, which is a state, if no gradients are taken */
    TRACE_CONSTANTS, /* captures and what is held are constants, but for what changes, which is as before */
    TRACE_SAVED,     /* ... which is a state */
    TRACE_STATES     /* captures and what is held are states */
} trace_form;
/* The recorded calls as the graph of another module, with the results as outputs, then what places hold, then what was
 * written into operands. Names are in0, held0, gathered0, capture0; outputs out0, held0_next, capture0_next. `stops`:
 * gradients are taken of it, so that what no gradient flows through must not let one through. */
xcvm_status tape_trace_build(const tape_trace *k, xcc_module *m, trace_form form, bool stops);
/* "capture3", the name of an operand. */
const char *tape_trace_name(const tape_trace *k, size_t operand, char text[32]);
/* The state that the naming has for an operand; NULL: none. */
const xcvm_static_state *tape_trace_state(const tape_trace *k, size_t operand);
/* True if calls replace what a place holds, and the saved program begins without it. */
bool tape_trace_begins_anew(const tape_trace *k, size_t operand);
/* The operand of a name of that form; SIZE_MAX: there is none. */
size_t tape_trace_operand_named(const tape_trace *k, const char *name);

/* Runs the calls on the tape, eagerly, for operands that stand for those of the trace (NULL: absent). */
xcvm_status tape_trace_run(const tape_trace *k, tape_variable *const *operands, tape_variable **outs);

#endif
