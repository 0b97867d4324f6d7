/* Convolutions of blocked channels by their definition: each window position of each block of input channels is a step
 * of a product (blocked_product.h) over a row of output pixels.
 *
 * A band of output rows is made for some blocks of outputs at a time. If windows reach into the padding, or x is not
 * blocked, the band's part of x is copied first, with its padding. The steps are taken in portions whose filters stay
 * in the nearest cache while all pixels of the band meet them; sums wait in y meanwhile. */
#include "ops/vector/activation.h"
#include "ops/vector/blocked_product.h"

enum {
    BLOCK = XCVM_CHANNEL_BLOCK,
    /* Floats of the filters of a portion of steps: 36 KB. */
    PORTION = 9 * 1024,
    /* Floats of x that a band meets. */
    BAND = 96 * 1024,
    /* Floats of a copied band at most. */
    LARGEST_BAND = 16 * 1024 * 1024,
    /* Pixels whose results are activated before the next ones are computed; no tile has as many. */
    CHUNK = 48,
    THREAD_WORK = 400 * 1000
};

typedef struct plan {
    bool copied;
    size_t rows, width;                  /* of output pixels; one row if it is all the same */
    size_t bands, groups, per_group;     /* groups of blocks of outputs, of one group of channels */
    size_t in_blocks;                    /* of a group */
    size_t steps, length, last_length;   /* of all portions; channels of a step */
    size_t pixel, spacing;               /* floats of an input pixel, and between those that neighbours meet */
    size_t pitch, in_rows, block_floats; /* of the band: pixels of a row; rows; floats of a block of channels */
    size_t copy_floats, room_floats;     /* of scratch for each thread; room for filters that are halves */
} plan;

typedef struct work {
    const xcvm_kernel *k;
    const xcvm_blocked_conv *c;
    plan plan;
    float *scratch;
    uint32_t status; /* atomic */
} work;

static size_t ceil_div(size_t n, size_t by) { return (n + by - 1) / by; }
static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Positions from the first to the last that `count` outputs meet along an axis. */
static double reach(const xcvm_blocked_conv *c, int axis, size_t count)
{
    return (double)(count - 1) * (double)c->stride[axis] + (double)(c->kernel[axis] - 1) * (double)c->dilation[axis] +
           1.0;
}

/* Whether windows are dilated so that copies would hold much that they do not meet. */
static bool is_apart(const xcvm_blocked_conv *c)
{
    const bool dilated = (c->kernel[0] > 1 && c->dilation[0] > 1) || (c->kernel[1] > 1 && c->dilation[1] > 1);
    return dilated && (!c->plain || reach(c, 0, 1) * reach(c, 1, c->out[1]) * (double)c->channels > BAND);
}

/* False if a row of windows reaches over too much. */
static bool make_plan(const xcvm_blocked_conv *c, size_t threads, plan *p)
{
    const bool pointwise = c->kernel[0] == 1 && c->kernel[1] == 1;
    const bool padded = c->pad[0] != 0 || c->pad[1] != 0 || c->pad_end[0] != 0 || c->pad_end[1] != 0;
    const bool merged = pointwise && !padded && !c->plain && c->stride[0] == 1 && c->stride[1] == 1;
    *p = (plan){.copied = padded || c->plain,
                .rows = merged ? 1 : c->out[0],
                .width = merged ? c->out[0] * c->out[1] : c->out[1],
                .in_blocks = ceil_div(c->channels, BLOCK),
                .per_group = c->outputs / c->group,
                .pixel = c->plain ? c->channels : BLOCK};
    p->groups = ceil_div(p->per_group, XCVM_PRODUCT_BLOCKS);
    p->steps = p->in_blocks * c->kernel[0] * c->kernel[1];
    p->length = least(c->channels, BLOCK);
    p->last_length = c->channels - (p->in_blocks - 1) * BLOCK;
    p->spacing = p->pixel * c->stride[1];
    if (c->plain && c->dilation[1] == 1) {
        /* A row of the window is one step, as its pixels lie side by side. */
        p->steps = c->kernel[0];
        p->length = p->last_length = c->kernel[1] * c->channels;
    }
    /* Of a row of output pixels; for merged rows, of a pixel. */
    const double channels = (double)(p->in_blocks * p->pixel);
    const double one = merged ? channels : reach(c, 0, 1) * reach(c, 1, c->out[1]) * channels;
    if (p->copied && one > LARGEST_BAND)
        return false;
    const size_t units = merged ? p->width : p->rows;
    const double next = merged ? channels : (double)c->stride[0] * reach(c, 1, c->out[1]) * channels;
    const double fitting = one < BAND ? (BAND - one) / next + 1.0 : 1.0;
    const size_t most = fitting < (double)units ? (size_t)fitting : units;
    p->bands = ceil_div(units, most);
    /* Threads should have as much to do each. */
    const size_t items = c->batch * c->group * p->bands * p->groups;
    if (items % threads != 0 && items < 8 * threads)
        p->bands = least(ceil_div(p->bands, threads) * threads, units);
    const size_t rows = merged ? 1 : ceil_div(p->rows, p->bands);
    p->pitch = p->copied ? (size_t)reach(c, 1, c->out[1]) : c->in[1];
    p->in_rows = p->copied ? (size_t)reach(c, 0, rows) : c->in[0];
    p->block_floats = p->pitch * p->in_rows * p->pixel;
    p->copy_floats = p->copied ? p->block_floats * p->in_blocks + BLOCK : 0;
    const size_t step = p->length * BLOCK * XCVM_PRODUCT_BLOCKS;
    p->room_floats = !xcvm_dtype_in(c->w_dtype, XCVM_TYPES_HALF) ? 0 : step > PORTION ? step : PORTION;
    return true;
}

