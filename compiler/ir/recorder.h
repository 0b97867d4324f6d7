/* A recorder executes each instruction when a builder appends it, and keeps no nodes. So code written for a builder,
 * such as gradient rules, runs eagerly without changes. Values then have elements, and are constants if no gradient can
 * flow to them. */
#ifndef XCVM_COMPILER_IR_RECORDER_H
#define XCVM_COMPILER_IR_RECORDER_H

#include "ops/op.h"

typedef struct xcc_recorder xcc_recorder;
typedef struct xcc_value xcc_value; /* compiler/ir/graph.h */
typedef struct xcc_node xcc_node;
struct xcc_seed; /* compiler/gradients/gradients.h */

struct xcc_recorder {
    xcc_node *node; /* returned by xcc_append for an executed instruction */
    /* All set the module's error and return NULL or a status on failure. Creates a value for a result. */
    xcc_value *(*value)(xcc_recorder *r);
    xcc_value *(*constant)(xcc_recorder *r, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data,
                           size_t bytes);
    xcvm_status (*append)(xcc_recorder *r, xcvm_opcode opcode, const void *args);
    /* Result i of a node, in definition order, that its call did not produce. */
    xcc_value *(*extra_result)(xcc_recorder *r, xcc_node *n, size_t i);
    /* A value like x; the computation built from it is differentiated. */
    xcc_value *(*alias)(xcc_recorder *r, xcc_value *x);
    /* Like xcc_differentiate, for the computation built on aliases. */
    xcvm_status (*differentiate)(xcc_recorder *r, const struct xcc_seed *seeds, size_t seed_count,
                                 xcc_value *const *wrt, size_t count, xcc_value **gradients);
};

#endif
