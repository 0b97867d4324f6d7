/* Winograd convolution with 3 x 3 windows (winograd.h): 36 products over the channels between transforms.
 *
 * With many tiles and few channels, the filters are transformed once, and each thread takes blocks of tiles whose data
 * stay in its cache. Otherwise all threads transform a block of tiles, and then each takes blocks of filters. These are
 * transformed again for each block of tiles, because reading four times as much from memory would take longer. */
#include "ops/conv/simd/winograd.h"

enum {
    POINTS = XCVM_WINOGRAD_POINTS,
    CHUNK = XCVM_WINOGRAD_CHUNK,
    /* Maximum floats of transformed filters that are kept. */
    KEPT_FILTERS = 1280 * 1024,
    /* Floats of the transformed tiles of a block: of one thread, and shared by all. */
    OWN_BLOCK = 160 * 1024,
    SHARED_BLOCK = 1024 * 1024,
    /* Minimum tiles of a shared block, if available: fewer do not amortize the transforms of filters. */
    LEAST_TILES = 64,
    /* Padding between the matrices of points, which are accessed together, to avoid conflicts in a cache set. */
    GAP = 16,
    THREAD_WORK = 400 * 1000
};

/* Partition of a convolution into blocks. */
typedef struct plan {
    size_t rows, columns, tiles; /* tiles per column and row; tiles of all images */
    bool kept;                   /* filters are transformed once */
    size_t block, filters;       /* tiles and filters of a block */
    size_t depth;                /* floats of the transformed channels of a filter */
    /* Floats between the matrices of points. */
    size_t input_stride, filter_stride, product_stride;
} plan;

static size_t round_down(size_t n, size_t multiple) { return n / multiple * multiple; }

static plan plan_of(const xcvm_conv_shape *s)
{
    const xcvm_window *w = &s->window;
    plan p = {.rows = (w->out[1] + XCVM_WINOGRAD_TILE - 1) / XCVM_WINOGRAD_TILE,
              .columns = (w->out[2] + XCVM_WINOGRAD_TILE - 1) / XCVM_WINOGRAD_TILE};
    p.tiles = s->batch * p.rows * p.columns;
    p.depth = xcvm_round_up(s->channels, XCVM_LANES);
    p.kept = p.tiles >= 4 * CHUNK && s->outputs * p.depth <= KEPT_FILTERS / POINTS;
    const size_t fitting = round_down((size_t)(p.kept ? OWN_BLOCK : SHARED_BLOCK) / POINTS / s->channels, XCVM_LANES);
    const size_t least = p.kept ? CHUNK : LEAST_TILES, most = fitting > least ? fitting : least;
    const size_t blocks = (p.tiles + most - 1) / most;
    p.block = p.kept ? round_down(most, CHUNK) : xcvm_round_up((p.tiles + blocks - 1) / blocks, XCVM_LANES);
    p.filters = p.kept || p.depth <= 128 ? 32 : 16;
    p.input_stride = xcvm_gemm_packed_size(s->channels, p.block) + GAP;
    p.filter_stride = (p.kept ? s->outputs : p.filters) * p.depth + GAP;
    p.product_stride = p.filters * p.block + GAP;
    return p;
}

static size_t inputs_bytes(const plan *p) { return POINTS * p->input_stride * sizeof(float); }
static size_t filters_bytes(const plan *p) { return POINTS * p->filter_stride * sizeof(float); }
static size_t products_bytes(const plan *p) { return POINTS * p->product_stride * sizeof(float); }

typedef struct conv_winograd_loop {
    const xcvm_kernel *k;
    const xcvm_conv_shape *shape;
    xcvm_winograd winograd;
    plan plan;
    size_t first, count; /* tiles of the shared block */
    char *shared;        /* kept filters, else transformed inputs */
    char *own;           /* memory of each worker */
    size_t own_bytes;
    uint32_t status; /* atomic */
} conv_winograd_loop;

