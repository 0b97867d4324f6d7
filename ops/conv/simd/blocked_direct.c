/* Blocked convolutions by the definition: each window position of each block of input channels is a step of a product
 * (blocked_product.h) over a row of output pixels.
 *
 * Work items are bands of output rows in one or several slices, for some blocks of outputs. If windows reach into the
 * padding, or x is plain, the band's part of x is first copied with padding; window slices in the depth padding are no
 * steps. The filters of a portion of steps stay in the first-level cache while they are applied to all pixels of the
 * band; intermediate sums are in y. */
#include "ops/elementwise/simd/activation_rows.h"
#include "ops/conv/simd/blocked_bands.h"
#include "ops/conv/simd/blocked_span.h"
#include "ops/matmul/simd/pair_lanes.h"

#include <math.h>

enum {
    BLOCK = XCVM_CHANNEL_BLOCK,
    /* Floats of the filters of a portion: 36 KB. */
    PORTION = 9 * 1024,
    /* Floats of x that a band accesses. */
    BAND = 96 * 1024,
    /* The same plus its sums, which stay in the second-level cache between portions. */
    BAND_AND_SUMS = 192 * 1024,
    /* Maximum floats of a copied band. */
    LARGEST_BAND = 16 * 1024 * 1024,
    /* Pixels whose results are activated before the next ones are computed; more than any tile has. */
    CHUNK = 48,
    DEPTH = XCVM_BLOCKED_DEPTH
};

/* Maximum words of a band, so that the copies of all threads do not overflow a size. */
#define MOST_PAIRS 0x1p48

typedef struct plan {
    bool copied, merged;               /* merged: the pixels of a plane form one row */
    xcvm_bands bands;                  /* of rows, or of pixels if merged */
    size_t width;                      /* output pixels of a row */
    size_t in_blocks;                  /* blocks of a group */
    size_t taps, plane_taps, columns;  /* positions per block of channels: of the window, of a slice, of a row */
    size_t steps, length, last_length; /* steps of all portions; channels of a step */
    size_t chain;                      /* steps that are summed separately */
    size_t pixel, spacing;             /* floats of an input pixel, and between those of neighboring outputs */
    size_t pitch, in_rows;             /* of the band: pixels of a row; rows */
    size_t slice_floats, block_floats; /* of the band: floats of a slice, of a block of channels */
    size_t copy_floats, room_floats;   /* scratch floats per thread; for filters, if not f32 */
} plan;

typedef struct blocked_direct_loop {
    const xcvm_kernel *k;
    const xcvm_blocked_conv *c;
    plan plan;
    float *scratch;
} blocked_direct_loop;

/* Distance from the first to the last position that `count` outputs read along an axis. */
static double reach(const xcvm_blocked_conv *c, int axis, size_t count)
{
    return (double)(count - 1) * (double)c->stride[axis] + (double)(c->kernel[axis] - 1) * (double)c->dilation[axis] +
           1.0;
}

/* Number of slices of x that `slices` output slices read. */
static double slices_met(const xcvm_blocked_conv *c, size_t slices)
{
    return fmin(reach(c, DEPTH, slices), (double)c->in[DEPTH]);
}

/* True if a copy would contain many positions that dilated windows do not use. */
static bool is_apart(const xcvm_blocked_conv *c)
{
    bool dilated = false;
    for (int i = 0; i < XCVM_BLOCKED_AXES; i++)
        dilated = dilated || (c->kernel[i] > 1 && c->dilation[i] > 1);
    return dilated &&
           (!c->plain || slices_met(c, 1) * reach(c, 0, 1) * reach(c, 1, c->out[1]) * (double)c->channels > BAND);
}

/* Chooses the number of output slices of a band and of their rows, *most, to maximize the products per float of x. In
 * each slice, the first row reads `first` floats and each further row `next`. */
static size_t choose_slices(const xcvm_blocked_conv *c, const plan *p, double first, double next, size_t *most)
{
    const size_t rows = p->bands.rows, least = p->merged ? xcvm_min(rows, CHUNK) : 1;
    const size_t sums = (p->merged ? 1 : p->width) * BLOCK * xcvm_min(p->bands.per_group, XCVM_PRODUCT_BLOCKS);
    size_t best = 1;
    *most = 1;
    for (size_t slices = 1; slices <= c->out[DEPTH]; slices++) {
        const double met = slices_met(c, slices), room = BAND - met * first;
        const double with_sums = (BAND_AND_SUMS - met * (first - next)) / (met * next + (double)(slices * sums));
        const double met_fit = p->merged ? with_sums : room < 0 ? 0.0 : room / (met * next) + 1.0;
        const double fitting = fmin(fmin(met_fit, with_sums), (double)rows);
        if (slices > 1 && fitting < (double)least)
            break;
        const size_t count = fitting < 1.0 ? 1 : (size_t)fitting;
        if (slices == 1 || slices * count > best * *most) {
            best = slices;
            *most = count;
        }
    }
    return best;
}

