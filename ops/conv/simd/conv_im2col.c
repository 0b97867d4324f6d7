/* Convolution by im2col: a product of the filters with a matrix that has one column per output position. The matrix is
 * the image itself for pointwise windows, and is otherwise built block by block. */
#include "ops/conv/simd/conv.h"
#include "ops/matmul/simd/gemm.h"
#include "ops/conv/simd/planes.h"

enum {
    /* Columns gathered together before they are packed into panels. */
    CHUNK = 512 / XCVM_GEMM_PANEL * XCVM_GEMM_PANEL,
    BAND = 8 * 1024
};

/* Sets the pointers of the product for item `index` of batch x group. */
static void set_item(const void *context, size_t index, xcvm_gemm *g)
{
    const xcvm_conv *c = context;
    const xcvm_conv_shape *s = &c->shape;
    const size_t group = index % s->group, outputs = group * s->outputs;
    const size_t at = index * s->outputs * s->window.out_size;
    g->a = c->w + outputs * s->channels * s->window.kernel_size;
    g->b = c->x + index * s->channels * s->window.in_size;
    g->c = c->y + at;
    g->start = c->z != NULL ? c->z + at : NULL;
    g->row_bias = c->b != NULL ? c->b + outputs : NULL;
}

static xcvm_gemm_batch product_of(const xcvm_conv_shape *s, const xcvm_conv *c)
{
    xcvm_gemm g = {.m = s->outputs, .n = s->window.out_size, .k = s->channels * s->window.kernel_size, .alpha = 1.0f};
    g.a_row = g.k;
    g.a_column = 1;
    g.b_row = s->window.in_size;
    g.b_column = 1;
    g.c_row = s->window.out_size;
    g.c_column = 1;
    g.activation = c != NULL ? c->activation : NULL;
    return (xcvm_gemm_batch){.shape = g, .count = s->batch * s->group, .at = set_item, .context = c};
}

/* ---- The image as matrix ---- */

static bool is_pointwise(const xcvm_conv_shape *s)
{
    const xcvm_window *w = &s->window;
    for (int i = 0; i < XCVM_WINDOW_AXES; i++)
        if (w->kernel[i] != 1 || w->stride[i] != 1 || w->pad[i] != 0 || w->pad_end[i] != 0)
            return false;
    return true;
}

static double pointwise_cost(const xcvm_conv_shape *s) { return xcvm_conv_work(s); }

static size_t pointwise_scratch(const xcvm_conv_shape *s, int threads)
{
    const xcvm_gemm_batch batch = product_of(s, NULL);
    return xcvm_gemm_scratch(&batch, threads);
}

static xcvm_status pointwise_run(const xcvm_kernel *k, const xcvm_conv *c, void *scratch)
{
    const xcvm_gemm_batch batch = product_of(&c->shape, c);
    return xcvm_gemm_run(k, &batch, scratch);
}

const xcvm_conv_algorithm xcvm_conv_pointwise = {is_pointwise, pointwise_cost, pointwise_scratch, pointwise_run};

/* ---- Overlapping columns ---- */

/* True for windows along a line of one channel without padding. Products of few rows would spend their time on packing.
 */
static bool is_line(const xcvm_conv_shape *s)
{
    enum { FEW = 4 };
    const xcvm_window *w = &s->window;
    if (s->channels != 1 || s->outputs < FEW)
        return false;
    for (int i = 0; i < XCVM_WINDOW_AXES - 1; i++)
        if (w->in[i] != 1 || w->out[i] != 1 || w->kernel[i] != 1)
            return false;
    return w->dilation[2] == 1 && w->pad[2] == 0 && w->pad_end[2] == 0;
}

static double line_cost(const xcvm_conv_shape *s) { return xcvm_conv_work(s); }

/* Overlapping windows form a matrix whose column distance is the stride. */
static xcvm_gemm_batch describe_line(const xcvm_conv_shape *s, const xcvm_conv *c)
{
    xcvm_gemm_batch batch = product_of(s, c);
    batch.shape.b_row = 1;
    batch.shape.b_column = s->window.stride[2];
    return batch;
}

static size_t line_scratch(const xcvm_conv_shape *s, int threads)
{
    const xcvm_gemm_batch batch = describe_line(s, NULL);
    return xcvm_gemm_scratch(&batch, threads);
}

static xcvm_status line_run(const xcvm_kernel *k, const xcvm_conv *c, void *scratch)
{
    const xcvm_gemm_batch batch = describe_line(&c->shape, c);
    return xcvm_gemm_run(k, &batch, scratch);
}

const xcvm_conv_algorithm xcvm_conv_line = {is_line, line_cost, line_scratch, line_run};

/* ---- Gathered columns ---- */

