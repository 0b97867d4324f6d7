/* Winograd convolution of blocked channels with 3 x 3 windows: F(4 x 4, 3 x 3) with the points of winograd.h, or F(2 x
 * 2, 3 x 3). Filters are transformed before (ops/conv/blocked.h) or on the fly (blocked_on_the_fly.h). With dilation,
 * the rows and columns of each phase form separate images, from which tiles are taken. With a depth axis, a tile
 * comprises its place in all slices, and the products of the window's slices are summed before the inverse transform.
 *
 * A band of tiles is transformed for all channels. Then, for each group of blocks of outputs, the numbers of each point
 * are multiplied (blocked_product.h) and transformed back. Filters are read once per band, so bands must not be small.
 * With at least as many bands as threads, each thread takes its own; otherwise all share each band. */
#include "ops/conv/simd/blocked_product.h"
#include "ops/conv/simd/blocked_span.h"
#include "ops/conv/simd/blocked_tile.h"
#include "ops/conv/simd/blocked_on_the_fly.h"
#include "ops/simd/halves.h"

enum {
    BLOCK = XCVM_CHANNEL_BLOCK,
    VECTORS = XCVM_BLOCK_VECTORS,
    MOST_SPAN = XCVM_MOST_SPAN,
    /* Floats of a band's transformed tiles and products, and its minimum number of tiles, each counted once per slice
     * of the result. */
    BAND = 300 * 1024,
    LEAST_TILES = 48,
    /* Padding between points, to avoid conflicts in a cache set. */
    GAP = BLOCK,
    /* Floats of the filters of a portion of steps: 36 KB. */
    PORTION = 9 * 1024,
    DEPTH = XCVM_BLOCKED_DEPTH
};

/* Limit for slices of tiles in all threads, so that sizes do not overflow. */
#define MOST_SLICES 0x1p48

typedef struct blocked_winograd_loop {
    const xcvm_kernel *k;
    const xcvm_blocked_conv *c;
    size_t span, points;
    bool dilated;
    size_t rows, columns, tiles;         /* tiles of an image; of all images */
    size_t bands, most;                  /* number of bands; tiles of a band */
    size_t in_blocks, groups;            /* groups of blocks of outputs */
    size_t input_stride, product_stride; /* floats between points */
    float *inputs, *products;            /* one for each worker, except shared inputs */
    float *room;                         /* per worker, for filters that are not f32 or untransformed; else NULL */
    size_t inputs_floats, products_floats, room_floats;
    size_t first, last;     /* tiles of the shared band */
    xcvm_blocked_span head; /* the first output slices, often all */
} blocked_winograd_loop;

static bool stopped(const blocked_winograd_loop *r) { return xcvm_kernel_poll(r->k) != XCVM_OK; }

/* ---- Tiles ---- */

/* First output row or column of a tile. All phases of the first tiles precede those of the second. It may be after the
 * last output if phases differ in length. */
static size_t first_output(const xcvm_blocked_conv *c, int axis, size_t tile)
{
    const size_t phases = xcvm_min(c->dilation[axis], c->out[axis]);
    return tile % phases + tile / phases * c->tile * c->dilation[axis];
}

static size_t tiles_along(const xcvm_blocked_conv *c, int axis)
{
    return xcvm_min(c->dilation[axis], c->out[axis]) *
           xcvm_ceil_div(xcvm_ceil_div(c->out[axis], c->dilation[axis]), c->tile);
}

/* Number of the tile's outputs along an axis. */
static size_t outputs_of_tile(const xcvm_blocked_conv *c, int axis, size_t first)
{
    return first < c->out[axis] ? xcvm_min(xcvm_ceil_div(c->out[axis] - first, c->dilation[axis]), c->tile) : 0;
}

/* Copies the pixels of a tile that extends beyond its image or is dilated. */
static void copy_tile(const blocked_winograd_loop *r, const float *plane, size_t row, size_t column, float *to)
{
    const xcvm_blocked_conv *c = r->c;
    for (size_t i = 0; i < r->span; i++)
        for (size_t j = 0; j < r->span; j++, to += BLOCK) {
            /* Positions before the image wrap to large numbers. */
            const size_t h = row + i * c->dilation[0] - c->pad[0], v = column + j * c->dilation[1] - c->pad[1];
            const bool inside = h < c->in[0] && v < c->in[1];
            const float *from = inside ? plane + (h * c->in[1] + v) * BLOCK : NULL;
            for (size_t l = 0; l < BLOCK; l += XCVM_LANES)
                xcvm_lanes_store(to + l, inside ? xcvm_lanes_load(from + l) : (xcvm_lanes){0});
        }
}

