/* The grain of a parallel loop. */
#ifndef XCVM_OPS_UTIL_GRAIN_H
#define XCVM_OPS_UTIL_GRAIN_H

#include <stddef.h>

/* Minimum number of items per thread so that they amount to `work`, if one item is `each`. Handles each = 0 for empty
 * operands. */
static inline size_t xcvm_grain(double work, double each)
{
    return each > work ? 1 : (size_t)(work / (each + 1.0)) + 1;
}

#endif
