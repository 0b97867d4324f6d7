/* Convolutions of blocked channels with windows of 3 x 3 by Winograd's algorithm, as in winograd.h: F(4 x 4, 3 x 3)
 * with the same interpolation points, or F(2 x 2, 3 x 3). Filters come transformed (ops/blocked.h). A dilated window
 * meets but one of each `dilation` rows and columns: these are images of their own, from which tiles are taken.
 *
 * A band of tiles is transformed for all channels; for each group of blocks of outputs, the numbers of each point are
 * multiplied (blocked_product.h) and the products transformed back. Filters are read once for a band, so it must not be
 * small; where there are as many bands as threads, each takes its own, else they share each band. */
#include "ops/vector/activation.h"
#include "ops/vector/blocked_product.h"

enum {
    BLOCK = XCVM_CHANNEL_BLOCK,
    VECTORS = XCVM_BLOCK_VECTORS,
    MOST_SPAN = 6,
    /* Floats of a band's transformed tiles and products, and the tiles that it has at least, if there are as many. */
    BAND = 300 * 1024,
    LEAST_TILES = 48,
    /* Between the numbers of one point and those of the next, which must not all fall into the same set of a cache. */
    GAP = BLOCK,
    /* Floats of the filters of a portion of steps: 36 KB. */
    PORTION = 9 * 1024
};

#define ROOT2 1.41421356237f

typedef struct work {
    const xcvm_kernel *k;
    const xcvm_blocked_conv *c;
    size_t span, points;
    bool dilated;
    size_t rows, columns, tiles; /* of tiles: of an image; of all */
    size_t bands, most;          /* tiles of a band */
    size_t in_blocks, groups;    /* groups of blocks of outputs */
    size_t input_stride, product_stride;
    float *inputs, *products; /* one for each worker, but for shared inputs */
    float *room;              /* for each worker's filters, if they are halves; else NULL */
    size_t inputs_floats, products_floats;
    size_t first, last; /* tiles of the shared band */
    uint32_t status;    /* atomic */
} work;

static size_t ceil_div(size_t n, size_t by) { return (n + by - 1) / by; }
static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* ---- Transforms ---- */

XCVM_INLINE void transform_input(const size_t tile, const xcvm_lanes *d, size_t stride, xcvm_lanes *t)
{
    const xcvm_lanes d0 = d[0], d1 = d[stride], d2 = d[2 * stride], d3 = d[3 * stride];
    if (tile == 2) {
        t[0] = d0 - d2;
        t[1] = d1 + d2;
        t[2] = d2 - d1;
        t[3] = d1 - d3;
        return;
    }
    const xcvm_lanes d4 = d[4 * stride], d5 = d[5 * stride];
    const xcvm_lanes a = d4 - 2.0f * d2, b = (0.5f * ROOT2) * d3 - ROOT2 * d1;
    const xcvm_lanes c = d4 - 0.5f * d2, e = ROOT2 * d3 - (0.5f * ROOT2) * d1;
    t[0] = d0 - 2.5f * d2 + d4;
    t[1] = a + b;
    t[2] = a - b;
    t[3] = c + e;
    t[4] = c - e;
    t[5] = d1 - 2.5f * d3 + d5;
}

XCVM_INLINE void transform_output(const size_t tile, const xcvm_lanes *m, size_t stride, xcvm_lanes *y)
{
    const xcvm_lanes sum = m[stride] + m[2 * stride], difference = m[stride] - m[2 * stride];
    if (tile == 2) {
        y[0] = m[0] + sum;
        y[1] = difference - m[3 * stride];
        return;
    }
    const xcvm_lanes sum2 = m[3 * stride] + m[4 * stride], difference2 = m[3 * stride] - m[4 * stride];
    y[0] = m[0] + sum + sum2;
    y[1] = (0.5f * ROOT2) * difference + ROOT2 * difference2;
    y[2] = 0.5f * sum + 2.0f * sum2;
    y[3] = (0.25f * ROOT2) * difference + (2.0f * ROOT2) * difference2 + m[5 * stride];
}

/* The first output row, or column, of a tile: all phases of the first tiles come before those of the second. It may lie
 * behind the last, where phases are not equally long. */
static size_t first_output(const xcvm_blocked_conv *c, int axis, size_t tile)
{
    const size_t phases = least(c->dilation[axis], c->out[axis]);
    return tile % phases + tile / phases * c->tile * c->dilation[axis];
}

static size_t tiles_along(const xcvm_blocked_conv *c, int axis)
{
    return least(c->dilation[axis], c->out[axis]) * ceil_div(ceil_div(c->out[axis], c->dilation[axis]), c->tile);
}

