/* Dilated depthwise convolutions, with window positions far apart. A row of results is the sum of image rows, read in
 * place, one per window position inside. With large dilations these are few, and a padded copy of the image would be
 * large. */
#include "ops/elementwise/simd/activation_rows.h"
#include "ops/conv/simd/conv.h"
#include "ops/util/grain.h"

enum {
    RUN = 512, /* results of a row computed together */
    MOST_TAPS = 1024,
    THREAD_WORK = 50 * 1000
};

typedef struct conv_dilated_depthwise_loop {
    const xcvm_kernel *k;
    const xcvm_conv *c;
    size_t first[MOST_TAPS], last[MOST_TAPS]; /* results of a row for which each position of the last axis is inside */
} conv_dilated_depthwise_loop;

/* Window positions [tap, end) on an axis that are inside the image for one output. */
typedef struct span {
    size_t tap, end;
    size_t at; /* input position of the first one */
} span;

static span span_of(const xcvm_window *w, int axis, size_t out)
{
    const ptrdiff_t top = (ptrdiff_t)(out * w->stride[axis]) - w->pad[axis], in = (ptrdiff_t)w->in[axis];
    const ptrdiff_t dilation = (ptrdiff_t)w->dilation[axis], taps = (ptrdiff_t)w->kernel[axis];
    ptrdiff_t tap = top < 0 ? (dilation - 1 - top) / dilation : 0;
    ptrdiff_t end = top < in ? (in - top + dilation - 1) / dilation : 0;
    end = end < taps ? end : taps;
    tap = tap < end ? tap : end;
    return (span){(size_t)tap, (size_t)end, (size_t)(top + tap * dilation)};
}

XCVM_INLINE void add_run(float weight, const float *from, const size_t stride, size_t count, float *sums)
{
    for (size_t i = 0; i < count; i++)
        sums[i] += weight * from[i * stride];
}

/* Adds window positions (d, h), whose image row is `line`, to the sums of columns [begin, end). */
static void add_taps(const conv_dilated_depthwise_loop *r, const float *filter, const float *line, size_t begin,
                     size_t end, float *sums)
{
    const xcvm_window *w = &r->c->shape.window;
    for (size_t k = 0; k < w->kernel[2]; k++) {
        const size_t first = r->first[k] > begin ? r->first[k] : begin, last = r->last[k] < end ? r->last[k] : end;
        if (first >= last)
            continue;
        const float *from = line + ((ptrdiff_t)(first * w->stride[2] + k * w->dilation[2]) - w->pad[2]);
        if (w->stride[2] == 1)
            add_run(filter[k], from, 1, last - first, sums + (first - begin));
        else
            add_run(filter[k], from, w->stride[2], last - first, sums + (first - begin));
    }
}

/* Returns false if the run was stopped. */
static bool run_row(const conv_dilated_depthwise_loop *r, xcvm_poller *poller, const span *depth, const span *height,
                    const float *image, const float *filter, float bias, const float *z, float *y)
{
    const xcvm_window *w = &r->c->shape.window;
    const xcvm_activation *f = r->c->activation;
    float sums[RUN];
    for (size_t begin = 0; begin < w->out[2]; begin += RUN) {
        const size_t end = w->out[2] - begin < RUN ? w->out[2] : begin + RUN, count = end - begin;
        for (size_t i = 0; i < count; i++)
            sums[i] = bias;
        for (size_t d = depth->tap; d < depth->end; d++)
            for (size_t h = height->tap; h < height->end; h++) {
                if (xcvm_poll_after(poller, w->kernel[2] * (1 + count / XCVM_LANES)) != XCVM_OK)
                    return false;
                const size_t slice = depth->at + (d - depth->tap) * w->dilation[0];
                const size_t row = slice * w->in[1] + height->at + (h - height->tap) * w->dilation[1];
                add_taps(r, filter + (d * w->kernel[1] + h) * w->kernel[2], image + row * w->in[2], begin, end, sums);
            }
        if (z != NULL)
            add_run(1.0f, z + begin, 1, count, sums);
        if (f != NULL) {
            for (size_t i = 0; i < count; i++)
                sums[i] = xcvm_clamp_f32(sums[i], f->low, f->high);
            xcvm_activate_row(f, sums, count);
        }
        xcvm_copy_floats(y + begin, sums, count);
    }
    return true;
}

