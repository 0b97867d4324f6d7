/* Blocked convolutions whose window positions are far apart or reach far into the padding. Only positions inside x are
 * steps of a product (blocked_product.h), read directly from x.
 *
 * Work items are bands of output rows for some blocks of outputs. Each portion of steps is applied to all pixels of the
 * band before the next portion, so that filters are read once per band; intermediate sums are in y. Within a portion,
 * the band is split into rectangles whose pixels use the same window positions. */
#include "ops/elementwise/simd/activation_rows.h"
#include "ops/conv/simd/blocked_bands.h"
#include "ops/conv/simd/blocked_span.h"

#include <math.h>

enum {
    BLOCK = XCVM_CHANNEL_BLOCK,
    /* Steps of a portion: filters of several blocks of inputs, so that the positions inside x are many steps, but fit
     * in the second-level cache together with those prefetched for the next portion. */
    STEPS = 36,
    /* Floats of x and y that the steps of a portion access in a band. They may be in the third-level cache, because
     * each is used often, whereas filters are read again for each band. */
    BAND = 1024 * 1024,
    /* Pixels whose results are activated before the next ones are computed. */
    CHUNK = 48,
    DEPTH = XCVM_BLOCKED_DEPTH
};

typedef struct plan {
    size_t in_blocks, pixel, area, volume; /* blocks of a group; floats of a pixel of x; pixels of a slice, of x */
    size_t taps, length, last_length;
    xcvm_bands bands;
    size_t unit, units, portions; /* steps that stay together; number of units; portions */
    size_t chain;                 /* steps of a portion that are summed separately */
    size_t room_floats;           /* per thread, for the filters of a portion if not f32 */
} plan;

typedef struct blocked_dilated_loop {
    const xcvm_kernel *k;
    const xcvm_blocked_conv *c;
    plan plan;
    float *pixels; /* x in channels-last order, if x is plain */
    float *room;   /* converted filters; NULL: they are f32 */
} blocked_dilated_loop;

/* Floats of x, for the blocks of a portion, and of y that a band of `rows` rows accesses. */
static double band_floats(const xcvm_blocked_conv *c, const plan *p, size_t rows)
{
    const double blocks = (double)xcvm_ceil_div(p->units * p->unit, p->portions * p->taps);
    const double met = fmin((double)c->in[0], (double)rows * (double)c->kernel[0]);
    return fmin((double)c->in[DEPTH], (double)c->kernel[DEPTH]) * met * (double)(c->in[1] * p->pixel) * blocks +
           (double)(xcvm_min(p->bands.per_group, XCVM_PRODUCT_BLOCKS) * rows * c->out[1] * BLOCK);
}

static plan make_plan(const xcvm_blocked_conv *c, size_t threads)
{
    plan p = {.in_blocks = xcvm_ceil_div(c->channels, BLOCK),
              .pixel = c->plain ? c->channels : BLOCK,
              .area = c->in[0] * c->in[1],
              .volume = c->in[DEPTH] * c->in[0] * c->in[1],
              .taps = c->kernel[DEPTH] * c->kernel[0] * c->kernel[1],
              .length = xcvm_min(c->channels, BLOCK),
              .bands = xcvm_bands_of(c, c->out[0])};
    p.last_length = c->channels - (p.in_blocks - 1) * BLOCK;
    p.unit = p.taps <= STEPS ? p.taps : 1;
    p.units = p.in_blocks * (p.taps / p.unit);
    p.portions = xcvm_ceil_div(p.units, STEPS / p.unit);
    p.chain = xcvm_blocked_chain(p.unit * p.units, p.length, XCVM_PRODUCT_CHAIN);
    if (xcvm_dtype_in(c->w_dtype, XCVM_TYPES_NARROW))
        p.room_floats = STEPS * p.length * BLOCK * XCVM_PRODUCT_BLOCKS;
    while (p.bands.bands < c->out[0] && band_floats(c, &p, xcvm_bands_rows(&p.bands)) > BAND)
        p.bands.bands++;
    xcvm_bands_cut(&p.bands, xcvm_bands_rows(&p.bands), threads);
    return p;
}

/* Offset of the filters of a step, or of the end, in a block of outputs. */
static size_t filters_of(const xcvm_blocked_conv *c, const plan *p, size_t step)
{
    const size_t block = step / p->taps, length = block + 1 == p->in_blocks ? p->last_length : p->length;
    const size_t at = (block * p->taps * p->length + step % p->taps * length) * BLOCK;
    return xcvm_min(at, c->channels * p->taps * BLOCK);
}

/* Output slices, rows and columns whose windows have the same positions inside x. */
typedef struct box {
    xcvm_blocked_span slices, rows, columns;
} box;

/* Sets the steps of [from, to) whose window positions are inside x. Offsets are relative to the first step, filters to
 * step `from`. */
