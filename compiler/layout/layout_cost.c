/* Cost model of blocked channels: estimated times and gains. The speeds were measured on one core with AVX-512; only
 * their ratios matter. */
#include "compiler/layout/layout.h"
#include "ops/conv/blocked.h"

#include <math.h>

/* Multiply-adds per nanosecond of convolutions in Conv, and on blocked channels. */
#define PLAIN_POINTWISE 60.0
#define PLAIN_WINDOW 50.0
#define PLAIN_NARROW 20.0 /* few input channels */
#define PLAIN_DEPTHWISE 12.0
#define PLAIN_GROUPED 16.0 /* groups of a few channels */
#define PLAIN_TRANSPOSED 65.0
/* Products that a plain ConvTranspose accumulates per nanosecond. */
#define PLAIN_ADDED 2.5
#define BLOCKED_PRODUCT 90.0
#define BLOCKED_NARROW 60.0
#define BLOCKED_PAIRS 165.0 /* in bf16 */
#define BLOCKED_DEPTHWISE 40.0
#define BLOCKED_GROUPED 45.0
#define BLOCKED_WINOGRAD 105.0
/* Conv's winograd 4x4 at best, in multiply-adds of the definition; it transforms the filters in every run. */
#define PLAIN_WINOGRAD 120.0
/* Multiply-adds equivalent to transforming one number for winograd. */
#define TRANSFORM 14.0
/* Multiply-adds equivalent to reading one float of the filters. Filters of a large convolution come from memory, those
 * of a small one, probably part of a small network, from a cache. */
#define FILTER_CACHED 5.0
#define FILTER_FAR 21.0
#define FAR_FILTERS (256.0 * 256.0)
/* Multiply-adds equivalent to transforming a 3 x 3 filter on the fly, including prefetching. */
#define FILTER_TRANSFORM 200.0
/* Tiles per transform of the filters. */
#define BAND_TILES 48.0
/* Nanoseconds that a byte of filters must save to be worth its memory. */
#define BYTE_NS 0.04
/* Bytes per nanosecond of a layout conversion or an element-wise instruction. */
#define BYTES_PER_NS 30.0
/* The same for a plain Resize that interpolates; one that copies pixels is as fast as others. */
#define PLAIN_RESIZED_PER_NS 12.0
/* Overhead of one instruction. */
#define INSTRUCTION_NS 500.0
/* Larger than any image. */
#define LARGEST_SIZE 1e12

/* ---- The algorithms of a convolution ---- */

static double padded(int64_t channels) { return (double)(xcvm_blocks_of(channels) * XCVM_CHANNEL_BLOCK); }

/* Multiply-adds per number of the result. */
static double additions(const xcc_layout_shape *c)
{
    double product = (double)c->channels;
    for (int i = 0; i < c->axes; i++)
        product *= (double)c->kernel[i];
    return product;
}

static double results(const xcc_layout_shape *c)
{
    double product = (double)c->batch * padded(c->outputs);
    for (int i = 0; i < c->axes; i++)
        product *= (double)c->out[i];
    return product;
}

/* Cost of each float of the filters, in multiply-adds. */
static double filter_cost(const xcc_layout_shape *c)
{
    const double share = padded(c->outputs) * padded(c->channels) / FAR_FILTERS;
    return FILTER_CACHED + (FILTER_FAR - FILTER_CACHED) * (share < 1.0 ? share : 1.0);
}

/* Work on untransformed filters, which are prefetched meanwhile. */
static double with_filters(const xcc_layout_shape *c, double work_ns)
{
    const double floats = padded(c->outputs) * additions(c) / BLOCKED_PRODUCT;
    return fmax(work_ns + floats * FILTER_CACHED, floats * filter_cost(c));
}

static bool is_depthwise(const xcc_layout_shape *c)
{
    return c->group > 1 && c->channels == 1 && c->outputs == c->group && !c->plain_input;
}

/* True for groups that are parts of a block. */
static bool is_grouped(const xcc_layout_shape *c)
{
    return c->group > 1 && xcvm_blocked_is_small_group(c->channels) && c->outputs == c->group * c->channels;
}

