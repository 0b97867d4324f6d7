/* ArgMax and ArgMin. */
#ifndef XCVM_OPS_ARG_REDUCTION_H
#define XCVM_OPS_ARG_REDUCTION_H

#include "ops/kernel.h"

/* Index of the greatest (else least) of count > 0 adjacent f32, the first (else last) of equal ones; that of the first
 * NaN if there is one. */
typedef size_t (*xcvm_arg_line)(const float *x, size_t count, bool greatest, bool last);

/* The kernel; `line` serves f32 along the last axis. */
xcvm_status xcvm_arg_reduce(xcvm_kernel *k, xcvm_arg_line line, xcvm_value *y, const xcvm_value *x, int64_t axis,
                            bool greatest, bool last);

#endif
