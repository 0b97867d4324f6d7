/* ConvFilterGradient: the product of g, a row for each of its channels, with a matrix that has a column for each
 * channel and position of the window, and a row for each place of the window in each image; it is made up block by
 * block. Groups of few channels are summed up channel by channel, from planes (planes.h). Most shapes are taken by
 * other ways, though (filter_gradient_rows.h). */
#include "ops/conv/conv_f64.h"
#include "ops/conv/simd/conv.h"
#include "ops/conv_gradient/simd/filter_gradient_rows.h"
#include "ops/conv/simd/planes.h"
#include "ops/matmul/simd/gemm.h"
#include "ops/simd/halves.h"

#include <math.h>

enum {
    CHUNK = 128,      /* places that are gathered at a time */
    LINE = 512,       /* the same for sums channel by channel */
    PLACES = 1024,    /* that one product should have */
    SMALL_GROUP = 16, /* up to so many pairs of channels in a group are summed up by themselves */
    PAIR_TAPS = 8,    /* sums that go on at once */
    CHAIN = 1024,
    THREAD_WORK = 50 * 1000
};

typedef struct filter_gradient {
    const xcvm_kernel *k;
    xcvm_conv_shape shape;
    const float *x, *g;
    float *y;
    /* Small groups. */
    xcvm_planes planes;
    float *scratch;
    size_t scratch_floats; /* of one worker */
} filter_gradient;

/* ---- Products ---- */

/* What a product's matrix is made from: images from `image` on, of one group. */
typedef struct places {
    const filter_gradient *f;
    size_t image, group;
} places;

static const float *images_at(const filter_gradient *f, size_t image, size_t group)
{
    const xcvm_conv_shape *s = &f->shape;
    return f->x + (image * s->group + group) * s->channels * s->window.in_size;
}

/* Places [from, from + count) of one column. */
static void gather_column(const places *p, xcvm_conv_tap *tap, size_t from, size_t count, float *line)
{
    const xcvm_conv_shape *s = &p->f->shape;
    const size_t size = s->window.out_size, stride = s->group * s->channels * s->window.in_size;
    const float *plane = tap->plane;
    for (size_t done = 0; done < count;) {
        const size_t place = (from + done) % size;
        const size_t run = size - place < count - done ? size - place : count - done;
        tap->plane = plane + (from + done) / size * stride;
        xcvm_conv_gather(&s->window, tap, place, place + run, line + done);
        done += run;
    }
    tap->plane = plane;
}

/* Writes columns [j, j + LANES) of places [k0, k1), the first of them at `to`, a row of the panel `width` apart. */
static void place_columns(const places *p, size_t j, size_t columns, size_t k0, size_t k1, float *to, size_t width)
{
    float lines[XCVM_LANES][CHUNK] __attribute__((aligned(64)));
    xcvm_conv_tap taps[XCVM_LANES];
    const float *image = images_at(p->f, p->image, p->group);
    for (size_t i = 0; i < columns; i++)
        taps[i] = xcvm_conv_tap_of(&p->f->shape.window, image, j + i);
    memset(lines, 0, sizeof lines);
    for (size_t at = k0; at < k1; at += CHUNK) {
        const size_t count = k1 - at < CHUNK ? k1 - at : CHUNK;
        for (size_t i = 0; i < columns; i++)
            gather_column(p, &taps[i], at, count, lines[i]);
        for (size_t q = 0; q < count; q += XCVM_LANES) {
            const size_t rows = count - q < XCVM_LANES ? count - q : XCVM_LANES;
            xcvm_lanes square[XCVM_LANES];
#pragma GCC unroll 16
            for (size_t i = 0; i < XCVM_LANES; i++)
                square[i] = xcvm_lanes_load(lines[i] + q);
            xcvm_lanes_transpose(square);
            for (size_t i = 0; i < rows; i++)
                xcvm_lanes_store(to + (at - k0 + q + i) * width, square[i]);
        }
    }
}

static void gather(const xcvm_gemm *g, size_t k0, size_t k1, size_t n0, size_t n1, float *panels)
{
    for (size_t j = n0; j < n1; j += XCVM_LANES) {
        const size_t panel = (j - n0) / XCVM_GEMM_PANEL * XCVM_GEMM_PANEL;
        place_columns(g->source, j, n1 - j < XCVM_LANES ? n1 - j : XCVM_LANES, k0, k1,
                      panels + panel * (k1 - k0) + (j - n0 - panel), xcvm_gemm_panel_width(panel, n1 - n0));
    }
}