/* Stacks neighboring images whose bands are whole images, as long as their floats of x, `met` each, and their sums fit
 * in the second-level cache. Filters, which come from slower memory, are then read once for all of them. */
static void stack_images(const xcvm_blocked_conv *c, xcvm_bands *b, const plan *p, double met, size_t threads)
{
    const size_t sums = (p->merged ? 1 : p->width) * b->rows * BLOCK * xcvm_min(b->per_group, XCVM_PRODUCT_BLOCKS);
    const double fitting = fmin(BAND_AND_SUMS / (met + (double)sums), (double)c->batch);
    for (size_t stacks = xcvm_ceil_div(c->batch, fitting < 1.0 ? 1 : (size_t)fitting); stacks < c->batch; stacks++) {
        b->stacks = stacks;
        if (xcvm_bands_count(b) >= 8 * threads || xcvm_bands_count(b) % threads == 0)
            return;
    }
    b->stacks = c->batch;
}

/* Returns false if a row of windows spans too much. Pairs have no other algorithm, so they are copied at any size if
 * there is memory. */
static bool make_plan(const xcvm_blocked_conv *c, size_t threads, plan *p)
{
    const bool pointwise = c->kernel[0] == 1 && c->kernel[1] == 1;
    const bool padded = c->pad[0] != 0 || c->pad[1] != 0 || c->pad_end[0] != 0 || c->pad_end[1] != 0;
    const bool merged = pointwise && !padded && !c->plain && c->stride[0] == 1 && c->stride[1] == 1;
    const size_t unit = c->pairs ? XCVM_BLOCK_PAIRS : BLOCK; /* channels, or words of them, per block of x */
    *p = (plan){.copied = padded || c->plain,
                .merged = merged,
                .bands = xcvm_bands_of(c, merged ? c->out[0] * c->out[1] : c->out[0]),
                .width = merged ? c->out[0] * c->out[1] : c->out[1],
                .in_blocks = xcvm_ceil_div(c->channels, unit),
                .pixel = c->plain ? c->channels : unit};
    p->columns = c->kernel[1];
    p->length = xcvm_min(c->channels, unit);
    p->last_length = c->channels - (p->in_blocks - 1) * unit;
    p->spacing = p->pixel * c->stride[1];
    if (c->plain && c->dilation[1] == 1) {
        /* A window row is one step, because its pixels are contiguous. */
        p->columns = 1;
        p->length = p->last_length = c->kernel[1] * c->channels;
    }
    p->plane_taps = p->columns * c->kernel[0];
    p->taps = p->plane_taps * c->kernel[DEPTH];
    p->steps = p->taps * p->in_blocks;
    p->chain = xcvm_blocked_chain(p->steps, p->length, c->pairs ? XCVM_PAIR_CHAIN : XCVM_PRODUCT_CHAIN);
    /* Floats for a row of output pixels in a slice; for merged rows, for a pixel. */
    const double channels = (double)(p->in_blocks * p->pixel);
    const double one = merged ? channels : reach(c, 0, 1) * reach(c, 1, c->out[1]) * channels;
    if (p->copied && one * slices_met(c, 1) > (c->pairs ? MOST_PAIRS : LARGEST_BAND))
        return false;
    const double next = merged ? channels : (double)c->stride[0] * reach(c, 1, c->out[1]) * channels;
    size_t most;
    p->bands.slabs = xcvm_ceil_div(c->out[DEPTH], choose_slices(c, p, one, next, &most));
    xcvm_bands_cut(&p->bands, most, threads);
    if (!p->copied && p->bands.bands == 1 && p->bands.slabs == 1)
        stack_images(c, &p->bands, p, one + next * (double)(p->bands.rows - 1), threads);
    const size_t rows = merged ? 1 : xcvm_bands_rows(&p->bands);
    p->pitch = p->copied ? (size_t)reach(c, 1, c->out[1]) : c->in[1];
    p->in_rows = p->copied ? (size_t)reach(c, 0, rows) : c->in[0];
    p->slice_floats = p->pitch * p->in_rows * p->pixel;
    const size_t in_slices =
        p->copied ? (size_t)slices_met(c, xcvm_ceil_div(c->out[DEPTH], p->bands.slabs)) : c->in[DEPTH];
    p->block_floats = in_slices * p->slice_floats;
    p->copy_floats = p->copied ? p->block_floats * p->in_blocks + BLOCK : 0;
    const size_t step = p->length * BLOCK * XCVM_PRODUCT_BLOCKS;
    p->room_floats = !xcvm_dtype_in(c->w_dtype, XCVM_TYPES_NARROW) ? 0 : step > PORTION ? step : PORTION;
    return true;
}

