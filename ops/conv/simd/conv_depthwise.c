/* Depthwise convolutions: each channel separately. */
#include "ops/elementwise/simd/activation_rows.h"
#include "ops/conv/simd/conv.h"
#include "ops/conv/simd/planes.h"
#include "ops/util/grain.h"

enum { THREAD_WORK = 50 * 1000 };

typedef struct conv_depthwise_loop {
    const xcvm_kernel *k;
    const xcvm_conv *c;
    xcvm_planes planes;
    float *scratch;
    size_t scratch_floats; /* of one worker */
} conv_depthwise_loop;

/* One filter position on the first axis: its taps are added to the sums, or to the bias for the first one. */
typedef struct slice {
    const float *filter;
    float bias;
    bool first;
    const xcvm_activation *clamp; /* of the last slice; NULL: none */
} slice;

/* sums[i] (or bias) + sum of filter[t] * planes[offsets[t] + i]. */
XCVM_INLINE void add_taps(const float *planes, const size_t *offsets, const slice *s, const size_t taps, size_t count,
                          float *sums)
{
    const xcvm_activation *clamp = s->clamp;
    const float *filter = s->filter;
    const xcvm_lanes low = xcvm_lanes_all(clamp != NULL ? clamp->low : 0.0f);
    const xcvm_lanes high = xcvm_lanes_all(clamp != NULL ? clamp->high : 0.0f);
    for (size_t i = 0; i < count; i += XCVM_PLANES_RUN) {
        xcvm_lanes sum[XCVM_PLANES_VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < XCVM_PLANES_VECTORS; j++)
            sum[j] = s->first ? xcvm_lanes_all(s->bias) : xcvm_lanes_load(sums + i + j * XCVM_LANES);
#pragma GCC unroll 32
        for (size_t t = 0; t < taps; t++) {
            const xcvm_lanes weight = xcvm_lanes_all(filter[t]);
            const float *at = planes + offsets[t] + i;
#pragma GCC unroll 4
            for (int j = 0; j < XCVM_PLANES_VECTORS; j++)
                sum[j] = xcvm_lanes_add_product(sum[j], weight, xcvm_lanes_load(at + j * XCVM_LANES));
        }
        if (clamp != NULL)
#pragma GCC unroll 4
            for (int j = 0; j < XCVM_PLANES_VECTORS; j++)
                sum[j] = xcvm_lanes_min(xcvm_lanes_max(sum[j], low), high);
#pragma GCC unroll 4
        for (int j = 0; j < XCVM_PLANES_VECTORS; j++)
            xcvm_lanes_store(sums + i + j * XCVM_LANES, sum[j]);
    }
}

static void sum_band(const conv_depthwise_loop *r, const float *planes, const slice *s, size_t count, float *sums)
{
    const xcvm_planes *p = &r->planes;
    if (p->taps == 9)
        add_taps(planes, p->offsets, s, 9, count, sums);
    else if (p->taps == 25)
        add_taps(planes, p->offsets, s, 25, count, sums);
    else
        add_taps(planes, p->offsets, s, p->taps, count, sums);
}

static void store_band(const conv_depthwise_loop *r, size_t count, size_t rows, const float *z, float *sums, float *y)
{
    const xcvm_activation *f = r->c->activation;
    const size_t width = r->planes.window->out[2], pitch = r->planes.pitch;
    if (z != NULL) {
        for (size_t row = 0; row < rows; row++)
            for (size_t i = 0; i < width; i++)
                sums[row * pitch + i] += z[row * width + i];
        if (f != NULL)
            for (size_t i = 0; i < count; i++)
                sums[i] = xcvm_clamp_f32(sums[i], f->low, f->high);
    }
    if (f != NULL)
        xcvm_activate_row(f, sums, count);
    for (size_t row = 0; row < rows; row++)
        xcvm_copy_floats(y + row * width, sums + row * pitch, width);
}

