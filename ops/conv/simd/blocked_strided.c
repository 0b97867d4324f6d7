/* Winograd convolution of plain images with 7 x 7 windows and stride 2, the first layer of many networks. Even and odd
 * rows and columns form four phase images. In these the taps are windows of 4 x 4 or 3 of 4, with stride 1. The phases
 * of all channels form one block of channels. F(3 x 3, 4 x 4) needs a third of the multiplications of the definition.
 *
 * Threads process rows of tiles. The phases of a row of tiles are stored as blocks, reusing those of the preceding row.
 * Some tiles at a time are transformed, multiplied and transformed back for few blocks of outputs, so that all their
 * numbers stay in the first-level cache. */
#include "ops/conv/simd/blocked_points.h"
#include "ops/conv/simd/blocked_tile.h"

enum {
    BLOCK = XCVM_CHANNEL_BLOCK,
    TILE = 3,
    SPAN = 6,
    POINTS = SPAN * SPAN,
    PHASES = 4,
    LINES = 2 * XCVM_BLOCKED_STRIDED_CHANNELS,                  /* image lines that form a row of phases */
    BLOCKS = XCVM_PRODUCT_BLOCKS < 2 ? XCVM_PRODUCT_BLOCKS : 2, /* blocks of outputs that are multiplied together */
    MOST_TILES = XCVM_LANES == 16 ? 8 : 6,
    GAP = BLOCK
};

typedef struct blocked_strided_loop {
    const xcvm_kernel *k;
    const xcvm_blocked_conv *c;
    size_t rows, columns;              /* tiles of an image */
    size_t width;                      /* width of phases in pixels: whole vectors */
    size_t tiles;                      /* maximum tiles multiplied together */
    size_t input_point, product_point; /* floats between points */
    size_t line_floats, phase_floats, input_floats, product_floats;
    float *scratch;
} blocked_strided_loop;

/* ---- Phases ---- */

/* Copies row `row` of the padded image of one channel. */
static void copy_line(const xcvm_blocked_conv *c, const float *channel, size_t row, float *line, size_t floats)
{
    /* Rows before the image wrap to large numbers. */
    const size_t h = row - c->pad[0], left = xcvm_min(c->pad[1], floats), inside = xcvm_min(c->in[1], floats - left);
    if (h >= c->in[0]) {
        memset(line, 0, floats * sizeof *line);
        return;
    }
    memset(line, 0, left * sizeof *line);
    memcpy(line + left, channel + h * c->in[1], inside * sizeof *line);
    memset(line + left + inside, 0, (floats - left - inside) * sizeof *line);
}

/* Stores the phase rows from padded row `row` as pixels of one block. Order per channel: even rows and even columns,
 * then odd columns, then odd rows. */
static void block_phases(const blocked_strided_loop *r, const float *image, size_t row, float *lines, float *to)
{
    const xcvm_blocked_conv *c = r->c;
    const size_t channels = c->channels / PHASES, plane = c->in[0] * c->in[1];
    for (size_t i = 0; i < 2 * channels; i++)
        copy_line(c, image + i / 2 * plane, row + i % 2, lines + i * r->line_floats, 2 * r->width);
    for (size_t j = 0; j < r->width; j += XCVM_LANES)
        for (size_t first = 0; first < BLOCK; first += XCVM_LANES) {
            xcvm_lanes square[XCVM_LANES];
            for (size_t l = 0; l < XCVM_LANES; l += 2) {
                const size_t line = (first + l) / 2;
                const bool any = line < 2 * channels;
                const float *from = any ? lines + line * r->line_floats + 2 * j : NULL;
                const xcvm_lanes a = any ? xcvm_lanes_load(from) : (xcvm_lanes){0};
                const xcvm_lanes b = any ? xcvm_lanes_load(from + XCVM_LANES) : (xcvm_lanes){0};
                square[l] = xcvm_lanes_even(a, b);
                square[l + 1] = xcvm_lanes_odd(a, b);
            }
            xcvm_lanes_transpose(square);
            for (size_t l = 0; l < XCVM_LANES; l++)
                xcvm_lanes_store(to + (j + l) * BLOCK + first, square[l]);
        }
}

/* ---- Tiles ---- */

