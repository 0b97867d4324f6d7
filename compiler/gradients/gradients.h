/* Reverse-mode differentiation: builds gradient nodes after the nodes that they differentiate. */
#ifndef XCVM_COMPILER_GRADIENTS_GRADIENTS_H
#define XCVM_COMPILER_GRADIENTS_GRADIENTS_H

#include "compiler/ir/builder.h"

/* The vector-Jacobian product of one node, built by a rule from the gradients of its results. A gradient has the type
 * of its value; for a sequence or an optional it is a list of the items' gradients. NULL is a structural zero: no
 * differentiable path from the value reaches the loss. Rules keep it NULL, so that nothing is computed for it and 0 *
 * infinity cannot arise.
 *
 * Operands and results are counted in definition order, lists expanded, including absent ones. Types are known as far
 * as inference before simplification finds them. A rule must refuse if it lacks a fact, and must not guess. Built nodes
 * may read the node's operands and results, which are kept for them. */
typedef struct xcc_vjp {
    xcc_builder *b; /* at the end of the graph, so that nodes with only constant operands are folded immediately */
    xcc_node *node;
    xcc_value *const *results; /* gradients of the results */
    xcc_value *const *masks; /* for each: NULL, or a boolean tensor that broadcasts to it; the gradient is a structural
                                zero where it is false */
    size_t result_count;
    /* For If and Loop: values that their bodies read from outside, which count as further operands. */
    xcc_value *const *outside;
    size_t outside_count;
    const bool *wanted; /* for each operand: its gradient is needed */
    bool straight_through;
    xcc_value **operands; /* gradients of the operands, initially NULL */
    xcc_value **operand_masks;
    bool failed; /* the module's error has the reason */
    char refused[200];
} xcc_vjp;
typedef void (*xcc_gradient_rule)(xcc_vjp *d);

/* The rule of an instruction; NULL if its op definition names none. */
xcc_gradient_rule xcc_gradient_rule_of(xcvm_opcode opcode);

/* Builds the gradients of `count` values `wrt` from those of some results of graph `g`'s nodes after `behind` (NULL:
 * all nodes), at the end of the graph of `b`. Each is a value of the same type, or NULL for zero. Only nodes between
 * `wrt` and `seeds` are differentiated. Contributions to one value are added in reverse node order. Fails with
 * UNSUPPORTED and the names of all nodes that cannot be differentiated. `straight_through` treats rounding as the
 * identity where it does not saturate; gradients of quantized numbers then have a float type. */
typedef struct xcc_seed {
    xcc_value *value, *gradient;
} xcc_seed;
xcvm_status xcc_differentiate(xcc_builder *b, xcc_graph *g, xcc_node *behind, const xcc_seed *seeds, size_t seed_count,
                              xcc_value *const *wrt, size_t count, bool straight_through, xcc_value **gradients);

/* Builds the gradients of the sum of y by the first `wrt` of `count` variables, at `points` of the same types instead
 * of the variables' values. The computation of y is copied to the end of the graph of `b`, from which it must be
 * visible, followed by the gradients; NULL is zero. */
xcvm_status xcc_differentiate_part(xcc_builder *b, xcc_value *y, xcc_value *const *variables, xcc_value *const *points,
                                   size_t count, size_t wrt, xcc_value **gradients);

/* Returns true if a value can have a gradient: it is a tensor of a float type. */
bool xcc_is_differentiable(const xcc_value *v);
/* Returns true for a parameter that is only running statistics, which are measured, not learned. */
bool xcc_is_statistic(const xcc_value *v);
/* Returns the differentiated output: the one in the options, or the only possible one. */
xcvm_status xcc_find_loss(xcc_module *m, xcc_value **loss);

/* The pass `differentiate`. */
xcvm_status xcc_pass_differentiate(xcc_module *m);

#endif
