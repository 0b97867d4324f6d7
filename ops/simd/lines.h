/* Instructions that work on lines: all elements along one axis, each line by itself. */
#ifndef XCVM_OPS_SIMD_LINES_H
#define XCVM_OPS_SIMD_LINES_H

#include "ops/util/kernel.h"

enum { XCVM_TILE_COLUMNS = 64, XCVM_ROW_LENGTH = 4096 };

/* Lines side by side: element i of line j is x[i * x_stride + j]. x and y are the same memory or do not overlap. */
typedef struct xcvm_tile {
    const xcvm_kernel *k; /* long tiles poll; stopped, they leave y unfinished */
    const float *x;
    float *y;
    size_t x_stride, y_stride;
    size_t length;  /* of the lines */
    size_t columns; /* lines, at most XCVM_TILE_COLUMNS; strides are 1 if there is one */
    size_t index;   /* of the first line among all */
    float *spare;   /* `spare` floats of this worker's, see below */
} xcvm_tile;

/* A tensor seen as outer x length x inner elements, with a line at every (outer, inner). */
typedef struct xcvm_lines {
    size_t outer, length, inner;
    xcvm_dtype dtype; /* FLOAT; f16 and bf16 come as f32 */
    const void *x;
    void *y;
    void (*f32)(const void *context, const xcvm_tile *tile);
    /* For `count` adjacent lines of f32 in one call, if this is not NULL and length is at most XCVM_ROW_LENGTH. */
    void (*rows)(const void *context, const float *x, float *y, size_t length, size_t count);
    /* For f64, one adjacent line at a time, which is not y's place. */
    void (*f64)(const xcvm_kernel *k, const void *context, const double *x, double *y, size_t length, size_t index);
    const void *context;
    size_t cost;  /* of an element, 1 for one that is but read and written */
    size_t spare; /* elements of scratch that a worker needs */
} xcvm_lines;

/* Bytes of scratch that a run needs, 0 for none; SIZE_MAX if there are too many. */
#define xcvm_lines_scratch XCVM_PER_ISA(xcvm_lines_scratch)
size_t xcvm_lines_scratch(const xcvm_kernel *k, const xcvm_lines *lines);
#define xcvm_lines_run XCVM_PER_ISA(xcvm_lines_run)
xcvm_status xcvm_lines_run(xcvm_kernel *k, const xcvm_lines *lines, void *scratch);
/* Takes the scratch from the kernel and runs. */
#define xcvm_lines_apply XCVM_PER_ISA(xcvm_lines_apply)
xcvm_status xcvm_lines_apply(xcvm_kernel *k, const xcvm_lines *lines);
/* The same for the lines of tensors along an axis, whose shape and elements it fills in. */
#define xcvm_lines_along XCVM_PER_ISA(xcvm_lines_along)
xcvm_status xcvm_lines_along(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x, int64_t axis, xcvm_lines lines);

#endif