/* Computes tiles [first, last) of a row of tiles for blocks of outputs from `output`. */
static void run_tiles(const blocked_strided_loop *r, size_t image, size_t row, size_t first, size_t last, size_t output,
                      const float *inputs, float *products)
{
    const xcvm_blocked_conv *c = r->c;
    const size_t blocks = xcvm_min(c->outputs - output, BLOCKS), tiles = last - first;
    const size_t filters = c->channels * BLOCK;
    const xcvm_point_row g = {.steps = 1,
                              .chain = 1,
                              .last = c->channels,
                              .x_point = r->input_point,
                              .w_point = c->outputs * filters,
                              .w_block = filters,
                              .y_point = r->product_point,
                              .y_block = tiles * BLOCK};
    xcvm_filters_ahead none = {0};
    for (size_t point = 0; point < POINTS; point += XCVM_POINT_ROW)
        xcvm_multiply_points(&g, blocks, tiles, inputs + point * r->input_point,
                             (const float *)c->w + point * g.w_point + output * filters,
                             products + point * r->product_point, &none);
    const size_t rows = xcvm_min(c->out[0] - row * TILE, TILE);
    for (size_t b = 0; b < blocks; b++)
        for (size_t t = first; t < last; t++, products += BLOCK) {
            const size_t at =
                (((image * c->outputs + output + b) * c->out[0] + row * TILE) * c->out[1] + t * TILE) * BLOCK;
            const xcvm_tile_place to = {c->y + at, c->z != NULL ? c->z + at : NULL, c->out[1] * BLOCK, BLOCK};
            xcvm_tile_store(c, TILE, r->product_point, products, output + b, &to, rows,
                            xcvm_min(c->out[1] - t * TILE, TILE));
        }
}

static void run_rows(void *context, size_t begin, size_t end, int worker)
{
    const blocked_strided_loop *r = context;
    const xcvm_blocked_conv *c = r->c;
    const size_t pitch = r->width * BLOCK, runs = xcvm_ceil_div(r->columns, r->tiles);
    float *lines =
        r->scratch + (size_t)worker * (LINES * r->line_floats + r->phase_floats + r->input_floats + r->product_floats);
    float *phases = lines + LINES * r->line_floats, *inputs = phases + r->phase_floats;
    float *products = inputs + r->input_floats;
    xcvm_poller poller = xcvm_poller_of(r->k);
    for (size_t item = begin; item < end; item++) {
        const size_t image = item / r->rows, row = item % r->rows;
        const bool kept = item > begin && row > 0;
        if (kept)
            memmove(phases, phases + TILE * pitch, (SPAN - TILE) * pitch * sizeof *phases);
        for (size_t i = kept ? SPAN - TILE : 0; i < SPAN; i++)
            block_phases(r, c->x + image * (c->channels / PHASES) * c->in[0] * c->in[1], 2 * (row * TILE + i), lines,
                         phases + i * pitch);
        for (size_t run = 0; run < runs; run++) {
            const size_t first = run * r->columns / runs, last = (run + 1) * r->columns / runs;
            if (xcvm_poll_after(&poller, POINTS * c->channels * c->outputs) != XCVM_OK)
                return;
            for (size_t t = first; t < last; t++)
                xcvm_tile_transform(TILE, phases + t * TILE * BLOCK, pitch, inputs + (t - first) * BLOCK,
                                    r->input_point);
            for (size_t output = 0; output < c->outputs; output += BLOCKS)
                run_tiles(r, image, row, first, last, output, inputs, products);
        }
    }
}

xcvm_status xcvm_blocked_strided(xcvm_kernel *k, const xcvm_blocked_conv *c)
{
    const size_t threads = (size_t)xcvm_threads_count(k->threads);
    blocked_strided_loop r = {.k = k,
                              .c = c,
                              .rows = xcvm_ceil_div(c->out[0], TILE),
                              .columns = xcvm_ceil_div(c->out[1], TILE),
                              .tiles = MOST_TILES};
    r.width = xcvm_ceil_div(r.columns * TILE + SPAN - TILE, XCVM_LANES) * XCVM_LANES;
    r.line_floats = 2 * r.width;
    r.phase_floats = SPAN * r.width * BLOCK;
    r.input_point = r.tiles * BLOCK + GAP;
    r.product_point = BLOCKS * r.tiles * BLOCK + GAP;
    r.input_floats = POINTS * r.input_point;
    r.product_floats = POINTS * r.product_point;
    const size_t own = LINES * r.line_floats + r.phase_floats + r.input_floats + r.product_floats;
    r.scratch = xcvm_kernel_scratch(k, threads * own * sizeof(float));
    if (r.scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcvm_parallel(k->threads, c->batch * r.rows, 1, run_rows, &r);
    return xcvm_kernel_poll(k);
}