/* Images that are taken together: small ones would make products of few places. */
static size_t together(const xcvm_conv_shape *s)
{
    const size_t images = (PLACES + s->window.out_size - 1) / s->window.out_size;
    return images < s->batch ? images : s->batch;
}

static xcvm_gemm product_of(const xcvm_conv_shape *s, size_t images)
{
    xcvm_gemm g = {.m = s->outputs, .n = s->channels * s->window.kernel_size, .k = images * s->window.out_size};
    g.alpha = 1.0f;
    g.a_row = g.k;
    g.a_column = 1;
    g.b_row = 1;
    g.b_column = 1;
    g.c_row = g.n;
    g.c_column = 1;
    g.b_rows = gather;
    return g;
}

static size_t rows_bytes(const xcvm_conv_shape *s)
{
    const size_t images = together(s);
    return images > 1 ? xcvm_round_up(s->outputs * images * s->window.out_size * sizeof(float), XCVM_ALIGNMENT) : 0;
}

static size_t products_scratch(const xcvm_conv_shape *s, int threads)
{
    const xcvm_gemm_batch batch = {.shape = product_of(s, together(s)), .count = 1};
    return rows_bytes(s) + xcvm_gemm_scratch(&batch, threads);
}

/* g of some images with the places of each channel one behind the other. */
static void join_rows(const filter_gradient *f, size_t image, size_t images, size_t group, float *rows)
{
    const xcvm_conv_shape *s = &f->shape;
    const size_t size = s->window.out_size;
    for (size_t m = 0; m < s->outputs; m++)
        for (size_t i = 0; i < images; i++)
            memcpy(rows + (m * images + i) * size, f->g + (((image + i) * s->group + group) * s->outputs + m) * size,
                   size * sizeof *rows);
}

static xcvm_status run_products(const filter_gradient *f, void *scratch)
{
    const xcvm_conv_shape *s = &f->shape;
    const size_t most = together(s);
    float *rows = scratch;
    for (size_t group = 0; group < s->group; group++)
        for (size_t image = 0; image < s->batch; image += most) {
            const size_t images = s->batch - image < most ? s->batch - image : most;
            const places p = {f, image, group};
            xcvm_gemm_batch batch = {.shape = product_of(s, images), .count = 1};
            xcvm_gemm *g = &batch.shape;
            g->source = &p;
            g->b = f->x;
            g->a = f->g + (image * s->group + group) * s->outputs * s->window.out_size;
            if (most > 1) {
                join_rows(f, image, images, group, rows);
                g->a = rows;
            }
            g->c = f->y + group * s->outputs * g->n;
            g->start = image > 0 ? g->c : NULL;
            XCVM_TRY(xcvm_kernel_poll(f->k));
            XCVM_TRY(xcvm_gemm_run(f->k, &batch, (char *)scratch + rows_bytes(s)));
        }
    return XCVM_OK;
}

/* ---- Small groups ---- */

static bool is_small(const xcvm_conv_shape *s) { return s->group > 1 && s->outputs * s->channels <= SMALL_GROUP; }

/* The sums of a pair's window positions: those of some elements of g in f32, lane by lane, added to f64 when they are
 * CHAIN or more. */
typedef struct pair_sums {
    double total[XCVM_PLANES_TAPS];
    xcvm_lanes part[XCVM_PLANES_TAPS];
    size_t pending; /* elements of g in the parts */
} pair_sums;

/* Adds to each part the products of g and the plane at its offset. */
XCVM_INLINE void add_products(const float *planes, const size_t *offsets, const float *g, size_t count,
                              const size_t taps, xcvm_lanes *parts)
{
    xcvm_lanes sum[PAIR_TAPS + 1];
#pragma GCC unroll 9
    for (size_t t = 0; t < taps; t++)
        sum[t] = parts[t];
    for (size_t i = 0; i < count; i += XCVM_LANES) {
        const xcvm_lanes v = xcvm_lanes_load(g + i);
#pragma GCC unroll 9
        for (size_t t = 0; t < taps; t++)
            sum[t] += v * xcvm_lanes_load(planes + offsets[t] + i);
    }
#pragma GCC unroll 9
    for (size_t t = 0; t < taps; t++)
        parts[t] = sum[t];
}

static void clear_parts(pair_sums *s, size_t taps)
{
    for (size_t t = 0; t < taps; t++)
        s->part[t] = (xcvm_lanes){0};
    s->pending = 0;
}

static void add_parts(pair_sums *s, size_t taps)
{
    for (size_t t = 0; t < taps; t++)
        s->total[t] += (double)xcvm_lanes_sum(s->part[t]);
    clear_parts(s, taps);
}

