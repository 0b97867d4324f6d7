/* Convolution without a column matrix. The values of each window position and channel form a row in planes (planes.h),
 * so a tile of the result reads them in place for several neighboring positions. Filters are packed: a vector has some
 * outputs of one window position. Threads process bands of images, whose planes stay in the cache with the filters. */
#include "ops/conv/simd/conv.h"
#include "ops/conv/simd/planes.h"
#include "ops/elementwise/simd/activation_rows.h"
#include "ops/util/grain.h"
#include "ops/matmul/simd/row_tile.h"
#include "ops/simd/reductions.h"

enum {
    ROWS = XCVM_GEMM_ROWS,
    RUN = 48, /* positions summed before they are stored: whole tiles and whole vectors */
    /* Maximum floats of a band's planes and of the filters, which share a thread's cache, and maximum window positions
     * of all channels. */
    PLANES = 64 * 1024,
    FILTERS = 256 * 1024,
    DEPTH = 2048,
    CHAIN = 1024,            /* window positions that are summed separately */
    THREAD_WORK = 200 * 1000 /* minimum multiply-adds per thread */
};

_Static_assert(RUN % ROWS == 0 && RUN % XCVM_LANES == 0, "runs are whole tiles and whole vectors");

typedef struct rows_loop {
    const xcvm_kernel *k;
    const xcvm_conv *c;
    xcvm_planes planes;
    size_t depth, width, panels, bands;
    size_t *offsets; /* of the rows, relative to a band's planes */
    float *filters;  /* panels of all groups */
    float *own;      /* of each worker: a band */
    size_t own_floats;
} rows_loop;

/* Computes the sizes. Only the size of bands depends on the number of threads. */
static void measure(rows_loop *l, const xcvm_conv_shape *s, int threads)
{
    const xcvm_window *w = &s->window;
    l->depth = s->channels * w->kernel_size;
    l->panels = xcvm_ceil_div(s->outputs, XCVM_GEMM_PANEL);
    l->width = xcvm_round_up(xcvm_ceil_div(s->outputs, l->panels), XCVM_LANES);
    /* Every thread should have several bands. */
    const size_t images = s->batch * s->group, wanted = xcvm_ceil_div(2 * (size_t)threads, images);
    size_t rows = threads > 1 ? xcvm_ceil_div(w->out[1], wanted) : w->out[1];
    xcvm_planes_make(&l->planes, w, rows);
    while (rows > 1 && s->channels * l->planes.in_floats > PLANES) {
        rows = (rows + 1) / 2;
        xcvm_planes_make(&l->planes, w, rows);
    }
    l->bands = xcvm_ceil_div(w->out[1], rows);
    l->own_floats = s->channels * l->planes.in_floats;
}

/* Computes the sums of some positions, whose windows begin at `at`, for the outputs of a panel. `add`: adds to existing
 * sums. */
XCVM_INLINE void sum_places(const float *const *at, const size_t *offsets, size_t depth, const float *filters,
                            const size_t vectors, bool add, float *to)
{
    const float *from[ROWS];
    xcvm_row_tile sum;
#pragma GCC unroll 16
    for (size_t i = 0; i < ROWS; i++)
        from[i] = at[i];
    xcvm_row_tile_clear(sum, ROWS, vectors);
    for (size_t p = 0; p < depth; p++, filters += vectors * XCVM_LANES)
        xcvm_row_tile_add(sum, from, offsets[p], filters, ROWS, vectors);
    xcvm_row_tile_store(sum, ROWS, vectors, add, to);
}

static void sum_tile(const float *const *at, const rows_loop *l, const float *filters, size_t vectors, float *to)
{
    const size_t chains = xcvm_ceil_div(l->depth, CHAIN), chain = xcvm_ceil_div(l->depth, chains);
    for (size_t p = 0; p < l->depth; p += chain) {
        const size_t *offsets = l->offsets + p, depth = xcvm_min(l->depth - p, chain);
        const float *from = filters + p * vectors * XCVM_LANES;
        switch (vectors) {
#define WIDTH(v)                                                                                                       \
    case (v):                                                                                                          \
        sum_places(at, offsets, depth, from, v, p > 0, to);                                                            \
        break;
            XCVM_ROW_TILE_WIDTHS(WIDTH)
#undef WIDTH
        default:
            break;
        }
    }
}

