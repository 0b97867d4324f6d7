/* ConvTranspose: the product of the filters, transposed, with the image gives what each input position adds to the
 * outputs under its window; adding that up follows, block by block. With stride 1 it is a convolution, by filters that
 * are turned round, and is computed as one where that takes less. */
#include "ops/conv/conv_f64.h"
#include "ops/conv/simd/conv.h"
#include "ops/conv/simd/conv_transpose_depthwise.h"
#include "ops/simd/halves.h"
#include "ops/matmul/simd/gemm.h"
#include "ops/conv/window.h"

enum {
    BLOCK = 192 * 1024, /* floats of a block of the product */
    THREAD_WORK = 200 * 1000
};

typedef struct conv_transpose_loop {
    const xcvm_kernel *k;
    /* The convolution of which this is the adjoint: its input is y, its output x; `channels` are those of a group of y,
     * `outputs` those of x. */
    xcvm_conv_shape shape;
    const float *x, *w, *b; /* b NULL: none */
    float *y;
    size_t channels, positions; /* of y and of x in a block */
    char *scratch;
    size_t scratch_bytes; /* of one worker */
    uint32_t status;      /* atomic */
} conv_transpose_loop;

static void choose_block(conv_transpose_loop *t)
{
    const xcvm_window *w = &t->shape.window;
    size_t positions = BLOCK / w->kernel_size / XCVM_GEMM_PANEL * XCVM_GEMM_PANEL;
    positions = positions < XCVM_GEMM_PANEL ? XCVM_GEMM_PANEL : positions;
    t->positions = positions < w->out_size ? positions : w->out_size;
    size_t channels = BLOCK / (w->kernel_size * t->positions);
    channels = channels < 1 ? 1 : channels;
    t->channels = channels < t->shape.channels ? channels : t->shape.channels;
}

static xcvm_gemm product_of(const conv_transpose_loop *t, size_t channels, size_t positions)
{
    const xcvm_conv_shape *s = &t->shape;
    xcvm_gemm g = {.m = channels * s->window.kernel_size, .n = positions, .k = s->outputs, .alpha = 1.0f};
    g.a_row = 1;
    g.a_column = s->channels * s->window.kernel_size;
    g.b_row = s->window.out_size;
    g.b_column = 1;
    g.c_row = positions;
    g.c_column = 1;
    return g;
}

XCVM_INLINE void add_strided(float *to, const float *from, const size_t stride, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i * stride] += from[i];
}

/* Adds columns [from, to) of one row of the product to a plane of y. */
static void add_row(const xcvm_window *w, size_t tap, size_t from, size_t to, const float *products, float *y)
{
    const size_t k[] = {tap / w->kernel[2] / w->kernel[1], tap / w->kernel[2] % w->kernel[1], tap % w->kernel[2]};
    const size_t width = w->out[2], stride = w->stride[2];
    ptrdiff_t place[XCVM_WINDOW_AXES];
    size_t first[XCVM_WINDOW_AXES], last[XCVM_WINDOW_AXES];
    for (int i = 0; i < XCVM_WINDOW_AXES; i++) {
        xcvm_window_inside(w, i, k[i], &first[i], &last[i]);
        place[i] = (ptrdiff_t)(k[i] * w->dilation[i]) - w->pad[i];
    }
    for (size_t d = first[0]; d < last[0]; d++) {
        const ptrdiff_t slice = (ptrdiff_t)w->in[1] * ((ptrdiff_t)(d * w->stride[0]) + place[0]);
        for (size_t h = first[1]; h < last[1]; h++) {
            const size_t row = (d * w->out[1] + h) * width;
            if (row + width <= from)
                continue;
            if (row >= to)
                return;
            const size_t begin = row + first[2] > from ? row + first[2] : from;
            const size_t end = row + last[2] < to ? row + last[2] : to;
            if (begin >= end)
                continue;
            const ptrdiff_t line = ((ptrdiff_t)(h * w->stride[1]) + place[1] + slice) * (ptrdiff_t)w->in[2];
            float *at = y + (line + (ptrdiff_t)((begin - row) * stride) + place[2]);
            const float *source = products + (begin - from);
            if (stride == 1)
                add_strided(at, source, 1, end - begin);
            else if (stride == 2)
                add_strided(at, source, 2, end - begin);
            else
                add_strided(at, source, stride, end - begin);
        }
    }
}

