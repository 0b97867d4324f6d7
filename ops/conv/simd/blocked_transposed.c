/* BlockedConvTranspose. Outputs a stride apart use the same window positions, every stride-th one. So each of the
 * stride * stride phases is a plain convolution with a part of the filters. Its results are a stride apart in y, and
 * nothing accumulates in memory.
 *
 * Work items are bands of each phase's rows for some blocks of outputs. If windows reach beyond the image, the band's
 * part of it is first copied with zero padding. Steps are processed in portions, as in blocked_direct.c. */
#include "ops/elementwise/simd/activation_rows.h"
#include "ops/conv/simd/blocked_bands.h"

enum {
    BLOCK = XCVM_CHANNEL_BLOCK,
    PORTION = 9 * 1024, /* floats of the filters of a portion of steps: 36 KB */
    BAND = 96 * 1024    /* floats of x that a band accesses */
};

typedef struct plan {
    bool copied;
    xcvm_bands bands; /* rows of the largest phase */
    size_t width;     /* columns of the largest phase */
    size_t in_blocks;
    size_t back[2], reach[2]; /* distance between the first and the last position of an output; of all phases */
    ptrdiff_t start[2];       /* first position of x that the first outputs of the phases read */
    size_t pitch, in_rows, block_floats; /* layout of the input of the products */
    size_t copy_floats, room_floats;     /* scratch floats per thread; for filters, if not f32 */
} plan;

typedef struct blocked_transposed_loop {
    xcvm_kernel *k;
    const xcvm_blocked_conv *c;
    plan plan;
    float *scratch;
    uint32_t status; /* atomic */
} blocked_transposed_loop;

/* Outputs first, first + stride, ... of an axis. Output t uses position t + shift - j of x with tap j of the phase,
 * which is window position r + j * stride. */
typedef struct phase {
    size_t first, count, shift;
    size_t taps, before; /* and taps of phases packed before it */
} phase;

static phase phase_of(const xcvm_blocked_conv *c, int axis, size_t first)
{
    const size_t stride = c->stride[axis], kernel = c->kernel[axis], r = (first + c->pad[axis]) % stride;
    return (phase){.first = first,
                   .count = (c->out[axis] - first - 1) / stride + 1,
                   .shift = (first + c->pad[axis]) / stride,
                   .taps = r < kernel ? (kernel - r - 1) / stride + 1 : 0,
                   .before = kernel / stride * r + xcvm_min(kernel % stride, r)};
}

static size_t phases_along(const xcvm_blocked_conv *c, int axis) { return xcvm_min(c->stride[axis], c->out[axis]); }

/* Returns false on overflow. */
static bool make_plan(const xcvm_blocked_conv *c, size_t threads, plan *p)
{
    *p = (plan){.in_blocks = xcvm_ceil_div(c->channels, BLOCK)};
    size_t largest[2];
    for (int i = 0; i < 2; i++) {
        const phase first = phase_of(c, i, 0), last = phase_of(c, i, phases_along(c, i) - 1);
        largest[i] = first.count;
        p->back[i] = (c->kernel[i] - 1) / c->stride[i];
        p->start[i] = (ptrdiff_t)first.shift - (ptrdiff_t)p->back[i];
        p->reach[i] = last.shift - first.shift + p->back[i];
        p->copied = p->copied || p->start[i] < 0 || first.shift + p->reach[i] - p->back[i] + largest[i] > c->in[i];
    }
    p->bands = xcvm_bands_of(c, largest[0]);
    p->width = largest[1];
    p->pitch = p->copied ? p->width + p->reach[1] : c->in[1];
    size_t row, floats;
    if (__builtin_mul_overflow(p->pitch, p->in_blocks * BLOCK, &row))
        return false;
    const size_t most = row < BAND / 2 ? BAND / row : 1;
    xcvm_bands_cut(&p->bands, most > p->reach[0] + 1 ? most - p->reach[0] : 1, threads);
    p->in_rows = p->copied ? xcvm_bands_rows(&p->bands) + p->reach[0] : c->in[0];
    p->block_floats = p->pitch * p->in_rows * BLOCK;
    if (__builtin_mul_overflow(row, p->in_rows, &floats) || floats > SIZE_MAX / 2)
        return false;
    p->copy_floats = p->copied ? floats : 0;
    p->room_floats = xcvm_dtype_in(c->w_dtype, XCVM_TYPES_NARROW) ? PORTION : 0;
    return true;
}

