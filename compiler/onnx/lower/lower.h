/* Lowering ONNX's operators: one node at a time, each by the function that the table of operators has for it. */
#ifndef XCVM_COMPILER_LOWER_H
#define XCVM_COMPILER_LOWER_H

#include "compiler/onnx/import.h"
#include "compiler/onnx/attributes.h"

typedef struct xcc_lowering xcc_lowering;
typedef xcvm_status (*xcc_lower)(xcc_lowering *n);

typedef struct xcc_operator_row {
    xcc_operator_info info;
    xcc_lower lower;         /* NULL: the instruction below, attributes and operands as they are */
    xcvm_opcode instruction; /* XCVM_OP_NONE: as it is lowered */
} xcc_operator_row;

/* NULL if there is none of that name. */
const xcc_operator_row *xcc_operator_find(const char *domain, const char *name);
/* The first opset that has it. */
int64_t xcc_operator_since(const xcc_operator_row *op);

/* One node of the model being lowered. Its results are bound, all that have a name, before the function returns. */
struct xcc_lowering {
    xcc_importer *importer;
    xcc_module *m;
    xcc_builder b;
    xcc_scope *scope;
    const xcc_operator_row *op;
    const Onnx__NodeProto *proto;
    int64_t version;    /* of the operator's opset */
    xcc_value **inputs; /* as the model has them, NULL where absent; a lowering may change them */
    size_t input_count, input_capacity;
    xcc_value **outputs; /* as bound so far */
    size_t output_count; /* up to the last that has a name */
    struct xcc_attribute *attributes;
    size_t attribute_count;
    xcc_table attribute_names; /* their indices, where there are many */
    bool poisoned;             /* failed because a node in a body did, which is noted already */
    uint32_t first_id;         /* values with an id from here on were made by this lowering */
    uint32_t number;           /* of the lowering, from 1 on: the mark of values that are its results already */
};

/* ---- Operands and results ---- */

/* Status of the failure that a NULL stands for. */
xcvm_status xcc_failure(const xcc_lowering *n);
/* Fails the lowering: XCC_REFUSE(n, UNSUPPORTED, "...", ...) */
#define XCC_REFUSE(n, status, ...) return xcvm_error_set((n)->m->error, XCVM_##status, __VA_ARGS__)
#define XCC_NEED(n, condition, status, ...) XCVM_CHECK((n)->m->error, condition, status, __VA_ARGS__)

/* Operand i, NULL if absent. */
static inline xcc_value *xcc_input(const xcc_lowering *n, size_t i) { return i < n->input_count ? n->inputs[i] : NULL; }
static inline bool xcc_wants(const xcc_lowering *n, size_t i)
{
    return i < n->output_count && i < n->proto->n_output && n->proto->output[i][0] != '\0';
}
/* INVALID_MODEL unless the number of operands lies in the range and the first `least` are there. */
xcvm_status xcc_need_inputs(const xcc_lowering *n, size_t least, size_t most);
xcvm_status xcc_set_input(xcc_lowering *n, size_t i, xcc_value *value);
/* An integer list that was an attribute before opset `since` becomes operand i; absent, it stays absent. */
xcvm_status xcc_attribute_to_input(xcc_lowering *n, const char *name, size_t i, int64_t since);
/* A new value for result i under its name in the model; for the lowering to emit into. */
xcc_value *xcc_result(xcc_lowering *n, size_t i);
/* Makes `value` result i; one that this lowering made takes the result's name. NULL: passes the failure on. */
xcvm_status xcc_bind(xcc_lowering *n, size_t i, xcc_value *value);

/* ---- One-to-one ---- */

