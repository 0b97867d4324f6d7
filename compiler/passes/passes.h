/* Passes that rewrite a graph. Each leaves a graph that xcc_graph_verify accepts. */
#ifndef XCVM_COMPILER_PASSES_PASSES_H
#define XCVM_COMPILER_PASSES_PASSES_H

#include "compiler/ir/graph.h"

/* Maximum rounds of simplification, fusion and folding, each of which may enable the others. */
enum { XCC_ROUNDS = 4 };

xcvm_status xcc_pass_canonicalize(xcc_module *m);
xcvm_status xcc_pass_infer(xcc_module *m);
xcvm_status xcc_pass_integer(xcc_module *m);
xcvm_status xcc_pass_simplify(xcc_module *m);
xcvm_status xcc_pass_fuse_sgd(xcc_module *m);
xcvm_status xcc_pass_factor_gradients(xcc_module *m);
xcvm_status xcc_pass_fuse_ops(xcc_module *m);
xcvm_status xcc_pass_fold(xcc_module *m);
xcvm_status xcc_pass_split_phases(xcc_module *m);
xcvm_status xcc_pass_prepack(xcc_module *m);
xcvm_status xcc_pass_compute(xcc_module *m);
xcvm_status xcc_pass_compress_weights(xcc_module *m);
xcvm_status xcc_pass_schedule(xcc_module *m);

/* Infers types and shapes in rounds of simplification, for stages before the passes (infer.c). */
xcvm_status xcc_infer_ahead(xcc_module *m);

#endif