/* Copies rows from row `top` of the image. Rows and columns may be outside it. */
static void copy_band(const xcvm_blocked_conv *c, const plan *p, const float *x, ptrdiff_t top, float *to)
{
    const ptrdiff_t start = p->start[1], width = (ptrdiff_t)c->in[1], pitch = (ptrdiff_t)p->pitch;
    const ptrdiff_t from = start < 0 ? 0 : start < width ? start : width;
    const ptrdiff_t end = start + pitch < from ? from : start + pitch < width ? start + pitch : width;
    const size_t left = end > from ? (size_t)(from - start) : 0, middle = (size_t)(end - from);
    for (size_t block = 0; block < p->in_blocks; block++, x += c->in[0] * c->in[1] * BLOCK)
        for (size_t i = 0; i < p->in_rows; i++, to += p->pitch * BLOCK) {
            const ptrdiff_t row = top + (ptrdiff_t)i;
            if (row < 0 || row >= (ptrdiff_t)c->in[0] || middle == 0) {
                memset(to, 0, p->pitch * BLOCK * sizeof *to);
                continue;
            }
            memset(to, 0, left * BLOCK * sizeof *to);
            memcpy(to + left * BLOCK, x + (row * width + from) * BLOCK, middle * BLOCK * sizeof *to);
            memset(to + (left + middle) * BLOCK, 0, (p->pitch - left - middle) * BLOCK * sizeof *to);
        }
}

/* Sets steps [from, to) of the product. Returns the floats of w that they use. */
static size_t set_steps(const xcvm_blocked_conv *c, const plan *p, const phase at[2], size_t from, size_t to,
                        xcvm_blocked_product *g)
{
    const size_t taps = at[0].taps * at[1].taps;
    const size_t row = at[0].shift - phase_of(c, 0, 0).shift + p->back[0];
    const size_t column = at[1].shift - phase_of(c, 1, 0).shift + p->back[1];
    size_t floats = 0;
    xcvm_blocked_clear_steps(g);
    for (size_t step = from; step < to; step++) {
        const size_t block = step / taps, i = step % taps / at[1].taps, j = step % at[1].taps;
        const size_t length = xcvm_min(c->channels - block * BLOCK, BLOCK);
        xcvm_blocked_add_step(g, step,
                              (ptrdiff_t)(block * p->block_floats + ((row - i) * p->pitch + column - j) * BLOCK),
                              floats, length);
        floats += length * BLOCK;
    }
    return floats;
}

static void activate_run(const xcvm_blocked_conv *c, const xcvm_blocked_product *g, float *y, size_t count)
{
    for (size_t block = 0; block < g->blocks; block++)
        for (size_t i = 0; i < count; i++)
            xcvm_activate_row(&c->activation, y + block * g->y_block + i * g->y_spacing, BLOCK);
}

/* Computes rows [first, last) of one phase, whose filters begin at element `filter` of w. They are read in order, so
 * the hardware prefetches them. */
static xcvm_status multiply_phase(xcvm_poller *poller, const xcvm_blocked_conv *c, const plan *p, const phase at[2],
                                  const float *x, float *y, xcvm_blocked_product *g, size_t first, size_t last,
                                  size_t filter, float *room)
{
    const size_t w_block = c->channels * c->kernel[0] * c->kernel[1] * BLOCK;
    const xcvm_blocked_filters w = {c->w, c->w_dtype, w_block};
    const size_t rows = last - first, width = at[1].count, steps = p->in_blocks * at[0].taps * at[1].taps;
    const size_t fitting = PORTION / (BLOCK * BLOCK * g->blocks);
    const size_t most =
        rows * width <= 4 && p->room_floats == 0 ? XCVM_PRODUCT_STEPS : xcvm_min(fitting, XCVM_PRODUCT_STEPS);
    g->chain = xcvm_blocked_chain(steps, BLOCK, XCVM_PRODUCT_CHAIN);
    const size_t fewest = xcvm_blocked_portions(steps, g->chain, most), portions = fewest > 1 ? fewest : 1;
    for (size_t i = 0; i < portions; i++) {
        const size_t floats = set_steps(c, p, at, xcvm_blocked_portion(steps, g->chain, portions, i),
                                        xcvm_blocked_portion(steps, g->chain, portions, i + 1), g);
        g->resume = i > 0;
        g->clamp = i + 1 == portions;
        xcvm_blocked_take(g, &w, filter, floats, room);
        filter += floats;
        for (size_t row = 0; row < rows; row++) {
            XCVM_TRY(xcvm_poll_after(poller, width * (1 + g->step_count)));
            float *to = y + (at[0].first + (first + row) * c->stride[0]) * c->out[1] * BLOCK + at[1].first * BLOCK;
            xcvm_blocked_multiply(g, x + row * p->pitch * BLOCK, NULL, to, width);
            if (g->clamp && c->activation.kind != XCVM_ACTIVATION_none)
                activate_run(c, g, to, width);
        }
    }
    return XCVM_OK;
}

