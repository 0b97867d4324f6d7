/* Export as C: a program becomes a source and a header that need only the C library's mathematics.
 *
 * The input is an emitted program: verified, with planned slots. export_c.c visits its instructions; values.c infers
 * the type and the memory of each value; names.c creates identifiers; files.c writes the code around the instructions;
 * text.c selects the functions of c_runtime/ that are called, with their callees. The other files write instructions,
 * as a loop nest or as a call of such a function. */
#ifndef XCVM_COMPILER_EXPORT_C_EXPORT_C_H
#define XCVM_COMPILER_EXPORT_C_EXPORT_C_H

#include "proto/name_index.h"
#include "vm/program.h"
#include "xcvm/compiler.h"
#include "xcvm/export_c.h"

/* ---- Text that grows ---- */

typedef struct xcc_c_text {
    const xcvm_allocator *allocator;
    char *at;
    size_t count, capacity;
    bool failed; /* there was no memory */
} xcc_c_text;

void xcc_c_put(xcc_c_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void xcc_c_put_bytes(xcc_c_text *text, const char *bytes, size_t count);
/* A number as a C constant of f32 or f64. */
void xcc_c_put_number(xcc_c_text *text, xcvm_dtype dtype, double value);
/* Text from the model inside of a comment or a string, which it must not end. */
void xcc_c_put_quoted(xcc_c_text *text, const char *words);
void xcc_c_text_release(xcc_c_text *text);

/* ---- The functions of c_runtime/ ---- */

/* Appends to `to` those definitions that `code` names, with all that they name; those of the type value_t for the types
 * that they are named with: xc_softmax_f64 is xc_softmax_value of double. False if there is no memory. */
bool xcc_c_take_functions(xcc_c_text *to, const xcc_c_text *code, xcvm_arena *arena);

/* ---- Values ---- */

typedef enum xcc_c_place {
    XCC_C_ARENA,
    XCC_C_CONSTANT, /* `index` is that of the constant, input, or state */
    XCC_C_INPUT,
    XCC_C_STATE
} xcc_c_place;

/* A value of the program; the first member, so that argument structs point to it. */
typedef struct xcc_c_value {
    xcvm_value type; /* data: its elements, where they are constant; else NULL */
    xcc_c_place place;
    uint32_t index;
    uint64_t offset;             /* in the arena */
    bool planned;                /* the program says where */
    struct xcc_c_value *base;    /* whose memory it shares, or NULL */
    size_t begin, end;           /* the first instruction that sets it, and the last by which it is needed */
    bool set;                    /* its type is known */
    bool passing;                /* never stored as a whole; has no address */
    uint32_t definitions, views; /* instructions that set it */
} xcc_c_value;

/* The results of a loop, one per round (stacks.c). */
typedef struct xcc_c_stack {
    uint32_t number;    /* of the variable that counts its items */
    xcc_c_value *items; /* capacity */
    bool bounded;       /* how many is known */
} xcc_c_stack;

/* An instruction with its operands. */
typedef struct xcc_c_step xcc_c_step;
struct xcc_c_step {
    const xcvm_instruction *instruction;
    const xcvm_schema *schema;
    void *args;            /* operands point to xcc_c_values */
    const xcvm_value **in; /* in_count */
    xcvm_value **out;      /* out_count; NULL: absent */
    bool is_view;          /* the first result has the address of the operand */
    bool is_target;        /* of a jump */
    bool fails;            /* it can, while it runs */
    xcc_c_stack *stack;    /* on which it works, or NULL */
    /* A convolution whose only reader is a pool, and this pool. The C code of the pool computes both, row by row. */
    xcc_c_step *pool, *conv;
};

/* A value that the caller accesses by name. */
typedef enum xcc_c_kind { XCC_C_INPUTS, XCC_C_OUTPUTS, XCC_C_STATES, XCC_C_KINDS } xcc_c_kind;

typedef struct xcc_c_export {
    const char *file; /* the program's bytes */
    size_t file_bytes;
    const xcvm_program *program;
    const xcvm_image *image;
    const xcc_export_c_options *options;
    const char *name;                   /* prefix of the C declarations */
    bool vectors;                       /* for an instruction set, by vector types */
    xcvm_arena arena;                   /* of all that is made here */
    xcvm_name_index names[XCC_C_KINDS]; /* of each kind, in small letters */
    xcvm_error *error;
    xcc_c_value *constants, *inputs, *states;
    xcc_c_step *steps;
    xcc_c_value **values; /* all that instructions set */
    size_t value_count, value_capacity;
    uint32_t stack_count;
    uint64_t arena_bytes, scratch_offset, scratch_bytes, memory_bytes;
    xcc_c_text body, tables; /* of the run; constant tables that it reads */
    size_t table_count;
    bool *used_constants;
    bool fails;      /* the instruction at hand can fail */
    bool draws;      /* random numbers follow from the context */
    bool loops;      /* it jumps back, which the context may bound */
    bool intrinsics; /* vectors' functions need the compiler's header */
    int64_t outputs; /* the most that a product has: tiles are written for these and no more */
    /* List of everything that is refused. */
    char refusals[420];
    size_t refused;
    size_t pc;
} xcc_c_export;

/* Result of a run that exceeds its maximum number of steps: no instruction has this number. */
static inline size_t xcc_c_steps_status(const xcc_c_export *x) { return x->image->instruction_count + 1; }

#define XCC_C_ARGS(Name, step) ((const xcvm_##Name##_args *)(step)->args)

/* Notes that instruction x->pc cannot be exported, and why. Returns false. */
bool xcc_c_refuse(xcc_c_export *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Finds types and places; what cannot be exported is noted. */
xcvm_status xcc_c_read_values(xcc_c_export *x);
/* Returns true if the instruction can operate on a stack. */
bool xcc_c_is_of_stacks(xcvm_opcode opcode);
/* Finds the sequences that are stacks, before values are read; and writes one of their instructions. */
xcvm_status xcc_c_find_stacks(xcc_c_export *x);
void xcc_c_write_stack(xcc_c_export *x, const xcc_c_step *step);
/* Assigns memory: as planned, with values without a slot and scratch after the plan. If pools are fused with
 * convolutions, everything is assigned again if this needs less. */
xcvm_status xcc_c_place_values(xcc_c_export *x);
/* Returns true if the pool can be fused with the convolution before it, according to the two nodes alone. */
bool xcc_c_joins_pool(const xcc_c_export *x, const xcc_c_step *step, const xcc_c_step *pool);

/* Element types that C code computes with. Others are only moved, or unpacked by the rows that support them. */
#define XCC_C_NUMBERS (XCVM_TYPES_F32_F64 | XCVM_TYPES_INT | XCVM_TYPES_BOOL)
/* "float", "int64_t"; for types that are no numbers in C, the type of their bits. NULL: there is none. */
const char *xcc_c_type(xcvm_dtype dtype);
/* "f32", "i64", as in names of functions. */
const char *xcc_c_suffix(xcvm_dtype dtype);
static inline bool xcc_c_is(const xcvm_value *v, xcvm_dtype dtype) { return v->dtype == dtype; }
static inline bool xcc_c_is_f32(const xcvm_value *v) { return xcc_c_is(v, XCVM_F32); }
static inline const xcc_c_value *xcc_c_value_of(const xcvm_value *v) { return (const xcc_c_value *)v; }

/* ---- Writing ---- */

/* The bytes of a value, as an expression of type "const T *" or, to be written, "T *". NULL is "NULL". */
const char *xcc_c_read(xcc_c_export *x, const xcvm_value *v);
const char *xcc_c_write(xcc_c_export *x, const xcvm_value *v);
/* A number as a C constant of f32 or f64. */
const char *xcc_c_number(xcc_c_export *x, xcvm_dtype dtype, double value);
/* A constant table of numbers, by name. */
const char *xcc_c_table(xcc_c_export *x, const char *type, const int64_t *numbers, size_t count);
/* Scratch memory of this many bytes for the current instruction, as an expression of type "float *". */
const char *xcc_c_scratch(xcc_c_export *x, uint64_t bytes);
/* Records the number of outputs of a product. */
void xcc_c_note_outputs(xcc_c_export *x, int64_t outputs);
/* Indexes the names; must precede the lookup of names. */
xcvm_status xcc_c_index_names(xcc_c_export *x);
/* The C names of an input, an output and a state; never NULL. */
const char *xcc_c_input_name(xcc_c_export *x, size_t index);
const char *xcc_c_output_name(xcc_c_export *x, size_t index);
const char *xcc_c_state_name(xcc_c_export *x, size_t index);
/* In capitals, as macros are. */
const char *xcc_c_upper(xcc_c_export *x, const char *name);
/* The operand of the first Out of an output; NULL if there is none. */
const xcvm_value *xcc_c_output_value(const xcc_c_export *x, size_t index);
/* A main that does runs on files. */
void xcc_c_write_main(xcc_c_export *x, xcc_c_text *to);
/* The functions that a WebAssembly module exports; the ES module that calls them, and its TypeScript declarations. */
void xcc_c_write_exports(xcc_c_export *x, xcc_c_text *to);
void xcc_c_write_script(xcc_c_export *x, xcc_c_text *to);
void xcc_c_write_types(xcc_c_export *x, xcc_c_text *to);
/* Sends header, source and weights to the options' sink, once all instructions are written. */
xcvm_status xcc_c_write_files(xcc_c_export *x);
/* Formats in the arena; never NULL. */
const char *xcc_c_format(xcc_c_export *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An f32 number, such as the bounds of results. */
static inline const char *xcc_c_bound(xcc_c_export *x, float value) { return xcc_c_number(x, XCVM_F32, (double)value); }
#define xcc_c_line(x, ...) xcc_c_put(&(x)->body, __VA_ARGS__)

/* ---- Instructions ---- */

/* Write one instruction each of their kind; false if it is not of their kind, or refused. */
typedef bool (*xcc_c_writer)(xcc_c_export *x, xcc_c_step *step);
typedef struct xcc_c_row {
    xcvm_opcode opcode;
    xcc_c_writer write;
} xcc_c_row;
typedef struct xcc_c_rows {
    const xcc_c_row *at;
    size_t count;
} xcc_c_rows;

extern const xcc_c_rows xcc_c_move_rows, xcc_c_index_rows, xcc_c_reduction_rows, xcc_c_product_rows, xcc_c_conv_rows,
    xcc_c_norm_rows, xcc_c_recurrent_rows, xcc_c_blocked_rows, xcc_c_training_rows, xcc_c_quantized_rows,
    xcc_c_cache_rows, xcc_c_signal_rows, xcc_c_tree_rows, xcc_c_image_rows;
/* Calls of a function of rows: `call` begins one, and gets, of both operands, the elements and the step from one to the
 * next, then the result and the count. */
bool xcc_c_write_rows(xcc_c_export *x, const xcc_c_step *step, const char *call);
/* Returns true if there is C code for an instruction, at least for some operands and attributes. */
bool xcc_c_has_instruction(const xcvm_schema *schema);
/* Element-wise instructions, by their formulas; *known is false for any other. */
bool xcc_c_is_elementwise(const xcvm_schema *schema);
bool xcc_c_write_elementwise(xcc_c_export *x, xcc_c_step *step, bool *known);
/* An activation of all elements of an f32 or f64 value, in place. */
bool xcc_c_write_activation(xcc_c_export *x, const xcvm_value *v, int activation, xcvm_floats params,
                            xcvm_floats affine);

/* A constant xc_window, by name; and the initializer of one. */
struct xcvm_window;
const char *xcc_c_window_table(xcc_c_export *x, const struct xcvm_window *w);
void xcc_c_put_window(xcc_c_text *to, const struct xcvm_window *w);
/* A convolution and the pool that reads its result `y`, some rows of the pool at a time. */
bool xcc_c_write_pooled(xcc_c_export *x, const xcc_c_step *step, const xcvm_value *y, const struct xcvm_window *pool);

/* Matrices of a product y = a * b, of m rows, k and n columns. */
typedef struct xcc_c_matrices {
    const char *a, *b, *y; /* expressions for the matrices at hand */
    long long m, k, n;
} xcc_c_matrices;
/* Begins loops over leading dimensions, which are broadcast, for one statement; a vector is a row on the left, a column
 * on the right. */
void xcc_c_begin_matrices(xcc_c_export *x, const xcvm_value *v, const xcvm_value *w, const xcvm_value *result_of,
                          xcc_c_matrices *to);

/* Axes of a copy, outermost first: how many, and bytes from one to the next in result and operand. */
typedef struct xcc_c_axes {
    int rank;
    int64_t counts[2 * XCVM_MAX_RANK], to[2 * XCVM_MAX_RANK], from[2 * XCVM_MAX_RANK];
} xcc_c_axes;
void xcc_c_add_axis(xcc_c_axes *axes, int64_t count, int64_t to, int64_t from);
/* Copies from `from` + from_bytes to `to` + to_bytes. */
void xcc_c_write_copy(xcc_c_export *x, const xcc_c_axes *axes, size_t size, const char *to, int64_t to_bytes,
                      const char *from, int64_t from_bytes);
/* The operand's elements as integers; false, and refused, if they are not constant. NULL: none. */
bool xcc_c_ints(xcc_c_export *x, const xcvm_value *v, const char *what, int64_t *ints, size_t capacity, size_t *count);
/* Strides in bytes of a contiguous tensor. */
void xcc_c_strides(const xcvm_value *v, int64_t strides[XCVM_MAX_RANK]);
static inline int xcc_c_axis(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }
static inline int64_t xcc_c_product(const int64_t *dims, int begin, int end)
{
    int64_t product = 1;
    for (int i = begin; i < end; i++)
        product *= dims[i];
    return product;
}

#endif