/* ---- The band's part of x, with its padding ---- */

/* First slice of x that output slices from `slice` read, and the end of those that slices before `last` read. */
static size_t slices_begin(const xcvm_blocked_conv *c, size_t slice)
{
    const size_t at = slice * c->stride[DEPTH];
    return xcvm_min(at > c->pad[DEPTH] ? at - c->pad[DEPTH] : 0, c->in[DEPTH]);
}

static size_t slices_end(const xcvm_blocked_conv *c, size_t last)
{
    const size_t end = (last - 1) * c->stride[DEPTH] + (c->kernel[DEPTH] - 1) * c->dilation[DEPTH] + 1;
    return xcvm_min(end > c->pad[DEPTH] ? end - c->pad[DEPTH] : 0, c->in[DEPTH]);
}

static void copy_pixels(const xcvm_blocked_conv *c, const float *row, size_t first, size_t count, float *to)
{
    if (c->pairs) {
        memcpy(to, row + first * XCVM_BLOCK_PAIRS, count * XCVM_BLOCK_PAIRS * sizeof *to);
        return;
    }
    if (!c->plain) {
        for (size_t i = 0; i < count * BLOCK; i += XCVM_LANES)
            xcvm_lanes_store(to + i, xcvm_lanes_load(row + first * BLOCK + i));
        return;
    }
    const size_t volume = c->in[DEPTH] * c->in[0] * c->in[1], channels = c->channels;
    if (channels == 3) {
        const float *r = row + first, *g = r + volume, *b = g + volume;
        for (size_t i = 0; i < count; i++) {
            to[3 * i] = r[i];
            to[3 * i + 1] = g[i];
            to[3 * i + 2] = b[i];
        }
        return;
    }
    for (size_t channel = 0; channel < channels; channel++)
        for (size_t i = 0; i < count; i++)
            to[i * channels + channel] = row[channel * volume + first + i];
}

/* Copies rows from input row top - pad of one slice of a block of channels. */
static void copy_slice(const xcvm_blocked_conv *c, const plan *p, const float *x, size_t top, float *to)
{
    const size_t left = xcvm_min(c->pad[1], p->pitch), right = xcvm_min(c->in[1] + c->pad[1], p->pitch);
    for (size_t i = 0; i < p->in_rows; i++, to += p->pitch * p->pixel) {
        const size_t at = top + i;
        if (at < c->pad[0] || at - c->pad[0] >= c->in[0] || right <= left) {
            memset(to, 0, p->pitch * p->pixel * sizeof *to);
            continue;
        }
        const float *row = x + (at - c->pad[0]) * c->in[1] * (c->plain ? 1 : p->pixel);
        memset(to, 0, left * p->pixel * sizeof *to);
        copy_pixels(c, row, 0, right - left, to + left * p->pixel);
        memset(to + right * p->pixel, 0, (p->pitch - right) * p->pixel * sizeof *to);
    }
}

/* x is the first channel of the group. */
static void copy_band(const xcvm_blocked_conv *c, const plan *p, const float *x, const xcvm_band *b, float *to)
{
    const size_t begin = slices_begin(c, b->slice), end = slices_end(c, b->last_slice);
    const size_t plane = c->in[0] * c->in[1] * (c->plain ? 1 : p->pixel);
    for (size_t block = 0; block < p->in_blocks; block++)
        for (size_t slice = begin; slice < end; slice++)
            copy_slice(c, p, x + (block * c->in[DEPTH] + slice) * plane, b->first * c->stride[0],
                       to + block * p->block_floats + (slice - begin) * p->slice_floats);
}

/* ---- Products ---- */

