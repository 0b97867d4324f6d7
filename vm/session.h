/* A session: registers and memory for one thread's runs of a program. Everything except the arena, the heap and the
 * thread pool is in one block of memory. */
#ifndef XCVM_VM_SESSION_H
#define XCVM_VM_SESSION_H

#include "vm/program.h"

/* Validity of an instruction's results from an earlier run with operands of the same types. */
typedef enum xcvm_shapes_state {
    XCVM_INVALID_SHAPES, /* nothing is valid */
    XCVM_INFERRED,       /* the results' types are valid: in their registers or in the type cache */
    XCVM_ALLOCATED       /* types and memory are valid; the memory is in the arena */
} xcvm_shapes_state;

/* Static knowledge about a register while its basic block is entered with the same types. Bit flags. */
enum {
    XCVM_KNOWN_TYPE = 1,     /* its type; never for a list */
    XCVM_KNOWN_ELEMENTS = 2, /* also its elements: determined by types and constants only */
    XCVM_KNOWN_ALWAYS = 4    /* the same in every basic block: determined by the program's input types only */
};

/* The type of a register, and the knowledge about it. */
typedef struct xcvm_cached_type {
    uint8_t kind, dtype, known;
    int8_t rank;
    int64_t dims[XCVM_MAX_RANK];
    size_t bytes;
} xcvm_cached_type;

/* A state, shared by the sessions of a group. */
typedef struct xcvm_state {
    uint32_t refs; /* atomic */
    xcvm_allocator allocator;
    xcvm_value value;
    xcvm_value spare; /* target of the next Store; null before the first one, and if dimensions are open */
    bool lent;        /* both are the caller's memory, from xcvm_session_lend_state */
} xcvm_state;

struct xcvm_session {
    const xcvm_program *program;
    xcvm_allocator allocator;
    size_t block_bytes; /* size of this struct and all arrays */
    xcvm_kernel kernel;
    uint64_t random;
    uint32_t cancelled;           /* atomic */
    const uint32_t *cancelled_by; /* a flag that ends runs instead; atomic. NULL: `cancelled` does */
    bool strict_types;
    bool flush_subnormals;
    bool has_results;         /* the last run succeeded */
    bool bindings_dirty;      /* inputs or outputs were bound since the last run: check them together */
    bool bound_outputs_dirty; /* memory of results may have to be assigned again */
    uint64_t inferences;      /* number of shape inferences so far */

    char *arena; /* NULL if the program needs none */
    size_t arena_bytes;
    bool arena_is_callers;
    bool threads_are_lent;

    xcvm_observer observer;
    bool observed;           /* there is an observer or a type check */
    size_t arena_live_bytes; /* held by registers in the arena; updated only with an observer */

