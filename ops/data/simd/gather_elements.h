/* Walks over indices that stand for an element each. */
#ifndef XCVM_OPS_DATA_SIMD_GATHER_ELEMENTS_H
#define XCVM_OPS_DATA_SIMD_GATHER_ELEMENTS_H

#include "ops/data/gather.h"

/* What is done with indices [first, first + count): the elements of x at `offsets` are theirs. */
typedef void (*xcvm_elementwise_body)(const void *context, size_t first, size_t count, const ptrdiff_t *offsets);
/* For indices [begin, end), in their order and some hundreds at a time. Polls; OUT_OF_RANGE, of which
 * xcvm_indices_check tells more, at an index that is in no range. */
#define xcvm_elementwise_run XCVM_PER_ISA(xcvm_elementwise_run)
xcvm_status xcvm_elementwise_run(const xcvm_kernel *k, const xcvm_elementwise *e, size_t begin, size_t end,
                                 xcvm_elementwise_body body, const void *context);

#endif
