/* Tiles of products of bytes with vectors. The kernels add pairs of 16-bit products exactly, or quads of bytes at once
 * if the target has such instructions. */
#ifndef XC_QUANTIZED_LANES_H
#define XC_QUANTIZED_LANES_H

#include "compiler/export_c/c_runtime/quantized.h"
#include "ops/simd/sums.h"

#if XCVM_LANES == 16 && defined(__AVX512VNNI__)
#define XC_ADD_QUADS(sum, quad, w)                                                                                     \
    ((xcvm_sums)_mm512_dpbusd_epi32((__m512i)(sum), _mm512_set1_epi32((int)(quad)), (__m512i)(w)))
#elif XCVM_LANES == 8 && defined(__AVXVNNI__)
#define XC_ADD_QUADS(sum, quad, w)                                                                                     \
    ((xcvm_sums)_mm256_dpbusd_avx_epi32((__m256i)(sum), _mm256_set1_epi32((int)(quad)), (__m256i)(w)))
#else
/* Even and odd bytes are multiplied separately, because the sum of two products of bytes needs 17 bits. */
#define XC_ADD_QUADS(sum, quad, w)                                                                                     \
    xcvm_sums_add_pairs(xcvm_sums_add_pairs(sum, (xcvm_sums){0} + (int32_t)((quad)&0x00ff00ffu), xcvm_sums_even(w)),   \
                        (xcvm_sums){0} + (int32_t)((quad) >> 8 & 0x00ff00ffu), xcvm_sums_odd(w))
#endif

XCVM_INLINE void xc_quantized_tile_of(const uint8_t *x, size_t step, const size_t rows, size_t quads, const int8_t *w,
                                      uint32_t (*sums)[XC_QUANTIZED_OUTPUTS])
{
    xcvm_sums sum[XC_QUANTIZED_ROWS][XCVM_BLOCK_VECTORS];
#pragma GCC unroll 4
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (size_t v = 0; v < XCVM_BLOCK_VECTORS; v++)
            sum[i][v] = (xcvm_sums){0};
    for (size_t q = 0; q < quads; q++, w += 4 * XC_QUANTIZED_OUTPUTS) {
        xcvm_sums by[XCVM_BLOCK_VECTORS];
#pragma GCC unroll 4
        for (size_t v = 0; v < XCVM_BLOCK_VECTORS; v++)
            by[v] = xcvm_sums_load(w + v * sizeof(xcvm_sums));
#pragma GCC unroll 4
        for (size_t i = 0; i < rows; i++) {
            uint32_t quad;
            memcpy(&quad, x + i * step + 4 * q, sizeof quad);
#pragma GCC unroll 4
            for (size_t v = 0; v < XCVM_BLOCK_VECTORS; v++)
                sum[i][v] = XC_ADD_QUADS(sum[i][v], quad, by[v]);
        }
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < rows; i++)
        memcpy(sums[i], sum[i], sizeof sum[i]);
}

static void xc_quantized_tile_lanes(const uint8_t *x, size_t step, size_t rows, size_t quads, const int8_t *w,
                                    uint32_t (*sums)[XC_QUANTIZED_OUTPUTS])
{
    if (rows == XC_QUANTIZED_ROWS)
        xc_quantized_tile_of(x, step, XC_QUANTIZED_ROWS, quads, w, sums);
    else
        for (size_t i = 0; i < rows; i++)
            xc_quantized_tile_of(x + i * step, step, 1, quads, w, sums + i);
}

#endif
