/* Copying of image bands into padded planes. */
#include "ops/conv/simd/planes.h"
#include "ops/conv/simd/conv.h"

/* Input and output floats of a band that stay in the first-level cache. */
enum { BAND = 10 * 1024 };

static void measure(xcvm_planes *p, size_t rows)
{
    const xcvm_window *w = p->window;
    const size_t columns = (w->out[2] - 1) * w->stride[2] + (w->kernel[2] - 1) * w->dilation[2] + 1;
    p->rows = rows;
    p->in_rows = (rows - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] + 1;
    p->pitch = (columns + w->stride[2] - 1) / w->stride[2];
    /* Rows are stored in whole vectors, which extend into the next row. The last row must not overwrite existing data.
     */
    p->plane = (p->in_rows + w->stride[1] - 1) / w->stride[1] * p->pitch + XCVM_LANES;
    p->in_floats = xcvm_round_up(w->stride[1] * w->stride[2] * p->plane, XCVM_PLANES_RUN) + XCVM_PLANES_RUN;
    p->out_floats = xcvm_round_up(rows * p->pitch, XCVM_PLANES_RUN) + XCVM_PLANES_RUN;
}

bool xcvm_planes_fit(const xcvm_window *w)
{
    if (w->kernel[1] > XCVM_PLANES_TAPS || w->kernel[1] * w->kernel[2] > XCVM_PLANES_TAPS)
        return false;
    const double image = (double)(w->in[1] + 16) * (double)(w->in[2] + 16);
    const double positions =
        ((double)w->out[1] * (double)w->stride[1] + (double)w->kernel[1] * (double)w->dilation[1]) *
        ((double)w->out[2] * (double)w->stride[2] + (double)w->kernel[2] * (double)w->dilation[2]);
    return positions < 16.0 * image;
}

void xcvm_planes_make(xcvm_planes *p, const xcvm_window *w, size_t rows)
{
    p->window = w;
    p->taps = 0;
    size_t bands = 1;
    measure(p, rows > 0 ? rows : w->out[1]);
    while (rows == 0 && p->in_floats + p->out_floats > BAND && p->rows > 1) {
        bands++;
        measure(p, (w->out[1] + bands - 1) / bands);
    }
    for (size_t i = 0; i < w->kernel[1]; i++)
        for (size_t j = 0; j < w->kernel[2]; j++) {
            const size_t h = i * w->dilation[1], v = j * w->dilation[2];
            const size_t index = h % w->stride[1] * w->stride[2] + v % w->stride[2];
            p->offsets[p->taps++] = index * p->plane + h / w->stride[1] * p->pitch + v / w->stride[2];
        }
}

/* Source of a plane row: `blank` padding columns, then image columns from `source`, `stride` apart. */
typedef struct phase {
    size_t blank, source, count;
} phase;

static phase phase_of(const xcvm_planes *p, size_t index)
{
    const xcvm_window *w = p->window;
    const size_t pad = (size_t)w->pad[2], stride = w->stride[2];
    phase f = {.blank = pad > index ? (pad - index + stride - 1) / stride : 0};
    f.blank = f.blank < p->pitch ? f.blank : p->pitch;
    /* If the padding is wider than a row, the whole row is blank. */
    const size_t first = f.blank * stride + index;
    f.source = first >= pad ? first - pad : w->in[2];
    f.count = f.source < w->in[2] ? (w->in[2] - f.source + stride - 1) / stride : 0;
    f.count = f.count < p->pitch - f.blank ? f.count : p->pitch - f.blank;
    return f;
}

/* Stores whole vectors over [0, count). */
XCVM_INLINE void store_blank(float *to, size_t count, xcvm_lanes blank)
{
    for (size_t i = 0; i < count; i += XCVM_LANES)
        xcvm_lanes_store(to + i, blank);
}

/* Copies one row of a plane in whole vectors. The excess is overwritten by the next row. */
XCVM_INLINE void put_row(const phase *f, const float *line, size_t readable, const size_t stride, size_t pitch,
                         xcvm_lanes blank, float *to)
{
    store_blank(to, f->blank, blank);
    const float *from = line + f->source;
    float *at = to + f->blank;
    if (stride > 2 || f->source + stride * xcvm_round_up(f->count, XCVM_LANES) > readable)
        xcvm_copy_strided(at, from, stride, f->count);
    else if (stride == 1)
        for (size_t i = 0; i < f->count; i += XCVM_LANES)
            xcvm_lanes_store(at + i, xcvm_lanes_load(from + i));
    else
        for (size_t i = 0; i < f->count; i += XCVM_LANES)
            xcvm_lanes_store(
                at + i, xcvm_lanes_even(xcvm_lanes_load(from + 2 * i), xcvm_lanes_load(from + 2 * i + XCVM_LANES)));
    store_blank(at + f->count, pitch - f->blank - f->count, blank);
}

/* Copies all rows of the planes of one phase. */
XCVM_INLINE void put_rows(const xcvm_planes *p, const phase *f, const float *image, size_t readable, size_t top,
                          const size_t stride, xcvm_lanes blank, float *planes)
{
    const xcvm_window *w = p->window;
    const size_t steps = w->stride[1], pitch = p->pitch, width = w->in[2];
    for (size_t step = 0; step < steps; step++) {
        float *to = planes + step * stride * p->plane;
        ptrdiff_t h = (ptrdiff_t)(top * steps + step) - w->pad[1];
        for (size_t row = step; row < p->in_rows; row += steps, h += (ptrdiff_t)steps, to += pitch) {
            const size_t at = (size_t)h * width;
            if (h < 0 || h >= (ptrdiff_t)w->in[1])
                store_blank(to, pitch, blank);
            else
                put_row(f, image + at, readable - at, stride, pitch, blank, to);
        }
    }
}

void xcvm_planes_fill(const xcvm_planes *p, const float *image, size_t readable, size_t top, float blank, float *planes)
{
    const size_t stride = p->window->stride[2];
    const xcvm_lanes v = xcvm_lanes_all(blank);
    for (size_t i = 0; i < stride; i++) {
        const phase f = phase_of(p, i);
        float *to = planes + i * p->plane;
        if (stride == 1)
            put_rows(p, &f, image, readable, top, 1, v, to);
        else if (stride == 2)
            put_rows(p, &f, image, readable, top, 2, v, to);
        else
            put_rows(p, &f, image, readable, top, stride, v, to);
    }
}