static void run_channels(void *context, size_t begin, size_t end, int worker)
{
    const conv_dilated_depthwise_loop *r = context;
    const xcvm_conv *c = r->c;
    const xcvm_conv_shape *s = &c->shape;
    const xcvm_window *w = &s->window;
    xcvm_poller poller = xcvm_poller_of(r->k);
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t output = i % (s->group * s->outputs);
        const float *image = c->x + i / s->outputs * w->in_size, *filter = c->w + output * w->kernel_size;
        const float bias = c->b != NULL ? c->b[output] : 0.0f;
        for (size_t d = 0; d < w->out[0]; d++) {
            const span depth = span_of(w, 0, d);
            for (size_t h = 0; h < w->out[1]; h++) {
                const span height = span_of(w, 1, h);
                const size_t at = i * w->out_size + (d * w->out[1] + h) * w->out[2];
                if (!run_row(r, &poller, &depth, &height, image, filter, bias, c->z != NULL ? c->z + at : NULL,
                             c->y + at) ||
                    xcvm_poll_after(&poller, w->out[2]) != XCVM_OK)
                    return;
            }
        }
    }
}

static bool fits(const xcvm_conv_shape *s) { return s->channels == 1 && s->window.kernel[2] <= MOST_TAPS; }

/* Fraction of positions on an axis that are inside. */
static double inside(const xcvm_window *w, int axis)
{
    double sum = 0;
    for (size_t k = 0; k < w->kernel[axis]; k++) {
        size_t first, last;
        xcvm_window_inside(w, axis, k, &first, &last);
        sum += (double)(last - first);
    }
    return sum / ((double)w->kernel[axis] * (double)w->out[axis]);
}

static double met(const xcvm_conv_shape *s)
{
    const xcvm_window *w = &s->window;
    return xcvm_conv_work(s) * inside(w, 0) * inside(w, 1) * inside(w, 2);
}

/* Measured times, relative to those with planes (planes.h), whose cost relative to other algorithms is known. */
static double cost(const xcvm_conv_shape *s)
{
    const xcvm_window *w = &s->window;
    const double images = (double)s->batch * (double)s->group * (double)s->outputs;
    const double rows = images * (double)w->out[0] * (double)w->out[1];
    const double runs = rows * (double)w->kernel_size * inside(w, 0) * inside(w, 1);
    const double apart = 8.0 * met(s) + 500.0 * runs + 1200.0 * rows;
    const double pitch = (double)w->out[2] + (double)((w->kernel[2] - 1) * w->dilation[2] / w->stride[2]);
    const double height = (double)(w->out[1] * w->stride[1]) + (double)((w->kernel[1] - 1) * w->dilation[1]);
    const double filled = images * (double)(w->out[0] * w->kernel[0]) * height * pitch * (double)w->stride[2];
    return xcvm_conv_depthwise.cost(s) * apart / (3.0 * rows * pitch * (double)w->kernel_size + 9.0 * filled);
}

static size_t scratch_bytes(const xcvm_conv_shape *s, int threads)
{
    (void)s;
    (void)threads;
    return 0;
}

static xcvm_status convolve(const xcvm_kernel *k, const xcvm_conv *c, void *scratch)
{
    const xcvm_conv_shape *s = &c->shape;
    conv_dilated_depthwise_loop r = {.k = k, .c = c};
    (void)scratch;
    for (size_t i = 0; i < s->window.kernel[2]; i++)
        xcvm_window_inside(&s->window, 2, i, &r.first[i], &r.last[i]);
    const double images = (double)s->batch * (double)s->group * (double)s->outputs;
    const double each = met(s) / images + 8.0 * (double)s->window.out_size;
    const size_t grain = xcvm_grain(THREAD_WORK, each);
    return xcvm_kernel_parallel(k, s->batch * s->group * s->outputs, grain, run_channels, &r);
}

const xcvm_conv_algorithm xcvm_conv_dilated_depthwise = {fits, cost, scratch_bytes, convolve};
