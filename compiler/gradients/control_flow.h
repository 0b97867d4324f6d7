/* The rules of If and Loop, which have no rows. */
#ifndef XCVM_COMPILER_GRADIENT_CONTROL_H
#define XCVM_COMPILER_GRADIENT_CONTROL_H

#include "compiler/gradients/gradient.h"

void xcc_gradient_of_if(xcc_vjp *d);
void xcc_gradient_of_loop(xcc_vjp *d);

/* What the bodies of a node read that is not made in them: values of the graphs around them, and parameters wherever
 * they are; in the order in which it is read. */
typedef struct xcc_outside {
    xcc_value **values;
    size_t count, capacity;
} xcc_outside;
/* `stamps` is scratch of `values` entries, by value id; `stamp` is a number that none of them is. */
xcvm_status xcc_outside_find(xcc_outside *o, const xcc_node *n, uint32_t *stamps, uint32_t values, uint32_t stamp);

#endif
