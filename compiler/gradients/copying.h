/* Copies of nodes with some operands replaced. */
#ifndef XCVM_COMPILER_GRADIENTS_COPYING_H
#define XCVM_COMPILER_GRADIENTS_COPYING_H

#include "compiler/ir/graph.h"

typedef struct xcc_copying {
    xcc_module *m;
    xcc_value **copies; /* by value id; NULL: no copy, the value itself is read */
    uint32_t values;
} xcc_copying;

/* The source graph must get no new values from now on. Must be ended after success and failure. */
xcvm_status xcc_copying_begin(xcc_copying *c, xcc_module *m);
void xcc_copying_end(xcc_copying *c);
/* The copy of a value, or the value itself. NULL for NULL. */
xcc_value *xcc_copy_of(const xcc_copying *c, xcc_value *v);
/* Gives v the type of another value. */
void xcc_copy_type(xcc_value *v, const xcc_value *from);
/* Copies a node, or a whole graph, to the end of `to`. Random nodes are not copied, because they would draw other
 * values: the drawn values, or their copies, are read. So copied bodies must not draw. */
xcvm_status xcc_copy_node(xcc_copying *c, xcc_node *n, xcc_graph *to);
xcvm_status xcc_copy_nodes(xcc_copying *c, const xcc_graph *from, xcc_graph *to);

/* Returns true if a node draws random numbers, or if a node in its bodies does, at any depth. */
bool xcc_draws(const xcc_node *n);
bool xcc_bodies_draw(const xcc_node *n);
/* Returns the drawn values of a random node that its copies read: up to XCC_MAX_DRAWN, NULL on failure. */
enum { XCC_MAX_DRAWN = 2 };
size_t xcc_drawn(xcc_node *n, xcc_value **values);
/* Returns result i of an instruction and adds it if it is absent; NULL on failure. */
xcc_value *xcc_result_made(xcc_node *n, size_t i);

#endif
