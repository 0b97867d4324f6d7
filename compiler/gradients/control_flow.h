/* The rules of If and Loop, which have no rows. Their bodies are computed again in the backward, from what they read
 * and what they drew, and differentiated there. */
#ifndef XCVM_COMPILER_GRADIENTS_CONTROL_FLOW_H
#define XCVM_COMPILER_GRADIENTS_CONTROL_FLOW_H

#include "compiler/gradients/gradients.h"

void xcc_gradient_of_if(xcc_vjp *d);
void xcc_gradient_of_loop(xcc_vjp *d);

/* Whether the bodies of the node can be computed again. They would draw other numbers then, so what they drew is kept;
 * not that of bodies in them: the node is refused. */
bool xcc_bodies_can_copy(xcc_vjp *d);
/* What the nodes of a body drew. */
xcvm_status xcc_body_drawn(xcc_graph *g, xcc_value ***values, size_t *count);
/* Removes what nothing reads, but for what makes `spared`, which may be NULL: of the copies, what the gradients do not
 * need. Effects were had the first time. */
void xcc_body_remove_unread(xcc_graph *g, const xcc_value *spared);

/* What the bodies of a node read that is not made in them: values of the graphs around them, and parameters wherever
 * they are; in the order in which it is read. */
typedef struct xcc_outside {
    xcc_value **values;
    size_t count, capacity;
} xcc_outside;
/* `stamps` is scratch of `values` entries, by value id; `stamp` is a number that none of them is. */
xcvm_status xcc_outside_find(xcc_outside *o, const xcc_node *n, uint32_t *stamps, uint32_t values, uint32_t stamp);

#endif
