/* DeformConv: columns of bilinear samples, multiplied by the filters. Positions and weights of samples are computed
 * once for all channels of an offset group. In f32, images are first rearranged so that a vector has the same pixel of
 * several channels. */
#include "ops/matmul/blas.h"
#include "ops/simd/halves.h"
#include "ops/util/move.h"
#include "ops/matmul/simd/gemm.h"
#include "ops/conv/window.h"

enum {
    BLOCK = 192 * 1024, /* elements of a block of columns */
    MOST_POSITIONS = 8 * XCVM_GEMM_PANEL
};

typedef struct deform_conv_loop {
    const xcvm_kernel *k;
    xcvm_conv_shape shape;
    size_t offset_groups;
    bool wide;                             /* f64, else f32 */
    const void *x, *w, *offset, *b, *mask; /* b and mask may be NULL */
    void *y;
    /* f32: the image as vectors of XCVM_LANES channels of an offset group for each pixel, followed by a zero vector. */
    float *pixels;
    size_t image, vectors; /* its index; vectors per pixel of an offset group */
    size_t positions;      /* of a block */
    char *scratch;
    size_t scratch_bytes; /* of one worker */
    uint32_t status;      /* atomic */
} deform_conv_loop;

/* The four neighbors of each sample: positions in their plane, and weights. Neighbors outside have weight 0. In f32, a
 * neighbor of weight 0 refers to the zeros after the last pixel, so that infinities do not spread. */
typedef struct samples {
    int32_t at[4][MOST_POSITIONS];
    double weight[4][MOST_POSITIONS];
    float narrow[4][MOST_POSITIONS];
} samples;

XCVM_INLINE double element(const void *data, size_t i, const bool wide)
{
    return wide ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* Sample positions on both axes. */
typedef struct places {
    double h[MOST_POSITIONS], v[MOST_POSITIONS], scale[MOST_POSITIONS];
} places;

/* Computes the samples of window position `tap` of offset group `group` for `count` output positions from `first`. */
XCVM_INLINE void find_places(const deform_conv_loop *t, size_t group, size_t tap, size_t first, size_t count,
                             const bool wide, places *p)
{
    const xcvm_window *w = &t->shape.window;
    const size_t row = (t->image * t->offset_groups + group) * w->kernel_size + tap,
                 rows = 2 * row * w->out_size + first;
    const ptrdiff_t kh = (ptrdiff_t)(tap / w->kernel[2] * w->dilation[1]) - w->pad[1];
    const ptrdiff_t kw = (ptrdiff_t)(tap % w->kernel[2] * w->dilation[2]) - w->pad[2];
    size_t oh = first / w->out[2], ow = first % w->out[2];
    for (size_t i = 0, n; i < count; i += n, oh++, ow = 0) {
        n = xcvm_min(count - i, w->out[2] - ow);
        const double top = (double)((ptrdiff_t)(oh * w->stride[1]) + kh), stride = (double)w->stride[2];
        const double left = (double)((ptrdiff_t)(ow * w->stride[2]) + kw);
        for (size_t j = 0; j < n; j++) {
            p->h[i + j] = top + element(t->offset, rows + i + j, wide);
            p->v[i + j] = left + (double)(int32_t)j * stride + element(t->offset, rows + w->out_size + i + j, wide);
        }
    }
    for (size_t i = 0; i < count; i++)
        p->scale[i] = t->mask != NULL ? element(t->mask, row * w->out_size + first + i, wide) : 1.0;
}

XCVM_INLINE void find_samples(const deform_conv_loop *t, size_t group, size_t tap, size_t first, size_t count,
                              const bool wide, samples *s)
{
    const xcvm_window *w = &t->shape.window;
    const double height = (double)w->in[1], width = (double)w->in[2];
    const int32_t none = wide ? 0 : (int32_t)w->in_size;
    places p;
    find_places(t, group, tap, first, count, wide, &p);
    for (size_t i = 0; i < count; i++) {
        const double h = p.h[i], v = p.v[i];
        /* NaN counts as outside. */
        const bool inside = (h > -1.0) & (h < height) & (v > -1.0) & (v < width);
        const double top = __builtin_floor(inside ? h : -2.0), left = __builtin_floor(inside ? v : -2.0);
        const double down = h - top, right = v - left;
        const double weights[4] = {(1.0 - down) * (1.0 - right), (1.0 - down) * right, down * (1.0 - right),
                                   down * right};
        for (int c = 0; c < 4; c++) {
            const double y = top + c / 2, x = left + c % 2;
            const bool there = (y >= 0) & (y < height) & (x >= 0) & (x < width);
            const double weight = there ? weights[c] * p.scale[i] : 0.0;
            const int32_t at = (int32_t)(there ? y * width + x : 0.0);
            s->weight[c][i] = weight;
            s->narrow[c][i] = (float)weight;
            s->at[c][i] = wide || (float)weight != 0.0f ? at : none;
        }
    }
    for (size_t i = count; i < MOST_POSITIONS && i % XCVM_LANES != 0 && !wide; i++)
        for (int c = 0; c < 4; c++) {
            s->narrow[c][i] = 0;
            s->at[c][i] = none;
        }
}

/* ---- f64 ---- */

/* A neighbor of weight 0 is not read, so that infinities do not spread. */
static void sample_plane(const samples *s, const double *plane, size_t count, double *line)
{
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int c = 0; c < 4; c++) {
            const double weight = s->weight[c][i], value = plane[s->at[c][i]];
            sum += weight != 0 ? weight * value : 0;
        }
        line[i] = sum;
    }
}

