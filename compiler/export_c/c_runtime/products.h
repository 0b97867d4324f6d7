/* Products of matrices. */
#ifndef XC_PRODUCTS_H
#define XC_PRODUCTS_H

#include "compiler/export_c/c_runtime/lanes.h"

/* y [m, n] = a [m, k] times b [k, n]. Elements of a are a_row and a_column apart, those of b b_row and b_column. */
static void xc_matmul_value(const value_t *a, const value_t *b, value_t *y, size_t m, size_t k, size_t n, size_t a_row,
                            size_t a_column, size_t b_row, size_t b_column)
{
    for (size_t i = 0; i < m; i++) {
        value_t *const row = y + i * n;
        for (size_t j = 0; j < n; j++)
            row[j] = 0;
        for (size_t p = 0; p < k; p++) {
            const value_t factor = a[i * a_row + p * a_column];
            const value_t *const from = b + p * b_row;
            if (b_column == 1)
                for (size_t j = 0; j < n; j++)
                    row[j] = xc_multiply_add_value(row[j], factor, from[j]);
            else
                for (size_t j = 0; j < n; j++)
                    row[j] = xc_multiply_add_value(row[j], factor, from[j * b_column]);
        }
    }
}

/* ---- Tiles of sums that stay in registers ---- */

/* Blocks of 16 outputs that a tile spans at most, and vectors of its sums. XC_OUTPUT_BLOCKS says how many blocks the
 * products of the program have at most, up to XC_MOST_TILE_BLOCKS: there are no tiles of more. */
#if XCVM_LANES == 16
enum { XC_TILE_BLOCKS = XC_OUTPUT_BLOCKS, XC_TILE_SUMS = 24, XC_TILE_PIXELS = 12 };
#elif XCVM_LANES == 8
enum { XC_TILE_BLOCKS = 1, XC_TILE_SUMS = 12, XC_TILE_PIXELS = 6 };
#elif defined(__wasm__)
enum { XC_TILE_BLOCKS = 1, XC_TILE_SUMS = 8, XC_TILE_PIXELS = 2 };
#elif XCVM_LANES == 4
enum { XC_TILE_BLOCKS = 1, XC_TILE_SUMS = 12, XC_TILE_PIXELS = 3 };
#else
enum { XC_TILE_BLOCKS = 1 };
#endif
enum { XC_STEPS = 64, XC_CHAINS = 8 };

/* y[k][p] = start + sum of x[offset + p * spacing + c] * w[k][filter + 16 * c] for the `length` channels c of each
 * step; start is y where the sum is resumed, else b + z, where they are not NULL. */
typedef struct xc_product {
    const float *w, *b;
    size_t w_block, count; /* floats from one block of outputs to the next; steps */
    ptrdiff_t shift;       /* to be added to all offsets */
    ptrdiff_t offsets[XC_STEPS];
    size_t filters[XC_STEPS], lengths[XC_STEPS];
    size_t spacing, y_spacing, y_block;
    float low, high; /* results are clamped to, if last */
    int resume, last;
    size_t made; /* steps that may be used again */
} xc_product;

#if defined(XC_PORTABLE)
/* For `pixels` pixels of one block, one after another, which is compact code. Four steps at a time shorten the chains
 * of additions to a quarter. */
static void xc_multiply(const xc_product *g, size_t blocks, size_t pixels, const float *x, const float *z, float *y)
{
    (void)blocks;
    for (size_t p = 0; p < pixels; p++) {
        float sum[16] = {0}, *const to = y + p * g->y_spacing;
        for (size_t s = 0; s < g->count; s++) {
            const float *from = x + (g->shift + g->offsets[s]) + p * g->spacing, *const last = from + g->lengths[s];
            const float *w = g->w + g->filters[s];
            for (; last - from >= 4; from += 4, w += 4 * 16) {
                const float a = from[0], b = from[1], c = from[2], d = from[3];
                XC_ROLLED
                for (size_t j = 0; j < 16; j++)
                    sum[j] += (a * w[j] + b * w[16 + j]) + (c * w[32 + j] + d * w[48 + j]);
            }
            for (; from < last; from++, w += 16)
                for (size_t j = 0; j < 16; j++)
                    sum[j] += *from * w[j];
        }
        for (size_t j = 0; j < 16; j++) {
            float total = sum[j] + (g->resume ? to[j] : g->b != NULL ? g->b[j] : 0.0f);
            total += z != NULL ? z[p * g->y_spacing + j] : 0.0f;
            to[j] = g->last ? xcvm_lanes_min(xcvm_lanes_max(total, g->low), g->high) : total;
        }
    }
}
#else
/* The sums of one pixel are too few to keep the processor busy, as each waits for the one before: it has XC_CHAINS,
 * which take turns and are added up at the end. */
