/* Type and shape inference for stages before the passes, in rounds of simplification. */
#include "compiler/passes/passes.h"

xcvm_status xcc_pass_infer(xcc_module *m) { return xcc_graph_infer(m->graph); }

xcvm_status xcc_infer_ahead(xcc_module *m)
{
    uint64_t before;
    int round = 0;
    XCVM_TRY(xcc_pass_canonicalize(m));
    do {
        before = m->changes;
        XCVM_TRY(xcc_pass_infer(m));
        XCVM_TRY(xcc_pass_simplify(m));
        XCVM_TRY(xcc_pass_canonicalize(m));
    } while (m->changes != before && ++round < XCC_ROUNDS);
    return XCVM_OK;
}
