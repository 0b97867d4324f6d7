/* Declarations derived from instructions.def: opcodes, typed arguments, and the table of schemas and fields that drives
 * the decoder, the verifier, the assembler and all other code that is independent of single instructions. */
#ifndef XCVM_OPS_OP_H
#define XCVM_OPS_OP_H

#include "base/value.h"
#include "ops/choices.h"

typedef enum xcvm_opcode {
    XCVM_OP_NONE = 0,
#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, onnx, summary) XCVM_OP_##name = number,
#include "ops/instructions.def"
} xcvm_opcode;

/* ---- Arguments ---- */

/* Operands and attributes of one instruction, for its kernel and shape rule. Operands point to values in registers and
 * constants; an absent one is NULL. Everything is borrowed. */
typedef struct xcvm_inputs {
    const xcvm_value *const *at;
    size_t count;
} xcvm_inputs;
typedef struct xcvm_outputs {
    xcvm_value *const *at;
    size_t count;
} xcvm_outputs;
typedef struct xcvm_ints {
    const int64_t *at;
    size_t count;
} xcvm_ints;
typedef struct xcvm_floats {
    const double *at;
    size_t count;
} xcvm_floats;
typedef struct xcvm_text {
    const char *at; /* also NUL-terminated */
    size_t length;
} xcvm_text;
typedef struct xcvm_texts {
    const xcvm_text *at;
    size_t count;
} xcvm_texts;

#define XCVM_IN_TENSOR const xcvm_value *
#define XCVM_IN_OPTIONAL const xcvm_value *
#define XCVM_IN_SEQUENCE const xcvm_value *
#define XCVM_IN_ANY const xcvm_value *
#define XCVM_IN_LIST xcvm_inputs
#define XCVM_IN_ANYS xcvm_inputs
#define XCVM_OUT_TENSOR xcvm_value *
#define XCVM_OUT_OPTIONAL xcvm_value *
#define XCVM_OUT_SEQUENCE xcvm_value *
#define XCVM_OUT_ANY xcvm_value *
#define XCVM_OUT_LIST xcvm_outputs

#define OUT(kind, name, types) XCVM_OUT_##kind name;
#define OUT_DYNAMIC(kind, name, types) XCVM_OUT_##kind name;
#define IN(kind, name, types) XCVM_IN_##kind name;
#define IN_PLACE(kind, name, types) XCVM_IN_##kind name;
#define IN_VIEW(kind, name, types) XCVM_IN_##kind name;
#define IN_SHAPE(kind, name, types) XCVM_IN_##kind name;
#define IN_STATE(kind, name, types) XCVM_IN_##kind name;
#define INT(name, value, min, max) int64_t name;
#define INTS(name, min, max) xcvm_ints name;
#define FLOAT(name, value) double name;
#define FLOATS(name) xcvm_floats name;
#define TEXT(name, value) xcvm_text name;
#define TEXTS(name) xcvm_texts name;
#define DTYPE(name, value) xcvm_dtype name;
#define CHOICE(name, set, value) int name;
#define TARGET(name) int64_t name;
#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, onnx, summary)                                  \
    typedef struct xcvm_##name##_args {                                                                                \
        operands                                                                                                       \
    } xcvm_##name##_args;
#include "ops/instructions.def"

/* ---- Schemas and fields ---- */

typedef enum xcvm_role {
    XCVM_ROLE_OUT,
    XCVM_ROLE_IN,
    XCVM_ROLE_IN_PLACE,
    XCVM_ROLE_IN_VIEW,
    XCVM_ROLE_IN_SHAPE,
    XCVM_ROLE_IN_STATE,
    XCVM_ROLE_TYPE, /* not an operand: declares a type variable */
    XCVM_ROLE_ATTRIBUTE
} xcvm_role;

typedef enum xcvm_field_kind {
    XCVM_FIELD_TENSOR,
    XCVM_FIELD_OPTIONAL,
    XCVM_FIELD_SEQUENCE,
    XCVM_FIELD_ANY,
    XCVM_FIELD_LIST,
    XCVM_FIELD_ANYS,
    XCVM_FIELD_INT,
    XCVM_FIELD_INTS,
    XCVM_FIELD_FLOAT,
    XCVM_FIELD_FLOATS,
    XCVM_FIELD_TEXT,
    XCVM_FIELD_TEXTS,
    XCVM_FIELD_DTYPE,
    XCVM_FIELD_CHOICE,
    XCVM_FIELD_TARGET,
    XCVM_FIELD_NONE
} xcvm_field_kind;

/* A type variable of an op definition, in place of a set in xcvm_field.types. */
#define XCVM_TYPES_T (UINT32_C(1) << 31)
#define XCVM_TYPES_U (UINT32_C(1) << 30)
#define XCVM_TYPES_V (UINT32_C(1) << 29)
#define XCVM_TYPE_VARIABLES (XCVM_TYPES_T | XCVM_TYPES_U | XCVM_TYPES_V)

