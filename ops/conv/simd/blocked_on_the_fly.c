/* Winograd convolution with filters transformed on the fly. Transforming a filter costs about as much as multiplying it
 * with four tiles, and storing its 36 numbers in the second-level cache costs more than both. So they stay in the
 * first-level cache: for some blocks of inputs, a pair of rows of points is transformed and multiplied at a time. With
 * few tiles they stay in registers: the sums of a row of points are there, and numbers are multiplied as they are
 * computed. Filters come from memory and are prefetched at an even rate, because bursts would stall. */
#include "ops/conv/simd/blocked_on_the_fly.h"
#include "ops/matmul/packed.h"
#include "ops/conv/simd/blocked_points.h"
#include "ops/simd/halves.h"
#include "ops/conv/simd/winograd.h"

enum {
    BLOCK = XCVM_CHANNEL_BLOCK,
    VECTORS = XCVM_BLOCK_VECTORS,
    SPAN = XCVM_POINT_ROW,
    TAPS = 9,
    PAIRS = SPAN / 2,
    PAIR_POINTS = 2 * SPAN,
    PORTION = 8, /* blocks of inputs whose filters stay in the second-level cache while they are prefetched */
    /* Blocks of inputs transformed at a time, for few and for many tiles; with many, windows are transformed and
     * multiplied in longer runs. Each block is a separate chain of the sums, so results do not depend on the choice. */
    STEPS_FEW = 1,
    STEPS_MANY = PORTION,
    FEW_TILES = 16,
    BLOCKS_FEW = 2,
    MOST_BLOCKS = XCVM_PRODUCT_BLOCKS,
    /* Padding between points, to avoid conflicts in a cache set. */
    GAP = BLOCK,
    STEP_FLOATS = BLOCK * BLOCK,
    FILTER_FLOATS = PORTION * TAPS * STEP_FLOATS, /* of a block of outputs, as stored */
    /* Vector multiply-adds that take as long as transforming one vector of filters to a pair of rows. */
    WINDOW_WORK = 40,
    ROW_TILES = XCVM_PRODUCT_SUMS / SPAN /* tiles whose sums of a row of points fit in registers */
};

/* ---- Transforms ---- */

/* Pairs of rows of points that are computed together. */
static const size_t pair_rows[PAIRS][2] = {{0, 5}, {1, 2}, {3, 4}};

/* Transforms a window of 3 x 3 vectors, `pitch` floats apart, into two rows of points, `stride` floats apart. */
XCVM_INLINE void transform_window(const int pair, const float *w, size_t pitch, float *to, size_t stride)
{
    xcvm_lanes half[2][3];
#pragma GCC unroll 3
    for (size_t j = 0; j < 3; j++) {
        const xcvm_lanes taps[] = {xcvm_lanes_load(w + j * pitch), xcvm_lanes_load(w + (3 + j) * pitch),
                                   xcvm_lanes_load(w + (6 + j) * pitch)};
        xcvm_lanes u[SPAN];
        xcvm_winograd_taps(taps, u);
        half[0][j] = u[pair_rows[pair][0]];
        half[1][j] = u[pair_rows[pair][1]];
    }
#pragma GCC unroll 2
    for (size_t i = 0; i < 2; i++) {
        xcvm_lanes u[SPAN];
        xcvm_winograd_taps(half[i], u);
#pragma GCC unroll 6
        for (size_t j = 0; j < SPAN; j++)
            xcvm_lanes_store(to + (i * SPAN + j) * stride, u[j]);
    }
}

/* Transforms one block of inputs, `count` channels. */
XCVM_INLINE void transform_channels(const int pair, const float *w, size_t count, float *to, size_t stride,
                                    xcvm_filters_ahead *ahead)
{
    for (size_t channel = 0; channel < count; channel++)
        for (size_t lane = 0; lane < BLOCK; lane += XCVM_LANES) {
            const size_t at = channel * BLOCK + lane;
            xcvm_fetch_ahead(ahead, ahead->lines_a_window);
            transform_window(pair, w + at, count * BLOCK, to + at, stride);
        }
}

/* ---- Portions ---- */

static size_t in_blocks(const xcvm_blocked_conv *c) { return xcvm_ceil_div(c->channels, BLOCK); }

/* Elements of the filters of a block of outputs before a block of inputs. */
static size_t filters_before(const xcvm_blocked_conv *c, size_t in_block)
{
    return xcvm_min(in_block * BLOCK, c->channels) * TAPS * BLOCK;
}

static size_t steps_at_a_time(size_t tiles) { return tiles <= FEW_TILES ? STEPS_FEW : STEPS_MANY; }

