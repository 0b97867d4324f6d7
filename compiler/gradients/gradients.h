/* Differentiation in reverse: nodes that compute gradients are built behind the nodes that they are of. */
#ifndef XCVM_COMPILER_GRADIENTS_GRADIENTS_H
#define XCVM_COMPILER_GRADIENTS_GRADIENTS_H

#include "compiler/ir/builder.h"

/* One node's vector-Jacobian product, which a rule builds: from the gradients of the node's results those of its
 * operands. A gradient has the type of the value that it is of; that of a sequence or an optional is such a list of the
 * gradients of its items. NULL stands for one that is zero by structure, because nothing that depends on the value
 * reaches the loss, or what does has no gradient; rules keep it NULL, so that nothing is computed for it and
 * 0 * infinity cannot arise from it.
 *
 * Operands and results are counted in row order, lists spread out, absent ones included. The node's values have types
 * as far as they are known before anything is simplified; what a rule needs to know and cannot find out is a reason to
 * refuse, never to guess. What it builds may read operands and results of the node, which are kept for it. */
typedef struct xcc_vjp {
    xcc_builder *b; /* behind everything so far, so that what depends on constants alone is folded at once */
    xcc_node *node;
    xcc_value *const *results; /* gradients of the results */
    xcc_value *const *masks;   /* for each: NULL, or a boolean tensor that broadcasts to it; where it is false, the
                                  gradient is zero by structure */
    size_t result_count;
    /* Of If and Loop: what their bodies read from outside, which counts as operands behind their own. */
    xcc_value *const *outside;
    size_t outside_count;
    const bool *wanted; /* for each operand, whether its gradient is needed */
    bool straight_through;
    xcc_value **operands; /* gradients of the operands, all NULL at first */
    xcc_value **operand_masks;
    bool failed; /* the module's error says why */
    char refused[200];
} xcc_vjp;
typedef void (*xcc_gradient_rule)(xcc_vjp *d);

/* The rule of an instruction; NULL if its row names none. */
xcc_gradient_rule xcc_gradient_rule_of(xcvm_opcode opcode);
/* Whose elements that rule never reads, though it may read their shapes: some of xcc_spares, or-ed. */
enum xcc_spares { XCC_SPARES_OPERANDS = 1, XCC_SPARES_RESULTS = 2 };
unsigned xcc_gradient_spares(xcvm_opcode opcode);

/* Builds the gradients of `count` values `wrt` from those of some results of the nodes of graph `g` behind `behind`
 * (NULL: all nodes), at the end of the graph that `b` builds: for each a value of its type or NULL, zero. Nodes that
 * `seeds` do not depend on by way of `wrt` are left alone. Contributions to one value are added up in the order in
 * which their nodes stand, last to first. UNSUPPORTED, with every node in the way that cannot be differentiated.
 * `straight_through`: what rounds is taken for the identity, but where it saturates, and gradients of quantized numbers
 * are of some float type. */
typedef struct xcc_seed {
    xcc_value *value, *gradient;
} xcc_seed;
xcvm_status xcc_differentiate(xcc_builder *b, xcc_graph *g, xcc_node *behind, const xcc_seed *seeds, size_t seed_count,
                              xcc_value *const *wrt, size_t count, bool straight_through, xcc_value **gradients);

/* The gradients of the sum of y by the first `wrt` of `count` variables, where these have the values `points`, of the
 * variables' types, in place of their own. What y is computed from them by is copied to the end of the graph that `b`
 * builds, from which it must be visible, and so are its gradients, of the types of the points; NULL is zero. */
xcvm_status xcc_differentiate_part(xcc_builder *b, xcc_value *y, xcc_value *const *variables, xcc_value *const *points,
                                   size_t count, size_t wrt, xcc_value **gradients);

/* Whether a value can have a gradient: it is a tensor of a float type. */
bool xcc_is_differentiable(const xcc_value *v);
/* Whether a parameter is nothing but running statistics, which are measured, not learned. */
bool xcc_is_statistic(const xcc_value *v);
/* The output that is differentiated: the one that the options ask for, or the only one that can be. */
xcvm_status xcc_find_loss(xcc_module *m, xcc_value **loss);

/* The pass `differentiate`. */
xcvm_status xcc_pass_differentiate(xcc_module *m);

#endif
