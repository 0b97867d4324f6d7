/* Operator fusion: neighbors that one instruction can do. The rules are in fuse_ops_*.c; a value in between must have
 * one use only, so that nothing is computed twice. */
#include "compiler/passes/fuse_ops.h"

xcvm_status xcc_pass_fuse_ops(xcc_module *m)
{
    XCVM_TRY(xcc_rewrite_run(m, xcc_rules_pads, xcc_rules_pads_count, NULL));
    XCVM_TRY(xcc_rewrite_run(m, xcc_rules_attention, xcc_rules_attention_count, NULL));
    XCVM_TRY(xcc_rewrite_run(m, xcc_rules_blocks, xcc_rules_blocks_count, NULL));
    XCVM_TRY(xcc_rewrite_run(m, xcc_rules_products, xcc_rules_products_count, NULL));
    /* Weights take up what they can before epilogues close an instruction to them. */
    XCVM_TRY(xcc_rewrite_run(m, xcc_rules_affine, xcc_rules_affine_count, NULL));
    return xcc_rewrite_run(m, xcc_rules_epilogues, xcc_rules_epilogues_count, NULL);
}