/* ---- f32 ---- */

enum { PORTION = 1024 }; /* pixels of a range */

static size_t vectors_of(size_t channels) { return (channels + XCVM_LANES - 1) / XCVM_LANES; }

/* Floats between vectors of channels. */
static size_t pixel_floats(const deform_conv_loop *t) { return (t->shape.window.in_size + 1) * XCVM_LANES; }

/* Items are portions of pixels of vectors. */
static void make_pixels(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const deform_conv_loop *t = context;
    const size_t in_size = t->shape.window.in_size, portions = (in_size + PORTION - 1) / PORTION;
    const size_t channels = t->shape.group * t->shape.channels, share = channels / t->offset_groups;
    for (size_t item = begin; item < end; item++) {
        const size_t vector = item / portions, first = item % portions * PORTION;
        const size_t last = xcvm_min(first + PORTION, in_size), place = vector % t->vectors * XCVM_LANES;
        const size_t count = xcvm_min(share - place, XCVM_LANES);
        const float *planes =
            (const float *)t->x + (t->image * channels + vector / t->vectors * share + place) * in_size;
        float *to = t->pixels + vector * pixel_floats(t);
        size_t i = first;
        for (; i + XCVM_LANES <= last; i += XCVM_LANES) {
            xcvm_lanes rows[XCVM_LANES];
            for (size_t c = 0; c < XCVM_LANES; c++)
                rows[c] = c < count ? xcvm_lanes_load(planes + c * in_size + i) : (xcvm_lanes){0};
            xcvm_lanes_transpose(rows);
            for (size_t j = 0; j < XCVM_LANES; j++)
                xcvm_lanes_store(to + (i + j) * XCVM_LANES, rows[j]);
        }
        for (; i < last; i++)
            for (size_t c = 0; c < XCVM_LANES; c++)
                to[i * XCVM_LANES + c] = c < count ? planes[c * in_size + i] : 0.0f;
        if (last == in_size)
            xcvm_lanes_store(to + in_size * XCVM_LANES, (xcvm_lanes){0});
    }
}

/* Computes the rows of columns of all channels of an offset group at one window position. */
static void sample_pixels(const deform_conv_loop *t, const samples *s, size_t group, size_t tap, size_t count,
                          float *columns)
{
    const size_t share = t->shape.group * t->shape.channels / t->offset_groups, taps = t->shape.window.kernel_size;
    for (size_t vector = 0; vector < t->vectors; vector++) {
        const float *pixels = t->pixels + (group * t->vectors + vector) * pixel_floats(t);
        const size_t channels = xcvm_min(share - vector * XCVM_LANES, XCVM_LANES);
        for (size_t i = 0; i < count; i += XCVM_LANES) {
            xcvm_lanes sums[XCVM_LANES];
            for (size_t j = 0; j < XCVM_LANES; j++) {
                xcvm_lanes sum = {0};
#pragma GCC unroll 4
                for (int c = 0; c < 4; c++)
                    sum += xcvm_lanes_all(s->narrow[c][i + j]) *
                           xcvm_lanes_load(pixels + (size_t)s->at[c][i + j] * XCVM_LANES);
                sums[j] = sum;
            }
            xcvm_lanes_transpose(sums);
            float *to = columns + ((group * share + vector * XCVM_LANES) * taps + tap) * count + i;
            for (size_t c = 0; c < channels; c++, to += taps * count) {
                if (i + XCVM_LANES <= count)
                    xcvm_lanes_store(to, sums[c]);
                else
                    memcpy(to, &sums[c], (count - i) * sizeof *to);
            }
        }
    }
}

/* ---- Both types ---- */

