/* Products of tiles stored point by point, a row of points at a time, for short sums. */
#ifndef XCVM_OPS_CONV_SIMD_BLOCKED_POINTS_H
#define XCVM_OPS_CONV_SIMD_BLOCKED_POINTS_H

#include "ops/conv/simd/blocked_product.h"

enum {
    XCVM_POINT_ROW = 6,
    XCVM_LINE = 64, /* bytes of a cache line */
};

/* Filters to prefetch line by line during a product; {0}: none. */
typedef struct xcvm_filters_ahead {
    const char *at;
    size_t stride;      /* bytes between blocks of outputs */
    size_t blocks;      /* remaining blocks */
    size_t lines, line; /* lines of a block; the next line */
    size_t lines_a_window, lines_a_point;
} xcvm_filters_ahead;

XCVM_INLINE void xcvm_fetch_ahead(xcvm_filters_ahead *a, size_t lines)
{
    for (; lines > 0 && a->blocks > 0; lines--) {
        __builtin_prefetch(a->at + a->line * XCVM_LINE, 0, 2);
        if (++a->line == a->lines) {
            a->line = 0;
            a->at += a->stride;
            a->blocks--;
        }
    }
}

/* Sums over `steps` blocks of inputs for a row of points. The last block has `last` channels and the others are whole.
 * As in blocked_product.h, each `chain` of them is summed separately and then added to y. */
typedef struct xcvm_point_row {
    size_t steps, last, chain;
    size_t x_point, x_step;
    size_t w_point, w_block;
    size_t y_point, y_block;
    bool resume; /* start with y, else with 0 */
} xcvm_point_row;

/* For `pixels` neighboring tiles and up to XCVM_PRODUCT_BLOCKS blocks of outputs. */
#define xcvm_multiply_points XCVM_PER_ISA(xcvm_multiply_points)
void xcvm_multiply_points(const xcvm_point_row *g, size_t blocks, size_t pixels, const float *x, const float *w,
                          float *y, xcvm_filters_ahead *ahead);
/* Number of runs of that function. In each run, lines_a_point lines are prefetched per point. */
#define xcvm_runs_of_points XCVM_PER_ISA(xcvm_runs_of_points)
size_t xcvm_runs_of_points(size_t blocks, size_t pixels);

#endif
