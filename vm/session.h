/* A session: registers and memory of one thread's runs of a program. All of it but the arena, the heap and the thread
 * pool is one block of memory. */
#ifndef XCVM_VM_SESSION_H
#define XCVM_VM_SESSION_H

#include "vm/program.h"

/* What of an instruction's results is valid since an earlier run with operands of the same types. */
typedef enum xcvm_shapes_state {
    XCVM_INVALID_SHAPES, /* nothing is known */
    XCVM_INFERRED,       /* the results' types are known: kept in their registers, or noted */
    XCVM_ALLOCATED       /* ... and their memory, which is in the arena */
} xcvm_shapes_state;

/* What is known of what a register holds, as long as its stretch is entered with the same types. Bits. */
enum {
    XCVM_KNOWN_TYPE = 1,     /* its type; of no list */
    XCVM_KNOWN_ELEMENTS = 2, /* its elements, too: nothing but types and constants decides them */
    XCVM_KNOWN_ALWAYS = 4    /* the same in every stretch: the types of the program's inputs alone decide it */
};

/* The type of a register, and what is known of it. */
typedef struct xcvm_note {
    uint8_t kind, dtype, known;
    int8_t rank;
    int64_t dims[XCVM_MAX_RANK];
    size_t bytes;
} xcvm_note;

/* A state, which the sessions of a group share. */
typedef struct xcvm_state {
    uint32_t refs; /* atomic */
    xcvm_allocator allocator;
    xcvm_value value;
    xcvm_value spare; /* where the next Store writes; null before the first, and where dimensions are open */
    bool lent;        /* both are another's memory, as xcvm_session_lend_state gave it */
} xcvm_state;

struct xcvm_session {
    const xcvm_program *program;
    xcvm_allocator allocator;
    size_t block_bytes; /* of this struct and all arrays */
    xcvm_kernel kernel;
    uint64_t random;
    uint32_t cancelled; /* atomic */
    bool strict_types;
    bool flush_subnormals;
    bool has_results;         /* the last run succeeded */
    bool bindings_dirty;      /* inputs or outputs were bound since the last run: check them together */
    bool bound_outputs_dirty; /* so that results may have to be placed elsewhere */
    uint64_t inferences;      /* so far, of instructions */

    char *arena; /* NULL until the first run that needs it */
    size_t arena_bytes;
    bool arena_is_callers;
    bool threads_are_lent;

    xcvm_observer observer;
    bool observed;           /* there is an observer, or types are checked */
    size_t arena_live_bytes; /* held by registers in the arena; kept up while there is an observer */

    /* Arrays. */
    xcvm_value *registers;     /* register_count */
    xcvm_value *inputs;        /* bound; null where not */
    xcvm_value *outputs;       /* of the last run; behind them, during a run, what is stored in each state */
    xcvm_value *bound_outputs; /* tensors that outputs, and stored states, are written to; null where there is none */
    xcvm_state **states;
    const xcvm_value **in; /* operands of all instructions */
    xcvm_value **out;      /* results of all instructions */
    char *args;            /* argument structs */
    uint8_t *shapes_valid; /* xcvm_shapes_state of each instruction */
    uint8_t *known;        /* of each register: XCVM_KNOWN_... bits */
    xcvm_note *live_in;    /* of each live-in of a stretch: the type that it had when the stretch was last entered */
    bool *entered;         /* each stretch, since the types of the inputs changed */
    xcvm_note *notes;      /* of results that are noted */
    uint32_t *pairs;       /* of each output: the input that it is a pair with, plus 1; 0: none */
    bool *staged;          /* of each output: bound to the memory of its pair, and so copied there behind the run */
    bool *direct;          /* of each instruction: a result may be written straight into a bound output */
    bool *moved;           /* of each register: its memory in the arena went on to another (while observed) */
};

static inline xcvm_inference xcvm_session_inference(const xcvm_session *s, size_t pc)
{
    const xcvm_instruction *instruction = &s->program->image.instructions[pc];
    const xcvm_step *step = &s->program->steps[pc];
    return (xcvm_inference){.schema = instruction->schema,
                            .args = s->args + step->args_offset,
                            .in = s->in + step->in_at,
                            .in_count = instruction->in_count,
                            .out = s->out + step->out_at,
                            .out_count = instruction->out_count,
                            .error = s->kernel.error};
}

/* Unsets a register. The type stays valid for instructions that inferred it; nobody reads a register that is not set.
 */