/* Floats between slices of input blocks. Pretransformed filters are multiplied point by point over all inputs; others
 * block by block over all points. */
static size_t slice_of_inputs(const blocked_winograd_loop *r, size_t tiles)
{
    return r->c->on_the_fly ? r->points * r->input_stride : tiles * BLOCK;
}

/* Transforms tiles [first, last) for input blocks [begin, end). */
static void transform_inputs(const blocked_winograd_loop *r, size_t first, size_t last, size_t begin, size_t end,
                             float *inputs)
{
    const xcvm_blocked_conv *c = r->c;
    const size_t input_slice = slice_of_inputs(r, last - first), plane = c->in[0] * c->in[1] * BLOCK,
                 depth = c->in[DEPTH];
    float edge[MOST_SPAN * MOST_SPAN * BLOCK] __attribute__((aligned(64)));
    for (size_t slice = begin * depth; slice < end * depth && !stopped(r); slice++)
        for (size_t t = first; t < last; t++) {
            const size_t column = first_output(c, 1, t % r->columns),
                         row = first_output(c, 0, t / r->columns % r->rows);
            const float *x = c->x + (t / r->columns / r->rows * r->in_blocks * depth + slice) * plane;
            float *to = inputs + slice * input_slice + (t - first) * BLOCK;
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
                xcvm_tile_transform(4, x, pitch, to, r->input_stride);
            else
                xcvm_tile_transform(2, x, pitch, to, r->input_stride);
        }
}

/* Max pooling of a tile over pool x pool pixels. Remaining rows and columns are dropped. */
static void pool_tile(const blocked_winograd_loop *r, const xcvm_tile_place *tile, size_t rows, size_t columns,
                      float *y)
{
    const size_t pool = r->c->pool, width = r->c->out[1] / pool;
    for (size_t i = 0; i < rows / pool; i++)
        for (size_t j = 0; j < columns / pool; j++)
            for (size_t lane = 0; lane < BLOCK; lane += XCVM_LANES) {
                const float *from = tile->y + i * pool * tile->row + j * pool * tile->pixel + lane;
                xcvm_lanes greatest = xcvm_lanes_load(from);
                for (size_t k = 1; k < pool * pool; k++) {
                    const xcvm_lanes v = xcvm_lanes_load(from + k / pool * tile->row + k % pool * tile->pixel);
                    greatest = xcvm_lanes_keep_nan(xcvm_lanes_max(greatest, v), v);
                }
                xcvm_lanes_store(y + (i * width + j) * BLOCK + lane, greatest);
            }
}

static void store_outputs(const blocked_winograd_loop *r, size_t first, size_t last, size_t output, size_t blocks,
                          const float *products)
{
    const xcvm_blocked_conv *c = r->c;
    const size_t depth = c->out[DEPTH], pool = c->pool > 1 ? c->pool : 1;
    const size_t height = c->out[0] / pool, width = c->out[1] / pool;
    float tile[4 * 4 * BLOCK] __attribute__((aligned(64)));
    for (size_t slice = 0; slice < blocks * depth; slice++) {
        const size_t block = output + slice / depth;
        for (size_t t = first; t < last; t++, products += BLOCK) {
            const size_t column = first_output(c, 1, t % r->columns),
                         row = first_output(c, 0, t / r->columns % r->rows);
            const size_t plane = (t / r->columns / r->rows * c->outputs + output) * depth + slice;
            const size_t at = ((plane * height + row / pool) * width + column / pool) * BLOCK;
            const size_t rows = outputs_of_tile(c, 0, row), columns = outputs_of_tile(c, 1, column);
            if (rows == 0 || columns == 0)
                continue;
            xcvm_tile_place to = {c->y + at, c->z != NULL ? c->z + at : NULL, c->dilation[0] * c->out[1] * BLOCK,
                                  c->dilation[1] * BLOCK};
            if (pool > 1)
                to = (xcvm_tile_place){.y = tile, .row = c->tile * BLOCK, .pixel = BLOCK};
            if (c->tile == 4)
                xcvm_tile_store(c, 4, r->product_stride, products, block, &to, rows, columns);
            else
                xcvm_tile_store(c, 2, r->product_stride, products, block, &to, rows, columns);
            if (pool > 1)
                pool_tile(r, &to, rows, columns, c->y + at);
        }
    }
}

/* ---- Products ---- */

/* Elements of the filters of a point and block of outputs before a step, which is a slice of the window with a block of
 * inputs. */
