/* The f32 matrix product: packing, blocking, and partition over threads. */
#include "ops/matmul/simd/gemm.h"
#include "ops/elementwise/simd/activation_rows.h"
#include "ops/matmul/packed.h"
#include "ops/matmul/simd/dot.h"
#include "ops/simd/reductions.h"
#include "ops/matmul/simd/gemm_small.h"
#include "ops/matmul/simd/gemm_tile.h"
#include "ops/matmul/simd/gemv.h"
#include "ops/simd/halves.h"

enum {
    /* Rows of b in a block: as many floats of each row of a tile stay in the first-level cache. */
    DEPTH = XCVM_LANES == 16 ? 1024 : 512,
    /* Floats of b in a block, for the second-level cache. */
    BLOCK = XCVM_LANES == 16 ? 96 * 1024 : 56 * 1024,
    /* Rows of words: one number for all instruction sets, so that sums have the same order. */
    PAIR_DEPTH = 512,
    /* Up to this many rows of a, panels are read from b in place: packing would cost more than it saves. */
    DIRECT_ROWS = 2 * XCVM_GEMM_ROWS,
    /* So are those of a matrix whose rows span this many floats, which stay in the first-level cache. */
    DIRECT_FLOATS = 8 * 1024,
    /* Up to this many rows, every tile converts halves to f32 itself. This is cheapest if an instruction converts 16 at
     * a time in parallel with the sums. */
    HALF_TILES = XCVM_LANES == 16 ? 16 : XCVM_LANES / 4,
    HALF_ROWS = HALF_TILES * XCVM_GEMM_ROWS,
    TILE = XCVM_GEMM_TALL * XCVM_GEMM_PANEL,
    DOT_CHUNK = 16,
};

void xcvm_gemm_panels(size_t m, size_t n, size_t k, const float *a, size_t a_row, const float *b, float *c,
                      size_t c_row)
{
    xcvm_gemm_tile t = {.depth = k, .a_stride = a_row, .b_vector = XCVM_LANES, .c_stride = c_row, .alpha = 1.0f};
    for (size_t i = 0; i < m; i += XCVM_GEMM_TALL) {
        const size_t last = m - i < XCVM_GEMM_TALL ? m : i + XCVM_GEMM_TALL;
        for (size_t j = 0; j < n; j += XCVM_GEMM_PANEL) {
            t.b = b + j * k;
            t.b_stride = xcvm_gemm_panel_width(j, n);
            for (size_t row = i, rows; row < last; row += rows) {
                rows = xcvm_gemm_tile_rows(last - row, t.b_stride / XCVM_LANES);
                t.a = a + row * a_row;
                t.c = c + row * c_row + j;
                xcvm_gemm_tile_run(&t, rows, t.b_stride / XCVM_LANES, false);
            }
        }
    }
}

/* ---- Blocks ---- */

/* A block of the product: rows [p, p + depth) of b, which begin at `b`. */
typedef struct block {
    const xcvm_gemm *g;
    size_t p, depth;
    bool first, last;
} block;

/* Final operations of a tile that is computed in a buffer: the same sums in the same order as in multiply_tile. */
typedef struct tile_end {
    const float *start, *bias;
    const xcvm_activation *clamp;
} tile_end;

static tile_end tile_end_of(const block *b)
{
    const xcvm_gemm *g = b->g;
    return (tile_end){.start = b->first ? g->start : g->c,
                      .bias = b->last ? g->column_bias : NULL,
                      .clamp = b->last ? g->activation : NULL};
}

/* Stores `n` elements of c from `at`. */
XCVM_INLINE void store_end(const xcvm_gemm *g, const tile_end *e, xcvm_lanes v, xcvm_lanes bias, size_t at, size_t n)
{
    if (e->start != NULL)
        v += xcvm_lanes_load_up_to(e->start + at, n);
    if (e->bias != NULL)
        v += bias;
    if (e->clamp != NULL)
        v = xcvm_lanes_min(xcvm_lanes_max(v, xcvm_lanes_all(e->clamp->low)), xcvm_lanes_all(e->clamp->high));
    xcvm_lanes_store_up_to(g->c + at, n, v);
}

