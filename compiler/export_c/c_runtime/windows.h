/* Convolutions and pools over up to three spatial axes. */
#ifndef XC_WINDOWS_H
#define XC_WINDOWS_H

#include "compiler/export_c/c_runtime/lanes.h"

/* Output position o and window position k of an axis meet input position o * stride + k * dilation - pad. */
typedef struct xc_window {
    ptrdiff_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    ptrdiff_t pad_end[3]; /* of pools that count it */
} xc_window;

/* Output positions [*first, *last) whose input position for window position k is inside. */
static void xc_window_inside(const xc_window *w, int axis, ptrdiff_t k, ptrdiff_t *first, ptrdiff_t *last)
{
    const ptrdiff_t stride = w->stride[axis], shift = w->pad[axis] - k * w->dilation[axis];
    ptrdiff_t low = shift > 0 ? (shift + stride - 1) / stride : 0;
    ptrdiff_t high = w->in[axis] + shift > 0 ? (w->in[axis] + shift + stride - 1) / stride : 0;
    low = low < w->out[axis] ? low : w->out[axis];
    high = high < w->out[axis] ? high : w->out[axis];
    *first = low;
    *last = high > low ? high : low;
}

/* One window position: output positions [first, last) of each axis are inside, and `start` is the input element of
 * output position 0. */
typedef struct xc_meeting {
    ptrdiff_t first[3], last[3], start;
} xc_meeting;

static xc_meeting xc_window_meeting(const xc_window *g, size_t tap)
{
    const ptrdiff_t rest = (ptrdiff_t)tap / g->kernel[2];
    const ptrdiff_t place[3] = {rest / g->kernel[1], rest % g->kernel[1], (ptrdiff_t)tap % g->kernel[2]};
    xc_meeting m;
    m.start = 0;
    for (int axis = 0; axis < 3; axis++) {
        xc_window_inside(g, axis, place[axis], &m.first[axis], &m.last[axis]);
        m.start = m.start * g->in[axis] + place[axis] * g->dilation[axis] - g->pad[axis];
    }
    return m;
}

/* The input element of output position (i, j, 0). */
static ptrdiff_t xc_window_line(const xc_window *g, const xc_meeting *m, ptrdiff_t i, ptrdiff_t j)
{
    return m->start + (i * g->stride[0] * g->in[1] + j * g->stride[1]) * g->in[2];
}

/* Adds to `to`, a plane of the result, one plane of x with one filter. */
static void xc_convolve_plane_value(const xc_window *g, const value_t *x, const value_t *w, value_t *y)
{
    const size_t kernel = (size_t)(g->kernel[0] * g->kernel[1] * g->kernel[2]);
    for (size_t tap = 0; tap < kernel; tap++) {
        const value_t factor = w[tap];
        const xc_meeting m = xc_window_meeting(g, tap);
        for (ptrdiff_t i = m.first[0]; i < m.last[0]; i++)
            for (ptrdiff_t j = m.first[1]; j < m.last[1]; j++) {
                const value_t *const from = x + xc_window_line(g, &m, i, j);
                value_t *const to = y + (i * g->out[1] + j) * g->out[2];
                if (g->stride[2] == 1)
                    for (ptrdiff_t k = m.first[2]; k < m.last[2]; k++)
                        to[k] += factor * from[k];
                else
                    for (ptrdiff_t k = m.first[2]; k < m.last[2]; k++)
                        to[k] += factor * from[k * g->stride[2]];
            }
    }
}