/* Transforms inputs of tiles [first, first + count), channels [begin, end), to panels. */
static void transform_inputs(const conv_winograd_loop *r, size_t first, size_t count, size_t begin, size_t end,
                             float *inputs)
{
    xcvm_poller poller = xcvm_poller_of(r->k);
    for (size_t at = 0; at < count; at += CHUNK) {
        const size_t span = count - at < CHUNK ? count - at : CHUNK;
        const size_t width = xcvm_gemm_panel_width(at, count);
        for (size_t c = begin; c < end && xcvm_poll_after(&poller, span) == XCVM_OK; c++)
            xcvm_winograd_inputs(&r->winograd, c, first + at, span, inputs + at * r->shape->channels + c * width,
                                 r->plan.input_stride);
    }
}

/* Multiplies filters [filter, filter + filter_count), transformed at `filters`, by tiles [first, first + count). */
static void multiply_block(const conv_winograd_loop *r, size_t first, size_t count, const float *inputs, size_t filter,
                           size_t filter_count, const float *filters, float *products)
{
    const plan *p = &r->plan;
    const size_t columns = xcvm_round_up(count, XCVM_LANES);
    for (size_t point = 0; point < POINTS && xcvm_kernel_poll(r->k) == XCVM_OK; point++)
        xcvm_gemm_panels(filter_count, columns, r->shape->channels, filters + point * p->filter_stride, p->depth,
                         inputs + point * p->input_stride, products + point * p->product_stride, p->block);
    for (size_t i = 0; i < filter_count; i++)
        for (size_t at = 0; at < count; at += CHUNK)
            xcvm_winograd_outputs(&r->winograd, filter + i, first + at, count - at < CHUNK ? count - at : CHUNK,
                                  products + i * p->block + at, p->product_stride);
}

static bool stopped(conv_winograd_loop *r)
{
    if (__atomic_load_n(&r->status, __ATOMIC_RELAXED) != XCVM_OK)
        return true;
    const xcvm_status status = xcvm_kernel_poll(r->k);
    if (status != XCVM_OK)
        __atomic_store_n(&r->status, (uint32_t)status, __ATOMIC_RELAXED);
    return status != XCVM_OK;
}

/* ---- Kept filters ---- */

static void transform_filters(void *context, size_t begin, size_t end, int worker)
{
    conv_winograd_loop *r = context;
    float *filters = (float *)(void *)r->shared;
    (void)worker;
    for (size_t i = begin; i < end && (i % 16 != 0 || !stopped(r)); i++)
        xcvm_winograd_filters(&r->winograd, i, filters + i * r->plan.depth, r->plan.filter_stride);
}

static void run_tiles(void *context, size_t begin, size_t end, int worker)
{
    conv_winograd_loop *r = context;
    const plan *p = &r->plan;
    const float *filters = (const float *)(const void *)r->shared;
    float *inputs = (float *)(void *)(r->own + (size_t)worker * r->own_bytes);
    float *products = inputs + POINTS * p->input_stride;
    for (size_t block = begin; block < end; block++) {
        const size_t first = block * p->block;
        const size_t count = p->tiles - first < p->block ? p->tiles - first : p->block;
        transform_inputs(r, first, count, 0, r->shape->channels, inputs);
        for (size_t i = 0; i < r->shape->outputs; i += p->filters) {
            if (stopped(r))
                return;
            const size_t left = r->shape->outputs - i;
            multiply_block(r, first, count, inputs, i, left < p->filters ? left : p->filters, filters + i * p->depth,
                           products);
        }
    }
}

/* ---- Shared tiles ---- */

static void transform_channels(void *context, size_t begin, size_t end, int worker)
{
    const conv_winograd_loop *r = context;
    (void)worker;
    transform_inputs(r, r->first, r->count, begin, end, (float *)(void *)r->shared);
}