/* Stores a tile whose columns are contiguous in c. */
static void store_columns(const block *b, const float *from, size_t i0, size_t rows, size_t j0, size_t columns)
{
    const xcvm_gemm *g = b->g;
    const tile_end e = tile_end_of(b);
    for (size_t i = 0; i < rows; i += XCVM_LANES)
        for (size_t j = 0; j < columns; j += XCVM_LANES) {
            const size_t height = xcvm_min(rows - i, XCVM_LANES), width = xcvm_min(columns - j, XCVM_LANES);
            xcvm_lanes square[XCVM_LANES];
            for (size_t r = 0; r < XCVM_LANES; r++)
                square[r] = r < height ? xcvm_lanes_load(from + (i + r) * XCVM_GEMM_PANEL + j) : (xcvm_lanes){0};
            xcvm_lanes_transpose(square);
            for (size_t c = 0; c < width; c++) {
                const xcvm_lanes bias = xcvm_lanes_all(e.bias != NULL ? e.bias[j0 + j + c] : 0.0f);
                store_end(g, &e, square[c], bias, i0 + i + (j0 + j + c) * g->c_column, height);
            }
        }
}

/* Stores a tile from `from` (rows of XCVM_GEMM_PANEL floats, with row bias added) if its rows in c are not whole
 * vectors. */
static void store_tile(const block *b, const float *from, size_t i0, size_t rows, size_t j0, size_t columns)
{
    const xcvm_gemm *g = b->g;
    const tile_end e = tile_end_of(b);
    if (g->c_column != 1) {
        store_columns(b, from, i0, rows, j0, columns);
        return;
    }
    for (size_t i = 0; i < rows; i++, from += XCVM_GEMM_PANEL)
        for (size_t j = 0; j < columns; j += XCVM_LANES) {
            const size_t n = columns - j;
            const xcvm_lanes bias = e.bias != NULL ? xcvm_lanes_load_up_to(e.bias + j0 + j, n) : (xcvm_lanes){0};
            store_end(g, &e, xcvm_lanes_load(from + j), bias, (i0 + i) * g->c_row + j0 + j, n);
        }
}

static void activate_tile(const xcvm_gemm *g, size_t i0, size_t rows, size_t j0, size_t columns)
{
    float *c = g->c + i0 * g->c_row + j0 * g->c_column;
    if (g->c_column == 1)
        for (size_t i = 0; i < rows; i++)
            xcvm_activate_row(g->activation, c + i * g->c_row, columns);
    else
        for (size_t j = 0; j < columns; j++)
            xcvm_activate_row(g->activation, c + j * g->c_column, rows);
}

/* A panel of b: rows begin at `at` and are `stride` apart; vectors of a row are `vector` apart, in elements. */
typedef struct panel_view {
    const void *at;
    xcvm_dtype dtype; /* f16, bf16 or f24, else f32 */
    size_t stride, vector;
    /* As in a tile. */
    const char *fetched;
    size_t fetched_stride, fetched_vector;
} panel_view;

