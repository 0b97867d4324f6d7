/* Operator fusion: merges adjacent nodes that one instruction can compute. The rules are in fuse_ops_*.c. Intermediate
 * values must have a single use, so that nothing is computed twice. */
#include "compiler/passes/fuse_ops.h"

xcvm_status xcc_pass_fuse_ops(xcc_module *m)
{
    XCVM_TRY(xcc_rewrite_run(m, xcc_rules_pads, xcc_rules_pads_count, NULL));
    XCVM_TRY(xcc_rewrite_run(m, xcc_rules_attention, xcc_rules_attention_count, NULL));
    XCVM_TRY(xcc_rewrite_run(m, xcc_rules_blocks, xcc_rules_blocks_count, NULL));
    XCVM_TRY(xcc_rewrite_run(m, xcc_rules_products, xcc_rules_products_count, NULL));
    /* Scaling is merged into weights before epilogues, which prevent that. */
    XCVM_TRY(xcc_rewrite_run(m, xcc_rules_affine, xcc_rules_affine_count, NULL));
    return xcc_rewrite_run(m, xcc_rules_epilogues, xcc_rules_epilogues_count, NULL);
}
