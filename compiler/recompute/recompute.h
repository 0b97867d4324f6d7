/* Recomputation: results of the forward are forgotten and computed again where the backward reads them. Planners see
 * the forward alone, and propose what to forget; recompute.c applies a proposal to the graph, where liveness tells what
 * it is worth. */
#ifndef XCVM_COMPILER_RECOMPUTE_RECOMPUTE_H
#define XCVM_COMPILER_RECOMPUTE_RECOMPUTE_H

#include "compiler/ir/graph.h"

/* Nodes of the forward whose results lie in one memory: one that computes, and its views. */
typedef struct xcc_forward_item {
    uint32_t first_input, input_count; /* in xcc_forward.inputs: the items that it reads, which stand before it */
    uint64_t bytes;                    /* of its results */
    double time;                       /* that computing it again takes, in nanoseconds by estimate */
    bool read;                         /* by the backward */
    bool stays; /* it cannot be computed again, or is there at the end anyway: it is never forgotten */
} xcc_forward_item;

/* In an order that can be executed. Planners need no more than items and inputs. */
typedef struct xcc_forward {
    xcc_module *m;
    xcc_forward_item *items;
    uint32_t count;
    uint32_t *inputs;
    /* The graph that it is part of, as it was found. */
    xcc_graph *g;
    xcc_node **nodes;  /* by position */
    uint32_t *item_of; /* by position: of a node of the forward its item + 1, 0 for all others */
    uint32_t positions;
    double time; /* of all nodes */
} xcc_forward;

/* Finds the forward in the top-level graph of f->m: what the model's own outputs depend on. Numbers the nodes. */
xcvm_status xcc_forward_find(xcc_forward *f);
/* The item + 1 of the node that makes a value; 0 if it is none of the forward's. */
uint32_t xcc_forward_item_of(const xcc_forward *f, const xcc_value *v);
/* Nanoseconds that a node takes, by estimate: of one core with AVX-512; only how they compare to each other counts. */
double xcc_forward_time_of(const xcc_node *n);

/* Receives proposals: forgotten[i] for each item. It is lent. */
typedef struct xcc_proposals {
    xcvm_status (*take)(void *user, const bool *forgotten);
    void *user;
} xcc_proposals;

/* Chen et al. 2016 (arXiv 1604.06174), algorithm 3: what lies between articulation points, kept about as many bytes
 * apart as the forward has in all over the square root of their number, and some more and less than that. */
xcvm_status xcc_propose_chen(const xcc_forward *f, const xcc_proposals *to);
/* Kusumoto et al. 2019 (arXiv 1905.11722), the approximate dynamic programming over lower sets, for peaks from that of
 * the forward down: the least time for each, or, with `coarse`, the most, which leaves the most to liveness. */
xcvm_status xcc_propose_lower_sets(const xcc_forward *f, bool coarse, const xcc_proposals *to);

/* Puts the nodes of the top-level graph in the order of a list of all of them, and numbers them. */
void xcc_put_in_order(const xcc_module *m, xcc_node *const *nodes, size_t count);
/* Moves to the end what makes nothing but outputs of the program that take more memory than what it reads, as the
 * gradients of large matrices by few rows do. */
void xcc_let_gradients_wait(xcc_graph *g);

/* The pass `recompute`. */
xcvm_status xcc_pass_recompute(xcc_module *m);

#endif