static bool is_direct(const xcc_layout_shape *c) { return !is_depthwise(c) && !is_grouped(c); }

/* 1 if the first axis is a depth, else 0. */
static int depth_axes(const xcc_layout_shape *c) { return c->axes - 2; }

static bool is_winograd(const xcc_layout_shape *c)
{
    bool square = c->axes > 1 && c->group == 1 && !c->plain_input;
    for (int i = 0; i < c->axes; i++)
        square = square && (c->kernel[i] == 3 || i < depth_axes(c)) && c->strides[i] == 1;
    return square;
}

/* Fraction of window positions on an axis that are inside: others of dilated windows, and of all windows along the
 * depth, cost nothing. */
static double inside(const xcc_layout_shape *c, int axis)
{
    const double stride = (double)c->strides[axis], out = (double)c->out[axis];
    double met = 0;
    if (axis >= depth_axes(c) && (c->kernel[axis] < 2 || c->dilations[axis] < 2))
        return 1.0;
    for (int64_t k = 0; k < c->kernel[axis]; k++) {
        const double begin = (double)c->pads[axis] - (double)k * (double)c->dilations[axis];
        const double first = fmax(ceil(begin / stride), 0.0);
        met += fmax(fmin(ceil((begin + (double)c->in[axis]) / stride), out) - first, 0.0);
    }
    return met / (out * (double)c->kernel[axis]);
}

static double input_bytes(const xcc_layout_shape *c)
{
    double bytes = sizeof(float) * (double)c->batch * (double)c->group * padded(c->channels);
    for (int i = 0; i < c->axes; i++)
        bytes *= (double)c->in[i];
    return bytes;
}

static double direct_ns(const xcc_layout_shape *c, int64_t tile)
{
    (void)tile;
    double met = additions(c);
    for (int i = 0; i < c->axes; i++)
        met *= inside(c, i);
    if (c->pairs)
        return with_filters(c, results(c) * met / BLOCKED_PAIRS) + input_bytes(c) / BYTES_PER_NS;
    return with_filters(c, results(c) * met / (c->plain_input ? BLOCKED_NARROW : BLOCKED_PRODUCT));
}

static double depthwise_ns(const xcc_layout_shape *c, int64_t tile)
{
    (void)tile;
    return results(c) * additions(c) / BLOCKED_DEPTHWISE;
}

static double grouped_ns(const xcc_layout_shape *c, int64_t tile)
{
    (void)tile;
    return results(c) * additions(c) / BLOCKED_GROUPED;
}

/* Tiles on an axis, summed over the images into which dilation splits x. */
static double tiles_along(const xcc_layout_shape *c, int axis, int64_t tile)
{
    const double out = (double)c->out[axis], images = fmin((double)c->dilations[axis], out);
    return images * ceil(ceil(out / (double)c->dilations[axis]) / (double)tile);
}

static double winograd_ns(const xcc_layout_shape *c, int64_t tile)
{
    const int depth = depth_axes(c);
    const double slices = depth > 0 ? (double)c->kernel[0] : 1, in = depth > 0 ? (double)c->in[0] : 1;
    const double out = depth > 0 ? (double)c->out[0] : 1, met = depth > 0 ? inside(c, 0) : 1;
    const double tiles = (double)c->batch * tiles_along(c, depth, tile) * tiles_along(c, depth + 1, tile),
                 points = (double)((tile + 2) * (tile + 2));
    /* Filters from memory are prefetched during multiplication. */
    const double work = fmax(out * met * tiles + FILTER_CACHED, filter_cost(c));
    const double products = padded(c->outputs) * (double)c->channels * slices * work;
    const double transforms = TRANSFORM * tiles * (out * padded(c->outputs) + in * padded(c->channels));
    return points * (products + transforms) / BLOCKED_WINOGRAD;
}

static bool is_flat_winograd(const xcc_layout_shape *c) { return c->axes == 2 && is_winograd(c); }

