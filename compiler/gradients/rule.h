/* Building blocks of rules. Builders return NULL for NULL operands, which are earlier failures. Setting NULL as a
 * gradient makes the rule fail. */
#ifndef XCVM_COMPILER_GRADIENTS_RULE_H
#define XCVM_COMPILER_GRADIENTS_RULE_H

#include "compiler/gradients/gradients.h"
#include "compiler/ir/compose.h"

/* Defines the rule that op definitions name as GRAD(name). */
#define XCC_GRADIENT(name) void xcc_gradient_##name(xcc_vjp *d)
#define XCC_DECLARE_GRADIENT(name) XCC_GRADIENT(name);

/* ---- Inputs of a rule ---- */

static inline xcc_value *xcc_in(const xcc_vjp *d, size_t i) { return xcc_node_input(d->node, i); }
static inline xcc_value *xcc_out(const xcc_vjp *d, size_t i) { return xcc_node_output(d->node, i); }
static inline bool xcc_wanted(const xcc_vjp *d, size_t i) { return d->wanted[i]; }
/* The gradient of the first result, for rules that are called only with it. */
static inline xcc_value *xcc_g(const xcc_vjp *d) { return d->results[0]; }
/* Result i of the node; adds it if it is absent. */
xcc_value *xcc_extra_result(xcc_vjp *d, size_t i);

/* ---- Outputs of a rule ---- */

/* Sets the gradient of operand i, of that operand's type. */
void xcc_set_gradient(xcc_vjp *d, size_t i, xcc_value *gradient);
/* For an element-wise instruction: sets the gradient of operand i in the shape of the first result, before
 * broadcasting is undone. */
void xcc_set_gradient_each(xcc_vjp *d, size_t i, xcc_value *gradient);
/* The same for the product, or the quotient, of the first result's gradient and a factor. Structural zeros of the
 * gradient are preserved for any factor. */
void xcc_set_gradient_times(xcc_vjp *d, size_t i, xcc_value *factor);
void xcc_set_gradient_over(xcc_vjp *d, size_t i, xcc_value *divisor);
/* The same for the first result's gradient where `condition` holds; elsewhere it is a structural zero. */
void xcc_set_gradient_where(xcc_vjp *d, size_t i, xcc_value *condition);
/* Refuses this node. The message must say which property is not supported and why. */
void xcc_refuse(xcc_vjp *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Refuses, and returns false, unless a dimension, which is called `what`, is known and at most `most`. */
bool xcc_vjp_need_count(xcc_vjp *d, int64_t count, int64_t most, const char *what);
/* Refuses, and returns false, unless the rank of operand i is known. */
bool xcc_vjp_need_rank(xcc_vjp *d, size_t i);
/* The same for all sizes of a value, named `what`. */
bool xcc_vjp_need_sizes(xcc_vjp *d, const xcc_value *v, const char *what);

/* ---- Formulas ---- */

/* For composite instructions: a formula of other instructions is differentiated instead. `operands` are stand-ins for
 * the wanted operands of the node, and the other operands themselves. */
typedef struct xcc_formula {
    xcc_node *behind;
    xcc_value **operands;
    size_t count;
} xcc_formula;
/* Returns false if the rule has failed. */
bool xcc_formula_begin(xcc_vjp *d, xcc_formula *f);
/* Sets the gradients of all operands. results[i] represents result i of the node if it has a gradient, with the same
 * shape and type. */
void xcc_formula_end(xcc_vjp *d, const xcc_formula *f, xcc_value *const *results);

/* ---- Broadcasting ---- */

/* `v` summed to the shape of `like`, which broadcasts to v's. The axes are determined now if the sizes are known, else
 * at run time. */
xcc_value *xcc_sum_to(xcc_builder *b, xcc_value *v, xcc_value *like);
/* The sum of two gradients of one value, which may be lists. */
xcc_value *xcc_accumulate(xcc_builder *b, xcc_value *p, xcc_value *q);
/* Zeros, or another number, with the type of `like`; zeros also for lists. */
xcc_value *xcc_zeros_like(xcc_builder *b, xcc_value *like);
xcc_value *xcc_full_like(xcc_builder *b, xcc_value *like, double number);
/* v in the shape of `like`, with as many elements. */
xcc_value *xcc_reshape_like(xcc_builder *b, xcc_value *v, xcc_value *like);
xcc_value *xcc_expand_like(xcc_builder *b, xcc_value *v, xcc_value *like);

/* ---- Short names for builder functions ---- */

static inline xcc_value *xcc_num(xcc_vjp *d, const xcc_value *like, double x)
{
    return xcc_build_number(d->b, like, x);
}
static inline xcc_value *xcc_op1(xcc_vjp *d, xcvm_opcode op, xcc_value *x) { return xcc_build_unary(d->b, op, x); }
static inline xcc_value *xcc_op2(xcc_vjp *d, xcvm_opcode op, xcc_value *p, xcc_value *q)
{
    return xcc_build_binary(d->b, op, p, q);
}
static inline xcc_value *xcc_add(xcc_vjp *d, xcc_value *p, xcc_value *q) { return xcc_build_add(d->b, p, q); }
static inline xcc_value *xcc_sub(xcc_vjp *d, xcc_value *p, xcc_value *q) { return xcc_build_sub(d->b, p, q); }
static inline xcc_value *xcc_mul(xcc_vjp *d, xcc_value *p, xcc_value *q) { return xcc_build_mul(d->b, p, q); }
static inline xcc_value *xcc_div(xcc_vjp *d, xcc_value *p, xcc_value *q) { return xcc_build_div(d->b, p, q); }
/* x + number, x * number */
static inline xcc_value *xcc_plus(xcc_vjp *d, xcc_value *x, double number)
{
    return xcc_add(d, x, xcc_num(d, x, number));
}
static inline xcc_value *xcc_scale(xcc_vjp *d, xcc_value *x, double number)
{
    return number == 1 ? x : xcc_mul(d, x, xcc_num(d, x, number));
}
static inline xcc_value *xcc_neg(xcc_vjp *d, xcc_value *x) { return xcc_op1(d, XCVM_OP_Neg, x); }
static inline xcc_value *xcc_square(xcc_vjp *d, xcc_value *x) { return xcc_mul(d, x, x); }
static inline xcc_value *xcc_where(xcc_vjp *d, xcc_value *condition, xcc_value *x, xcc_value *z)
{
    return xcc_build_call(d->b, XCVM_OP_Where, 3, (xcc_value *[]){condition, x, z});
}
/* A list with one axis of x; empty for rank 0, which operators with an axis treat as a line of one element. */
static inline xcc_value *xcc_axis_list(xcc_vjp *d, const xcc_value *x, int64_t axis)
{
    return xcc_build_ints(d->b, x != NULL && x->type.rank == 0 ? 0 : 1, &axis);
}
static inline xcc_value *xcc_sum(xcc_vjp *d, xcc_value *x, xcc_value *axes)
{
    return xcc_build_reduce(d->b, XCVM_OP_ReduceSum, x, axes, true);
}
static inline xcc_value *xcc_mean(xcc_vjp *d, xcc_value *x, xcc_value *axes)
{
    return xcc_build_reduce(d->b, XCVM_OP_ReduceMean, x, axes, true);
}

#endif