XCVM_INLINE void xc_tile(const xc_product *g, const size_t blocks, const size_t pixels, const size_t spacing,
                         const float *x, float *sums)
{
    const size_t vectors = blocks * XCVM_BLOCK_VECTORS, turns = pixels == 1 ? XC_CHAINS / vectors : 1;
    const size_t w_block = g->w_block;
    xcvm_lanes sum[XC_TILE_SUMS];
#pragma GCC unroll 24
    for (size_t i = 0; i < turns * pixels * vectors; i++)
        sum[i] = XCVM_ZERO;
    for (size_t s = 0; s < g->count; s++) {
        const float *from = x + (g->shift + g->offsets[s]), *const last = from + g->lengths[s],
                    *w = g->w + g->filters[s];
        for (; turns > 1 && last - from >= (ptrdiff_t)turns; from += turns, w += turns * XCVM_CHANNEL_BLOCK) {
#pragma GCC unroll 16
            for (size_t i = 0; i < turns * vectors; i++) {
                const size_t turn = i / vectors, v = i % vectors;
                sum[i] += xcvm_lanes_all(from[turn]) *
                          xcvm_lanes_load(w + v / XCVM_BLOCK_VECTORS * w_block + turn * XCVM_CHANNEL_BLOCK +
                                          v % XCVM_BLOCK_VECTORS * XCVM_LANES);
            }
        }
        for (; from < last; from++, w += XCVM_CHANNEL_BLOCK) {
            xcvm_lanes filter[4 * XCVM_BLOCK_VECTORS];
#pragma GCC unroll 16
            for (size_t v = 0; v < vectors; v++)
                filter[v] = xcvm_lanes_load(w + v / XCVM_BLOCK_VECTORS * w_block + v % XCVM_BLOCK_VECTORS * XCVM_LANES);
#pragma GCC unroll 16
            for (size_t p = 0; p < pixels; p++) {
                const xcvm_lanes pixel = xcvm_lanes_all(from[p * spacing]);
#pragma GCC unroll 16
                for (size_t v = 0; v < vectors; v++)
                    sum[p * vectors + v] += pixel * filter[v];
            }
        }
    }
#pragma GCC unroll 16
    for (size_t i = vectors; i < turns * vectors; i++)
        sum[i % vectors] += sum[i];
#pragma GCC unroll 24
    for (size_t i = 0; i < pixels * vectors; i++)
        xcvm_lanes_store(sums + i * XCVM_LANES, sum[i]);
}

/* Adds the sums of a tile to the previous ones, and clamps them. All tiles of this number of blocks share the code,
 * because unrolled copies would be most of their code. */
XCVM_INLINE void xc_finish_tile(const xc_product *g, const size_t blocks, size_t pixels, const float *sums,
                                const float *z, float *y)
{
    /* The compiler cannot exclude that a store changes g. */
    const int resume = g->resume, last = g->last;
    const size_t y_spacing = g->y_spacing, y_block = g->y_block;
    const xcvm_lanes low = xcvm_lanes_all(g->low), high = xcvm_lanes_all(g->high);
    xcvm_lanes start[XC_TILE_BLOCKS * XCVM_BLOCK_VECTORS];
#pragma GCC unroll 16
    for (size_t v = 0; v < blocks * XCVM_BLOCK_VECTORS; v++)
        start[v] = g->b != NULL && !resume ? xcvm_lanes_load(g->b + v * XCVM_LANES) : XCVM_ZERO;
    for (size_t p = 0; p < pixels; p++)
#pragma GCC unroll 16
        for (size_t v = 0; v < blocks * XCVM_BLOCK_VECTORS; v++, sums += XCVM_LANES) {
            const size_t at = p * y_spacing + v / XCVM_BLOCK_VECTORS * y_block + v % XCVM_BLOCK_VECTORS * XCVM_LANES;
            xcvm_lanes total = xcvm_lanes_load(sums) + start[v];
            if (resume)
                total += xcvm_lanes_load(y + at);
            if (z != NULL)
                total += xcvm_lanes_load(z + at);
            if (last)
                total = xcvm_lanes_min(xcvm_lanes_max(total, low), high);
            xcvm_lanes_store(y + at, total);
        }
}

#define XC_TILE(blocks, pixels)                                                                                        \
    case (blocks)*16 + (pixels):                                                                                       \
        if ((blocks)*XCVM_BLOCK_VECTORS * (pixels) <= XC_TILE_SUMS)                                                    \
            xc_tile(g, (blocks), (pixels), g->spacing, x, sums);                                                       \
        break;

