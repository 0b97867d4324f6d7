/* Local rewrites: rules that look at one node and what feeds it, and put something better in its place. */
#ifndef XCVM_COMPILER_PASSES_REWRITE_H
#define XCVM_COMPILER_PASSES_REWRITE_H

#include "compiler/passes/passes.h"
#include "compiler/ir/builder.h"

typedef struct xcc_rewrite {
    xcc_module *m;
    xcvm_status status; /* of the first failure, which ends the pass */
} xcc_rewrite;

/* Returns whether it changed anything. A node whose results were all replaced is removed by the caller. Rules only look
 * back, at what feeds the node, so that one walk in order of execution sees every chance that it makes itself. */
typedef bool (*xcc_rule_function)(xcc_rewrite *r, xcc_node *n);
typedef struct xcc_rule {
    xcvm_opcode opcode;
    xcc_rule_function apply;
    const char *summary;
} xcc_rule;

/* Applies the rules to all nodes of the module, until nothing changes or the walks get too many; `control` (may be
 * NULL) is for control-flow nodes. */
xcvm_status xcc_rewrite_run(xcc_module *m, const xcc_rule *rules, size_t count, xcc_rule_function control);

/* ---- For rules ---- */

/* New nodes stand before `n` and bear its name. */
static inline xcc_builder xcc_builder_before(xcc_node *n) { return (xcc_builder){n->graph, n, n->name, n->origin}; }
/* Puts `v` in the place of `old`; both are the same, so what is known of the one is of the other. NULL (a failure to
 * make it) is noted. Returns whether it was done. */
bool xcc_rewrite_replace(xcc_rewrite *r, xcc_value *old, xcc_value *v);
/* Notes a failure if `status` is one. Returns whether it is OK. */
bool xcc_rewrite_ok(xcc_rewrite *r, xcvm_status status);
/* Removes a node that nobody needs, and those that fed it alone; constants that had memory of their own for them give
 * it back. */
void xcc_rewrite_sweep(xcc_node *n);

/* The producer of `v` if it is that instruction. */
xcc_node *xcc_producer(const xcc_value *v, xcvm_opcode opcode);
/* Whether v has one use, by a node of its own graph: what is computed outside of a body must not move into it. */
bool xcc_used_once(const xcc_value *v);
/* The producer if v is used once, so that it can be replaced together with its user. */
xcc_node *xcc_sole_producer(const xcc_value *v, xcvm_opcode opcode);
/* Tensors of one element type and one shape, as far as is known for certain. */
bool xcc_same_type(const xcc_value *a, const xcc_value *b);
bool xcc_is_float(const xcc_value *v);
/* A constant of one element, of any rank. */
bool xcc_number(const xcc_value *v, double *number);
/* Whether it is a constant of one element that equals `number` to within rounding to its own type. */
bool xcc_is_number(const xcc_value *v, double number);
/* The integers of a constant of at most `capacity` elements; their count, or -1. */
int xcc_integers(const xcc_value *v, int64_t *ints, int capacity);
/* Whether all of an attribute's integers are `number`. */
bool xcc_all_are(xcvm_ints ints, int64_t number);
/* For a node of two operands: true if one is a number, *other the other one. */
bool xcc_split_number(xcc_value *a, xcc_value *b, xcc_value **other, double *number);
/* Size of dimension `axis`, counted from the end if below 0; XCVM_ANY_DIM if there is no such. */
int64_t xcc_dim_of(const xcc_value *v, int axis);

/* The rules of simplify, by subject. */
extern const xcc_rule xcc_rules_shapes[], xcc_rules_arithmetic[], xcc_rules_patterns[], xcc_rules_windows[];
extern const size_t xcc_rules_shapes_count, xcc_rules_arithmetic_count, xcc_rules_patterns_count;
extern const size_t xcc_rules_windows_count;
bool xcc_rule_control(xcc_rewrite *r, xcc_node *n);
/* Nodes that compute the same become one. */
xcvm_status xcc_cse(xcc_module *m);

#endif
