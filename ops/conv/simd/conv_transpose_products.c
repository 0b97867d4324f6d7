/* Transposed convolution by products: the transposed filters times the image give the contributions of each input
 * position to the outputs in its window, which are then scattered and added, block by block. */
#include "ops/conv/simd/conv_transpose.h"
#include "ops/util/grain.h"
#include "ops/matmul/simd/gemm.h"

enum {
    BLOCK = 192 * 1024, /* floats of a block of the product */
    THREAD_WORK = 200 * 1000
};

/* Size of a block. */
typedef struct block {
    size_t channels, positions; /* of y and of x */
    size_t scratch_bytes;       /* of one worker: the product, then its scratch */
} block;

static size_t product_bytes(const xcvm_conv_shape *s, const block *b)
{
    return xcvm_round_up(b->channels * s->window.kernel_size * b->positions * sizeof(float), XCVM_ALIGNMENT);
}

static xcvm_gemm product_of(const xcvm_conv_shape *s, size_t channels, size_t positions)
{
    xcvm_gemm g = {.m = channels * s->window.kernel_size, .n = positions, .k = s->outputs, .alpha = 1.0f};
    g.a_row = 1;
    g.a_column = s->channels * s->window.kernel_size;
    g.b_row = s->window.out_size;
    g.b_column = 1;
    g.c_row = positions;
    g.c_column = 1;
    return g;
}

static block block_of(const xcvm_conv_shape *s, int threads)
{
    const xcvm_window *w = &s->window;
    size_t positions = BLOCK / w->kernel_size / XCVM_GEMM_PANEL * XCVM_GEMM_PANEL;
    positions = positions < XCVM_GEMM_PANEL ? XCVM_GEMM_PANEL : positions;
    positions = positions < w->out_size ? positions : w->out_size;
    size_t channels = BLOCK / (w->kernel_size * positions);
    channels = channels < 1 ? 1 : channels;
    channels = channels < s->channels ? channels : s->channels;
    /* Every thread should have a block, and the last ones should not be smaller. */
    const size_t share = (s->channels + (size_t)threads - 1) / (size_t)threads;
    if (s->batch * s->group < (size_t)threads && channels > share)
        channels = share;
    block b = {.channels = channels, .positions = positions};
    const xcvm_gemm g = product_of(s, channels, positions);
    b.scratch_bytes = product_bytes(s, &b) + xcvm_round_up(xcvm_gemm_part_scratch(&g), XCVM_ALIGNMENT);
    return b;
}

typedef struct conv_transpose_loop {
    const xcvm_kernel *k;
    const xcvm_transposed *t;
    block block;
    char *scratch;
    uint32_t status; /* atomic */
} conv_transpose_loop;

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

/* Computes channels [first, last) of item `item`, a group of an image. */
static xcvm_status run_block(const conv_transpose_loop *l, size_t item, size_t first, size_t last, char *scratch)
{
    const xcvm_transposed *t = l->t;
    const xcvm_conv_shape *s = &t->shape;
    const xcvm_window *w = &s->window;
    const size_t group = item % s->group, positions = l->block.positions;
    float *y = t->y + (item * s->channels + first) * w->in_size;
    xcvm_poller poller = xcvm_poller_of(l->k);
    for (size_t c = first; c < last; c++) {
        XCVM_TRY(xcvm_poll_after(&poller, w->in_size));
        for (size_t i = 0; i < w->in_size; i++)
            y[(c - first) * w->in_size + i] = t->b != NULL ? t->b[group * s->channels + c] : 0.0f;
    }
    float *products = (float *)(void *)scratch;
    for (size_t n = 0; n < w->out_size; n += positions) {
        const size_t count = w->out_size - n < positions ? w->out_size - n : positions;
        xcvm_gemm g = product_of(s, last - first, count);
        g.a = t->w + (group * s->outputs * s->channels + first) * w->kernel_size;
        g.b = t->x + item * s->outputs * w->out_size + n;
        g.c = products;
        XCVM_TRY(xcvm_gemm_part(l->k, &g, 0, g.m, 0, g.n, scratch + product_bytes(s, &l->block)));
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
    conv_transpose_loop *l = context;
    const size_t channels = l->t->shape.channels, step = l->block.channels, blocks = (channels + step - 1) / step;
    for (size_t i = begin; i < end; i++) {
        const size_t first = i % blocks * step, last = channels - first < step ? channels : first + step;
        const xcvm_status status =
            run_block(l, i / blocks, first, last, l->scratch + (size_t)worker * l->block.scratch_bytes);
        if (status != XCVM_OK) {
            __atomic_store_n(&l->status, (uint32_t)status, __ATOMIC_RELAXED);
            return;
        }
    }
}

static bool fits(const xcvm_conv_shape *s)
{
    (void)s;
    return true;
}

static size_t scratch_of(const xcvm_conv_shape *s, int threads)
{
    return block_of(s, threads).scratch_bytes * (size_t)threads;
}

static xcvm_status run_products(const xcvm_kernel *k, const xcvm_transposed *t, void *scratch)
{
    const xcvm_conv_shape *s = &t->shape;
    conv_transpose_loop l = {.k = k, .t = t, .block = block_of(s, xcvm_threads_count(k->threads)), .scratch = scratch};
    const size_t channels = l.block.channels, blocks = s->batch * s->group * ((s->channels + channels - 1) / channels);
    const double work = (double)(channels * s->window.kernel_size) * (double)s->outputs * (double)s->window.out_size;
    xcvm_parallel(k->threads, blocks, xcvm_grain(THREAD_WORK, work), run_blocks, &l);
    return (xcvm_status)l.status;
}

const xcvm_transposed_algorithm xcvm_transposed_products = {fits, false, false, scratch_of, run_products};
