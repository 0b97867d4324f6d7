/* Spatial axes over which instructions compute on blocked channels. Shape rules refuse other numbers of axes; the pass
 * `layout` (compiler/layout) converts only nodes whose number is accepted here. */
#ifndef XCVM_OPS_CONV_BLOCKED_AXES_H
#define XCVM_OPS_CONV_BLOCKED_AXES_H

#include "ops/conv/blocked.h"

enum { XCVM_BLOCKED_LEAST_AXES = 1, XCVM_BLOCKED_MOST_AXES = 3 };

/* True if instruction `op` accepts blocked tensors with that many spatial axes, for some algorithm. Instructions that
 * are made for plain tensors accept blocked ones as tensors with one more axis. */
static inline bool xcvm_blocked_takes_axes(xcvm_opcode op, int axes)
{
    return op == XCVM_OP_BlockedConvTranspose ? axes == 2
                                              : axes >= XCVM_BLOCKED_LEAST_AXES && axes <= XCVM_BLOCKED_MOST_AXES;
}

/* Likewise for an algorithm of BlockedConv. */
static inline bool xcvm_blocked_conv_takes_axes(int algorithm, int axes)
{
    switch (algorithm) {
    case XCVM_BLOCKED_winograd_untransformed:
    case XCVM_BLOCKED_winograd_strided:
        return axes == 2;
    case XCVM_BLOCKED_winograd:
        return axes == 2 || axes == 3;
    default:
        return xcvm_blocked_takes_axes(XCVM_OP_BlockedConv, axes);
    }
}

/* True for the rank of a blocked tensor that `op` accepts. */
static inline bool xcvm_blocked_takes_rank(xcvm_opcode op, int rank) { return xcvm_blocked_takes_axes(op, rank - 3); }

#endif
