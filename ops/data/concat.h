/* Concatenation of tensors on an axis and splitting; also for sequences. */
#ifndef XCVM_OPS_DATA_CONCAT_H
#define XCVM_OPS_DATA_CONCAT_H

#include "ops/util/kernel.h"

/* Concatenates `count` tensors into y, of known shape and with memory, on y's axis `axis`. If y has one more axis than
 * they, stacks them. */
xcvm_status xcvm_concat(xcvm_kernel *k, xcvm_value *y, size_t count, const xcvm_value *const *xs, int axis);
/* The inverse: splits x on `axis` into `count` pieces of the sizes in `split` or, if it is NULL, of size `piece`, the
 * last one possibly smaller. NULL entries of ys skip their piece. */
xcvm_status xcvm_split(xcvm_kernel *k, size_t count, xcvm_value *const *ys, const xcvm_value *split, int64_t piece,
                       const xcvm_value *x, int axis);

#endif
