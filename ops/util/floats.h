/* Tensors of any real type through float: for instructions whose arithmetic is not worth a loop for each type. */
#ifndef XCVM_OPS_UTIL_FLOATS_H
#define XCVM_OPS_UTIL_FLOATS_H

#include "ops/util/kernel.h"

/* Elements begin .. begin + count of a tensor of a real type or bool, as floats. */
void xcvm_read_floats(const xcvm_value *tensor, size_t begin, size_t count, float *floats);
/* And back: integers are rounded to nearest even and saturated. */
void xcvm_write_floats(const float *floats, size_t count, xcvm_value *tensor, size_t begin);
/* Reading and writing of many elements, which poll between portions. */
xcvm_status xcvm_kernel_read_floats(const xcvm_kernel *k, const xcvm_value *tensor, size_t begin, size_t count,
                                    float *floats);
xcvm_status xcvm_kernel_write_floats(const xcvm_kernel *k, const float *floats, size_t count, xcvm_value *tensor,
                                     size_t begin);
/* One element, which keeps its precision where the tensor is f64. */
void xcvm_write_double(xcvm_value *tensor, size_t index, double value);

#endif