/* Stores the sums of `count` positions, one row each, for outputs from `output`, at position `place` of image `item`.
 */
static void put_sums(const rows_loop *l, const float *sums, size_t count, size_t vectors, size_t item, size_t output,
                     size_t place)
{
    const xcvm_conv *c = l->c;
    const xcvm_conv_shape *s = &c->shape;
    const xcvm_lanes low = xcvm_lanes_all(c->activation != NULL ? c->activation->low : 0.0f);
    const xcvm_lanes high = xcvm_lanes_all(c->activation != NULL ? c->activation->high : 0.0f);
    for (size_t v = 0; v < vectors; v++)
        for (size_t at = 0; at < count; at += XCVM_LANES) {
            const size_t n = count - at;
            xcvm_lanes places[XCVM_LANES];
            xcvm_row_tile_columns(sums, vectors, v, at, places);
            for (size_t i = 0; i < XCVM_LANES && output + v * XCVM_LANES + i < s->outputs; i++) {
                const size_t channel = output + v * XCVM_LANES + i;
                const size_t to = (item * s->outputs + channel) * s->window.out_size + place + at;
                xcvm_lanes sum = places[i];
                if (c->b != NULL)
                    sum += xcvm_lanes_all(c->b[item % s->group * s->outputs + channel]);
                if (c->z != NULL)
                    sum += xcvm_lanes_load_up_to(c->z + to, n);
                if (c->activation != NULL)
                    sum = xcvm_lanes_min(xcvm_lanes_max(sum, low), high);
                xcvm_lanes_store_up_to(c->y + to, n, sum);
            }
        }
    if (c->activation != NULL && c->activation->kind != XCVM_ACTIVATION_none)
        for (size_t i = output; i < s->outputs && i < output + vectors * XCVM_LANES; i++)
            xcvm_activate_row(c->activation, c->y + (item * s->outputs + i) * s->window.out_size + place, count);
}

/* Computes a band: output rows from `top` of image and group `item`. */
static xcvm_status run_band(const rows_loop *l, xcvm_poller *poller, size_t item, size_t top, float *band)
{
    const xcvm_conv_shape *s = &l->c->shape;
    const xcvm_window *w = &s->window;
    const size_t width = w->out[2], rows = xcvm_min(w->out[1] - top, l->planes.rows), places = rows * width;
    const size_t images = s->batch * s->group * s->channels;
    float sums[RUN * XCVM_GEMM_PANEL] __attribute__((aligned(64)));
    for (size_t c = 0; c < s->channels; c++) {
        const size_t plane = item * s->channels + c;
        XCVM_TRY(xcvm_poll_after(poller, l->planes.in_floats));
        xcvm_planes_fill(&l->planes, l->c->x + plane * w->in_size, (images - plane) * w->in_size, top, 0.0f,
                         band + c * l->planes.in_floats);
    }
    for (size_t panel = 0; panel < l->panels; panel++) {
        const size_t output = panel * l->width, outputs = xcvm_min(s->outputs - output, l->width);
        const size_t vectors = xcvm_ceil_div(outputs, XCVM_LANES);
        const float *filters = l->filters + (item % s->group * l->panels * l->width + output) * l->depth;
        for (size_t run = 0; run < places; run += RUN) {
            const size_t count = xcvm_min(places - run, RUN);
            for (size_t i = 0; i < count; i += ROWS) {
                const float *at[ROWS];
                for (size_t j = 0; j < ROWS; j++) {
                    const size_t place = xcvm_min(run + i + j, places - 1);
                    at[j] = band + place / width * l->planes.pitch + place % width;
                }
                XCVM_TRY(xcvm_poll_after(poller, l->depth * ROWS * vectors));
                sum_tile(at, l, filters, vectors, sums + i * vectors * XCVM_LANES);
            }
            put_sums(l, sums, count, vectors, item, output, top * width + run);
        }
    }
    return XCVM_OK;
}

