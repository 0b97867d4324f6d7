/* A loaded program: immutable, shared by sessions of any thread. */
#ifndef XCVM_VM_PROGRAM_H
#define XCVM_VM_PROGRAM_H

#include "ops/util/kernel.h"
#include "proto/image.h"
#include "vm/kernel_abi.h"

typedef enum xcvm_action {
    XCVM_ACTION_KERNEL,
    XCVM_ACTION_IN,
    XCVM_ACTION_OUT, /* also of Store: a state that is stored is an output that the session binds itself */
    XCVM_ACTION_LOAD,
    XCVM_ACTION_FREE,
    XCVM_ACTION_JUMP,
    XCVM_ACTION_JUMP_TRUE,
    XCVM_ACTION_JUMP_FALSE,
    XCVM_ACTION_FUSED
} xcvm_action;

/* How the planned slot of an instruction's first result relates to that of an operand. */
typedef enum xcvm_alias {
    XCVM_ALIAS_NONE,    /* nothing live overlaps the slot */
    XCVM_ALIAS_VIEW,    /* it is the slot of an IN_VIEW operand, whose elements the result shares */
    XCVM_ALIAS_IN_PLACE /* it is the slot of an IN_PLACE operand that nothing reads any more */
} xcvm_alias;

/* A step: an instruction as verified and linked. */
typedef struct xcvm_step {
    xcvm_kernel_run run; /* NULL for CONTROL */
    uint32_t last_use;   /* operands that the Frees right behind it free (xcvm_kernel.last_use) */
    uint32_t views;      /* likewise: operands whose memory the first result may share ... */
    uint32_t reusable;   /* ... or take over, unless it is shared otherwise */
    uint8_t action;      /* xcvm_action */
    uint8_t alias;       /* xcvm_alias; the operand is alias_operand */
    bool static_shapes;  /* once its results are inferred they may be so for good (vm/static_shapes.c) */
    uint32_t shaping;    /* operands whose elements decide a result's shape */
    uint32_t entry;      /* of the first instruction of a stretch: its index in program->stretches, plus 1; else 0 */
    uint32_t notes_at;   /* where a session notes the results' types, if other instructions write their registers */
    bool noted;          /* notes_at is used */
    uint32_t alias_operand;
    int32_t target;       /* of a jump; the input or output of In and Out; the state of Load, and of Store, behind the
                           * outputs; the program's `fused` entry; of a kernel, the first output that it makes; else -1 */
    size_t args_offset;   /* of its argument struct in a session's argument block */
    size_t in_at, out_at; /* of its operands and results in a session's flat pointer arrays */
} xcvm_step;

/* A basic block that reads registers set before it. What its instructions inferred holds as long as it is entered with
 * the same types in them. */
typedef struct xcvm_stretch {
    uint32_t begin, end;           /* instructions */
    uint32_t live_in_at, live_ins; /* those registers, in program->live_in */
} xcvm_stretch;

/* Two dimensions of inputs that have the same name and so must agree. */
typedef struct xcvm_dim_link {
    uint32_t input, dim;
    uint32_t first_input, first_dim;
} xcvm_dim_link;

/* A dimension of a state that has the name of a dimension of an input: the state begins with the input's size. */
typedef struct xcvm_state_link {
    uint32_t state, dim;
    uint32_t input, input_dim;
} xcvm_state_link;

/* The instruction and result that give an output its value; pc is -1 where it is not one instruction shortly before. */
typedef struct xcvm_producer {
    int32_t pc;
    uint32_t result;
    int32_t next; /* another output that the same instruction makes, or -1 */
} xcvm_producer;

/* A KernelCall instruction, its indices checked. */
typedef struct xcvm_fused {
    uint32_t library, kernel;
    uint32_t count; /* instructions behind it that it stands for */
    uint32_t in_count, out_count;
    const int64_t *results;              /* out_count: whose first result each is, counted from 0 behind it */
    const int64_t *elements;             /* in_count + out_count */
    const xcvm_library_kernel *function; /* NULL: run the unfused instructions */
} xcvm_fused;
enum { XCVM_FUSED_OPERANDS = 64 }; /* most operands, and most results */

/* What a program does with a state. */
enum xcvm_state_use {
    XCVM_STATE_STORED = 1,  /* a Store gives it a new value */
    XCVM_STATE_UPDATED = 2, /* an instruction of the tail writes it in place */
    XCVM_STATE_FILLED = 4   /* updated by an instruction of class append: some rows may never be written */
};

struct xcvm_program {
    xcvm_allocator allocator;
    xcvm_arena arena;
    xcvm_image image;
    const char *isa;       /* of the kernels */
    xcvm_step *steps;      /* one for each instruction */
    size_t register_count; /* registers are 1 .. register_count - 1 */
    size_t args_bytes;     /* of all argument structs of a session */
    size_t in_count;       /* operands of all instructions */
    size_t out_count;      /* results of all instructions */
    int32_t *live_at_exit; /* registers that are set when the program ends */
    size_t live_at_exit_count;
    xcvm_producer *producers; /* one for each output, then for each state that is stored */
    uint8_t *state_uses;      /* of each state: xcvm_state_use, or-ed */
    size_t tail;              /* the first instruction of the tail; instruction_count: there is none */
    xcvm_stretch *stretches;
    size_t stretch_count;
    int32_t *live_in;
    size_t live_in_count;
    size_t note_count; /* of all results with notes */
    xcvm_dim_link *links;
    size_t link_count;
    xcvm_state_link *state_links; /* in the order of the states */
    size_t state_link_count;
    const char **no_names; /* as many empty strings as any instruction has results */
    bool has_jumps;
    xcvm_fused *fused;
    size_t fused_count;
    void **libraries; /* dlopen's handles, image.library_count; NULL where a library is not used */
    char notice[256]; /* why libraries are not used; empty if they are */
    void *mapping;    /* file mapping or copy; NULL when lent */
    size_t mapping_bytes;
    bool mapped;
};

/* Outputs, and behind them the states. */
static inline size_t xcvm_program_result_count(const xcvm_program *program)
{
    return program->image.output_count + program->image.state_count;
}
static inline const xcvm_value_info *xcvm_program_result(const xcvm_program *program, size_t index)
{
    const xcvm_image *image = &program->image;
    return index < image->output_count ? &image->outputs[index] : &image->states[index - image->output_count].declared;
}
/* "output" or "state". */
static inline const char *xcvm_program_result_word(const xcvm_program *program, size_t index)
{
    return index < program->image.output_count ? "output" : "state";
}

/* Proves the program as a whole: registers in range, set when read, unset when set, freed when set, alike wherever
 * paths meet; operand kinds and, where known, element types as the row allows; jump targets; In and Out as declared;
 * planned slots inside the arena and never shared by live values; states declared, stored at most once a
 * run, and updated in the tail alone. `allocator` and `image` must be filled in; fills in
 * the rest, from `arena`. Time and memory are O(n log n) in the size of the image and of the states at jump targets,
 * whose number is limited. */
xcvm_status xcvm_program_verify(xcvm_program *program, xcvm_error *error);

/* Adds to an error where it happened. `error` may be NULL. */
void xcvm_error_locate(xcvm_error *error, const xcvm_image *image, size_t pc);

#endif