static size_t filters_before(const blocked_winograd_loop *r, size_t step)
{
    return (step / r->in_blocks * r->c->channels + step % r->in_blocks * BLOCK) * BLOCK;
}

/* Sets steps [from, to) of the product, each a slice of the window with a block of inputs, for output slices from
 * `s->first`. Slices outside x are skipped. The filters of the first step are at offset `begin` of those of the point.
 */
static void set_steps(const blocked_winograd_loop *r, size_t count, size_t from, size_t to, size_t begin,
                      const xcvm_blocked_span *s, xcvm_blocked_product *g)
{
    const xcvm_blocked_conv *c = r->c;
    const size_t first = s->tap * r->in_blocks, last = s->tap_end * r->in_blocks;
    const size_t start = from > first ? from : first, end = to < last ? to : last;
    size_t tap = start / r->in_blocks, block = start % r->in_blocks;
    xcvm_blocked_clear_steps(g);
    for (size_t step = start; step < end; step++) {
        const size_t slice = s->first + tap * c->dilation[DEPTH] - c->pad[DEPTH], left = c->channels - block * BLOCK;
        xcvm_blocked_add_step(g, step, (ptrdiff_t)((block * c->in[DEPTH] + slice) * slice_of_inputs(r, count)),
                              (tap * c->channels + block * BLOCK) * BLOCK - begin, left < BLOCK ? left : BLOCK);
        if (++block == r->in_blocks) {
            block = 0;
            tap++;
        }
    }
}

/* The filters of the point begin at element `at` of w, those of the next point at `next`; 0: none. */
static void multiply_point(const blocked_winograd_loop *r, size_t count, size_t at, size_t next, size_t blocks,
                           const float *inputs, float *products, float *room)
{
    const xcvm_blocked_conv *c = r->c;
    const size_t steps = c->kernel[DEPTH] * r->in_blocks, depth = c->out[DEPTH];
    const xcvm_blocked_filters w = {c->w, c->w_dtype, filters_before(r, steps)};
    const size_t chain = xcvm_blocked_chain(steps, BLOCK, XCVM_WINOGRAD_CHAIN);
    xcvm_blocked_product g = {
        .blocks = blocks, .chain = chain, .spacing = BLOCK, .y_spacing = BLOCK, .y_block = depth * count * BLOCK};
    const size_t most = xcvm_min(PORTION / (BLOCK * BLOCK * blocks), XCVM_PRODUCT_STEPS);
    const size_t portions = xcvm_blocked_portions(steps, chain, most);
    const size_t most_floats = xcvm_blocked_portion(steps, chain, portions, 1) * BLOCK * BLOCK;
    for (size_t i = 0, begin = 0, used; i < portions; i++, begin = used) {
        const size_t from = xcvm_blocked_portion(steps, chain, portions, i);
        const size_t to = xcvm_blocked_portion(steps, chain, portions, i + 1);
        used = filters_before(r, to);
        g.resume = i > 0;
        xcvm_blocked_take(&g, &w, at + begin, used - begin, room);
        if (i + 1 < portions)
            xcvm_blocked_fetch(&g, &w, at + used, xcvm_min(w.block - used, used - begin), depth * count);
        else
            xcvm_blocked_fetch(&g, &w, next, next == 0 ? 0 : xcvm_min(w.block, most_floats), depth * count);
        for (xcvm_blocked_span s = r->head;; s = xcvm_blocked_span_from(c, DEPTH, s.last, depth)) {
            set_steps(r, count, from, to, begin, &s, &g);
            if (g.step_count > 0 || !g.resume)
                xcvm_blocked_multiply(&g, inputs, NULL, products + s.first * count * BLOCK, (s.last - s.first) * count);
            if (s.last == depth)
                break;
        }
    }
}

/* Computes a group of blocks of outputs for tiles [first, last). */
static void run_group(const blocked_winograd_loop *r, size_t group, size_t first, size_t last, const float *inputs,
                      int worker)
{
    float *products = r->products + (size_t)worker * r->products_floats;
    float *room = r->room != NULL ? r->room + (size_t)worker * r->room_floats : NULL;
    const xcvm_blocked_conv *c = r->c;
    const size_t output = group * c->outputs / r->groups, blocks = (group + 1) * c->outputs / r->groups - output;
    const size_t filters = c->kernel[DEPTH] * c->channels * BLOCK, stride = c->outputs * filters;
    size_t at = output * filters;
    if (c->on_the_fly) {
        const xcvm_on_the_fly p = {r->k,
                                   c,
                                   last - first,
                                   inputs,
                                   products,
                                   r->input_stride,
                                   slice_of_inputs(r, last - first),
                                   r->product_stride};
        xcvm_on_the_fly_multiply(&p, output, blocks, room);
    }
    for (size_t point = 0; point < r->points && !c->on_the_fly && !stopped(r); point++, at += stride)
        multiply_point(r, last - first, at, point + 1 < r->points ? at + stride : 0, blocks,
                       inputs + point * r->input_stride, products + point * r->product_stride, room);
    store_outputs(r, first, last, output, blocks, products);
}