/* Channels and outputs are those of one group; b and z may be NULL. */
static void xc_conv_value(const xc_window *g, const value_t *x, const value_t *w, const value_t *b, const value_t *z,
                          value_t *y, size_t batch, size_t groups, size_t channels, size_t outputs)
{
    const size_t in = (size_t)(g->in[0] * g->in[1] * g->in[2]), out = (size_t)(g->out[0] * g->out[1] * g->out[2]);
    const size_t kernel = (size_t)(g->kernel[0] * g->kernel[1] * g->kernel[2]);
    for (size_t n = 0; n < batch; n++)
        for (size_t k = 0; k < groups * outputs; k++) {
            const size_t group = k / outputs, plane = (n * groups * outputs + k) * out;
            value_t *const to = y + plane;
            for (size_t i = 0; i < out; i++)
                to[i] = (b != NULL ? b[k] : 0) + (z != NULL ? z[plane + i] : 0);
            for (size_t c = 0; c < channels; c++)
                xc_convolve_plane_value(g, x + ((n * groups + group) * channels + c) * in,
                                        w + (k * channels + c) * kernel, to);
        }
}

/* Here w is channels x outputs x window, and the window's in and out are those of the convolution that this one
 * transposes: `in` of y and `out` of x. */
static void xc_conv_transpose_value(const xc_window *g, const value_t *x, const value_t *w, const value_t *b,
                                    value_t *y, size_t batch, size_t groups, size_t channels, size_t outputs)
{
    const size_t in = (size_t)(g->in[0] * g->in[1] * g->in[2]), out = (size_t)(g->out[0] * g->out[1] * g->out[2]);
    const size_t kernel = (size_t)(g->kernel[0] * g->kernel[1] * g->kernel[2]);
    for (size_t n = 0; n < batch; n++)
        for (size_t k = 0; k < groups * outputs; k++) {
            const size_t group = k / outputs;
            value_t *const to = y + (n * groups * outputs + k) * in;
            for (size_t i = 0; i < in; i++)
                to[i] = b != NULL ? b[k] : 0;
            for (size_t c = group * channels; c < (group + 1) * channels; c++)
                for (size_t tap = 0; tap < kernel; tap++) {
                    const value_t factor = w[(c * outputs + k % outputs) * kernel + tap];
                    const xc_meeting m = xc_window_meeting(g, tap);
                    for (ptrdiff_t i = m.first[0]; i < m.last[0]; i++)
                        for (ptrdiff_t j = m.first[1]; j < m.last[1]; j++) {
                            const value_t *const from =
                                x + (n * groups * channels + c) * out + (i * g->out[1] + j) * g->out[2];
                            value_t *const line = to + xc_window_line(g, &m, i, j);
                            for (ptrdiff_t l = m.first[2]; l < m.last[2]; l++)
                                line[l * g->stride[2]] += factor * from[l];
                        }
                }
        }
}

/* The gradient of the filters of a convolution of x by dy, that of its result. */
static void xc_filter_gradient_value(const xc_window *g, const value_t *x, const value_t *dy, value_t *y, size_t batch,
                                     size_t groups, size_t channels, size_t outputs)
{
    const size_t in = (size_t)(g->in[0] * g->in[1] * g->in[2]), out = (size_t)(g->out[0] * g->out[1] * g->out[2]);
    const size_t kernel = (size_t)(g->kernel[0] * g->kernel[1] * g->kernel[2]);
    for (size_t k = 0; k < groups * outputs; k++)
        for (size_t c = 0; c < channels; c++)
            for (size_t tap = 0; tap < kernel; tap++) {
                const xc_meeting m = xc_window_meeting(g, tap);
                value_t total = 0;
                for (size_t n = 0; n < batch; n++) {
                    const value_t *const plane = x + ((n * groups + k / outputs) * channels + c) * in;
                    const value_t *const by = dy + (n * groups * outputs + k) * out;
                    for (ptrdiff_t i = m.first[0]; i < m.last[0]; i++)
                        for (ptrdiff_t j = m.first[1]; j < m.last[1]; j++) {
                            const value_t *const from = plane + xc_window_line(g, &m, i, j);
                            const value_t *const with = by + (i * g->out[1] + j) * g->out[2];
                            value_t sum = 0;
                            for (ptrdiff_t l = m.first[2]; l < m.last[2]; l++)
                                sum += with[l] * from[l * g->stride[2]];
                            total += sum;
                        }
                }
                *y++ = total;
            }
}

/* ---- Pools ---- */

