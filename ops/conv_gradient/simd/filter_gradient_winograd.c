/* Gradients of 3 x 3 filters by Winograd's algorithm: the adjoint of F(4 x 4, 3 x 3) of winograd.h with respect to
 * filters. Image tiles are transformed as for the convolution, tiles of g by the adjoint output transform. For each of
 * the 36 points, products of outputs and channels are summed over the tiles. The sums become filters by the adjoint
 * filter transform.
 *
 * All threads transform a band of tiles, and then take blocks of outputs and channels, whose sums of all points stay in
 * the cache, and add the resulting filters to y. */
#include "ops/conv_gradient/simd/filter_gradient.h"
#include "ops/conv/simd/winograd.h"
#include "ops/util/grain.h"
#include "ops/matmul/simd/gemm.h"

enum {
    POINTS = XCVM_WINOGRAD_POINTS,
    SPAN = XCVM_WINOGRAD_SPAN,
    CHUNK = XCVM_WINOGRAD_CHUNK,
    TAPS = 9,
    CHUNK_FLOATS = CHUNK + XCVM_LANES,
    /* Maximum outputs and channels of a block. */
    OUTPUTS = 48,
    CHANNELS = 96,
    /* Floats of the transformed tiles of a band, and its maximum and minimum number of tiles. */
    BAND = 2 * 1024 * 1024,
    MOST_TILES = 256,
    LEAST_TILES = 64,
    GAP = 16,                /* padding between matrices of points, to avoid conflicts in a cache set */
    THREAD_WORK = 400 * 1000 /* minimum multiply-adds per thread */
};

typedef struct cut {
    size_t tiles, band; /* in total, and of a band */
    size_t channels, outputs;
    size_t channel_blocks, output_blocks;
    /* Floats of a block of channels, and between points. */
    size_t image_block, image_stride, gradient_stride, sum_stride;
    size_t own_floats; /* of each worker */
} cut;

typedef struct winograd_loop {
    const xcvm_kernel *k;
    const xcvm_filter_gradient *f;
    cut cut;
    xcvm_winograd winograd;
    size_t first, count; /* tiles of the band */
    float *images, *gradients, *own;
} winograd_loop;

static cut cut_of(const xcvm_conv_shape *s)
{
    const xcvm_window *w = &s->window;
    cut c = {.tiles = s->batch * xcvm_ceil_div(w->out[1], XCVM_WINOGRAD_TILE) *
                      xcvm_ceil_div(w->out[2], XCVM_WINOGRAD_TILE)};
    size_t most = BAND / POINTS / (s->channels + s->outputs);
    most = most > MOST_TILES ? MOST_TILES : most < LEAST_TILES ? LEAST_TILES : most;
    c.band = xcvm_round_up(xcvm_ceil_div(c.tiles, xcvm_ceil_div(c.tiles, most)), XCVM_LANES);
    c.channel_blocks = xcvm_ceil_div(s->channels, CHANNELS);
    c.channels = xcvm_round_up(xcvm_ceil_div(s->channels, c.channel_blocks), XCVM_LANES);
    c.channel_blocks = xcvm_ceil_div(s->channels, c.channels);
    c.output_blocks = xcvm_ceil_div(s->outputs, OUTPUTS);
    c.outputs = xcvm_round_up(xcvm_ceil_div(s->outputs, c.output_blocks), XCVM_GEMM_ROWS);
    c.output_blocks = xcvm_ceil_div(s->outputs, c.outputs);
    c.image_stride = c.band * c.channels + GAP;
    c.image_block = POINTS * c.image_stride;
    c.gradient_stride = s->outputs * c.band + GAP;
    c.sum_stride = c.outputs * c.channels + GAP;
    const size_t transforms = (size_t)POINTS * XCVM_LANES * CHUNK_FLOATS, sums = POINTS * c.sum_stride;
    c.own_floats = xcvm_round_up(sums > transforms ? sums : transforms, 16);
    return c;
}

/* ---- Transforms ---- */