static size_t blocks_at_a_time(size_t tiles)
{
    return tiles <= FEW_TILES ? xcvm_min(MOST_BLOCKS, BLOCKS_FEW) : MOST_BLOCKS;
}

/* Floats of filters that are transformed at a time. */
static size_t transformed_floats(size_t tiles)
{
    return PAIR_POINTS * (blocks_at_a_time(tiles) * steps_at_a_time(tiles) * STEP_FLOATS + GAP);
}

/* Blocks of inputs [from, to) for `blocks` blocks of outputs from `output`. Their filters are at `w`, with `w_block`
 * floats between blocks of outputs. */
typedef struct portion {
    size_t output, blocks, from, to;
    const float *w;
    size_t w_block;
} portion;

static void transform_pair(const xcvm_on_the_fly *p, const portion *q, size_t pair, size_t from, size_t to, float *room,
                           size_t stride, xcvm_filters_ahead *ahead)
{
    for (size_t b = 0; b < q->blocks; b++)
        for (size_t step = from; step < to; step++) {
            const size_t before = filters_before(p->c, step), count = xcvm_min(p->c->channels - step * BLOCK, BLOCK);
            const float *w = q->w + b * q->w_block + before - filters_before(p->c, q->from);
            if (pair == 0)
                transform_channels(0, w, count, room, stride, ahead);
            else if (pair == 1)
                transform_channels(1, w, count, room, stride, ahead);
            else
                transform_channels(2, w, count, room, stride, ahead);
            room += count * BLOCK;
        }
}

static void multiply_pair(const xcvm_on_the_fly *p, const portion *q, size_t pair, size_t from, size_t to,
                          const float *room, size_t stride, xcvm_filters_ahead *ahead)
{
    const size_t last = xcvm_min(p->c->channels - (to - 1) * BLOCK, BLOCK);
    const xcvm_point_row g = {.steps = to - from,
                              .last = last,
                              .chain = 1,
                              .x_point = p->x_point,
                              .x_step = p->x_block,
                              .w_point = stride,
                              .w_block = ((to - from - 1) * BLOCK + last) * BLOCK,
                              .y_point = p->y_point,
                              .y_block = p->tiles * BLOCK,
                              .resume = from > 0};
    for (size_t i = 0; i < 2; i++) {
        const size_t point = pair_rows[pair][i] * SPAN;
        xcvm_multiply_points(&g, q->blocks, p->tiles, p->x + point * p->x_point + from * p->x_block,
                             room + i * SPAN * stride, p->y + point * p->y_point + q->output * p->tiles * BLOCK, ahead);
    }
}

/* ---- Few tiles ---- */

/* Floats between points of `tiles` tiles, in row order. */
XCVM_INLINE size_t x_point_by_rows(size_t tiles) { return tiles * BLOCK + GAP; }

static bool is_by_rows(const xcvm_on_the_fly *p)
{
    return p->tiles <= ROW_TILES && p->x_point == x_point_by_rows(p->tiles);
}

/* Factors of xcvm_winograd_taps, applied to the sums instead. The remaining transform has only additions and one
 * product with +-sqrt 2. */
static const float factors[SPAN] = {1, -1.0f / 3.0f, -1.0f / 3.0f, 1.0f / 6.0f, 1.0f / 6.0f, 1};

/* The taps of a row of points. With `edge` (first or last row) they are the window row at `first`. Otherwise they
 * combine three rows: twice the first, plus the last, plus `root` (+-sqrt 2) times the middle one. */
typedef struct row_taps {
    bool edge;
    const float *first, *middle, *last;
    float root;
} row_taps;

static row_taps taps_of_row(const float *w, size_t row, size_t pitch)
{
    const float *first = w, *middle = w + 3 * pitch, *last = w + 6 * pitch;
    const bool backward = row >= 3; /* starting with the window's last row */
    return (row_taps){.edge = row == 0 || row == SPAN - 1,
                      .first = backward ? last : first,
                      .middle = middle,
                      .last = backward ? first : last,
                      .root = row % 2 == 0 ? -XCVM_ROOT2 : XCVM_ROOT2};
}

