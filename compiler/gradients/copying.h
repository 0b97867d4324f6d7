/* Copies of nodes, with other values in the place of some that they read. */
#ifndef XCVM_COMPILER_GRADIENT_COPYING_H
#define XCVM_COMPILER_GRADIENT_COPYING_H

#include "compiler/ir/graph.h"

typedef struct xcc_copying {
    xcc_module *m;
    xcc_value **copies; /* by value id; NULL: there is none, and the value itself is read */
    uint32_t values;
} xcc_copying;

/* From here on, what is copied gets no more values. Must be ended, successful or not. */
xcvm_status xcc_copying_begin(xcc_copying *c, xcc_module *m);
void xcc_copying_end(xcc_copying *c);
/* The copy of a value, or the value itself. NULL for NULL. */
xcc_value *xcc_copy_of(const xcc_copying *c, xcc_value *v);
/* Gives v the type of another value. */
void xcc_copy_type(xcc_value *v, const xcc_value *from);
/* Copies a node, or all of a graph, to the end of `to`. */
xcvm_status xcc_copy_node(xcc_copying *c, const xcc_node *n, xcc_graph *to);
xcvm_status xcc_copy_nodes(xcc_copying *c, const xcc_graph *from, xcc_graph *to);

#endif
