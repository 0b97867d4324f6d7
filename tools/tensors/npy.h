/* NumPy's array files: versions 1 to 3 of https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef XCVM_TOOLS_TENSORS_NPY_H
#define XCVM_TOOLS_TENSORS_NPY_H

#include <xcvm/xcvm.h>

xcvm_status npy_write(const xcvm_value *tensor, xcvm_sink sink, void *user, xcvm_error *error);

#endif