/* Computes the columns of all input channels: one row per channel and window position. */
static void make_columns(const deform_conv_loop *t, size_t first, size_t count, samples *s, void *columns)
{
    const xcvm_window *w = &t->shape.window;
    const size_t channels = t->shape.group * t->shape.channels, share = channels / t->offset_groups;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t group = 0; group < t->offset_groups; group++)
        for (size_t tap = 0; tap < w->kernel_size; tap++) {
            if (xcvm_poll_after(&poller, (1 + share) * count) != XCVM_OK)
                return;
            if (!t->wide) {
                find_samples(t, group, tap, first, count, false, s);
                sample_pixels(t, s, group, tap, count, columns);
                continue;
            }
            find_samples(t, group, tap, first, count, true, s);
            for (size_t c = group * share; c < (group + 1) * share; c++)
                sample_plane(s, (const double *)t->x + (t->image * channels + c) * w->in_size, count,
                             (double *)columns + (c * w->kernel_size + tap) * count);
        }
}

static xcvm_gemm product_of(const deform_conv_loop *t, size_t count)
{
    const xcvm_conv_shape *s = &t->shape;
    xcvm_gemm g = {.m = s->outputs, .n = count, .k = s->channels * s->window.kernel_size, .alpha = 1.0f};
    g.a_row = g.k;
    g.a_column = 1;
    g.b_row = count;
    g.b_column = 1;
    g.c_row = s->window.out_size;
    g.c_column = 1;
    return g;
}

static xcvm_status multiply_f64(const deform_conv_loop *t, const xcvm_gemm *g, size_t filter, const double *columns,
                                double *y)
{
    for (size_t m = 0; m < g->m; m++)
        for (size_t i = 0; i < g->n; i++)
            y[m * g->c_row + i] = t->b != NULL ? ((const double *)t->b)[filter + m] : 0.0;
    return xcvm_blas_f64(t->k->error, false, false, g->m, g->n, g->k, 1.0, (const double *)t->w + filter * g->k, g->k,
                         columns, g->n, 1.0, y, g->c_row);
}

static xcvm_status run_block(const deform_conv_loop *t, size_t first, char *scratch)
{
    const xcvm_conv_shape *s = &t->shape;
    const size_t count = s->window.out_size - first < t->positions ? s->window.out_size - first : t->positions;
    samples *found = (samples *)(void *)scratch;
    char *columns = scratch + xcvm_round_up(sizeof *found, XCVM_ALIGNMENT);
    const size_t size = t->wide ? sizeof(double) : sizeof(float);
    const size_t depth = s->channels * s->window.kernel_size;
    make_columns(t, first, count, found, columns);
    XCVM_TRY(xcvm_kernel_poll(t->k));
    void *rest = columns + xcvm_round_up(s->group * depth * t->positions * size, XCVM_ALIGNMENT);
    for (size_t group = 0; group < s->group; group++) {
        xcvm_gemm g = product_of(t, count);
        const size_t filter = group * s->outputs, b = group * depth * count;
        const size_t c = (t->image * s->group * s->outputs + filter) * s->window.out_size + first;
        if (t->wide) {
            XCVM_TRY(multiply_f64(t, &g, filter, (const double *)(void *)columns + b, (double *)t->y + c));
            continue;
        }
        g.a = (const float *)t->w + filter * depth;
        g.b = (const float *)(void *)columns + b;
        g.c = (float *)t->y + c;
        g.row_bias = t->b != NULL ? (const float *)t->b + filter : NULL;
        XCVM_TRY(xcvm_gemm_part(t->k, &g, 0, g.m, 0, g.n, rest));
    }
    return xcvm_kernel_poll(t->k);
}

static void run_blocks(void *context, size_t begin, size_t end, int worker)
{
    deform_conv_loop *t = context;
    for (size_t i = begin; i < end; i++) {
        const xcvm_status status = run_block(t, i * t->positions, t->scratch + (size_t)worker * t->scratch_bytes);
        if (status != XCVM_OK) {
            __atomic_store_n(&t->status, (uint32_t)status, __ATOMIC_RELAXED);
            return;
        }
    }
}

/* Large enough for an efficient product, and small enough for the cache and to give every thread a block. */
static void choose_positions(deform_conv_loop *t, int threads)
{
    const xcvm_conv_shape *s = &t->shape;
    const size_t rows = s->group * s->channels * s->window.kernel_size, all = s->window.out_size;
    size_t positions = BLOCK / rows / XCVM_GEMM_PANEL * XCVM_GEMM_PANEL;
    const size_t share = (all + (size_t)threads - 1) / (size_t)threads;
    if (positions > share)
        positions = xcvm_round_up(share, XCVM_GEMM_PANEL);
    positions = positions < XCVM_GEMM_PANEL ? XCVM_GEMM_PANEL : positions;
    positions = positions > MOST_POSITIONS ? MOST_POSITIONS : positions;
    t->positions = positions < all ? positions : all;
}