/* Rows [top, top + rows) of a plane of g as results of planes lie, zero between them. */
static size_t spread_rows(const xcvm_planes *p, const float *g, size_t rows, float *to)
{
    const size_t width = p->window->out[2], count = xcvm_round_up(rows * p->pitch, XCVM_LANES);
    memset(to, 0, count * sizeof *to);
    for (size_t row = 0; row < rows; row++)
        memcpy(to + row * p->pitch, g + row * width, width * sizeof *to);
    return count;
}

static void add_image(const filter_gradient *f, const float *x, size_t readable, const float *g, float *planes,
                      pair_sums *sums)
{
    const xcvm_planes *p = &f->planes;
    const xcvm_window *w = p->window;
    float *results = planes + p->in_floats;
    for (size_t top = 0; top < w->out[1]; top += p->rows) {
        const size_t rows = w->out[1] - top < p->rows ? w->out[1] - top : p->rows;
        const size_t count = spread_rows(p, g + top * w->out[2], rows, results);
        xcvm_planes_fill(p, x, readable, top, 0.0f, planes);
        size_t t = 0;
        if (p->taps == 9) {
            add_products(planes, p->offsets, results, count, 9, sums->part);
            t = 9;
        }
        for (; t + PAIR_TAPS <= p->taps; t += PAIR_TAPS)
            add_products(planes, p->offsets + t, results, count, PAIR_TAPS, sums->part + t);
        for (; t < p->taps; t++)
            add_products(planes, p->offsets + t, results, count, 1, sums->part + t);
        sums->pending += count;
        if (sums->pending >= CHAIN)
            add_parts(sums, p->taps);
    }
}

/* By the definition. What lies between the rows of planes means nothing, and may be no number. */
static double sum_places(const filter_gradient *f, const float *x, const float *g, size_t tap, xcvm_poller *poller)
{
    const xcvm_conv_shape *s = &f->shape;
    const xcvm_window *w = &s->window;
    float line[LINE];
    double sum = 0.0;
    for (size_t n = 0; n < s->batch; n++) {
        const xcvm_conv_tap t = xcvm_conv_tap_of(w, x + n * s->group * s->channels * w->in_size, tap);
        const float *at = g + n * s->group * s->outputs * w->out_size;
        for (size_t from = 0; from < w->out_size; from += LINE) {
            const size_t count = w->out_size - from < LINE ? w->out_size - from : LINE;
            if (xcvm_poll_after(poller, count) != XCVM_OK)
                return sum;
            xcvm_conv_gather(w, &t, from, from + count, line);
            float part = 0.0f;
            for (size_t i = 0; i < count; i++)
                part += line[i] * at[from + i];
            sum += (double)part;
        }
    }
    return sum;
}

/* The window positions of one pair of channels of a group, in planes if there are any. */
static void sum_pair(const filter_gradient *f, size_t group, size_t output, size_t channel, float *planes,
                     xcvm_poller *poller)
{
    const xcvm_conv_shape *s = &f->shape;
    const xcvm_window *w = &s->window;
    const size_t inputs = s->group * s->channels, outputs = s->group * s->outputs;
    const size_t in = group * s->channels + channel, out = group * s->outputs + output;
    const size_t taps = planes != NULL ? f->planes.taps : 0;
    pair_sums sums;
    bool finite = planes != NULL;
    clear_parts(&sums, taps);
    for (size_t t = 0; t < taps; t++)
        sums.total[t] = 0.0;
    for (size_t n = 0; n < s->batch && planes != NULL; n++) {
        const size_t plane = n * inputs + in;
        if (xcvm_poll_after(poller, w->out_size * f->planes.taps / XCVM_LANES + w->in_size / XCVM_LANES) != XCVM_OK)
            return;
        add_image(f, f->x + plane * w->in_size, (s->batch * inputs - plane) * w->in_size,
                  f->g + (n * outputs + out) * w->out_size, planes, &sums);
    }
    add_parts(&sums, taps);
    for (size_t t = 0; finite && t < w->kernel_size; t++)
        finite = isfinite(sums.total[t]);
    float *y = f->y + (out * s->channels + channel) * w->kernel_size;
    for (size_t t = 0; t < w->kernel_size; t++)
        y[t] = (float)(finite ? sums.total[t]
                              : sum_places(f, f->x + in * w->in_size, f->g + out * w->out_size, t, poller));
}

