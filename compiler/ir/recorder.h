/* A recorder executes each instruction when a builder appends it, and keeps no node of it: builders of a module that
 * has one compute. So whatever is written for a builder, the rules of gradients above all, runs eagerly as it is.
 * Values then have elements, and are constants where no gradient can flow to them. */
#ifndef XCVM_COMPILER_IR_RECORDER_H
#define XCVM_COMPILER_IR_RECORDER_H

#include "ops/op.h"

typedef struct xcc_recorder xcc_recorder;
typedef struct xcc_value xcc_value; /* compiler/ir/graph.h */
typedef struct xcc_node xcc_node;
struct xcc_seed; /* compiler/gradients/gradients.h */

struct xcc_recorder {
    xcc_node *node; /* what xcc_append gives for what it has executed */
    /* All fill the module's error and give NULL or a status when they fail. A value that is to be a result. */
    xcc_value *(*value)(xcc_recorder *r);
    xcc_value *(*constant)(xcc_recorder *r, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data,
                           size_t bytes);
    xcvm_status (*append)(xcc_recorder *r, xcvm_opcode opcode, const void *args);
    /* Result i of a node, counted in row order, which its call did not give. */
    xcc_value *(*extra_result)(xcc_recorder *r, xcc_node *n, size_t i);
    /* A value like x, of which what is built from here on is differentiated. */
    xcc_value *(*stand_in)(xcc_recorder *r, xcc_value *x);
    /* As xcc_differentiate, of what was built on stand-ins. */
    xcvm_status (*differentiate)(xcc_recorder *r, const struct xcc_seed *seeds, size_t seed_count,
                                 xcc_value *const *wrt, size_t count, xcc_value **gradients);
};

#endif
