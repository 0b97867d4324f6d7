/* Plain SGD with gradients that are outer products, such as those of a layer's weights for one example. Gradients are
 * computed element by element where they are used, so only the weights are read and written, once, and rows that do not
 * change are not touched. */
#ifndef XCVM_OPS_OPTIMIZER_SIMD_OUTER_H
#define XCVM_OPS_OPTIMIZER_SIMD_OUTER_H

#include "base/denormals.h"
#include "ops/optimizer/simd/step_numbers.h"
#include "ops/simd/lanes.h"
#include "ops/simd/reductions.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

XCVM_INLINE void take_step(float *p, xcvm_lanes factor, const float *b, float rate)
{
    const xcvm_lanes gradient = (xcvm_lanes){0} + factor * xcvm_lanes_load(b);
    xcvm_lanes_store(p, xcvm_lanes_load(p) - rate * gradient);
}

/* The row tested last, and whether all its elements are finite. */
typedef struct looked_at {
    const float *row;
    size_t count;
    bool finite;
} looked_at;

static bool is_finite(looked_at *last, const float *row, size_t count)
{
    if (last->row == row && last->count == count)
        return last->finite;
    bool finite = true;
    for (size_t i = 0; i < count; i++)
        finite &= row[i] - row[i] == 0.0f;
    *last = (looked_at){row, count, finite};
    return finite;
}

/* Returns true if a row of gradients whose factor is 0 changes nothing: subtracting a positive rate times +0 leaves
 * each number unchanged if b is finite and subnormal numbers are not flushed. */
static bool keeps_rows(const xcvm_step_block *b, float rate, looked_at *last)
{
    const uint64_t flushed = xcvm_denormals_word() & (uint64_t)XCVM_DENORMALS_BITS;
    return flushed == 0 && rate > 0.0f && rate < INFINITY && is_finite(last, b->gradients, b->columns);
}

/* Updates a block of the matrix p, with gradients of depth 1 and rows of at least one vector. Vectors run over all
 * elements regardless of row boundaries, because row lengths are rarely multiples of the vector length, and handling
 * remainders would take as long as the row. Rows of units that ReLU has turned off have zero gradients and are skipped.
 */
static void descend_outer(float *p, const xcvm_step_block *block, float rate, looked_at *last_row)
{
    const xcvm_lanes_mask numbers = {XCVM_LANES_NUMBERS};
    const size_t columns = block->columns, first = block->first, end = first + block->count;
    const float *a = block->left, *b = block->gradients;
    float edge[2 * XCVM_LANES]; /* the end of a row and the start of the next */
    memcpy(edge, b + columns - XCVM_LANES, XCVM_LANES * sizeof *b);
    memcpy(edge + XCVM_LANES, b, XCVM_LANES * sizeof *b);
    size_t row = first / columns, begin = row * columns;
    for (size_t at = first; at < end; row++, begin += columns) {
        const size_t last = begin + columns < end ? begin + columns : end;
        const xcvm_lanes factor = xcvm_lanes_all(a[row]);
        if (a[row] == 0.0f && keeps_rows(block, rate, last_row)) {
            const size_t whole = last == end ? last : last - last % XCVM_LANES;
            at = at < whole ? whole : at;
        }
        for (; at + XCVM_LANES <= last; at += XCVM_LANES)
            take_step(p + at, factor, b + (at - begin), rate);
        if (at < last && at + XCVM_LANES <= end) {
            const xcvm_lanes_mask of_this = numbers < (int32_t)(last - at);
            take_step(p + at, xcvm_lanes_choose(of_this, factor, xcvm_lanes_all(a[row + 1])),
                      edge + (at - begin + XCVM_LANES - columns), rate);
            at += XCVM_LANES;
        }
        for (; at < last; at++)
            p[at] -= rate * (0.0f + a[row] * b[at - begin]);
    }
}

#endif