/* How many of its outputs there are along an axis. */
static size_t outputs_of_tile(const xcvm_blocked_conv *c, int axis, size_t first)
{
    return first < c->out[axis] ? least(ceil_div(c->out[axis] - first, c->dilation[axis]), c->tile) : 0;
}

/* One block of channels of a tile, whose first pixel is at `from`, rows `pitch` floats apart. */
XCVM_INLINE void transform_tile(const size_t tile, const float *from, size_t pitch, float *to, size_t stride)
{
    const size_t span = tile + 2;
    for (size_t v = 0; v < VECTORS; v++, from += XCVM_LANES, to += XCVM_LANES) {
        xcvm_lanes half[MOST_SPAN * MOST_SPAN];
#pragma GCC unroll 6
        for (size_t j = 0; j < span; j++) {
            xcvm_lanes d[MOST_SPAN], t[MOST_SPAN];
#pragma GCC unroll 6
            for (size_t i = 0; i < span; i++)
                d[i] = xcvm_lanes_load(from + i * pitch + j * BLOCK);
            transform_input(tile, d, 1, t);
#pragma GCC unroll 6
            for (size_t i = 0; i < span; i++)
                half[i * span + j] = t[i];
        }
#pragma GCC unroll 6
        for (size_t i = 0; i < span; i++) {
            xcvm_lanes t[MOST_SPAN];
            transform_input(tile, half + i * span, 1, t);
#pragma GCC unroll 6
            for (size_t j = 0; j < span; j++)
                xcvm_lanes_store(to + (i * span + j) * stride, t[j]);
        }
    }
}

/* The pixels of a tile that reaches over the edges of its image, or is dilated. */
static void copy_tile(const work *r, const float *plane, size_t row, size_t column, float *to)
{
    const xcvm_blocked_conv *c = r->c;
    for (size_t i = 0; i < r->span; i++)
        for (size_t j = 0; j < r->span; j++, to += BLOCK) {
            /* Positions before the image wrap around to numbers beyond it. */
            const size_t h = row + i * c->dilation[0] - c->pad[0], v = column + j * c->dilation[1] - c->pad[1];
            const bool inside = h < c->in[0] && v < c->in[1];
            const float *from = inside ? plane + (h * c->in[1] + v) * BLOCK : NULL;
            for (size_t l = 0; l < BLOCK; l += XCVM_LANES)
                xcvm_lanes_store(to + l, inside ? xcvm_lanes_load(from + l) : (xcvm_lanes){0});
        }
}

/* Tiles [first, last) for input blocks [begin, end). */
static void transform_inputs(const work *r, size_t first, size_t last, size_t begin, size_t end, float *inputs)
{
    const xcvm_blocked_conv *c = r->c;
    const size_t count = last - first, plane = c->in[0] * c->in[1] * BLOCK;
    float edge[MOST_SPAN * MOST_SPAN * BLOCK] __attribute__((aligned(64)));
    for (size_t block = begin; block < end; block++)
        for (size_t t = first; t < last; t++) {
            const size_t column = first_output(c, 1, t % r->columns),
                         row = first_output(c, 0, t / r->columns % r->rows);
            const float *x = c->x + (t / r->columns / r->rows * r->in_blocks + block) * plane;
            float *to = inputs + (block * count + t - first) * BLOCK;
            size_t pitch = c->in[1] * BLOCK;
            if (!r->dilated && row >= c->pad[0] && row - c->pad[0] + r->span <= c->in[0] && column >= c->pad[1] &&
                column - c->pad[1] + r->span <= c->in[1]) {
                x += ((row - c->pad[0]) * c->in[1] + column - c->pad[1]) * BLOCK;
            } else {
                copy_tile(r, x, row, column, edge);
                x = edge;
                pitch = r->span * BLOCK;
            }
            if (c->tile == 4)
                transform_tile(4, x, pitch, to, r->input_stride);
            else
                transform_tile(2, x, pitch, to, r->input_stride);
        }
}

