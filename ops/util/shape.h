/* Shape rules: the type and shape of an instruction's results from its operands.
 *
 * A rule serves the compiler, which may know less, and the run loop, which knows all: ranks may be -1, dimensions
 * below 0 (base/value.h), and the elements of an operand (data NULL) unknown; what follows from them is then unknown
 * in the result. Element types are known and already checked against the row. The rule sets kind, dtype, rank and dims
 * of every result that is there (never data); results that the row calls OUT_DYNAMIC keep dimensions of XCVM_ANY_DIM
 * even at run time. Rules check what the row cannot say: ranks, matching dimensions, axes in range. */
#ifndef XCVM_OPS_UTIL_SHAPE_H
#define XCVM_OPS_UTIL_SHAPE_H

#include "ops/op.h"

struct xcvm_inference {
    const xcvm_schema *schema;
    const void *args;
    const xcvm_value *const *in; /* all operands in row order, lists spread out; NULL: absent */
    size_t in_count;
    xcvm_value *const *out; /* likewise; never NULL entries but for absent optional results */
    size_t out_count;
    xcvm_error *error;
};

/* Defines the rule of rows that say SHAPE(rule): XCVM_SHAPE_RULE(same) { ... uses t ... } */
#define XCVM_SHAPE_RULE(rule) xcvm_status xcvm_shape_##rule(const xcvm_inference *t)
/* Defines the rule of the one row Name that says SHAPE(Name): also gives `a`, its typed arguments. */
#define XCVM_SHAPE_RULE_OF(Name)                                                                                       \
    static xcvm_status typed_shape_##Name(const xcvm_inference *t, const xcvm_##Name##_args *a);                       \
    xcvm_status xcvm_shape_##Name(const xcvm_inference *t) { return typed_shape_##Name(t, t->args); }                  \
    static xcvm_status typed_shape_##Name(const xcvm_inference *t, const xcvm_##Name##_args *a)

#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, summary)                                        \
    shape;                                                                                                             \
    cost;
#define SHAPE(rule) xcvm_status xcvm_shape_##rule(const xcvm_inference *t)
#define COST(rule) uint64_t xcvm_flops_##rule(const xcvm_inference *t)
#include "ops/instructions.def"
#undef SHAPE
#undef COST

/* Helpers for rules; `what` names the operand in messages. */

/* Axis in [-rank, rank) made non-negative; fails with the operand's name otherwise. */
xcvm_status xcvm_resolve_axis(xcvm_error *error, int64_t axis, int rank, int *resolved);
/* The integers of an I32 or I64 tensor; *known is false, and nothing written, if its elements are unknown. Fails if
 * there are more than `capacity`. */
xcvm_status xcvm_read_ints(xcvm_error *error, const xcvm_value *tensor, const char *what, int64_t *ints,
                           size_t capacity, size_t *count, bool *known);
/* Scalar operands (k, axis, depth, a threshold ...): tensors of one element, of whatever rank. Every rule and kernel
 * asks before it reads that element: fails with SHAPE_MISMATCH if there is known to be another number of them, and
 * tells by *known whether the element is there. */
xcvm_status xcvm_scalar_check(xcvm_error *error, const xcvm_value *scalar, const char *what, bool *known);
/* The element, in a kernel, where it is always known. */
xcvm_status xcvm_read_int(xcvm_error *error, const xcvm_value *scalar, const char *what, int64_t *value);
xcvm_status xcvm_read_double(xcvm_error *error, const xcvm_value *scalar, const char *what, double *value);
/* The same for a list of a result's dimensions, called shape. More than XCVM_MAX_RANK are UNSUPPORTED. */
xcvm_status xcvm_read_shape(xcvm_error *error, const xcvm_value *tensor, int64_t dims[XCVM_MAX_RANK], size_t *count,
                            bool *known);
/* One element of a tensor of any real type, as a double. */
double xcvm_element_as_double(const xcvm_value *tensor, size_t index);
int64_t xcvm_element_as_int(const xcvm_value *tensor, size_t index);
/* One dimension of two shapes broadcast to each other; fails if both are known, differ and neither is 1. */
xcvm_status xcvm_broadcast_dim(xcvm_error *error, int64_t a, int64_t b, int64_t *dim);
/* Shape of two values broadcast to each other into `rank` and `dims`. */
xcvm_status xcvm_broadcast_shapes(xcvm_error *error, const xcvm_value *a, const xcvm_value *b, int *rank,
                                  int64_t dims[XCVM_MAX_RANK]);

/* Whether two dimensions are known not to be equal. */
bool xcvm_dims_differ(int64_t a, int64_t b);
/* Whether two tensors are known not to have the same rank and dimensions. */
bool xcvm_shapes_differ(const xcvm_value *a, const xcvm_value *b);
/* Makes *dim what is known of it if `other` is the same dimension; false, and no change, if they differ. */
bool xcvm_dims_agree(int64_t *dim, int64_t other);
/* Product of dims[begin] to dims[end - 1]; a lone symbol among ones stays that symbol, else XCVM_ANY_DIM if unknown. */
int64_t xcvm_dims_product(const int64_t *dims, int begin, int end);
/* Makes a result a tensor of known rank (or -1) and unknown dimensions; or a list. */
void xcvm_set_unknown(xcvm_value *value, xcvm_dtype dtype, int rank);
void xcvm_set_list(xcvm_value *value, xcvm_kind kind, xcvm_dtype dtype);

/* Checks the operands' element types against the row and, where a result's type follows from a type variable or a set
 * of one, sets it; then runs the rule. The one way in for compiler and run loop. */
xcvm_status xcvm_infer(const xcvm_inference *t);
/* The same where the kernel runs next and all operands are there. A tensor result without an element type is refused
 * (INVALID_ARGUMENT), and one that has unknown dimensions all the same (INTERNAL), since its kernel would write to
 * memory that it was never given; but for those that are OUT_DYNAMIC, whose kernels see to both. */
xcvm_status xcvm_infer_run(const xcvm_inference *t);

#endif