/* Window positions [*first, *last) of output o that are within the `size` elements of an axis. */
static void xc_window_clip(const xc_window *w, int axis, ptrdiff_t o, ptrdiff_t size, ptrdiff_t *first, ptrdiff_t *last)
{
    const ptrdiff_t start = o * w->stride[axis] - w->pad[axis], step = w->dilation[axis];
    const ptrdiff_t end = start < size ? (size - start + step - 1) / step : 0;
    const ptrdiff_t begin = start < 0 ? (step - 1 - start) / step : 0;
    *last = end < w->kernel[axis] ? end : w->kernel[axis];
    *first = begin < *last ? begin : *last;
}

static void xc_max_pool_value(const xc_window *g, const value_t *x, value_t *y, int64_t *indices, size_t planes,
                              ptrdiff_t inner, int columns_first, value_t least)
{
    const ptrdiff_t in = g->in[0] * g->in[1] * g->in[2] * inner;
    ptrdiff_t first[3], last[3];
    for (size_t n = 0; n < planes; n++, x += in)
        for (ptrdiff_t i = 0; i < g->out[0]; i++)
            for (ptrdiff_t j = 0; j < g->out[1]; j++)
                for (ptrdiff_t k = 0; k < g->out[2]; k++, y += inner) {
                    int begun = 0;
                    xc_window_clip(g, 0, i, g->in[0], &first[0], &last[0]);
                    xc_window_clip(g, 1, j, g->in[1], &first[1], &last[1]);
                    xc_window_clip(g, 2, k, g->in[2], &first[2], &last[2]);
                    for (ptrdiff_t l = 0; l < inner; l++)
                        y[l] = least;
                    if (indices != NULL)
                        *indices = (int64_t)n * in;
                    for (ptrdiff_t a = first[0]; a < last[0]; a++)
                        for (ptrdiff_t b = first[1]; b < last[1]; b++)
                            for (ptrdiff_t c = first[2]; c < last[2]; c++) {
                                const ptrdiff_t p = i * g->stride[0] + a * g->dilation[0] - g->pad[0];
                                const ptrdiff_t q = j * g->stride[1] + b * g->dilation[1] - g->pad[1];
                                const ptrdiff_t r = k * g->stride[2] + c * g->dilation[2] - g->pad[2];
                                const ptrdiff_t at = (p * g->in[1] + q) * g->in[2] + r;
                                const value_t *const from = x + at * inner;
                                if (indices != NULL &&
                                    (!begun || *from > *y || (xc_is_nan_value(*from) && !xc_is_nan_value(*y))))
                                    *indices =
                                        (int64_t)n * in + (columns_first ? (r * g->in[1] + q) * g->in[0] + p : at);
                                begun = 1;
                                for (ptrdiff_t l = 0; l < inner; l++)
                                    y[l] = from[l] > y[l] || xc_is_nan_value(from[l]) ? from[l] : y[l];
                            }
                    if (indices != NULL)
                        indices++;
                }
}

