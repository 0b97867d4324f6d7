/* Local rewrites: rules that match a node and its producers and replace them by something better. */
#ifndef XCVM_COMPILER_PASSES_REWRITE_H
#define XCVM_COMPILER_PASSES_REWRITE_H

#include "compiler/passes/passes.h"
#include "compiler/ir/builder.h"

typedef struct xcc_rewrite {
    xcc_module *m;
    xcvm_status status; /* first failure, which ends the pass */
} xcc_rewrite;

/* Returns true if it changed something. The caller removes a node whose results were all replaced. Rules only look at
 * producers, so one traversal in execution order also sees the opportunities that it creates. */
typedef bool (*xcc_rule_function)(xcc_rewrite *r, xcc_node *n);
typedef struct xcc_rule {
    xcvm_opcode opcode;
    xcc_rule_function apply;
    const char *summary;
} xcc_rule;

/* Applies the rules to all nodes of the module until nothing changes or the traversal limit is reached. `control` (may
 * be NULL) is for control-flow nodes. */
xcvm_status xcc_rewrite_run(xcc_module *m, const xcc_rule *rules, size_t count, xcc_rule_function control);

/* ---- Helpers for rules ---- */

/* A builder that inserts before `n` and uses its names. */
static inline xcc_builder xcc_builder_before(xcc_node *n) { return (xcc_builder){n->graph, n, n->name, n->origin}; }
/* Replaces `old` by `v`. Both are equal, so knowledge about either applies to the other. NULL, a failure to build it,
 * is recorded. Returns true on success. */
bool xcc_rewrite_replace(xcc_rewrite *r, xcc_value *old, xcc_value *v);
/* Records a failure if `status` is one. Returns true if it is OK. */
bool xcc_rewrite_ok(xcc_rewrite *r, xcvm_status status);
/* Removes an unused node and producers that only it used. Constants with separate memory release it. */
void xcc_rewrite_sweep(xcc_node *n);

/* Returns the producer of `v` if it is that instruction. */
xcc_node *xcc_producer(const xcc_value *v, xcvm_opcode opcode);
/* Returns true if v has one use, by a node of its own graph, because a computation outside a body must not move into
 * it. */
bool xcc_used_once(const xcc_value *v);
/* Returns the producer if v is used once, so that it can be replaced together with its user. */
xcc_node *xcc_sole_producer(const xcc_value *v, xcvm_opcode opcode);
/* Returns true if both certainly have the same element type and shape. */
bool xcc_same_type(const xcc_value *a, const xcc_value *b);
bool xcc_is_float(const xcc_value *v);
/* Reads a constant of one element and any rank. */
bool xcc_number(const xcc_value *v, double *number);
/* Returns true for a constant of one element that equals `number` rounded to its type. */
bool xcc_is_number(const xcc_value *v, double number);
/* Reads the integers of a constant of at most `capacity` elements. Returns their count, or -1. */
int xcc_integers(const xcc_value *v, int64_t *ints, int capacity);
/* Returns true if all integers of an attribute equal `number`. */
bool xcc_all_are(xcvm_ints ints, int64_t number);
/* For two operands: returns true if one is a number, with the other one in *other. */
bool xcc_split_number(xcc_value *a, xcc_value *b, xcc_value **other, double *number);
/* Size of dimension `axis`, negative from the end; XCVM_ANY_DIM if it does not exist. */
int64_t xcc_dim_of(const xcc_value *v, int axis);

/* The rules of simplify, by subject. */
extern const xcc_rule xcc_rules_shapes[], xcc_rules_arithmetic[], xcc_rules_patterns[], xcc_rules_windows[];
extern const size_t xcc_rules_shapes_count, xcc_rules_arithmetic_count, xcc_rules_patterns_count;
extern const size_t xcc_rules_windows_count;
bool xcc_rule_control(xcc_rewrite *r, xcc_node *n);
/* Merges nodes that compute the same. */
xcvm_status xcc_cse(xcc_module *m);

#endif
