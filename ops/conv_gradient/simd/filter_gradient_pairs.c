/* Filter gradients for groups of few channels: sums per pair of channels over positions in planes (planes.h). */
#include "ops/conv/simd/planes.h"
#include "ops/conv_gradient/simd/filter_gradient.h"
#include "ops/util/grain.h"

#include <math.h>

enum {
    LINE = 512,       /* positions summed together by the definition */
    SMALL_GROUP = 16, /* maximum pairs of channels in a group for this algorithm */
    PAIR_TAPS = 8,    /* sums accumulated together */
    CHAIN = 1024,
    THREAD_WORK = 50 * 1000
};

typedef struct pairs_loop {
    const xcvm_kernel *k;
    const xcvm_filter_gradient *f;
    xcvm_planes planes;
    float *own;        /* of each worker: planes, then results */
    size_t own_floats; /* 0: the windows do not fit planes */
} pairs_loop;

/* Sums of a pair's window positions: partial sums of elements of g in f32 per lane, added to f64 after at least CHAIN
 * elements. */
typedef struct pair_sums {
    double total[XCVM_PLANES_TAPS];
    xcvm_lanes part[XCVM_PLANES_TAPS];
    size_t pending; /* elements of g in the partial sums */
} pair_sums;

/* Adds to each partial sum the products of g and the plane at its offset. */
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

/* Copies rows [top, top + rows) of a plane of g to the layout of plane results, with zeros between them. */
static size_t spread_rows(const xcvm_planes *p, const float *g, size_t rows, float *to)
{
    const size_t width = p->window->out[2], count = xcvm_round_up(rows * p->pitch, XCVM_LANES);
    memset(to, 0, count * sizeof *to);
    for (size_t row = 0; row < rows; row++)
        memcpy(to + row * p->pitch, g + row * width, width * sizeof *to);
    return count;
}

static void add_image(const xcvm_planes *p, const float *x, size_t readable, const float *g, float *planes,
                      pair_sums *sums)
{
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

/* Computes the sum by the definition, because the unused elements between rows of planes may be NaN. */
static double sum_places(const xcvm_conv_shape *s, const float *x, const float *g, size_t tap, xcvm_poller *poller)
{
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

/* Computes the window positions of one pair of channels of a group, with planes if possible. */
static void sum_pair(const pairs_loop *l, size_t group, size_t output, size_t channel, float *planes,
                     xcvm_poller *poller)
{
    const xcvm_filter_gradient *f = l->f;
    const xcvm_conv_shape *s = &f->shape;
    const xcvm_window *w = &s->window;
    const size_t inputs = s->group * s->channels, outputs = s->group * s->outputs;
    const size_t in = group * s->channels + channel, out = group * s->outputs + output;
    const size_t taps = planes != NULL ? l->planes.taps : 0;
    pair_sums sums;
    bool finite = planes != NULL;
    clear_parts(&sums, taps);
    for (size_t t = 0; t < taps; t++)
        sums.total[t] = 0.0;
    for (size_t n = 0; n < s->batch && planes != NULL; n++) {
        const size_t plane = n * inputs + in;
        if (xcvm_poll_after(poller, w->out_size * taps / XCVM_LANES + w->in_size / XCVM_LANES) != XCVM_OK)
            return;
        add_image(&l->planes, f->x + plane * w->in_size, (s->batch * inputs - plane) * w->in_size,
                  f->g + (n * outputs + out) * w->out_size, planes, &sums);
    }
    add_parts(&sums, taps);
    for (size_t t = 0; finite && t < w->kernel_size; t++)
        finite = isfinite(sums.total[t]);
    float *y = f->y + (out * s->channels + channel) * w->kernel_size;
    for (size_t t = 0; t < w->kernel_size; t++)
        y[t] = (float)(finite ? sums.total[t]
                              : sum_places(s, f->x + in * w->in_size, f->g + out * w->out_size, t, poller));
}

static void run_pairs(void *context, size_t begin, size_t end, int worker)
{
    const pairs_loop *l = context;
    const xcvm_conv_shape *s = &l->f->shape;
    const size_t pairs = s->outputs * s->channels;
    float *planes = l->own_floats > 0 ? l->own + (size_t)worker * l->own_floats : NULL;
    xcvm_poller poller = xcvm_poller_of(l->k);
    if (planes != NULL)
        memset(planes, 0, l->own_floats * sizeof *planes);
    for (size_t i = begin; i < end; i++)
        sum_pair(l, i / pairs, i % pairs / s->channels, i % s->channels, planes, &poller);
}

/* ---- The algorithm ---- */

static bool fits(const xcvm_conv_shape *s) { return s->group > 1 && s->outputs * s->channels <= SMALL_GROUP; }

static void plan(pairs_loop *l, const xcvm_window *w)
{
    if (!xcvm_window_is_flat(w) || !xcvm_planes_fit(w))
        return;
    xcvm_planes_make(&l->planes, w, 0);
    l->own_floats = l->planes.in_floats + l->planes.out_floats;
}

static size_t scratch_bytes(const xcvm_conv_shape *s, int threads)
{
    pairs_loop l = {.own_floats = 0};
    plan(&l, &s->window);
    return l.own_floats * (size_t)threads * sizeof(float);
}

static xcvm_status sum_pairs(const xcvm_kernel *k, const xcvm_filter_gradient *f, void *scratch)
{
    const xcvm_conv_shape *s = &f->shape;
    pairs_loop l = {.k = k, .f = f, .own = scratch};
    plan(&l, &s->window);
    const double each = (double)s->batch * (double)s->window.out_size * (double)(s->window.kernel_size + 8);
    return xcvm_kernel_parallel(k, s->group * s->outputs * s->channels, xcvm_grain(THREAD_WORK, each), run_pairs, &l);
}

const xcvm_filter_gradient_algorithm xcvm_filter_gradient_pairs = {fits, scratch_bytes, sum_pairs};
