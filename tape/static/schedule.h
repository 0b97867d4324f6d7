/* Schedules: compiled traces, whose programs run in place of the op calls. */
#ifndef XCVM_TAPE_STATIC_SCHEDULE_H
#define XCVM_TAPE_STATIC_SCHEDULE_H

#include "tape/static/trace.h"

/* The purpose of a forward output, or of a state of the forward program. */
typedef enum schedule_role {
    SCHEDULE_RESULT,  /* result of the function, content of a state slot, or change of an effect */
    SCHEDULE_WRITTEN, /* new value of operand `index` */
    SCHEDULE_UPDATED, /* operand `index`, which the end of the program updates in place */
    SCHEDULE_KEPT,    /* saved for the backward program */
    SCHEDULE_OPERAND  /* the backward program reads operand `index` itself */
} schedule_role;
typedef struct schedule_output {
    schedule_role role;
    size_t index; /* of the operand, or of the record's result */
    const char *name;
    const xcvm_type *type;
    bool fixed; /* the type is static, so the program can write directly into a variable */
} schedule_output;

/* An input of the backward program: the gradient of a forward output, or that output. */
typedef struct schedule_input {
    bool is_gradient;
    const schedule_output *of;
} schedule_input;

typedef struct schedule_program {
    xcvm_program *program;
    xcvm_session *session;
} schedule_program;

/* A host operation, as the session calls it. */
typedef struct schedule_operation {
    xcvm_tape *tape;
    const struct tape_schedule *schedule;
    const trace_operation *of;
} schedule_operation;

/* Elements that are constants of a program. */
typedef struct schedule_constant {
    const xcvm_storage *storage;
    uint32_t version;
} schedule_constant;

typedef struct tape_schedule tape_schedule;
struct tape_schedule {
    tape_schedule *next;
    tape_trace *trace;
    xcvm_operation operation; /* of the records */
    uint32_t users;           /* number of records */
    uint64_t used;            /* time of the last use, for eviction */
    bool recording, training; /* state of the tape at the recording */
    bool double_backprop;
    int optimization;
    bool changes; /* captures change, so they cannot be constants */
    schedule_program forward, backward;
    /* The members below are set by compilation, and allocated in the arena. */
    xcvm_arena arena;
    xcvm_host_function *functions;
    size_t function_count;
    size_t *forward_inputs;   /* operands */
    schedule_output *outputs; /* of the forward program; its states, which are operands that are written, follow */
    size_t output_count, state_count, result_count, kept_count;
    size_t change_count;     /* changes of effects, which are the last results */
    tape_change *changing;   /* of the running effect */
    bool preserves_operands; /* in-place updates use a copy, since something after the program may fail */
    schedule_input *backward_inputs;
    size_t *backward_outputs;            /* operands */
    schedule_constant *constants;        /* per operand; NULL: none is constant */
    tape_variable **operands, **results; /* of the running call */
    xcvm_value *written;                 /* the same: new values of operands */
    xcvm_var *replaced;                  /* the same: previous contents of state slots */
};

/* Takes ownership of the trace. NULL with the failure set if there is no memory. */
tape_schedule *tape_schedule_create(xcvm_tape *t, tape_trace *trace, const char *name);
/* There must be no record of it. NULL is accepted. */
void tape_schedule_destroy(xcvm_tape *t, tape_schedule *s);
/* Compiles the schedule, unless that was done. An error of the compiler becomes a refusal of the trace. */
xcvm_status tape_schedule_compile(xcvm_tape *t, tape_schedule *s);
/* True if elements changed that are constants of the program. It must be compiled again, without constants. */
bool tape_schedule_is_outdated(const tape_schedule *s);
void tape_schedule_discard_programs(xcvm_tape *t, tape_schedule *s);
/* Runs the forward program on s->operands as one recorded op, and sets s->results, named in the innermost scope. */
xcvm_status tape_schedule_run(xcvm_tape *t, tape_schedule *s);
/* The gradient of a schedule's record, as in xcvm_operation. */
xcvm_status tape_schedule_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                   const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients);
size_t tape_schedule_memory(const tape_schedule *s);
/* Exchanges elements and versions. Storages that nobody shares are swapped, others are copied. */
void tape_schedule_exchange(xcvm_value *to, xcvm_value *next);
/* Creates the session's functions for host operations (schedule_operations.c). */
xcvm_status tape_schedule_functions(xcvm_tape *t, tape_schedule *s);
/* Compiles the trace in a form, and writes the program to `sink`. */
xcvm_status tape_schedule_emit(xcvm_tape *t, const tape_trace *k, const xcc_options *options, trace_form form,
                               xcvm_sink sink);

#endif
