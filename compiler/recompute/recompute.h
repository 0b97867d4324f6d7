/* Recomputation: forward results are forgotten and recomputed where the backward pass reads them. Planners only see the
 * forward pass and propose which results to forget. recompute.c applies proposals to the graph and measures them by
 * liveness. */
#ifndef XCVM_COMPILER_RECOMPUTE_RECOMPUTE_H
#define XCVM_COMPILER_RECOMPUTE_RECOMPUTE_H

#include "compiler/ir/graph.h"

/* Forward nodes whose results share memory: one that computes, and its views. */
typedef struct xcc_forward_item {
    uint32_t first_input, input_count; /* in xcc_forward.inputs: the items that it reads, which precede it */
    uint64_t bytes;                    /* bytes of its results */
    double time;                       /* estimated nanoseconds to recompute it */
    bool read;                         /* read by the backward pass */
    bool stays; /* it cannot be recomputed, or lives to the end anyway, so it is never forgotten */
} xcc_forward_item;

/* Items in execution order. Planners need only items and inputs. */
typedef struct xcc_forward {
    xcc_module *m;
    xcc_forward_item *items;
    uint32_t count;
    uint32_t *inputs;
    /* The graph that contains it. */
    xcc_graph *g;
    xcc_node **nodes;  /* by position */
    uint32_t *item_of; /* by position: 1 + the item of a forward node, 0 for others */
    uint32_t positions;
    double time; /* of all nodes */
} xcc_forward;

/* Finds the forward pass in the top-level graph of f->m: the nodes that the model's own outputs depend on. Numbers the
 * nodes. */
xcvm_status xcc_forward_find(xcc_forward *f);
/* 1 + the item of a value's producer; 0 if it is not in the forward pass. */
uint32_t xcc_forward_item_of(const xcc_forward *f, const xcc_value *v);
/* Estimated nanoseconds of a node, for one core with AVX-512; only ratios matter. */
double xcc_forward_time_of(const xcc_node *n);

/* Receives proposals: forgotten[i] for each item, borrowed. */
typedef struct xcc_proposals {
    xcvm_status (*take)(void *user, const bool *forgotten);
    void *user;
} xcc_proposals;

/* Chen et al. 2016 (arXiv 1604.06174), algorithm 3: keeps articulation points at distances of about the forward pass's
 * bytes divided by the square root of their number, and for several smaller and larger distances. */
xcvm_status xcc_propose_chen(const xcc_forward *f, const xcc_proposals *to);
/* Kusumoto et al. 2019 (arXiv 1905.11722), approximate dynamic programming over lower sets, for decreasing peaks: the
 * minimum time for each or, with `coarse`, the maximum, which leaves the most to liveness. */
xcvm_status xcc_propose_lower_sets(const xcc_forward *f, bool coarse, const xcc_proposals *to);

/* Sorts all nodes of the top-level graph in the order of a list, and numbers them. */
void xcc_put_in_order(const xcc_module *m, xcc_node *const *nodes, size_t count);
/* Moves to the end nodes that produce only program outputs larger than their operands, such as gradients of large
 * matrices by few rows. */
void xcc_let_gradients_wait(xcc_graph *g);

/* The pass `recompute`. */
xcvm_status xcc_pass_recompute(xcc_module *m);

#endif
