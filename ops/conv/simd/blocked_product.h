/* The product in convolutions of blocked channels: a run of pixels times the filters of some blocks of outputs, in
 * tiles whose sums stay in registers. */
#ifndef XCVM_OPS_CONV_SIMD_BLOCKED_PRODUCT_H
#define XCVM_OPS_CONV_SIMD_BLOCKED_PRODUCT_H

#include "ops/conv/simd/blocked_conv.h"

enum {
/* Maximum blocks of outputs of a tile, and vectors of sums that fit in registers along with the operands. */
#if XCVM_LANES == 16
    XCVM_PRODUCT_BLOCKS = 4,
    XCVM_PRODUCT_SUMS = 24,
#elif defined(__wasm__)
    /* Engines have 15 registers on x86, and clang loads operands early. With 12 sums, some are in memory. */
    XCVM_PRODUCT_BLOCKS = 1,
    XCVM_PRODUCT_SUMS = 8,
#elif XCVM_LANES == 8 || !defined(__aarch64__)
    XCVM_PRODUCT_BLOCKS = 1,
    XCVM_PRODUCT_SUMS = 12,
#else
    XCVM_PRODUCT_BLOCKS = 1,
    XCVM_PRODUCT_SUMS = 24,
#endif
    XCVM_PRODUCT_STEPS = 64,
    /* Approximate products per chain. Winograd has fewer, because its results are differences of sums, in which
     * rounding errors weigh more. */
    XCVM_PRODUCT_CHAIN = 32,
    XCVM_WINOGRAD_CHAIN = XCVM_CHANNEL_BLOCK,
    /* Words per chain of pairs. They are already rounded to bf16, so longer sums lose little. */
    XCVM_PAIR_CHAIN = 128,
    XCVM_BLOCK_PAIRS = XCVM_CHANNEL_BLOCK / 2 /* words of a pixel of a block */
};

/* Sums over steps, each over some contiguous channels: y[k][p] = start + sum of x[offset + p * spacing + c] *
 * w[k][filter + c] for the channels c of each step. This is blocked summation (Higham, "The Accuracy of Floating Point
 * Summation", 1993): each chain of steps is summed separately and then added to y, because the rounding error of a
 * running sum grows with its length. Chains depend only on step numbers, so results do not depend on the portions if
 * these are whole chains. */
typedef struct xcvm_blocked_product {
    bool pairs; /* x and w are words of two bf16 numbers (ops/matmul/pairs.h); "floats" are then words */
    const float *w;
    size_t blocks, w_block; /* of outputs; floats of w between blocks */
    size_t step_count;
    ptrdiff_t offsets[XCVM_PRODUCT_STEPS];
    size_t filters[XCVM_PRODUCT_STEPS]; /* offset in floats of each step's filters in a block */
    size_t lengths[XCVM_PRODUCT_STEPS];
    size_t chain;                   /* steps per chain, over all portions */
    size_t chain_count, next_chain; /* next_chain: first step after the last chain */
    size_t chain_ends[XCVM_PRODUCT_STEPS];
    size_t spacing;            /* floats between pixels of x */
    size_t y_spacing, y_block; /* of y and z: between pixels; between blocks */
    bool resume;               /* start is y; else b + z, where not NULL */
    const float *b;            /* for all blocks */
    float low, high;           /* bounds of the results, if clamp */
    bool clamp;
    /* Filters to prefetch during the product, some cache lines per tile. */
    const char *ahead;
    size_t ahead_stride;              /* bytes between blocks */
    size_t ahead_lines, lines_a_tile; /* lines of a block; 0: none */
    size_t ahead_block, ahead_line;   /* the next one */
} xcvm_blocked_product;

/* Steps per chain, for chains of up to `most` products or one step. */
XCVM_INLINE size_t xcvm_blocked_chain(size_t steps, size_t length, size_t most)
{
    const size_t fitting = most / length, limit = xcvm_min(fitting, XCVM_PRODUCT_STEPS);
    const size_t chains = xcvm_ceil_div(steps, limit > 1 ? limit : 1);
    return chains > 1 ? xcvm_ceil_div(steps, chains) : steps > 1 ? steps : 1;
}
/* Number of portions of whole chains, of up to `most` steps or one chain. */
XCVM_INLINE size_t xcvm_blocked_portions(size_t steps, size_t chain, size_t most)
{
    return xcvm_ceil_div(xcvm_ceil_div(steps, chain), most > chain ? most / chain : 1);
}
/* First step of portion i. */
XCVM_INLINE size_t xcvm_blocked_portion(size_t steps, size_t chain, size_t portions, size_t i)
{
    return xcvm_min(i * xcvm_ceil_div(steps, chain) / portions * chain, steps);
}

XCVM_INLINE void xcvm_blocked_clear_steps(xcvm_blocked_product *g)
{
    g->step_count = g->chain_count = g->next_chain = g->chain_ends[0] = 0;
}
/* `step` is its number over all portions. */
XCVM_INLINE void xcvm_blocked_add_step(xcvm_blocked_product *g, size_t step, ptrdiff_t offset, size_t filter,
                                       size_t length)
{
    const size_t s = g->step_count++;
    g->offsets[s] = offset;
    g->filters[s] = filter;
    g->lengths[s] = length;
    if (step >= g->next_chain) {
        g->next_chain = (step / g->chain + 1) * g->chain;
        g->chain_count++;
    }
    g->chain_ends[g->chain_count - 1] = g->step_count;
}

/* All filters of a convolution. */
typedef struct xcvm_blocked_filters {
    const void *at;
    xcvm_dtype dtype; /* f16, bf16 or f24, else f32 */
    size_t block;     /* elements between blocks of outputs */
} xcvm_blocked_filters;

/* Sets the product's filters to `count` elements of each block, from element `first`. Converts types other than f32 in
 * `room`, of g->blocks * count floats. */
#define xcvm_blocked_take XCVM_PER_ISA(xcvm_blocked_take)
void xcvm_blocked_take(xcvm_blocked_product *g, const xcvm_blocked_filters *w, size_t first, size_t count, float *room);
/* Prefetches `count` elements of each block from element `first` (0: none) while `pixels` pixels are multiplied. */
#define xcvm_blocked_fetch XCVM_PER_ISA(xcvm_blocked_fetch)
void xcvm_blocked_fetch(xcvm_blocked_product *g, const xcvm_blocked_filters *w, size_t first, size_t count,
                        size_t pixels);
#define xcvm_blocked_multiply XCVM_PER_ISA(xcvm_blocked_multiply)
void xcvm_blocked_multiply(xcvm_blocked_product *g, const float *x, const float *z, float *y, size_t pixels);

/* Computes a tile of up to the maximum number of pixels. */
typedef void (*xcvm_blocked_tile_function)(const xcvm_blocked_product *g, size_t pixels, const float *x, const float *z,
                                           float *y);
/* Returns the tile function for pairs on this CPU, for contiguous pixels or not. */
#define xcvm_blocked_pairs XCVM_PER_ISA(xcvm_blocked_pairs)
xcvm_blocked_tile_function xcvm_blocked_pairs(bool side_by_side);

#endif