/* Transforms some channels from `channel` to panels. */
static void transform_channels(const winograd_loop *l, xcvm_poller *poller, size_t channel, float *own)
{
    const cut *c = &l->cut;
    const size_t all = l->f->shape.channels, block = channel / c->channels, column = channel % c->channels;
    const size_t panel = column / XCVM_GEMM_PANEL * XCVM_GEMM_PANEL;
    const size_t width = xcvm_gemm_panel_width(panel, c->channels), stride = (size_t)XCVM_LANES * CHUNK_FLOATS;
    float *to = l->images + block * c->image_block + panel * l->count + (column - panel);
    for (size_t at = 0; at < l->count; at += CHUNK) {
        const size_t count = xcvm_min(l->count - at, CHUNK);
        for (size_t i = 0; i < XCVM_LANES; i++) {
            if (xcvm_poll_after(poller, POINTS * count) != XCVM_OK)
                return;
            if (channel + i < all)
                xcvm_winograd_inputs(&l->winograd, channel + i, l->first + at, count, own + i * CHUNK_FLOATS, stride);
        }
        for (size_t p = 0; p < POINTS; p++)
            for (size_t t = 0; t < count; t += XCVM_LANES) {
                xcvm_lanes square[XCVM_LANES];
#pragma GCC unroll 16
                for (size_t i = 0; i < XCVM_LANES; i++)
                    square[i] =
                        channel + i < all ? xcvm_lanes_load(own + p * stride + i * CHUNK_FLOATS + t) : (xcvm_lanes){0};
                xcvm_lanes_transpose(square);
                float *row = to + p * c->image_stride + (at + t) * width;
                for (size_t i = 0; i < XCVM_LANES && t + i < count; i++)
                    xcvm_lanes_store(row + i * width, square[i]);
            }
    }
}

static void transform_output(const winograd_loop *l, xcvm_poller *poller, size_t output, float *own)
{
    const cut *c = &l->cut;
    for (size_t at = 0; at < l->count; at += CHUNK) {
        const size_t count = xcvm_min(l->count - at, CHUNK);
        if (xcvm_poll_after(poller, POINTS * count) != XCVM_OK)
            return;
        xcvm_winograd_gradients(&l->winograd, l->f->g, output, l->first + at, count, own, CHUNK_FLOATS);
        for (size_t p = 0; p < POINTS; p++)
            for (size_t t = 0; t < count; t += XCVM_LANES)
                xcvm_lanes_store(l->gradients + p * c->gradient_stride + output * c->band + at + t,
                                 xcvm_lanes_load(own + p * CHUNK_FLOATS + t));
    }
}

/* Units are vectors of blocks of channels, then equal numbers of outputs. */
static void transform_units(void *context, size_t begin, size_t end, int worker)
{
    const winograd_loop *l = context;
    const xcvm_conv_shape *s = &l->f->shape;
    const size_t channels = xcvm_ceil_div(s->channels, XCVM_LANES);
    float *own = l->own + (size_t)worker * l->cut.own_floats;
    xcvm_poller poller = xcvm_poller_of(l->k);
    for (size_t i = begin; i < end; i++) {
        if (i < channels) {
            transform_channels(l, &poller, i * XCVM_LANES, own);
            continue;
        }
        const size_t first = (i - channels) * XCVM_LANES, last = xcvm_min(first + XCVM_LANES, s->outputs);
        for (size_t output = first; output < last; output++)
            transform_output(l, &poller, output, own);
    }
}

/* ---- Products ---- */

/* The adjoint of the transform of three taps. */
XCVM_INLINE void transform_sums(const xcvm_lanes u[SPAN], xcvm_lanes taps[3])
{
    const xcvm_lanes near = u[1] + u[2], far = u[3] + u[4];
    taps[0] = u[0] - (2.0f / 3.0f) * near + (1.0f / 6.0f) * far;
    taps[1] = (XCVM_ROOT2 / 3.0f) * (u[2] - u[1]) + (XCVM_ROOT2 / 6.0f) * (u[3] - u[4]);
    taps[2] = u[5] + (1.0f / 3.0f) * (far - near);
}

/* Stores the filters of some channels to y, or adds them. */
static void put_filters(const float *sums, size_t stride, size_t channels, bool add, float *y)
{
    xcvm_lanes rows[3][SPAN];
    float taps[TAPS][XCVM_LANES];
#pragma GCC unroll 6
    for (size_t j = 0; j < SPAN; j++) {
        xcvm_lanes u[SPAN], column[3];
#pragma GCC unroll 6
        for (size_t i = 0; i < SPAN; i++)
            u[i] = xcvm_lanes_load(sums + (i * SPAN + j) * stride);
        transform_sums(u, column);
#pragma GCC unroll 3
        for (size_t i = 0; i < 3; i++)
            rows[i][j] = column[i];
    }
#pragma GCC unroll 3
    for (size_t i = 0; i < 3; i++) {
        xcvm_lanes row[3];
        transform_sums(rows[i], row);
#pragma GCC unroll 3
        for (size_t j = 0; j < 3; j++)
            xcvm_lanes_store(taps[i * 3 + j], row[j]);
    }
    for (size_t c = 0; c < channels; c++)
        for (size_t t = 0; t < TAPS; t++)
            y[c * TAPS + t] = (add ? y[c * TAPS + t] : 0.0f) + taps[t][c];
}

