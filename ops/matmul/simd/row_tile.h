/* Product tiles whose left operand is read in place: sums of contiguous elements of some rows, at separate addresses,
 * times the rows of a packed panel. This sums windows over images without a column matrix. */
#ifndef XCVM_OPS_MATMUL_SIMD_ROW_TILE_H
#define XCVM_OPS_MATMUL_SIMD_ROW_TILE_H

#include "ops/matmul/simd/gemm.h"

/* The sums, `vectors` vectors per row, for at most XCVM_GEMM_ROWS rows and XCVM_GEMM_VECTORS vectors. With constant
 * sizes they stay in registers. */
typedef xcvm_lanes xcvm_row_tile[XCVM_GEMM_ROWS * XCVM_GEMM_VECTORS];

XCVM_INLINE void xcvm_row_tile_clear(xcvm_lanes *sum, const size_t rows, const size_t vectors)
{
#pragma GCC unroll 32
    for (size_t i = 0; i < rows * vectors; i++)
        sum[i] = (xcvm_lanes){0};
}

/* Adds the products of element `at` of each row and the vectors of one row of the panel. */
XCVM_INLINE void xcvm_row_tile_add(xcvm_lanes *sum, const float *const *from, size_t at, const float *panel,
                                   const size_t rows, const size_t vectors)
{
    xcvm_lanes v[XCVM_GEMM_VECTORS];
#pragma GCC unroll 4
    for (size_t j = 0; j < vectors; j++)
        v[j] = xcvm_lanes_load(panel + j * XCVM_LANES);
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; i++) {
        const xcvm_lanes x = xcvm_lanes_all(from[i][at]);
#pragma GCC unroll 4
        for (size_t j = 0; j < vectors; j++)
            sum[i * vectors + j] = xcvm_lanes_add_product(sum[i * vectors + j], x, v[j]);
    }
}

/* Stores the sums; with `add`, adds them to existing ones. */
XCVM_INLINE void xcvm_row_tile_store(const xcvm_lanes *sum, const size_t rows, const size_t vectors, bool add,
                                     float *to)
{
#pragma GCC unroll 32
    for (size_t i = 0; i < rows * vectors; i++)
        xcvm_lanes_store(to + i * XCVM_LANES, add ? xcvm_lanes_load(to + i * XCVM_LANES) + sum[i] : sum[i]);
}

/* Transposes stored sums: vector `v` of rows [row, row + XCVM_LANES), one column per vector of `columns`. */
XCVM_INLINE void xcvm_row_tile_columns(const float *sums, size_t vectors, size_t v, size_t row,
                                       xcvm_lanes columns[XCVM_LANES])
{
#pragma GCC unroll 16
    for (size_t i = 0; i < XCVM_LANES; i++)
        columns[i] = xcvm_lanes_load(sums + ((row + i) * vectors + v) * XCVM_LANES);
    xcvm_lanes_transpose(columns);
}

/* X(vectors) for each width of a tile. */
#if XCVM_GEMM_VECTORS == 4
#define XCVM_ROW_TILE_WIDTHS(X) X(1) X(2) X(3) X(4)
#elif XCVM_GEMM_VECTORS == 3
#define XCVM_ROW_TILE_WIDTHS(X) X(1) X(2) X(3)
#else
#define XCVM_ROW_TILE_WIDTHS(X) X(1) X(2)
#endif

#endif
