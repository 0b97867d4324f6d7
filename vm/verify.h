/* Shared declarations of the verifier's parts. Each proves one property of a program and leaves its results for the
 * next. */
#ifndef XCVM_VM_VERIFY_H
#define XCVM_VM_VERIFY_H

#include "proto/name_index.h"
#include "vm/program.h"

/* Static type of a value. `kind` is an xcvm_kind or XCVM_KIND_UNKNOWN; `dtype` may be XCVM_NO_DTYPE. */
typedef struct xcvm_static_type {
    uint8_t kind, dtype;
    uint32_t state; /* 1 + the state whose memory the value may share, through Load and views; 0: none; XCVM_SOME_STATE:
                       one of several */
} xcvm_static_type;
enum { XCVM_KIND_UNKNOWN = 255 };
#define XCVM_SOME_STATE UINT32_MAX
/* The state of a value that has one of two origins. */
static inline uint32_t xcvm_either_state(uint32_t a, uint32_t b)
{
    return a == 0 || a == b ? b : b == 0 ? a : XCVM_SOME_STATE;
}

typedef struct xcvm_live {
    uint32_t id;
    xcvm_static_type type;
} xcvm_live;

/* A basic block: instructions [begin, end), where only the first is a jump target and only the last jumps. The last
 * block of a program is the empty one after its end. */
typedef struct xcvm_block {
    uint32_t begin, end;
    uint32_t next[2];
    uint32_t next_count;
    uint32_t order;  /* position in verifier.order; UINT32_MAX: unreachable */
    bool entered;    /* the following state at its entry is valid */
    xcvm_live *live; /* registers and outputs that are set there */
    uint32_t live_count;
    uint64_t *inputs; /* bit i: input i may have been taken */
} xcvm_block;

typedef struct xcvm_verifier {
    xcvm_program *program;
    const xcvm_image *image;
    xcvm_error *error;
    xcvm_arena temporary;
    xcvm_name_index inputs, outputs, states;

    xcvm_block *blocks;
    uint32_t block_count;
    uint32_t *order; /* reachable blocks; each after its predecessors, except for loops */
    uint32_t order_count;

    /* The state at one instruction. Ids below register_count are registers; the others are outputs, which are set once
     * assigned. */
    uint32_t *live;
    uint32_t live_count;
    uint32_t *position; /* 1 + position of an id in `live`; 0: not set */
    xcvm_static_type *types;
    uint64_t *taken; /* inputs taken */
    size_t taken_words;
    size_t state_size; /* entries and words held by all blocks */
} xcvm_verifier;

/* Allocates zeroed temporary memory for `count` elements of `size` bytes. Returns NULL with the error set. */
void *xcvm_verifier_allocate(xcvm_verifier *v, size_t count, size_t size);
xcvm_status xcvm_verifier_no_memory(xcvm_verifier *v);
/* Sets the error with its location, instruction `pc`, and returns `status`. */
xcvm_status xcvm_verifier_fail(xcvm_verifier *v, size_t pc, xcvm_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Verifies that registers are in range and that the numbers of operands and results match the op definition. */
xcvm_status xcvm_verify_operands(xcvm_verifier *v);
/* Fills program->steps with each instruction's kernel, jump target, or the input, output or state of In, Out, Load and
 * Store. Fails if there is none. Requires verified operands. */
xcvm_status xcvm_link_steps(xcvm_verifier *v);
/* Fills program->links. */
xcvm_status xcvm_link_dims(xcvm_verifier *v);
/* Splits the program into basic blocks and orders them. */
xcvm_status xcvm_verify_blocks(xcvm_verifier *v);
/* Verifies the unfused instructions of each KernelCall: in one block, only kernels with fixed results and Frees of
 * their results, and the registers left set are its results. Fills program->fused. */
xcvm_status xcvm_verify_kernel_calls(xcvm_verifier *v);
/* Tracks set registers and their types along all paths. Fills program->live_at_exit. */
xcvm_status xcvm_verify_flow(xcvm_verifier *v);
/* Derives the result types of instruction `pc` from v->types and, if `report`, checks the operands' types. Unknown
 * types are checked at run time by xcvm_infer. */
xcvm_status xcvm_verify_types(xcvm_verifier *v, uint32_t pc, bool report);
/* Verifies state declarations: tensors, unique names, initial values of the right type. */
xcvm_status xcvm_verify_states(xcvm_verifier *v);
/* Verifies the tail: it contains all instructions that update states, and each state is changed in one way. Fills
 * program->tail and state_uses. Requires blocks and linked steps. */
xcvm_status xcvm_verify_tail(xcvm_verifier *v);
/* Verifies that instruction `pc` of the tail reads no state that the tail writes, because the result would depend on
 * their order. Requires v->types before it. */
xcvm_status xcvm_verify_update(xcvm_verifier *v, uint32_t pc);
/* Verifies planned slots and fills step->alias. Requires xcvm_analyze_aliasing. */
xcvm_status xcvm_verify_slots(xcvm_verifier *v);
/* Analyses for speed (analyze.c): step->last_use, views and reusable; for static shapes step->static_shapes to
 * program->live_in; program->producers. */
void xcvm_analyze_aliasing(xcvm_program *program);
xcvm_status xcvm_analyze_static_shapes(xcvm_verifier *v);
xcvm_status xcvm_analyze_output_producers(xcvm_verifier *v);

/* Returns the field of operand `index` of an instruction (definition order, lists expanded). */
const xcvm_field *xcvm_operand_field(const xcvm_instruction *instruction, uint32_t index);

#endif