/* Computes the band's rows of all phases. x is the first position that the first row's windows read. */
static xcvm_status multiply_band(const blocked_transposed_loop *r, const float *x, const xcvm_band *b, float *room)
{
    const xcvm_blocked_conv *c = r->c;
    const size_t plane = c->out[0] * c->out[1] * BLOCK, taps = c->kernel[0] * c->kernel[1];
    const size_t columns = phases_along(c, 1), phases = phases_along(c, 0) * columns;
    float *y = c->y + (b->image * c->outputs + b->output) * plane;
    xcvm_blocked_product g = {.blocks = b->blocks,
                              .spacing = BLOCK,
                              .y_spacing = c->stride[1] * BLOCK,
                              .y_block = plane,
                              .b = c->b != NULL ? c->b + b->output * BLOCK : NULL,
                              .low = c->activation.low,
                              .high = c->activation.high};
    xcvm_poller poller = xcvm_poller_of(r->k);
    for (size_t i = 0; i < phases; i++) {
        const phase at[] = {phase_of(c, 0, i / columns), phase_of(c, 1, i % columns)};
        const size_t before = at[0].before * c->kernel[1] + at[0].taps * at[1].before;
        if (b->first < at[0].count)
            XCVM_TRY(multiply_phase(&poller, c, &r->plan, at, x, y, &g, b->first, xcvm_min(b->last, at[0].count),
                                    (b->output * taps + before) * c->channels * BLOCK, room));
    }
    return xcvm_kernel_poll(r->k);
}

static void run_items(void *context, size_t begin, size_t end, int worker)
{
    blocked_transposed_loop *r = context;
    const xcvm_blocked_conv *c = r->c;
    const plan *p = &r->plan;
    float *copy = r->scratch != NULL ? r->scratch + (size_t)worker * (p->copy_floats + p->room_floats) : NULL;
    float *room = copy != NULL ? copy + p->copy_floats : NULL;
    size_t copied = SIZE_MAX;
    for (size_t item = begin; item < end; item++) {
        const xcvm_band b = xcvm_bands_at(&p->bands, item);
        const float *x = c->x + b.image * p->in_blocks * c->in[0] * c->in[1] * BLOCK;
        const ptrdiff_t top = (ptrdiff_t)b.first + p->start[0];
        if (!p->copied) {
            x += (top * (ptrdiff_t)c->in[1] + p->start[1]) * BLOCK;
        } else {
            if (copied != b.place)
                copy_band(c, p, x, top, copy);
            copied = b.place;
            x = copy;
        }
        const xcvm_status status = multiply_band(r, x, &b, room);
        if (status != XCVM_OK) {
            __atomic_store_n(&r->status, (uint32_t)status, __ATOMIC_RELAXED);
            return;
        }
    }
}

static xcvm_status convolve(xcvm_kernel *k, const xcvm_blocked_conv *c)
{
    const size_t threads = (size_t)xcvm_threads_count(k->threads);
    blocked_transposed_loop r = {.k = k, .c = c};
    size_t bytes = 0;
    const plan *p = &r.plan;
    if (!make_plan(c, threads, &r.plan) ||
        __builtin_mul_overflow(p->copy_floats + p->room_floats, threads * sizeof(float), &bytes))
        return XCVM_OUT_OF_MEMORY;
    if (bytes > 0) {
        r.scratch = xcvm_kernel_scratch(k, bytes);
        if (r.scratch == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    const double work = (double)(c->outputs * BLOCK) * (double)c->in[0] * (double)c->in[1] * (double)c->channels *
                        (double)(c->kernel[0] * c->kernel[1]);
    xcvm_parallel(k->threads, xcvm_bands_count(&p->bands), xcvm_bands_grain(&p->bands, work), run_items, &r);
    return (xcvm_status)r.status;
}

XCVM_KERNEL(BlockedConvTranspose)
{
    const xcvm_value *x = a->x, *w = a->w, *y = a->y;
    if (xcvm_element_count(y) == 0)
        return XCVM_OK;
    xcvm_blocked_conv c = {.batch = (size_t)x->dims[0],
                           .group = 1,
                           .channels = (size_t)w->dims[1],
                           .outputs = (size_t)w->dims[0],
                           .x = x->data,
                           .w = w->data,
                           .w_dtype = (xcvm_dtype)w->dtype,
                           .b = a->b != NULL ? a->b->data : NULL,
                           .y = y->data,
                           .activation = xcvm_activation_of(a->activation, a->activation_params)};
    c.out[XCVM_BLOCKED_DEPTH] = 1;
    for (int i = 0; i < 2; i++) {
        c.in[i] = (size_t)x->dims[2 + i];
        c.out[i] = (size_t)y->dims[2 + i];
        c.kernel[i] = (size_t)w->dims[2 + i];
        c.stride[i] = (size_t)a->strides.at[i];
        c.pad[i] = (size_t)a->pads.at[i];
    }
    return convolve(k, &c);
}