/* Untransformed filters are read and transformed for each band of tiles. */
static double on_the_fly_ns(const xcc_layout_shape *c, int64_t tile)
{
    const double tiles = (double)c->batch * tiles_along(c, 0, tile) * tiles_along(c, 1, tile);
    const double bands = fmax(floor(tiles / BAND_TILES), 1.0), points = (double)((tile + 2) * (tile + 2));
    const double filters = padded(c->outputs) * padded(c->channels);
    const double work = points * tiles + FILTER_TRANSFORM * bands;
    const double transforms = points * TRANSFORM * tiles * (padded(c->outputs) + padded(c->channels));
    return (filters * work + transforms) / BLOCKED_WINOGRAD;
}

/* If nothing else is rounded to fewer bits, the rounding errors of this algorithm would be a third to a half of a
 * network's error: they are three times those of direct sums, in the first layer, and save only half of its time. */
static bool is_strided(const xcc_layout_shape *c)
{
    bool fits =
        c->rounded && c->axes == 2 && c->group == 1 && c->plain_input && c->channels <= XCVM_BLOCKED_STRIDED_CHANNELS;
    for (int i = 0; i < c->axes; i++)
        fits = fits && c->kernel[i] == XCVM_BLOCKED_STRIDED_WINDOW && c->strides[i] == 2 && c->dilations[i] == 1;
    return fits;
}

static double strided_ns(const xcc_layout_shape *c, int64_t tile)
{
    const double tiles = (double)c->batch * tiles_along(c, 0, tile) * tiles_along(c, 1, tile);
    const double products = padded(c->outputs) * 4.0 * (double)c->channels;
    return 36.0 * tiles * (products + TRANSFORM * (padded(c->outputs) + XCVM_CHANNEL_BLOCK)) / BLOCKED_WINOGRAD;
}

const xcc_layout_algorithm xcc_layout_algorithms[] = {
    {"direct", XCVM_BLOCKED_direct, 0, is_direct, direct_ns},
    {"depthwise", XCVM_BLOCKED_depthwise, 0, is_depthwise, depthwise_ns},
    {"winograd 2x2", XCVM_BLOCKED_winograd, 2, is_winograd, winograd_ns},
    {"winograd 4x4", XCVM_BLOCKED_winograd, 4, is_winograd, winograd_ns},
    {"winograd 4x4 of plain filters", XCVM_BLOCKED_winograd_untransformed, 4, is_flat_winograd, on_the_fly_ns},
    {"winograd 3x3 of phases", XCVM_BLOCKED_winograd_strided, 3, is_strided, strided_ns},
    {"grouped", XCVM_BLOCKED_grouped, 0, is_grouped, grouped_ns}};
const size_t xcc_layout_algorithm_count = sizeof xcc_layout_algorithms / sizeof *xcc_layout_algorithms;

static double filter_bytes(const xcc_layout_algorithm *algorithm, const xcc_layout_shape *c)
{
    int64_t w[XCVM_MAX_RANK] = {c->outputs, c->channels}, packed[XCVM_MAX_RANK];
    for (int i = 0; i < c->axes; i++)
        w[2 + i] = c->kernel[i];
    const int rank = xcc_layout_filter_dims(algorithm, c->axes + 2, w, packed);
    double bytes = sizeof(float);
    for (int i = 0; i < rank; i++)
        bytes *= (double)packed[i];
    return bytes;
}

bool xcc_layout_fits(const xcc_layout_algorithm *algorithm, const xcc_layout_shape *c)
{
    return xcvm_blocked_conv_takes_axes(algorithm->choice, c->axes) && algorithm->fits(c);
}

const xcc_layout_algorithm *xcc_layout_cheapest(const xcc_layout_shape *c)
{
    const xcc_layout_algorithm *best = NULL;
    double least = 0;
    for (size_t i = 0; i < xcc_layout_algorithm_count; i++) {
        const xcc_layout_algorithm *algorithm = &xcc_layout_algorithms[i];
        if (!xcc_layout_fits(algorithm, c))
            continue;
        const double cost = algorithm->estimate(c, algorithm->tile) + BYTE_NS * filter_bytes(algorithm, c);
        if (best == NULL || cost < least) {
            best = algorithm;
            least = cost;
        }
    }
    return best;
}

