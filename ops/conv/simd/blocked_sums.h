/* Sums of a product tile in registers: for each pixel, one vector per vector of the output blocks. */
#ifndef XCVM_OPS_CONV_SIMD_BLOCKED_SUMS_H
#define XCVM_OPS_CONV_SIMD_BLOCKED_SUMS_H

#include "ops/conv/simd/blocked_conv.h"

/* Hides a pointer's value from the compiler. Otherwise it computes the addresses of all sums before the loops, for each
 * tile, and spills them, because the sums occupy the registers. */
XCVM_INLINE const float *xcvm_sums_place(const float *at)
{
    __asm__("" : "+r"(at));
    return at;
}

/* Keeps values that are needed only between two chains in memory. The compiler would put them in vector or mask
 * registers, which wait for all preceding products and delay the next chain. */
#define XCVM_SUMS_SPILL(value) __asm__("" : "+m"(value))

/* Adds to the sums, or stores them, with `spacing` floats between pixels and `block` floats between blocks of outputs.
 * `pixels`, `vectors` and, where possible, spacings are constants. */
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