/* Computes one vector of outputs: the products of `pixels` tiles and `count` channels for a row of points. */
XCVM_TILE_FUNCTION void multiply_row(const bool edge, const size_t pixels, const size_t count, const row_taps *taps,
                                     float factor, const float *x, const size_t x_point, float *y, size_t y_point,
                                     bool resume, xcvm_filters_ahead *ahead)
{
    const size_t pitch = count * BLOCK;
    const float *first = taps->first, *middle = taps->middle, *last = taps->last;
    const xcvm_lanes root = xcvm_lanes_all(taps->root), root2 = xcvm_lanes_all(XCVM_ROOT2);
    xcvm_lanes sum[XCVM_PRODUCT_SUMS];
#pragma GCC unroll XCVM_UNROLL_24
    for (size_t i = 0; i < SPAN * pixels; i++)
        sum[i] = (xcvm_lanes){0};
#pragma GCC unroll 1
    for (size_t channel = 0; channel < count; channel++) {
        xcvm_lanes t[3];
        xcvm_fetch_ahead(ahead, ahead->lines_a_window);
#pragma GCC unroll 3
        for (size_t j = 0; j < 3; j++) {
            const size_t at = channel * BLOCK + j * pitch;
            t[j] = xcvm_lanes_load(first + at);
            if (!edge)
                t[j] = t[j] + t[j] + xcvm_lanes_load(last + at) + root * xcvm_lanes_load(middle + at);
        }
        const xcvm_lanes a = t[0] + t[0] + t[2], b = t[2] + t[2] + t[0], c = root2 * t[1];
        const xcvm_lanes u[SPAN] = {t[0], a + c, a - c, b + c, b - c, t[2]};
#pragma GCC unroll 6
        for (size_t j = 0; j < SPAN; j++)
#pragma GCC unroll XCVM_UNROLL_4
            for (size_t p = 0; p < pixels; p++)
                sum[j * pixels + p] = xcvm_lanes_add_product(
                    sum[j * pixels + p], xcvm_lanes_all(x[j * x_point + p * BLOCK + channel]), u[j]);
    }
#pragma GCC unroll 6
    for (size_t j = 0; j < SPAN; j++)
#pragma GCC unroll XCVM_UNROLL_4
        for (size_t p = 0; p < pixels; p++) {
            float *to = y + j * y_point + p * BLOCK;
            const xcvm_lanes start = resume ? xcvm_lanes_load(to) : (xcvm_lanes){0};
            xcvm_lanes_store(to, start + sum[j * pixels + p] * xcvm_lanes_all(factor * factors[j]));
        }
}

#define ROW(edge, pixels, count)                                                                                       \
    multiply_row(edge, pixels, count, &taps, factors[row], x, x_point_by_rows(pixels), y, p->y_point, resume, ahead)
#define ROWS(pixels)                                                                                                   \
    case pixels:                                                                                                       \
        if ((pixels) > ROW_TILES)                                                                                      \
            break;                                                                                                     \
        if (count == BLOCK && taps.edge)                                                                               \
            ROW(true, pixels, BLOCK);                                                                                  \
        else if (count == BLOCK)                                                                                       \
            ROW(false, pixels, BLOCK);                                                                                 \
        else if (taps.edge)                                                                                            \
            ROW(true, pixels, count);                                                                                  \
        else                                                                                                           \
            ROW(false, pixels, count);                                                                                 \
        break;

/* For all tiles and one block of inputs. */
static void multiply_row_of_points(const xcvm_on_the_fly *p, size_t row, size_t count, const float *x, const float *w,
                                   float *y, bool resume, xcvm_filters_ahead *ahead)
{
    const row_taps taps = taps_of_row(w, row, count * BLOCK);
    x += row * SPAN * p->x_point;
    y += row * SPAN * p->y_point;
    switch (p->tiles) {
        ROWS(1)
        ROWS(2)
        ROWS(3)
        ROWS(4)
    default:
        break;
    }
}

static void run_by_rows(const xcvm_on_the_fly *p, const portion *q, xcvm_filters_ahead *ahead)
{
    for (size_t b = 0; b < q->blocks; b++)
        for (size_t step = q->from; step < q->to; step++) {
            const size_t before = filters_before(p->c, step), count = xcvm_min(p->c->channels - step * BLOCK, BLOCK);
            const float *w = q->w + b * q->w_block + before - filters_before(p->c, q->from);
            float *y = p->y + (q->output + b) * p->tiles * BLOCK;
            for (size_t row = 0; row < SPAN; row++)
                for (size_t lane = 0; lane < BLOCK; lane += XCVM_LANES)
                    multiply_row_of_points(p, row, count, p->x + step * p->x_block, w + lane, y + lane, step > 0,
                                           ahead);
        }
}

/* ---- Work ---- */