/* Result of a convolution without terms. */
static xcvm_status fill_with_bias(const xcvm_kernel *k, const xcvm_DeformConv_args *a)
{
    static const uint64_t zero = 0;
    const size_t size = xcvm_dtype_size((xcvm_dtype)a->y->dtype), outputs = (size_t)a->y->dims[1];
    const size_t plane = (size_t)a->y->dims[2] * (size_t)a->y->dims[3];
    for (size_t i = 0; i < (size_t)a->y->dims[0] * outputs; i++)
        XCVM_TRY(xcvm_move_fill(k, (char *)a->y->data + i * plane * size,
                                a->b != NULL ? (const void *)((const char *)a->b->data + i % outputs * size) : &zero,
                                size, plane));
    return xcvm_kernel_poll(k);
}

XCVM_KERNEL(DeformConv)
{
    deform_conv_loop t = {.k = k,
                          .shape = xcvm_conv_shape_of(a->x, a->w, a->y, a->strides, a->pads, a->dilations, a->group),
                          .offset_groups = (size_t)a->offset_group,
                          .wide = a->y->dtype == XCVM_F64};
    const xcvm_conv_shape *s = &t.shape;
    const int threads = xcvm_threads_count(k->threads);
    const bool narrow = !t.wide && a->y->dtype != XCVM_F32;
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    if (xcvm_element_count(a->x) == 0)
        return fill_with_bias(k, a);
    XCVM_CHECK(k->error, s->window.in_size <= INT32_MAX, OUT_OF_RANGE, "the planes of x are too large");
    choose_positions(&t, threads);
    const xcvm_gemm g = product_of(&t, t.positions);
    size_t columns, pixels;
    XCVM_CHECK(k->error, xcvm_size_mul(s->group * g.k * t.positions, t.wide ? sizeof(double) : sizeof(float), &columns),
               OUT_OF_RANGE, "the filters are too large");
    t.vectors = t.wide ? 0 : vectors_of(s->group * s->channels / t.offset_groups);
    XCVM_CHECK(k->error,
               xcvm_size_mul(t.offset_groups * t.vectors, pixel_floats(&t) * sizeof(float), &pixels) &&
                   pixels <= PTRDIFF_MAX,
               OUT_OF_MEMORY, "the images are too large");
    pixels = xcvm_round_up(pixels, XCVM_ALIGNMENT);
    t.scratch_bytes = xcvm_round_up(sizeof(samples), XCVM_ALIGNMENT) + xcvm_round_up(columns, XCVM_ALIGNMENT) +
                      (t.wide ? 0 : xcvm_round_up(xcvm_gemm_part_scratch(&g), XCVM_ALIGNMENT));
    const size_t copies = xcvm_halves_copy_bytes(a->x) + xcvm_halves_copy_bytes(a->w) +
                          xcvm_halves_copy_bytes(a->offset) + xcvm_halves_copy_bytes(a->b) +
                          xcvm_halves_copy_bytes(a->mask) + xcvm_halves_copy_bytes(a->y);
    char *at = xcvm_kernel_scratch(k, copies + pixels + t.scratch_bytes * (size_t)threads);
    if (at == NULL)
        return XCVM_OUT_OF_MEMORY;
    t.pixels = (float *)(void *)(at + copies);
    t.scratch = at + copies + pixels;
    t.x = xcvm_halves_as_floats(k, a->x, &at);
    t.w = xcvm_halves_as_floats(k, a->w, &at);
    t.offset = xcvm_halves_as_floats(k, a->offset, &at);
    t.b = xcvm_halves_as_floats(k, a->b, &at);
    t.mask = xcvm_halves_as_floats(k, a->mask, &at);
    t.y = narrow ? (void *)at : a->y->data;
    const size_t blocks = (s->window.out_size + t.positions - 1) / t.positions;
    const size_t portions = t.offset_groups * t.vectors * ((s->window.in_size + PORTION - 1) / PORTION);
    for (; t.image < s->batch && t.status == XCVM_OK; t.image++) {
        XCVM_TRY(xcvm_kernel_parallel(k, portions, 8, make_pixels, &t));
        xcvm_parallel(k->threads, blocks, 1, run_blocks, &t);
    }
    if (t.status == XCVM_OK && narrow)
        return xcvm_halves_store_all(k, t.y, a->y);
    return (xcvm_status)t.status;
}
