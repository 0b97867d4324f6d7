/* Depthwise convolutions, or groups of a few channels, in blocked layout. Rows of x are copied with padding into a ring
 * buffer, and runs of output pixels are accumulated in registers. Dilated windows read x directly, because their ring
 * would contain many unused rows. Depth slices of a window are processed in turn, with intermediate sums in y. A vector
 * contains one or more groups or a part of one; each channel in turn is broadcast over the outputs of its group. */
#include "ops/elementwise/simd/activation_rows.h"
#include "ops/conv/simd/blocked_span.h"
#include "ops/util/grain.h"

#include <math.h>

/* Pixels accumulated together. */
#if XCVM_LANES == 16 || defined(__aarch64__)
#define XCVM_DEPTHWISE_RUN 8
#else
#define XCVM_DEPTHWISE_RUN 6
#endif
enum {
    BLOCK = XCVM_CHANNEL_BLOCK,
    VECTORS = XCVM_BLOCK_VECTORS,
    RUN = XCVM_DEPTHWISE_RUN,
    CLOSE = 3, /* window columns that are added row by row */
    /* Maximum floats of a ring. */
    LARGEST_RING = 4 * 1024 * 1024,
    THREAD_WORK = 100 * 1000,
    /* Window positions of a row's pixels between polls. */
    PORTION = 1 << 17,
    DEPTH = XCVM_BLOCKED_DEPTH
};

typedef struct blocked_depthwise_loop {
    const xcvm_kernel *k;
    const xcvm_blocked_conv *c;
    float *scratch;
    size_t ring_rows, pitch; /* pitch: pixels of a ring row */
} blocked_depthwise_loop;

/* ---- The ring ---- */

/* Copies row `row` of the padded image, from the plane of blocks at x. */
static void copy_row(const blocked_depthwise_loop *r, const float *x, size_t row, float *to)
{
    const xcvm_blocked_conv *c = r->c;
    const size_t left = xcvm_min(c->pad[1], r->pitch), right = xcvm_min(c->in[1] + c->pad[1], r->pitch);
    if (row < c->pad[0] || row - c->pad[0] >= c->in[0] || right <= left) {
        memset(to, 0, r->pitch * BLOCK * sizeof *to);
        return;
    }
    const float *from = x + (row - c->pad[0]) * c->in[1] * BLOCK;
    memset(to, 0, left * BLOCK * sizeof *to);
    float *at = to + left * BLOCK;
    for (size_t i = 0; i < (right - left) * BLOCK; i += XCVM_LANES)
        xcvm_lanes_store(at + i, xcvm_lanes_load(from + i));
    memset(to + right * BLOCK, 0, (r->pitch - right) * BLOCK * sizeof *to);
}

/* ---- Sums ---- */

typedef struct row_sum {
    const float *ring;                       /* or the image; the first column used */
    size_t ring_row, ring_rows, ring_floats; /* first row of a window; floats of a row */
    const xcvm_blocked_conv *c;
    const float *w;             /* filters of the block, from the first window position */
    size_t rows, columns, skip; /* of the window; floats of w between the end of a row and the next */
    size_t width;               /* pixels of the output row */
    float low, high;            /* clamping bounds of the sums */
    xcvm_lanes start[VECTORS];
} row_sum;

/* Returns a vector with channel j of its group of `group` channels in each lane, from a vector of a block whose first
 * lane is `lane`. */
#define OF_GROUP(i, group, j) ((i) / (group) * (group) + (j))
#if XCVM_LANES == 16
#define SPREAD(v, g, j)                                                                                                \
    __builtin_shufflevector(v, v, OF_GROUP(0, g, j), OF_GROUP(1, g, j), OF_GROUP(2, g, j), OF_GROUP(3, g, j),          \
                            OF_GROUP(4, g, j), OF_GROUP(5, g, j), OF_GROUP(6, g, j), OF_GROUP(7, g, j),                \
                            OF_GROUP(8, g, j), OF_GROUP(9, g, j), OF_GROUP(10, g, j), OF_GROUP(11, g, j),              \
                            OF_GROUP(12, g, j), OF_GROUP(13, g, j), OF_GROUP(14, g, j), OF_GROUP(15, g, j))
