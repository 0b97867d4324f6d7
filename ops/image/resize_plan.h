/* The plan of a Resize: which elements of x, with which weights, each element of y is made of, along one axis after the
 * other. */
#ifndef XCVM_OPS_IMAGE_RESIZE_PLAN_H
#define XCVM_OPS_IMAGE_RESIZE_PLAN_H

#include "ops/util/kernel.h"

/* The input positions and weights that one axis' output positions are made of: `taps` for each, 0 where the axis stays
 * as it is. */
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
    bool direct;                      /* the first pass reads x and the last one writes y: f32 */
    size_t largest;                   /* elements of what goes through the buffers */
    bool by_index;                    /* elements are copied; else they are weighted sums, as f32 */
    bool any_outside;                 /* some position is outside of its axis */
    size_t table_bytes;               /* that xcvm_resize_fill takes */
} xcvm_resize;

/* Of checked operands, with x and y not empty, x of rank 1 at least and scales, sizes and roi known. The tables are not
 * there yet. */
xcvm_status xcvm_resize_plan(xcvm_error *error, const xcvm_Resize_args *a, xcvm_resize *r);
/* Fills the tables, which lie at `tables`, of r->table_bytes bytes. */
xcvm_status xcvm_resize_fill(xcvm_resize *r, char *tables, xcvm_poller *poller);

#endif
