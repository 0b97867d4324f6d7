/* NumPy's array files: versions 1 to 3 of https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef XCVM_FORMATS_NPY_H
#define XCVM_FORMATS_NPY_H

#include "base/value.h"

/* A parsed array file. It borrows the file's bytes. */
typedef struct xcvm_npy {
    xcvm_dtype dtype;
    char kind;    /* f i u b c V U S */
    bool swapped; /* big-endian byte order */
    bool fortran; /* column-major order: the first index varies fastest */
    size_t size;  /* bytes of an element; of a text array, U: 4 per character */
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    size_t count;
    const unsigned char *data;
    uint64_t deadline_ns; /* deadline of xcvm_npy_tensor on the monotonic clock, OUT_OF_TIME after it; 0: none */
} xcvm_npy;

/* Parses the header from the first `count` bytes of a file of `total` bytes, and checks that all elements are present.
 * `wanted` is the element type of raw bytes (V1 and V2, as NumPy stores bfloat16, float8 and types of fewer than 8
 * bits). XCVM_NO_DTYPE: V2 is bf16, and V1 is refused. */
xcvm_status xcvm_npy_parse(const void *bytes, size_t count, size_t total, xcvm_dtype wanted, xcvm_npy *npy,
                           xcvm_error *error);
/* Returns true if the elements have the same layout in the file as in a tensor. */
bool xcvm_npy_plain(const xcvm_npy *npy);
/* Creates a tensor from the elements. Both byte orders and both index orders are supported. Text arrays (U and S)
 * become strings. */
xcvm_status xcvm_npy_tensor(const xcvm_npy *npy, const xcvm_allocator *allocator, xcvm_value **tensor,
                            xcvm_error *error);

#endif