static inline void xcvm_session_release(xcvm_value *v)
{
    if (v->storage != NULL) {
        xcvm_storage_release(v->storage);
        v->storage = NULL;
        v->data = NULL;
        v->memory_kind = XCVM_MEMORY_NONE;
    }
}
/* Forgets what earlier runs found out (static_shapes.c). */
void xcvm_session_invalidate(xcvm_session *s);
/* The stretch with that index is entered: forgets what its instructions inferred if the types are others. */
void xcvm_session_enter(xcvm_session *s, size_t stretch);
/* Instruction `pc` was inferred, its results' sizes are set: whether that may be relied on from now on. */
void xcvm_session_validate(xcvm_session *s, size_t pc);
/* Before an instruction whose shapes are valid, but whose results are noted: their types, in their registers. */
void xcvm_session_recall(xcvm_session *s, size_t pc);
/* What In takes is of a type that the program's inputs decide. */
void xcvm_session_validate_input(xcvm_session *s, size_t pc);
/* For one run, in place of binding, by who knows that the types are those declared, that what is written overlaps
 * nothing, and that all of it lives until the next run or binding. Costs next to nothing. */
void xcvm_session_lend_input(xcvm_session *s, size_t index, const xcvm_value *value);
void xcvm_session_lend_output(xcvm_session *s, size_t index, const xcvm_value *tensor);
/* The same of a state that no other session shares, of fixed type: `value` is where updates write, `next` where a Store
 * does (NULL if the program stores none), which is not put in the place of `value` by the run. A run that fails has
 * written no update. */
void xcvm_session_lend_state(xcvm_session *s, size_t index, const xcvm_value *value, const xcvm_value *next);
/* Runs use the threads (NULL: none) and the random numbers of another kernel from now on, which outlives the session;
 * it was created with one thread. */
void xcvm_session_lend_kernel(xcvm_session *s, const xcvm_kernel *kernel);
/* Before a run: everything is bound and agrees, and nothing bound to be written overlaps another. */
xcvm_status xcvm_session_check_bindings(xcvm_session *s, xcvm_error *error);
/* Part of that: no tensor bound to an output overlaps anything else that is bound. */
xcvm_status xcvm_session_check_overlap(const xcvm_session *s, xcvm_error *error);
/* Whether a value is what is declared or noted: OK, TYPE_MISMATCH or SHAPE_MISMATCH. */
xcvm_status xcvm_type_match(const xcvm_type *type, const xcvm_value *value);
/* Whether all values of a type differ in nothing but their elements, which are not strings. */
bool xcvm_type_is_fixed(const xcvm_type *type);
/* The states of a session that is being made, those of the same names shared with another; NULL: none (states.c). */
xcvm_status xcvm_session_create_states(xcvm_session *s, const xcvm_session *with, xcvm_error *error);
void xcvm_session_release_states(xcvm_session *s);
/* Before a run: gives the states that it stores or updates memory to be written to. */
xcvm_status xcvm_session_begin_states(xcvm_session *s, xcvm_error *error);
/* What Load does. */
void xcvm_session_load_state(xcvm_session *s, size_t pc);
/* After a run that has ended well: what was stored is what the states are. */
void xcvm_session_commit_states(xcvm_session *s);
/* In front of the tail, at *pc: does everything that may fail there, and lets nothing stop it any more. In failure *pc
 * is the instruction that failed. */
xcvm_status xcvm_session_enter_tail(xcvm_session *s, size_t *pc);
/* The end of creation: maps the constants (warm_up.c). */
void xcvm_session_map_constants(const xcvm_session *s);
/* Types and memory for the results of instruction `pc`, which is not ALLOCATED (results.c). */
xcvm_status xcvm_session_prepare(xcvm_session *s, size_t pc);
/* After the kernel of an instruction whose shapes are not valid: every result was made. */
xcvm_status xcvm_session_check_results(xcvm_session *s, size_t pc);
/* Runs a KernelCall instruction's function, if it has one that fits: *next is then behind the instructions that it
 * stands for (fused.c). */
xcvm_status xcvm_session_run_fused(xcvm_session *s, size_t pc, size_t *next);
/* Around a run, or what else may be timed or cancelled: the deadline, and where kernels report to (run.c). */
void xcvm_session_begin(xcvm_session *s, uint64_t timeout_ns, xcvm_error *error);
void xcvm_session_end(xcvm_session *s, xcvm_status status);
void xcvm_session_forget_results(xcvm_session *s);
/* Executes one instruction; *next is pc + 1 at the call, and changed by a jump (run.c). */
xcvm_status xcvm_session_step(xcvm_session *s, size_t pc, size_t *next);
/* The same with the observer told and types checked (observe.c). */
xcvm_status xcvm_session_observe(xcvm_session *s, size_t pc, size_t *next);

#endif