static void run_pairs(void *context, size_t begin, size_t end, int worker)
{
    const filter_gradient *f = context;
    const xcvm_conv_shape *s = &f->shape;
    const size_t pairs = s->outputs * s->channels;
    float *planes = f->scratch_floats > 0 ? f->scratch + (size_t)worker * f->scratch_floats : NULL;
    xcvm_poller poller = xcvm_poller_of(f->k);
    if (planes != NULL)
        memset(planes, 0, f->scratch_floats * sizeof *planes);
    for (size_t i = begin; i < end; i++)
        sum_pair(f, i / pairs, i % pairs / s->channels, i % s->channels, planes, &poller);
}

static size_t plan_pairs(filter_gradient *f, int threads)
{
    const xcvm_window *w = &f->shape.window;
    if (!xcvm_window_is_flat(w) || !xcvm_planes_fit(w))
        return 0;
    xcvm_planes_make(&f->planes, w, 0);
    f->scratch_floats = f->planes.in_floats + f->planes.out_floats;
    return f->scratch_floats * (size_t)threads * sizeof(float);
}

/* ---- The kernel ---- */

static size_t padded_bytes(const xcvm_value *v)
{
    return v->dtype != XCVM_F32 ? xcvm_round_up(xcvm_element_count(v) * sizeof(float), XCVM_ALIGNMENT) : 0;
}

static const float *as_floats(const xcvm_kernel *k, const xcvm_value *v, char **at)
{
    if (v->dtype == XCVM_F32)
        return v->data;
    float *floats = (float *)(void *)*at;
    (void)xcvm_halves_load_all(k, v, floats);
    *at += padded_bytes(v);
    return floats;
}

XCVM_KERNEL(ConvFilterGradient)
{
    const xcvm_window_attributes attributes = {a->kernel_shape, a->strides, a->pads, a->dilations};
    filter_gradient f = {.k = k,
                         .shape = {.window = xcvm_window_of(a->x, a->g, &attributes),
                                   .batch = (size_t)a->x->dims[0],
                                   .group = (size_t)a->group,
                                   .channels = (size_t)a->y->dims[1],
                                   .outputs = (size_t)(a->y->dims[0] / a->group)}};
    const xcvm_conv_shape *s = &f.shape;
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    if (a->y->dtype == XCVM_F64)
        return xcvm_conv_filter_gradient_f64(k, s, a);
    if (xcvm_element_count(a->g) == 0 || xcvm_element_count(a->x) == 0) {
        memset(a->y->data, 0, a->y->bytes);
        return XCVM_OK;
    }
    const int threads = xcvm_threads_count(k->threads);
    const bool is_small_group = is_small(s), is_winograd = !is_small_group && xcvm_filter_gradient_winograd_fits(s);
    const bool has_rows = !is_small_group && !is_winograd && xcvm_filter_gradient_rows_fit(s);
    const size_t copies = padded_bytes(a->x) + padded_bytes(a->g) + padded_bytes(a->y);
    const size_t own = is_small_group ? plan_pairs(&f, threads)
                       : is_winograd  ? xcvm_filter_gradient_winograd_scratch(s, threads)
                       : has_rows     ? xcvm_filter_gradient_rows_scratch(s, threads)
                                      : products_scratch(s, threads);
    char *at = xcvm_kernel_scratch(k, copies + own);
    if (at == NULL)
        return XCVM_OUT_OF_MEMORY;
    f.scratch = (float *)(void *)(at + copies);
    f.x = as_floats(k, a->x, &at);
    f.g = as_floats(k, a->g, &at);
    f.y = a->y->dtype == XCVM_F32 ? a->y->data : (void *)at;
    const xcvm_filter_gradient whole = {f.shape, f.x, f.g, f.y};
    if (is_winograd) {
        XCVM_TRY(xcvm_filter_gradient_winograd_run(k, &whole, f.scratch));
    } else if (has_rows) {
        XCVM_TRY(xcvm_filter_gradient_rows_run(k, &whole, f.scratch));
    } else if (!is_small_group) {
        XCVM_TRY(run_products(&f, f.scratch));
    } else {
        const double each = (double)s->batch * (double)s->window.out_size * (double)(s->window.kernel_size + 8);
        XCVM_TRY(xcvm_kernel_parallel(k, s->group * s->outputs * s->channels,
                                      each > THREAD_WORK ? 1 : (size_t)(THREAD_WORK / each) + 1, run_pairs, &f));
    }
    return a->y->dtype != XCVM_F32 ? xcvm_halves_store_all(k, f.y, a->y) : XCVM_OK;
}
