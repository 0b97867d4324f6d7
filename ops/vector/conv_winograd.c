/* Convolutions with 3 x 3 windows by Winograd's F(4 x 4, 3 x 3): Lavin and Gray, "Fast Algorithms for Convolutional
 * Neural Networks" (2015), with the interpolation points 0, +-1 / sqrt 2, +-sqrt 2 and infinity, that lose less
 * precision than 0,
 * +-1, +-2: results differ from exact ones by some 1e-6 of their standard deviation, 2e-5 at most. Tiles of 6 x 6
 * inputs and the filters are transformed; 36 products over the channels follow, one for each position of a tile; and
 * what they give is transformed into tiles of 4 x 4 outputs.
 *
 * Blocks of tiles are transformed at a time, straight into the panels of the products; then blocks of filters are
 * transformed, multiplied and stored. The filters' transforms are made anew for each block of tiles: reading four times
 * as many numbers from memory would take longer. */
#include "ops/vector/activation.h"
#include "ops/vector/conv.h"
#include "ops/vector/gemm.h"

enum {
    TILE = 4,        /* outputs along an axis */
    SPAN = TILE + 2, /* inputs */
    POINTS = SPAN * SPAN,
    FILTERS = 16, /* in a block */
    /* Tiles in a block, if there are as many: fewer do not make up for the filters' transforms. */
    LEAST_TILES = 64,
    /* Floats of the transformed tiles of a block. */
    BLOCK = 1024 * 1024,
    CHUNK = XCVM_GEMM_PANEL, /* tiles that are transformed at a time */
    CHUNK_FLOATS = CHUNK + XCVM_LANES,
    /* Between the matrices of two points: as they are read and written side by side, they must not all fall into the
     * same set of a cache. */
    GAP = 16,
    LINE = TILE * CHUNK + 2 + 8 * XCVM_LANES,
    THREAD_WORK = 400 * 1000
};

#define ROOT2 1.41421356237f

/* How a convolution is cut up. */
typedef struct plan {
    size_t rows, columns, tiles; /* of tiles; tiles of all images */
    size_t block;                /* tiles in a block */
    size_t depth;                /* floats of a row of transformed filters */
    size_t blocks_of_filters;
    /* Floats from the matrix of one point to that of the next. */
    size_t input_stride, filter_stride, product_stride;
} plan;

static plan plan_of(const xcvm_conv_shape *s)
{
    const xcvm_window *w = &s->window;
    plan p = {.rows = (w->out[1] + TILE - 1) / TILE, .columns = (w->out[2] + TILE - 1) / TILE};
    p.tiles = s->batch * p.rows * p.columns;
    size_t most = BLOCK / POINTS / s->channels / XCVM_LANES * XCVM_LANES;
    most = most < LEAST_TILES ? LEAST_TILES : most;
    const size_t blocks = (p.tiles + most - 1) / most;
    p.block = xcvm_round_up((p.tiles + blocks - 1) / blocks, XCVM_LANES);
    p.depth = xcvm_round_up(s->channels, XCVM_LANES);
    p.blocks_of_filters = (s->outputs + FILTERS - 1) / FILTERS;
    p.input_stride = xcvm_gemm_packed_size(s->channels, p.block) + GAP;
    p.filter_stride = FILTERS * p.depth + GAP;
    p.product_stride = FILTERS * p.block + GAP;
    return p;
}

typedef struct work {
    const xcvm_kernel *k;
    const xcvm_conv *c;
    plan plan;
    size_t group;
    size_t first, count; /* tiles of the block */
    float *inputs;       /* POINTS matrices of channels x count, as panels */
    char *scratch;       /* of the workers */
    size_t scratch_bytes;
    uint32_t status; /* atomic */
} work;

/* ---- Inputs ---- */