/* ---- The band's part of x, with its padding ---- */

static void copy_pixels(const xcvm_blocked_conv *c, const float *row, size_t first, size_t count, float *to)
{
    if (!c->plain) {
        for (size_t i = 0; i < count * BLOCK; i += XCVM_LANES)
            xcvm_lanes_store(to + i, xcvm_lanes_load(row + first * BLOCK + i));
        return;
    }
    const size_t plane = c->in[0] * c->in[1], channels = c->channels;
    if (channels == 3) {
        const float *r = row + first, *g = r + plane, *b = g + plane;
        for (size_t i = 0; i < count; i++) {
            to[3 * i] = r[i];
            to[3 * i + 1] = g[i];
            to[3 * i + 2] = b[i];
        }
        return;
    }
    for (size_t channel = 0; channel < channels; channel++)
        for (size_t i = 0; i < count; i++)
            to[i * channels + channel] = row[channel * plane + first + i];
}

/* Rows from input row top - pad on; x is the first channel of the group. */
static void copy_band(const xcvm_blocked_conv *c, const plan *p, const float *x, size_t top, float *to)
{
    const size_t left = least(c->pad[1], p->pitch), right = least(c->in[1] + c->pad[1], p->pitch);
    for (size_t block = 0; block < p->in_blocks; block++, x += c->in[0] * c->in[1] * BLOCK)
        for (size_t i = 0; i < p->in_rows; i++, to += p->pitch * p->pixel) {
            const size_t at = top + i;
            if (at < c->pad[0] || at - c->pad[0] >= c->in[0] || right <= left) {
                memset(to, 0, p->pitch * p->pixel * sizeof *to);
                continue;
            }
            const float *row = x + (at - c->pad[0]) * c->in[1] * (c->plain ? 1 : BLOCK);
            memset(to, 0, left * p->pixel * sizeof *to);
            copy_pixels(c, row, 0, right - left, to + left * p->pixel);
            memset(to + right * p->pixel, 0, (p->pitch - right) * p->pixel * sizeof *to);
        }
}

/* ---- Products ---- */

/* The next steps of the product, from `step` on; returns how many floats of w they take. */
static size_t set_steps(const xcvm_blocked_conv *c, const plan *p, size_t step, xcvm_blocked_product *g)
{
    const size_t taps = p->steps / p->in_blocks, columns = taps / c->kernel[0];
    size_t floats = 0;
    for (size_t s = 0; s < g->step_count; s++, step++) {
        const size_t block = step / taps, row = step % taps / columns, column = step % columns;
        g->offsets[s] = (ptrdiff_t)(block * p->block_floats +
                                    (row * c->dilation[0] * p->pitch + column * c->dilation[1]) * p->pixel);
        g->filters[s] = floats;
        g->lengths[s] = block + 1 == p->in_blocks ? p->last_length : p->length;
        floats += g->lengths[s] * BLOCK;
    }
    return floats;
}

/* Output rows [first, last), or pixels of the only row, of a group of blocks of outputs that begins at block `output`;
 * x is the first of the inputs that the first row meets. */