    /* Arrays: */
    xcvm_value *registers;     /* register_count */
    xcvm_value *inputs;        /* bound values; null where unbound */
    xcvm_value *outputs;       /* of the last run; during a run followed by the stored value of each state */
    xcvm_value *bound_outputs; /* tensors that outputs and stored states are written to; null if none */
    xcvm_state **states;
    const xcvm_value **in;          /* operands of all instructions */
    xcvm_value **out;               /* results of all instructions */
    char *args;                     /* argument structs */
    uint8_t *shapes_valid;          /* xcvm_shapes_state of each instruction */
    uint8_t *known;                 /* XCVM_KNOWN_... flags of each register */
    xcvm_cached_type *live_in;      /* type of each live-in register when its basic block was last entered */
    bool *entered;                  /* each basic block: entered since the types of the inputs changed */
    xcvm_cached_type *cached_types; /* cached types of results */
    uint32_t *pairs;                /* for each output: 1 + the paired input; 0: none */
    bool *staged; /* for each output: bound to the memory of its paired input, and copied there after the run */
    bool *direct; /* for each instruction: a result may be written directly to a bound output */
    bool *moved;  /* for each register: another register took over its arena memory (while observed) */
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

/* Unsets a register. Its type stays for instructions that inferred it; unset registers are never read. */
static inline void xcvm_session_release(xcvm_value *v)
{
    if (v->storage != NULL) {
        xcvm_storage_release(v->storage);
        v->storage = NULL;
        v->data = NULL;
        v->memory_kind = XCVM_MEMORY_NONE;
    }
}
/* Invalidates what earlier runs inferred (static_shapes.c). */
void xcvm_session_invalidate(xcvm_session *s);
/* Enters the basic block with that index. Invalidates the inferences of its instructions if the live-in types changed.
 */
void xcvm_session_enter(xcvm_session *s, size_t block);
/* Records after inference of instruction `pc` whether its results' types stay valid. */
void xcvm_session_validate(xcvm_session *s, size_t pc);
/* Restores cached result types to their registers, before an instruction whose shapes are valid. */
void xcvm_session_recall(xcvm_session *s, size_t pc);
/* Records that the type of the value taken by In depends only on the types of the program's inputs. */
void xcvm_session_validate_input(xcvm_session *s, size_t pc);
/* Replace binding for one run, at almost no cost. The caller guarantees the declared types, that written memory
 * overlaps nothing, and that all of it lives until the next run or binding. */
void xcvm_session_lend_input(xcvm_session *s, size_t index, const xcvm_value *value);
void xcvm_session_lend_output(xcvm_session *s, size_t index, const xcvm_value *tensor);
/* The same for an unshared state of fixed type. Updates write to `value`, and a Store writes to `next` (NULL if the
 * program stores none). The run does not swap them. A run that fails has written no update. */
void xcvm_session_lend_state(xcvm_session *s, size_t index, const xcvm_value *value, const xcvm_value *next);
/* Makes runs use the threads (NULL: none) and random numbers of another kernel, which must outlive the session. The
 * session must have been created with one thread. */
void xcvm_session_lend_kernel(xcvm_session *s, const xcvm_kernel *kernel);
/* Checks before a run that everything is bound and consistent, and that bound outputs overlap nothing. */
xcvm_status xcvm_session_check_bindings(xcvm_session *s, xcvm_error *error);
/* The overlap part of that check. */
xcvm_status xcvm_session_check_overlap(const xcvm_session *s, xcvm_error *error);
/* Compares a value with a declared or recorded type. Returns OK, TYPE_MISMATCH or SHAPE_MISMATCH. */
xcvm_status xcvm_type_match(const xcvm_type *type, const xcvm_value *value);
/* Returns true if all values of a type differ only in their elements, which are not strings. */
bool xcvm_type_is_fixed(const xcvm_type *type);
/* Creates the states of a new session. Those named like states of `with` (NULL: none) are shared with it (states.c). */
xcvm_status xcvm_session_create_states(xcvm_session *s, const xcvm_session *with, xcvm_error *error);
void xcvm_session_release_states(xcvm_session *s);
/* Before a run: provides memory for the states that it stores or updates. */
xcvm_status xcvm_session_begin_states(xcvm_session *s, xcvm_error *error);
/* Executes a Load. */
void xcvm_session_load_state(xcvm_session *s, size_t pc);
/* After a successful run: makes the stored values current. */
void xcvm_session_commit_states(xcvm_session *s);
/* Before the tail at *pc: does everything that may fail there, and disables interruption. On failure *pc is the failing
 * instruction. */
xcvm_status xcvm_session_enter_tail(xcvm_session *s, size_t *pc);
/* Maps the constants at the end of session creation (warm_up.c). */
void xcvm_session_map_constants(const xcvm_session *s);
/* Sets types and memory of the results of instruction `pc`, which is not ALLOCATED (results.c). */
xcvm_status xcvm_session_prepare(xcvm_session *s, size_t pc);
/* After a kernel whose shapes are not valid: checks that every result was produced. */
xcvm_status xcvm_session_check_results(xcvm_session *s, size_t pc);
/* Runs the function of a KernelCall instruction, if one matches. Then *next is after the unfused instructions
 * (kernel_call.c). */
xcvm_status xcvm_session_run_fused(xcvm_session *s, size_t pc, size_t *next);
/* Begin and end a run or other operation with a deadline and cancellation; kernels report errors there (run.c). */
void xcvm_session_begin(xcvm_session *s, uint64_t timeout_ns, xcvm_error *error);
void xcvm_session_end(xcvm_session *s, xcvm_status status);
void xcvm_session_forget_results(xcvm_session *s);
/* Executes one instruction. *next is pc + 1 on entry; a jump changes it (run.c). */
xcvm_status xcvm_session_step(xcvm_session *s, size_t pc, size_t *next);
/* The same with observer calls and type checks (observe.c). */
xcvm_status xcvm_session_observe(xcvm_session *s, size_t pc, size_t *next);

#endif
