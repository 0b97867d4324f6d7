/* Putting tensors behind one another along an axis, and cutting them up again; also for sequences of them. */
#ifndef XCVM_OPS_DATA_CONCAT_H
#define XCVM_OPS_DATA_CONCAT_H

#include "ops/util/kernel.h"

/* y, of known shape and with memory, from `count` tensors that each fill a part of y's axis `axis`; or, where y has one
 * more axis than they, one place each. */
xcvm_status xcvm_concat(xcvm_kernel *k, xcvm_value *y, size_t count, const xcvm_value *const *xs, int axis);
/* The other way round: x is cut along axis into `count` pieces of the sizes in `split`, or, if it is NULL, of size
 * `piece` as long as there is enough left. Entries of ys may be NULL, when their piece is skipped. */
xcvm_status xcvm_split(xcvm_kernel *k, size_t count, xcvm_value *const *ys, const xcvm_value *split, int64_t piece,
                       const xcvm_value *x, int axis);

#endif