XCVM_INLINE void transform_input(const xcvm_lanes d[SPAN], xcvm_lanes t[SPAN])
{
    const xcvm_lanes a = d[4] - 2.0f * d[2], b = (0.5f * ROOT2) * d[3] - ROOT2 * d[1];
    const xcvm_lanes c = d[4] - 0.5f * d[2], e = ROOT2 * d[3] - (0.5f * ROOT2) * d[1];
    t[0] = d[0] - 2.5f * d[2] + d[4];
    t[1] = a + b;
    t[2] = a - b;
    t[3] = c + e;
    t[4] = c - e;
    t[5] = d[1] - 2.5f * d[3] + d[5];
}

/* `count` floats of a row of a plane, from column `from` on, which may be below 0; zero outside. `row` NULL: all zero.
 */
static void copy_padded(const float *row, ptrdiff_t from, size_t width, size_t count, float *to)
{
    ptrdiff_t first = from < 0 ? -from : 0, last = (ptrdiff_t)width - from;
    first = first > (ptrdiff_t)count ? (ptrdiff_t)count : first;
    last = last > (ptrdiff_t)count ? (ptrdiff_t)count : last;
    if (row == NULL || last <= first) {
        memset(to, 0, count * sizeof *to);
        return;
    }
    for (ptrdiff_t i = 0; i < first; i++)
        to[i] = 0.0f;
    xcvm_copy_floats(to + first, row + from + first, (size_t)(last - first));
    for (size_t i = (size_t)last; i < count; i++)
        to[i] = 0.0f;
}

/* tiles[j][t] = line[TILE * t + j]; writes up to a vector beyond `count`. */
static void split_line(const float *line, size_t count, float tiles[SPAN][CHUNK_FLOATS], size_t at)
{
    for (size_t t = 0; t < count; t += XCVM_LANES) {
        for (int shift = 0; shift < 2; shift++) {
            const float *from = line + TILE * (t + (size_t)shift);
            const xcvm_lanes a = xcvm_lanes_load(from), b = xcvm_lanes_load(from + XCVM_LANES);
            const xcvm_lanes c = xcvm_lanes_load(from + 2 * XCVM_LANES), d = xcvm_lanes_load(from + 3 * XCVM_LANES);
            const xcvm_lanes even_ab = xcvm_lanes_even(a, b), even_cd = xcvm_lanes_even(c, d);
            const xcvm_lanes odd_ab = xcvm_lanes_odd(a, b), odd_cd = xcvm_lanes_odd(c, d);
            float(*to)[CHUNK_FLOATS] = tiles + TILE * shift;
            xcvm_lanes_store(to[0] + at + t, xcvm_lanes_even(even_ab, even_cd));
            xcvm_lanes_store(to[1] + at + t, xcvm_lanes_even(odd_ab, odd_cd));
            if (shift == 0) {
                xcvm_lanes_store(to[2] + at + t, xcvm_lanes_odd(even_ab, even_cd));
                xcvm_lanes_store(to[3] + at + t, xcvm_lanes_odd(odd_ab, odd_cd));
            }
        }
    }
}

/* Tiles [from, from + count) of tile row `row`, transformed along the columns of the image: tiles[i][j][at ...]. */
static void transform_columns(const work *r, const float *plane, size_t row, size_t from, size_t count,
                              float tiles[SPAN][SPAN][CHUNK_FLOATS], size_t at)
{
    const xcvm_window *w = &r->c->shape.window;
    float lines[SPAN][LINE] __attribute__((aligned(64)));
    const size_t floats = TILE * count + 2;
    for (size_t i = 0; i < SPAN; i++) {
        const ptrdiff_t h = (ptrdiff_t)(TILE * row + i) - w->pad[1];
        const bool inside = h >= 0 && h < (ptrdiff_t)w->in[1];
        copy_padded(inside ? plane + (size_t)h * w->in[2] : NULL, (ptrdiff_t)(TILE * from) - w->pad[2], w->in[2],
                    floats, lines[i]);
    }
    for (size_t i = 0; i < floats; i += XCVM_LANES) {
        xcvm_lanes d[SPAN], t[SPAN];
        for (int j = 0; j < SPAN; j++)
            d[j] = xcvm_lanes_load(lines[j] + i);
        transform_input(d, t);
        for (int j = 0; j < SPAN; j++)
            xcvm_lanes_store(lines[j] + i, t[j]);
    }
    for (int i = 0; i < SPAN; i++)
        split_line(lines[i], count, tiles[i], at);
}

