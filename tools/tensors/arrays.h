/* Named arrays in .npy, .npz and .safetensors files. */
#ifndef XCVM_TOOLS_TENSORS_ARRAYS_H
#define XCVM_TOOLS_TENSORS_ARRAYS_H

#include "values/budget.h"

/* Reads the array `key` of a file in memory. If key is NULL or empty, it reads `fallback`, or else the only array.
 * `wanted` is that of xct_arrays_read. `budget` (may be NULL) counts unpacked bytes and the elements. */
xcvm_status arrays_read(const void *bytes, size_t count, const char *key, const char *fallback, xcvm_dtype wanted,
                        struct value_budget *budget, xcvm_value **tensor, xcvm_error *error);

/* Writes an .npy file. Elements that are converted for the file must fit into `budget` (may be NULL), because strings
 * may take much more there. */
xcvm_status array_write(const xcvm_value *array, struct value_budget *budget, xcvm_sink sink, xcvm_error *error);

#endif
