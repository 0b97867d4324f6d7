/* Losses and functions for the tape, with DyNet's names. Part of libxcvm-compiler; the conventions of tape.h apply. */
#ifndef XCVM_FUNCTIONS_H
#define XCVM_FUNCTIONS_H

#include "tape.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -log(softmax(scores)[target]) over the last axis: [classes] and a rank-0 index, or [batch, classes] and [batch]. */
XCVM_API xcvm_var xcvm_tape_pick_neg_log_softmax(xcvm_tape *tape, xcvm_var scores, xcvm_var target);
/* b + W1 x1 + W2 x2 ... `terms` are b, W1, x1, ..., an odd number. */
XCVM_API xcvm_var xcvm_tape_affine_transform(xcvm_tape *tape, size_t count, const xcvm_var *terms);
/* Sum over i != target of max(0, margin - scores[target] + scores[i]); scores [classes], target of rank 0. */
XCVM_API xcvm_var xcvm_tape_hinge(xcvm_tape *tape, xcvm_var scores, xcvm_var target, double margin);
/* Returns x; multiplies its gradient by `scale`. */
XCVM_API xcvm_var xcvm_tape_scale_gradient(xcvm_tape *tape, xcvm_var x, double scale);

#ifdef __cplusplus
}
#endif

#endif
