/* When the values of a graph hold memory, in the order in which its nodes stand. */
#ifndef XCVM_COMPILER_LIFETIMES_H
#define XCVM_COMPILER_LIFETIMES_H

#include "compiler/ir/graph.h"

/* Values that lie in the same memory (views, and results that take over an operand's memory) form a group, described at
 * its root. Positions are xcc_node.order; a group holds memory from `start` to `end`, both included. */
typedef struct xcc_lifetime {
    xcc_value *value;
    uint32_t root; /* index of the group's root */
    uint32_t start, end;
    uint64_t bytes;
    bool open;    /* its size is not known (dimensions were taken as 1), or it is no tensor of plain elements */
    bool escapes; /* leaves the graph or enters control flow, so that it outlives a straight run of its nodes */
} xcc_lifetime;

typedef struct xcc_lifetimes {
    xcc_lifetime *at; /* results of the graph's nodes in order; xcc_value.mark is the index here */
    size_t count, capacity;
    uint32_t positions; /* nodes of the graph */
} xcc_lifetimes;

/* Numbers the graph's nodes and finds the lifetimes of their results; a use in a body counts for the control-flow node
 * of this graph that contains it. Results of the top-level graph live to its end. Release with xcc_lifetimes_release.
 */
xcvm_status xcc_lifetimes_find(xcc_graph *g, xcc_lifetimes *lifetimes);
void xcc_lifetimes_release(xcc_module *m, xcc_lifetimes *lifetimes);
/* NULL for a value that is no result of the graph's nodes. */
static inline const xcc_lifetime *xcc_lifetime_of(const xcc_lifetimes *l, const xcc_value *v)
{
    return v != NULL && v->mark < l->count && l->at[v->mark].value == v ? &l->at[v->mark] : NULL;
}

/* Bytes of a value, open dimensions taken as 1, when *open is set (and left alone otherwise). */
uint64_t xcc_value_bytes(const xcc_value *v, bool *open);
/* Most bytes that the results of a graph's nodes and bodies hold at once. */
xcvm_status xcc_graph_peak(xcc_graph *g, uint64_t *peak, bool *open);

#endif
