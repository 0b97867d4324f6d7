/* The ways to compute a convolution on blocked channels: algorithms of BlockedConv, each with its filters' layout and
 * an estimate of its time. The table is in layout_cost.c. */
#ifndef XCVM_COMPILER_BLOCK_WAYS_H
#define XCVM_COMPILER_BLOCK_WAYS_H

#include "ops/op.h"

enum { XCC_BLOCK_AXES = 3 };

/* A convolution whose sizes are known, or assumed. */
typedef struct xcc_block_shape {
    int axes; /* width, height and width, or depth, height and width */
    int64_t batch, group;
    int64_t channels, outputs; /* channels of a group; outputs of all groups */
    int64_t in[XCC_BLOCK_AXES], out[XCC_BLOCK_AXES], kernel[XCC_BLOCK_AXES];
    int64_t strides[XCC_BLOCK_AXES], dilations[XCC_BLOCK_AXES];
    int64_t pads[2 * XCC_BLOCK_AXES]; /* as the attribute has them */
    bool plain_input;                 /* x is not blocked */
} xcc_block_shape;

typedef struct xcc_block_way {
    const char *name;
    int algorithm; /* XCVM_BLOCKED_... */
    int64_t tile;  /* winograd */
    bool (*fits)(const xcc_block_shape *c);
    /* Estimated time in nanoseconds; only how those of one convolution compare to each other decides anything. */
    double (*estimate)(const xcc_block_shape *c, int64_t tile);
} xcc_block_way;

extern const xcc_block_way xcc_block_ways[];
extern const size_t xcc_block_way_count;

/* The way whose estimate is the least, with something for the memory that its filters take; NULL if none fits. */
const xcc_block_way *xcc_block_cheapest(const xcc_block_shape *c);

/* The shape of a filter [outputs, channels, window] as a way needs it; returns its rank. */
int xcc_block_filter_dims(const xcc_block_way *way, int rank, const int64_t *w, int64_t packed[XCVM_MAX_RANK]);
/* `packed` has room for that shape. */
void xcc_block_filter_pack(const xcc_block_way *way, const float *w, int rank, const int64_t *dims, float *packed);

#endif
