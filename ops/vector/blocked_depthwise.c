/* Convolutions of each channel by itself, channels in blocks: rows of x are copied with their padding into a ring of
 * those that a window meets, and runs of output pixels summed up in registers. */
#include "ops/vector/activation.h"
#include "ops/vector/blocked_conv.h"

enum {
    BLOCK = XCVM_CHANNEL_BLOCK,
    VECTORS = XCVM_BLOCK_VECTORS,
/* Pixels that are summed up at a time. */
#if XCVM_LANES == 16 || defined(__aarch64__)
    RUN = 8,
#else
    RUN = 6,
#endif
    /* Floats of a ring at most. */
    LARGEST_RING = 4 * 1024 * 1024,
    THREAD_WORK = 100 * 1000
};

typedef struct work {
    const xcvm_kernel *k;
    const xcvm_blocked_conv *c;
    float *scratch;
    size_t ring_rows, pitch; /* pitch: pixels of a row */
    uint32_t status;         /* atomic */
} work;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* ---- The ring ---- */

/* Row `row` of image and padding, of the plane of blocks at x. */
static void copy_row(const work *r, const float *x, size_t row, float *to)
{
    const xcvm_blocked_conv *c = r->c;
    const size_t left = least(c->pad[1], r->pitch), right = least(c->in[1] + c->pad[1], r->pitch);
    if (row < c->pad[0] || row - c->pad[0] >= c->in[0] || right <= left) {
        memset(to, 0, r->pitch * BLOCK * sizeof *to);
        return;
    }
    const float *from = x + (row - c->pad[0]) * c->in[1] * BLOCK;
    memset(to, 0, left * BLOCK * sizeof *to);
    float *at = to + left * BLOCK;
    for (size_t i = 0; i < (right - left) * BLOCK; i += XCVM_LANES)
        xcvm_lanes_store(at + i, xcvm_lanes_load(from + i));
    memset(to + right * BLOCK, 0, (r->pitch - right) * BLOCK * sizeof *to);
}

/* ---- Sums ---- */

typedef struct row_sum {
    const float *ring;
    size_t ring_row, ring_rows, ring_floats; /* the first row that a window meets; floats of a row */
    const xcvm_blocked_conv *c;
    const float *w; /* of the block */
    xcvm_lanes start[VECTORS];
} row_sum;

/* Pixels [at, at + pixels) of an output row; columns, stride and dilation of the window are constants where that pays.
 */
XCVM_TILE_FUNCTION void sum_run(const row_sum *g, const size_t columns, const size_t stride, const size_t dilation,
                                const size_t pixels, size_t at, const float *z, float *y)
{
    const xcvm_blocked_conv *c = g->c;
    const xcvm_lanes low = xcvm_lanes_all(c->activation.low), high = xcvm_lanes_all(c->activation.high);
    for (size_t v = 0; v < VECTORS; v++) {
        xcvm_lanes sum[RUN];
        const float *w = g->w + v * XCVM_LANES;
        size_t row = g->ring_row;
#pragma GCC unroll XCVM_UNROLL_8
        for (size_t p = 0; p < pixels; p++)
            sum[p] = g->start[v];
        for (size_t i = 0; i < c->kernel[0]; i++) {
            const float *from = g->ring + row * g->ring_floats + at * stride * BLOCK + v * XCVM_LANES;
#pragma GCC unroll XCVM_UNROLL_8
            for (size_t j = 0; j < columns; j++, w += BLOCK) {
                const xcvm_lanes filter = xcvm_lanes_load(w);
#pragma GCC unroll XCVM_UNROLL_8
                for (size_t p = 0; p < pixels; p++)
                    sum[p] += filter * xcvm_lanes_load(from + (p * stride + j * dilation) * BLOCK);
            }
            row += c->dilation[0];
            row -= row >= g->ring_rows ? g->ring_rows : 0;
        }
#pragma GCC unroll XCVM_UNROLL_8
        for (size_t p = 0; p < pixels; p++) {
            const size_t to = (at + p) * BLOCK + v * XCVM_LANES;
            if (z != NULL)
                sum[p] += xcvm_lanes_load(z + to);
            xcvm_lanes_store(y + to, xcvm_lanes_min(xcvm_lanes_max(sum[p], low), high));
        }
    }
}

#define RUN_OF(pixels)                                                                                                 \
    case pixels:                                                                                                       \
        if ((pixels) <= RUN)                                                                                           \
            sum_run(g, columns, stride, dilation, pixels, at, z, y);                                                   \
        break;