/* One channel of up to CHUNK tiles from tile `at` of the block on, which begin a panel. */
static void transform_chunk(const work *r, size_t channel, size_t at, size_t count)
{
    const xcvm_conv_shape *s = &r->c->shape;
    const plan *p = &r->plan;
    float tiles[SPAN][SPAN][CHUNK_FLOATS] __attribute__((aligned(64)));
    for (size_t done = 0; done < count;) {
        const size_t tile = r->first + at + done;
        const size_t column = tile % p->columns, row = tile / p->columns % p->rows, image = tile / p->columns / p->rows;
        size_t run = p->columns - column;
        run = run < count - done ? run : count - done;
        const size_t index = (image * s->group + r->group) * s->channels + channel;
        transform_columns(r, r->c->x + index * s->window.in_size, row, column, run, tiles, done);
        done += run;
    }
    const size_t width = xcvm_gemm_panel_width(at, r->count);
    float *to = r->inputs + at * s->channels + channel * width;
    const size_t stride = p->input_stride;
    for (size_t i = 0; i < SPAN; i++)
        for (size_t t = 0; t < width; t += XCVM_LANES) {
            xcvm_lanes d[SPAN], v[SPAN];
            for (int j = 0; j < SPAN; j++)
                d[j] = xcvm_lanes_load(tiles[i][j] + t);
            transform_input(d, v);
            for (size_t j = 0; j < SPAN; j++)
                xcvm_lanes_store(to + (i * SPAN + j) * stride + t, v[j]);
        }
}

static void transform_channels(void *context, size_t begin, size_t end, int worker)
{
    const work *r = context;
    (void)worker;
    for (size_t at = 0; at < r->count; at += CHUNK) {
        const size_t count = r->count - at < CHUNK ? r->count - at : CHUNK;
        for (size_t channel = begin; channel < end; channel++)
            transform_chunk(r, channel, at, count);
    }
}

/* ---- Filters ---- */

XCVM_INLINE void transform_filter(const xcvm_lanes g[3], xcvm_lanes u[SPAN])
{
    const xcvm_lanes p = (-2.0f / 3.0f) * g[0] - (1.0f / 3.0f) * g[2], q = (ROOT2 / 3.0f) * g[1];
    const xcvm_lanes r = (1.0f / 6.0f) * g[0] + (1.0f / 3.0f) * g[2], s = (ROOT2 / 6.0f) * g[1];
    u[0] = g[0];
    u[1] = p - q;
    u[2] = p + q;
    u[3] = r + s;
    u[4] = r - s;
    u[5] = g[2];
}

/* taps[j] = window position j of `count` channels, up to XCVM_LANES, zero for those beyond; `readable` floats of w may
 * be read. */
static void gather_taps(const float *w, size_t count, size_t readable, xcvm_lanes taps[9])
{
    float rest[9][XCVM_LANES] __attribute__((aligned(64)));
    size_t first = 0;
    if (count == XCVM_LANES && readable >= 9 * (XCVM_LANES - 1) + XCVM_LANES) {
        xcvm_lanes square[XCVM_LANES];
#pragma GCC unroll 16
        for (size_t i = 0; i < XCVM_LANES; i++)
            square[i] = xcvm_lanes_load(w + 9 * i);
        xcvm_lanes_transpose(square);
#pragma GCC unroll 9
        for (size_t j = 0; j < 9 && j < XCVM_LANES; j++)
            taps[j] = square[j];
        first = XCVM_LANES;
    }
    for (size_t j = first; j < 9; j++) {
        for (size_t i = 0; i < XCVM_LANES; i++)
            rest[j][i] = i < count ? w[9 * i + j] : 0.0f;
        taps[j] = xcvm_lanes_load(rest[j]);
    }
}

