/* Filter gradients: sums over all output positions of g times the input of each window position and channel. These
 * inputs are rows in planes (planes.h), or in the image itself for pointwise windows, so a tile of the result reads
 * several rows in place. g is packed: a vector has some outputs of one position.
 *
 * Positions are processed in portions: several images, or bands of rows of one. For each portion all threads pack g,
 * and then take blocks of channels, for all outputs or a share of them, and add their sums to y. */
#include "ops/conv_gradient/simd/filter_gradient.h"
#include "ops/conv/simd/planes.h"
#include "ops/util/grain.h"
#include "ops/matmul/simd/row_tile.h"
#include "ops/simd/reductions.h"

enum {
    ROWS = XCVM_GEMM_ROWS,
    PLACES = 768, /* positions of a portion: a panel of g stays in the second-level cache */
    /* For a block of channels: rows of sums, and floats of planes. */
    BLOCK_ROWS = 512,
    BLOCK_PLANES = 48 * 1024,
    THREAD_WORK = 200 * 1000 /* minimum multiply-adds per thread */
};

/* Partition of a shape. It does not change the order of summation. */
typedef struct cut {
    bool pointwise;       /* rows are in the image */
    xcvm_planes planes;   /* if not pointwise */
    size_t channels;      /* of a block */
    size_t width, panels; /* outputs of a panel */
    size_t blocks, share; /* blocks of channels; panels that a block is multiplied with at a time */
    size_t images, rows;  /* of a portion: several images, or rows of one */
} cut;

typedef struct rows_loop {
    const xcvm_kernel *k;
    const xcvm_filter_gradient *f;
    cut cut;
    size_t group;
    /* The current portion. */
    size_t image, images, top, rows;
    float *packed; /* g, as panels */
    float *own;    /* of each worker: planes, then sums */
    size_t own_floats, planes_floats;
} rows_loop;

static size_t at_least_one(size_t n) { return n > 0 ? n : 1; }
static size_t image_floats(const cut *c) { return c->pointwise ? 0 : c->planes.in_floats; }

static cut cut_of(const xcvm_conv_shape *s, int threads)
{
    const xcvm_window *w = &s->window;
    cut c = {.pointwise = w->kernel_size == 1 && w->in_size == w->out_size && w->pad[1] == 0 && w->pad[2] == 0};
    c.images = xcvm_min(at_least_one(PLACES / w->out_size), s->batch);
    const size_t bands = c.images > 1 ? 1 : xcvm_ceil_div(w->out_size, PLACES);
    c.rows = at_least_one(w->out[1] / xcvm_min(bands, w->out[1]));
    if (!c.pointwise)
        xcvm_planes_make(&c.planes, w, c.rows);
    c.channels = at_least_one(BLOCK_ROWS / w->kernel_size);
    if (!c.pointwise)
        c.channels = xcvm_min(c.channels, at_least_one(BLOCK_PLANES / (c.images * image_floats(&c))));
    c.channels = xcvm_min(c.channels, s->channels);
    c.panels = xcvm_ceil_div(s->outputs, XCVM_GEMM_PANEL);
    c.width = xcvm_round_up(xcvm_ceil_div(s->outputs, c.panels), XCVM_LANES);
    /* Every thread should have work: first fewer channels per block, then fewer outputs. */
    const size_t all = (size_t)threads;
    c.channels = at_least_one(xcvm_min(c.channels, xcvm_ceil_div(s->channels, 2 * all)));
    c.blocks = xcvm_ceil_div(s->channels, c.channels);
    if (c.blocks * c.panels < all) {
        c.width = XCVM_LANES;
        c.panels = xcvm_ceil_div(s->outputs, c.width);
    }
    c.share = c.blocks >= all ? c.panels : at_least_one(c.panels * c.blocks / all);
    return c;
}

/* ---- Sums ---- */

/* Positions of rows: `count` runs of `length`, `pitch` apart in each image. */
typedef struct runs {
    size_t images, image; /* number of images, and floats between them */
    size_t count, pitch, length;
} runs;

/* Products of some rows, which begin at `from`, and the positions of a panel. */
XCVM_INLINE void sum_rows(const runs *r, const float *const *from, const float *g, const size_t rows,
                          const size_t vectors, float *to)
{
    xcvm_row_tile sum;
    xcvm_row_tile_clear(sum, rows, vectors);
    for (size_t image = 0; image < r->images; image++)
        for (size_t run = 0; run < r->count; run++) {
            const float *at[ROWS];
            const size_t first = image * r->image + run * r->pitch;
#pragma GCC unroll 16
            for (size_t i = 0; i < rows; i++)
                at[i] = from[i] + first;
            for (size_t p = 0; p < r->length; p++, g += vectors * XCVM_LANES)
                xcvm_row_tile_add(sum, at, p, g, rows, vectors);
        }
    xcvm_row_tile_store(sum, rows, vectors, false, to);
}