/* Floats of w of a block of outputs before a step. */
static size_t filters_before(const plan *p, size_t step)
{
    const size_t whole = p->taps * (p->in_blocks - 1);
    return (step < whole ? step * p->length : whole * p->length + (step - whole) * p->last_length) * BLOCK;
}

/* Sets the steps of [from, to) whose slices, `s` of an output slice, are inside x. Offsets count from slice `in_slice`.
 */
static void set_steps(const xcvm_blocked_conv *c, const plan *p, size_t from, size_t to, const xcvm_blocked_span *s,
                      size_t in_slice, xcvm_blocked_product *g)
{
    const size_t top = s->first * c->stride[DEPTH];
    size_t block = from / p->taps, slice = from % p->taps / p->plane_taps, row = from % p->plane_taps / p->columns;
    size_t column = from % p->columns, floats = 0;
    xcvm_blocked_clear_steps(g);
    for (size_t step = from; step < to; step++) {
        const size_t length = block + 1 == p->in_blocks ? p->last_length : p->length;
        if (slice >= s->tap && slice < s->tap_end) {
            const size_t depth = top + slice * c->dilation[DEPTH] - c->pad[DEPTH] - in_slice;
            const size_t place = (row * c->dilation[0] * p->pitch + column * c->dilation[1]) * p->pixel;
            xcvm_blocked_add_step(g, step, (ptrdiff_t)(block * p->block_floats + depth * p->slice_floats + place),
                                  floats, length);
        }
        floats += length * BLOCK;
        if (++column < p->columns)
            continue;
        column = 0;
        if (++row < c->kernel[0])
            continue;
        row = 0;
        if (++slice < c->kernel[DEPTH])
            continue;
        slice = 0;
        block++;
    }
}

/* Computes one portion for an output slice of a band that begins at y[at]. Returns false if the run was stopped. */
static bool multiply_slice(xcvm_poller *poller, const xcvm_blocked_conv *c, const plan *p, xcvm_blocked_product *g,
                           const float *x, size_t rows, size_t width, size_t at)
{
    const size_t chunks = xcvm_ceil_div(width, CHUNK);
    for (size_t row = 0; row < rows; row++)
        for (size_t chunk = 0; chunk < chunks; chunk++) {
            const size_t pixel = chunk * width / chunks, count = (chunk + 1) * width / chunks - pixel;
            const size_t to = at + (row * p->width + pixel) * BLOCK;
            if (xcvm_poll_after(poller, count * (1 + g->step_count)) != XCVM_OK)
                return false;
            xcvm_blocked_multiply(g, x + row * c->stride[0] * p->pitch * p->pixel + pixel * p->spacing,
                                  c->z != NULL ? c->z + to : NULL, c->y + to, count);
            if (g->clamp && c->activation.kind != XCVM_ACTIVATION_none)
                for (size_t b = 0; b < g->blocks; b++)
                    xcvm_activate_row(&c->activation, c->y + to + b * g->y_block, count * BLOCK);
        }
    return true;
}