/* The products of a tile and one block of outputs become rows x columns pixels of y. */
XCVM_INLINE void store_tile(const work *r, const size_t tile, const float *products, size_t block, size_t at,
                            size_t rows, size_t columns)
{
    const xcvm_blocked_conv *c = r->c;
    const size_t span = tile + 2;
    const xcvm_lanes low = xcvm_lanes_all(c->activation.low), high = xcvm_lanes_all(c->activation.high);
    for (size_t v = 0; v < VECTORS; v++) {
        const size_t lane = v * XCVM_LANES;
        const xcvm_lanes bias = c->b != NULL ? xcvm_lanes_load(c->b + block * BLOCK + lane) : (xcvm_lanes){0};
        xcvm_lanes half[4 * MOST_SPAN];
#pragma GCC unroll 6
        for (size_t j = 0; j < span; j++) {
            xcvm_lanes m[MOST_SPAN], t[4];
#pragma GCC unroll 6
            for (size_t i = 0; i < span; i++)
                m[i] = xcvm_lanes_load(products + (i * span + j) * r->product_stride + lane);
            transform_output(tile, m, 1, t);
#pragma GCC unroll 4
            for (size_t i = 0; i < tile; i++)
                half[i * span + j] = t[i];
        }
#pragma GCC unroll 4
        for (size_t i = 0; i < tile; i++) {
            xcvm_lanes t[4];
            if (i >= rows)
                break;
            transform_output(tile, half + i * span, 1, t);
            const size_t to = at + i * c->dilation[0] * c->out[1] * BLOCK + lane, step = c->dilation[1] * BLOCK;
#pragma GCC unroll 4
            for (size_t j = 0; j < tile; j++) {
                if (j >= columns)
                    break;
                t[j] += bias;
                if (c->z != NULL)
                    t[j] += xcvm_lanes_load(c->z + to + j * step);
                xcvm_lanes_store(c->y + to + j * step, xcvm_lanes_min(xcvm_lanes_max(t[j], low), high));
            }
        }
    }
    if (c->activation.kind != XCVM_ACTIVATION_none)
        for (size_t i = 0; i < rows; i++) {
            float *y = c->y + at + i * c->dilation[0] * c->out[1] * BLOCK;
            const size_t runs = c->dilation[1] == 1 ? 1 : columns;
            for (size_t j = 0; j < runs; j++)
                xcvm_activate_row(&c->activation, y + j * c->dilation[1] * BLOCK, columns / runs * BLOCK);
        }
}

static void store_outputs(const work *r, size_t first, size_t last, size_t output, size_t blocks, const float *products)
{
    const xcvm_blocked_conv *c = r->c;
    for (size_t b = 0; b < blocks; b++)
        for (size_t t = first; t < last; t++, products += BLOCK) {
            const size_t column = first_output(c, 1, t % r->columns),
                         row = first_output(c, 0, t / r->columns % r->rows);
            const size_t plane = t / r->columns / r->rows * c->outputs + output + b;
            const size_t at = ((plane * c->out[0] + row) * c->out[1] + column) * BLOCK;
            const size_t rows = outputs_of_tile(c, 0, row), columns = outputs_of_tile(c, 1, column);
            if (rows == 0 || columns == 0)
                continue;
            if (c->tile == 4)
                store_tile(r, 4, products, output + b, at, rows, columns);
            else
                store_tile(r, 2, products, output + b, at, rows, columns);
        }
}

/* ---- Products ---- */

/* The filters of the point are those from element `at` of w on; `next`, of the next point, 0: there is none. */
static void multiply_point(const work *r, size_t count, size_t at, size_t next, size_t blocks, const float *inputs,
                           float *products, float *room)
{
    const xcvm_blocked_conv *c = r->c;
    const xcvm_blocked_filters w = {c->w, c->w_dtype, c->channels * BLOCK};
    xcvm_blocked_product g = {.blocks = blocks, .spacing = BLOCK, .y_spacing = BLOCK, .y_block = count * BLOCK};
    size_t most = PORTION / (BLOCK * BLOCK * blocks);
    most = most < XCVM_PRODUCT_STEPS ? most : XCVM_PRODUCT_STEPS;
    const size_t portions = ceil_div(r->in_blocks, most);
    for (size_t i = 0; i < portions; i++) {
        const size_t step = i * r->in_blocks / portions;
        g.step_count = (i + 1) * r->in_blocks / portions - step;
        for (size_t s = 0; s < g.step_count; s++) {
            const size_t left = c->channels - (step + s) * BLOCK;
            g.offsets[s] = (ptrdiff_t)((step + s) * count * BLOCK);
            g.filters[s] = s * BLOCK * BLOCK;
            g.lengths[s] = left < BLOCK ? left : BLOCK;
        }
        g.resume = i > 0;
        const size_t begin = step * BLOCK * BLOCK, most_floats = g.step_count * BLOCK * BLOCK;
        const size_t floats = w.block - begin < most_floats ? w.block - begin : most_floats, used = begin + floats;
        xcvm_blocked_take(&g, &w, at + begin, floats, room);
        if (i + 1 < portions)
            xcvm_blocked_fetch(&g, &w, at + used, w.block - used < floats ? w.block - used : floats, count);
        else
            xcvm_blocked_fetch(&g, &w, next, next == 0 ? 0 : w.block < most_floats ? w.block : most_floats, count);
        xcvm_blocked_multiply(&g, inputs, NULL, products, count);
    }
}

