/* Shape rules: type and shape of an instruction's results from its operands.
 *
 * A rule serves the compiler, which may have partial knowledge, and the run loop, which has full knowledge. Ranks may
 * be -1, dimensions may be negative (base/value.h), and the elements of an operand may be unknown (data NULL);
 * dependent facts are then unknown in the result. Element types are known and already checked against the op
 * definition. The rule sets kind, dtype, rank and dims of every present result, but never data. OUT_DYNAMIC results
 * keep XCVM_ANY_DIM even at run time. Rules check what the definition cannot express: ranks, matching dimensions, axes
 * in range. */
#ifndef XCVM_OPS_UTIL_SHAPE_H
#define XCVM_OPS_UTIL_SHAPE_H

#include "ops/op.h"

struct xcvm_inference {
    const xcvm_schema *schema;
    const void *args;
    const xcvm_value *const *in; /* all operands in definition order, lists expanded; NULL: absent */
    size_t in_count;
    xcvm_value *const *out; /* likewise; NULL only for absent optional results */
    size_t out_count;
    xcvm_error *error;
};

/* Defines a rule that op definitions name as SHAPE(rule): XCVM_SHAPE_RULE(same) { ... uses t ... } */
#define XCVM_SHAPE_RULE(rule) xcvm_status xcvm_shape_##rule(const xcvm_inference *t)
/* Defines the rule of the single op definition Name, SHAPE(Name), with its typed arguments `a`. */
#define XCVM_SHAPE_RULE_OF(Name)                                                                                       \
    static xcvm_status typed_shape_##Name(const xcvm_inference *t, const xcvm_##Name##_args *a);                       \
    xcvm_status xcvm_shape_##Name(const xcvm_inference *t) { return typed_shape_##Name(t, t->args); }                  \
    static xcvm_status typed_shape_##Name(const xcvm_inference *t, const xcvm_##Name##_args *a)

#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, onnx, summary)                                  \
    shape;                                                                                                             \
    cost;
#define SHAPE(rule) xcvm_status xcvm_shape_##rule(const xcvm_inference *t)
#define COST(rule) uint64_t xcvm_flops_##rule(const xcvm_inference *t)
#include "ops/instructions.def"
#undef SHAPE
#undef COST

/* Helpers for rules. `what` names the operand in messages. */

/* Makes an axis in [-rank, rank) non-negative. Fails for others. */
xcvm_status xcvm_resolve_axis(xcvm_error *error, int64_t axis, int rank, int *resolved);
/* Reads the integers of an I32 or I64 tensor. If its elements are unknown, sets *known to false and writes nothing.
 * Fails if there are more than `capacity`. */
xcvm_status xcvm_read_ints(xcvm_error *error, const xcvm_value *tensor, const char *what, int64_t *ints,
                           size_t capacity, size_t *count, bool *known);
/* Scalar operands (k, axis, depth, a threshold ...): tensors of one element and any rank. Rules and kernels must call
 * this before they read the element. Fails with SHAPE_MISMATCH if the number of elements is known and not 1. *known is
 * true if the element is known. */
xcvm_status xcvm_scalar_check(xcvm_error *error, const xcvm_value *scalar, const char *what, bool *known);
/* Read the element in a kernel, where it is always known. */
xcvm_status xcvm_read_int(xcvm_error *error, const xcvm_value *scalar, const char *what, int64_t *value);
xcvm_status xcvm_read_double(xcvm_error *error, const xcvm_value *scalar, const char *what, double *value);
/* The same as xcvm_read_ints for a result shape. More than XCVM_MAX_RANK dimensions are UNSUPPORTED. */
xcvm_status xcvm_read_shape(xcvm_error *error, const xcvm_value *tensor, int64_t dims[XCVM_MAX_RANK], size_t *count,
                            bool *known);
/* Return one element of a tensor of any real type. */
double xcvm_element_as_double(const xcvm_value *tensor, size_t index);
int64_t xcvm_element_as_int(const xcvm_value *tensor, size_t index);
/* Broadcasts one dimension. Fails if both are known, differ and neither is 1. */
xcvm_status xcvm_broadcast_dim(xcvm_error *error, int64_t a, int64_t b, int64_t *dim);
/* Computes the broadcast shape of two values. */
xcvm_status xcvm_broadcast_shapes(xcvm_error *error, const xcvm_value *a, const xcvm_value *b, int *rank,
                                  int64_t dims[XCVM_MAX_RANK]);

/* Returns true if two dimensions are known to differ. */
bool xcvm_dims_differ(int64_t a, int64_t b);
/* Returns true if two tensors are known to differ in rank or a dimension. */
bool xcvm_shapes_differ(const xcvm_value *a, const xcvm_value *b);
/* Merges the knowledge about equal dimensions into *dim. Returns false, without a change, if they differ. */
bool xcvm_dims_agree(int64_t *dim, int64_t other);
/* Product of dims[begin] to dims[end - 1]. A single symbol among ones stays that symbol; otherwise an unknown product
 * is XCVM_ANY_DIM. */
int64_t xcvm_dims_product(const int64_t *dims, int begin, int end);
/* Make a result a tensor of known rank (or -1) and unknown dimensions, or a list. */
void xcvm_set_unknown(xcvm_value *value, xcvm_dtype dtype, int rank);
void xcvm_set_list(xcvm_value *value, xcvm_kind kind, xcvm_dtype dtype);

/* Checks the operands' element types against the op definition, sets result types that follow from type variables or
 * single-type sets, then runs the rule. The only entry point for compiler and run loop. */
xcvm_status xcvm_infer(const xcvm_inference *t);
/* The same before a kernel runs, with all operands present. A tensor result without an element type fails
 * (INVALID_ARGUMENT), and one with unknown dimensions too (INTERNAL), because its kernel would write to unallocated
 * memory. OUT_DYNAMIC results are exempt; their kernels set both. */
xcvm_status xcvm_infer_run(const xcvm_inference *t);

#endif