/* Channels [first, last) of group `group` of image `image`. */
static xcvm_status run_block(const conv_transpose_loop *t, size_t item, size_t first, size_t last, char *scratch)
{
    const xcvm_conv_shape *s = &t->shape;
    const xcvm_window *w = &s->window;
    const size_t group = item % s->group;
    float *y = t->y + (item * s->channels + first) * w->in_size;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t c = first; c < last; c++) {
        XCVM_TRY(xcvm_poll_after(&poller, w->in_size));
        for (size_t i = 0; i < w->in_size; i++)
            y[(c - first) * w->in_size + i] = t->b != NULL ? t->b[group * s->channels + c] : 0.0f;
    }
    float *products = (float *)(void *)scratch;
    void *rest = scratch + xcvm_round_up(t->channels * w->kernel_size * t->positions * sizeof(float), XCVM_ALIGNMENT);
    for (size_t n = 0; n < w->out_size; n += t->positions) {
        const size_t count = w->out_size - n < t->positions ? w->out_size - n : t->positions;
        xcvm_gemm g = product_of(t, last - first, count);
        g.a = t->w + (group * s->outputs * s->channels + first) * w->kernel_size;
        g.b = t->x + item * s->outputs * w->out_size + n;
        g.c = products;
        XCVM_TRY(xcvm_gemm_part(t->k, &g, 0, g.m, 0, g.n, rest));
        for (size_t row = 0; row < g.m; row++) {
            XCVM_TRY(xcvm_poll_after(&poller, count + w->out[0] * w->out[1]));
            add_row(w, row % w->kernel_size, n, n + count, products + row * count,
                    y + row / w->kernel_size * w->in_size);
        }
    }
    return XCVM_OK;
}

static void run_blocks(void *context, size_t begin, size_t end, int worker)
{
    conv_transpose_loop *t = context;
    const size_t blocks = (t->shape.channels + t->channels - 1) / t->channels;
    for (size_t i = begin; i < end; i++) {
        const size_t first = i % blocks * t->channels;
        const size_t last = t->shape.channels - first < t->channels ? t->shape.channels : first + t->channels;
        const xcvm_status status =
            run_block(t, i / blocks, first, last, t->scratch + (size_t)worker * t->scratch_bytes);
        if (status != XCVM_OK) {
            __atomic_store_n(&t->status, (uint32_t)status, __ATOMIC_RELAXED);
            return;
        }
    }
}

static xcvm_status run_products(xcvm_kernel *k, conv_transpose_loop *t)
{
    const xcvm_conv_shape *s = &t->shape;
    const size_t blocks = s->batch * s->group * ((s->channels + t->channels - 1) / t->channels);
    const double work = (double)(t->channels * s->window.kernel_size) * (double)s->outputs * (double)s->window.out_size;
    xcvm_parallel(k->threads, blocks, work > THREAD_WORK ? 1 : (size_t)(THREAD_WORK / (work + 1.0)) + 1, run_blocks, t);
    return (xcvm_status)t->status;
}

/* ---- Stride 1 ---- */

/* The convolution that it is; false if there is none, or if it would take longer. */
static bool find_convolution(const xcvm_conv_shape *s, xcvm_conv_shape *conv)
{
    *conv = (xcvm_conv_shape){.batch = s->batch, .group = s->group, .channels = s->outputs, .outputs = s->channels};
    xcvm_window *w = &conv->window;
    *w = s->window;
    w->in_size = s->window.out_size;
    w->out_size = s->window.in_size;
    for (int i = 0; i < XCVM_WINDOW_AXES; i++) {
        const ptrdiff_t reach = (ptrdiff_t)((w->kernel[i] - 1) * w->dilation[i]);
        w->in[i] = s->window.out[i];
        w->out[i] = s->window.in[i];
        w->pad[i] = reach - s->window.pad[i];
        w->pad_end[i] = (ptrdiff_t)w->out[i] - (ptrdiff_t)w->in[i] + reach - w->pad[i];
        if (w->stride[i] != 1 || w->pad[i] < 0 || w->pad_end[i] < 0)
            return false;
    }
    /* Adding products up costs more the fewer channels were summed up before. */
    return xcvm_conv_choose(conv)->cost(conv) <= xcvm_conv_work(conv) * (1.0 + 16.0 / (double)(conv->channels + 1));
}

typedef struct turned_filters {
    const xcvm_kernel *k;
    const xcvm_conv_shape *shape; /* of the convolution */
    const float *from;
    float *to;
} turned_filters;

/* The filters of outputs [begin, end), of all groups. */
static void turn_filters(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const turned_filters *t = context;
    const size_t channels = t->shape->channels, outputs = t->shape->outputs, size = t->shape->window.kernel_size;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t i = begin; i < end && xcvm_poll_after(&poller, channels * size) == XCVM_OK; i++) {
        const float *from = t->from + (i / outputs * channels * outputs + i % outputs) * size;
        float *to = t->to + i * channels * size;
        for (size_t c = 0; c < channels; c++, from += outputs * size, to += size)
            for (size_t k = 0; k < size; k++)
                to[k] = from[size - 1 - k];
    }
}

