/* NumPy's array files: versions 1 to 3 of https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef XCVM_TOOLS_TENSORS_NPY_H
#define XCVM_TOOLS_TENSORS_NPY_H

#include "values/budget.h"

/* Bytes of the elements in a file. They may be many more than in memory: texts are as long as the longest. */
xcvm_status npy_size(const xcvm_value *tensor, uint64_t *bytes, xcvm_error *error);
/* What takes another form in a file is made a portion at a time, within the budget's time, and refused if it is more
 * than the budget leaves. `budget` may be NULL. */
xcvm_status npy_write(const xcvm_value *tensor, struct value_budget *budget, xcvm_sink sink, xcvm_error *error);

#endif