/* Filters of one output, 3 x 3 for each channel, become POINTS rows of `depth` floats, `stride` apart. */
static void transform_filters(const float *w, size_t channels, size_t readable, size_t depth, size_t stride, float *to)
{
    for (size_t c = 0; c < depth; c += XCVM_LANES) {
        xcvm_lanes taps[9], rows[SPAN][3];
        gather_taps(w + 9 * c, channels - c < XCVM_LANES ? channels - c : XCVM_LANES, readable - 9 * c, taps);
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++) {
            const xcvm_lanes g[3] = {taps[j], taps[j + 3], taps[j + 6]};
            xcvm_lanes u[SPAN];
            transform_filter(g, u);
#pragma GCC unroll 6
            for (int i = 0; i < SPAN; i++)
                rows[i][j] = u[i];
        }
#pragma GCC unroll 6
        for (size_t i = 0; i < SPAN; i++) {
            xcvm_lanes u[SPAN];
            transform_filter(rows[i], u);
#pragma GCC unroll 6
            for (size_t j = 0; j < SPAN; j++)
                xcvm_lanes_store(to + (i * SPAN + j) * stride + c, u[j]);
        }
    }
}

/* ---- Outputs ---- */

XCVM_INLINE void transform_output(const xcvm_lanes m[SPAN], xcvm_lanes y[TILE])
{
    const xcvm_lanes sum = m[1] + m[2], difference = m[1] - m[2];
    const xcvm_lanes sum2 = m[3] + m[4], difference2 = m[3] - m[4];
    y[0] = m[0] + sum + sum2;
    y[1] = (0.5f * ROOT2) * difference + ROOT2 * difference2;
    y[2] = 0.5f * sum + 2.0f * sum2;
    y[3] = (0.25f * ROOT2) * difference + (2.0f * ROOT2) * difference2 + m[5];
}

/* The outputs of a run of tiles in one tile row: lines[i] holds row i of the tiles, side by side. */
static void store_run(const work *r, size_t output, size_t tile, size_t count, float *const lines[TILE])
{
    const xcvm_conv *c = r->c;
    const xcvm_conv_shape *s = &c->shape;
    const xcvm_window *w = &s->window;
    const plan *p = &r->plan;
    const size_t column = tile % p->columns * TILE, row = tile / p->columns % p->rows * TILE;
    const size_t image = tile / p->columns / p->rows;
    const size_t width = w->out[2] - column < TILE * count ? w->out[2] - column : TILE * count;
    const size_t plane = ((image * s->group + r->group) * s->outputs + output) * w->out_size;
    for (size_t i = 0; i < TILE && row + i < w->out[1]; i++) {
        const size_t at = plane + (row + i) * w->out[2] + column;
        float *line = lines[i];
        if (c->z != NULL) {
            const float *z = c->z + at;
            for (size_t j = 0; j < width; j++)
                line[j] += z[j];
            if (c->activation != NULL)
                for (size_t j = 0; j < width; j++)
                    line[j] = xcvm_clamp_f32(line[j], c->activation->low, c->activation->high);
        }
        if (c->activation != NULL && c->activation->kind != XCVM_ACTIVATION_none)
            xcvm_activate_row(c->activation, line, width);
        xcvm_copy_floats(c->y + at, line, width);
    }
}

