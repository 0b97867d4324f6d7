/* Iteration over indices of elements. */
#ifndef XCVM_OPS_DATA_SIMD_GATHER_ELEMENTS_H
#define XCVM_OPS_DATA_SIMD_GATHER_ELEMENTS_H

#include "ops/data/gather.h"

/* Called for indices [first, first + count), whose elements of x are at `offsets`. */
typedef void (*xcvm_elementwise_body)(const void *context, size_t first, size_t count, const ptrdiff_t *offsets);
/* Iterates over indices [begin, end) in order, some hundreds at a time. Polls. Fails with OUT_OF_RANGE at an invalid
 * index; xcvm_indices_check gives the detailed message. */
#define xcvm_elementwise_run XCVM_PER_ISA(xcvm_elementwise_run)
xcvm_status xcvm_elementwise_run(const xcvm_kernel *k, const xcvm_elementwise *e, size_t begin, size_t end,
                                 xcvm_elementwise_body body, const void *context);

#endif
