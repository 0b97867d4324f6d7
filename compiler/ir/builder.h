/* Building graphs: constants, parameters, states and nodes. Failures leave module->error filled and return NULL or a
 * status. */
#ifndef XCVM_COMPILER_IR_BUILDER_H
#define XCVM_COMPILER_IR_BUILDER_H

#include "compiler/ir/graph.h"

/* ---- Constants, parameters and states ---- */

/* Creates a constant tensor. `data` is copied unless `lend`; lent data must outlive the module. */
xcc_value *xcc_constant(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                        const void *data, bool lend);
/* Marks v, if it is a constant, as a number that the model's nodes or its source code state, and returns it; NULL if v
 * is NULL. It is no weight, so that a model written as ONNX has it as a node and not as an initializer, which training
 * would change. */
xcc_value *xcc_literal(xcc_value *v);
/* Whether v is a constant of floats that is no literal, nor computed from literals alone. */
bool xcc_is_weight(const xcc_value *v);
/* Creates a trainable parameter with initial `data`, lent or copied as for constants. In a frozen module it is a
 * constant. */
xcc_value *xcc_parameter(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                         const void *data, bool lend);
/* Creates a state with initial `data`; NULL: zeros. */
xcc_value *xcc_state(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data,
                     bool lend);
/* Turns parameters, or inputs of the top graph, into states. Inputs start as zeros with open dimensions of size 0. */
void xcc_values_keep(size_t count, xcc_value *const *values);
/* Turns all parameters, existing and future ones, into constants. It is the first step of compilation for inference
 * (compile.c) and the last of differentiation. No other function does so. */
void xcc_parameters_freeze(xcc_module *m);
/* Turns v, if it is a parameter, into a constant, because the structure of the graph depends on it, e.g. a shape. v may
 * be NULL. */
void xcc_parameter_fix(xcc_value *v);
/* Creates an unnamed constant tensor that the caller fills in. Its separate memory is released by xcc_constant_release
 * when it has no users; for other constants that function does nothing. */
xcc_value *xcc_constant_blank(xcc_graph *g, xcvm_dtype dtype, int rank, const int64_t *dims);
void xcc_constant_release(xcc_value *v);
/* Returns true, and counts the bytes, if weights of that size may be rewritten. The total is limited in proportion to
 * the model, in which many nodes may share weights. */
bool xcc_may_copy(xcc_module *m, size_t bytes);
/* Arena bytes for a copy of `bytes` bytes of elements. */
size_t xcc_elements_room(size_t bytes);
xcc_value *xcc_constant_i64(xcc_graph *g, size_t count, const int64_t *ints); /* rank 1 */
xcc_value *xcc_scalar_i64(xcc_graph *g, int64_t value);                       /* rank 0 */
/* A literal, converted to `dtype` (any real type or bool). */
xcc_value *xcc_scalar(xcc_graph *g, xcvm_dtype dtype, double value);

/* ---- Nodes ---- */

/* Position of new nodes: before `before`, or at the end of `graph` if NULL. Each gets name and origin. */
typedef struct xcc_builder {
    xcc_graph *graph;
    xcc_node *before;
    const char *name, *origin;
} xcc_builder;

/* Appends an instruction and infers its results. args is its argument struct, with xcc_values (cast to xcvm_value *) as
 * operands and results; it is copied. Returns NULL on failure. */
xcc_node *xcc_append(xcc_builder *b, xcvm_opcode opcode, const void *args);
/* Example: xcc_emit(b, Conv, .y = XCC_OUT(y), .x = XCC_IN(x), .w = XCC_IN(w), .group = 1) */
#define xcc_emit(b, Name, ...) xcc_append((b), XCVM_OP_##Name, &(const xcvm_##Name##_args){__VA_ARGS__})
#define XCC_INTS(...)                                                                                                  \
    ((xcvm_ints){(const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)})
/* Emits an instruction with one result and returns it (NULL on failure): xcc_value *s = xcc_apply(b, Add, y, .a =
 * XCC_IN(p), .b = XCC_IN(q)), where y is the name of the result field. */
#define xcc_apply(b, Name, result, ...)                                                                                \
    xcc_apply_at((b), XCVM_OP_##Name, &(xcvm_##Name##_args){__VA_ARGS__}, offsetof(xcvm_##Name##_args, result))
xcc_value *xcc_apply_at(xcc_builder *b, xcvm_opcode opcode, void *args, size_t result_offset);
/* Callback that replaces an operand or a result in a copy of a node. A result becomes a new value, or NULL if it is
 * unused and its field may be absent (xcvm_field_may_be_absent). */
typedef xcvm_status (*xcc_copied)(void *user, xcc_value *v, const xcvm_field *field, xcc_value **copy);
/* Copies an instruction to the builder's position. Returns NULL on failure. */
xcc_node *xcc_node_copy(xcc_builder *b, const xcc_node *n, xcc_copied copied, void *user);
/* Appends control flow with empty bodies. Its results have no types until xcc_node_infer, which the infer pass or the
 * creator of the bodies calls. */
xcc_node *xcc_append_control(xcc_builder *b, xcc_node_kind kind, size_t input_count, xcc_value *const *inputs,
                             size_t output_count, xcc_value *const *outputs, size_t body_count);

#endif