/* ---- Parallel loops ---- */

static void run_bands(void *context, size_t begin, size_t end, int worker)
{
    const blocked_winograd_loop *r = context;
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
    const blocked_winograd_loop *r = context;
    (void)worker;
    transform_inputs(r, r->first, r->last, begin, end, r->inputs);
}

static void run_groups(void *context, size_t begin, size_t end, int worker)
{
    const blocked_winograd_loop *r = context;
    for (size_t group = begin; group < end && !stopped(r); group++)
        run_group(r, group, r->first, r->last, r->inputs, worker);
}

xcvm_status xcvm_blocked_winograd(xcvm_kernel *k, const xcvm_blocked_conv *c)
{
    const size_t threads = (size_t)xcvm_threads_count(k->threads);
    blocked_winograd_loop r = {.k = k,
                               .c = c,
                               .span = c->tile + 2,
                               .points = (c->tile + 2) * (c->tile + 2),
                               .rows = tiles_along(c, 0),
                               .columns = tiles_along(c, 1),
                               .dilated = c->dilation[0] > 1 || c->dilation[1] > 1,
                               .in_blocks = xcvm_ceil_div(c->channels, BLOCK),
                               .groups = xcvm_ceil_div(c->outputs, XCVM_PRODUCT_BLOCKS),
                               .head = xcvm_blocked_span_from(c, DEPTH, 0, c->out[DEPTH])};
    const size_t blocks = xcvm_ceil_div(c->outputs, r.groups);
    r.tiles = c->batch * r.rows * r.columns;
    /* Widely dilated windows allow any number of slices for an image without pixels. */
    if ((double)r.in_blocks * (double)c->in[DEPTH] * (double)r.tiles * (double)threads > MOST_SLICES)
        return XCVM_OUT_OF_MEMORY;
    const size_t in_slices = r.in_blocks * c->in[DEPTH], out_slices = blocks * c->out[DEPTH];
    const size_t fitting = BAND / r.points / ((in_slices + out_slices) * BLOCK);
    const size_t least_tiles = xcvm_ceil_div(LEAST_TILES, c->out[DEPTH]);
    r.bands = r.tiles / (fitting > least_tiles ? fitting : least_tiles);
    r.bands = r.bands < 1 ? 1 : r.bands;
    const bool own = r.bands >= threads;
    if (own)
        r.bands = xcvm_min(xcvm_ceil_div(r.bands, threads) * threads, r.tiles);
    r.most = xcvm_ceil_div(r.tiles, r.bands);
    r.input_stride = (c->on_the_fly ? 1 : in_slices) * r.most * BLOCK + GAP;
    r.product_stride = out_slices * r.most * BLOCK + GAP;
    r.inputs_floats = r.points * r.input_stride * (c->on_the_fly ? in_slices : 1);
    r.products_floats = r.points * r.product_stride;
    const size_t products_end = r.inputs_floats * (own ? threads : 1) + r.products_floats * threads;
    r.room_floats = c->on_the_fly                                  ? xcvm_on_the_fly_room(c, r.most)
                    : xcvm_dtype_in(c->w_dtype, XCVM_TYPES_NARROW) ? PORTION
                                                                   : 0;
    r.inputs = xcvm_kernel_scratch(k, (products_end + threads * r.room_floats) * sizeof(float));
    if (r.inputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    r.products = r.inputs + r.inputs_floats * (own ? threads : 1);
    r.room = r.room_floats > 0 ? r.inputs + products_end : NULL;
    if (own) {
        xcvm_parallel(k->threads, r.bands, 1, run_bands, &r);
        return xcvm_kernel_poll(k);
    }
    for (size_t band = 0; band < r.bands && !stopped(&r); band++) {
        r.first = band * r.tiles / r.bands;
        r.last = (band + 1) * r.tiles / r.bands;
        xcvm_parallel(k->threads, r.in_blocks, 1, transform_shared, &r);
        xcvm_parallel(k->threads, r.groups, 1, run_groups, &r);
    }
    return xcvm_kernel_poll(k);
}