static void set_steps(const xcvm_blocked_conv *c, const plan *p, size_t from, size_t to, const box *x,
                      xcvm_blocked_product *g)
{
    const xcvm_blocked_span *rows = &x->rows, *columns = &x->columns;
    const size_t begin = filters_of(c, p, from);
    xcvm_blocked_clear_steps(g);
    for (size_t block = from / p->taps; block * p->taps < to; block++) {
        const size_t start = block * p->taps, length = block + 1 == p->in_blocks ? p->last_length : p->length;
        const size_t first = from > start ? from - start : 0, last = xcvm_min(to - start, p->taps);
        /* Iterates over rows of all slices of the window. */
        for (size_t line = first / c->kernel[1]; line < xcvm_ceil_div(last, c->kernel[1]); line++) {
            const size_t slice = line / c->kernel[0], row = line % c->kernel[0];
            if (slice < x->slices.tap || slice >= x->slices.tap_end || row < rows->tap || row >= rows->tap_end)
                continue;
            for (size_t column = columns->tap; column < columns->tap_end; column++) {
                const size_t tap = line * c->kernel[1] + column;
                if (tap < first || tap >= last)
                    continue;
                const size_t place = (slice - x->slices.tap) * c->dilation[DEPTH] * p->area +
                                     (row - rows->tap) * c->dilation[0] * c->in[1];
                const size_t pixel = block * p->volume + place + (column - columns->tap) * c->dilation[1];
                xcvm_blocked_add_step(g, start + tap, (ptrdiff_t)(pixel * p->pixel),
                                      (start * p->length + tap * length) * BLOCK - begin, length);
            }
        }
    }
}

/* Computes one portion for a rectangle of the result that begins at y[at]. x belongs to the group. Returns false if the
 * run was stopped. */
static bool multiply_rectangle(xcvm_poller *poller, const xcvm_blocked_conv *c, const plan *p, xcvm_blocked_product *g,
                               const float *x, const box *of, size_t at)
{
    const xcvm_blocked_span *slices = &of->slices, *rows = &of->rows, *columns = &of->columns;
    const size_t width = columns->last - columns->first, chunks = xcvm_ceil_div(width, CHUNK);
    /* Without steps nothing is read, and x does not advance. */
    const size_t spacing = g->step_count > 0 ? p->pixel : 0, next_row = c->stride[0] * c->in[1] * spacing;
    g->spacing = c->stride[1] * spacing;
    x += xcvm_blocked_span_place(c, rows, columns, spacing);
    if (spacing > 0)
        x += (slices->first * c->stride[DEPTH] + slices->tap * c->dilation[DEPTH] - c->pad[DEPTH]) * p->area * spacing;
    for (size_t row = rows->first; row < rows->last; row++, at += c->out[1] * BLOCK)
        for (size_t chunk = 0; chunk < chunks; chunk++) {
            const size_t pixel = chunk * width / chunks, count = (chunk + 1) * width / chunks - pixel;
            const size_t to = at + pixel * BLOCK;
            if (xcvm_poll_after(poller, count * (1 + g->step_count)) != XCVM_OK)
                return false;
            xcvm_blocked_multiply(g, x + (row - rows->first) * next_row + pixel * g->spacing,
                                  c->z != NULL ? c->z + to : NULL, c->y + to, count);
            if (g->clamp && c->activation.kind != XCVM_ACTIVATION_none)
                for (size_t b = 0; b < g->blocks; b++)
                    xcvm_activate_row(&c->activation, c->y + to + b * g->y_block, count * BLOCK);
        }
    return true;
}

/* First step of a portion. */
static size_t portion_start(const plan *p, size_t i) { return i * p->units / p->portions * p->unit; }

/* Prefetches the portion after i, or the first of the next group of blocks, while `pixels` pixels are multiplied. */
static void fetch_next(const xcvm_blocked_conv *c, const plan *p, const xcvm_blocked_filters *w, size_t i,
                       size_t output, size_t pixels, xcvm_blocked_product *g)
{
    const bool last = i + 1 == p->portions;
    const size_t portion = last ? 0 : i + 1, block = last ? output + g->blocks : output;
    const size_t from = filters_of(c, p, portion_start(p, portion));
    const size_t to = filters_of(c, p, portion_start(p, portion + 1));
    g->spacing = p->pixel * c->stride[1];
    xcvm_blocked_fetch(g, w, block * w->block + from, block + g->blocks <= c->outputs ? to - from : 0, pixels);
}

