/* Liveness: when the values of a graph hold memory, in the order of its nodes. */
#ifndef XCVM_COMPILER_IR_LIVENESS_H
#define XCVM_COMPILER_IR_LIVENESS_H

#include "compiler/ir/graph.h"

/* Values that share memory (views, and results that reuse an operand's memory) form a group, described at its root.
 * Positions are xcc_node.order. A group holds memory from `start` to `end`, inclusive. */
typedef struct xcc_live_range {
    xcc_value *value;
    uint32_t root; /* index of the group's root */
    uint32_t start, end;
    uint64_t bytes;
    bool open;    /* its size is unknown (dimensions count as 1), or it is not a tensor of plain elements */
    bool escapes; /* leaves the graph or enters control flow, so it outlives a straight run of nodes */
} xcc_live_range;

typedef struct xcc_liveness {
    xcc_live_range *at; /* results of the graph's nodes in order, indexed by xcc_value.mark */
    size_t count, capacity;
    uint32_t positions; /* number of nodes of the graph */
} xcc_liveness;

/* Numbers the graph's nodes and computes the live ranges of their results. A use in a body counts for the control-flow
 * node of this graph that contains it. Results of the top-level graph live to its end. Release with
 * xcc_liveness_release. */
xcvm_status xcc_liveness_analyze(xcc_graph *g, xcc_liveness *live_ranges);
void xcc_liveness_release(xcc_module *m, xcc_liveness *live_ranges);
/* NULL for a value that is not a result of the graph's nodes. */
static inline const xcc_live_range *xcc_live_range_of(const xcc_liveness *l, const xcc_value *v)
{
    return v != NULL && v->mark < l->count && l->at[v->mark].value == v ? &l->at[v->mark] : NULL;
}

/* Bytes of a value. Open dimensions count as 1 and set *open; otherwise *open is unchanged. */
uint64_t xcc_value_bytes(const xcc_value *v, bool *open);
/* Maximum bytes that the results of a graph's nodes and bodies hold at once. */
xcvm_status xcc_graph_peak(xcc_graph *g, uint64_t *peak, bool *open);

#endif