#elif XCVM_LANES == 8
#define SPREAD(v, g, j)                                                                                                \
    __builtin_shufflevector(v, v, OF_GROUP(0, g, j), OF_GROUP(1, g, j), OF_GROUP(2, g, j), OF_GROUP(3, g, j),          \
                            OF_GROUP(4, g, j), OF_GROUP(5, g, j), OF_GROUP(6, g, j), OF_GROUP(7, g, j))
#else
#define SPREAD(v, g, j)                                                                                                \
    __builtin_shufflevector(v, v, OF_GROUP(0, g, j), OF_GROUP(1, g, j), OF_GROUP(2, g, j), OF_GROUP(3, g, j))
#endif
#define SPREAD_CASE(g, j)                                                                                              \
    case 16 * (g) + (j):                                                                                               \
        return SPREAD(v, (g) < XCVM_LANES ? (g) : XCVM_LANES, (j) % XCVM_LANES)

XCVM_INLINE xcvm_lanes spread(const float *at, const size_t lane, const size_t group, const size_t j)
{
    if (group >= XCVM_LANES)
        return xcvm_lanes_all(at[(ptrdiff_t)(lane / group * group + j) - (ptrdiff_t)lane]);
    const xcvm_lanes v = xcvm_lanes_load(at);
    switch (16 * group + j) {
        SPREAD_CASE(2, 0);
        SPREAD_CASE(2, 1);
        SPREAD_CASE(4, 0);
        SPREAD_CASE(4, 1);
        SPREAD_CASE(4, 2);
        SPREAD_CASE(4, 3);
        SPREAD_CASE(8, 0);
        SPREAD_CASE(8, 1);
        SPREAD_CASE(8, 2);
        SPREAD_CASE(8, 3);
        SPREAD_CASE(8, 4);
        SPREAD_CASE(8, 5);
        SPREAD_CASE(8, 6);
        SPREAD_CASE(8, 7);
    default:
        return v;
    }
}

/* Adds a window row whose columns overlap those of neighboring windows. Each pixel is broadcast once for all of them,
 * because processors with 16-lane vectors have one port for shuffles, which also multiplies. */
XCVM_INLINE void add_close_row(xcvm_lanes *sum, const float *from, const float *w, const size_t channels,
                               const size_t pixels)
{
#pragma GCC unroll XCVM_UNROLL_8
    for (size_t channel = 0; channel < channels; channel++, w += BLOCK) {
        xcvm_lanes x[RUN + CLOSE - 1];
#pragma GCC unroll XCVM_UNROLL_16
        for (size_t p = 0; p < pixels + CLOSE - 1; p++)
            x[p] = spread(from + p * BLOCK, 0, channels, channel);
#pragma GCC unroll XCVM_UNROLL_8
        for (size_t j = 0; j < CLOSE; j++) {
            const xcvm_lanes filter = xcvm_lanes_load(w + j * channels * BLOCK);
#pragma GCC unroll XCVM_UNROLL_8
            for (size_t p = 0; p < pixels; p++)
                sum[p] = xcvm_lanes_add_product(sum[p], filter, x[p + j]);
        }
    }
}

/* Computes pixels [at, at + pixels) of an output row. Columns, stride, dilation and channels of the window are
 * constants where that pays off. `once`: uses add_close_row. */