/* Constant sizes for whole tiles and for the remaining rows. */
static void sum_tile(const runs *r, const float *const *from, const float *g, size_t rows, size_t vectors, float *to)
{
    switch (rows * 8 + vectors) {
#define SIZE(n, v)                                                                                                     \
    case (n)*8 + (v):                                                                                                  \
        sum_rows(r, from, g, n, v, to);                                                                                \
        break;
#define WIDTH(v) SIZE(ROWS, v) SIZE(2, v) SIZE(1, v)
        XCVM_ROW_TILE_WIDTHS(WIDTH)
#undef WIDTH
#undef SIZE
    default:
        break;
    }
}

/* Adds sums, one row per column of y and a vector for some of `outputs`, to y, whose rows are `stride` apart, or stores
 * them. */
static void put_sums(const float *sums, size_t count, size_t vectors, size_t outputs, bool add, float *y, size_t stride)
{
    for (size_t v = 0; v < vectors; v++)
        for (size_t at = 0; at < count; at += XCVM_LANES) {
            xcvm_lanes columns[XCVM_LANES];
            xcvm_row_tile_columns(sums, vectors, v, at, columns);
            for (size_t i = 0; i < XCVM_LANES && v * XCVM_LANES + i < outputs; i++) {
                float *to = y + (v * XCVM_LANES + i) * stride + at;
                const xcvm_lanes before = add ? xcvm_lanes_load_up_to(to, count - at) : (xcvm_lanes){0};
                xcvm_lanes_store_up_to(to, count - at, before + columns[i]);
            }
        }
}

/* ---- Blocks ---- */

static void fill_planes(const rows_loop *l, size_t first, size_t channels, float *planes)
{
    const xcvm_conv_shape *s = &l->f->shape;
    const size_t all = s->group * s->channels, size = s->window.in_size;
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < l->images; i++, planes += l->cut.planes.in_floats) {
            const size_t plane = (l->image + i) * all + l->group * s->channels + first + c;
            xcvm_planes_fill(&l->cut.planes, l->f->x + plane * size, (s->batch * all - plane) * size, l->top, 0.0f,
                             planes);
        }
}

/* The runs of the current portion. */
static runs runs_of(const rows_loop *l)
{
    const xcvm_conv_shape *s = &l->f->shape;
    const xcvm_window *w = &s->window;
    if (l->cut.pointwise)
        return (runs){l->images, s->group * s->channels * w->in_size, 1, 0, l->rows * w->out[2]};
    return (runs){l->images, l->cut.planes.in_floats, l->rows, l->cut.planes.pitch, w->out[2]};
}

/* Start of row `row` of a block of channels. */
static const float *row_at(const rows_loop *l, size_t first, size_t row, const float *planes)
{
    const xcvm_conv_shape *s = &l->f->shape;
    const xcvm_window *w = &s->window;
    if (l->cut.pointwise)
        return l->f->x + ((l->image * s->group + l->group) * s->channels + first + row) * w->in_size +
               l->top * w->out[2];
    return planes + row / w->kernel_size * l->images * l->cut.planes.in_floats +
           l->cut.planes.offsets[row % w->kernel_size];
}

/* Sums the rows of some channels from `first` with one panel. */
static xcvm_status sum_panel(const rows_loop *l, xcvm_poller *poller, size_t panel, size_t first, size_t channels,
                             const float *planes, float *sums)
{
    const xcvm_conv_shape *s = &l->f->shape;
    const runs r = runs_of(l);
    const size_t taps = s->window.kernel_size, rows = channels * taps, stride = s->channels * taps;
    const size_t places = l->images * l->rows * s->window.out[2], output = panel * l->cut.width;
    const size_t outputs = xcvm_min(s->outputs - output, l->cut.width);
    const size_t vectors = xcvm_ceil_div(outputs, XCVM_LANES);
    for (size_t row = 0, some; row < rows; row += some) {
        const float *from[ROWS];
        some = rows - row >= ROWS ? ROWS : rows - row >= 2 ? 2 : 1;
        XCVM_TRY(xcvm_poll_after(poller, places * some * vectors));
        for (size_t i = 0; i < some; i++)
            from[i] = row_at(l, first, row + i, planes);
        sum_tile(&r, from, l->packed + output * places, some, vectors, sums + row * vectors * XCVM_LANES);
    }
    put_sums(sums, rows, vectors, outputs, l->image > 0 || l->top > 0,
             l->f->y + (l->group * s->outputs + output) * stride + first * taps, stride);
    return XCVM_OK;
}

