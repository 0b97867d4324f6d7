/* The table of passes and the loop that runs them. */
#ifndef XCVM_COMPILER_DRIVER_PASS_TABLE_H
#define XCVM_COMPILER_DRIVER_PASS_TABLE_H

#include "compiler/passes/passes.h"

/* X(name, level, rounds, summary): xcc_pass_<name>, its minimum optimization level and its maximum number of rounds, in
 * order of execution. The passes from the first to the last with several rounds are repeated until nothing changes.
 *
 * Differentiation runs in the first round only: its rules need types and shapes, and see instructions before fusion,
 * packing and layout. */
#define XCC_PASSES(X)                                                                                                  \
    X(canonicalize, 0, 1, "values that bodies take from enclosing graphs are listed on the node; unused nodes go")     \
    X(infer, 0, XCC_ROUNDS, "types and shapes of every value, symbols where sizes are open")                           \
    X(add_loss, 0, 1, "a loss of a name that is no output becomes one, for gradients and training")                    \
    X(differentiate, 0, 1, "gradients of a loss by parameters become outputs, if they are asked for")                  \
    X(train, 0, 1, "a training program, if one is asked for: parameters become states that an optimizer updates")      \
    X(integer, 2, 1, "what is quantized and dequantized around each operator, in integers from end to end")            \
    X(simplify, 1, XCC_ROUNDS,                                                                                         \
      "local rewrites: identities, double transposes, reshapes of reshapes, arithmetic with 0 and 1")                  \
    X(fuse_sgd, 2, XCC_ROUNDS,                                                                                         \
      "states that are stored as themselves, less a rate times a gradient, are updated in place")                      \
    X(factor_gradients, 2, XCC_ROUNDS, "optimizers take gradients that are products of few terms as their factors")    \
    X(fuse_ops, 2, XCC_ROUNDS,                                                                                         \
      "neighboring nodes that one instruction can do, as Conv with BatchNormalization and Add")                        \
    X(fold, 1, XCC_ROUNDS, "what depends on constants alone is computed now, by the machine's own kernels")            \
    X(split_phases, 0, 1, "of forward and backward, the one that is asked for alone")                                  \
    X(prepack, 2, 1, "constant matrices as products by them need them in memory")                                      \
    X(layout, 2, 1, "convolutions, and what stands between them, on channels in blocks of 16 where that pays")         \
    X(compute, 0, 1, "products in bf16 with sums in f32, if they are asked for")                                       \
    X(compress_weights, 0, 1,                                                                                          \
      "weights that were packed, and embeddings, in fewer bits: large matrices, or as asked for")                      \
    X(sink_updates, 0, 1, "what updates states in place comes last, and reads none of them under another name")        \
    X(schedule, 0, 1, "the order of nodes, chosen for little memory")                                                  \
    X(recompute, 0, 1, "what the backward reads of the forward is computed again, as far as that is asked for")        \
    X(codegen, 0, 1, "element-wise neighbors become one function each of a kernel library, if one is asked for")

/* Runs the passes that the options select. */
xcvm_status xcc_passes_run(xcc_module *m);
/* Reports progress to options->progress; `step` counts import, passes, plan and emission. */
void xcc_module_progress(const xcc_module *m, const char *what, size_t step);

#endif
