/* Arrays in files, .npy, .npz and .safetensors, chosen by a name. */
#ifndef XCVM_TOOLS_TENSORS_ARRAYS_H
#define XCVM_TOOLS_TENSORS_ARRAYS_H

#include "values/budget.h"

/* The array called `key` of a file in memory. With key NULL or empty, `fallback`, or if there is no such array, the
 * only one there is. `wanted` as for xct_arrays_read. `budget` (may be NULL) has what is unpacked and the tensor's
 * elements. */
xcvm_status arrays_read(const void *bytes, size_t count, const char *key, const char *fallback, xcvm_dtype wanted,
                        struct value_budget *budget, xcvm_value **tensor, xcvm_error *error);

#endif