static void run_blocks(void *context, size_t begin, size_t end, int worker)
{
    const rows_loop *l = context;
    float *planes = l->own + (size_t)worker * l->own_floats, *sums = planes + l->planes_floats;
    xcvm_poller poller = xcvm_poller_of(l->k);
    for (size_t unit = begin; unit < end; unit++) {
        const size_t first = unit % l->cut.blocks * l->cut.channels, panel = unit / l->cut.blocks * l->cut.share;
        const size_t channels = xcvm_min(l->f->shape.channels - first, l->cut.channels);
        const size_t last = xcvm_min(panel + l->cut.share, l->cut.panels);
        if (!l->cut.pointwise)
            fill_planes(l, first, channels, planes);
        for (size_t i = panel; i < last; i++)
            if (sum_panel(l, &poller, i, first, channels, planes, sums) != XCVM_OK)
                return;
    }
}

/* Packs panels [begin, end) of g, position by position. */
static void pack_panels(void *context, size_t begin, size_t end, int worker)
{
    const rows_loop *l = context;
    const xcvm_conv_shape *s = &l->f->shape;
    const size_t size = s->window.out_size, run = l->rows * s->window.out[2], first = l->top * s->window.out[2];
    (void)worker;
    for (size_t panel = begin; panel < end; panel++) {
        const size_t output = panel * l->cut.width, last = xcvm_min(output + l->cut.width, s->outputs);
        float *to = l->packed + output * l->images * run;
        for (size_t i = 0; i < l->images; i++, to += run * xcvm_round_up(last - output, XCVM_LANES)) {
            const xcvm_gemm g = {.b = l->f->g + ((l->image + i) * s->group + l->group) * s->outputs * size,
                                 .b_row = 1,
                                 .b_column = size};
            xcvm_gemm_pack(&g, first, first + run, output, last, to);
        }
    }
}

/* ---- The algorithm ---- */

static bool fits(const xcvm_conv_shape *s)
{
    const xcvm_window *w = &s->window;
    return s->outputs >= XCVM_LANES / 2 && w->out[2] <= PLACES && xcvm_window_is_flat(w) && xcvm_planes_fit(w);
}

static size_t packed_floats(const xcvm_conv_shape *s, const cut *c)
{
    return xcvm_round_up(c->images * c->rows * s->window.out[2] * xcvm_round_up(s->outputs, XCVM_LANES), 16);
}

static size_t planes_floats(const cut *c) { return xcvm_round_up(c->channels * c->images * image_floats(c), 16); }

/* Sums are read in whole squares. */
static size_t own_floats(const xcvm_conv_shape *s, const cut *c)
{
    return planes_floats(c) + xcvm_round_up(c->channels * s->window.kernel_size, 16) * c->width;
}

static size_t scratch_bytes(const xcvm_conv_shape *s, int threads)
{
    const cut c = cut_of(s, threads);
    return (packed_floats(s, &c) + own_floats(s, &c) * (size_t)threads) * sizeof(float);
}

static xcvm_status run_rows(const xcvm_kernel *k, const xcvm_filter_gradient *f, void *scratch)
{
    const xcvm_conv_shape *s = &f->shape;
    const int threads = xcvm_threads_count(k->threads);
    rows_loop l = {.k = k, .f = f, .cut = cut_of(s, threads), .packed = scratch};
    l.planes_floats = planes_floats(&l.cut);
    l.own_floats = own_floats(s, &l.cut);
    l.own = l.packed + packed_floats(s, &l.cut);
    const size_t units = l.cut.blocks * xcvm_ceil_div(l.cut.panels, l.cut.share);
    for (l.group = 0; l.group < s->group; l.group++)
        for (l.image = 0; l.image < s->batch; l.image += l.images)
            for (l.top = 0; l.top < s->window.out[1]; l.top += l.rows) {
                l.images = xcvm_min(s->batch - l.image, l.cut.images);
                l.rows = xcvm_min(s->window.out[1] - l.top, l.cut.rows);
                const double places = (double)(l.images * l.rows * s->window.out[2]);
                const double each =
                    places * (double)(l.cut.channels * s->window.kernel_size * l.cut.width * l.cut.share);
                const size_t pack = xcvm_grain(THREAD_WORK, 8.0 * places * (double)l.cut.width);
                XCVM_TRY(xcvm_kernel_parallel(k, l.cut.panels, pack, pack_panels, &l));
                XCVM_TRY(xcvm_kernel_parallel(k, units, xcvm_grain(THREAD_WORK, each), run_blocks, &l));
            }
    return XCVM_OK;
}

const xcvm_filter_gradient_algorithm xcvm_filter_gradient_rows = {fits, scratch_bytes, run_rows};