XCVM_TILE_FUNCTION void sum_run(const row_sum *g, const size_t columns, const size_t stride, const size_t dilation,
                                const size_t channels, const bool once, const size_t pixels, size_t at, const float *z,
                                float *y)
{
    const xcvm_blocked_conv *c = g->c;
    const xcvm_lanes low = xcvm_lanes_all(g->low), high = xcvm_lanes_all(g->high);
    for (size_t v = 0; v < VECTORS; v++) {
        xcvm_lanes sum[RUN];
        const float *w = g->w + v * XCVM_LANES;
        size_t row = g->ring_row;
#pragma GCC unroll XCVM_UNROLL_8
        for (size_t p = 0; p < pixels; p++)
            sum[p] = g->start[v];
        for (size_t i = 0; i < g->rows; i++, w += g->skip) {
            const float *from = g->ring + row * g->ring_floats + at * stride * BLOCK + v * XCVM_LANES;
            if (once) {
                add_close_row(sum, from, w, channels, pixels);
                w += CLOSE * channels * BLOCK;
            }
#pragma GCC unroll XCVM_UNROLL_8
            for (size_t j = 0; j < columns && !once; j++) {
#pragma GCC unroll XCVM_UNROLL_8
                for (size_t channel = 0; channel < channels; channel++, w += BLOCK) {
                    const xcvm_lanes filter = xcvm_lanes_load(w);
#pragma GCC unroll XCVM_UNROLL_8
                    for (size_t p = 0; p < pixels; p++)
                        sum[p] = xcvm_lanes_add_product(
                            sum[p], filter,
                            spread(from + (p * stride + j * dilation) * BLOCK, v * XCVM_LANES, channels, channel));
                }
            }
            row += c->dilation[0];
            row -= row >= g->ring_rows ? g->ring_rows : 0;
        }
#pragma GCC unroll XCVM_UNROLL_8
        for (size_t p = 0; p < pixels; p++) {
            const size_t to = (at + p) * BLOCK + v * XCVM_LANES;
            if (z != NULL)
                sum[p] += xcvm_lanes_load(z + to);
            xcvm_lanes_store(y + to, xcvm_lanes_min(xcvm_lanes_max(sum[p], low), high));
        }
    }
}

/* Windows that have functions of their own: W(name, condition, columns, stride, dilation, channels, once). The first
 * one whose condition is true is used. add_close_row with 8 channels was 10 % slower. */
#define IS(of_columns, of_stride) (dilation == 1 && columns == (of_columns) && stride == (of_stride))
/* clang-format off */
#if XCVM_LANES == 16
#define WINDOWS_BY_ROW(W) W(close_fours, channels == 4 && IS(CLOSE, 1), CLOSE, 1, 1, 4, true)
#else
#define WINDOWS_BY_ROW(W)
#endif
#define WINDOWS(W)                                                                                                     \
    WINDOWS_BY_ROW(W)                                                                                                  \
    W(twos, channels == 2, columns, stride, dilation, 2, false)                                                        \
    W(fours, channels == 4, columns, stride, dilation, 4, false)                                                       \
    W(eights, channels == 8, columns, stride, dilation, 8, false)                                                      \
    W(three, IS(3, 1), 3, 1, 1, 1, false)                                                                              \
    W(three_strided, IS(3, 2), 3, 2, 1, 1, false)                                                                      \
    W(five, IS(5, 1), 5, 1, 1, 1, false)                                                                               \
    W(five_strided, IS(5, 2), 5, 2, 1, 1, false)                                                                       \
    W(any, true, columns, stride, dilation, 1, false)
#if XCVM_DEPTHWISE_RUN == 8
#define RUNS(R, ...) R(1, __VA_ARGS__) R(2, __VA_ARGS__) R(3, __VA_ARGS__) R(4, __VA_ARGS__) R(5, __VA_ARGS__) \
    R(6, __VA_ARGS__) R(7, __VA_ARGS__) R(8, __VA_ARGS__)
#else
#define RUNS(R, ...) R(1, __VA_ARGS__) R(2, __VA_ARGS__) R(3, __VA_ARGS__) R(4, __VA_ARGS__) R(5, __VA_ARGS__) \
    R(6, __VA_ARGS__)
