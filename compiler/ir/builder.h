/* Building graphs: constants, parameters, states and nodes. Failures leave module->error filled and return NULL or a
 * status. */
#ifndef XCVM_COMPILER_IR_BUILDER_H
#define XCVM_COMPILER_IR_BUILDER_H

#include "compiler/ir/graph.h"

/* ---- Constants, parameters and states ---- */

/* A constant tensor; `data` is copied unless `lend`, when it must outlive the module. */
xcc_value *xcc_constant(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                        const void *data, bool lend);
/* A tensor that learning changes from `data`, lent or copied as for a constant, which it is in a frozen module. */
xcc_value *xcc_parameter(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                         const void *data, bool lend);
/* A tensor that is kept from run to run and begins as `data`; NULL: as zeros. */
xcc_value *xcc_state(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data,
                     bool lend);
/* Makes states of parameters, or of inputs of the top graph, which then begin as zeros, their open dimensions 0. */
void xcc_values_keep(size_t count, xcc_value *const *values);
/* Makes constants of all parameters, those there are and those to come. The first step of compiling for inference
 * (compile.c), or the last of differentiating; here alone parameters as such go: what looks for constants finds them
 * from then on. */
void xcc_parameters_freeze(xcc_module *m);
/* Makes a constant of one parameter, if v is one: of what the structure of the graph depends on, as shapes, which
 * cannot be learned. v may be NULL. */
void xcc_parameter_fix(xcc_value *v);
/* A constant tensor of unnamed elements that the caller fills in. Unlike the others it has memory of its own, which
 * xcc_constant_release gives back when nobody uses it any more; that does nothing for other constants. */
xcc_value *xcc_constant_blank(xcc_graph *g, xcvm_dtype dtype, int rank, const int64_t *dims);
void xcc_constant_release(xcc_value *v);
/* Whether weights of so many bytes may be written anew: that goes on for as long as it is in proportion to the model,
 * in which many nodes may read the same ones. Counts them, if so. */
bool xcc_may_copy(xcc_module *m, size_t bytes);
/* Bytes that a copy of so many bytes of elements takes of the arena. */
size_t xcc_elements_room(size_t bytes);
xcc_value *xcc_constant_i64(xcc_graph *g, size_t count, const int64_t *ints); /* rank 1 */
xcc_value *xcc_scalar_i64(xcc_graph *g, int64_t value);                       /* rank 0 */
/* Rank 0, converted to `dtype` (any real type or bool). */
xcc_value *xcc_scalar(xcc_graph *g, xcvm_dtype dtype, double value);

/* ---- Nodes ---- */

/* Where new nodes go: before `before`, or at the end of `graph` if NULL. name and origin are given to each. */
typedef struct xcc_builder {
    xcc_graph *graph;
    xcc_node *before;
    const char *name, *origin;
} xcc_builder;

/* Appends an instruction and infers its results: args is the row's struct, operands and results xcc_values (cast to
 * xcvm_value *); it is copied. NULL on failure. */
xcc_node *xcc_append(xcc_builder *b, xcvm_opcode opcode, const void *args);
/* xcc_emit(b, Conv, .y = XCC_OUT(y), .x = XCC_IN(x), .w = XCC_IN(w), .group = 1) */
#define xcc_emit(b, Name, ...) xcc_append((b), XCVM_OP_##Name, &(const xcvm_##Name##_args){__VA_ARGS__})
#define XCC_INTS(...)                                                                                                  \
    ((xcvm_ints){(const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)})
/* Emits an instruction with one result, which is returned (NULL on failure):
 * xcc_value *s = xcc_apply(b, Add, y, .a = XCC_IN(p), .b = XCC_IN(q)) where y names the row's result field. */
#define xcc_apply(b, Name, result, ...)                                                                                \
    xcc_apply_at((b), XCVM_OP_##Name, &(xcvm_##Name##_args){__VA_ARGS__}, offsetof(xcvm_##Name##_args, result))
xcc_value *xcc_apply_at(xcc_builder *b, xcvm_opcode opcode, void *args, size_t result_offset);
/* The value that replaces an operand or a result of a node in a copy of the node. A result becomes a new value, or NULL
 * if nothing reads it and its field may be absent (xcvm_field_may_be_absent). */
typedef xcvm_status (*xcc_copied)(void *user, xcc_value *v, const xcvm_field *field, xcc_value **copy);
/* A copy of an instruction where the builder stands; NULL on failure. */
xcc_node *xcc_node_copy(xcc_builder *b, const xcc_node *n, xcc_copied copied, void *user);
/* Control flow; its bodies are made, empty, and its results have no types until xcc_node_infer, which the infer pass
 * and whoever filled the bodies calls. */
xcc_node *xcc_append_control(xcc_builder *b, xcc_node_kind kind, size_t input_count, xcc_value *const *inputs,
                             size_t output_count, xcc_value *const *outputs, size_t body_count);

#endif
