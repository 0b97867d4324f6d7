/* A session: registers and memory of one thread's runs of a program. All of it but the arena, the heap and the thread
 * pool is one block of memory. */
#ifndef XCVM_VM_SESSION_H
#define XCVM_VM_SESSION_H

#include "vm/program.h"

/* How far an instruction's results are settled from earlier runs with inputs of the same types. */
typedef enum xcvm_settled {
    XCVM_UNSETTLED, /* nothing is known */
    XCVM_TYPED,     /* the result registers keep their types from run to run */
    XCVM_PLACED     /* ... and their memory, which is in the arena */
} xcvm_settled;

struct xcvm_session {
    const xcvm_program *program;
    xcvm_allocator allocator;
    size_t block_bytes; /* of this struct and all arrays */
    xcvm_kernel kernel;
    uint64_t random;
    uint32_t cancelled; /* atomic */
    bool strict_types;
    bool has_results; /* the last run succeeded */
    bool bound_anew;  /* inputs or outputs were bound since the last run: check them together */

    char *arena; /* NULL until the first run that needs it */
    size_t arena_bytes;
    bool arena_is_callers;

    xcvm_observer observer;
    bool watched;            /* there is an observer, or types are checked */
    size_t arena_live_bytes; /* held by registers in the arena; kept up while there is an observer */

    /* Arrays. */
    xcvm_value *registers; /* register_count */
    xcvm_value *inputs;    /* bound; null where not */
    xcvm_value *outputs;   /* of the last run */
    xcvm_value *targets;   /* tensors that outputs are written to; null where there is none */
    const xcvm_value **in; /* operands of all instructions */
    xcvm_value **out;      /* results of all instructions */
    char *args;            /* argument structs */
    uint8_t *settled;      /* xcvm_settled of each instruction */
    bool *typed;           /* of each register: its type was settled by its writer */
    bool *direct;          /* of each instruction: a result may be written straight into a target */
    bool *moved;           /* of each register: its memory in the arena went on to another (while observed) */
};

static inline xcvm_typing xcvm_session_typing(const xcvm_session *s, size_t pc)
{
    const xcvm_instruction *instruction = &s->program->image.instructions[pc];
    const xcvm_step *step = &s->program->steps[pc];
    return (xcvm_typing){.row = instruction->row,
                         .args = s->args + step->args_offset,
                         .in = s->in + step->in_at,
                         .in_count = instruction->in_count,
                         .out = s->out + step->out_at,
                         .out_count = instruction->out_count,
                         .error = s->kernel.error};
}

/* Unsets a register. The type stays, for instructions that settled it; nobody reads a register that is not set. */
static inline void xcvm_session_release(xcvm_value *v)
{
    if (v->storage != NULL) {
        xcvm_storage_release(v->storage);
        v->storage = NULL;
        v->data = NULL;
        v->home = XCVM_HOME_NONE;
    }
}
/* Forgets what earlier runs found out. */
void xcvm_session_unsettle(xcvm_session *s);
/* Before a run: everything is bound and agrees, and nothing bound to be written overlaps another. */
xcvm_status xcvm_session_check_bindings(xcvm_session *s, xcvm_error *error);
/* Part of that: no tensor bound to an output overlaps anything else that is bound. */
xcvm_status xcvm_session_check_overlap(const xcvm_session *s, xcvm_error *error);
/* Whether a value is what is declared or noted: OK, TYPE_MISMATCH or SHAPE_MISMATCH. */
xcvm_status xcvm_type_match(const xcvm_type *type, const xcvm_value *value);
/* Whether all values of a type differ in nothing but their elements, which are not strings. */
bool xcvm_type_is_fixed(const xcvm_type *type);
/* The end of creation (warm_up.c). */
void xcvm_session_warm_up(xcvm_session *s, bool cold);
/* Types and memory for the results of instruction `pc`, which is not settled as PLACED (results.c). */
xcvm_status xcvm_session_prepare(xcvm_session *s, size_t pc);
/* After the kernel of an instruction that is not settled: every result was made. */
xcvm_status xcvm_session_check_results(xcvm_session *s, size_t pc);
/* Runs a Fused instruction's function, if it has one that fits: *next is then behind the instructions that it stands
 * for (fused.c). */
xcvm_status xcvm_session_run_fused(xcvm_session *s, size_t pc, size_t *next);
/* Executes one instruction; *next is pc + 1 at the call, and changed by a jump (run.c). */
xcvm_status xcvm_session_step(xcvm_session *s, size_t pc, size_t *next);
/* The same with the observer told and types checked (observe.c). */
xcvm_status xcvm_session_watch(xcvm_session *s, size_t pc, size_t *next);

#endif