/* x is the first input of the first row, in slice `in_slice`. */
static bool multiply_band(xcvm_poller *poller, const xcvm_blocked_conv *c, const plan *p, const float *x,
                          size_t in_slice, const xcvm_band *b, float *room)
{
    const size_t plane = c->out[0] * c->out[1] * BLOCK, y_block = c->out[DEPTH] * plane;
    const size_t rows = p->merged ? 1 : b->last - b->first, width = p->merged ? b->last - b->first : p->width;
    const size_t images = b->last_image - b->image, image = c->group * p->in_blocks * p->block_floats;
    const size_t pixels = images * (b->last_slice - b->slice) * rows * width;
    const size_t at = (b->image * c->outputs + b->output) * y_block + b->first * (p->merged ? 1 : p->width) * BLOCK;
    const size_t w_block = filters_before(p, p->steps), w_at = b->output * w_block;
    const xcvm_blocked_filters w = {c->w, c->w_dtype, w_block};
    xcvm_blocked_product g = {.pairs = c->pairs,
                              .blocks = b->blocks,
                              .chain = p->chain,
                              .spacing = p->spacing,
                              .y_spacing = BLOCK,
                              .y_block = y_block,
                              .b = c->b != NULL ? c->b + b->output * BLOCK : NULL,
                              .low = c->activation.low,
                              .high = c->activation.high};
    const size_t fitting = PORTION / (p->length * BLOCK * b->blocks);
    const size_t most = pixels <= 4 && p->room_floats == 0 ? XCVM_PRODUCT_STEPS : xcvm_min(fitting, XCVM_PRODUCT_STEPS);
    const size_t portions = xcvm_blocked_portions(p->steps, p->chain, most);
    const bool next = b->output + b->blocks < c->outputs;
    for (size_t portion = 0; portion < portions; portion++) {
        const size_t from = xcvm_blocked_portion(p->steps, p->chain, portions, portion);
        const size_t to = xcvm_blocked_portion(p->steps, p->chain, portions, portion + 1);
        const size_t used = filters_before(p, from), end = filters_before(p, to), floats = end - used;
        g.clamp = portion + 1 == portions;
        xcvm_blocked_take(&g, &w, w_at + used, floats, room);
        if (!g.clamp)
            xcvm_blocked_fetch(&g, &w, w_at + end, xcvm_min(w_block - end, floats), pixels);
        else
            xcvm_blocked_fetch(&g, &w, w_at + b->blocks * w_block, next ? xcvm_min(w_block, floats) : 0, pixels);
        for (size_t slice = b->slice; slice < b->last_slice; slice++) {
            const xcvm_blocked_span met = xcvm_blocked_span_from(c, DEPTH, slice, slice + 1);
            set_steps(c, p, from, to, &met, in_slice, &g);
            /* Sums begin with the first step that is inside x, whatever the portions are: so rounding is the same. */
            g.resume = met.tap < met.tap_end && met.tap * p->plane_taps < from;
            for (size_t i = 0; i < images && (g.step_count > 0 || g.clamp); i++)
                if (!multiply_slice(poller, c, p, &g, x + i * image, rows, width,
                                    at + i * c->outputs * y_block + slice * plane))
                    return false;
        }
    }
    return true;
}

static void run_items(void *context, size_t begin, size_t end, int worker)
{
    const blocked_direct_loop *r = context;
    const xcvm_blocked_conv *c = r->c;
    const plan *p = &r->plan;
    float *copy = r->scratch != NULL ? r->scratch + (size_t)worker * (p->copy_floats + p->room_floats) : NULL;
    float *room = copy != NULL ? copy + p->copy_floats : NULL;
    size_t copied = SIZE_MAX;
    xcvm_poller poller = xcvm_poller_of(r->k);
    for (size_t item = begin; item < end; item++) {
        const xcvm_band b = xcvm_bands_at(&p->bands, item);
        size_t in_slice = 0;
        if (xcvm_kernel_poll(r->k) != XCVM_OK)
            return;
        const size_t volume = c->in[DEPTH] * c->in[0] * c->in[1];
        const size_t channels = c->plain ? c->channels : p->in_blocks * p->pixel;
        const float *x = c->x + (b.image * c->group + b.group) * channels * volume;
        if (!p->copied) {
            x += (p->merged ? b.first : b.first * c->stride[0] * p->pitch) * p->pixel;
        } else {
            in_slice = slices_begin(c, b.slice);
            if (copied != b.place)
                copy_band(c, p, x, &b, copy);
            copied = b.place;
            x = copy;
        }
        if (!multiply_band(&poller, c, p, x, in_slice, &b, room))
            return;
    }
}

/* ---- Pairs ---- */

/* Words of x. */
static size_t pairs_of_x(const xcvm_blocked_conv *c, const plan *p)
{
    return c->batch * c->group * p->in_blocks * c->in[DEPTH] * c->in[0] * c->in[1] * XCVM_BLOCK_PAIRS;
}

typedef struct rounding_loop {
    const float *from;
    float *to; /* words */
} rounding_loop;

static void round_chunks(void *context, size_t begin, size_t end, int worker)
{
    const rounding_loop *l = context;
    (void)worker;
    xcvm_pairs_of_row(l->from + 2 * begin * XCVM_BLOCK_PAIRS, 2 * (end - begin) * XCVM_BLOCK_PAIRS,
                      (uint32_t *)(void *)(l->to + begin * XCVM_BLOCK_PAIRS));
}

/* Rounds the pixels of x to bf16. */
static xcvm_status round_pixels(xcvm_kernel *k, const float *x, size_t words, float *to)
{
    enum { PIXELS = 2048 }; /* minimum pixels per range */
    rounding_loop l = {.from = x, .to = to};
    return xcvm_kernel_parallel(k, words / XCVM_BLOCK_PAIRS, PIXELS, round_chunks, &l);
}

