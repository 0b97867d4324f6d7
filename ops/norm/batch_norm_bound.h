/* Where a gradient of BatchNormalization is beyond f32; the machine's kernel and exported C have it of here. */
#ifndef XCVM_OPS_NORM_BATCH_NORM_BOUND_H
#define XCVM_OPS_NORM_BATCH_NORM_BOUND_H

#include <math.h>

/* Whether f32 does not have the differences from a channel's center, whose squares add up to `squares`, or the slope
 * that they are multiplied by. Differences of at most the root of the bound have slopes that f32 has as normal numbers.
 */
static inline int xcvm_batch_norm_is_wide(double squares, double slope)
{
    const double greatest = 0x1p100;
    return squares > greatest || fabs(slope) > greatest;
}

#endif
