/* A loaded program: immutable, and shared by sessions of any thread. */
#ifndef XCVM_VM_PROGRAM_H
#define XCVM_VM_PROGRAM_H

#include "ops/util/kernel.h"
#include "proto/image.h"
#include "vm/kernel_abi.h"

typedef enum xcvm_action {
    XCVM_ACTION_KERNEL,
    XCVM_ACTION_IN,
    XCVM_ACTION_OUT, /* also for Store: a stored state is an output that the session binds */
    XCVM_ACTION_LOAD,
    XCVM_ACTION_FREE,
    XCVM_ACTION_JUMP,
    XCVM_ACTION_JUMP_TRUE,
    XCVM_ACTION_JUMP_FALSE,
    XCVM_ACTION_FUSED
} xcvm_action;

/* Relation of the planned slot of an instruction's first result to that of an operand. */
typedef enum xcvm_alias {
    XCVM_ALIAS_NONE,    /* nothing live overlaps the slot */
    XCVM_ALIAS_VIEW,    /* the slot of an IN_VIEW operand, whose elements the result shares */
    XCVM_ALIAS_IN_PLACE /* the slot of an IN_PLACE operand after its last use */
} xcvm_alias;

/* A verified and linked instruction. */
typedef struct xcvm_step {
    xcvm_kernel_run run;      /* NULL for CONTROL */
    uint32_t last_use;        /* operands freed by the Frees directly after it (xcvm_kernel.last_use) */
    uint32_t views;           /* likewise: operands whose memory the first result may share ... */
    uint32_t reusable;        /* ... or reuse, unless other values share it */
    uint8_t action;           /* xcvm_action */
    uint8_t alias;            /* xcvm_alias, with operand alias_operand */
    bool static_shapes;       /* after inference the results' types may stay valid (vm/static_shapes.c) */
    uint32_t shaping;         /* operands whose elements determine a result's shape */
    uint32_t entry;           /* at the start of a basic block: 1 + its index in program->basic_blocks; else 0 */
    uint32_t cached_types_at; /* index of the results' cached types in a session */
    bool has_cached_types;    /* other instructions write the results' registers, so that their types are cached */
    uint32_t alias_operand;
    int32_t target; /* of a jump; In and Out: input or output; Load: state; Store: outputs + state; KernelCall: `fused`
                       entry; kernel: its first output; else -1 */
    size_t args_offset;   /* offset in a session's argument block */
    size_t in_at, out_at; /* first operand and result in a session's flat pointer arrays */
} xcvm_step;

/* A basic block that reads registers set before it. Inferred types in it stay valid while it is entered with the same
 * types in these registers. */
typedef struct xcvm_basic_block {
    uint32_t begin, end;           /* instructions */
    uint32_t live_in_at, live_ins; /* its live-in registers, in program->live_in */
} xcvm_basic_block;

/* Two input dimensions of the same name, which must agree. */
typedef struct xcvm_dim_link {
    uint32_t input, dim;
    uint32_t first_input, first_dim;
} xcvm_dim_link;

/* A state dimension named like an input dimension: the state starts with the input's size. */
typedef struct xcvm_state_link {
    uint32_t state, dim;
    uint32_t input, input_dim;
} xcvm_state_link;

/* The instruction and result that produce an output; pc is -1 if it is not one instruction shortly before the Out. */
typedef struct xcvm_producer {
    int32_t pc;
    uint32_t result;
    int32_t next; /* next output with the same producer, or -1 */
} xcvm_producer;

/* A KernelCall instruction with checked indices. */
typedef struct xcvm_fused {
    uint32_t library, kernel;
    uint32_t count; /* number of unfused instructions after it that it replaces */
    uint32_t in_count, out_count;
    const int64_t *results;  /* for each result, the instruction (0: the next one) whose first result it is */
    const int64_t *elements; /* in_count + out_count entries */
    const xcvm_library_kernel *function; /* NULL: run the unfused instructions */
} xcvm_fused;
enum { XCVM_FUSED_OPERANDS = 64 }; /* maximum number of operands and of results */

/* How a program uses a state. */
enum xcvm_state_use {
    XCVM_STATE_STORED = 1,  /* set by a Store */
    XCVM_STATE_UPDATED = 2, /* updated in place by an instruction of the tail */
    XCVM_STATE_FILLED = 4   /* updated by an instruction of class append: some rows may never be written */
};

struct xcvm_program {
    xcvm_allocator allocator;
    xcvm_arena arena;
    xcvm_image image;
    const char *isa;       /* instruction set of the kernels */
    xcvm_step *steps;      /* one per instruction */
    size_t register_count; /* registers are 1 .. register_count - 1 */
    size_t args_bytes;     /* size of all argument structs of a session */
    size_t in_count;       /* operands of all instructions */
    size_t out_count;      /* results of all instructions */
    int32_t *live_at_exit; /* registers that are set at program end */
    size_t live_at_exit_count;
    xcvm_producer *producers; /* one per output, then one per stored state */
    uint8_t *state_uses;      /* for each state, xcvm_state_use flags */
    size_t tail;              /* first instruction of the tail; instruction_count: no tail */
    xcvm_basic_block *basic_blocks;
    size_t basic_block_count;
    int32_t *live_in;
    size_t live_in_count;
    size_t cached_type_count; /* number of results whose types are cached */
    xcvm_dim_link *links;
    size_t link_count;
    xcvm_state_link *state_links; /* in state order */
    size_t state_link_count;
    const char **no_names; /* an array of empty strings, as many as the maximum number of results */
    bool has_jumps;
    xcvm_fused *fused;
    size_t fused_count;
    void **libraries; /* dlopen handles, image.library_count entries; NULL where a library is not used */
    char notice[256]; /* reason why libraries are not used; empty if they are */
    void *mapping;    /* file mapping or copy; NULL if borrowed */
    size_t mapping_bytes;
    bool mapped;
};

/* Number of outputs plus states. */
static inline size_t xcvm_program_result_count(const xcvm_program *program)
{
    return program->image.output_count + program->image.state_count;
}
static inline const xcvm_value_info *xcvm_program_result(const xcvm_program *program, size_t index)
{
    const xcvm_image *image = &program->image;
    return index < image->output_count ? &image->outputs[index] : &image->states[index - image->output_count].declared;
}
/* Returns "output" or "state". */
static inline const char *xcvm_program_result_word(const xcvm_program *program, size_t index)
{
    return index < program->image.output_count ? "output" : "state";
}

/* Verifies the program as a whole: registers in range, set when read, unset when set, freed when set, and consistent
 * where paths meet. It also checks operand kinds and known element types, jump targets, In and Out, planned slots and
 * states. Slots must be inside the arena and not shared by live values. States must be declared, stored at most once
 * per run, and updated only in the tail. `allocator` and `image` must be set; fills in the rest, from `arena`. Time and
 * memory are O(n log n) in the size of the image and of the states at jump targets, whose number is limited. */
xcvm_status xcvm_program_verify(xcvm_program *program, xcvm_error *error);

/* Adds the location to an error, which may be NULL. */
void xcvm_error_locate(xcvm_error *error, const xcvm_image *image, size_t pc);

#endif