static xcvm_status run_convolution(xcvm_kernel *k, const conv_transpose_loop *t, const xcvm_conv_shape *shape)
{
    const size_t filters = shape->group * shape->outputs, size = shape->channels * shape->window.kernel_size;
    float *turned = (float *)(void *)t->scratch;
    turned_filters turn = {k, shape, t->w, turned};
    XCVM_TRY(xcvm_kernel_parallel(k, filters, 65536 / (size + 1) + 1, turn_filters, &turn));
    const xcvm_conv c = {.shape = *shape, .x = t->x, .w = turned, .b = t->b, .y = t->y};
    return xcvm_conv_choose(shape)->run(k, &c,
                                        t->scratch + xcvm_round_up(filters * size * sizeof(float), XCVM_ALIGNMENT));
}

/* ---- Filters that are not finite ---- */

/* Ways that add zeros where nothing is to be added take finite filters alone: others times zero are no numbers. */
static bool all_finite(const xcvm_value *w)
{
    enum { CHUNK = 256 };
    float room[CHUNK], sum = 0.0f;
    const size_t count = xcvm_element_count(w);
    for (size_t at = 0; at < count; at += CHUNK) {
        const size_t some = xcvm_min(count - at, CHUNK);
        const float *x = room;
        if (w->dtype == XCVM_F32)
            x = (const float *)w->data + at;
        else
            xcvm_halves_load((xcvm_dtype)w->dtype, w->data, at, some, room);
        for (size_t i = 0; i < some; i++)
            sum += x[i] * 0.0f;
    }
    return sum == 0.0f;
}

/* ---- The kernel ---- */

XCVM_KERNEL(ConvTranspose)
{
    int64_t room[2 * XCVM_MAX_RANK];
    conv_transpose_loop t = {.k = k,
                             .shape = xcvm_conv_shape_of(a->y, a->w, a->x, a->strides, xcvm_transposed_pads(a, room),
                                                         a->dilations, a->group)};
    const xcvm_conv_shape *s = &t.shape;
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    if (a->y->dtype == XCVM_F64)
        return xcvm_conv_transpose_f64(k, s, a);

    const int threads = xcvm_threads_count(k->threads);
    xcvm_conv_shape conv;
    const bool may_be_convolution = find_convolution(s, &conv);
    const bool may_be_depthwise = !may_be_convolution && a->w->dtype == XCVM_F32 && xcvm_transposed_depthwise_fits(s);
    const bool finite = (may_be_convolution || may_be_depthwise) && all_finite(a->w);
    const bool is_convolution = may_be_convolution && finite, is_depthwise = may_be_depthwise && finite;
    size_t own;
    if (is_convolution) {
        own = xcvm_round_up(xcvm_element_count(a->w) * sizeof(float), XCVM_ALIGNMENT) +
              xcvm_conv_choose(&conv)->scratch(&conv, threads);
    } else if (is_depthwise) {
        own = xcvm_transposed_depthwise_scratch(s, threads);
    } else {
        choose_block(&t);
        /* Each thread should have a block, the last ones no less than the others. */
        const size_t share = (s->channels + (size_t)threads - 1) / (size_t)threads;
        if (s->batch * s->group < (size_t)threads && t.channels > share)
            t.channels = share;
        xcvm_gemm g = product_of(&t, t.channels, t.positions);
        t.scratch_bytes = xcvm_round_up(g.m * t.positions * sizeof(float), XCVM_ALIGNMENT) +
                          xcvm_round_up(xcvm_gemm_part_scratch(&g), XCVM_ALIGNMENT);
        own = t.scratch_bytes * (size_t)threads;
    }
    const size_t copies = xcvm_halves_copy_bytes(a->x) + xcvm_halves_copy_bytes(a->w) + xcvm_halves_copy_bytes(a->b) +
                          xcvm_halves_copy_bytes(a->y);
    char *at = xcvm_kernel_scratch(k, copies + own);
    if (at == NULL)
        return XCVM_OUT_OF_MEMORY;
    t.scratch = at + copies;
    t.x = xcvm_halves_as_floats(k, a->x, &at);
    t.w = xcvm_halves_as_floats(k, a->w, &at);
    t.b = xcvm_halves_as_floats(k, a->b, &at);
    t.y = a->y->dtype == XCVM_F32 ? a->y->data : (void *)at;
    const xcvm_transposed_depthwise depthwise = {*s, t.x, t.w, t.b, t.y};
    if (is_convolution)
        XCVM_TRY(run_convolution(k, &t, &conv));
    else if (is_depthwise)
        XCVM_TRY(xcvm_transposed_depthwise_run(k, &depthwise, t.scratch));
    else
        XCVM_TRY(run_products(k, &t));
    return a->y->dtype != XCVM_F32 ? xcvm_halves_store_all(k, t.y, a->y) : XCVM_OK;
}
