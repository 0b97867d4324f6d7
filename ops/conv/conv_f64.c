/* Convolutions of f64: each output is the sum over its window. */
#include "ops/conv/conv_f64.h"
#include "ops/util/grain.h"

typedef struct conv_f64_loop {
    const xcvm_kernel *k;
    const xcvm_conv_shape *s;
    const xcvm_Conv_args *a;
    const xcvm_activation *f;
} conv_f64_loop;

/* Adds an input plane, shifted by one window position, to an output plane; with `adjoint`, adds the output plane to the
 * input plane. Returns false if the run was stopped. */
static bool add_tap(const xcvm_window *w, size_t tap, double weight, double *x, double *y, bool adjoint,
                    xcvm_poller *poller)
{
    const size_t k[] = {tap / w->kernel[2] / w->kernel[1], tap / w->kernel[2] % w->kernel[1], tap % w->kernel[2]};
    size_t first[XCVM_WINDOW_AXES], last[XCVM_WINDOW_AXES];
    for (int i = 0; i < XCVM_WINDOW_AXES; i++)
        xcvm_window_inside(w, i, k[i], &first[i], &last[i]);
    const size_t stride = w->stride[2];
    for (size_t d = first[0]; d < last[0]; d++)
        for (size_t h = first[1]; h < last[1] && first[2] < last[2]; h++) {
            const size_t id = d * w->stride[0] + k[0] * w->dilation[0] - (size_t)w->pad[0];
            const size_t ih = h * w->stride[1] + k[1] * w->dilation[1] - (size_t)w->pad[1];
            const size_t iw = first[2] * stride + k[2] * w->dilation[2] - (size_t)w->pad[2];
            double *in = x + (id * w->in[1] + ih) * w->in[2] + iw;
            double *out = y + (d * w->out[1] + h) * w->out[2] + first[2];
            if (xcvm_poll_after(poller, 1 + last[2] - first[2]) != XCVM_OK)
                return false;
            for (size_t i = 0; i < last[2] - first[2]; i++)
                if (adjoint)
                    in[i * stride] += weight * out[i];
                else
                    out[i] += weight * in[i * stride];
        }
    return xcvm_poll_after(poller, 1) == XCVM_OK;
}

static void run_outputs(void *context, size_t begin, size_t end, int worker)
{
    const conv_f64_loop *r = context;
    const xcvm_conv_shape *s = r->s;
    const xcvm_window *w = &s->window;
    xcvm_poller poller = xcvm_poller_of(r->k);
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t outputs = s->group * s->outputs, m = i % outputs, image = i / outputs, group = m / s->outputs;
        double *x = XCVM_DATA(double, r->a->x) + (image * s->group + group) * s->channels * w->in_size;
        const double *filter = XCVM_CDATA(double, r->a->w) + m * s->channels * w->kernel_size;
        double *y = XCVM_DATA(double, r->a->y) + i * w->out_size;
        const double bias = r->a->b != NULL ? XCVM_CDATA(double, r->a->b)[m] : 0.0;
        const double *z = r->a->z != NULL ? XCVM_CDATA(double, r->a->z) + i * w->out_size : NULL;
        for (size_t j = 0; j < w->out_size; j++)
            y[j] = bias + (z != NULL ? z[j] : 0.0);
        for (size_t c = 0; c < s->channels; c++)
            for (size_t p = 0; p < w->kernel_size; p++)
                if (!add_tap(w, p, filter[c * w->kernel_size + p], x + c * w->in_size, y, false, &poller))
                    return;
        for (size_t j = 0; j < w->out_size; j++)
            y[j] = xcvm_activate_f64(r->f, y[j]);
    }
}

/* Minimum planes per thread, with `each` multiply-adds per plane. */
static size_t grain_of(double each) { return xcvm_grain(100e3, each); }

xcvm_status xcvm_conv_f64(const xcvm_kernel *k, const xcvm_conv_shape *s, const xcvm_Conv_args *a,
                          const xcvm_activation *f)
{
    conv_f64_loop r = {.k = k, .s = s, .a = a, .f = f};
    const double each = (double)s->window.out_size * (double)s->channels * (double)s->window.kernel_size;
    return xcvm_kernel_parallel(k, s->batch * s->group * s->outputs, grain_of(each), run_outputs, &r);
}

/* ---- The adjoint ---- */

typedef struct adjoint_work {
    const xcvm_kernel *k;
    const xcvm_conv_shape *s;
    const xcvm_ConvTranspose_args *a;
} adjoint_work;