int xcc_layout_filter_dims(const xcc_layout_algorithm *algorithm, int rank, const int64_t *w,
                           int64_t packed[XCVM_MAX_RANK])
{
    int count = 0;
    if (algorithm->choice == XCVM_BLOCKED_winograd_strided) {
        const int64_t dims[] = {36, xcvm_blocks_of(w[0]), 4 * w[1], XCVM_CHANNEL_BLOCK};
        memcpy(packed, dims, sizeof dims);
        return 4;
    }
    if (algorithm->choice == XCVM_BLOCKED_winograd)
        packed[count++] = (algorithm->tile + 2) * (algorithm->tile + 2);
    packed[count++] = xcvm_blocks_of(w[0]);
    if (xcvm_blocked_has_channels(algorithm->choice))
        packed[count++] = w[1];
    for (int i = 2; i < (algorithm->choice == XCVM_BLOCKED_winograd ? rank - 2 : rank); i++)
        packed[count++] = w[i];
    if (algorithm->choice == XCVM_BLOCKED_winograd)
        packed[count++] = w[1];
    packed[count++] = XCVM_CHANNEL_BLOCK;
    return count;
}

void xcc_layout_filter_pack(const xcc_layout_algorithm *algorithm, const float *w, int rank, const int64_t *dims,
                            float *packed)
{
    if (xcvm_blocked_is_packed_direct(algorithm->choice))
        xcvm_blocked_pack_direct(w, rank, dims, packed);
    else if (algorithm->choice == XCVM_BLOCKED_depthwise)
        xcvm_blocked_pack_depthwise(w, rank, dims, packed);
    else if (algorithm->choice == XCVM_BLOCKED_grouped)
        xcvm_blocked_pack_grouped(w, rank, dims, packed);
    else if (algorithm->choice == XCVM_BLOCKED_winograd_strided)
        xcvm_blocked_pack_strided(w, dims, packed);
    else
        xcvm_blocked_pack_winograd(w, rank, dims, algorithm->tile, packed);
}

/* ---- Gains of candidates ---- */

static double elements_of(const xcc_layout *s, const xcc_value *v, bool whole_blocks)
{
    int64_t channels = v->type.dims[1];
    double batch = v->type.dims[0] > 0 ? (double)v->type.dims[0] : 1;
    double product = batch * (whole_blocks ? padded(channels) : (double)channels);
    for (int i = 0; i < xcc_layout_axes(v); i++)
        product *= s->values[v->id].size[i];
    return product;
}

double xcc_layout_conversion_ns(const xcc_layout *s, const xcc_value *v)
{
    /* A view if there is one element per channel. */
    if (xcc_layout_is_point(v) && v->type.dims[1] % XCVM_CHANNEL_BLOCK == 0)
        return INSTRUCTION_NS / 4;
    return INSTRUCTION_NS + 2 * sizeof(float) * elements_of(s, v, true) / BYTES_PER_NS;
}

static xcc_layout_shape shape_of(const xcc_layout *s, const xcc_layout_candidate *c)
{
    const xcvm_Conv_args *a = XCC_ARGS(Conv, c->node);
    const double *in = s->values[xcc_value_of(a->x)->id].size, *out = s->values[xcc_value_of(a->y)->id].size;
    const int64_t *w = a->w->dims;
    const xcvm_dtype weights = s->m->options->weights.dtype;
    xcc_layout_shape shape = {.axes = xcc_layout_axes(xcc_value_of(a->y)),
                              .batch = a->y->dims[0] > 0 ? a->y->dims[0] : 1,
                              .group = a->group,
                              .channels = w[1],
                              .outputs = w[0],
                              .plain_input = c->plain_input,
                              .rounded = weights != XCVM_NO_DTYPE && weights != XCVM_F32};
    shape.pairs =
        s->m->options->weights.compute == XCVM_BF16 && xcvm_blocked_takes_pairs(w[1], a->dilations, c->plain_input);
    for (int i = 0; i < shape.axes; i++) {
        shape.in[i] = (int64_t)fmin(in[i], LARGEST_SIZE);
        shape.out[i] = (int64_t)fmin(out[i], LARGEST_SIZE);
        shape.kernel[i] = w[2 + i];
        shape.strides[i] = a->strides.at[i];
        shape.dilations[i] = a->dilations.at[i];
        shape.pads[i] = a->pads.at[i];
        shape.pads[shape.axes + i] = a->pads.at[shape.axes + i];
    }
    return shape;
}

