/* Tensors of any real type as floats, for instructions for which a loop per type is not worthwhile. */
#ifndef XCVM_OPS_UTIL_FLOATS_H
#define XCVM_OPS_UTIL_FLOATS_H

#include "ops/util/kernel.h"

/* Reads elements [begin, begin + count) of a tensor of a real type or bool as floats. */
void xcvm_read_floats(const xcvm_value *tensor, size_t begin, size_t count, float *floats);
/* Writes them. Integers are rounded to nearest even and saturated. */
void xcvm_write_floats(const float *floats, size_t count, xcvm_value *tensor, size_t begin);
/* The same for many elements, with polls between portions. */
xcvm_status xcvm_kernel_read_floats(const xcvm_kernel *k, const xcvm_value *tensor, size_t begin, size_t count,
                                    float *floats);
xcvm_status xcvm_kernel_write_floats(const xcvm_kernel *k, const float *floats, size_t count, xcvm_value *tensor,
                                     size_t begin);
/* Writes one element; f64 keeps its precision. */
void xcvm_write_double(xcvm_value *tensor, size_t index, double value);

#endif