static void run_bands(void *context, size_t begin, size_t end, int worker)
{
    const rows_loop *l = context;
    xcvm_poller poller = xcvm_poller_of(l->k);
    for (size_t i = begin; i < end; i++)
        if (run_band(l, &poller, i / l->bands, i % l->bands * l->planes.rows,
                     l->own + (size_t)worker * l->own_floats) != XCVM_OK)
            return;
}

/* Packs panels [begin, end) of the filters of all groups. */
static void pack_filters(void *context, size_t begin, size_t end, int worker)
{
    const rows_loop *l = context;
    const xcvm_conv_shape *s = &l->c->shape;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t output = i % l->panels * l->width;
        const xcvm_gemm g = {.b = l->c->w + i / l->panels * s->outputs * l->depth, .b_row = 1, .b_column = l->depth};
        xcvm_gemm_pack(&g, 0, l->depth, output, xcvm_min(output + l->width, s->outputs),
                       l->filters + i * l->width * l->depth);
    }
}

/* ---- The algorithm ---- */

static bool fits(const xcvm_conv_shape *s)
{
    const xcvm_window *w = &s->window;
    if (!xcvm_window_is_flat(w) || w->kernel_size < 2 || w->kernel_size > XCVM_PLANES_TAPS || !xcvm_planes_fit(w))
        return false;
    xcvm_planes band;
    xcvm_planes_make(&band, w, 1);
    return s->channels * w->kernel_size <= DEPTH && s->outputs * s->channels * w->kernel_size <= FILTERS &&
           s->channels * band.in_floats <= PLANES;
}

/* Partly empty vectors cost as much as full ones. */
static double cost(const xcvm_conv_shape *s)
{
    const double outputs = (double)s->outputs;
    return xcvm_conv_work(s) * (0.05 + (double)xcvm_round_up(s->outputs, XCVM_LANES) / outputs + 1.0 / outputs);
}

static size_t offsets_bytes(const rows_loop *l) { return xcvm_round_up(l->depth * sizeof *l->offsets, XCVM_ALIGNMENT); }

static size_t filters_floats(const rows_loop *l, const xcvm_conv_shape *s)
{
    return xcvm_round_up(s->group * l->panels * l->width * l->depth, 16);
}

static size_t scratch_bytes(const xcvm_conv_shape *s, int threads)
{
    rows_loop l;
    measure(&l, s, threads);
    return offsets_bytes(&l) + (filters_floats(&l, s) + l.own_floats * (size_t)threads) * sizeof(float);
}

static xcvm_status convolve(const xcvm_kernel *k, const xcvm_conv *c, void *scratch)
{
    const xcvm_conv_shape *s = &c->shape;
    rows_loop l = {.k = k, .c = c, .offsets = scratch};
    measure(&l, s, xcvm_threads_count(k->threads));
    l.filters = (float *)(void *)((char *)scratch + offsets_bytes(&l));
    l.own = l.filters + filters_floats(&l, s);
    const size_t taps = s->window.kernel_size;
    for (size_t p = 0; p < l.depth; p++)
        l.offsets[p] = p / taps * l.planes.in_floats + l.planes.offsets[p % taps];
    const double panel = (double)(l.depth * l.width), band = (double)(l.planes.rows * s->window.out[2]);
    XCVM_TRY(xcvm_kernel_parallel(k, s->group * l.panels, xcvm_grain(THREAD_WORK, 8.0 * panel), pack_filters, &l));
    return xcvm_kernel_parallel(k, s->batch * s->group * l.bands,
                                xcvm_grain(THREAD_WORK, band * panel * (double)l.panels), run_bands, &l);
}

const xcvm_conv_algorithm xcvm_conv_rows = {fits, cost, scratch_bytes, convolve};