/* Fills the row's arguments from the node: attributes by name, defaults, operands and results by position. */
xcvm_status xcc_plain_fill(xcc_lowering *n, const xcvm_row *row, void *args);
/* Emits them. */
xcvm_status xcc_plain_emit(xcc_lowering *n, const xcvm_row *row, const void *args);
/* Both, for the instruction with this number. */
xcvm_status xcc_lower_as(xcc_lowering *n, xcvm_opcode opcode);
/* The same for the instruction of the operator's own name. */
xcvm_status xcc_lower_plain(xcc_lowering *n);
/* XCC_PLAIN(n, Conv, args) { args.pads = ...; } begins a block with the filled arguments; emit with XCC_EMIT_PLAIN. */
#define XCC_PLAIN_ARGS(n, Name, args)                                                                                  \
    xcvm_##Name##_args args;                                                                                           \
    XCVM_TRY(xcc_plain_fill((n), xcvm_row_of(XCVM_OP_##Name), &args))
#define XCC_EMIT_PLAIN(n, Name, args) xcc_plain_emit((n), xcvm_row_of(XCVM_OP_##Name), &args)

/* ---- Composing. NULL operands are failures of what made them, and give NULL. ---- */

/* Any instruction of one operand, with the attributes' defaults. */
xcc_value *xcc_low_unary(xcc_lowering *n, xcvm_opcode opcode, xcc_value *x);
/* Any instruction of two operands without attributes. */
xcc_value *xcc_low_binary(xcc_lowering *n, xcvm_opcode opcode, xcc_value *a, xcc_value *b);
#define xcc_low_add(n, a, b) xcc_low_binary((n), XCVM_OP_Add, (a), (b))
#define xcc_low_sub(n, a, b) xcc_low_binary((n), XCVM_OP_Sub, (a), (b))
#define xcc_low_mul(n, a, b) xcc_low_binary((n), XCVM_OP_Mul, (a), (b))
#define xcc_low_div(n, a, b) xcc_low_binary((n), XCVM_OP_Div, (a), (b))
/* Any instruction with one result, operands by position, attributes at their defaults. */
xcc_value *xcc_low_call(xcc_lowering *n, xcvm_opcode opcode, size_t count, xcc_value *const *operands);
/* A number of the element type of `like`, rank 0. */
xcc_value *xcc_low_number(xcc_lowering *n, const xcc_value *like, double value);
xcc_value *xcc_low_ints(xcc_lowering *n, size_t count, const int64_t *ints); /* rank 1 */
#define XCC_LOW_INTS(n, ...)                                                                                           \
    xcc_low_ints((n), sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
/* A constant of strings: rank 0 for one, or rank 1. */
xcc_value *xcc_low_strings(xcc_lowering *n, int rank, size_t count, const xcvm_text *texts);
/* Reads a tensor attribute; *given is false if it is absent. */
xcvm_status xcc_low_tensor(xcc_lowering *n, const char *name, xcc_tensor *t, bool *given);
xcc_value *xcc_low_cast(xcc_lowering *n, xcc_value *x, xcvm_dtype dtype); /* x itself if it has that type */
xcc_value *xcc_low_shape_of(xcc_lowering *n, xcc_value *x);
/* Dimension of x as a tensor of shape [1]; a constant if it is known. An axis below 0 counts from the last. */
xcc_value *xcc_low_dim_of(xcc_lowering *n, xcc_value *x, int axis);
/* The rank of x as an i64 scalar. */
xcc_value *xcc_low_rank_of(xcc_lowering *n, xcc_value *x);
/* Entries of -1 and 0 as in Reshape. */
xcc_value *xcc_low_reshape(xcc_lowering *n, xcc_value *x, xcc_value *shape);
/* To a shape that is some tensor's, so that 0 is 0. */
xcc_value *xcc_low_reshape_to(xcc_lowering *n, xcc_value *x, xcc_value *shape);
xcc_value *xcc_low_expand(xcc_lowering *n, xcc_value *x, xcc_value *shape);
xcc_value *xcc_low_unsqueeze(xcc_lowering *n, xcc_value *x, size_t count, const int64_t *axes);
xcc_value *xcc_low_squeeze(xcc_lowering *n, xcc_value *x, size_t count, const int64_t *axes);
/* x itself if nothing moves. */
xcc_value *xcc_low_transpose(xcc_lowering *n, xcc_value *x, size_t count, const int64_t *perm);
/* axes NULL: over all. */
xcc_value *xcc_low_reduce(xcc_lowering *n, xcvm_opcode opcode, xcc_value *x, xcc_value *axes, bool keepdims);
xcc_value *xcc_low_gather(xcc_lowering *n, xcc_value *x, xcc_value *indices, int64_t axis);
/* x[start:end:step] along one axis. */
xcc_value *xcc_low_slice(xcc_lowering *n, xcc_value *x, int64_t axis, int64_t start, int64_t end, int64_t step);
/* Along axis; the one value itself if there is only one. Constants of integers are joined at once. */
xcc_value *xcc_low_concat(xcc_lowering *n, size_t count, xcc_value *const *values, int64_t axis);
/* The axes first ... rank - 1 of x as a tensor, for any rank; first >= 0. */
xcc_value *xcc_low_axes_from(xcc_lowering *n, xcc_value *x, int64_t first);

/* ---- Facts ---- */

/* false unless it is a constant of one element, of a real or boolean type. */
bool xcc_constant_number(const xcc_value *value, double *number);
/* A constant without elements, by which old exporters leave an operand out. */
bool xcc_is_empty_constant(const xcc_value *value);
/* axis as a number from 0 to rank - 1; fails if it is out of range. */
xcvm_status xcc_need_axis(xcc_lowering *n, int64_t axis, int rank, int64_t *resolved);
/* Fails with UNSUPPORTED unless the rank is known. */
xcvm_status xcc_need_rank(const xcc_lowering *n, const xcc_value *value, const char *what);

/* ---- Bodies (control.c) ---- */

/* Lowers a graph attribute into `body`: `arguments` are bound to its inputs, *outputs gets its outputs. */
xcvm_status xcc_lower_body(xcc_lowering *n, const Onnx__GraphProto *graph, xcc_graph *body, size_t count,
                           xcc_value *const *arguments, xcc_value ***outputs);

/* ---- The lowerings ---- */

#define PLAIN(domain, name, versions)
#define LOWERED(domain, name, versions, function, becomes) xcvm_status xcc_lower_##function(xcc_lowering *n);
#include "compiler/onnx/lower/operators.def"

#endif
