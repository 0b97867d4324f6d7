/* The product at the heart of convolutions of blocked channels: of a run of pixels with the filters of some blocks of
 * outputs, by tiles whose sums stay in registers. */
#ifndef XCVM_OPS_VECTOR_BLOCKED_PRODUCT_H
#define XCVM_OPS_VECTOR_BLOCKED_PRODUCT_H

#include "ops/conv/simd/blocked_conv.h"

enum {
/* Blocks of outputs that a tile spans at most, and vectors of sums that registers hold beside what they are made of. */
#if XCVM_LANES == 16
    XCVM_PRODUCT_BLOCKS = 4,
    XCVM_PRODUCT_SUMS = 24,
#elif XCVM_LANES == 8 || !defined(__aarch64__)
    XCVM_PRODUCT_BLOCKS = 1,
    XCVM_PRODUCT_SUMS = 12,
#else
    XCVM_PRODUCT_BLOCKS = 1,
    XCVM_PRODUCT_SUMS = 24,
#endif
    XCVM_PRODUCT_STEPS = 64
};

/* Sums over steps, each over some channels that lie side by side: y[k][p] = start + sum of x[offset + p * spacing + c]
 * * w[k][filter + c] for the channels c of each step. */
typedef struct xcvm_blocked_product {
    const float *w;
    size_t blocks, w_block; /* of outputs; floats of w from one block to the next */
    size_t step_count;
    ptrdiff_t offsets[XCVM_PRODUCT_STEPS];
    size_t filters[XCVM_PRODUCT_STEPS]; /* floats from w to those of a step, of each block */
    size_t lengths[XCVM_PRODUCT_STEPS];
    size_t spacing;            /* floats from one pixel of x to the next */
    size_t y_spacing, y_block; /* of y and z; from one block to the next */
    bool resume;               /* start is y itself, else b + z, where they are not NULL */
    const float *b;            /* for all blocks */
    float low, high;           /* results are clamped to, if clamp */
    bool clamp;
    /* Filters that come next and are fetched from memory meanwhile, some lines of a cache with each tile. */
    const char *ahead;
    size_t ahead_stride;              /* bytes from one block to the next */
    size_t ahead_lines, lines_a_tile; /* lines of a block; 0: none */
    size_t ahead_block, ahead_line;   /* the next one */
} xcvm_blocked_product;

/* All filters of a convolution. */
typedef struct xcvm_blocked_filters {
    const void *at;
    xcvm_dtype dtype; /* f16, bf16 or f24, else f32 */
    size_t block;     /* elements from one block of outputs to the next */
} xcvm_blocked_filters;

/* Gives the product `count` elements of each block, from element `first` of the filters on; those not of f32 are
 * brought to it in `room`, g->blocks * count floats. */
#define xcvm_blocked_take XCVM_PER_ISA(xcvm_blocked_take)
void xcvm_blocked_take(xcvm_blocked_product *g, const xcvm_blocked_filters *w, size_t first, size_t count, float *room);
/* While `pixels` pixels are multiplied, fetches `count` elements of each block from element `first` on; 0: nothing. */
#define xcvm_blocked_fetch XCVM_PER_ISA(xcvm_blocked_fetch)
void xcvm_blocked_fetch(xcvm_blocked_product *g, const xcvm_blocked_filters *w, size_t first, size_t count,
                        size_t pixels);
#define xcvm_blocked_multiply XCVM_PER_ISA(xcvm_blocked_multiply)
void xcvm_blocked_multiply(xcvm_blocked_product *g, const float *x, const float *z, float *y, size_t pixels);

#endif
