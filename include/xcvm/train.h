/*
 * XCVM's trainer: models that learn, from data in files or in memory. The conventions of xcvm.h hold here too.
 *
 * Threads. A trainer, a data set and arrays belong to one thread at a time; xct_trainer_stop alone may be called from
 * any thread and from a signal handler. xct_trainer_fit starts a thread of its own that reads ahead, and ends it before
 * it returns; callbacks are called on the caller's thread.
 *
 * Lifetimes. What a call is given (paths, bytes, options with the arrays and strings in them) is read until it returns
 * and is not kept, but where it says so: an allocator must outlive what was made with it.
 */
#ifndef XCVM_TRAIN_H
#define XCVM_TRAIN_H

#include "compiler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Files of arrays ---- */

/* The arrays of an .npy, .npz or .safetensors file, told by its content. */
typedef struct xct_arrays xct_arrays;

/* Maps the file, which must not be changed until xct_arrays_close. */
XCVM_API XCVM_MUST_USE xcvm_status xct_arrays_open(const char *path, const xcvm_allocator *allocator,
                                                   xct_arrays **arrays, xcvm_error *error);
/* The same for a file in memory, which is lent until xct_arrays_close. */
XCVM_API XCVM_MUST_USE xcvm_status xct_arrays_open_memory(const void *bytes, size_t count,
                                                          const xcvm_allocator *allocator, xct_arrays **arrays,
                                                          xcvm_error *error);
XCVM_API void xct_arrays_close(xct_arrays *arrays);
XCVM_API size_t xct_arrays_count(const xct_arrays *arrays);
/* The name of an array: in a .npz file without its ".npy"; "" for that of an .npy file. NULL if there is none. */
XCVM_API const char *xct_arrays_name(const xct_arrays *arrays, size_t index);
/* The index of the array of that name, or with ".npy" behind it; SIZE_MAX if there is none. */
XCVM_API size_t xct_arrays_find(const xct_arrays *arrays, const char *name);
/* The array as a tensor of its own. `wanted` says which element type bytes without one are, as NumPy stores bfloat16,
 * float8 and types of fewer than 8 bits; with XCVM_NO_DTYPE two bytes are bf16, and one is refused. */
XCVM_API XCVM_MUST_USE xcvm_status xct_arrays_value(const xct_arrays *arrays, size_t index, xcvm_dtype wanted,
                                                    xcvm_value **value, xcvm_error *error);

/* ---- Data sets ---- */

/* Examples to learn from, along the first axis of arrays of the same length. */
typedef struct xct_dataset xct_dataset;

/* Which array has the rows of an input; an input that no column names takes the array of its own name. */
typedef struct xct_column {
    const char *input;
    const char *array; /* NULL: that of the input's name */
} xct_column;

XCVM_API void xct_dataset_destroy(xct_dataset *dataset);
XCVM_API uint64_t xct_dataset_examples(const xct_dataset *dataset);

#ifdef __cplusplus
}
#endif
#endif