/* Multiplies rows [i0, i1) by the panel of `columns` columns from j0. */
static void multiply_panel(const block *b, size_t i0, size_t i1, size_t j0, size_t columns, const panel_view *from)
{
    const xcvm_gemm *g = b->g;
    float whole[TILE] __attribute__((aligned(64)));
    const size_t vectors = (columns + XCVM_LANES - 1) / XCVM_LANES;
    const bool aside = g->c_column != 1 || columns % XCVM_LANES != 0;
    const bool by_column = g->a_column != 1;
    xcvm_gemm_tile t = {.depth = b->depth,
                        .b = from->at,
                        .b_dtype = from->dtype,
                        .b_stride = from->stride,
                        .b_vector = from->vector,
                        .fetched = from->fetched,
                        .fetched_stride = from->fetched_stride,
                        .fetched_vector = from->fetched_vector,
                        .alpha = g->alpha};
    t.a_stride = by_column ? g->a_column : g->a_row;
    t.c_stride = aside ? XCVM_GEMM_PANEL : g->c_row;
    if (!aside && b->last) {
        t.clamp = g->activation;
        t.column_bias = g->column_bias != NULL ? g->column_bias + j0 : NULL;
    }
    const float *start = b->first ? g->start : g->c;
    for (size_t i = i0, rows; i < i1; i += rows) {
        rows = xcvm_gemm_tile_rows(i1 - i, vectors);
        t.a = g->a + i * g->a_row + b->p * g->a_column;
        t.c = whole;
        if (!aside) {
            size_t at = i * g->c_row + j0;
            t.c = g->c + at;
            t.start = start != NULL ? start + at : NULL;
        }
        t.row_bias = b->last && g->row_bias != NULL ? g->row_bias + i : NULL;
        if (g->pairs)
            xcvm_gemm_tile_pairs(&t, rows, vectors);
        else
            xcvm_gemm_tile_run(&t, rows, vectors, by_column);
        t.fetched = NULL; /* one tile prefetches all */
        if (aside)
            store_tile(b, whole, i, rows, j0, columns);
        if (b->last && g->activation != NULL && g->activation->kind != XCVM_ACTIVATION_none)
            activate_tile(g, i, rows, j0, columns);
    }
}

/* Last columns that fill less than half a vector are computed as inner products with the rows of a, if these are
 * contiguous. */
static size_t dot_columns(const xcvm_gemm *g)
{
    const size_t columns = g->n % XCVM_LANES;
    return g->a_column == 1 && !g->b_packed && !g->b_ahead && columns <= XCVM_DOT_COLUMNS ? columns : 0;
}

/* Multiplies rows [i0, i1) by the last columns of c, whose runs of b->depth floats begin at `runs`, `stride` apart. */
static void multiply_dots(const block *b, size_t i0, size_t i1, size_t columns, const float *runs, size_t stride)
{
    const xcvm_gemm *g = b->g;
    float sums[DOT_CHUNK * XCVM_GEMM_PANEL];
    const size_t j0 = g->n - columns;
    for (size_t i = i0; i < i1; i += DOT_CHUNK) {
        const size_t rows = i1 - i < DOT_CHUNK ? i1 - i : DOT_CHUNK;
        xcvm_dot(g->a + i * g->a_row + b->p, g->a_row, runs, stride, b->depth, sums, XCVM_GEMM_PANEL, rows, columns);
        for (size_t r = 0; r < rows; r++) {
            const float bias = b->last && g->row_bias != NULL ? g->row_bias[i + r] : 0.0f;
            for (size_t j = 0; j < columns; j++)
                sums[r * XCVM_GEMM_PANEL + j] = sums[r * XCVM_GEMM_PANEL + j] * g->alpha + bias;
        }
        store_tile(b, sums, i, rows, j0, columns);
        if (b->last && g->activation != NULL && g->activation->kind != XCVM_ACTIVATION_none)
            activate_tile(g, i, rows, j0, columns);
    }
}

/* ---- Packing ---- */

/* Packs b with contiguous columns. */
static void pack_columns(const xcvm_gemm *g, size_t k0, size_t k1, size_t n0, size_t n1, float *panels)
{
    const size_t depth = k1 - k0;
    for (size_t j = n0; j < n1; j += XCVM_LANES) {
        size_t panel = (j - n0) / XCVM_GEMM_PANEL * XCVM_GEMM_PANEL;
        size_t width = xcvm_gemm_panel_width(panel, n1 - n0);
        size_t columns = n1 - j < XCVM_LANES ? n1 - j : XCVM_LANES;
        float *to = panels + panel * depth + (j - n0 - panel);
        const float *from = (const float *)g->b + j * g->b_column + k0;
        size_t p = 0;
        if (columns == XCVM_LANES)
            for (; p + XCVM_LANES <= depth; p += XCVM_LANES) {
                xcvm_lanes square[XCVM_LANES];
#pragma GCC unroll 16
                for (size_t i = 0; i < XCVM_LANES; i++)
                    square[i] = xcvm_lanes_load(from + i * g->b_column + p);
                xcvm_lanes_transpose(square);
#pragma GCC unroll 16
                for (size_t i = 0; i < XCVM_LANES; i++)
                    xcvm_lanes_store(to + (p + i) * width, square[i]);
            }
        for (; p < depth; p++)
            for (size_t i = 0; i < XCVM_LANES; i++)
                to[p * width + i] = i < columns ? from[i * g->b_column + p] : 0.0f;
    }
}