/* Tiles [at, at + count) of the block, of one output: `products` holds its row of each of the POINTS results. */
static void transform_outputs(const work *r, size_t output, const float *products, size_t stride, size_t at,
                              size_t count)
{
    const xcvm_conv *c = r->c;
    float lines[TILE][TILE * CHUNK_FLOATS] __attribute__((aligned(64)));
    const float bias = c->b != NULL ? c->b[r->group * c->shape.outputs + output] : 0.0f;
    const bool clamp = c->activation != NULL && c->z == NULL;
    const xcvm_lanes low = xcvm_lanes_all(clamp ? c->activation->low : 0.0f);
    const xcvm_lanes high = xcvm_lanes_all(clamp ? c->activation->high : 0.0f);
    for (size_t t = 0; t < count; t += XCVM_LANES) {
        xcvm_lanes rows[TILE][SPAN];
        for (size_t j = 0; j < SPAN; j++) {
            xcvm_lanes m[SPAN], v[TILE];
            for (size_t i = 0; i < SPAN; i++)
                m[i] = xcvm_lanes_load(products + (i * SPAN + j) * stride + at + t);
            transform_output(m, v);
            for (int i = 0; i < TILE; i++)
                rows[i][j] = v[i];
        }
        for (int i = 0; i < TILE; i++) {
            xcvm_lanes v[TILE];
            transform_output(rows[i], v);
            for (int j = 0; j < TILE; j++) {
                v[j] += bias;
                if (clamp)
                    v[j] = xcvm_lanes_min(xcvm_lanes_max(v[j], low), high);
            }
            const xcvm_lanes even_low = xcvm_lanes_interleave_low(v[0], v[2]);
            const xcvm_lanes even_high = xcvm_lanes_interleave_high(v[0], v[2]);
            const xcvm_lanes odd_low = xcvm_lanes_interleave_low(v[1], v[3]);
            const xcvm_lanes odd_high = xcvm_lanes_interleave_high(v[1], v[3]);
            float *to = lines[i] + TILE * t;
            xcvm_lanes_store(to, xcvm_lanes_interleave_low(even_low, odd_low));
            xcvm_lanes_store(to + XCVM_LANES, xcvm_lanes_interleave_high(even_low, odd_low));
            xcvm_lanes_store(to + 2 * XCVM_LANES, xcvm_lanes_interleave_low(even_high, odd_high));
            xcvm_lanes_store(to + 3 * XCVM_LANES, xcvm_lanes_interleave_high(even_high, odd_high));
        }
    }
    for (size_t done = 0; done < count;) {
        const size_t tile = r->first + at + done;
        size_t run = r->plan.columns - tile % r->plan.columns;
        run = run < count - done ? run : count - done;
        float *const from[TILE] = {lines[0] + TILE * done, lines[1] + TILE * done, lines[2] + TILE * done,
                                   lines[3] + TILE * done};
        store_run(r, output, tile, run, from);
        done += run;
    }
}

/* ---- Blocks ---- */

static size_t filters_floats(const plan *p) { return POINTS * p->filter_stride; }
static size_t products_floats(const plan *p) { return POINTS * p->product_stride; }

/* One block of filters times the block of tiles. */
static xcvm_status multiply_filters(const work *r, size_t index, char *scratch)
{
    const xcvm_conv_shape *s = &r->c->shape;
    const plan *p = &r->plan;
    float *filters = (float *)(void *)scratch, *products = filters + filters_floats(p);
    const size_t first = index * FILTERS;
    const size_t count = s->outputs - first < FILTERS ? s->outputs - first : FILTERS;
    const size_t filter = 9 * s->channels;
    for (size_t i = 0; i < count; i++) {
        const size_t at = r->group * s->outputs + first + i;
        transform_filters(r->c->w + at * filter, s->channels, (s->group * s->outputs - at) * filter, p->depth,
                          p->filter_stride, filters + i * p->depth);
    }
    xcvm_gemm g = {.m = count,
                   .n = r->count,
                   .k = s->channels,
                   .a_row = p->depth,
                   .a_column = 1,
                   .b_packed = true,
                   .c_row = p->block,
                   .c_column = 1,
                   .alpha = 1.0f};
    /* Columns that fill up the last vector are computed like the others. */
    g.n = xcvm_round_up(r->count, XCVM_LANES);
    for (size_t point = 0; point < POINTS; point++) {
        g.a = filters + point * p->filter_stride;
        g.b = r->inputs + point * p->input_stride;
        g.c = products + point * p->product_stride;
        XCVM_TRY(xcvm_gemm_part(r->k, &g, 0, count, 0, g.n, NULL));
    }
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; at < r->count; at += CHUNK)
            transform_outputs(r, first + i, products + i * p->block, p->product_stride, at,
                              r->count - at < CHUNK ? r->count - at : CHUNK);
    return XCVM_OK;
}

