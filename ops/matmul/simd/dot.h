/* Inner products of rows of two matrices, for columns that are too few to fill vectors. */
#ifndef XCVM_OPS_MATMUL_SIMD_DOT_H
#define XCVM_OPS_MATMUL_SIMD_DOT_H

#include "ops/simd/lanes.h"

#if XCVM_LANES == 16
#define XCVM_DOT_COLUMNS 6
#else
#define XCVM_DOT_COLUMNS 3
#endif
enum { XCVM_DOT_ROWS = 4 };

/* y[i * y_row + j] = sum of a[i * a_row + p] * b[j * b_row + p] over p < k. */
XCVM_INLINE void xcvm_dot_tile(const float *a, size_t a_row, const float *b, size_t b_row, size_t k, float *y,
                               size_t y_row, const int rows, const int columns)
{
    xcvm_lanes sum[XCVM_DOT_ROWS][XCVM_DOT_COLUMNS];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int j = 0; j < columns; j++)
            sum[i][j] = (xcvm_lanes){0};
    size_t p = 0;
    for (; p + XCVM_LANES <= k; p += XCVM_LANES) {
        xcvm_lanes v[XCVM_DOT_COLUMNS];
#pragma GCC unroll 8
        for (int j = 0; j < columns; j++)
            v[j] = xcvm_lanes_load(b + (size_t)j * b_row + p);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            const xcvm_lanes x = xcvm_lanes_load(a + (size_t)i * a_row + p);
#pragma GCC unroll 8
            for (int j = 0; j < columns; j++)
                sum[i][j] = xcvm_lanes_add_product(sum[i][j], x, v[j]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int j = 0; j < columns; j++)
            y[(size_t)i * y_row + (size_t)j] = xcvm_lanes_sum(sum[i][j]);
    if (p == k)
        return;
        /* Not unrolled: two dozen copies of this would be most of the code. */
#pragma GCC unroll 1
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 1
        for (int j = 0; j < columns; j++) {
            float rest = 0.0f;
            for (size_t q = p; q < k; q++)
                rest += a[(size_t)i * a_row + q] * b[(size_t)j * b_row + q];
            y[(size_t)i * y_row + (size_t)j] += rest;
        }
}

#define XCVM_DOT_CASE(columns)                                                                                         \
    case columns:                                                                                                      \
        xcvm_dot_tile(a, a_row, b, b_row, k, y, y_row, XCVM_DOT_ROWS, columns);                                        \
        break;
#define XCVM_DOT_CASE_ROW(columns)                                                                                     \
    case columns:                                                                                                      \
        xcvm_dot_tile(a, a_row, b, b_row, k, y, y_row, 1, columns);                                                    \
        break;
#if XCVM_DOT_COLUMNS == 6
#define XCVM_DOT_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define XCVM_DOT_CASES(X) X(1) X(2) X(3)
#endif

/* The same for any number of rows and up to XCVM_DOT_COLUMNS columns. */
static inline void xcvm_dot(const float *a, size_t a_row, const float *b, size_t b_row, size_t k, float *y,
                            size_t y_row, size_t rows, size_t columns)
{
    for (; rows >= XCVM_DOT_ROWS; rows -= XCVM_DOT_ROWS, a += XCVM_DOT_ROWS * a_row, y += XCVM_DOT_ROWS * y_row)
        switch (columns) {
            XCVM_DOT_CASES(XCVM_DOT_CASE)
        default:
            break;
        }
    for (; rows > 0; rows--, a += a_row, y += y_row)
        switch (columns) {
            XCVM_DOT_CASES(XCVM_DOT_CASE_ROW)
        default:
            break;
        }
}

#undef XCVM_DOT_CASE
#undef XCVM_DOT_CASE_ROW
#undef XCVM_DOT_CASES

#endif
