/* Constant evaluation of nodes whose operands are constants. */
#ifndef XCVM_COMPILER_IR_EVALUATE_H
#define XCVM_COMPILER_IR_EVALUATE_H

#include "compiler/ir/graph.h"

/* Results of up to this many bytes that depend only on constants are computed while a graph is built. */
enum { XCC_FOLDED_BYTES = 512 };

/* A large result is not worth storing if it exceeds its operands' bytes by more than this factor. */
enum { XCC_LARGE_RATIO = 4 };

typedef struct xcc_evaluator {
    xcc_module *m;
    xcvm_kernel kernel;
    xcvm_error error; /* of kernels; a node that cannot be computed now is left to the run, which may never reach it */
    uint64_t begun_ns, deadline_ns;
    bool keep; /* operands may get more users */
} xcc_evaluator;

/* All evaluations of a module share a time limit. Every begin needs an end. */
void xcc_evaluator_begin(xcc_evaluator *e, xcc_module *m, bool keep);
void xcc_evaluator_end(xcc_evaluator *e);
/* Replaces a pure instruction with constant operands by constants, if its results are worth storing. Otherwise leaves
 * it unchanged. */
void xcc_evaluate_node(xcc_evaluator *e, xcc_node *n);
/* The same for the nodes of `g` after `after` (NULL: all) whose operands and results have at most `limit` bytes. */
void xcc_fold_behind(xcc_graph *g, xcc_node *after, size_t limit);

#endif
