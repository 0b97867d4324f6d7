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
    X(canonicalize, 0, 1, "lists values that bodies read from enclosing graphs on the node; removes unused nodes")     \
    X(infer, 0, XCC_ROUNDS, "infers the type and shape of each value; unknown sizes are symbols")                      \
    X(add_loss, 0, 1, "adds the loss that is named by the options, if no output has this name")                        \
    X(differentiate, 0, 1, "adds the gradients of a loss as outputs (--backprop)")                                     \
    X(train, 0, 1, "makes a training program: parameters become states that an optimizer updates (--train)")           \
    X(integer, 2, 1, "computes quantized operators on integers, in regions without floats in between")                 \
    X(simplify, 1, XCC_ROUNDS,                                                                                         \
      "applies local rewrites: identities, double transposes, nested reshapes, arithmetic with 0 and 1")               \
    X(fuse_sgd, 2, XCC_ROUNDS, "replaces a written-out step of gradient descent by an update in place")                \
    X(factor_gradients, 2, XCC_ROUNDS, "passes low-rank gradients to optimizers as two factors")                       \
    X(fuse_ops, 2, XCC_ROUNDS,                                                                                         \
      "fuses neighboring nodes into one instruction, such as Conv, BatchNormalization and Add")                        \
    X(fold, 1, XCC_ROUNDS, "computes nodes whose operands are constants, with the VM's kernels")                       \
    X(split_phases, 0, 1, "keeps only the forward or the backward phase (--two-phase)")                                \
    X(prepack, 2, 1, "packs constant matrices in the layout that the kernels read")                                    \
    X(layout, 2, 1, "stores tensors of convolutions in blocks of 16 channels where that is faster")                    \
    X(compute, 0, 1, "rounds operands of products to bf16, with sums in f32 (--compute bf16)")                         \
    X(compress_weights, 0, 1,                                                                                          \
      "stores packed weights and embeddings in fewer bits: large matrices, or as --weights says")                      \
    X(sink_updates, 0, 1, "moves updates of states to the end, and copies operands that they would overwrite")         \
    X(schedule, 0, 1, "orders nodes for a low peak of memory")                                                         \
    X(recompute, 0, 1, "recomputes forward results in the backward pass to save memory (--recompute)")                 \
    X(codegen, 0, 1, "compiles groups of element-wise nodes to functions of a kernel library (--kernel-library)")

/* Runs the passes that the options select. */
xcvm_status xcc_passes_run(xcc_module *m);
/* Reports progress to options->progress; `step` counts import, passes, plan and emission. */
void xcc_module_progress(const xcc_module *m, const char *what, size_t step);

#endif
