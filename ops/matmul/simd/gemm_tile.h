/* A product tile: as many rows and vectors of the result as fit in registers. */
#ifndef XCVM_OPS_MATMUL_SIMD_GEMM_TILE_H
#define XCVM_OPS_MATMUL_SIMD_GEMM_TILE_H

#include "ops/matmul/simd/gemm.h"

typedef struct xcvm_gemm_tile {
    size_t depth;
    const float *a;
    size_t a_stride; /* between rows if columns are contiguous, else between columns */
    const void *b;
    xcvm_dtype b_dtype;        /* if not f32, the columns of a are contiguous; 0: f32 */
    size_t b_stride, b_vector; /* between rows, and between vectors of a row */
    /* Memory to prefetch during the product, one line per row for each vector of whole lines, with distances in bytes
     * between rows and vectors; NULL: some rows ahead in b. */
    const char *fetched;
    size_t fetched_stride, fetched_vector;
    float *c;
    const float *start; /* NULL: zero */
    size_t c_stride;    /* also of start */
    float alpha;
    const float *row_bias, *column_bias; /* NULL: zero */
    const xcvm_activation *clamp;        /* NULL: none */
} xcvm_gemm_tile;

/* X(rows, vectors) for each size that has a function. */
/* clang-format off */
#if XCVM_GEMM_VECTORS == 3
#define XCVM_GEMM_TILE_SIZES(X) \
    X(16, 1) \
    X(8, 3) X(8, 2) X(8, 1) X(4, 3) X(4, 2) X(4, 1) X(2, 3) X(2, 2) X(2, 1) X(1, 3) X(1, 2) X(1, 1)
#elif XCVM_GEMM_VECTORS == 4
#define XCVM_GEMM_TILE_SIZES(X) \
    X(12, 1) \
    X(6, 4) X(6, 3) X(6, 2) X(6, 1) X(4, 4) X(4, 3) X(4, 2) X(4, 1) \
    X(2, 4) X(2, 3) X(2, 2) X(2, 1) X(1, 4) X(1, 3) X(1, 2) X(1, 1)
#elif defined(__wasm__)
#define XCVM_GEMM_TILE_SIZES(X) X(8, 1) X(4, 2) X(4, 1) X(2, 2) X(2, 1) X(1, 2) X(1, 1)
#else
#define XCVM_GEMM_TILE_SIZES(X) X(12, 1) X(6, 2) X(6, 1) X(4, 2) X(4, 1) X(2, 2) X(2, 1) X(1, 2) X(1, 1)
#endif
/* clang-format on */

/* Largest number of rows with a function, out of `rows` remaining ones. */
#define xcvm_gemm_tile_rows XCVM_PER_ISA(xcvm_gemm_tile_rows)
size_t xcvm_gemm_tile_rows(size_t rows, size_t vectors);
#define xcvm_gemm_tile_run XCVM_PER_ISA(xcvm_gemm_tile_run)
void xcvm_gemm_tile_run(const xcvm_gemm_tile *t, size_t rows, size_t vectors, bool a_by_column);
/* The same for words of pairs (ops/matmul/pairs.h), with contiguous rows of a. */
#define xcvm_gemm_tile_pairs XCVM_PER_ISA(xcvm_gemm_tile_pairs)
void xcvm_gemm_tile_pairs(const xcvm_gemm_tile *t, size_t rows, size_t vectors);

/* Final operations on the sums of a tile, XCVM_GEMM_VECTORS per row. */
XCVM_INLINE void xcvm_gemm_tile_store(const xcvm_gemm_tile *t, xcvm_lanes *sum, const int rows, const int vectors)
{
    const xcvm_lanes alpha = xcvm_lanes_all(t->alpha);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        const xcvm_lanes bias = xcvm_lanes_all(t->row_bias != NULL ? t->row_bias[i] : 0.0f);
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            sum[i * XCVM_GEMM_VECTORS + j] = sum[i * XCVM_GEMM_VECTORS + j] * alpha + bias;
    }
    const size_t c_stride = t->c_stride;
    if (t->start != NULL)
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++)
                sum[i * XCVM_GEMM_VECTORS + j] += xcvm_lanes_load(t->start + (size_t)i * c_stride + j * XCVM_LANES);
    if (t->column_bias != NULL)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) {
            const xcvm_lanes bias = xcvm_lanes_load(t->column_bias + j * XCVM_LANES);
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++)
                sum[i * XCVM_GEMM_VECTORS + j] += bias;
        }
    if (t->clamp != NULL) {
        const xcvm_lanes low = xcvm_lanes_all(t->clamp->low), high = xcvm_lanes_all(t->clamp->high);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++)
                sum[i * XCVM_GEMM_VECTORS + j] =
                    xcvm_lanes_min(xcvm_lanes_max(sum[i * XCVM_GEMM_VECTORS + j], low), high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            xcvm_lanes_store(t->c + (size_t)i * c_stride + j * XCVM_LANES, sum[i * XCVM_GEMM_VECTORS + j]);
}

#endif
