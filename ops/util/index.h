/* Reading of indices: tensors of I32 or I64 whose negative elements count from the end. */
#ifndef XCVM_OPS_UTIL_INDEX_H
#define XCVM_OPS_UTIL_INDEX_H

#include "ops/util/kernel.h"

static inline int64_t xcvm_index_at(const xcvm_value *indices, size_t i)
{
    return indices->dtype == XCVM_I64 ? XCVM_CDATA(int64_t, indices)[i] : XCVM_CDATA(int32_t, indices)[i];
}

/* Returns the index made non-negative for an axis of `dim`. It must have been checked. */
static inline size_t xcvm_index_wrapped(const xcvm_value *indices, size_t i, int64_t dim)
{
    int64_t index = xcvm_index_at(indices, i);
    return (size_t)(index < 0 ? index + dim : index);
}

/* Fails with OUT_OF_RANGE unless all `count` indices are in [-dim, dim). */
xcvm_status xcvm_indices_check(xcvm_kernel *k, const xcvm_value *indices, const char *what, size_t count, int64_t dim);

/* A tensor viewed around one axis: element (o, i, n) of `outer` x `dim` x `inner`. */
typedef struct xcvm_around {
    size_t outer, dim, inner;
} xcvm_around;
xcvm_around xcvm_around_axis(const xcvm_value *tensor, int axis);

#endif
