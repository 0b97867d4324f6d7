/* The algorithms of BlockedConv: each has its filter layout and a time estimate. The table is in layout_cost.c. */
#ifndef XCVM_COMPILER_LAYOUT_LAYOUT_ALGORITHMS_H
#define XCVM_COMPILER_LAYOUT_LAYOUT_ALGORITHMS_H

#include "ops/conv/blocked_axes.h"

enum { XCC_LAYOUT_AXES = XCVM_BLOCKED_MOST_AXES };

/* A convolution with known or assumed sizes. */
typedef struct xcc_layout_shape {
    int axes; /* width; height and width; or depth, height and width */
    int64_t batch, group;
    int64_t channels, outputs; /* channels of a group; outputs of all groups */
    int64_t in[XCC_LAYOUT_AXES], out[XCC_LAYOUT_AXES], kernel[XCC_LAYOUT_AXES];
    int64_t strides[XCC_LAYOUT_AXES], dilations[XCC_LAYOUT_AXES];
    int64_t pads[2 * XCC_LAYOUT_AXES]; /* in the order of the attribute */
    bool plain_input;                  /* x is plain */
    bool pairs;                        /* if direct, it is computed from bf16 pairs */
    bool rounded;                      /* its filters are rounded to fewer bits than f32 */
} xcc_layout_shape;

typedef struct xcc_layout_algorithm {
    const char *name;
    int choice;                              /* XCVM_BLOCKED_... */
    int64_t tile;                            /* for winograd */
    bool (*fits)(const xcc_layout_shape *c); /* only for numbers of axes that BlockedConv accepts */
    /* Estimated time in nanoseconds. Only comparisons for the same convolution matter. */
    double (*estimate)(const xcc_layout_shape *c, int64_t tile);
} xcc_layout_algorithm;

extern const xcc_layout_algorithm xcc_layout_algorithms[];
extern const size_t xcc_layout_algorithm_count;

/* Returns true if BlockedConv can compute the convolution with that algorithm. */
bool xcc_layout_fits(const xcc_layout_algorithm *algorithm, const xcc_layout_shape *c);

/* Returns the algorithm with the lowest estimate, including a penalty for filter memory; NULL if none is applicable. */
const xcc_layout_algorithm *xcc_layout_cheapest(const xcc_layout_shape *c);

/* Computes the shape of a filter [outputs, channels, window] for an algorithm. Returns its rank. */
int xcc_layout_filter_dims(const xcc_layout_algorithm *algorithm, int rank, const int64_t *w,
                           int64_t packed[XCVM_MAX_RANK]);
/* Packs a filter to `packed`, of that shape. */
void xcc_layout_filter_pack(const xcc_layout_algorithm *algorithm, const float *w, int rank, const int64_t *dims,
                            float *packed);

#endif