#endif
/* clang-format on */

/* Each run has a function for WebAssembly, whose engines compile and optimize whole functions when they are called. */
#if defined(__wasm__)
#define RUN_FUNCTION static __attribute__((noinline))
#else
#define RUN_FUNCTION XCVM_INLINE
#endif
#define RUN_OF(pixels, name, condition, of_columns, of_stride, of_dilation, of_channels, once)                         \
    RUN_FUNCTION void name##_##pixels(const row_sum *g, size_t at, const float *z, float *y)                           \
    {                                                                                                                  \
        const size_t columns = g->columns, stride = g->c->stride[1], dilation = g->c->dilation[1];                     \
        (void)columns, (void)stride, (void)dilation;                                                                   \
        sum_run(g, of_columns, of_stride, of_dilation, of_channels, once, pixels, at, z, y);                           \
    }
#define RUNS_OF(...) RUNS(RUN_OF, __VA_ARGS__)
WINDOWS(RUNS_OF)

#define RUN_CASE(pixels, name)                                                                                         \
    case pixels:                                                                                                       \
        name##_##pixels(g, at, z, y);                                                                                  \
        break;
/* Computes pixels [first, last) of a row. */
#define ROW_OF(name, ...)                                                                                              \
    static void name##_row(const row_sum *g, size_t first, size_t last, const float *z, float *y)                      \
    {                                                                                                                  \
        const size_t width = last - first, runs = (width + RUN - 1) / RUN;                                             \
        for (size_t i = 0, at = first; i < runs; i++) {                                                                \
            const size_t end = first + (i + 1) * width / runs;                                                         \
            switch (end - at) {                                                                                        \
                RUNS(RUN_CASE, name)                                                                                   \
            default:                                                                                                   \
                break;                                                                                                 \
            }                                                                                                          \
            at = end;                                                                                                  \
        }                                                                                                              \
    }
WINDOWS(ROW_OF)

static void sum_pixels(const row_sum *g, size_t first, size_t last, const float *z, float *y)
{
    const size_t columns = g->columns, stride = g->c->stride[1], dilation = g->c->dilation[1];
    const size_t channels = g->c->channels;
#define CALL_ROW(name, condition, ...)                                                                                 \
    if (condition) {                                                                                                   \
        name##_row(g, first, last, z, y);                                                                              \
        return;                                                                                                        \
    }
    WINDOWS(CALL_ROW)
}

/* Floats of the filters of one window position and block. */
static size_t filter_floats(const xcvm_blocked_conv *c) { return BLOCK * (c->channels > 1 ? c->channels : 1); }

/* Computes a row, which stays unfinished if the run is stopped. */
static void choose_row(const blocked_depthwise_loop *r, const row_sum *g, const float *z, float *y)
{
    const size_t taps = g->rows * g->columns + 1, most = taps < PORTION ? PORTION / taps : 1;
    if (g->width <= most) {
        sum_pixels(g, 0, g->width, z, y);
        return;
    }
    for (size_t at = 0; at < g->width && xcvm_kernel_poll(r->k) == XCVM_OK; at += most)
        sum_pixels(g, at, xcvm_min(at + most, g->width), z, y);
}

static bool stopped(const blocked_depthwise_loop *r) { return xcvm_kernel_poll(r->k) != XCVM_OK; }

/* One depth slice of the window for output rows [begin, end) of one slice, counted over all slices, blocks and images.
 */
typedef struct pass {
    size_t begin, end;
    const float *x; /* slice of x; NULL: windows are outside */
    const float *w; /* filters of the slice of the window */
    const float *b; /* NULL: no bias, or not the first pass */
    const float *z; /* NULL, or the residual; y after the first pass */
    bool last;
} pass;

