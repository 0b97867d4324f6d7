/* NumPy's array files: versions 1 to 3 of https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef XCVM_TOOLS_TENSORS_NPY_H
#define XCVM_TOOLS_TENSORS_NPY_H

#include "values/budget.h"

/* Bytes of the elements in a file. Strings may need more than in memory, because each has the length of the
 * longest. */
xcvm_status npy_size(const xcvm_value *tensor, uint64_t *bytes, xcvm_error *error);
/* Writes an array. Elements that are converted for the file are written in portions, within the time and memory of
 * `budget` (may be NULL). */
xcvm_status npy_write(const xcvm_value *tensor, struct value_budget *budget, xcvm_sink sink, xcvm_error *error);

#endif
