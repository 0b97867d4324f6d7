/* Liveness: when the values of a graph hold memory, in the order in which its nodes stand. */
#ifndef XCVM_COMPILER_IR_LIVENESS_H
#define XCVM_COMPILER_IR_LIVENESS_H

#include "compiler/ir/graph.h"

/* Values that lie in the same memory (views, and results that take over an operand's memory) form a group, described at
 * its root. Positions are xcc_node.order; a group holds memory from `start` to `end`, both included. */
typedef struct xcc_live_range {
    xcc_value *value;
    uint32_t root; /* index of the group's root */
    uint32_t start, end;
    uint64_t bytes;
    bool open;    /* its size is not known (dimensions were taken as 1), or it is no tensor of plain elements */
    bool escapes; /* leaves the graph or enters control flow, so that it outlives a straight run of its nodes */
} xcc_live_range;

typedef struct xcc_liveness {
    xcc_live_range *at; /* results of the graph's nodes in order; xcc_value.mark is the index here */
    size_t count, capacity;
    uint32_t positions; /* nodes of the graph */
} xcc_liveness;

/* Numbers the graph's nodes and finds the live ranges of their results; a use in a body counts for the control-flow
 * node of this graph that contains it. Results of the top-level graph live to its end. Release with
 * xcc_liveness_release.
 */
xcvm_status xcc_liveness_analyze(xcc_graph *g, xcc_liveness *live_ranges);
void xcc_liveness_release(xcc_module *m, xcc_liveness *live_ranges);
/* NULL for a value that is no result of the graph's nodes. */
static inline const xcc_live_range *xcc_live_range_of(const xcc_liveness *l, const xcc_value *v)
{
    return v != NULL && v->mark < l->count && l->at[v->mark].value == v ? &l->at[v->mark] : NULL;
}

/* Bytes of a value, open dimensions taken as 1, when *open is set (and left alone otherwise). */
uint64_t xcc_value_bytes(const xcc_value *v, bool *open);
/* Most bytes that the results of a graph's nodes and bodies hold at once. */
xcvm_status xcc_graph_peak(xcc_graph *g, uint64_t *peak, bool *open);

#endif