static void set_pass(const xcvm_blocked_conv *c, const pass *p, row_sum *g)
{
    g->w = p->w;
    g->low = p->last ? c->activation.low : -INFINITY;
    g->high = p->last ? c->activation.high : INFINITY;
    for (size_t v = 0; v < VECTORS; v++)
        g->start[v] = p->b != NULL ? xcvm_lanes_load(p->b + v * XCVM_LANES) : (xcvm_lanes){0};
}

/* Computes output rows [begin, end) of all slices, blocks and images. */
static void run_passes(blocked_depthwise_loop *r, size_t begin, size_t end, int worker,
                       void (*body)(blocked_depthwise_loop *, const pass *, int))
{
    const xcvm_blocked_conv *c = r->c;
    const size_t plane = c->in[0] * c->in[1] * BLOCK, taps = c->kernel[0] * c->kernel[1] * filter_floats(c);
    for (size_t i = begin, last; i < end; i = last) {
        const size_t slice = i / c->out[0], at = slice % c->out[DEPTH], image = slice / c->out[DEPTH];
        const size_t block = image % c->outputs;
        const xcvm_blocked_span s = xcvm_blocked_span_from(c, DEPTH, at, at + 1);
        const size_t top = at * c->stride[DEPTH] - c->pad[DEPTH];
        last = xcvm_min(end, (slice + 1) * c->out[0]);
        pass p = {.begin = i, .end = last, .b = c->b != NULL ? c->b + block * BLOCK : NULL, .z = c->z};
        for (size_t tap = s.tap; !p.last; tap++) {
            const bool inside = tap < s.tap_end;
            p.x = inside ? c->x + (image * c->in[DEPTH] + top + tap * c->dilation[DEPTH]) * plane : NULL;
            p.w = (const float *)c->w + (block * c->kernel[DEPTH] + (inside ? tap : 0)) * taps;
            p.last = tap + 1 >= s.tap_end;
            body(r, &p, worker);
            if (stopped(r))
                return;
            p.b = NULL;
            p.z = c->y;
        }
    }
}

static void run_rows(blocked_depthwise_loop *r, const pass *p, int worker)
{
    const xcvm_blocked_conv *c = r->c;
    const size_t floats = r->pitch * BLOCK;
    const size_t reach = (c->kernel[0] - 1) * c->dilation[0] + 1;
    float *ring = r->scratch + (size_t)worker * r->ring_rows * floats;
    row_sum g = {.ring = ring,
                 .ring_rows = r->ring_rows,
                 .ring_floats = floats,
                 .c = c,
                 .rows = p->x != NULL ? c->kernel[0] : 0,
                 .columns = c->kernel[1],
                 .width = c->out[1]};
    if (stopped(r))
        return;
    set_pass(c, p, &g);
    xcvm_poller poller = xcvm_poller_of(r->k);
    size_t next = 0, row = p->begin % c->out[0]; /* next: first row not yet in the ring */
    for (size_t i = p->begin; i < p->end; i++, row++) {
        const size_t top = row * c->stride[0];
        for (next = next < top ? top : next; next < top + reach && p->x != NULL; next++)
            copy_row(r, p->x, next, ring + next % r->ring_rows * floats);
        g.ring_row = top % r->ring_rows;
        const size_t at = i * c->out[1] * BLOCK;
        if (xcvm_poll_after(&poller, c->out[1] * (g.rows * g.columns + 1)) != XCVM_OK)
            break;
        choose_row(r, &g, p->z != NULL ? p->z + at : NULL, c->y + at);
        if (c->activation.kind != XCVM_ACTIVATION_none && p->last)
            xcvm_activate_row(&c->activation, c->y + at, c->out[1] * BLOCK);
    }
}

/* True if window positions inside x are read directly: for a large dilation, the borders are about as wide as the
 * dilation, and copies cost less than sums of narrow runs. */
static bool is_apart(const xcvm_blocked_conv *c, int axis)
{
    return c->kernel[axis] > 1 && c->dilation[axis] > RUN / 2;
}

