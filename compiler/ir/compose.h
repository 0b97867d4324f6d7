/* Builder functions for several instructions, used by lowerings, gradient rules and recordings. */
#ifndef XCVM_COMPILER_IR_COMPOSE_H
#define XCVM_COMPILER_IR_COMPOSE_H

#include "compiler/ir/builder.h"

/* All return NULL with the error set on failure, and NULL for NULL operands, which are earlier failures. New nodes are
 * inserted at the builder's position. At the end of its graph, small values that depend only on constants are folded
 * immediately, so that nodes built on them know their elements. */

/* Builds an instruction of one operand, with default attributes. */
xcc_value *xcc_build_unary(xcc_builder *b, xcvm_opcode opcode, xcc_value *x);
/* Builds an instruction of two operands without attributes. */
xcc_value *xcc_build_binary(xcc_builder *b, xcvm_opcode opcode, xcc_value *p, xcc_value *q);
#define xcc_build_add(builder, p, q) xcc_build_binary((builder), XCVM_OP_Add, (p), (q))
#define xcc_build_sub(builder, p, q) xcc_build_binary((builder), XCVM_OP_Sub, (p), (q))
#define xcc_build_mul(builder, p, q) xcc_build_binary((builder), XCVM_OP_Mul, (p), (q))
#define xcc_build_div(builder, p, q) xcc_build_binary((builder), XCVM_OP_Div, (p), (q))
/* Builds an instruction with one result, positional operands and default attributes. */
xcc_value *xcc_build_call(xcc_builder *b, xcvm_opcode opcode, size_t count, xcc_value *const *operands);
/* A scalar of the element type of `like`. */
xcc_value *xcc_build_number(xcc_builder *b, const xcc_value *like, double value);
xcc_value *xcc_build_ints(xcc_builder *b, size_t count, const int64_t *ints); /* rank 1 */
#define XCC_BUILD_INTS(builder, ...)                                                                                   \
    xcc_build_ints((builder), sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
/* A string constant: of rank 0 for a single one, or of rank 1. */
xcc_value *xcc_build_strings(xcc_builder *b, int rank, size_t count, const xcvm_text *texts);
xcc_value *xcc_build_cast(xcc_builder *b, xcc_value *x, xcvm_dtype dtype); /* x itself if it has that type */
xcc_value *xcc_build_shape_of(xcc_builder *b, xcc_value *x);
/* A dimension of x as a tensor of shape [1]; a constant if it is known. A negative axis counts from the end. */
xcc_value *xcc_build_dim_of(xcc_builder *b, xcc_value *x, int axis);
/* The rank of x as an i64 scalar. */
xcc_value *xcc_build_rank_of(xcc_builder *b, xcc_value *x);
/* -1 and 0 have the meaning of Reshape. */
xcc_value *xcc_build_reshape(xcc_builder *b, xcc_value *x, xcc_value *shape);
/* Reshapes to a tensor's shape, in which 0 means 0. */
xcc_value *xcc_build_reshape_to(xcc_builder *b, xcc_value *x, xcc_value *shape);
xcc_value *xcc_build_expand(xcc_builder *b, xcc_value *x, xcc_value *shape);
xcc_value *xcc_build_unsqueeze(xcc_builder *b, xcc_value *x, size_t count, const int64_t *axes);
xcc_value *xcc_build_squeeze(xcc_builder *b, xcc_value *x, size_t count, const int64_t *axes);
/* Returns x itself if the permutation is the identity. */
xcc_value *xcc_build_transpose(xcc_builder *b, xcc_value *x, size_t count, const int64_t *perm);
/* Convert [batch, length, heads * size] to [batch, heads, length, size], and back. */
xcc_value *xcc_build_heads_apart(xcc_builder *b, xcc_value *x, int64_t heads);
xcc_value *xcc_build_heads_together(xcc_builder *b, xcc_value *x);
/* axes NULL: all axes. */
xcc_value *xcc_build_reduce(xcc_builder *b, xcvm_opcode opcode, xcc_value *x, xcc_value *axes, bool keepdims);
xcc_value *xcc_build_gather(xcc_builder *b, xcc_value *x, xcc_value *indices, int64_t axis);
/* x[start:end:step] on one axis. */
xcc_value *xcc_build_slice(xcc_builder *b, xcc_value *x, int64_t axis, int64_t start, int64_t end, int64_t step);
/* Concatenates on an axis. Returns a single value unchanged. Integer constants are concatenated immediately. */
xcc_value *xcc_build_concat(xcc_builder *b, size_t count, xcc_value *const *values, int64_t axis);
/* The axes first ... rank - 1 of x as a tensor, for any rank; first >= 0. */
xcc_value *xcc_build_axes_from(xcc_builder *b, xcc_value *x, int64_t first);

/* ---- Properties ---- */

/* Maximum terms of a gradient product that is computed where it is used. With more, computing blocks of the product in
 * the cache is cheaper than reading and writing the gradient. */
enum { XCC_FEW_TERMS = 4 };
/* Returns true if v is an f32 or f64 matrix produced as transpose(a) * b with few terms. Sets *a and *b only then. */
bool xcc_is_low_rank_product(const xcc_value *v, const xcvm_value **a, const xcvm_value **b);

/* Returns false unless it is a constant of one element of a real or boolean type. */
bool xcc_constant_number(const xcc_value *value, double *number);
/* A constant without elements, which old exporters use for an absent operand. */
bool xcc_is_empty_constant(const xcc_value *value);

#endif