static void multiply_band(const xcvm_blocked_conv *c, const plan *p, const float *x, size_t image, size_t output,
                          size_t blocks, size_t first, size_t last, float *room)
{
    const bool merged = p->rows == 1;
    const size_t plane = c->out[0] * c->out[1] * BLOCK, rows = merged ? 1 : last - first;
    const size_t from = merged ? first : first * p->width, width = merged ? last - first : p->width;
    const size_t at = (image * c->outputs + output) * plane + from * BLOCK;
    const size_t w_block = c->channels * c->kernel[0] * c->kernel[1] * BLOCK;
    const xcvm_blocked_filters w = {c->w, c->w_dtype, w_block};
    xcvm_blocked_product g = {.blocks = blocks,
                              .spacing = p->spacing,
                              .y_spacing = BLOCK,
                              .y_block = plane,
                              .b = c->b != NULL ? c->b + output * BLOCK : NULL,
                              .low = c->activation.low,
                              .high = c->activation.high};
    size_t most = PORTION / (p->length * BLOCK * blocks);
    most = most < 1                                   ? 1
           : rows * width <= 4 && p->room_floats == 0 ? XCVM_PRODUCT_STEPS
                                                      : least(most, XCVM_PRODUCT_STEPS);
    const size_t portions = ceil_div(p->steps, most), chunks = ceil_div(width, CHUNK);
    const bool next = output + blocks < c->outputs;
    size_t used = 0; /* elements of w of a block */
    for (size_t i = 0; i < portions; i++) {
        const size_t step = i * p->steps / portions;
        g.step_count = (i + 1) * p->steps / portions - step;
        const size_t floats = set_steps(c, p, step, &g);
        g.resume = i > 0;
        g.clamp = i + 1 == portions;
        xcvm_blocked_take(&g, &w, output * w_block + used, floats, room);
        used += floats;
        if (!g.clamp)
            xcvm_blocked_fetch(&g, &w, output * w_block + used, least(w_block - used, floats), rows * width);
        else
            xcvm_blocked_fetch(&g, &w, (output + blocks) * w_block, next ? least(w_block, floats) : 0, rows * width);
        for (size_t row = 0; row < rows; row++)
            for (size_t chunk = 0; chunk < chunks; chunk++) {
                const size_t pixel = chunk * width / chunks, count = (chunk + 1) * width / chunks - pixel;
                const size_t to = at + (row * p->width + pixel) * BLOCK;
                xcvm_blocked_multiply(&g, x + row * c->stride[0] * p->pitch * p->pixel + pixel * p->spacing,
                                      c->z != NULL ? c->z + to : NULL, c->y + to, count);
                if (g.clamp && c->activation.kind != XCVM_ACTIVATION_none)
                    for (size_t b = 0; b < blocks; b++)
                        xcvm_activate_row(&c->activation, c->y + to + b * plane, count * BLOCK);
            }
    }
}

static void run_items(void *context, size_t begin, size_t end, int worker)
{
    work *r = context;
    const xcvm_blocked_conv *c = r->c;
    const plan *p = &r->plan;
    const bool merged = p->rows == 1;
    float *copy = r->scratch != NULL ? r->scratch + (size_t)worker * (p->copy_floats + p->room_floats) : NULL;
    float *room = copy != NULL ? copy + p->copy_floats : NULL;
    size_t copied = SIZE_MAX;
    for (size_t item = begin; item < end; item++) {
        const size_t part = item % p->groups, band_at = item / p->groups, band = band_at % p->bands;
        const size_t group = band_at / p->bands % c->group, image = band_at / p->bands / c->group;
        const size_t units = merged ? p->width : p->rows;
        const size_t first = band * units / p->bands, last = (band + 1) * units / p->bands;
        const size_t block = part * p->per_group / p->groups, end_block = (part + 1) * p->per_group / p->groups;
        const xcvm_status status = xcvm_kernel_poll(r->k);
        if (status != XCVM_OK) {
            __atomic_store_n(&r->status, (uint32_t)status, __ATOMIC_RELAXED);
            return;
        }
        const size_t area = c->in[0] * c->in[1];
        const float *x = c->x + (image * c->group + group) * (c->plain ? c->channels : p->in_blocks * BLOCK) * area;
        const size_t top = merged ? 0 : first * c->stride[0];
        if (!p->copied) {
            x += merged ? first * BLOCK : top * p->pitch * BLOCK;
        } else {
            if (copied != band_at)
                copy_band(c, p, x, top, copy);
            copied = band_at;
            x = copy;
        }
        multiply_band(c, p, x, image, group * p->per_group + block, end_block - block, first, last, room);
    }
}

xcvm_status xcvm_blocked_direct(xcvm_kernel *k, const xcvm_blocked_conv *c)
{
    const size_t threads = (size_t)xcvm_threads_count(k->threads);
    work r = {.k = k, .c = c};
    if (is_apart(c) || !make_plan(c, threads, &r.plan))
        return xcvm_blocked_dilated(k, c);
    const plan *p = &r.plan;
    if (p->copied || p->room_floats > 0) {
        r.scratch = xcvm_kernel_scratch(k, threads * (p->copy_floats + p->room_floats) * sizeof(float));
        if (r.scratch == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    const size_t items = c->batch * c->group * p->bands * p->groups;
    const double work_of_item = (double)c->outputs * BLOCK * (double)c->out[0] * (double)c->out[1] *
                                (double)c->channels * (double)(c->kernel[0] * c->kernel[1]) /
                                (double)(c->group * p->bands * p->groups);
    const size_t grain = work_of_item > THREAD_WORK ? 1 : (size_t)(THREAD_WORK / (work_of_item + 1.0)) + 1;
    xcvm_parallel(k->threads, items, grain, run_items, &r);
    return (xcvm_status)r.status;
}