static void run_channels(void *context, size_t begin, size_t end, int worker)
{
    const adjoint_work *r = context;
    const xcvm_conv_shape *s = r->s;
    const xcvm_window *w = &s->window;
    xcvm_poller poller = xcvm_poller_of(r->k);
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t channel = i % s->channels, item = i / s->channels, group = item % s->group;
        double *y = XCVM_DATA(double, r->a->y) + i * w->in_size;
        const double bias = r->a->b != NULL ? XCVM_CDATA(double, r->a->b)[group * s->channels + channel] : 0.0;
        for (size_t j = 0; j < w->in_size; j++)
            y[j] = bias;
        for (size_t m = 0; m < s->outputs; m++) {
            const size_t filter = ((group * s->outputs + m) * s->channels + channel) * w->kernel_size;
            for (size_t p = 0; p < w->kernel_size; p++)
                if (!add_tap(w, p, XCVM_CDATA(double, r->a->w)[filter + p], y,
                             XCVM_DATA(double, r->a->x) + (item * s->outputs + m) * w->out_size, true, &poller))
                    return;
        }
    }
}

xcvm_status xcvm_conv_transpose_f64(const xcvm_kernel *k, const xcvm_conv_shape *s, const xcvm_ConvTranspose_args *a)
{
    adjoint_work r = {.k = k, .s = s, .a = a};
    const double each = (double)s->window.out_size * (double)s->outputs * (double)s->window.kernel_size;
    return xcvm_kernel_parallel(k, s->batch * s->group * s->channels, grain_of(each), run_channels, &r);
}

/* ---- The gradient of the filters ---- */

typedef struct filter_work {
    const xcvm_kernel *k;
    const xcvm_conv_shape *s;
    const xcvm_ConvFilterGradient_args *a;
} filter_work;

/* Sum of the products of a plane of g and a plane of x, shifted by one window position. */
static double sum_tap(const xcvm_window *w, size_t tap, const double *x, const double *g, xcvm_poller *poller)
{
    const size_t k[] = {tap / w->kernel[2] / w->kernel[1], tap / w->kernel[2] % w->kernel[1], tap % w->kernel[2]};
    size_t first[XCVM_WINDOW_AXES], last[XCVM_WINDOW_AXES];
    for (int i = 0; i < XCVM_WINDOW_AXES; i++)
        xcvm_window_inside(w, i, k[i], &first[i], &last[i]);
    double sum = 0.0;
    for (size_t d = first[0]; d < last[0]; d++)
        for (size_t h = first[1]; h < last[1] && first[2] < last[2]; h++) {
            const size_t id = d * w->stride[0] + k[0] * w->dilation[0] - (size_t)w->pad[0];
            const size_t ih = h * w->stride[1] + k[1] * w->dilation[1] - (size_t)w->pad[1];
            const size_t iw = first[2] * w->stride[2] + k[2] * w->dilation[2] - (size_t)w->pad[2];
            const double *in = x + (id * w->in[1] + ih) * w->in[2] + iw;
            const double *out = g + (d * w->out[1] + h) * w->out[2] + first[2];
            if (xcvm_poll_after(poller, 1 + last[2] - first[2]) != XCVM_OK)
                return sum;
            for (size_t i = 0; i < last[2] - first[2]; i++)
                sum += out[i] * in[i * w->stride[2]];
        }
    return sum;
}

/* The range is over channels of filters. */
static void run_filters(void *context, size_t begin, size_t end, int worker)
{
    const filter_work *r = context;
    const xcvm_conv_shape *s = r->s;
    const xcvm_window *w = &s->window;
    const double *x = XCVM_CDATA(double, r->a->x), *g = XCVM_CDATA(double, r->a->g);
    xcvm_poller poller = xcvm_poller_of(r->k);
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t m = i / s->channels, group = m / s->outputs, channel = group * s->channels + i % s->channels;
        for (size_t p = 0; p < w->kernel_size; p++) {
            double sum = 0.0;
            for (size_t n = 0; n < s->batch; n++) {
                if (xcvm_poll_after(&poller, 1) != XCVM_OK)
                    return;
                sum += sum_tap(w, p, x + (n * s->group * s->channels + channel) * w->in_size,
                               g + (n * s->group * s->outputs + m) * w->out_size, &poller);
            }
            XCVM_DATA(double, r->a->y)[i * w->kernel_size + p] = sum;
        }
    }
}

xcvm_status xcvm_conv_filter_gradient_f64(const xcvm_kernel *k, const xcvm_conv_shape *s,
                                          const xcvm_ConvFilterGradient_args *a)
{
    filter_work r = {.k = k, .s = s, .a = a};
    const double each = (double)s->batch * (double)s->window.out_size * (double)s->window.kernel_size;
    return xcvm_kernel_parallel(k, s->group * s->outputs * s->channels, grain_of(each), run_filters, &r);
}