/* The same for dilated windows. */
static void run_dilated(blocked_depthwise_loop *r, const pass *p, int worker)
{
    const xcvm_blocked_conv *c = r->c;
    xcvm_poller poller = xcvm_poller_of(r->k);
    (void)worker;
    for (size_t i = p->begin, last; i < p->end; i = last) {
        const size_t row = i % c->out[0];
        const xcvm_blocked_span rows = xcvm_blocked_span_from(c, 0, row, row + p->end - i);
        last = i + rows.last - rows.first;
        if (stopped(r))
            return;
        row_sum of_block = {
            .ring_rows = SIZE_MAX, .ring_floats = c->in[1] * BLOCK, .c = c, .rows = rows.tap_end - rows.tap};
        set_pass(c, p, &of_block);
        for (xcvm_blocked_span columns = {.last = 0}; columns.last < c->out[1];) {
            columns = xcvm_blocked_span_from(c, 1, columns.last, c->out[1]);
            row_sum g = of_block;
            g.columns = columns.tap_end - columns.tap;
            g.skip = (c->kernel[1] - g.columns) * filter_floats(c);
            g.rows = g.columns > 0 && p->x != NULL ? g.rows : 0;
            g.width = columns.last - columns.first;
            g.w += (rows.tap * c->kernel[1] + columns.tap) * filter_floats(c);
            /* Without positions inside x, nothing is read. */
            g.ring = g.rows > 0 ? p->x + xcvm_blocked_span_place(c, &rows, &columns, BLOCK) : NULL;
            size_t at = (i * c->out[1] + columns.first) * BLOCK;
            for (size_t j = i; j < last; j++, at += c->out[1] * BLOCK, g.ring_row += c->stride[0]) {
                if (xcvm_poll_after(&poller, g.width * (g.rows * g.columns + 1)) != XCVM_OK)
                    return;
                choose_row(r, &g, p->z != NULL ? p->z + at : NULL, c->y + at);
                if (c->activation.kind != XCVM_ACTIVATION_none && p->last)
                    xcvm_activate_row(&c->activation, c->y + at, g.width * BLOCK);
            }
        }
    }
}

static void run_ring_range(void *context, size_t begin, size_t end, int worker)
{
    run_passes(context, begin, end, worker, run_rows);
}

static void run_dilated_range(void *context, size_t begin, size_t end, int worker)
{
    run_passes(context, begin, end, worker, run_dilated);
}

xcvm_status xcvm_blocked_depthwise(xcvm_kernel *k, const xcvm_blocked_conv *c)
{
    const double rows = (double)(c->kernel[0] - 1) * (double)c->dilation[0] + 1.0;
    const double pitch =
        (double)(c->out[1] - 1) * (double)c->stride[1] + (double)(c->kernel[1] - 1) * (double)c->dilation[1] + 1.0;
    blocked_depthwise_loop r = {.k = k, .c = c};
    const double taps = (double)(c->kernel[DEPTH] * c->kernel[0] * c->kernel[1]) * (double)(filter_floats(c) / BLOCK);
    const double each = (double)(c->out[1] * BLOCK) * (taps + 4.0);
    const size_t grain = xcvm_grain(THREAD_WORK, each);
    const size_t count = c->batch * c->outputs * c->out[DEPTH] * c->out[0];
    if (is_apart(c, 0) || is_apart(c, 1) || rows * pitch * BLOCK > LARGEST_RING) {
        xcvm_parallel(k->threads, count, grain, run_dilated_range, &r);
        return xcvm_kernel_poll(k);
    }
    r.ring_rows = (size_t)rows;
    r.pitch = (size_t)pitch;
    const size_t threads = (size_t)xcvm_threads_count(k->threads);
    r.scratch = xcvm_kernel_scratch(k, threads * r.ring_rows * r.pitch * BLOCK * sizeof(float));
    if (r.scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcvm_parallel(k->threads, count, grain, run_ring_range, &r);
    return xcvm_kernel_poll(k);
}