static void run_filters(void *context, size_t begin, size_t end, int worker)
{
    conv_winograd_loop *r = context;
    const plan *p = &r->plan;
    float *filters = (float *)(void *)(r->own + (size_t)worker * r->own_bytes);
    float *products = filters + POINTS * p->filter_stride;
    for (size_t block = begin; block < end && !stopped(r); block++) {
        const size_t first = block * p->filters, left = r->shape->outputs - first;
        const size_t count = left < p->filters ? left : p->filters;
        for (size_t i = 0; i < count; i++)
            xcvm_winograd_filters(&r->winograd, first + i, filters + i * p->depth, p->filter_stride);
        multiply_block(r, r->first, r->count, (const float *)(const void *)r->shared, first, count, filters, products);
    }
}

/* ---- The algorithm ---- */

static bool fits(const xcvm_conv_shape *s)
{
    const xcvm_window *w = &s->window;
    if (w->kernel[0] != 1 || w->in[0] != 1 || w->out[0] != 1 || w->pad[0] != 0)
        return false;
    for (int i = 1; i < XCVM_WINDOW_AXES; i++)
        if (w->kernel[i] != 3 || w->stride[i] != 1 || w->dilation[i] != 1)
            return false;
    return s->channels >= 8 && s->outputs >= 8;
}

/* Cost of the products. Each transformed number counts as several multiply-adds, by measurement. */
static double cost(const xcvm_conv_shape *s)
{
    const plan p = plan_of(s);
    const double tiles = (double)xcvm_round_up(p.tiles, XCVM_LANES), outputs = (double)s->outputs;
    const double channels = (double)s->channels;
    const double blocks = p.kept ? 1.0 : (double)((p.tiles + p.block - 1) / p.block);
    const double products = POINTS * tiles * outputs * channels;
    const double transforms = POINTS * (12.0 * tiles * (channels + outputs) + 10.0 * blocks * outputs * channels);
    return (double)s->group * (products + transforms);
}

static size_t own_bytes(const plan *p)
{
    return xcvm_round_up((p->kept ? inputs_bytes(p) : filters_bytes(p)) + products_bytes(p), XCVM_ALIGNMENT);
}

static size_t shared_bytes(const plan *p)
{
    return xcvm_round_up(p->kept ? filters_bytes(p) : inputs_bytes(p), XCVM_ALIGNMENT);
}

static size_t scratch_bytes(const xcvm_conv_shape *s, int threads)
{
    const plan p = plan_of(s);
    return shared_bytes(&p) + own_bytes(&p) * (size_t)threads;
}

static xcvm_status convolve(const xcvm_kernel *k, const xcvm_conv *c, void *scratch)
{
    const xcvm_conv_shape *s = &c->shape;
    conv_winograd_loop r = {.k = k, .shape = s, .plan = plan_of(s), .shared = scratch};
    const plan *p = &r.plan;
    xcvm_winograd_make(&r.winograd, c);
    r.own_bytes = own_bytes(p);
    r.own = r.shared + shared_bytes(p);
    const size_t grain = cost(s) > 2.0 * THREAD_WORK ? 1 : SIZE_MAX;
    for (r.winograd.group = 0; r.winograd.group < s->group && r.status == XCVM_OK; r.winograd.group++) {
        if (p->kept) {
            xcvm_parallel(k->threads, s->outputs, grain, transform_filters, &r);
            xcvm_parallel(k->threads, (p->tiles + p->block - 1) / p->block, grain, run_tiles, &r);
            continue;
        }
        for (r.first = 0; r.first < p->tiles && r.status == XCVM_OK; r.first += p->block) {
            r.count = p->tiles - r.first < p->block ? p->tiles - r.first : p->block;
            xcvm_parallel(k->threads, s->channels, grain, transform_channels, &r);
            xcvm_parallel(k->threads, (s->outputs + p->filters - 1) / p->filters, grain, run_filters, &r);
        }
    }
    return xcvm_kernel_poll(k);
}

const xcvm_conv_algorithm xcvm_conv_winograd = {fits, cost, scratch_bytes, convolve};
