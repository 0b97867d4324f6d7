/* Constant evaluation: computing nodes whose operands are constants. */
#ifndef XCVM_COMPILER_IR_EVALUATE_H
#define XCVM_COMPILER_IR_EVALUATE_H

#include "compiler/ir/graph.h"

/* Results of up to so many bytes that depend on constants alone are computed while a graph is built. */
enum { XCC_FOLDED_BYTES = 512 };

/* A result of more than XCC_LARGE_RATIO times its operands' bytes is not worth its place in the program if it is large.
 */
enum { XCC_LARGE_RATIO = 4 };

typedef struct xcc_evaluator {
    xcc_module *m;
    xcvm_kernel kernel;
    xcvm_error error; /* of kernels: what cannot be computed now is left to the run, which may never come to it */
    uint64_t begun_ns, deadline_ns;
    bool keep; /* operands may get more users yet */
} xcc_evaluator;

/* All evaluation in one module shares a limit of time; end what was begun. */
void xcc_evaluator_begin(xcc_evaluator *e, xcc_module *m, bool keep);
void xcc_evaluator_end(xcc_evaluator *e);
/* Makes constants of the results of an instruction, and removes it, if its operands are constants, it is pure, and its
 * results are worth it; else leaves it as it is. */
void xcc_evaluate_node(xcc_evaluator *e, xcc_node *n);
/* The same for the nodes of `g` behind `after` (NULL: all) whose operands and results have at most `limit` bytes. */
void xcc_fold_behind(xcc_graph *g, xcc_node *after, size_t limit);

#endif
