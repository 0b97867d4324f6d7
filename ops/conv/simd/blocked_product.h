/* The product at the heart of convolutions of blocked channels: of a run of pixels with the filters of some blocks of
 * outputs, by tiles whose sums stay in registers. */
#ifndef XCVM_OPS_CONV_SIMD_BLOCKED_PRODUCT_H
#define XCVM_OPS_CONV_SIMD_BLOCKED_PRODUCT_H

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
    XCVM_PRODUCT_STEPS = 64,
    /* Products of a chain, about; of Winograd's fewer, whose roundings weigh more as results are differences of sums.
     */
    XCVM_PRODUCT_CHAIN = 32,
    XCVM_WINOGRAD_CHAIN = XCVM_CHANNEL_BLOCK,
    /* Words of a chain of pairs, which are rounded to bf16 and lose little to longer sums. */
    XCVM_PAIR_CHAIN = 128,
    XCVM_BLOCK_PAIRS = XCVM_CHANNEL_BLOCK / 2 /* words of a pixel of a block */
};

/* Sums over steps, each over some channels that lie side by side: y[k][p] = start + sum of x[offset + p * spacing + c]
 * * w[k][filter + c] for the channels c of each step. This is blocked summation (Higham, "The Accuracy of Floating
 * Point Summation", 1993): a chain of steps is summed up by itself and then added to y, since one running sum over all
 * of them would be rounded in proportion to its length. Where chains end follows from the numbers of the steps, so
 * results do not depend on the portions in which steps are taken, if those are whole chains. */
typedef struct xcvm_blocked_product {
    bool pairs; /* x and w are words of two numbers of bf16 (ops/matmul/pairs.h): for `floats`, read words of x and w */
    const float *w;
    size_t blocks, w_block; /* of outputs; floats of w from one block to the next */
    size_t step_count;
    ptrdiff_t offsets[XCVM_PRODUCT_STEPS];
    size_t filters[XCVM_PRODUCT_STEPS]; /* floats from w to those of a step, of each block */
    size_t lengths[XCVM_PRODUCT_STEPS];
    size_t chain;                   /* steps, of those of all portions */
    size_t chain_count, next_chain; /* next_chain: the first step that is not of the last one */
    size_t chain_ends[XCVM_PRODUCT_STEPS];
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

/* How many of a sum's steps make a chain, for chains of up to `most` products, or of one step. */
XCVM_INLINE size_t xcvm_blocked_chain(size_t steps, size_t length, size_t most)
{
    const size_t fitting = most / length, limit = xcvm_min(fitting, XCVM_PRODUCT_STEPS);
    const size_t chains = xcvm_ceil_div(steps, limit > 1 ? limit : 1);
    return chains > 1 ? xcvm_ceil_div(steps, chains) : steps > 1 ? steps : 1;
}
/* Portions of whole chains, of up to `most` steps or one chain. */
XCVM_INLINE size_t xcvm_blocked_portions(size_t steps, size_t chain, size_t most)
{
    return xcvm_ceil_div(xcvm_ceil_div(steps, chain), most > chain ? most / chain : 1);
}
/* The first step of portion i. */
XCVM_INLINE size_t xcvm_blocked_portion(size_t steps, size_t chain, size_t portions, size_t i)
{
    return xcvm_min(i * xcvm_ceil_div(steps, chain) / portions * chain, steps);
}

XCVM_INLINE void xcvm_blocked_clear_steps(xcvm_blocked_product *g)
{
    g->step_count = g->chain_count = g->next_chain = g->chain_ends[0] = 0;
}
/* `step` is its number among those of all portions. */
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

/* The tiles of one kind: up to as many pixels of g as there is one for. */
typedef void (*xcvm_blocked_tile_function)(const xcvm_blocked_product *g, size_t pixels, const float *x, const float *z,
                                           float *y);
/* Those of pairs, whose pixels lie side by side or not, on this CPU. */
#define xcvm_blocked_pairs XCVM_PER_ISA(xcvm_blocked_pairs)
xcvm_blocked_tile_function xcvm_blocked_pairs(bool side_by_side);

#endif