/* ---- Pointwise convolutions with a stride ---- */

/* True for windows of one position that skip pixels: gathering the pixels makes them contiguous, so that a tile has as
 * many as registers can hold. Not worthwhile for few outputs. */
static bool skips_pixels(const xcvm_blocked_conv *c)
{
    bool skips = false;
    for (int i = 0; i < XCVM_BLOCKED_AXES; i++) {
        if (c->kernel[i] != 1 || c->pad[i] != 0 || c->pad_end[i] != 0)
            return false;
        skips = skips || c->stride[i] != 1;
    }
    return skips && !c->plain && !c->pairs && c->outputs / c->group > XCVM_PRODUCT_BLOCKS;
}

typedef struct gathering {
    const xcvm_blocked_conv *c;
    float *to;
} gathering;

/* Gathers planes of blocks of channels, one for each slice of the result. */
static void gather_planes(void *context, size_t begin, size_t end, int worker)
{
    const gathering *g = context;
    const xcvm_blocked_conv *c = g->c;
    float *to = g->to + begin * c->out[0] * c->out[1] * BLOCK;
    (void)worker;
    for (size_t plane = begin; plane < end; plane++) {
        const size_t slice = plane / c->out[DEPTH] * c->in[DEPTH] + plane % c->out[DEPTH] * c->stride[DEPTH];
        for (size_t row = 0; row < c->out[0]; row++) {
            const float *from = c->x + (slice * c->in[0] + row * c->stride[0]) * c->in[1] * BLOCK;
            for (size_t i = 0; i < c->out[1]; i++, from += c->stride[1] * BLOCK, to += BLOCK)
                for (size_t lane = 0; lane < BLOCK; lane += XCVM_LANES)
                    xcvm_lanes_store(to + lane, xcvm_lanes_load(from + lane));
        }
    }
}

static xcvm_status gather_pixels(xcvm_kernel *k, const xcvm_blocked_conv *c, size_t planes, float *to)
{
    enum { PIXELS = 2048 }; /* minimum pixels per range */
    gathering g = {.c = c, .to = to};
    return xcvm_kernel_parallel(k, planes, 1 + PIXELS / (c->out[0] * c->out[1]), gather_planes, &g);
}

/* The same convolution applied to the gathered x. */
static xcvm_blocked_conv without_strides(const xcvm_blocked_conv *c)
{
    xcvm_blocked_conv same = *c;
    for (int i = 0; i < XCVM_BLOCKED_AXES; i++) {
        same.in[i] = c->out[i];
        same.stride[i] = 1;
    }
    return same;
}

xcvm_status xcvm_blocked_direct(xcvm_kernel *k, const xcvm_blocked_conv *c)
{
    const size_t threads = (size_t)xcvm_threads_count(k->threads);
    const bool gathers = skips_pixels(c);
    xcvm_blocked_conv used = gathers ? without_strides(c) : *c;
    blocked_direct_loop r = {.k = k, .c = &used};
    if (is_apart(&used) || !make_plan(&used, threads, &r.plan)) {
        XCVM_CHECK(k->error, !c->pairs, OUT_OF_MEMORY, "a row of windows is too large");
        return xcvm_blocked_dilated(k, c);
    }
    const plan *p = &r.plan;
    const size_t copies = threads * (p->copy_floats + p->room_floats);
    const size_t planes = c->batch * c->group * p->in_blocks * c->out[DEPTH];
    const size_t words = c->pairs ? pairs_of_x(c, p) : gathers ? planes * c->out[0] * c->out[1] * BLOCK : 0;
    if (copies + words > 0) {
        r.scratch = xcvm_kernel_scratch(k, (copies + words) * sizeof(float));
        if (r.scratch == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    if (words > 0)
        used.x = r.scratch + copies;
    if (c->pairs)
        XCVM_TRY(round_pixels(k, c->x, words, r.scratch + copies));
    if (gathers)
        XCVM_TRY(gather_pixels(k, c, planes, r.scratch + copies));
    const double work = (double)c->outputs * BLOCK * (double)(c->out[DEPTH] * c->out[0] * c->out[1]) *
                        (double)filters_before(p, p->steps) / BLOCK;
    xcvm_parallel(k->threads, xcvm_bands_count(&p->bands), xcvm_bands_grain(&p->bands, work), run_items, &r);
    return xcvm_kernel_poll(k);
}
