/* The passes of a compilation. Each leaves a graph that xcc_graph_verify accepts. */
#ifndef XCVM_COMPILER_PASSES_PASSES_H
#define XCVM_COMPILER_PASSES_PASSES_H

#include "compiler/ir/graph.h"

/* What simplifying, fusing and folding find out lets more be inferred, simplified and so on; this often at most. */
enum { XCC_ROUNDS = 4 };

/* X(name, level, rounds, summary): xcc_pass_<name>, the least options->optimization that has it, and in how many
 * rounds it may run; in the order in which they run. From the first pass of more than one round to the last they are
 * one round, which is repeated until it changes nothing.
 *
 * Differentiation runs in the first round alone: its rules need types and shapes, and see instructions before anything
 * is fused, packed or laid out in blocks. */
#define XCC_PASSES(X)                                                                                                  \
    X(canonicalise, 0, 1, "values that bodies take from enclosing graphs are listed on the node; unused nodes go")     \
    X(infer, 0, XCC_ROUNDS, "types and shapes of every value, symbols where sizes are open")                           \
    X(add_loss, 0, 1, "a loss of a name that is no output becomes one, for gradients and training")                    \
    X(differentiate, 0, 1, "gradients of a loss by parameters become outputs, if they are asked for")                  \
    X(train, 0, 1, "a training program, if one is asked for: parameters become states that an optimizer updates")      \
    X(integer, 2, 1, "what is quantised and dequantised around each operator, in integers from end to end")            \
    X(simplify, 1, XCC_ROUNDS,                                                                                         \
      "local rewrites: identities, double transposes, reshapes of reshapes, arithmetic with 0 and 1")                  \
    X(descend, 2, XCC_ROUNDS,                                                                                          \
      "states that are stored as themselves, less a rate times a gradient, are updated in place")                      \
    X(factor, 2, XCC_ROUNDS, "optimizers take gradients that are products of few terms as their factors")              \
    X(fuse_ops, 2, XCC_ROUNDS,                                                                                         \
      "neighbouring nodes that one instruction can do, as Conv with BatchNormalization and Add")                       \
    X(fold, 1, XCC_ROUNDS, "what depends on constants alone is computed now, by the machine's own kernels")            \
    X(split_phases, 0, 1, "of forward and backward, the one that is asked for alone")                                  \
    X(prepack, 2, 1, "constant matrices as products by them need them in memory")                                      \
    X(layout, 2, 1, "convolutions, and what stands between them, on channels in blocks of 16 where that pays")         \
    X(compute, 0, 1, "products in bf16 with sums in f32, if they are asked for")                                       \
    X(compress_weights, 0, 1,                                                                                          \
      "weights that were packed, and embeddings, in fewer bits: large matrices, or as asked for")                      \
    X(separate, 0, 1, "what updates states in place comes last, and reads none of them under another name")            \
    X(schedule, 0, 1, "the order of nodes, chosen for little memory")                                                  \
    X(recompute, 0, 1, "what the backward reads of the forward is computed again, as far as that is asked for")        \
    X(codegen, 0, 1, "element-wise neighbours become one function each of a kernel library, if one is asked for")

#define XCC_PASS(name, level, rounds, summary) xcvm_status xcc_pass_##name(xcc_module *m);
XCC_PASSES(XCC_PASS)
#undef XCC_PASS

/* Runs the passes that the options ask for; those that make work for each other several times. */
xcvm_status xcc_passes_run(xcc_module *m);
/* How far a compilation has come, for options->progress; `step` out of passes, import, plan and emission. */
void xcc_progress(const xcc_module *m, const char *what, size_t step);

/* The stages before and after the passes. */

/* Infers types and shapes as far as rounds of simplifying tell more, for stages that need them before the passes. */
xcvm_status xcc_infer_ahead(xcc_module *m);

/* Arena slots for the module (plan.c): for each value id an offset and size; bytes 0 where the size is open or the
 * value lives in or around control flow. */
typedef struct xcc_plan {
    struct {
        uint64_t offset, bytes;
    } * slots; /* module->value_count entries */
    uint64_t arena_bytes;
    uint64_t lower_bound; /* most bytes live at once */
} xcc_plan;
xcvm_status xcc_plan_make(xcc_module *m, xcc_plan *plan);

/* Writes the program (emit.c): registers, In, Out, Free, jumps for control flow, constants. */
xcvm_status xcc_emit_program(xcc_module *m, const xcc_plan *plan, xcvm_sink sink, void *user);

#endif
