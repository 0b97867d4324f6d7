/* NumPy's array files: versions 1 to 3 of https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef XCVM_FORMATS_NPY_H
#define XCVM_FORMATS_NPY_H

#include "base/value.h"

/* An array file taken apart; it lends from the file's bytes. */
typedef struct xcvm_npy {
    xcvm_dtype dtype;
    char kind;    /* f i u b c V U S */
    bool swapped; /* big-endian */
    bool fortran; /* the first index runs fastest */
    size_t size;  /* bytes of an element; of a text array, U: 4 for each character */
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    size_t count;
    const unsigned char *data;
    uint64_t deadline_ns; /* monotonic clock, behind which xcvm_npy_tensor fails with OUT_OF_TIME; 0: none */
} xcvm_npy;

/* Reads the header from the first `count` bytes of a file of `total`, and finds that all elements are there. `wanted`
 * says which element type bytes without one are (V1 and V2, as NumPy stores bfloat16, float8 and types of fewer than 8
 * bits); XCVM_NO_DTYPE: V2 is bf16, and V1 is refused. */
xcvm_status xcvm_npy_parse(const void *bytes, size_t count, size_t total, xcvm_dtype wanted, xcvm_npy *npy,
                           xcvm_error *error);
/* Whether the elements lie in the file as they do in a tensor's memory. */
bool xcvm_npy_plain(const xcvm_npy *npy);
/* A tensor of them: both byte orders and both element orders are read, text arrays (U and S) become strings. */
xcvm_status xcvm_npy_tensor(const xcvm_npy *npy, const xcvm_allocator *allocator, xcvm_value **tensor,
                            xcvm_error *error);

#endif
