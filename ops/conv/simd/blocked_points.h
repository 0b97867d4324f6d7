/* Products of tiles whose numbers are apart by their points: of a row of points at a time, for sums that are short. */
#ifndef XCVM_OPS_CONV_SIMD_BLOCKED_POINTS_H
#define XCVM_OPS_CONV_SIMD_BLOCKED_POINTS_H

#include "ops/conv/simd/blocked_product.h"

enum {
    XCVM_POINT_ROW = 6,
    XCVM_LINE = 64, /* bytes of a line of a cache */
};

/* Filters that come next, fetched line by line while others are multiplied; {0}: none. */
typedef struct xcvm_filters_ahead {
    const char *at;
    size_t stride;      /* bytes from one block of outputs to the next */
    size_t blocks;      /* that are left */
    size_t lines, line; /* of a block; the next one */
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

/* Sums over `steps` blocks of inputs, the last of `last` channels and the others whole, for a row of points. As in
 * blocked_product.h, each `chain` of them is summed up by itself and then added to y. */
typedef struct xcvm_point_row {
    size_t steps, last, chain;
    size_t x_point, x_step;
    size_t w_point, w_block;
    size_t y_point, y_block;
    bool resume; /* start with y, else with nothing */
} xcvm_point_row;

/* Of `pixels` tiles, side by side, and up to XCVM_PRODUCT_BLOCKS blocks of outputs. */
#define xcvm_multiply_points XCVM_PER_ISA(xcvm_multiply_points)
void xcvm_multiply_points(const xcvm_point_row *g, size_t blocks, size_t pixels, const float *x, const float *w,
                          float *y, xcvm_filters_ahead *ahead);
/* The runs in which it does that: for each, and each point, lines_a_point lines are fetched. */
#define xcvm_runs_of_points XCVM_PER_ISA(xcvm_runs_of_points)
size_t xcvm_runs_of_points(size_t blocks, size_t pixels);

#endif