static void run_filters(void *context, size_t begin, size_t end, int worker)
{
    work *r = context;
    for (size_t i = begin; i < end; i++) {
        const xcvm_status status = multiply_filters(r, i, r->scratch + (size_t)worker * r->scratch_bytes);
        if (status != XCVM_OK) {
            __atomic_store_n(&r->status, (uint32_t)status, __ATOMIC_RELAXED);
            return;
        }
    }
}

/* ---- The algorithm ---- */

static bool fits(const xcvm_conv_shape *s)
{
    const xcvm_window *w = &s->window;
    if (w->kernel[0] != 1 || w->in[0] != 1 || w->out[0] != 1 || w->pad[0] != 0)
        return false;
    for (int i = 1; i < XCVM_WINDOW_AXES; i++)
        if (w->kernel[i] != 3 || w->stride[i] != 1 || w->dilation[i] != 1)
            return false;
    return s->channels >= 8 && s->outputs >= 8;
}

/* The products; each transformed number counts as so many multiply-adds, by measurement. */
static double cost(const xcvm_conv_shape *s)
{
    const plan p = plan_of(s);
    const double tiles = (double)xcvm_round_up(p.tiles, XCVM_LANES), outputs = (double)s->outputs;
    const double channels = (double)s->channels, blocks = (double)((p.tiles + p.block - 1) / p.block);
    const double products = POINTS * tiles * outputs * channels;
    const double transforms = POINTS * (12.0 * tiles * (channels + outputs) + 10.0 * blocks * outputs * channels);
    return (double)s->group * (products + transforms);
}

static size_t inputs_bytes(const plan *p) { return POINTS * p->input_stride * sizeof(float); }

static size_t bytes_per_worker(const plan *p)
{
    return xcvm_round_up((filters_floats(p) + products_floats(p)) * sizeof(float), XCVM_ALIGNMENT);
}

static size_t scratch_bytes(const xcvm_conv_shape *s, int threads)
{
    const plan p = plan_of(s);
    return inputs_bytes(&p) + bytes_per_worker(&p) * (size_t)threads;
}

static xcvm_status run(const xcvm_kernel *k, const xcvm_conv *c, void *scratch)
{
    const xcvm_conv_shape *s = &c->shape;
    work r = {.k = k, .c = c, .plan = plan_of(s), .inputs = scratch};
    r.scratch = (char *)scratch + inputs_bytes(&r.plan);
    r.scratch_bytes = bytes_per_worker(&r.plan);
    const size_t workers = cost(s) > 2.0 * THREAD_WORK ? 1 : SIZE_MAX;
    for (r.group = 0; r.group < s->group; r.group++)
        for (r.first = 0; r.first < r.plan.tiles; r.first += r.plan.block) {
            const size_t left = r.plan.tiles - r.first;
            r.count = left < r.plan.block ? left : r.plan.block;
            xcvm_parallel(k->threads, s->channels, workers, transform_channels, &r);
            xcvm_parallel(k->threads, r.plan.blocks_of_filters, workers, run_filters, &r);
            if (r.status != XCVM_OK)
                return (xcvm_status)r.status;
        }
    return XCVM_OK;
}

const xcvm_conv_algorithm xcvm_conv_winograd = {"winograd", fits, cost, scratch_bytes, run};