XCVM_INLINE void sum_row(const row_sum *g, const size_t columns, const size_t stride, const size_t dilation,
                         const float *z, float *y)
{
    const size_t width = g->c->out[1], runs = (width + RUN - 1) / RUN;
    for (size_t i = 0, at = 0; i < runs; i++) {
        const size_t end = (i + 1) * width / runs;
        switch (end - at) {
            RUN_OF(1)
            RUN_OF(2)
            RUN_OF(3)
            RUN_OF(4)
            RUN_OF(5)
            RUN_OF(6)
            RUN_OF(7)
            RUN_OF(8)
        default:
            break;
        }
        at = end;
    }
}

static void choose_row(const row_sum *g, const float *z, float *y)
{
    const size_t columns = g->c->kernel[1], stride = g->c->stride[1], dilation = g->c->dilation[1];
    if (dilation == 1 && columns == 3 && stride == 1)
        sum_row(g, 3, 1, 1, z, y);
    else if (dilation == 1 && columns == 3 && stride == 2)
        sum_row(g, 3, 2, 1, z, y);
    else if (dilation == 1 && columns == 5 && stride == 1)
        sum_row(g, 5, 1, 1, z, y);
    else if (dilation == 1 && columns == 5 && stride == 2)
        sum_row(g, 5, 2, 1, z, y);
    else
        sum_row(g, columns, stride, dilation, z, y);
}

/* Output rows [begin, end) of all blocks and images. */
static void run_rows(void *context, size_t begin, size_t end, int worker)
{
    work *r = context;
    const xcvm_blocked_conv *c = r->c;
    const size_t floats = r->pitch * BLOCK, taps = c->kernel[0] * c->kernel[1];
    const size_t reach = (c->kernel[0] - 1) * c->dilation[0] + 1;
    float *ring = r->scratch + (size_t)worker * r->ring_rows * floats;
    row_sum g = {.ring = ring, .ring_rows = r->ring_rows, .ring_floats = floats, .c = c};
    size_t next = 0; /* the first row that is not in the ring */
    for (size_t i = begin; i < end; i++) {
        const size_t row = i % c->out[0], plane = i / c->out[0], block = plane % c->outputs;
        if (row == 0 || i == begin) {
            const xcvm_status status = xcvm_kernel_poll(r->k);
            if (status != XCVM_OK) {
                __atomic_store_n(&r->status, (uint32_t)status, __ATOMIC_RELAXED);
                return;
            }
            next = 0;
            g.w = (const float *)c->w + block * taps * BLOCK;
            for (size_t v = 0; v < VECTORS; v++)
                g.start[v] = c->b != NULL ? xcvm_lanes_load(c->b + block * BLOCK + v * XCVM_LANES) : (xcvm_lanes){0};
        }
        const size_t top = row * c->stride[0];
        for (next = next < top ? top : next; next < top + reach; next++)
            copy_row(r, c->x + plane * c->in[0] * c->in[1] * BLOCK, next, ring + next % r->ring_rows * floats);
        g.ring_row = top % r->ring_rows;
        const size_t at = i * c->out[1] * BLOCK;
        choose_row(&g, c->z != NULL ? c->z + at : NULL, c->y + at);
        if (c->activation.kind != XCVM_ACTIVATION_none)
            xcvm_activate_row(&c->activation, c->y + at, c->out[1] * BLOCK);
    }
}

xcvm_status xcvm_blocked_depthwise(xcvm_kernel *k, const xcvm_blocked_conv *c)
{
    const double rows = (double)(c->kernel[0] - 1) * (double)c->dilation[0] + 1.0;
    const double pitch =
        (double)(c->out[1] - 1) * (double)c->stride[1] + (double)(c->kernel[1] - 1) * (double)c->dilation[1] + 1.0;
    if (rows * pitch * BLOCK > LARGEST_RING)
        return xcvm_blocked_definition(k, c);
    work r = {.k = k, .c = c, .ring_rows = (size_t)rows, .pitch = (size_t)pitch};
    const size_t threads = (size_t)xcvm_threads_count(k->threads);
    r.scratch = xcvm_kernel_scratch(k, threads * r.ring_rows * r.pitch * BLOCK * sizeof(float));
    if (r.scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    const double each = (double)(c->out[1] * BLOCK) * (double)(c->kernel[0] * c->kernel[1] + 4);
    const size_t grain = each > THREAD_WORK ? 1 : (size_t)(THREAD_WORK / each) + 1;
    xcvm_parallel(k->threads, c->batch * c->outputs * c->out[0], grain, run_rows, &r);
    return (xcvm_status)r.status;
}
