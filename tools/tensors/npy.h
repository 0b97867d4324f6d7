/* NumPy's array files: versions 1 to 3 of https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef XCVM_TOOLS_NPY_H
#define XCVM_TOOLS_NPY_H

#include <xcvm/xcvm.h>

/* Makes a tensor of the bytes of a file. Both byte orders and both element orders are read; text arrays (U and S)
 * become strings. `wanted` says which element type bytes without one are (V1 and V2, as NumPy stores bfloat16, float8
 * and types of fewer than 8 bits); XCVM_NO_DTYPE: V2 is bf16, and V1 is refused. */
xcvm_status npy_read(const void *bytes, size_t count, xcvm_dtype wanted, xcvm_value **tensor, xcvm_error *error);
xcvm_status npy_write(const xcvm_value *tensor, xcvm_sink sink, void *user, xcvm_error *error);

#endif