/* Sums a band of one output position on the first axis, over the filter positions that are inside the image. */
static void sum_slices(const conv_depthwise_loop *r, xcvm_poller *poller, const float *image, size_t readable,
                       const float *filter, float bias, size_t depth, size_t top, size_t count, float *planes,
                       float *sums)
{
    const xcvm_conv *c = r->c;
    const xcvm_window *w = &c->shape.window;
    const size_t slice_size = w->in[1] * w->in[2];
    ptrdiff_t place = (ptrdiff_t)(depth * w->stride[0]) - w->pad[0];
    size_t first = 0, end = w->kernel[0];
    while (first < end && place + (ptrdiff_t)(first * w->dilation[0]) < 0)
        first++;
    while (end > first && place + (ptrdiff_t)((end - 1) * w->dilation[0]) >= (ptrdiff_t)w->in[0])
        end--;
    const xcvm_activation *clamp = c->z == NULL ? c->activation : NULL;
    if (first == end) {
        for (size_t i = 0; i < count; i++)
            sums[i] = clamp != NULL ? xcvm_clamp_f32(bias, clamp->low, clamp->high) : bias;
        return;
    }
    for (size_t k = first; k < end; k++) {
        if (xcvm_poll_after(poller, w->kernel[0] + count * r->planes.taps / XCVM_LANES) != XCVM_OK)
            return;
        const size_t from = (size_t)(place + (ptrdiff_t)(k * w->dilation[0])) * slice_size;
        const slice s = {filter + k * r->planes.taps, bias, k == first, k + 1 == end ? clamp : NULL};
        xcvm_planes_fill(&r->planes, image + from, readable - from, top, 0.0f, planes);
        sum_band(r, planes, &s, count, sums);
    }
}

static void run_channels(void *context, size_t begin, size_t end, int worker)
{
    const conv_depthwise_loop *r = context;
    const xcvm_conv *c = r->c;
    const xcvm_conv_shape *s = &c->shape;
    const xcvm_window *w = &s->window;
    const xcvm_planes *p = &r->planes;
    float *planes = r->scratch + (size_t)worker * r->scratch_floats, *sums = planes + p->in_floats;
    const size_t bands = (w->out[1] + p->rows - 1) / p->rows;
    xcvm_poller poller = xcvm_poller_of(r->k);
    for (size_t i = begin; i < end; i++) {
        const size_t output = i % (s->group * s->outputs);
        const size_t image = i / s->outputs, readable = (s->batch * s->group - image) * w->in_size;
        const float *filter = c->w + output * w->kernel[0] * p->taps;
        for (size_t band = 0; band < w->out[0] * bands; band++) {
            const size_t depth = band / bands, top = band % bands * p->rows;
            const size_t rows = w->out[1] - top < p->rows ? w->out[1] - top : p->rows;
            const size_t count = (rows - 1) * p->pitch + w->out[2];
            const size_t at = i * w->out_size + (depth * w->out[1] + top) * w->out[2];
            if (xcvm_poll_after(&poller, count) != XCVM_OK)
                return;
            sum_slices(r, &poller, c->x + image * w->in_size, readable, filter, c->b != NULL ? c->b[output] : 0.0f,
                       depth, top, count, planes, sums);
            store_band(r, count, rows, c->z != NULL ? c->z + at : NULL, sums, c->y + at);
        }
    }
}

static bool fits(const xcvm_conv_shape *s) { return s->channels == 1 && xcvm_planes_fit(&s->window); }

static double cost(const xcvm_conv_shape *s) { return 3.0 * xcvm_conv_work(s); }

static size_t floats_per_worker(const xcvm_planes *p) { return p->in_floats + p->out_floats; }

static size_t scratch_bytes(const xcvm_conv_shape *s, int threads)
{
    xcvm_planes p;
    xcvm_planes_make(&p, &s->window, 0);
    return floats_per_worker(&p) * (size_t)threads * sizeof(float);
}

static xcvm_status convolve(const xcvm_kernel *k, const xcvm_conv *c, void *scratch)
{
    const xcvm_conv_shape *s = &c->shape;
    conv_depthwise_loop r = {.k = k, .c = c, .scratch = scratch};
    xcvm_planes_make(&r.planes, &s->window, 0);
    r.scratch_floats = floats_per_worker(&r.planes);
    const double each = (double)s->window.out_size * (double)(r.planes.taps + 8);
    const size_t grain = xcvm_grain(THREAD_WORK, each);
    return xcvm_kernel_parallel(k, s->batch * s->group * s->outputs, grain, run_channels, &r);
}

const xcvm_conv_algorithm xcvm_conv_depthwise = {fits, cost, scratch_bytes, convolve};
