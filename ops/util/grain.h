/* The grain of a parallel loop. */
#ifndef XCVM_OPS_UTIL_GRAIN_H
#define XCVM_OPS_UTIL_GRAIN_H

#include <stddef.h>

/* The number of items that a thread takes at least, so that they are worth `work` in the unit of `each`, the work of
 * one item. It is 0 where operands are empty. */
static inline size_t xcvm_grain(double work, double each)
{
    return each > work ? 1 : (size_t)(work / (each + 1.0)) + 1;
}

#endif
