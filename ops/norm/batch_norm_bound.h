/* Range check of BatchNormalization gradients, shared by the VM's kernel and exported C. */
#ifndef XCVM_OPS_NORM_BATCH_NORM_BOUND_H
#define XCVM_OPS_NORM_BATCH_NORM_BOUND_H

#include <math.h>

/* Returns true if f32 cannot represent the differences from a channel's center, whose squares sum to `squares`, or the
 * slope that multiplies them. Up to the bound, slopes are normal f32 numbers. */
static inline int xcvm_batch_norm_is_wide(double squares, double slope)
{
    const double greatest = 0x1p100;
    return squares > greatest || fabs(slope) > greatest;
}

#endif
