/* Tiles of products for every number of blocks and pixels that fits in registers. */
#include "ops/conv/simd/blocked_product.h"
#include "ops/conv/simd/blocked_sums.h"
#include "ops/matmul/packed.h"
#include "ops/simd/halves.h"

/* LINE: bytes of a cache line. */
enum { BLOCK = XCVM_CHANNEL_BLOCK, VECTORS = XCVM_BLOCK_VECTORS, SUMS = XCVM_PRODUCT_SUMS, LINE = 64 };

#define TILES_FUNCTION(name) f32_##name
#define TILES_ATTRIBUTE
#define TILES_PIXEL BLOCK
#define TILES_LANES xcvm_lanes
#define TILES_LOAD xcvm_lanes_load
#define TILES_ALL(from) xcvm_lanes_all(*(from))
#define TILES_ADD xcvm_lanes_add_product
#include "ops/conv/simd/blocked_tiles.h"

static bool is_side_by_side(const xcvm_blocked_product *g)
{
    return g->spacing == (g->pairs ? XCVM_BLOCK_PAIRS : BLOCK) && g->y_spacing == BLOCK;
}

/* Maximum pixels of a tile: limited by the registers for sums and, for non-constant spacing, by those for pixel
 * addresses. */
static size_t most_pixels(const xcvm_blocked_product *g)
{
    const size_t most = SUMS / VECTORS / g->blocks, limit = is_side_by_side(g) ? 12 : 6;
    return most < limit ? most : limit;
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
    const xcvm_blocked_tile_function tiles_of = g->pairs       ? xcvm_blocked_pairs(side_by_side)
                                                : side_by_side ? f32_side_by_side
                                                               : f32_apart;
    const size_t most = most_pixels(g), tiles = (pixels + most - 1) / most;
    for (size_t t = 0, p = 0; t < tiles; t++) {
        const size_t end = (t + 1) * pixels / tiles, count = end - p;
        const float *start = z != NULL ? z + p * g->y_spacing : NULL;
        float *to = y + p * g->y_spacing;
        if (g->ahead_lines != 0)
            fetch_lines(g);
        tiles_of(g, count, x + p * g->spacing, start, to);
        p = end;
    }
}
