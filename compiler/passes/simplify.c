/* The pass simplify: local rewrites that reduce work. The rules are in simplify_*.c. */
#include "compiler/passes/rewrite.h"

xcvm_status xcc_pass_simplify(xcc_module *m)
{
    XCVM_TRY(xcc_rewrite_run(m, xcc_rules_shapes, xcc_rules_shapes_count, xcc_rule_control));
    XCVM_TRY(xcc_cse(m));
    XCVM_TRY(xcc_rewrite_run(m, xcc_rules_arithmetic, xcc_rules_arithmetic_count, NULL));
    XCVM_TRY(xcc_rewrite_run(m, xcc_rules_patterns, xcc_rules_patterns_count, NULL));
    return xcc_rewrite_run(m, xcc_rules_windows, xcc_rules_windows_count, NULL);
}
