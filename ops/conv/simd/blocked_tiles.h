/* Template of product tiles for every number of blocks and pixels that fits in registers. Included once per kind of
 * numbers, without a guard. The including file defines
 *
 * - TILES_FUNCTION(name): name of the function for this kind - TILES_ATTRIBUTE: attribute of the functions -
 * TILES_PIXEL: floats or words per pixel of a block - TILES_LANES: vector type of the operands - TILES_LOAD(from):
 * loads a vector; TILES_ALL(from): broadcasts *from - TILES_ADD(sum, pixel, filter): multiply-add
 *
 * This file undefines all of them. */

/* `pixels` and `blocks` are constants at all call sites, and so are the spacings of contiguous blocks. */
TILES_ATTRIBUTE XCVM_TILE_FUNCTION void TILES_FUNCTION(tile)(const xcvm_blocked_product *g, const size_t blocks,
                                                             const size_t pixels, const size_t spacing,
                                                             const size_t y_spacing, const float *x, const float *z,
                                                             float *y)
{
    const size_t vectors = blocks * VECTORS, w_block = g->w_block;
    struct {
        const xcvm_blocked_product *g;
        const float *x, *z;
        float *y;
        size_t chain;
    } at = {g, x, z, y, 0};
    do {
        XCVM_SUMS_SPILL(at);
        const bool first = !at.g->resume && at.chain == 0;
        xcvm_lanes sum[SUMS], start[4 * VECTORS];
#pragma GCC unroll XCVM_UNROLL_8
        for (size_t v = 0; v < vectors; v++)
            start[v] = first && at.g->b != NULL ? xcvm_lanes_load(at.g->b + v * XCVM_LANES) : (xcvm_lanes){0};
#pragma GCC unroll XCVM_UNROLL_16
        for (size_t p = 0; p < pixels; p++)
#pragma GCC unroll XCVM_UNROLL_8
            for (size_t v = 0; v < vectors; v++)
                sum[p * vectors + v] = start[v];
        const size_t end = at.g->chain_ends[at.chain];
        for (size_t s = at.chain > 0 ? at.g->chain_ends[at.chain - 1] : 0; s < end; s++) {
            const float *from = at.x + at.g->offsets[s], *const last = from + at.g->lengths[s];
            const float *w = at.g->w + at.g->filters[s];
#pragma GCC unroll XCVM_UNROLL_CHANNELS
            for (; from < last; from++, w += BLOCK) {
                TILES_LANES filter[4 * VECTORS];
#pragma GCC unroll XCVM_UNROLL_8
                for (size_t v = 0; v < vectors; v++)
                    filter[v] = TILES_LOAD(w + v / VECTORS * w_block + v % VECTORS * XCVM_LANES);
#pragma GCC unroll XCVM_UNROLL_16
                for (size_t p = 0; p < pixels; p++) {
                    const TILES_LANES pixel = TILES_ALL(from + p * spacing);
#pragma GCC unroll XCVM_UNROLL_8
                    for (size_t v = 0; v < vectors; v++)
                        sum[p * vectors + v] = TILES_ADD(sum[p * vectors + v], pixel, filter[v]);
                }
            }
        }
        XCVM_SUMS_SPILL(at);
        const float *added = !at.g->resume && at.chain == 0 ? at.z : at.y;
        at.chain++;
        if (added != NULL)
            xcvm_sums_add(sum, pixels, vectors, added, y_spacing, at.g->y_block);
        if (at.g->clamp && at.chain >= at.g->chain_count) {
            const xcvm_lanes low = xcvm_lanes_all(at.g->low), high = xcvm_lanes_all(at.g->high);
#pragma GCC unroll XCVM_UNROLL_16
            for (size_t p = 0; p < pixels; p++)
#pragma GCC unroll XCVM_UNROLL_8
                for (size_t v = 0; v < vectors; v++)
                    sum[p * vectors + v] = xcvm_lanes_min(xcvm_lanes_max(sum[p * vectors + v], low), high);
        }
        xcvm_sums_store(sum, pixels, vectors, at.y, y_spacing, at.g->y_block);
    } while (at.chain < at.g->chain_count);
}

#define TILE(blocks, pixels)                                                                                           \
    case (blocks)*16 + (pixels):                                                                                       \
        if ((blocks) <= XCVM_PRODUCT_BLOCKS && (blocks) * (pixels)*VECTORS <= SUMS)                                    \
            TILES_FUNCTION(tile)(g, blocks, pixels, spacing, y_spacing, x, z, y);                                      \
        break;
#define TILES_TO_6(blocks)                                                                                             \
    TILE(blocks, 1) TILE(blocks, 2) TILE(blocks, 3) TILE(blocks, 4) TILE(blocks, 5) TILE(blocks, 6)

TILES_ATTRIBUTE static void TILES_FUNCTION(side_by_side)(const xcvm_blocked_product *g, size_t pixels, const float *x,
                                                         const float *z, float *y)
{
    enum { spacing = TILES_PIXEL, y_spacing = BLOCK };
    /* clang-format off */
    switch (g->blocks * 16 + pixels) {
    TILES_TO_6(1) TILE(1, 7) TILE(1, 8) TILE(1, 9) TILE(1, 10) TILE(1, 11) TILE(1, 12)
    TILES_TO_6(2) TILE(2, 7) TILE(2, 8) TILE(2, 9) TILE(2, 10) TILE(2, 11) TILE(2, 12)
    TILES_TO_6(3) TILE(3, 7) TILE(3, 8)
    TILES_TO_6(4)
    default: break;
    }
    /* clang-format on */
}

TILES_ATTRIBUTE static void TILES_FUNCTION(apart)(const xcvm_blocked_product *g, size_t pixels, const float *x,
                                                  const float *z, float *y)
{
    const size_t spacing = g->spacing, y_spacing = g->y_spacing;
    switch (g->blocks * 16 + pixels) {
        TILES_TO_6(1)
        TILES_TO_6(2)
        TILES_TO_6(3)
        TILES_TO_6(4)
    default:
        break;
    }
}

#undef TILE
#undef TILES_TO_6
#undef TILES_FUNCTION
#undef TILES_ATTRIBUTE
#undef TILES_PIXEL
#undef TILES_LANES
#undef TILES_LOAD
#undef TILES_ALL
#undef TILES_ADD