/* Packs b with contiguous rows. */
static void pack_rows(const xcvm_gemm *g, size_t k0, size_t k1, size_t n0, size_t n1, float *panels)
{
    const size_t depth = k1 - k0;
    for (size_t j = 0; j < n1 - n0; j += XCVM_GEMM_PANEL) {
        const size_t width = xcvm_gemm_panel_width(j, n1 - n0);
        const size_t columns = n1 - n0 - j < width ? n1 - n0 - j : width;
        float *to = panels + j * depth;
        const float *from = (const float *)g->b + k0 * g->b_row + n0 + j;
        for (size_t p = 0; p < depth; p++, to += width, from += g->b_row) {
            size_t i = 0;
            for (; i + XCVM_LANES <= columns; i += XCVM_LANES)
                xcvm_lanes_store(to + i, xcvm_lanes_load(from + i));
            for (; i < width; i++)
                to[i] = i < columns ? from[i] : 0.0f;
        }
    }
}

void xcvm_gemm_pack(const xcvm_gemm *g, size_t k0, size_t k1, size_t n0, size_t n1, float *panels)
{
    if (g->b_rows != NULL)
        g->b_rows(g, k0, k1, n0, n1, panels);
    else if (g->b_column == 1)
        pack_rows(g, k0, k1, n0, n1, panels);
    else
        pack_columns(g, k0, k1, n0, n1, panels);
}

/* ---- One thread's part ---- */

static size_t block_depth(const xcvm_gemm *g)
{
    if (g->pairs)
        return g->k < PAIR_DEPTH ? g->k : PAIR_DEPTH;
    size_t blocks = (g->k + DEPTH - 1) / DEPTH;
    return blocks <= 1 ? g->k : xcvm_round_up((g->k + blocks - 1) / blocks, XCVM_LANES);
}

/* Blocks of a prepacked matrix begin and end at panel boundaries. */
static size_t block_width(const xcvm_gemm *g, size_t depth)
{
    enum { UNIT = XCVM_GEMM_PANEL % XCVM_PACKED_COLUMNS == 0 ? XCVM_GEMM_PANEL : XCVM_PACKED_COLUMNS };
    const size_t unit = g->b_ahead ? UNIT : XCVM_GEMM_PANEL;
    size_t width = BLOCK / (depth > 0 ? depth : 1) / unit * unit;
    size_t most = xcvm_round_up(g->n, g->b_ahead ? XCVM_PACKED_COLUMNS : XCVM_LANES);
    width = width < unit ? unit : width;
    return width < most ? width : most;
}

/* Returns true if blocks of a prepacked matrix are converted to f32 in scratch. */
static bool is_widened(const xcvm_gemm *g)
{
    return g->b_ahead && xcvm_dtype_in(g->b_dtype, XCVM_TYPES_NARROW) && g->m > HALF_ROWS;
}

static bool is_direct(const xcvm_gemm *g)
{
    if (g->b_rows != NULL || g->b_column != 1)
        return false;
    /* The result must also hold for a range of columns, which uses the scratch computed for all. */
    return g->m <= DIRECT_ROWS || (g->b_row <= DIRECT_FLOATS && g->b_row * g->k <= DIRECT_FLOATS);
}

/* Columns of the next panel that is read in place, of `left`: whole vectors, and two plus two instead of three plus
 * one, which loads as much as it multiplies. */
static size_t direct_columns(size_t left)
{
    const size_t vectors = left / XCVM_LANES;
    if (vectors == 4 && XCVM_GEMM_VECTORS == 3)
        return 2 * XCVM_LANES;
    return xcvm_min(vectors, XCVM_GEMM_VECTORS) * XCVM_LANES;
}