static void run_portion(const xcvm_on_the_fly *p, const portion *q, float *room, xcvm_filters_ahead *ahead)
{
    const size_t chunks = xcvm_ceil_div(q->to - q->from, steps_at_a_time(p->tiles));
    if (is_by_rows(p)) {
        run_by_rows(p, q, ahead);
        return;
    }
    for (size_t pair = 0; pair < PAIRS; pair++)
        for (size_t i = 0; i < chunks; i++) {
            const size_t from = q->from + i * (q->to - q->from) / chunks,
                         to = q->from + (i + 1) * (q->to - q->from) / chunks;
            const size_t stride = q->blocks * (to - from) * STEP_FLOATS + GAP;
            transform_pair(p, q, pair, from, to, room, stride, ahead);
            multiply_pair(p, q, pair, from, to, room, stride, ahead);
        }
}

/* Prefetches elements [first, first + count) of each of `blocks` blocks while portion `q` is computed. */
static xcvm_filters_ahead fetch_meanwhile(const xcvm_on_the_fly *p, const portion *q, size_t first, size_t count,
                                          size_t blocks)
{
    const xcvm_blocked_conv *c = p->c;
    const size_t element = xcvm_packed_element(c->w_dtype);
    const size_t chunks = xcvm_ceil_div(q->to - q->from, steps_at_a_time(p->tiles));
    const size_t windows = PAIRS * q->blocks * (q->to - q->from) * BLOCK * VECTORS;
    const size_t points = PAIRS * PAIR_POINTS * chunks * xcvm_runs_of_points(q->blocks, p->tiles);
    const size_t multiplying = PAIR_POINTS * p->tiles, work = WINDOW_WORK + multiplying;
    xcvm_filters_ahead a = {.at = (const char *)c->w + first * element,
                            .stride = filters_before(c, in_blocks(c)) * element,
                            .lines = count * element / XCVM_LINE};
    a.blocks = a.lines > 0 ? blocks : 0;
    const size_t lines = a.lines * a.blocks;
    if (is_by_rows(p)) {
        a.lines_a_window = xcvm_ceil_div(lines, SPAN * q->blocks * (q->to - q->from) * BLOCK * VECTORS);
        return a;
    }
    a.lines_a_window = xcvm_ceil_div(lines * WINDOW_WORK, work * windows);
    a.lines_a_point = xcvm_ceil_div(lines * multiplying, work * points);
    return a;
}

static const float *as_f32(const xcvm_blocked_conv *c, size_t first, size_t count, size_t blocks, float *room)
{
    const size_t block = filters_before(c, in_blocks(c));
    if (!xcvm_dtype_in(c->w_dtype, XCVM_TYPES_NARROW))
        return (const float *)c->w + first;
    for (size_t b = 0; b < blocks; b++)
        xcvm_halves_load(c->w_dtype, c->w, first + b * block, count, room + b * count);
    return room;
}

size_t xcvm_on_the_fly_room(const xcvm_blocked_conv *c, size_t tiles)
{
    const bool narrow = xcvm_dtype_in(c->w_dtype, XCVM_TYPES_NARROW);
    return transformed_floats(tiles) + (narrow ? MOST_BLOCKS * FILTER_FLOATS : 0);
}

void xcvm_on_the_fly_multiply(const xcvm_on_the_fly *p, size_t output, size_t blocks, float *room)
{
    const xcvm_blocked_conv *c = p->c;
    const size_t steps = in_blocks(c), portions = xcvm_ceil_div(steps, PORTION), block = filters_before(c, steps);
    const bool narrow = xcvm_dtype_in(c->w_dtype, XCVM_TYPES_NARROW);
    float *wide = room + transformed_floats(p->tiles);
    const size_t most = is_by_rows(p) ? 1 : blocks_at_a_time(p->tiles);
    for (size_t b = 0; b < blocks; b += most)
        for (size_t i = 0; i < portions; i++) {
            portion q = {.output = b,
                         .blocks = xcvm_min(blocks - b, most),
                         .from = i * steps / portions,
                         .to = (i + 1) * steps / portions};
            const size_t first = filters_before(c, q.from), end = filters_before(c, q.to);
            q.w = as_f32(c, (output + b) * block + first, end - first, q.blocks, wide);
            q.w_block = narrow ? end - first : block;
            const bool last = i + 1 == portions;
            const size_t next_end = filters_before(c, (last ? 1 : i + 2) * steps / portions);
            const size_t left = c->outputs - (output + b + q.blocks);
            xcvm_filters_ahead ahead =
                last ? fetch_meanwhile(p, &q, (output + b + q.blocks) * block, next_end, xcvm_min(left, most))
                     : fetch_meanwhile(p, &q, (output + b) * block + end, next_end - end, q.blocks);
            if (xcvm_kernel_poll(p->k) != XCVM_OK)
                return;
            run_portion(p, &q, room, &ahead);
        }
}
