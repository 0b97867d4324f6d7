/* The rules of merge, by subject. */
#ifndef XCVM_COMPILER_MERGE_RULES_H
#define XCVM_COMPILER_MERGE_RULES_H

#include "compiler/rewrite.h"

extern const xcc_rule xcc_rules_affine[], xcc_rules_products[], xcc_rules_epilogues[], xcc_rules_pads[];
extern const size_t xcc_rules_affine_count, xcc_rules_products_count, xcc_rules_epilogues_count, xcc_rules_pads_count;

#endif