/* Floats for the last columns of a block: packed, and as runs. */
static size_t dots_size(size_t depth) { return depth * (XCVM_LANES + XCVM_DOT_COLUMNS); }

size_t xcvm_gemm_part_scratch(const xcvm_gemm *g)
{
    const size_t depth = block_depth(g);
    if (g->b_packed || (g->b_ahead && !is_widened(g)))
        return 0;
    if (g->b_ahead)
        return depth * block_width(g, depth) * sizeof(float);
    /* If b is read in place, only its last, incomplete vector is packed. */
    const size_t panels = depth * (is_direct(g) ? XCVM_LANES : block_width(g, depth));
    return (panels + (g->a_column == 1 ? dots_size(depth) : 0)) * sizeof(float);
}

/* Returns the last columns of rows [p, p + depth) of b as runs of floats, `stride` apart, in `buffer` or in place. */
static const float *dot_runs(const block *b, size_t columns, float *buffer, size_t *stride)
{
    const xcvm_gemm *g = b->g;
    const size_t j0 = g->n - columns;
    *stride = g->b_column;
    if (g->b_rows == NULL && g->b_row == 1)
        return (const float *)g->b + j0 * g->b_column + b->p;
    xcvm_gemm_pack(g, b->p, b->p + b->depth, j0, g->n, buffer);
    float *runs = buffer + b->depth * XCVM_LANES;
    for (size_t j = 0; j < columns; j++)
        for (size_t p = 0; p < b->depth; p++)
            runs[j * b->depth + p] = buffer[p * XCVM_LANES + j];
    *stride = b->depth;
    return runs;
}

/* Converts the panels that begin in columns [j, end) of a prepacked block to f32 in `buffer`: b->depth rows each,
 * contiguous, starting with the panel of column n. */
static void widen_panels(const block *b, size_t n, size_t j, size_t end, float *buffer)
{
    const xcvm_gemm *g = b->g;
    for (j = xcvm_round_up(j, XCVM_PACKED_COLUMNS); j < end; j += XCVM_PACKED_COLUMNS)
        xcvm_halves_load(g->b_dtype, g->b, j * g->k + b->p * XCVM_PACKED_COLUMNS, b->depth * XCVM_PACKED_COLUMNS,
                         buffer + (j - n) * b->depth);
}

/* Prefetches the next panel, of column j, while converted panels are multiplied. */
static void fetch_panel(const block *b, size_t j, panel_view *from)
{
    const xcvm_gemm *g = b->g;
    const size_t element = xcvm_packed_element(g->b_dtype), panel = j / XCVM_PACKED_COLUMNS * XCVM_PACKED_COLUMNS;
    from->fetched = (const char *)g->b + (panel * g->k + b->p * XCVM_PACKED_COLUMNS) * element;
    from->fetched_stride = XCVM_PACKED_COLUMNS * element;
    from->fetched_vector = XCVM_LANES == XCVM_PACKED_COLUMNS ? g->k * from->fetched_stride : 0;
}

/* The panel of column j, where a vector begins, in a prepacked matrix or in its part that widen_panels has converted
 * from column n (NULL: none). */
static panel_view ahead_panel(const block *b, size_t j, size_t n, const float *widened)
{
    const xcvm_gemm *g = b->g;
    const size_t within = j % XCVM_PACKED_COLUMNS, depth = widened != NULL ? b->depth : g->k;
    const size_t at = widened != NULL ? (j - within - n) * depth : (j - within) * depth + b->p * XCVM_PACKED_COLUMNS;
    panel_view from = {.at = widened, .stride = XCVM_PACKED_COLUMNS, .vector = XCVM_LANES};
    if (widened == NULL) {
        from.at = g->b;
        from.dtype = g->b_dtype;
    }
    from.at = (const char *)from.at + (at + within) * xcvm_packed_element(from.dtype);
    if (XCVM_LANES == XCVM_PACKED_COLUMNS)
        from.vector = depth * XCVM_PACKED_COLUMNS;
    return from;
}

