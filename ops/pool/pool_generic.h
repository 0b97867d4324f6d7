/* Common definitions of pooling instructions. */
#ifndef XCVM_OPS_POOL_POOL_GENERIC_H
#define XCVM_OPS_POOL_POOL_GENERIC_H

#include "ops/util/kernel.h"

typedef enum xcvm_pool_kind { XCVM_POOL_MAX, XCVM_POOL_MEAN, XCVM_POOL_NORM } xcvm_pool_kind;

/* A pooling operation. Arrays have one entry per spatial axis; pads has two. */
typedef struct xcvm_pooling {
    xcvm_pool_kind kind;
    const xcvm_value *x;
    xcvm_value *y;
    int axes;
    const int64_t *in, *out, *kernel, *strides, *pads, *dilations;
    size_t planes, in_plane, out_plane, kernel_size;
    bool count_pads;                 /* MEAN */
    int64_t p;                       /* NORM */
    int64_t room[2 * XCVM_MAX_RANK]; /* storage for pads from auto_pad */
} xcvm_pooling;

/* Fills in operands and attributes, which must outlive *w; the caller sets kind, p and count_pads. Fails with
 * OUT_OF_RANGE if the number of window positions overflows. */
xcvm_status xcvm_pooling_make(xcvm_kernel *k, xcvm_pooling *w, const xcvm_value *x, xcvm_value *y, xcvm_ints kernel,
                              xcvm_ints strides, xcvm_ints pads, xcvm_ints dilations, int auto_pad);
/* Number of elements that a mean counts for output `o` on axis `d`, at least 1. */
float xcvm_pool_counted(const xcvm_pooling *w, int d, int64_t o);
/* Supports any type and kind, one position at a time. `indices` of maxima may be NULL. */
xcvm_status xcvm_pool_positions(xcvm_kernel *k, const xcvm_pooling *w, int64_t *indices, bool columns_first);

#endif
