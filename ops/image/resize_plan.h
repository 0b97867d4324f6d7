/* The plan of a Resize: source elements of x and weights of each element of y, one axis at a time. */
#ifndef XCVM_OPS_IMAGE_RESIZE_PLAN_H
#define XCVM_OPS_IMAGE_RESIZE_PLAN_H

#include "ops/util/kernel.h"

/* Input positions and weights of one axis: `taps` per output position; 0 if the axis does not change. */
typedef struct xcvm_resize_axis {
    int64_t in, out, taps;
    int64_t *index; /* out x taps */
    float *weight;
    bool *outside; /* out; only tf_crop_and_resize */
} xcvm_resize_axis;

typedef struct xcvm_resize {
    const xcvm_Resize_args *a;
    double scales[XCVM_MAX_RANK];
    double starts[XCVM_MAX_RANK], ends[XCVM_MAX_RANK]; /* of the region of x, 0 to 1 */
    xcvm_resize_axis axes[XCVM_MAX_RANK];
    size_t taps, positions;           /* of all axes */
    int order[XCVM_MAX_RANK], passes; /* the axes that change */
    bool direct;                      /* the first pass reads x and the last writes y: f32 */
    size_t largest;                   /* maximum elements of a buffer */
    bool by_index;                    /* elements are copied; otherwise f32 weighted sums */
    bool any_outside;                 /* some position is outside its axis */
    size_t table_bytes;               /* used by xcvm_resize_fill */
} xcvm_resize;

/* Plans a Resize of checked operands: x and y not empty, x of rank 1 or more, and scales, sizes and roi known. Does not
 * fill the tables. */
xcvm_status xcvm_resize_plan(xcvm_error *error, const xcvm_Resize_args *a, xcvm_resize *r);
/* Fills the tables in `tables`, which has r->table_bytes bytes. */
xcvm_status xcvm_resize_fill(xcvm_resize *r, char *tables, xcvm_poller *poller);

#endif
