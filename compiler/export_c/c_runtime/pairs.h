/* Products of bf16 numbers: f32 numbers whose lower half is zero. */
#ifndef XC_PAIRS_H
#define XC_PAIRS_H

#include "compiler/export_c/c_runtime/blocks.h"

/* The nearest of them, of two the one with an even last bit; subnormal numbers become zero, and a NaN stays one. */
static float xc_pair_round(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    const uint32_t magnitude = word & 0x7fffffffu;
    if (magnitude < 0x00800000u)
        word &= 0x80000000u;
    else if (magnitude > 0x7f800000u)
        word |= 0x00400000u;
    else
        word += (word >> 16 & 1u) + 0x7fffu;
    word &= 0xffff0000u;
    memcpy(&x, &word, sizeof x);
    return x;
}

/* y = a * w + c + z, with a rounded. w is in panels of 16 columns that interleave two rows. c is NULL or has a number
 * per column; z is NULL or has the shape of y. */
static void xc_pair_product(const float *a, const void *w, const float *c, const float *z, float *y, size_t rows,
                            size_t k, size_t columns, float low, float high)
{
    const size_t panel = (k + 1) / 2 * 32;
    for (size_t row = 0; row < rows; row++)
        for (size_t first = 0; first < columns; first += 16) {
            const uint16_t *const from = (const uint16_t *)w + first / 16 * panel;
            const size_t width = columns - first < 16 ? columns - first : 16;
            float sums[16] = {0};
            for (size_t i = 0; i < k; i++) {
                const size_t p = (i ^ 1) < k ? i ^ 1 : i; /* as in the VM: the second of each pair comes first */
                const float factor = xc_pair_round(a[row * k + p]);
                for (size_t j = 0; j < 16; j++)
                    sums[j] += factor * xc_half(from[p / 2 * 32 + j * 2 + p % 2], XC_BLOCK_BF16);
            }
            for (size_t j = 0; j < width; j++) {
                const size_t to = row * columns + first + j;
                y[to] =
                    xcvm_clamp_f32(sums[j] + (c != NULL ? c[first + j] : 0.0f) + (z != NULL ? z[to] : 0.0f), low, high);
            }
        }
}

#endif