static bool stopped(work *r)
{
    const xcvm_status status = xcvm_kernel_poll(r->k);
    if (status != XCVM_OK)
        __atomic_store_n(&r->status, (uint32_t)status, __ATOMIC_RELAXED);
    return status != XCVM_OK;
}

/* A group of blocks of outputs for tiles [first, last). */
static void run_group(const work *r, size_t group, size_t first, size_t last, const float *inputs, int worker)
{
    float *products = r->products + (size_t)worker * r->products_floats;
    float *room = r->room != NULL ? r->room + (size_t)worker * PORTION : NULL;
    const xcvm_blocked_conv *c = r->c;
    const size_t output = group * c->outputs / r->groups, blocks = (group + 1) * c->outputs / r->groups - output;
    const size_t stride = c->outputs * c->channels * BLOCK;
    size_t at = output * c->channels * BLOCK;
    for (size_t point = 0; point < r->points; point++, at += stride)
        multiply_point(r, last - first, at, point + 1 < r->points ? at + stride : 0, blocks,
                       inputs + point * r->input_stride, products + point * r->product_stride, room);
    store_outputs(r, first, last, output, blocks, products);
}

/* ---- Work for threads ---- */

static void run_bands(void *context, size_t begin, size_t end, int worker)
{
    work *r = context;
    float *inputs = r->inputs + (size_t)worker * r->inputs_floats;
    for (size_t band = begin; band < end; band++) {
        const size_t first = band * r->tiles / r->bands, last = (band + 1) * r->tiles / r->bands;
        transform_inputs(r, first, last, 0, r->in_blocks, inputs);
        for (size_t group = 0; group < r->groups; group++) {
            if (stopped(r))
                return;
            run_group(r, group, first, last, inputs, worker);
        }
    }
}

static void transform_shared(void *context, size_t begin, size_t end, int worker)
{
    const work *r = context;
    (void)worker;
    transform_inputs(r, r->first, r->last, begin, end, r->inputs);
}

static void run_groups(void *context, size_t begin, size_t end, int worker)
{
    work *r = context;
    for (size_t group = begin; group < end && !stopped(r); group++)
        run_group(r, group, r->first, r->last, r->inputs, worker);
}

xcvm_status xcvm_blocked_winograd(xcvm_kernel *k, const xcvm_blocked_conv *c)
{
    const size_t threads = (size_t)xcvm_threads_count(k->threads);
    work r = {.k = k,
              .c = c,
              .span = c->tile + 2,
              .points = (c->tile + 2) * (c->tile + 2),
              .rows = tiles_along(c, 0),
              .columns = tiles_along(c, 1),
              .dilated = c->dilation[0] > 1 || c->dilation[1] > 1,
              .in_blocks = ceil_div(c->channels, BLOCK),
              .groups = ceil_div(c->outputs, XCVM_PRODUCT_BLOCKS)};
    const size_t blocks = ceil_div(c->outputs, r.groups);
    r.tiles = c->batch * r.rows * r.columns;
    const size_t fitting = BAND / r.points / ((r.in_blocks + blocks) * BLOCK);
    r.bands = r.tiles / (fitting > LEAST_TILES ? fitting : LEAST_TILES);
    r.bands = r.bands < 1 ? 1 : r.bands;
    const bool own = r.bands >= threads;
    if (own)
        r.bands = ceil_div(r.bands, threads) * threads;
    r.most = ceil_div(r.tiles, r.bands);
    r.input_stride = r.in_blocks * r.most * BLOCK + GAP;
    r.product_stride = blocks * r.most * BLOCK + GAP;
    r.inputs_floats = r.points * r.input_stride;
    r.products_floats = r.points * r.product_stride;
    const size_t products_end = r.inputs_floats * (own ? threads : 1) + r.products_floats * threads;
    const bool halves = xcvm_dtype_in(c->w_dtype, XCVM_TYPES_HALF);
    r.inputs = xcvm_kernel_scratch(k, (products_end + (halves ? threads * PORTION : 0)) * sizeof(float));
    if (r.inputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    r.products = r.inputs + r.inputs_floats * (own ? threads : 1);
    r.room = halves ? r.inputs + products_end : NULL;
    if (own) {
        xcvm_parallel(k->threads, r.bands, 1, run_bands, &r);
        return (xcvm_status)r.status;
    }
    for (size_t band = 0; band < r.bands && r.status == XCVM_OK; band++) {
        r.first = band * r.tiles / r.bands;
        r.last = (band + 1) * r.tiles / r.bands;
        xcvm_parallel(k->threads, r.in_blocks, 1, transform_shared, &r);
        xcvm_parallel(k->threads, r.groups, 1, run_groups, &r);
    }
    return (xcvm_status)r.status;
}
