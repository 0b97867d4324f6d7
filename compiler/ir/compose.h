/* Composition on a builder: more than one instruction at a time, for lowerings, rules and recordings. */
#ifndef XCVM_COMPILER_IR_COMPOSE_H
#define XCVM_COMPILER_IR_COMPOSE_H

#include "compiler/ir/builder.h"

/* All give NULL, with the error set, on failure, and for NULL operands, which are failures of what made them. New nodes
 * go where the builder puts them; at the end of its graph, what is small and depends on constants alone is computed at
 * once, so that what is built on it knows its elements. */

/* Any instruction of one operand, with the attributes' defaults. */
xcc_value *xcc_build_unary(xcc_builder *b, xcvm_opcode opcode, xcc_value *x);
/* Any instruction of two operands without attributes. */
xcc_value *xcc_build_binary(xcc_builder *b, xcvm_opcode opcode, xcc_value *p, xcc_value *q);
#define xcc_build_add(builder, p, q) xcc_build_binary((builder), XCVM_OP_Add, (p), (q))
#define xcc_build_sub(builder, p, q) xcc_build_binary((builder), XCVM_OP_Sub, (p), (q))
#define xcc_build_mul(builder, p, q) xcc_build_binary((builder), XCVM_OP_Mul, (p), (q))
#define xcc_build_div(builder, p, q) xcc_build_binary((builder), XCVM_OP_Div, (p), (q))
/* Any instruction with one result, operands by position, attributes at their defaults. */
xcc_value *xcc_build_call(xcc_builder *b, xcvm_opcode opcode, size_t count, xcc_value *const *operands);
/* A number of the element type of `like`, rank 0. */
xcc_value *xcc_build_number(xcc_builder *b, const xcc_value *like, double value);
xcc_value *xcc_build_ints(xcc_builder *b, size_t count, const int64_t *ints); /* rank 1 */
#define XCC_BUILD_INTS(builder, ...)                                                                                   \
    xcc_build_ints((builder), sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
/* A constant of strings: rank 0 for one, or rank 1. */
xcc_value *xcc_build_strings(xcc_builder *b, int rank, size_t count, const xcvm_text *texts);
xcc_value *xcc_build_cast(xcc_builder *b, xcc_value *x, xcvm_dtype dtype); /* x itself if it has that type */
xcc_value *xcc_build_shape_of(xcc_builder *b, xcc_value *x);
/* Dimension of x as a tensor of shape [1]; a constant if it is known. An axis below 0 counts from the last. */
xcc_value *xcc_build_dim_of(xcc_builder *b, xcc_value *x, int axis);
/* The rank of x as an i64 scalar. */
xcc_value *xcc_build_rank_of(xcc_builder *b, xcc_value *x);
/* Entries of -1 and 0 as in Reshape. */
xcc_value *xcc_build_reshape(xcc_builder *b, xcc_value *x, xcc_value *shape);
/* To a shape that is some tensor's, so that 0 is 0. */
xcc_value *xcc_build_reshape_to(xcc_builder *b, xcc_value *x, xcc_value *shape);
xcc_value *xcc_build_expand(xcc_builder *b, xcc_value *x, xcc_value *shape);
xcc_value *xcc_build_unsqueeze(xcc_builder *b, xcc_value *x, size_t count, const int64_t *axes);
xcc_value *xcc_build_squeeze(xcc_builder *b, xcc_value *x, size_t count, const int64_t *axes);
/* x itself if nothing moves. */
xcc_value *xcc_build_transpose(xcc_builder *b, xcc_value *x, size_t count, const int64_t *perm);
/* [batch, length, heads * size] as [batch, heads, length, size], and back. */
xcc_value *xcc_build_heads_apart(xcc_builder *b, xcc_value *x, int64_t heads);
xcc_value *xcc_build_heads_together(xcc_builder *b, xcc_value *x);
/* axes NULL: over all. */
xcc_value *xcc_build_reduce(xcc_builder *b, xcvm_opcode opcode, xcc_value *x, xcc_value *axes, bool keepdims);
xcc_value *xcc_build_gather(xcc_builder *b, xcc_value *x, xcc_value *indices, int64_t axis);
/* x[start:end:step] along one axis. */
xcc_value *xcc_build_slice(xcc_builder *b, xcc_value *x, int64_t axis, int64_t start, int64_t end, int64_t step);
/* Along axis; the one value itself if there is only one. Constants of integers are joined at once. */
xcc_value *xcc_build_concat(xcc_builder *b, size_t count, xcc_value *const *values, int64_t axis);
/* The axes first ... rank - 1 of x as a tensor, for any rank; first >= 0. */
xcc_value *xcc_build_axes_from(xcc_builder *b, xcc_value *x, int64_t first);

/* ---- Facts ---- */

/* Terms that a gradient's product has at most, to be made where it is used: of more, blocks of the product that stay in
 * the cache take less time than reading and writing the gradient costs. */
enum { XCC_FEW_TERMS = 4 };
/* Whether v is a matrix of f32 or f64 that a node makes as the product of a, transposed, and b, of few terms; *a and *b
 * are set only if so. */
bool xcc_is_low_rank_product(const xcc_value *v, const xcvm_value **a, const xcvm_value **b);

/* false unless it is a constant of one element, of a real or boolean type. */
bool xcc_constant_number(const xcc_value *value, double *number);
/* A constant without elements, by which old exporters leave an operand out. */
bool xcc_is_empty_constant(const xcc_value *value);

#endif
