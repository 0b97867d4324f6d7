/* The algorithms of BlockedConv, which compute a convolution on blocked channels: each with its filters' layout and
 * an estimate of its time. The table is in layout_cost.c. */
#ifndef XCVM_COMPILER_LAYOUT_LAYOUT_ALGORITHMS_H
#define XCVM_COMPILER_LAYOUT_LAYOUT_ALGORITHMS_H

#include "ops/conv/blocked_axes.h"

enum { XCC_LAYOUT_AXES = XCVM_BLOCKED_MOST_AXES };

/* A convolution whose sizes are known, or assumed. */
typedef struct xcc_layout_shape {
    int axes; /* width, height and width, or depth, height and width */
    int64_t batch, group;
    int64_t channels, outputs; /* channels of a group; outputs of all groups */
    int64_t in[XCC_LAYOUT_AXES], out[XCC_LAYOUT_AXES], kernel[XCC_LAYOUT_AXES];
    int64_t strides[XCC_LAYOUT_AXES], dilations[XCC_LAYOUT_AXES];
    int64_t pads[2 * XCC_LAYOUT_AXES]; /* as the attribute has them */
    bool plain_input;                  /* x is not blocked */
    bool pairs;                        /* if it is direct, it is computed from pairs of bf16 */
    bool rounded;                      /* its filters will be, to fewer bits than f32 has */
} xcc_layout_shape;

typedef struct xcc_layout_algorithm {
    const char *name;
    int choice;                              /* XCVM_BLOCKED_... */
    int64_t tile;                            /* winograd */
    bool (*fits)(const xcc_layout_shape *c); /* of shapes with a number of axes that BlockedConv accepts */
    /* Estimated time in nanoseconds; only how those of one convolution compare to each other decides anything. */
    double (*estimate)(const xcc_layout_shape *c, int64_t tile);
} xcc_layout_algorithm;

extern const xcc_layout_algorithm xcc_layout_algorithms[];
extern const size_t xcc_layout_algorithm_count;

/* True if BlockedConv can compute the convolution by that algorithm. */
bool xcc_layout_fits(const xcc_layout_algorithm *algorithm, const xcc_layout_shape *c);

/* The algorithm whose estimate is the least, with something for the memory that its filters take; NULL if none fits. */
const xcc_layout_algorithm *xcc_layout_cheapest(const xcc_layout_shape *c);

/* The shape of a filter [outputs, channels, window] as an algorithm needs it; returns its rank. */
int xcc_layout_filter_dims(const xcc_layout_algorithm *algorithm, int rank, const int64_t *w,
                           int64_t packed[XCVM_MAX_RANK]);
/* `packed` has room for that shape. */
void xcc_layout_filter_pack(const xcc_layout_algorithm *algorithm, const float *w, int rank, const int64_t *dims,
                            float *packed);

#endif
