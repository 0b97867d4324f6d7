/* What the parts of the verifier share. Each proves one thing of a program and leaves what it found for the next. */
#ifndef XCVM_VM_VERIFY_H
#define XCVM_VM_VERIFY_H

#include "proto/name_index.h"
#include "vm/program.h"

/* What is known of a value before the run. `kind` is an xcvm_kind or XCVM_KIND_UNKNOWN; `dtype` may be
 * XCVM_NO_DTYPE. */
typedef struct xcvm_static_type {
    uint8_t kind, dtype;
    uint32_t state; /* plus 1, the one whose memory the value may share, as what Load lends and views of it do; 0: none;
                       XCVM_SOME_STATE: one of several */
} xcvm_static_type;
enum { XCVM_KIND_UNKNOWN = 255 };
#define XCVM_SOME_STATE UINT32_MAX
/* Of a value that is one of two. */
static inline uint32_t xcvm_either_state(uint32_t a, uint32_t b)
{
    return a == 0 || a == b ? b : b == 0 ? a : XCVM_SOME_STATE;
}

typedef struct xcvm_live {
    uint32_t id;
    xcvm_static_type type;
} xcvm_live;

/* Instructions [begin, end) of which only the first is jumped to and only the last jumps; the last block of a program
 * is the empty one behind its end. */
typedef struct xcvm_block {
    uint32_t begin, end;
    uint32_t next[2];
    uint32_t next_count;
    uint32_t order;  /* position in verifier.order; UINT32_MAX: never reached */
    bool entered;    /* the state at its entry, which follows, is known */
    xcvm_live *live; /* what is set there */
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
    uint32_t *order; /* of the blocks that are reached: each after those before it, but for loops */
    uint32_t order_count;

    /* The state at one instruction. Ids are registers, and from register_count on outputs, which are set once given. */
    uint32_t *live;
    uint32_t live_count;
    uint32_t *position; /* of an id in `live`, plus 1; 0: not set */
    xcvm_static_type *types;
    uint64_t *taken; /* inputs */
    size_t taken_words;
    size_t state_size; /* entries and words held by all blocks */
} xcvm_verifier;

/* Zeroed temporary memory for `count` things of `size` bytes; NULL with the error set. */
void *xcvm_verifier_allocate(xcvm_verifier *v, size_t count, size_t size);
xcvm_status xcvm_verifier_no_memory(xcvm_verifier *v);
/* Fails with the error at instruction `pc`. */
xcvm_status xcvm_verifier_fail(xcvm_verifier *v, size_t pc, xcvm_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Registers in range, and of every instruction as many operands and results as its row has. */
xcvm_status xcvm_verify_operands(xcvm_verifier *v);
/* Fills program->steps with what each instruction is linked to: its kernel, the target of a jump, the input, output or
 * state of In, Out, Load and Store. Fails where there is none. Needs verified operands. */
xcvm_status xcvm_link_steps(xcvm_verifier *v);
/* Fills program->links. */
xcvm_status xcvm_link_dims(xcvm_verifier *v);
/* Cuts the program into blocks and orders them. */
xcvm_status xcvm_verify_blocks(xcvm_verifier *v);
/* Instructions that a KernelCall one stands for: all in its block, none but kernels of fixed results and Frees of what
 * they make, and what they leave set is its results. Fills program->fused. */
xcvm_status xcvm_verify_fused(xcvm_verifier *v);
/* Follows what is set, and of which type, along all paths. Fills program->live_at_exit. */
xcvm_status xcvm_verify_flow(xcvm_verifier *v);
/* Types of the results of instruction `pc` from v->types, and, if `report`, whether the operands' types are allowed.
 * What is not known is left to the run, where xcvm_infer looks at it again. */
xcvm_status xcvm_verify_types(xcvm_verifier *v, uint32_t pc, bool report);
/* The declarations of states: tensors, names of their own, initial values of their types. */
xcvm_status xcvm_verify_states(xcvm_verifier *v);
/* The tail: instructions that update states stand in it, and each state is changed in one way. Fills program->tail and
 * state_uses. Needs blocks and linked steps. */
xcvm_status xcvm_verify_tail(xcvm_verifier *v);
/* That instruction `pc` of the tail reads no state that the tail writes: which of them comes first would show. Needs
 * v->types as they are in front of it. */
xcvm_status xcvm_verify_update(xcvm_verifier *v, uint32_t pc);
/* Planned slots. Needs what xcvm_analyze_aliasing finds; fills step->alias. */
xcvm_status xcvm_verify_slots(xcvm_verifier *v);
/* What is not proved but worked out for speed (analyze.c): step->last_use, views and reusable; what static shapes
 * need, from step->static_shapes to program->live_in; program->producers. */
void xcvm_analyze_aliasing(xcvm_program *program);
xcvm_status xcvm_analyze_static_shapes(xcvm_verifier *v);
xcvm_status xcvm_analyze_output_producers(xcvm_verifier *v);

/* The field that operand `index` of an instruction (row order, lists spread out) belongs to. */
const xcvm_field *xcvm_operand_field(const xcvm_instruction *instruction, uint32_t index);

#endif