/* Multiplies one block of b by rows [m0, m1): columns [n, end) in panels, then `dots` last ones. Iterates over the
 * tiles of all panels, so that the rows of a are read once per block. */
static xcvm_status multiply_block(xcvm_poller *poller, const block *b, size_t m0, size_t m1, size_t n, size_t end,
                                  size_t dots, float *buffer)
{
    const xcvm_gemm *g = b->g;
    const bool packed = g->b_packed || g->b_ahead, direct = !packed && is_direct(g);
    const bool widened = buffer != NULL && is_widened(g);
    const size_t rest = direct ? (end - n) % XCVM_LANES : 0;
    size_t run_stride = 0;
    const float *runs = NULL;
    if (direct && rest > 0)
        pack_rows(g, b->p, b->p + b->depth, end - rest, end, buffer);
    else if (!direct && !packed && end > n)
        xcvm_gemm_pack(g, b->p, b->p + b->depth, n, end, buffer);
    if (dots > 0)
        runs = dot_runs(b, dots, buffer + b->depth * (direct ? XCVM_LANES : xcvm_round_up(end - n, XCVM_LANES)),
                        &run_stride);
    for (size_t i = m0; i < m1; i += XCVM_GEMM_TALL) {
        const size_t last = m1 - i < XCVM_GEMM_TALL ? m1 : i + XCVM_GEMM_TALL;
        XCVM_TRY(xcvm_poll_after(poller, (end - n + dots) * b->depth));
        for (size_t j = n, columns; j < end; j += columns) {
            columns = end - j < XCVM_GEMM_PANEL ? end - j : XCVM_GEMM_PANEL;
            panel_view from = {.stride = xcvm_gemm_panel_width(j, g->b_packed ? g->n : end), .vector = XCVM_LANES};
            if (g->b_ahead) {
                from = ahead_panel(b, j, n, widened ? buffer : NULL);
                if (widened && i == m0) {
                    widen_panels(b, n, j, j + columns, buffer);
                    if (j + columns < end)
                        fetch_panel(b, j + columns, &from);
                }
            } else if (g->b_packed) {
                from.at = (const float *)g->b + j * g->k + b->p * from.stride;
            } else if (direct && columns == rest) {
                from.at = buffer;
            } else if (direct) {
                columns = direct_columns(end - j);
                from.at = (const float *)g->b + b->p * g->b_row + j;
                from.stride = g->b_row;
            } else {
                from.at = buffer + (j - n) * b->depth;
            }
            multiply_panel(b, i, last, j, columns, &from);
        }
        if (dots > 0)
            multiply_dots(b, i, last, dots, runs, run_stride);
    }
    return XCVM_OK;
}

double xcvm_gemm_packing_cost(const xcvm_gemm *g)
{
    if (is_widened(g))
        return 2;
    return g->b_packed || g->b_ahead || is_direct(g) ? 0 : 8;
}

xcvm_status xcvm_gemm_part(const xcvm_kernel *k, const xcvm_gemm *g, size_t m0, size_t m1, size_t n0, size_t n1,
                           void *scratch)
{
    if (m0 >= m1 || n0 >= n1)
        return XCVM_OK;
    const size_t depth = block_depth(g);
    const size_t dots = n1 == g->n ? dot_columns(g) : 0, panels_end = n1 - dots;
    const size_t width = g->b_packed || g->b_ahead || !is_direct(g) ? block_width(g, depth) : n1 - n0;
    xcvm_poller poller = xcvm_poller_of(k);
    size_t n = n0;
    do {
        const size_t end = panels_end - n < width ? panels_end : n + width;
        size_t p = 0;
        do {
            block b = {.g = g, .p = p, .depth = g->k - p < depth ? g->k - p : depth, .first = p == 0};
            b.last = p + b.depth == g->k;
            XCVM_TRY(xcvm_kernel_poll(k));
            XCVM_TRY(multiply_block(&poller, &b, m0, m1, n, end, end == panels_end ? dots : 0, scratch));
            p += b.depth;
        } while (p < g->k);
        n = end;
    } while (n < panels_end);
    return XCVM_OK;
}
