/* Tiles of products, for every number of blocks and pixels that registers hold. */
#include "ops/conv/simd/blocked_product.h"
#include "ops/matmul/packed.h"
#include "ops/simd/halves.h"

/* LINE: bytes of a line of a cache. */
enum { BLOCK = XCVM_CHANNEL_BLOCK, VECTORS = XCVM_BLOCK_VECTORS, SUMS = XCVM_PRODUCT_SUMS, LINE = 64 };

/* `pixels` and `blocks` are constants wherever it is called, and spacings too if pixels are blocks side by side. */
XCVM_TILE_FUNCTION void multiply_tile(const xcvm_blocked_product *g, const size_t blocks, const size_t pixels,
                                      const size_t spacing, const size_t y_spacing, const float *x, const float *z,
                                      float *y)
{
    const size_t vectors = blocks * VECTORS, w_block = g->w_block, y_block = g->y_block;
    xcvm_lanes sum[SUMS];
#pragma GCC unroll XCVM_UNROLL_16
    for (size_t p = 0; p < pixels; p++)
#pragma GCC unroll XCVM_UNROLL_8
        for (size_t v = 0; v < vectors; v++) {
            const size_t in_block = v % VECTORS * XCVM_LANES, at = v / VECTORS * y_block + p * y_spacing + in_block;
            xcvm_lanes start = {0};
            if (g->resume) {
                start = xcvm_lanes_load(y + at);
            } else {
                if (g->b != NULL)
                    start = xcvm_lanes_load(g->b + v * XCVM_LANES);
                if (z != NULL)
                    start += xcvm_lanes_load(z + at);
            }
            sum[p * vectors + v] = start;
        }
    for (size_t s = 0; s < g->step_count; s++) {
        const float *from = x + g->offsets[s], *const end = from + g->lengths[s], *w = g->w + g->filters[s];
#pragma GCC unroll XCVM_UNROLL_4
        for (; from < end; from++, w += BLOCK) {
            xcvm_lanes filter[4 * VECTORS];
#pragma GCC unroll XCVM_UNROLL_8
            for (size_t v = 0; v < vectors; v++)
                filter[v] = xcvm_lanes_load(w + v / VECTORS * w_block + v % VECTORS * XCVM_LANES);
#pragma GCC unroll XCVM_UNROLL_16
            for (size_t p = 0; p < pixels; p++) {
                const xcvm_lanes pixel = xcvm_lanes_all(from[p * spacing]);
#pragma GCC unroll XCVM_UNROLL_8
                for (size_t v = 0; v < vectors; v++)
                    sum[p * vectors + v] += pixel * filter[v];
            }
        }
    }
    const xcvm_lanes low = xcvm_lanes_all(g->low), high = xcvm_lanes_all(g->high);
#pragma GCC unroll XCVM_UNROLL_16
    for (size_t p = 0; p < pixels; p++)
#pragma GCC unroll XCVM_UNROLL_8
        for (size_t v = 0; v < vectors; v++) {
            xcvm_lanes result = sum[p * vectors + v];
            if (g->clamp)
                result = xcvm_lanes_min(xcvm_lanes_max(result, low), high);
            xcvm_lanes_store(y + v / VECTORS * y_block + p * y_spacing + v % VECTORS * XCVM_LANES, result);
        }
}

static bool is_side_by_side(const xcvm_blocked_product *g) { return g->spacing == BLOCK && g->y_spacing == BLOCK; }

/* Pixels of a tile at most: as many as there are sums for; or such that their places, which are no constants, stay in
 * registers too. */
static size_t most_pixels(const xcvm_blocked_product *g)
{
    const size_t most = SUMS / VECTORS / g->blocks, limit = is_side_by_side(g) ? 12 : 6;
    return most < limit ? most : limit;
}

#define TILE(blocks, pixels)                                                                                           \
    case (blocks)*16 + (pixels):                                                                                       \
        if ((blocks) <= XCVM_PRODUCT_BLOCKS && (blocks) * (pixels)*VECTORS <= SUMS)                                    \
            multiply_tile(g, blocks, pixels, spacing, y_spacing, x, z, y);                                             \
        break;
#define TILES_TO_6(blocks)                                                                                             \
    TILE(blocks, 1) TILE(blocks, 2) TILE(blocks, 3) TILE(blocks, 4) TILE(blocks, 5) TILE(blocks, 6)

static void multiply_side_by_side(const xcvm_blocked_product *g, size_t pixels, const float *x, const float *z,
                                  float *y)
{
    enum { spacing = BLOCK, y_spacing = BLOCK };
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

static void multiply_apart(const xcvm_blocked_product *g, size_t pixels, const float *x, const float *z, float *y)
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

void xcvm_blocked_take(xcvm_blocked_product *g, const xcvm_blocked_filters *w, size_t first, size_t count, float *room)
{
    if (!xcvm_dtype_in(w->dtype, XCVM_TYPES_NARROW)) {
        g->w = (const float *)w->at + first;
        g->w_block = w->block;
        return;
    }
    for (size_t i = 0; i < g->blocks; i++)
        xcvm_halves_load(w->dtype, w->at, first + i * w->block, count, room + i * count);
    g->w = room;
    g->w_block = count;
}

void xcvm_blocked_fetch(xcvm_blocked_product *g, const xcvm_blocked_filters *w, size_t first, size_t count,
                        size_t pixels)
{
    const size_t element = xcvm_packed_element(w->dtype);
    const size_t most = most_pixels(g), tiles = (pixels + most - 1) / most;
    g->ahead = (const char *)w->at + first * element;
    g->ahead_stride = w->block * element;
    g->ahead_lines = count * element / LINE;
    g->lines_a_tile = g->ahead_lines * g->blocks / tiles + 1;
    g->ahead_block = g->ahead_line = 0;
}

static void fetch_lines(xcvm_blocked_product *g)
{
    for (size_t left = g->lines_a_tile; left > 0 && g->ahead_block < g->blocks;) {
        const char *at = g->ahead + g->ahead_block * g->ahead_stride + g->ahead_line * LINE;
        const size_t rest = g->ahead_lines - g->ahead_line, count = left < rest ? left : rest;
        for (const char *const end = at + count * LINE; at < end; at += LINE)
            __builtin_prefetch(at, 0, 2);
        left -= count;
        g->ahead_line += count;
        if (count == rest) {
            g->ahead_line = 0;
            g->ahead_block++;
        }
    }
}

void xcvm_blocked_multiply(xcvm_blocked_product *g, const float *x, const float *z, float *y, size_t pixels)
{
    const bool side_by_side = is_side_by_side(g);
    const size_t most = most_pixels(g), tiles = (pixels + most - 1) / most;
    for (size_t t = 0, p = 0; t < tiles; t++) {
        const size_t end = (t + 1) * pixels / tiles, count = end - p;
        const float *start = z != NULL ? z + p * g->y_spacing : NULL;
        float *to = y + p * g->y_spacing;
        if (g->ahead_lines != 0)
            fetch_lines(g);
        if (side_by_side)
            multiply_side_by_side(g, count, x + p * BLOCK, start, to);
        else
            multiply_apart(g, count, x + p * g->spacing, start, to);
        p = end;
    }
}
