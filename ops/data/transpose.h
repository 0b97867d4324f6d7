/* Definitions that the shape rule and the kernel of Transpose share. */
#ifndef XCVM_OPS_DATA_TRANSPOSE_H
#define XCVM_OPS_DATA_TRANSPOSE_H

#include "ops/util/shape.h"

/* The axis of x that becomes axis i of the result: from perm, or reversed if perm is empty. */
static inline int xcvm_transposed_axis(const xcvm_Transpose_args *a, int rank, int i)
{
    return a->perm.count == 0 ? rank - 1 - i : (int)a->perm.at[i];
}

#endif