static void run_units(void *context, size_t begin, size_t end, int worker)
{
    const winograd_loop *l = context;
    const cut *c = &l->cut;
    const xcvm_conv_shape *s = &l->f->shape;
    float *sums = l->own + (size_t)worker * c->own_floats;
    xcvm_poller poller = xcvm_poller_of(l->k);
    for (size_t unit = begin; unit < end; unit++) {
        const size_t block = unit / c->output_blocks, channel = block * c->channels;
        const size_t output = unit % c->output_blocks * c->outputs;
        const size_t outputs = xcvm_min(s->outputs - output, c->outputs);
        const size_t channels = xcvm_min(s->channels - channel, c->channels);
        for (size_t p = 0; p < POINTS; p++) {
            if (xcvm_poll_after(&poller, outputs * l->count * c->channels / XCVM_LANES) != XCVM_OK)
                return;
            xcvm_gemm_panels(outputs, c->channels, l->count, l->gradients + p * c->gradient_stride + output * c->band,
                             c->band, l->images + block * c->image_block + p * c->image_stride,
                             sums + p * c->sum_stride, c->channels);
        }
        for (size_t i = 0; i < outputs; i++) {
            float *y = l->f->y + ((l->winograd.group * s->outputs + output + i) * s->channels + channel) * TAPS;
            for (size_t j = 0; j < channels; j += XCVM_LANES)
                put_filters(sums + i * c->channels + j, c->sum_stride, xcvm_min(channels - j, XCVM_LANES), l->first > 0,
                            y + j * TAPS);
        }
    }
}

/* ---- The algorithm ---- */

/* Multiply-adds per pair of channels, with measured costs of the transforms. */
static bool fits(const xcvm_conv_shape *s)
{
    const xcvm_window *w = &s->window;
    if (!xcvm_window_is_flat(w) || s->channels < XCVM_LANES || s->outputs < XCVM_LANES)
        return false;
    for (int i = 1; i < XCVM_WINDOW_AXES; i++)
        if (w->kernel[i] != 3 || w->stride[i] != 1 || w->dilation[i] != 1)
            return false;
    const cut c = cut_of(s);
    const double transforms = 1.0 + 16.0 / (double)s->channels + 16.0 / (double)s->outputs;
    const double sums = (double)xcvm_ceil_div(c.tiles, c.band) * 16.0;
    return POINTS * ((double)c.tiles * transforms + sums) <
           0.8 * TAPS * (double)s->batch * (double)w->out[1] * (double)w->out[2];
}

static size_t images_floats(const cut *c) { return xcvm_round_up(c->channel_blocks * c->image_block, 16); }
static size_t gradients_floats(const cut *c) { return xcvm_round_up(POINTS * c->gradient_stride, 16); }

static size_t scratch_bytes(const xcvm_conv_shape *s, int threads)
{
    const cut c = cut_of(s);
    return (images_floats(&c) + gradients_floats(&c) + c.own_floats * (size_t)threads) * sizeof(float);
}

static xcvm_status run_bands(const xcvm_kernel *k, const xcvm_filter_gradient *f, void *scratch)
{
    const xcvm_conv_shape *s = &f->shape;
    const xcvm_conv conv = {.shape = *s, .x = f->x};
    winograd_loop l = {.k = k, .f = f, .cut = cut_of(s), .images = scratch};
    const cut *c = &l.cut;
    l.gradients = l.images + images_floats(c);
    l.own = l.gradients + gradients_floats(c);
    xcvm_winograd_make(&l.winograd, &conv);
    for (l.winograd.group = 0; l.winograd.group < s->group; l.winograd.group++)
        for (l.first = 0; l.first < c->tiles; l.first += l.count) {
            l.count = xcvm_min(c->tiles - l.first, c->band);
            const double tiles = POINTS * (double)l.count, each = tiles * (double)(c->outputs * c->channels);
            XCVM_TRY(
                xcvm_kernel_parallel(k, xcvm_ceil_div(s->channels, XCVM_LANES) + xcvm_ceil_div(s->outputs, XCVM_LANES),
                                     xcvm_grain(THREAD_WORK, tiles * 8.0 * XCVM_LANES), transform_units, &l));
            XCVM_TRY(xcvm_kernel_parallel(k, c->channel_blocks * c->output_blocks, xcvm_grain(THREAD_WORK, each),
                                          run_units, &l));
        }
    return XCVM_OK;
}

const xcvm_filter_gradient_algorithm xcvm_filter_gradient_winograd = {fits, scratch_bytes, run_bands};
