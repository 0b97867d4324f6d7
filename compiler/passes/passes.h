/* The passes of a compilation, in the order of the table in passes.c. Each leaves a graph that xcc_graph_check accepts.
 */
#ifndef XCVM_COMPILER_PASSES_H
#define XCVM_COMPILER_PASSES_H

#include "compiler/ir/graph.h"

#define XCC_PASSES(X)                                                                                                  \
    X(canonicalise, "values that bodies take from enclosing graphs are listed on the node; unused nodes go")           \
    X(infer, "types and shapes of every value, symbols where sizes are open")                                          \
    X(simplify, "local rewrites: identities, double transposes, reshapes of reshapes, arithmetic with 0 and 1")        \
    X(merge, "neighbouring nodes that one instruction can do, as Conv with BatchNormalization and Add")                \
    X(fold, "what depends on constants alone is computed now, by the machine's own kernels")                           \
    X(pack, "constant matrices as products by them need them in memory")                                               \
    X(block, "convolutions, and what stands between them, on channels in blocks of 16 where that pays")                \
    X(narrow, "weights that were packed, and embeddings, in fewer bits: large matrices, or as asked for")              \
    X(schedule, "the order of nodes, chosen for little memory")                                                        \
    X(fuse, "element-wise neighbours become one function each of a kernel library, if one is asked for")

#define XCC_PASS(name, sentence) xcvm_status xcc_pass_##name(xcc_module *m);
XCC_PASSES(XCC_PASS)
#undef XCC_PASS

/* Runs the passes that the options ask for; those that make work for each other several times. */
xcvm_status xcc_passes_run(xcc_module *m);
/* How far a compilation has come, for options->progress; `step` out of passes, import, plan and emission. */
void xcc_progress(const xcc_module *m, const char *what, size_t step);

/* What stands before and after the passes. */

/* Computes the nodes of `g` behind `after` (NULL: all) whose operands are constants, if operands and results have at
 * most `limit` bytes. So the import knows shapes that the model computes. */
void xcc_fold_behind(xcc_graph *g, xcc_node *after, size_t limit);

/* Parses an ONNX ModelProto and lowers it, node by node, to a module of instructions (import.c; one file of lowerings
 * for each family). `dir` is the folder that external data is confined to; NULL refuses it. Unsupported nodes are all
 * collected before it fails, one per line in the message as far as it reaches; `report` (may be NULL) gets all of them.
 */
xcvm_status xcc_import(xcc_module *m, const void *model, size_t count, const char *dir, xcvm_sink report, void *user);

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
