/* DeformConv: columns of bilinear samples, times the filters. Where a sample lies and how its neighbours weigh is found
 * once for all channels of an offset group. */
#include "ops/matmul/blas.h"
#include "ops/floats.h"
#include "ops/move.h"
#include "ops/matmul/simd/gemm.h"
#include "ops/conv/window.h"

enum {
    BLOCK = 192 * 1024, /* elements of a block of columns */
    MOST_POSITIONS = 8 * XCVM_GEMM_PANEL
};

typedef struct task {
    const xcvm_kernel *k;
    xcvm_conv_shape shape;
    size_t offset_groups;
    bool wide;                             /* f64, else f32 */
    const void *x, *w, *offset, *b, *mask; /* b and mask may be NULL */
    void *y;
    size_t positions; /* of a block */
    char *scratch;
    size_t scratch_bytes; /* of one worker */
    uint32_t status;      /* atomic */
} task;

/* The four neighbours of each sample: place of the first in its plane (further ones are a step to the right and below,
 * where they are inside), and weights, 0 outside. */
typedef struct samples {
    int32_t at[4][MOST_POSITIONS];
    double weight[4][MOST_POSITIONS];
    float narrow[4][MOST_POSITIONS];
} samples;

static double element(const task *t, const void *data, size_t i)
{
    return t->wide ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* Samples that window position `tap` of offset group `group` takes for `count` output positions from `first` on. */
static void find_samples(const task *t, size_t image, size_t group, size_t tap, size_t first, size_t count, samples *s)
{
    const xcvm_window *w = &t->shape.window;
    const size_t row = (image * t->offset_groups + group) * w->kernel_size + tap;
    const size_t kh = tap / w->kernel[2], kw = tap % w->kernel[2];
    const int32_t height = (int32_t)w->in[1], width = (int32_t)w->in[2];
    for (size_t i = 0; i < count; i++) {
        const size_t n = first + i;
        const double h = (double)((ptrdiff_t)(n / w->out[2] * w->stride[1] + kh * w->dilation[1]) - w->pad[1]) +
                         element(t, t->offset, 2 * row * w->out_size + n);
        const double v = (double)((ptrdiff_t)(n % w->out[2] * w->stride[2] + kw * w->dilation[2]) - w->pad[2]) +
                         element(t, t->offset, (2 * row + 1) * w->out_size + n);
        const double scale = t->mask != NULL ? element(t, t->mask, row * w->out_size + n) : 1.0;
        /* NaN is outside, too. */
        const bool inside = h > -1.0 && h < (double)height && v > -1.0 && v < (double)width;
        const int32_t top = inside ? (int32_t)__builtin_floor(h) : -2, left = inside ? (int32_t)__builtin_floor(v) : -2;
        const double down = h - (double)top, right = v - (double)left;
        const double weights[4] = {(1.0 - down) * (1.0 - right), (1.0 - down) * right, down * (1.0 - right),
                                   down * right};
        for (int c = 0; c < 4; c++) {
            const int32_t y = top + c / 2, x = left + c % 2;
            const bool there = y >= 0 && y < height && x >= 0 && x < width;
            s->at[c][i] = there ? y * width + x : 0;
            s->weight[c][i] = there ? weights[c] * scale : 0.0;
            s->narrow[c][i] = (float)s->weight[c][i];
        }
    }
}

/* A neighbour without weight is not looked at: infinities stay away from what they are not part of. */
#define SAMPLE(name, real, weights)                                                                                    \
    static void name(const samples *s, const real *plane, size_t count, real *line)                                    \
    {                                                                                                                  \
        for (size_t i = 0; i < count; i++) {                                                                           \
            real sum = 0;                                                                                              \
            for (int c = 0; c < 4; c++) {                                                                              \
                const real weight = s->weights[c][i], value = plane[s->at[c][i]];                                      \
                sum += weight != 0 ? weight * value : 0;                                                               \
            }                                                                                                          \
            line[i] = sum;                                                                                             \
        }                                                                                                              \
    }
SAMPLE(sample_f32, float, narrow)
SAMPLE(sample_f64, double, weight)

/* Columns of all input channels: a row for each channel and window position. */
static void make_columns(const task *t, size_t image, size_t first, size_t count, samples *s, void *columns)
{
    const xcvm_window *w = &t->shape.window;
    const size_t channels = t->shape.group * t->shape.channels, share = channels / t->offset_groups;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t group = 0; group < t->offset_groups; group++)
        for (size_t tap = 0; tap < w->kernel_size; tap++) {
            if (xcvm_poll_after(&poller, (1 + share) * count) != XCVM_OK)
                return;
            find_samples(t, image, group, tap, first, count, s);
            for (size_t c = group * share; c < (group + 1) * share; c++) {
                const size_t plane = (image * channels + c) * w->in_size, row = (c * w->kernel_size + tap) * count;
                if (t->wide)
                    sample_f64(s, (const double *)t->x + plane, count, (double *)columns + row);
                else
                    sample_f32(s, (const float *)t->x + plane, count, (float *)columns + row);
            }
        }
}

static xcvm_gemm describe(const task *t, size_t count)
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

