/* Schedules: a trace compiled, and the programs run in the place of its calls. */
#ifndef XCVM_TAPE_STATIC_SCHEDULE_H
#define XCVM_TAPE_STATIC_SCHEDULE_H

#include "tape/static/trace.h"

/* What an output of the forward, or a state of it, is. */
typedef enum schedule_role {
    SCHEDULE_RESULT,  /* of the function, or what is left in a place, or what an effect changes an operand by */
    SCHEDULE_WRITTEN, /* what operand `index` becomes */
    SCHEDULE_UPDATED, /* operand `index`, which the end of the program changes in place */
    SCHEDULE_KEPT,    /* for the backward alone */
    SCHEDULE_OPERAND  /* for the backward, which reads the operand `index` itself */
} schedule_role;
typedef struct schedule_output {
    schedule_role role;
    size_t index; /* of the operand, or of the record's result */
    const char *name;
    const xcvm_type *type;
    bool fixed; /* the type is, so that the program can write straight into a variable */
} schedule_output;

/* An input of the backward: the gradient of an output of the forward, or that output. */
typedef struct schedule_input {
    bool is_gradient;
    const schedule_output *of;
} schedule_input;

typedef struct schedule_program {
    xcvm_program *program;
    xcvm_session *session;
} schedule_program;

/* An operation of the host's, as the session calls it. */
typedef struct schedule_operation {
    xcvm_tape *tape;
    const struct tape_schedule *schedule;
    const trace_operation *of;
} schedule_operation;

/* Elements that were put into a program as constants. */
typedef struct schedule_constant {
    const xcvm_storage *storage;
    uint32_t version;
} schedule_constant;

typedef struct tape_schedule tape_schedule;
struct tape_schedule {
    tape_schedule *next;
    tape_trace *trace;
    xcvm_operation operation; /* that records have */
    uint32_t users;           /* records */
    uint64_t used;            /* when it was, for the one that was not used for longest to go */
    bool recording, training; /* when it was recorded */
    bool double_backprop;
    int optimization;
    bool changes; /* captures do, so that they are no constants of the program */
    schedule_program forward, backward;
    /* What follows is made when it is compiled, in memory of its own. */
    xcvm_arena arena;
    xcvm_host_function *functions;
    size_t function_count;
    size_t *forward_inputs;   /* operands */
    schedule_output *outputs; /* of the forward; behind them its states, which are operands that are written */
    size_t output_count, state_count, result_count, kept_count;
    size_t change_count;   /* of the results, behind the others: for effects */
    tape_change *changing; /* by the effect that runs */
    bool aside;            /* what is updated in place is a copy: something behind the program may fail */
    schedule_input *backward_inputs;
    size_t *backward_outputs;            /* operands */
    schedule_constant *constants;        /* of each operand; NULL: none is constant */
    tape_variable **operands, **results; /* of the call that runs */
    xcvm_value *written;                 /* likewise: what operands become */
    xcvm_var *replaced;                  /* likewise: what was in the places of operands */
};

/* Takes the trace. NULL, with the failure noted: no memory. */
tape_schedule *tape_schedule_create(xcvm_tape *t, tape_trace *trace, const char *name);
/* No record may be left. NULL is accepted. */
void tape_schedule_destroy(xcvm_tape *t, tape_schedule *s);
/* Compiles it, unless it is. What the compiler refuses becomes a refusal of the trace. */
xcvm_status tape_schedule_compile(xcvm_tape *t, tape_schedule *s);
/* Whether elements that are constants of the program have changed: it is compiled anew then, without them. */
bool tape_schedule_is_outdated(const tape_schedule *s);
void tape_schedule_discard_programs(xcvm_tape *t, tape_schedule *s);
/* Runs the forward for s->operands, as a call that is recorded, and fills s->results, named in the innermost scope. */
xcvm_status tape_schedule_run(xcvm_tape *t, tape_schedule *s);
/* Of its records, as of xcvm_operation. */
xcvm_status tape_schedule_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                   const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients);
size_t tape_schedule_memory(const tape_schedule *s);
/* Exchanges elements, with their versions: what nobody else sees changes its place, else the elements do. */
void tape_schedule_exchange(xcvm_value *to, xcvm_value *next);
/* Functions of the session that call the operations of the trace (schedule_operations.c). */
xcvm_status tape_schedule_functions(xcvm_tape *t, tape_schedule *s);
/* The program of the trace in some form: bytes for `sink`. */
xcvm_status tape_schedule_emit(xcvm_tape *t, const tape_trace *k, const xcc_options *options, trace_form form,
                               xcvm_sink sink);

#endif
