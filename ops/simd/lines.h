/* Instructions on lines: all elements along one axis, each line separately. */
#ifndef XCVM_OPS_SIMD_LINES_H
#define XCVM_OPS_SIMD_LINES_H

#include "ops/util/kernel.h"

enum { XCVM_TILE_COLUMNS = 64, XCVM_ROW_LENGTH = 4096 };

/* Interleaved lines: element i of line j is x[i * x_stride + j]. x and y are the same memory or do not overlap. */
typedef struct xcvm_tile {
    const xcvm_kernel *k; /* for polling in long tiles; when stopped, y stays unfinished */
    const float *x;
    float *y;
    size_t x_stride, y_stride;
    size_t length;  /* of the lines */
    size_t columns; /* number of lines, at most XCVM_TILE_COLUMNS; strides are 1 for a single line */
    size_t index;   /* of the first line */
    float *spare;   /* `spare` floats of this worker, see below */
} xcvm_tile;

/* A tensor as outer x length x inner elements, with a line at every (outer, inner). */
typedef struct xcvm_lines {
    size_t outer, length, inner;
    xcvm_dtype dtype; /* FLOAT; f16 and bf16 are converted to f32 */
    const void *x;
    void *y;
    void (*f32)(const void *context, const xcvm_tile *tile);
    /* If not NULL and length is at most XCVM_ROW_LENGTH, called for `count` adjacent f32 lines at once. */
    void (*rows)(const void *context, const float *x, float *y, size_t length, size_t count);
    /* For f64, one contiguous line at a time; x and y do not overlap. */
    void (*f64)(const xcvm_kernel *k, const void *context, const double *x, double *y, size_t length, size_t index);
    const void *context;
    size_t cost;  /* per element; 1 for reading and writing only */
    size_t spare; /* scratch elements of a worker */
} xcvm_lines;

/* Bytes of scratch of a run, 0 for none; SIZE_MAX on overflow. */
#define xcvm_lines_scratch XCVM_PER_ISA(xcvm_lines_scratch)
size_t xcvm_lines_scratch(const xcvm_kernel *k, const xcvm_lines *lines);
#define xcvm_lines_run XCVM_PER_ISA(xcvm_lines_run)
xcvm_status xcvm_lines_run(xcvm_kernel *k, const xcvm_lines *lines, void *scratch);
/* Allocates the kernel's scratch and runs. */
#define xcvm_lines_apply XCVM_PER_ISA(xcvm_lines_apply)
xcvm_status xcvm_lines_apply(xcvm_kernel *k, const xcvm_lines *lines);
/* The same for the lines of tensors along an axis, whose shape and elements it fills in. */
#define xcvm_lines_along XCVM_PER_ISA(xcvm_lines_along)
xcvm_status xcvm_lines_along(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x, int64_t axis, xcvm_lines lines);

#endif