/* x belongs to the group of channels. */
static bool multiply_band(xcvm_poller *poller, const xcvm_blocked_conv *c, const plan *p, const float *x,
                          const xcvm_band *b, float *room)
{
    const size_t plane = c->out[0] * c->out[1] * BLOCK, y_block = c->out[DEPTH] * plane;
    const xcvm_blocked_filters w = {c->w, c->w_dtype, c->channels * p->taps * BLOCK};
    xcvm_blocked_product g = {.blocks = b->blocks,
                              .chain = p->chain,
                              .y_spacing = BLOCK,
                              .y_block = y_block,
                              .b = c->b != NULL ? c->b + b->output * BLOCK : NULL,
                              .low = c->activation.low,
                              .high = c->activation.high};
    const size_t y = (b->image * c->outputs + b->output) * y_block + b->slice * plane;
    box of = {.slices = xcvm_blocked_span_from(c, DEPTH, b->slice, b->slice + 1)};
    for (size_t i = 0; i < p->portions; i++) {
        const size_t from = portion_start(p, i), to = portion_start(p, i + 1);
        g.resume = i > 0;
        g.clamp = i + 1 == p->portions;
        const size_t begin = filters_of(c, p, from), end = filters_of(c, p, to);
        xcvm_blocked_take(&g, &w, b->output * w.block + begin, end - begin, room);
        fetch_next(c, p, &w, i, b->output, (b->last - b->first) * c->out[1], &g);
        for (of.rows.last = b->first; of.rows.last < b->last;) {
            of.rows = xcvm_blocked_span_from(c, 0, of.rows.last, b->last);
            for (of.columns.last = 0; of.columns.last < c->out[1];) {
                of.columns = xcvm_blocked_span_from(c, 1, of.columns.last, c->out[1]);
                set_steps(c, p, from, to, &of, &g);
                if ((g.step_count > 0 || !g.resume || g.clamp) &&
                    !multiply_rectangle(poller, c, p, &g, x, &of,
                                        y + (of.rows.first * c->out[1] + of.columns.first) * BLOCK))
                    return false;
            }
        }
    }
    return true;
}

static void run_items(void *context, size_t begin, size_t end, int worker)
{
    const blocked_dilated_loop *r = context;
    const xcvm_blocked_conv *c = r->c;
    const plan *p = &r->plan;
    xcvm_poller poller = xcvm_poller_of(r->k);
    float *room = r->room != NULL ? r->room + (size_t)worker * p->room_floats : NULL;
    for (size_t item = begin; item < end && xcvm_kernel_poll(r->k) == XCVM_OK; item++) {
        const xcvm_band b = xcvm_bands_at(&p->bands, item);
        const float *x = c->plain ? r->pixels : c->x;
        x += (b.image * c->group + b.group) * p->in_blocks * p->volume * p->pixel;
        if (!multiply_band(&poller, c, p, x, &b, room))
            return;
    }
}

/* Converts rows [begin, end) of all slices and images. */
static void place_rows(void *context, size_t begin, size_t end, int worker)
{
    blocked_dilated_loop *r = context;
    const xcvm_blocked_conv *c = r->c;
    const size_t channels = c->channels, width = c->in[1], volume = r->plan.volume, rows = c->in[DEPTH] * c->in[0];
    (void)worker;
    for (size_t row = begin; row < end; row++) {
        const float *from = c->x + row / rows * channels * volume + row % rows * width;
        for (size_t channel = 0; channel < channels; channel++)
            for (size_t i = 0; i < width; i++)
                r->pixels[(row * width + i) * channels + channel] = from[channel * volume + i];
    }
}

xcvm_status xcvm_blocked_dilated(xcvm_kernel *k, const xcvm_blocked_conv *c)
{
    const size_t threads = (size_t)xcvm_threads_count(k->threads);
    blocked_dilated_loop r = {.k = k, .c = c, .plan = make_plan(c, threads)};
    const plan *p = &r.plan;
    if (c->plain || p->room_floats > 0) {
        const size_t room = threads * p->room_floats, pixels = c->plain ? c->batch * c->channels * p->volume : 0;
        float *scratch = xcvm_kernel_scratch(k, (room + pixels) * sizeof(float));
        if (scratch == NULL)
            return XCVM_OUT_OF_MEMORY;
        r.room = room > 0 ? scratch : NULL;
        r.pixels = scratch + room;
    }
    if (c->plain && p->volume > 0)
        XCVM_TRY(xcvm_kernel_parallel(k, c->batch * c->in[DEPTH] * c->in[0],
                                      XCVM_BANDS_THREAD_WORK / (c->in[1] * c->channels) + 1, place_rows, &r));
    const double work = (double)c->outputs * BLOCK * (double)c->out[DEPTH] * (double)c->out[0] * (double)c->out[1] *
                        (double)c->channels * (double)p->taps;
    xcvm_parallel(k->threads, xcvm_bands_count(&p->bands), xcvm_bands_grain(&p->bands, work), run_items, &r);
    return xcvm_kernel_poll(k);
}
