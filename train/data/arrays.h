/* Named arrays in files: .npy, .npz and .safetensors. */
#ifndef XCVM_TRAIN_DATA_ARRAYS_H
#define XCVM_TRAIN_DATA_ARRAYS_H

#include "train/data/mapping.h"
#include "formats/npy.h"
#include "formats/zip.h"

#include "formats/safetensors.h"
#include "xcvm/train.h"

/* An array that can be read row by row. */
typedef struct xct_rows {
    xcvm_dtype dtype;
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    size_t row_bytes;          /* of a step along the first axis */
    const unsigned char *data; /* the elements, as in a tensor, though they need not be aligned */
    /* Memory of the rows, unless they are in the file; released by xct_rows_release. */
    unsigned char *unpacked;
    size_t unpacked_bytes;
    xcvm_value *value;
    const xcvm_allocator *allocator;
} xct_rows;

/* The type and shape of an array's rows; `data` is NULL, and nothing is to be released. */
xcvm_status xct_arrays_shape(const xct_arrays *arrays, size_t index, xct_rows *shape, xcvm_error *error);
/* Returns the rows of an array. If the file has the layout of memory, they are the file's bytes without a copy. Arrays
 * of rank 0, of texts, or of elements of fewer than 8 bits have no rows. Unpacking and copying fail with OUT_OF_TIME
 * after `deadline_ns` (monotonic clock; 0: none). */
xcvm_status xct_arrays_rows(const xct_arrays *arrays, size_t index, uint64_t deadline_ns, xct_rows *rows,
                            xcvm_error *error);
void xct_rows_release(xct_rows *rows);

#endif