xcvm_conv_tap xcvm_conv_tap_of(const xcvm_window *w, const float *image, size_t index)
{
    const size_t kw = index % w->kernel[2], rest = index / w->kernel[2];
    xcvm_conv_tap t = {.kh = rest % w->kernel[1], .shift = kw * w->dilation[2]};
    t.kd = rest / w->kernel[1] % w->kernel[0];
    t.plane = image + rest / w->kernel[1] / w->kernel[0] * w->in_size;
    xcvm_window_inside(w, 2, kw, &t.first, &t.last);
    return t;
}

/* The input row for output row (od, oh), or NULL if it is in the padding. */
static const float *input_row(const xcvm_window *w, const xcvm_conv_tap *t, size_t od, size_t oh)
{
    const ptrdiff_t d = (ptrdiff_t)(od * w->stride[0] + t->kd * w->dilation[0]) - w->pad[0];
    const ptrdiff_t h = (ptrdiff_t)(oh * w->stride[1] + t->kh * w->dilation[1]) - w->pad[1];
    if (d < 0 || d >= (ptrdiff_t)w->in[0] || h < 0 || h >= (ptrdiff_t)w->in[1])
        return NULL;
    return t->plane + ((size_t)d * w->in[1] + (size_t)h) * w->in[2];
}

XCVM_INLINE void zero_floats(float *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = 0.0f;
}

void xcvm_conv_gather(const xcvm_window *w, const xcvm_conv_tap *t, size_t from, size_t to, float *line)
{
    const size_t width = w->out[2];
    size_t oh = from / width % w->out[1], od = from / width / w->out[1], ow = from % width;
    for (size_t n = from; n < to;) {
        const size_t end = to - n < width - ow ? ow + (to - n) : width;
        const float *row = input_row(w, t, od, oh);
        size_t first = t->first < ow ? ow : t->first > end ? end : t->first;
        size_t last = t->last < first ? first : t->last > end ? end : t->last;
        if (row == NULL)
            first = last = end;
        zero_floats(line, first - ow);
        if (last > first) {
            const size_t at = first * w->stride[2] + t->shift - (size_t)w->pad[2];
            xcvm_copy_strided(line + (first - ow), row + at, w->stride[2], last - first);
        }
        zero_floats(line + (last - ow), end - last);
        line += end - ow;
        n += end - ow;
        ow = 0;
        if (++oh == w->out[1]) {
            oh = 0;
            od++;
        }
    }
}

/* Gathers rows of the matrix directly from the image. */
static void gather_rows(const xcvm_gemm *g, size_t k0, size_t k1, size_t n0, size_t n1, float *panels)
{
    const xcvm_conv *c = g->source;
    float line[CHUNK + XCVM_LANES] __attribute__((aligned(64)));
    for (size_t n = n0; n < n1; n += CHUNK) {
        const size_t count = n1 - n < CHUNK ? n1 - n : CHUNK;
        zero_floats(line + count, XCVM_LANES);
        for (size_t p = k0; p < k1; p++) {
            const xcvm_conv_tap t = xcvm_conv_tap_of(&c->shape.window, g->b, p);
            xcvm_conv_gather(&c->shape.window, &t, n, n + count, line);
            xcvm_gemm_place_row(line, count, p - k0, k1 - k0, panels + (n - n0) * (k1 - k0));
        }
    }
}

/* A vector of columns for a window position in planes: pieces of several rows, whose distance is the difference between
 * the row lengths of the planes and the result. */
typedef struct column_vector {
    size_t at, pieces; /* position of the first column in a plane */
    const xcvm_lanes_mask *masks;
} column_vector;

/* Splits columns [from, from + count) into vectors, relative to the planes' first row. There are as many masks as
 * pieces. */
static size_t plan_columns(const xcvm_planes *p, size_t from, size_t count, column_vector *vectors,
                           xcvm_lanes_mask *masks)
{
    const size_t width = p->window->out[2], skew = from % width;
    size_t used = 0, vector = 0;
    for (size_t first = 0; first < count; first += XCVM_LANES, vector++) {
        const size_t column = skew + first, row = column / width;
        const size_t last = count - first < XCVM_LANES ? count - first : XCVM_LANES;
        const size_t pieces = (column + last - 1) / width - row + 1;
        vectors[vector] = (column_vector){row * p->pitch + column % width, pieces, masks + used};
        for (size_t piece = 0; piece < pieces; piece++, used++) {
            int32_t lanes[XCVM_LANES];
            for (size_t i = 0; i < XCVM_LANES; i++)
                lanes[i] = i < last && (column + i) / width == row + piece ? -1 : 0;
            memcpy(&masks[used], lanes, sizeof lanes);
        }
    }
    return vector;
}