/* The greatest of each window of channels in blocks of 16. */
static void xc_max_pool_blocks(const xc_window *g, const float *x, float *y, size_t planes)
{
    const ptrdiff_t in = g->in[0] * g->in[1] * g->in[2] * 16;
    ptrdiff_t first[3], last[3];
    for (size_t n = 0; n < planes; n++, x += in)
        for (ptrdiff_t i = 0; i < g->out[0]; i++)
            for (ptrdiff_t j = 0; j < g->out[1]; j++)
                for (ptrdiff_t k = 0; k < g->out[2]; k++, y += 16) {
                    xcvm_lanes best[XCVM_BLOCK_VECTORS];
                    xc_window_clip(g, 0, i, g->in[0], &first[0], &last[0]);
                    xc_window_clip(g, 1, j, g->in[1], &first[1], &last[1]);
                    xc_window_clip(g, 2, k, g->in[2], &first[2], &last[2]);
#pragma GCC unroll 16
                    for (size_t v = 0; v < XCVM_BLOCK_VECTORS; v++)
                        best[v] = xcvm_lanes_all(-INFINITY);
                    for (ptrdiff_t a = first[0]; a < last[0]; a++)
                        for (ptrdiff_t b = first[1]; b < last[1]; b++) {
                            const ptrdiff_t p = i * g->stride[0] + a * g->dilation[0] - g->pad[0];
                            const ptrdiff_t q = j * g->stride[1] + b * g->dilation[1] - g->pad[1];
                            const ptrdiff_t r = k * g->stride[2] + first[2] * g->dilation[2] - g->pad[2];
                            const float *from = x + ((p * g->in[1] + q) * g->in[2] + r) * 16;
                            for (ptrdiff_t c = first[2]; c < last[2]; c++, from += g->dilation[2] * 16) {
#pragma GCC unroll 16
                                for (size_t v = 0; v < XCVM_BLOCK_VECTORS; v++)
                                    best[v] = xc_lanes_greater(xcvm_lanes_load(from + v * XCVM_LANES), best[v]);
                            }
                        }
#pragma GCC unroll 16
                    for (size_t v = 0; v < XCVM_BLOCK_VECTORS; v++)
                        xcvm_lanes_store(y + v * XCVM_LANES, best[v]);
                }
}

/* The mean of each window, or, if p is not 0, its p-norm. */
static void xc_mean_pool_value(const xc_window *g, const value_t *x, value_t *y, size_t planes, ptrdiff_t inner,
                               int count_pads, int p_norm)
{
    const ptrdiff_t in = g->in[0] * g->in[1] * g->in[2] * inner;
    ptrdiff_t first[3], last[3];
    for (size_t n = 0; n < planes; n++, x += in)
        for (ptrdiff_t i = 0; i < g->out[0]; i++)
            for (ptrdiff_t j = 0; j < g->out[1]; j++)
                for (ptrdiff_t k = 0; k < g->out[2]; k++, y += inner) {
                    const ptrdiff_t place[3] = {i, j, k};
                    value_t count = 1;
                    for (int axis = 0; axis < 3; axis++) {
                        ptrdiff_t begin = 0, end;
                        if (count_pads)
                            xc_window_clip(g, axis, place[axis], g->in[axis] + g->pad_end[axis], &begin, &end);
                        xc_window_clip(g, axis, place[axis], g->in[axis], &first[axis], &last[axis]);
                        if (count_pads)
                            count *= (value_t)end;
                        else
                            count *= (value_t)(last[axis] - first[axis]);
                    }
                    for (ptrdiff_t l = 0; l < inner; l++)
                        y[l] = 0;
                    for (ptrdiff_t a = first[0]; a < last[0]; a++)
                        for (ptrdiff_t b = first[1]; b < last[1]; b++)
                            for (ptrdiff_t c = first[2]; c < last[2]; c++) {
                                const ptrdiff_t p = i * g->stride[0] + a * g->dilation[0] - g->pad[0];
                                const ptrdiff_t q = j * g->stride[1] + b * g->dilation[1] - g->pad[1];
                                const ptrdiff_t r = k * g->stride[2] + c * g->dilation[2] - g->pad[2];
                                const value_t *const from = x + ((p * g->in[1] + q) * g->in[2] + r) * inner;
                                for (ptrdiff_t l = 0; l < inner; l++)
                                    y[l] += p_norm == 0   ? from[l]
                                            : p_norm == 1 ? from[l] < 0 ? -from[l] : from[l]
                                            : p_norm == 2
                                                ? from[l] * from[l]
                                                : xc_pow_value(from[l] < 0 ? -from[l] : from[l], (value_t)p_norm);
                            }
                    for (ptrdiff_t l = 0; l < inner; l++)
                        y[l] = p_norm == 0   ? y[l] / (count > 0 ? count : 1)
                               : p_norm == 1 ? y[l]
                               : p_norm == 2 ? xc_sqrt_value(y[l])
                                             : xc_pow_value(y[l], 1 / (value_t)p_norm);
                }
}

#endif