/* True if windows are contiguous runs of a line of one channel, which Conv multiplies in place. */
static bool is_line(const xcc_layout_shape *c)
{
    const int last = c->axes - 1;
    bool line = c->group == 1 && c->channels == 1;
    for (int i = 0; i < last; i++)
        line = line && c->in[i] == 1 && c->out[i] == 1;
    return line && c->dilations[last] == 1 && c->pads[last] == 0 && c->pads[c->axes + last] == 0;
}

static double plain_ns(const xcc_layout_shape *c, const xcc_layout_algorithm *algorithm)
{
    const double work = results(c) / padded(c->outputs) * (double)c->outputs * additions(c);
    if (algorithm->choice == XCVM_BLOCKED_depthwise) {
        /* With a depth, Conv multiplies whole planes, whatever their strides. */
        const double strides = c->axes == 3 ? (double)(c->strides[1] * c->strides[2]) : 1.0;
        return work * strides / PLAIN_DEPTHWISE;
    }
    if (algorithm->choice == XCVM_BLOCKED_grouped)
        return work / PLAIN_GROUPED;
    if (xcvm_blocked_is_winograd(algorithm->choice) && c->axes == 2)
        return fmax(work / PLAIN_WINOGRAD,
                    winograd_ns(c, 4) + TRANSFORM * 36.0 * padded(c->outputs) * padded(c->channels) / BLOCKED_WINOGRAD);
    const bool point = additions(c) == (double)c->channels;
    const bool narrow = c->plain_input && !is_line(c);
    return with_filters(c, work / (narrow ? PLAIN_NARROW : point ? PLAIN_POINTWISE : PLAIN_WINDOW));
}

/* Both read the filters once. Plain products are stored and accumulated from memory. */
static double transposed_gain_ns(const xcc_layout *s, const xcc_node *n)
{
    const xcvm_ConvTranspose_args *a = XCC_ARGS(ConvTranspose, n);
    const int64_t *w = a->w->dims;
    const double spread = elements_of(s, xcc_value_of(a->x), false) * (double)w[2] * (double)w[3];
    const double added = spread / (double)w[0] * (double)w[1] / PLAIN_ADDED;
    return spread * ((double)w[1] / PLAIN_TRANSPOSED - padded(w[1]) / BLOCKED_PRODUCT) + added;
}

/* Blocked channels are resampled by whole vectors. */
static double resize_gain_ns(const xcc_layout *s, const xcc_node *n, const xcc_value *y)
{
    const bool copied = XCC_ARGS(Resize, n)->mode == XCVM_RESIZE_MODE_nearest;
    return 2 * sizeof(float) *
           (elements_of(s, y, false) / (copied ? BYTES_PER_NS : PLAIN_RESIZED_PER_NS) -
            elements_of(s, y, true) / BYTES_PER_NS);
}

void xcc_layout_estimate(xcc_layout *s, xcc_layout_candidate *c)
{
    const xcc_value *y = xcc_node_output(c->node, 0);
    if (c->kind == XCC_LAYOUT_CONV) {
        const xcc_layout_shape shape = shape_of(s, c);
        const xcc_layout_algorithm *fastest = s->m->options->tune ? xcc_layout_fastest(s, &shape) : NULL;
        c->algorithm = fastest != NULL ? fastest : xcc_layout_cheapest(&shape);
        c->gain_ns = plain_ns(&shape, c->algorithm) - c->algorithm->estimate(&shape, c->algorithm->tile);
        return;
    }
    if (c->kind == XCC_LAYOUT_TRANSPOSED) {
        c->gain_ns = transposed_gain_ns(s, c->node);
        return;
    }
    if (c->kind == XCC_LAYOUT_RESIZE) {
        c->gain_ns = resize_gain_ns(s, c->node, y);
        return;
    }
    if (c->kind == XCC_LAYOUT_REDUCE)
        y = xcc_node_input(c->node, 0);
    /* Padding channels are computed too. */
    c->gain_ns = 2 * sizeof(float) * (elements_of(s, y, false) - elements_of(s, y, true)) / BYTES_PER_NS;
}