/* Writes row p of the panels, for the window position whose plane begins at `plane`. */
static void place_columns(const column_vector *vectors, size_t count, const float *plane, size_t between, size_t p,
                          size_t depth, float *panels)
{
    for (size_t j = 0; j < count; j += XCVM_GEMM_VECTORS) {
        const size_t some = count - j < XCVM_GEMM_VECTORS ? count - j : XCVM_GEMM_VECTORS;
        float *to = panels + (j * depth + p * some) * XCVM_LANES;
        for (size_t i = 0; i < some; i++, to += XCVM_LANES) {
            const column_vector *v = &vectors[j + i];
            const float *from = plane + v->at;
            xcvm_lanes_mask sum = (xcvm_lanes_mask)xcvm_lanes_load(from) & v->masks[0];
            for (size_t piece = 1; piece < v->pieces; piece++)
                sum |= (xcvm_lanes_mask)xcvm_lanes_load(from + piece * between) & v->masks[piece];
            xcvm_lanes_store(to, (xcvm_lanes)sum);
        }
    }
}

/* The same from planes (planes.h), which are filled once for all window positions of a channel. */
static void gather_planes(const xcvm_gemm *g, const xcvm_planes *planes, size_t k0, size_t k1, size_t n0, size_t n1,
                          float *panels)
{
    const xcvm_conv *c = g->source;
    const xcvm_window *w = planes->window;
    const size_t end = c->shape.batch * c->shape.group * c->shape.channels * w->in_size;
    column_vector vectors[CHUNK / XCVM_LANES];
    xcvm_lanes_mask masks[CHUNK];
    float band[BAND] __attribute__((aligned(64)));
    for (size_t n = n0; n < n1; n += CHUNK) {
        const size_t count = plan_columns(planes, n, n1 - n < CHUNK ? n1 - n : CHUNK, vectors, masks);
        for (size_t p = k0; p < k1;) {
            const size_t channel = p / w->kernel_size;
            const size_t last = (channel + 1) * w->kernel_size < k1 ? (channel + 1) * w->kernel_size : k1;
            const float *image = (const float *)g->b + channel * w->in_size;
            xcvm_planes_fill(planes, image, end - (size_t)(image - c->x), n / w->out[2], 0.0f, band);
            for (; p < last; p++)
                place_columns(vectors, count, band + planes->offsets[p % w->kernel_size], planes->pitch - w->out[2],
                              p - k0, k1 - k0, panels + (n - n0) * (k1 - k0));
        }
    }
}

static void gather(const xcvm_gemm *g, size_t k0, size_t k1, size_t n0, size_t n1, float *panels)
{
    const xcvm_conv *c = g->source;
    const xcvm_window *w = &c->shape.window;
    if (w->kernel_size >= 4 && xcvm_window_is_flat(w) && xcvm_planes_fit(w)) {
        /* Maximum number of rows in a chunk. */
        const size_t rows = (CHUNK + w->out[2] - 2) / w->out[2] + 1;
        xcvm_planes planes;
        xcvm_planes_make(&planes, w, rows < w->out[1] ? rows : w->out[1]);
        if (planes.in_floats <= BAND) {
            gather_planes(g, &planes, k0, k1, n0, n1, panels);
            return;
        }
    }
    gather_rows(g, k0, k1, n0, n1, panels);
}

/* Products of one row per channel would be mostly gathering: xcvm_conv_dilated_depthwise handles those. */
static bool is_product(const xcvm_conv_shape *s)
{
    return s->channels != 1 || s->outputs != 1 || !xcvm_conv_dilated_depthwise.fits(s);
}

/* Gathering an element costs 8 multiply-adds. */
static double columns_cost(const xcvm_conv_shape *s)
{
    return xcvm_conv_work(s) * (1.0 + 8.0 / (double)(s->outputs + 1));
}

static xcvm_gemm_batch describe_columns(const xcvm_conv_shape *s, const xcvm_conv *c)
{
    xcvm_gemm_batch batch = product_of(s, c);
    batch.shape.b_rows = gather;
    batch.shape.source = c;
    return batch;
}

static size_t columns_scratch(const xcvm_conv_shape *s, int threads)
{
    const xcvm_gemm_batch batch = describe_columns(s, NULL);
    return xcvm_gemm_scratch(&batch, threads);
}

static xcvm_status im2col_run(const xcvm_kernel *k, const xcvm_conv *c, void *scratch)
{
    const xcvm_gemm_batch batch = describe_columns(&c->shape, c);
    return xcvm_gemm_run(k, &batch, scratch);
}

const xcvm_conv_algorithm xcvm_conv_im2col = {is_product, columns_cost, columns_scratch, im2col_run};