static void xc_multiply_tile(const xc_product *g, size_t blocks, size_t pixels, const float *x, float *sums)
{
    switch (blocks * 16 + pixels) {
        XC_TILE(1, 1)
        XC_TILE(1, 2)
        XC_TILE(1, 3)
        XC_TILE(1, 4)
#if XCVM_LANES >= 8
        XC_TILE(1, 5)
        XC_TILE(1, 6)
#endif
#if XCVM_LANES == 16
        XC_TILE(1, 7)
        XC_TILE(1, 8)
        XC_TILE(1, 9)
        XC_TILE(1, 10)
        XC_TILE(1, 11)
        XC_TILE(1, 12)
#endif
#if XCVM_LANES == 16 && XC_OUTPUT_BLOCKS > 1
        XC_TILE(2, 1)
        XC_TILE(2, 2)
        XC_TILE(2, 3)
        XC_TILE(2, 4)
        XC_TILE(2, 5)
        XC_TILE(2, 6)
        XC_TILE(2, 7)
        XC_TILE(2, 8)
        XC_TILE(2, 9)
        XC_TILE(2, 10)
        XC_TILE(2, 11)
        XC_TILE(2, 12)
#endif
#if XCVM_LANES == 16 && XC_OUTPUT_BLOCKS > 2
        XC_TILE(3, 1)
        XC_TILE(3, 2)
        XC_TILE(3, 3)
        XC_TILE(3, 4)
        XC_TILE(3, 5)
        XC_TILE(3, 6)
        XC_TILE(3, 7)
        XC_TILE(3, 8)
#endif
#if XCVM_LANES == 16 && XC_OUTPUT_BLOCKS > 3
        XC_TILE(4, 1)
        XC_TILE(4, 2)
        XC_TILE(4, 3)
        XC_TILE(4, 4)
        XC_TILE(4, 5)
        XC_TILE(4, 6)
#endif
    default:
        break;
    }
}

#define XC_FINISH(blocks)                                                                                              \
    case (blocks):                                                                                                     \
        xc_finish_tile(g, (blocks), end - p, sums, added, to);                                                         \
        break;

/* For `pixels` pixels, cut into tiles of about one size. */
static void xc_multiply(const xc_product *g, size_t blocks, size_t pixels, const float *x, const float *z, float *y)
{
    const size_t fitting = XC_TILE_SUMS / (blocks * XCVM_BLOCK_VECTORS);
    const size_t most = fitting < XC_TILE_PIXELS ? fitting : XC_TILE_PIXELS, tiles = (pixels + most - 1) / most;
    float sums[XC_TILE_SUMS * XCVM_LANES] __attribute__((aligned(64)));
    for (size_t t = 0, p = 0; t < tiles; t++) {
        const size_t end = (t + 1) * pixels / tiles;
        const float *const added = z != NULL ? z + p * g->y_spacing : NULL;
        float *const to = y + p * g->y_spacing;
        xc_multiply_tile(g, blocks, end - p, x + p * g->spacing, sums);
        switch (blocks) {
            XC_FINISH(1)
#if XCVM_LANES == 16 && XC_OUTPUT_BLOCKS > 1
            XC_FINISH(2)
#endif
#if XCVM_LANES == 16 && XC_OUTPUT_BLOCKS > 2
            XC_FINISH(3)
#endif
#if XCVM_LANES == 16 && XC_OUTPUT_BLOCKS > 3
            XC_FINISH(4)
#endif
        default:
            break;
        }
        p = end;
    }
}
#endif

/* y = a * w + c + z: w is in panels of 16 columns, c NULL or a number for each column, z NULL or as y. */
static void xc_packed_product(const float *a, const float *w, const float *c, const float *z, float *y, size_t rows,
                              size_t k, size_t columns, float low, float high)
{
    enum { ROWS = 48 };
    const size_t panels = (columns + 15) / 16, whole = columns / 16;
    xc_product g = {.w_block = k * 16,
                    .count = 1,
                    .shift = 0,
                    .offsets = {0},
                    .filters = {0},
                    .lengths = {k},
                    .spacing = k,
                    .y_spacing = columns,
                    .y_block = 16,
                    .low = low,
                    .high = high,
                    .resume = 0,
                    .made = 0};
    for (size_t row = 0; row < rows; row += ROWS) {
        const size_t count = rows - row < ROWS ? rows - row : ROWS;
        for (size_t panel = 0; panel < panels;) {
            const size_t left = whole - panel, most = left < XC_TILE_BLOCKS ? left : XC_TILE_BLOCKS;
            const size_t blocks = panel < whole ? most : 1, at = row * columns + panel * 16;
            g.w = w + panel * k * 16;
            g.b = c != NULL && panel < whole ? c + panel * 16 : NULL;
            g.last = panel < whole;
            if (panel < whole) {
                xc_multiply(&g, blocks, count, a + row * k, z != NULL ? z + at : NULL, y + at);
            } else {
                float line[16];
                const size_t width = columns - panel * 16;
                for (size_t i = 0; i < count; i++) {
                    xc_multiply(&g, 1, 1, a + (row + i) * k, NULL, line);
                    for (size_t j = 0; j < width; j++) {
                        const size_t to = at + i * columns + j;
                        const float sum = line[j] + (c != NULL ? c[panel * 16 + j] : 0.0f) + (z != NULL ? z[to] : 0.0f);
                        y[to] = xcvm_clamp_f32(sum, low, high);
                    }
                }
            }
            panel += blocks;
        }
    }
}

#endif
