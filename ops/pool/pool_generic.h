/* What the pooling instructions have in common. */
#ifndef XCVM_OPS_POOL_POOL_GENERIC_H
#define XCVM_OPS_POOL_POOL_GENERIC_H

#include "ops/util/kernel.h"

typedef enum xcvm_pool_kind { XCVM_POOL_MAX, XCVM_POOL_MEAN, XCVM_POOL_NORM } xcvm_pool_kind;

/* A pooling as its kernels see it; arrays have one entry for each spatial axis, pads two. */
typedef struct xcvm_pooling {
    xcvm_pool_kind kind;
    const xcvm_value *x;
    xcvm_value *y;
    int axes;
    const int64_t *in, *out, *kernel, *strides, *pads, *dilations;
    size_t planes, in_plane, out_plane, kernel_size;
    bool count_pads;                 /* MEAN */
    int64_t p;                       /* NORM */
    int64_t room[2 * XCVM_MAX_RANK]; /* for pads that auto_pad asks for */
} xcvm_pooling;

/* Fills in what operands and attributes say, which must outlive *w; kind, p and count_pads are the caller's.
 * OUT_OF_RANGE if the window has more positions than there are numbers. */
xcvm_status xcvm_pooling_make(xcvm_kernel *k, xcvm_pooling *w, const xcvm_value *x, xcvm_value *y, xcvm_ints kernel,
                              xcvm_ints strides, xcvm_ints pads, xcvm_ints dilations, int auto_pad);
/* Elements of the window of output `o` along axis `d` that a mean counts, at least 1. */
float xcvm_pool_counted(const xcvm_pooling *w, int d, int64_t o);
/* Any type and kind, one position at a time; `indices` of maxima may be NULL. */
xcvm_status xcvm_pool_positions(xcvm_kernel *k, const xcvm_pooling *w, int64_t *indices, bool columns_first);

#endif
