/* Tiles of products for every number of blocks and pixels that fits in registers. */
#include "ops/conv/simd/blocked_points.h"
#include "ops/conv/simd/blocked_sums.h"

enum { BLOCK = XCVM_CHANNEL_BLOCK, VECTORS = XCVM_BLOCK_VECTORS };

/* `blocks` and `pixels` are constants at all call sites. */
XCVM_TILE_FUNCTION void multiply_tile(const xcvm_point_row *g, const size_t blocks, const size_t pixels, const float *x,
                                      const float *w, float *y, xcvm_filters_ahead *ahead)
{
    const size_t vectors = blocks * VECTORS, w_block = g->w_block;
    struct {
        const xcvm_point_row *g;
        const float *x, *w;
        float *y;
        xcvm_filters_ahead *ahead;
        size_t point;
    } at = {g, x, w, y, ahead, 0};
    for (; at.point < XCVM_POINT_ROW; at.point++) {
        xcvm_fetch_ahead(at.ahead, at.ahead->lines_a_point);
        const float *filters = at.w + at.point * at.g->w_point;
        for (size_t step = 0; step < at.g->steps;) {
            xcvm_lanes sum[XCVM_PRODUCT_SUMS];
            XCVM_SUMS_SPILL(at);
#pragma GCC unroll XCVM_UNROLL_16
            for (size_t p = 0; p < pixels; p++)
#pragma GCC unroll XCVM_UNROLL_8
                for (size_t v = 0; v < vectors; v++)
                    sum[p * vectors + v] = (xcvm_lanes){0};
            for (const size_t end = xcvm_min(step + at.g->chain, at.g->steps); step < end; step++) {
                const float *from = at.x + at.point * at.g->x_point + step * at.g->x_step;
                const float *const last = from + (step + 1 < at.g->steps ? BLOCK : at.g->last);
#pragma GCC unroll XCVM_UNROLL_CHANNELS
                for (; from < last; from++, filters += BLOCK) {
                    xcvm_lanes filter[XCVM_PRODUCT_BLOCKS * VECTORS];
#pragma GCC unroll XCVM_UNROLL_8
                    for (size_t v = 0; v < vectors; v++)
                        filter[v] = xcvm_lanes_load(filters + v / VECTORS * w_block + v % VECTORS * XCVM_LANES);
#pragma GCC unroll XCVM_UNROLL_16
                    for (size_t p = 0; p < pixels; p++) {
                        const xcvm_lanes pixel = xcvm_lanes_all(from[p * BLOCK]);
#pragma GCC unroll XCVM_UNROLL_8
                        for (size_t v = 0; v < vectors; v++)
                            sum[p * vectors + v] = xcvm_lanes_add_product(sum[p * vectors + v], pixel, filter[v]);
                    }
                }
            }
            XCVM_SUMS_SPILL(at);
            float *to = at.y + at.point * at.g->y_point;
            if (at.g->resume || step > at.g->chain)
                xcvm_sums_add(sum, pixels, vectors, to, BLOCK, at.g->y_block);
            xcvm_sums_store(sum, pixels, vectors, to, BLOCK, at.g->y_block);
        }
    }
}

#define TILE(blocks, pixels)                                                                                           \
    case (blocks)*16 + (pixels):                                                                                       \
        if ((blocks) <= XCVM_PRODUCT_BLOCKS && (blocks) * (pixels)*VECTORS <= XCVM_PRODUCT_SUMS)                       \
            multiply_tile(g, blocks, pixels, x, w, y, ahead);                                                          \
        break;
#define TILES_TO_6(blocks)                                                                                             \
    TILE(blocks, 1) TILE(blocks, 2) TILE(blocks, 3) TILE(blocks, 4) TILE(blocks, 5) TILE(blocks, 6)

static void multiply_run(const xcvm_point_row *g, size_t blocks, size_t pixels, const float *x, const float *w,
                         float *y, xcvm_filters_ahead *ahead)
{
    /* clang-format off */
    switch (blocks * 16 + pixels) {
    TILES_TO_6(1)
    TILES_TO_6(2) TILE(2, 7) TILE(2, 8) TILE(2, 9) TILE(2, 10) TILE(2, 11) TILE(2, 12)
    TILES_TO_6(3)
    TILES_TO_6(4)
    default: break;
    }
    /* clang-format on */
}

size_t xcvm_runs_of_points(size_t blocks, size_t pixels)
{
    return xcvm_ceil_div(pixels, xcvm_min(XCVM_PRODUCT_SUMS / VECTORS / blocks, blocks == 2 ? 12 : 6));
}

void xcvm_multiply_points(const xcvm_point_row *g, size_t blocks, size_t pixels, const float *x, const float *w,
                          float *y, xcvm_filters_ahead *ahead)
{
    const size_t runs = xcvm_runs_of_points(blocks, pixels);
    for (size_t run = 0, first = 0; run < runs; run++) {
        const size_t end = (run + 1) * pixels / runs;
        multiply_run(g, blocks, end - first, x + first * BLOCK, w, y + first * BLOCK, ahead);
        first = end;
    }
}
