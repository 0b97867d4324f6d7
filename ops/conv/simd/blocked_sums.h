/* The sums of a tile of products, in registers: pixel by pixel, of each as many vectors as blocks of outputs have. */
#ifndef XCVM_OPS_CONV_SIMD_BLOCKED_SUMS_H
#define XCVM_OPS_CONV_SIMD_BLOCKED_SUMS_H

#include "ops/conv/simd/blocked_conv.h"

/* A place that the compiler knows nothing of: it would otherwise work out that of every sum ahead of the loops around,
 * for each tile anew, and keep them in memory since the sums have the registers. */
XCVM_INLINE const float *xcvm_sums_place(const float *at)
{
    __asm__("" : "+r"(at));
    return at;
}

/* Keeps what a tile's loops need only between two chains of sums in memory. Registers are few, and in vector and mask
 * registers, where the compiler would put it, it waits for all products before it, and the next chain waits for it. */
#define XCVM_SUMS_SPILL(value) __asm__("" : "+m"(value))

/* What is added to the sums, or where they go: floats from one pixel to the next, and from one block of outputs to the
 * next. `pixels`, `vectors` and, where they can be, spacings are constants. */
XCVM_INLINE void xcvm_sums_add(xcvm_lanes *sum, const size_t pixels, const size_t vectors, const float *from,
                               const size_t spacing, size_t block)
{
#pragma GCC unroll XCVM_UNROLL_8
    for (size_t v = 0; v < vectors; v++) {
        const float *at = xcvm_sums_place(from + v / XCVM_BLOCK_VECTORS * block);
#pragma GCC unroll XCVM_UNROLL_16
        for (size_t p = 0; p < pixels; p++)
            sum[p * vectors + v] += xcvm_lanes_load(at + (p * spacing + v % XCVM_BLOCK_VECTORS * XCVM_LANES));
    }
}

XCVM_INLINE void xcvm_sums_store(const xcvm_lanes *sum, const size_t pixels, const size_t vectors, float *to,
                                 const size_t spacing, size_t block)
{
#pragma GCC unroll XCVM_UNROLL_8
    for (size_t v = 0; v < vectors; v++) {
        float *at = (float *)xcvm_sums_place(to + v / XCVM_BLOCK_VECTORS * block);
#pragma GCC unroll XCVM_UNROLL_16
        for (size_t p = 0; p < pixels; p++)
            xcvm_lanes_store(at + (p * spacing + v % XCVM_BLOCK_VECTORS * XCVM_LANES), sum[p * vectors + v]);
    }
}

#endif
