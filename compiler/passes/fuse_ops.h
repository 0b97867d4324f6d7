/* Rewrite rules of the pass fuse_ops, by subject. */
#ifndef XCVM_COMPILER_PASSES_FUSE_OPS_H
#define XCVM_COMPILER_PASSES_FUSE_OPS_H

#include "compiler/passes/rewrite.h"

extern const xcc_rule xcc_rules_affine[], xcc_rules_products[], xcc_rules_epilogues[], xcc_rules_pads[];
extern const size_t xcc_rules_affine_count, xcc_rules_products_count, xcc_rules_epilogues_count, xcc_rules_pads_count;
extern const xcc_rule xcc_rules_attention[], xcc_rules_blocks[];
extern const size_t xcc_rules_attention_count, xcc_rules_blocks_count;

/* Returns the activation that an instruction computes, with its parameters in definition order; XCVM_ACTIVATION_none if
 * it cannot be fused. */
enum { XCC_MOST_PARAMS = 2 };
int xcc_activation_of(const xcc_node *n, double params[XCC_MOST_PARAMS], size_t *count);

#endif
