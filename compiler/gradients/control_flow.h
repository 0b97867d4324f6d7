/* The gradient rules of If and Loop, which are not instructions. The backward pass recomputes bodies from the values
 * that they read and drew, and differentiates them there. */
#ifndef XCVM_COMPILER_GRADIENTS_CONTROL_FLOW_H
#define XCVM_COMPILER_GRADIENTS_CONTROL_FLOW_H

#include "compiler/gradients/gradients.h"

void xcc_gradient_of_if(xcc_vjp *d);
void xcc_gradient_of_loop(xcc_vjp *d);

/* Returns true if the node's bodies can be recomputed. Random values that they drew are kept. Nested bodies must not
 * draw; the node is then refused. */
bool xcc_bodies_can_copy(xcc_vjp *d);
/* Lists the values that the nodes of a body drew. */
xcvm_status xcc_body_drawn(xcc_graph *g, xcc_value ***values, size_t *count);
/* Removes unread nodes except those that `root` (may be NULL) depends on: copies that gradients do not need. Side
 * effects occurred in the original. */
void xcc_body_remove_unread(xcc_graph *g, const xcc_value *root);

/* Values from outside that the bodies of a node read: values of enclosing graphs, and all parameters; in order of first
 * use. */
typedef struct xcc_outside {
    xcc_value **values;
    size_t count, capacity;
} xcc_outside;
/* `stamps` is scratch of `values` entries, by value id; no entry may equal `stamp`. */
xcvm_status xcc_outside_find(xcc_outside *o, const xcc_node *n, uint32_t *stamps, uint32_t values, uint32_t stamp);

#endif