typedef struct xcvm_field {
    const char *name; /* for a type variable: "T" */
    xcvm_role role;
    xcvm_field_kind kind;
    xcvm_dtypes types;          /* operands: a set or one variable; ROLE_TYPE: the set */
    xcvm_dtypes variable;       /* ROLE_TYPE: the variable */
    bool dynamic;               /* OUT: the kernel determines its dimensions and allocates it */
    size_t offset;              /* in the argument struct */
    int64_t min, max;           /* INT, INTS */
    int64_t int_default;        /* INT, DTYPE, CHOICE */
    double float_default;       /* FLOAT */
    const char *text_default;   /* TEXT */
    const char *const *choices; /* CHOICE: names, then NULL */
} xcvm_field;

typedef enum xcvm_effect { XCVM_PURE, XCVM_RANDOM, XCVM_EFFECT, XCVM_UPDATE, XCVM_CONTROL } xcvm_effect;

/* Elements that a gradient rule may read. */
enum xcvm_reads { XCVM_READS_NOTHING, XCVM_READS_OPERANDS, XCVM_READS_RESULTS, XCVM_READS_BOTH };

/* How an instruction is differentiated. At most one of rule, step and zero is set; none: it cannot be differentiated.
 */
typedef struct xcvm_gradient {
    const char *rule; /* name of its gradient rule */
    const char *step; /* rule of the straight-through gradient; without straight-through gradients the gradient is 0 */
    bool zero;        /* the gradient is 0 everywhere */
} xcvm_gradient;

/* Common properties of instructions, so that code need not list them. */
typedef enum xcvm_class {
    XCVM_CLASS_unary = 1, /* element-wise: y has the shape of the first operand and depends only on its elements; others
                             are parameters */
    XCVM_CLASS_binary = 2,    /* element-wise: y of the first two operands, broadcast to each other */
    XCVM_CLASS_reduction = 4, /* y = x reduced over axes, with the fields of ReduceSum */
    XCVM_CLASS_view = 8,      /* the result has the first operand's elements, in order; follows from IN_VIEW */
    XCVM_CLASS_begin = 16,    /* takes its operands and works on them asynchronously, so it should be scheduled early */
    XCVM_CLASS_optimizer = 32, /* updates its first state, the parameters, by its first operand, the gradients */
    XCVM_CLASS_append = 64     /* writes some rows of its state, which fills up over runs */
} xcvm_class;

typedef struct xcvm_inference xcvm_inference; /* ops/util/shape.h */
typedef struct xcvm_kernel xcvm_kernel;       /* ops/util/kernel.h */
typedef xcvm_status (*xcvm_shape_rule)(const xcvm_inference *t);
typedef uint64_t (*xcvm_cost_rule)(const xcvm_inference *t);
typedef xcvm_status (*xcvm_kernel_run)(xcvm_kernel *k, const void *args);

typedef struct xcvm_schema {
    const char *name; /* NULL: no such instruction */
    xcvm_opcode opcode;
    const char *shape_name; /* of the shape rule */
    const char *summary;
    xcvm_effect effect;
    unsigned classes; /* flags of xcvm_class */
    xcvm_gradient gradient;
    unsigned gradient_reads; /* enum xcvm_reads; BOTH without a rule */
    const xcvm_field *fields;
    size_t field_count;
    size_t args_size;
    xcvm_shape_rule shape;
    xcvm_cost_rule cost;
} xcvm_schema;

/* Returns true if it belongs to one of the classes. */
static inline bool xcvm_schema_has_class(const xcvm_schema *schema, unsigned classes)
{
    return (schema->classes & classes) != 0;
}

enum { XCVM_OPCODE_LIMIT = 1024 };

/* The set of an operand's types, with type variables resolved. */
xcvm_dtypes xcvm_field_types(const xcvm_schema *schema, const xcvm_field *field);
/* Returns the index of a choice's name, or -1. */
int xcvm_choice_index(const xcvm_field *field, const char *name, size_t length);

/* Operands in definition order: the number of values of an operand field (0 or 1, or a list's count; an absent optional
 * counts 1 and reads as NULL), and reading and writing them in an argument struct. */
static inline bool xcvm_field_is_operand(const xcvm_field *f) { return f->role < XCVM_ROLE_TYPE; }
static inline bool xcvm_field_is_list(const xcvm_field *f)
{
    return f->kind == XCVM_FIELD_LIST || f->kind == XCVM_FIELD_ANYS;
}
static inline bool xcvm_field_is_input(const xcvm_field *f)
{
    return f->role > XCVM_ROLE_OUT && f->role < XCVM_ROLE_TYPE;
}
size_t xcvm_field_count(const xcvm_field *field, const void *args);
const xcvm_value *xcvm_field_value(const xcvm_field *field, const void *args, size_t index);
/* Binds operands and results, in definition order, in an argument struct whose list counts are set. Lists point into
 * `in` and `out`. */
void xcvm_bind_operands(const xcvm_schema *schema, void *args, const xcvm_value **in, xcvm_value **out);

#endif