static xcvm_status multiply_f64(const task *t, const xcvm_gemm *g, size_t filter, const double *columns, double *y)
{
    for (size_t m = 0; m < g->m; m++)
        for (size_t i = 0; i < g->n; i++)
            y[m * g->c_row + i] = t->b != NULL ? ((const double *)t->b)[filter + m] : 0.0;
    return xcvm_blas_f64(t->k->error, false, false, g->m, g->n, g->k, 1.0, (const double *)t->w + filter * g->k, g->k,
                         columns, g->n, 1.0, y, g->c_row);
}

static xcvm_status run_block(const task *t, size_t image, size_t first, char *scratch)
{
    const xcvm_conv_shape *s = &t->shape;
    const size_t count = s->window.out_size - first < t->positions ? s->window.out_size - first : t->positions;
    samples *found = (samples *)(void *)scratch;
    char *columns = scratch + xcvm_round_up(sizeof *found, XCVM_ALIGNMENT);
    const size_t size = t->wide ? sizeof(double) : sizeof(float);
    const size_t depth = s->channels * s->window.kernel_size;
    make_columns(t, image, first, count, found, columns);
    XCVM_TRY(xcvm_kernel_poll(t->k));
    void *rest = columns + xcvm_round_up(s->group * depth * t->positions * size, XCVM_ALIGNMENT);
    for (size_t group = 0; group < s->group; group++) {
        xcvm_gemm g = describe(t, count);
        const size_t filter = group * s->outputs, b = group * depth * count;
        const size_t c = (image * s->group * s->outputs + filter) * s->window.out_size + first;
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
    task *t = context;
    const size_t blocks = (t->shape.window.out_size + t->positions - 1) / t->positions;
    for (size_t i = begin; i < end; i++) {
        const xcvm_status status =
            run_block(t, i / blocks, i % blocks * t->positions, t->scratch + (size_t)worker * t->scratch_bytes);
        if (status != XCVM_OK) {
            __atomic_store_n(&t->status, (uint32_t)status, __ATOMIC_RELAXED);
            return;
        }
    }
}

/* Large enough to keep the product busy, small enough for the cache and to give every thread a block. */
static void choose_positions(task *t, int threads)
{
    const xcvm_conv_shape *s = &t->shape;
    const size_t rows = s->group * s->channels * s->window.kernel_size, all = s->window.out_size;
    size_t positions = BLOCK / rows / XCVM_GEMM_PANEL * XCVM_GEMM_PANEL;
    const size_t share = (s->batch * all + (size_t)threads - 1) / (size_t)threads;
    if (positions > share)
        positions = xcvm_round_up(share, XCVM_GEMM_PANEL);
    positions = positions < XCVM_GEMM_PANEL ? XCVM_GEMM_PANEL : positions;
    positions = positions > MOST_POSITIONS ? MOST_POSITIONS : positions;
    t->positions = positions < all ? positions : all;
}

static size_t copied_bytes(const xcvm_value *v)
{
    return v != NULL ? xcvm_round_up(xcvm_element_count(v) * sizeof(float), XCVM_ALIGNMENT) : 0;
}

static const void *as_floats(const task *t, const xcvm_value *v, char **at)
{
    if (v == NULL || t->wide || v->dtype == XCVM_F32)
        return v != NULL ? v->data : NULL;
    float *floats = (float *)(void *)*at;
    (void)xcvm_kernel_load_f32(t->k, v, floats);
    *at += copied_bytes(v);
    return floats;
}

/* What is left of a convolution of nothing. */
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
    task t = {.k = k,
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
    const xcvm_gemm g = describe(&t, t.positions);
    size_t columns;
    XCVM_CHECK(k->error, xcvm_size_mul(s->group * g.k * t.positions, t.wide ? sizeof(double) : sizeof(float), &columns),
               OUT_OF_RANGE, "the filters are too large");
    t.scratch_bytes = xcvm_round_up(sizeof(samples), XCVM_ALIGNMENT) + xcvm_round_up(columns, XCVM_ALIGNMENT) +
                      (t.wide ? 0 : xcvm_round_up(xcvm_gemm_part_scratch(&g), XCVM_ALIGNMENT));
    const size_t copies = !narrow ? 0
                                  : copied_bytes(a->x) + copied_bytes(a->w) + copied_bytes(a->offset) +
                                        copied_bytes(a->b) + copied_bytes(a->mask) + copied_bytes(a->y);
    char *at = xcvm_kernel_scratch(k, copies + t.scratch_bytes * (size_t)threads);
    if (at == NULL)
        return XCVM_OUT_OF_MEMORY;
    t.scratch = at + copies;
    t.x = as_floats(&t, a->x, &at);
    t.w = as_floats(&t, a->w, &at);
    t.offset = as_floats(&t, a->offset, &at);
    t.b = as_floats(&t, a->b, &at);
    t.mask = as_floats(&t, a->mask, &at);
    t.y = narrow ? (void *)at : a->y->data;
    const size_t blocks = (s->window.out_size + t.positions - 1) / t.positions;
    xcvm_parallel(k->threads, s->batch * blocks, 1, run_blocks, &t);
    if (t.status == XCVM_OK && narrow)
        return xcvm_kernel_store_f32(k, t.y, a->y);
    return (xcvm_status)t.status;
}
