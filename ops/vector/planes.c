#include "ops/vector/planes.h"
#include "ops/vector/conv.h"

/* Floats of a band, of input and of output, that stay in the first-level cache. */
enum { BAND = 10 * 1024 };

static void measure(xcvm_planes *p, size_t rows)
{
    const xcvm_window *w = p->window;
    const size_t columns = (w->out[2] - 1) * w->stride[2] + (w->kernel[2] - 1) * w->dilation[2] + 1;
    p->rows = rows;
    p->in_rows = (rows - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] + 1;
    p->pitch = (columns + w->stride[2] - 1) / w->stride[2];
    p->plane_rows = (p->in_rows + w->stride[1] - 1) / w->stride[1];
    p->in_floats = xcvm_round_up(w->stride[1] * w->stride[2] * p->plane_rows * p->pitch, XCVM_PLANES_RUN);
    p->in_floats += XCVM_PLANES_RUN;
    p->out_floats = xcvm_round_up(rows * p->pitch, XCVM_PLANES_RUN) + XCVM_PLANES_RUN;
}

bool xcvm_planes_fit(const xcvm_window *w)
{
    if (w->kernel_size > XCVM_PLANES_TAPS || w->in[0] != 1 || w->out[0] != 1 || w->kernel[0] != 1 || w->pad[0] != 0)
        return false;
    const double image = (double)(w->in[1] + 16) * (double)(w->in[2] + 16);
    const double positions =
        ((double)w->out[1] * (double)w->stride[1] + (double)w->kernel[1] * (double)w->dilation[1]) *
        ((double)w->out[2] * (double)w->stride[2] + (double)w->kernel[2] * (double)w->dilation[2]);
    return positions < 16.0 * image;
}

void xcvm_planes_make(xcvm_planes *p, const xcvm_window *w, bool offsets)
{
    *p = (xcvm_planes){.window = w};
    size_t bands = 1;
    measure(p, w->out[1]);
    while (p->in_floats + p->out_floats > BAND && p->rows > 1) {
        bands++;
        measure(p, (w->out[1] + bands - 1) / bands);
    }
    if (!offsets)
        return;
    const size_t plane = p->plane_rows * p->pitch;
    for (size_t i = 0; i < w->kernel[1]; i++)
        for (size_t j = 0; j < w->kernel[2]; j++) {
            const size_t h = i * w->dilation[1], v = j * w->dilation[2];
            const size_t index = h % w->stride[1] * w->stride[2] + v % w->stride[2];
            p->offsets[p->taps++] = index * plane + h / w->stride[1] * p->pitch + v / w->stride[2];
        }
}

void xcvm_planes_clear(const xcvm_planes *p, float blank, float *planes)
{
    for (size_t i = 0; i < p->in_floats; i++)
        planes[i] = blank;
}

void xcvm_planes_put(const xcvm_planes *p, size_t row, const float *line, float *planes)
{
    const xcvm_window *w = p->window;
    const size_t plane = p->plane_rows * p->pitch;
    float *to = planes + row % w->stride[1] * w->stride[2] * plane + row / w->stride[1] * p->pitch;
    const ptrdiff_t stride = (ptrdiff_t)w->stride[2];
    for (ptrdiff_t phase = 0; phase < stride; phase++, to += plane) {
        /* Column i of this plane is image column i * stride + phase - pad. */
        const ptrdiff_t shift = w->pad[2] - phase;
        const ptrdiff_t first = shift > 0 ? (shift + stride - 1) / stride : 0;
        ptrdiff_t last = ((ptrdiff_t)w->in[2] + shift + stride - 1) / stride;
        last = last > (ptrdiff_t)p->pitch ? (ptrdiff_t)p->pitch : last;
        if (last > first)
            xcvm_copy_strided(to + first, line + (first * stride - shift), w->stride[2], (size_t)(last - first));
    }
}
