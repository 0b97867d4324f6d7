/* Copies of nodes, with other values in the place of some that they read. */
#ifndef XCVM_COMPILER_GRADIENTS_COPYING_H
#define XCVM_COMPILER_GRADIENTS_COPYING_H

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
/* Copies a node, or all of a graph, to the end of `to`. What draws random numbers is not copied, as it would draw
 * others: what it drew is read, or the copies that there are of it; so bodies of what is copied must not draw. */
xcvm_status xcc_copy_node(xcc_copying *c, xcc_node *n, xcc_graph *to);
xcvm_status xcc_copy_nodes(xcc_copying *c, const xcc_graph *from, xcc_graph *to);

/* Whether a node draws random numbers; whether one in its bodies does, or in theirs. */
bool xcc_draws(const xcc_node *n);
bool xcc_bodies_draw(const xcc_node *n);
/* What a node that draws drew, as its copies read it: up to XCC_MAX_DRAWN values, NULL for a failure. */
enum { XCC_MAX_DRAWN = 2 };
size_t xcc_drawn(xcc_node *n, xcc_value **values);
/* Result i of an instruction, which it is made to give if it does not; NULL on failure. */
xcc_value *xcc_result_made(xcc_node *n, size_t i);

#endif
