/* Convolutions of channels in blocks of 16. */
#ifndef XC_BLOCKED_H
#define XC_BLOCKED_H

#include "compiler/export_c/c_runtime/products.h"
#include "compiler/export_c/c_runtime/workspace.h"
#include "compiler/export_c/c_runtime/windows.h"
#include "ops/conv/simd/blocked_tile.h"

/* Channels to blocks, zero beyond the last. */
static void xc_block_channels(const float *x, float *y, size_t batch, size_t channels, size_t plane)
{
    const size_t blocks = (channels + 15) / 16;
    for (size_t n = 0; n < batch; n++)
        for (size_t block = 0; block < blocks; block++)
            for (size_t i = 0; i < plane; i++)
                for (size_t lane = 0; lane < 16; lane++, y++)
                    *y = block * 16 + lane < channels ? x[(n * channels + block * 16 + lane) * plane + i] : 0.0f;
}

static void xc_unblock_channels(const float *x, float *y, size_t batch, size_t channels, size_t plane)
{
    const size_t blocks = (channels + 15) / 16;
    for (size_t n = 0; n < batch; n++)
        for (size_t c = 0; c < channels; c++)
            for (size_t i = 0; i < plane; i++)
                *y++ = x[((n * blocks + c / 16) * plane + i) * 16 + c % 16];
}

/* Some blocks of x become those of y from `first` on, times a scale and plus a shift for each channel. */
static void xc_blocked_affine(const float *x, float *y, size_t batch, size_t blocks, size_t all, size_t first,
                              size_t plane, const float *scale, const float *shift, float low, float high)
{
    for (size_t n = 0; n < batch * blocks; n++) {
        const size_t to = first + n % blocks;
        const float *const by = scale + to * 16, *const plus = shift + to * 16, *const from = x + n * plane * 16;
        float *const at = y + (n / blocks * all + to) * plane * 16;
        for (size_t i = 0; i < plane; i++)
            for (size_t lane = 0; lane < 16; lane++)
                at[i * 16 + lane] = xcvm_clamp_f32(from[i * 16 + lane] * by[lane] + plus[lane], low, high);
    }
}

/* Copies channels of x to channels of y from `first` on, which may begin inside a block. */
static void xc_blocked_concat(const float *x, float *y, size_t batch, size_t channels, size_t all, size_t first,
                              size_t plane)
{
    const size_t blocks = (channels + 15) / 16;
    for (size_t n = 0; n < batch; n++)
        for (size_t c = 0, count; c < channels; c += count) {
            const size_t to = first + c, left = 16 - c % 16, right = 16 - to % 16;
            const float *const from = x + (n * blocks + c / 16) * plane * 16 + c % 16;
            float *const at = y + (n * all + to / 16) * plane * 16 + to % 16;
            count = channels - c < left ? channels - c : left;
            count = count < right ? count : right;
            for (size_t i = 0; i < plane; i++)
                memcpy(at + i * 16, from + i * 16, count * sizeof *at);
        }
}

/* A convolution: channels of a group; blocks of outputs, of a group too; plain: x has no blocks. */
typedef struct xc_blocked {
    xc_window window;
    size_t batch, groups, channels, outputs;
    int plain;
    float low, high;
} xc_blocked;

/* The sums of a run of pixels: steps, and those done before. z is added in the first of them, because y may share
 * memory with z. */
static void xc_blocked_flush(const xc_blocked *q, xc_product *g, int last, size_t blocks, size_t pixels, const float *x,
                             const float *z, float *y)
{
    g->last = last;
    g->low = q->low;
    g->high = q->high;
    xc_multiply(g, blocks, pixels, x, g->resume ? NULL : z, y);
    g->resume = 1;
    g->count = 0;
}

/* Outputs [place[2], place[2] + pixels) of a row, for window positions [first, last). x, w, b, z and y belong to the
 * image and the blocks. If `again`, the steps of g are those of the previous row, if there was only one portion. */
static void xc_blocked_pixels(const xc_blocked *q, xc_product *g, int again, const float *x, const float *w,
                              const float *b, const float *z, float *y, size_t blocks, const ptrdiff_t place[3],
                              size_t pixels, const ptrdiff_t begin[3], const ptrdiff_t end[3])
{
    const xc_window *const v = &q->window;
    const ptrdiff_t in = v->in[0] * v->in[1] * v->in[2], out = v->out[0] * v->out[1] * v->out[2];
    const size_t taps = (size_t)(v->kernel[0] * v->kernel[1] * v->kernel[2]), pixel = q->plain ? 1 : 16;
    const size_t in_blocks = (q->channels + 15) / 16, made = g->made;
    const ptrdiff_t at = ((place[0] * v->out[1] + place[1]) * v->out[2] + place[2]) * 16;
    const ptrdiff_t row = (place[0] * v->stride[0] * v->in[1] + place[1] * v->stride[1]) * v->in[2];
    g->w = w;
    g->b = b;
    g->w_block = q->channels * taps * 16;
    g->count = 0;
    g->shift = (row + place[2] * v->stride[2]) * (ptrdiff_t)pixel;
    g->spacing = (size_t)v->stride[2] * pixel;
    g->y_spacing = 16;
    g->y_block = (size_t)out * 16;
    g->resume = 0;
    g->made = 0;
    if (again && made > 0) {
        g->count = made;
        xc_blocked_flush(q, g, 1, blocks, pixels, x, z != NULL ? z + at : NULL, y + at);
        g->made = made;
        return;
    }
    for (size_t block = 0; block < in_blocks; block++) {
        const size_t left = q->channels - block * 16, length = left < 16 ? left : 16;
        for (ptrdiff_t d = begin[0]; d < end[0]; d++)
            for (ptrdiff_t e = begin[1]; e < end[1]; e++)
                for (ptrdiff_t f = begin[2]; f < end[2]; f++) {
                    const ptrdiff_t r0 = d * v->dilation[0] - v->pad[0];
                    const ptrdiff_t r1 = e * v->dilation[1] - v->pad[1];
                    const ptrdiff_t r2 = f * v->dilation[2] - v->pad[2];
                    const ptrdiff_t from = (r0 * v->in[1] + r1) * v->in[2] + r2;
                    const size_t tap = (size_t)((d * v->kernel[1] + e) * v->kernel[2] + f);
                    const size_t filter = (block * 16 * taps + tap * length) * 16;
                    for (size_t c = 0; c < (q->plain ? length : 1); c++) {
                        if (g->count == XC_STEPS)
                            xc_blocked_flush(q, g, 0, blocks, pixels, x, z != NULL ? z + at : NULL, y + at);
                        g->offsets[g->count] =
                            q->plain ? (ptrdiff_t)c * in + from : ((ptrdiff_t)block * in + from) * 16;
                        g->filters[g->count] = filter + c * 16;
                        g->lengths[g->count++] = q->plain ? 1 : length;
                    }
                }
    }
    g->made = g->resume ? 0 : g->count;
    xc_blocked_flush(q, g, 1, blocks, pixels, x, z != NULL ? z + at : NULL, y + at);
}

static int xc_is_pointwise(const xc_window *v)
{
    int pointwise = 1;
    for (int axis = 0; axis < 3; axis++)
        pointwise = pointwise && v->kernel[axis] == 1 && v->stride[axis] == 1 && v->pad[axis] == 0 &&
                    v->out[axis] == v->in[axis];
    return pointwise;
}

/* All pixels for some blocks of outputs. */
static void xc_blocked_outputs(const xc_blocked *q, const float *x, const float *w, const float *b, const float *z,
                               float *y, size_t blocks)
{
    const xc_window *const v = &q->window;
    ptrdiff_t inside[2], unused, place[3] = {0, 0, 0}, begin[3] = {0, 0, 0}, end[3] = {1, 1, 1};
    xc_product g;
    g.made = 0;
    if (xc_is_pointwise(v)) {
        xc_blocked_pixels(q, &g, 0, x, w, b, z, y, blocks, place, (size_t)(v->out[0] * v->out[1] * v->out[2]), begin,
                          end);
        return;
    }
    /* Columns for which the whole window is inside are one run; others are computed one by one. */
    xc_window_inside(v, 2, 0, &inside[0], &inside[1]);
    xc_window_inside(v, 2, v->kernel[2] - 1, &unused, &inside[1]);
    for (place[2] = 0; place[2] < v->out[2];) {
        const int is_run = place[2] >= inside[0] && place[2] < inside[1];
        const ptrdiff_t pixels = is_run ? inside[1] - place[2] : 1;
        int again = 0;
        xc_window_clip(v, 2, place[2], v->in[2], &begin[2], &end[2]);
        for (place[0] = 0; place[0] < v->out[0]; place[0]++)
            for (place[1] = 0; place[1] < v->out[1]; place[1]++) {
                const ptrdiff_t before[4] = {begin[0], begin[1], end[0], end[1]};
                xc_window_clip(v, 0, place[0], v->in[0], &begin[0], &end[0]);
                xc_window_clip(v, 1, place[1], v->in[1], &begin[1], &end[1]);
                again = again && before[0] == begin[0] && before[1] == begin[1] && before[2] == end[0] &&
                        before[3] == end[1];
                xc_blocked_pixels(q, &g, again, x, w, b, z, y, blocks, place, (size_t)pixels, begin, end);
                again = 1;
            }
        place[2] += pixels;
    }
}

static void xc_blocked_direct(const xc_blocked *q, const float *x, const float *w, const float *b, const float *z,
                              float *y)
{
    const xc_window *const v = &q->window;
    const size_t in = (size_t)(v->in[0] * v->in[1] * v->in[2]), out = (size_t)(v->out[0] * v->out[1] * v->out[2]);
    const size_t taps = (size_t)(v->kernel[0] * v->kernel[1] * v->kernel[2]);
    const size_t image = q->plain ? q->channels * in : q->groups * ((q->channels + 15) / 16) * in * 16;
    for (size_t n = 0; n < q->batch; n++)
        for (size_t group = 0; group < q->groups; group++)
            for (size_t done = 0; done < q->outputs;) {
                const size_t left = q->outputs - done, blocks = left < XC_TILE_BLOCKS ? left : XC_TILE_BLOCKS;
                const size_t block = group * q->outputs + done, to = (n * q->groups * q->outputs + block) * out * 16;
                xc_blocked_outputs(q, x + n * image + group * q->channels * in, w + block * q->channels * taps * 16,
                                   b != NULL ? b + block * 16 : NULL, z != NULL ? z + to : NULL, y + to, blocks);
                done += blocks;
            }
}

/* ---- A filter for each channel ---- */

XCVM_INLINE void xc_depthwise_tile(const size_t pixels, const xc_blocked *q, const ptrdiff_t place[3],
                                   const ptrdiff_t first[3], const ptrdiff_t last[3], const float *x, const float *w,
                                   const float *b, const float *z, float *y)
{
    const xc_window *const v = &q->window;
    const size_t step = (size_t)v->stride[2] * 16;
    for (size_t lane = 0; lane < 16; lane += XCVM_LANES) {
        xcvm_lanes sum[8];
        const ptrdiff_t at = ((place[0] * v->out[1] + place[1]) * v->out[2] + place[2]) * 16 + (ptrdiff_t)lane;
#pragma GCC unroll 8
        for (size_t p = 0; p < pixels; p++)
            sum[p] = b != NULL ? xcvm_lanes_load(b + lane) : XCVM_ZERO;
        for (ptrdiff_t d = first[0]; d < last[0]; d++)
            for (ptrdiff_t e = first[1]; e < last[1]; e++) {
                const ptrdiff_t r0 = place[0] * v->stride[0] + d * v->dilation[0] - v->pad[0];
                const ptrdiff_t r1 = place[1] * v->stride[1] + e * v->dilation[1] - v->pad[1];
                const ptrdiff_t r2 = place[2] * v->stride[2] + first[2] * v->dilation[2] - v->pad[2];
                const float *from = x + ((r0 * v->in[1] + r1) * v->in[2] + r2) * 16 + (ptrdiff_t)lane;
                const float *filter = w + ((d * v->kernel[1] + e) * v->kernel[2] + first[2]) * 16 + (ptrdiff_t)lane;
                for (ptrdiff_t f = first[2]; f < last[2]; f++, filter += 16, from += v->dilation[2] * 16) {
                    const xcvm_lanes factor = xcvm_lanes_load(filter);
#pragma GCC unroll 8
                    for (size_t p = 0; p < pixels; p++)
                        sum[p] += factor * xcvm_lanes_load(from + p * step);
                }
            }
#pragma GCC unroll 8
        for (size_t p = 0; p < pixels; p++) {
            const ptrdiff_t to = at + (ptrdiff_t)p * 16;
            if (z != NULL)
                sum[p] += xcvm_lanes_load(z + to);
            sum[p] = xcvm_lanes_min(xcvm_lanes_max(sum[p], xcvm_lanes_all(q->low)), xcvm_lanes_all(q->high));
            xcvm_lanes_store(y + to, sum[p]);
        }
    }
}

static void xc_blocked_depthwise(const xc_blocked *q, const float *x, const float *w, const float *b, const float *z,
                                 float *y)
{
    const xc_window *const v = &q->window;
    const size_t in = (size_t)(v->in[0] * v->in[1] * v->in[2]), out = (size_t)(v->out[0] * v->out[1] * v->out[2]);
    const size_t taps = (size_t)(v->kernel[0] * v->kernel[1] * v->kernel[2]);
    ptrdiff_t first[3], last[3], inside[2], place[3];
    xc_window_inside(v, 2, 0, &inside[0], &inside[1]);
    xc_window_inside(v, 2, v->kernel[2] - 1, &first[2], &inside[1]);
    for (size_t n = 0; n < q->batch * q->outputs; n++) {
        const size_t block = n % q->outputs;
        const float *const filter = w + block * taps * 16, *const bias = b != NULL ? b + block * 16 : NULL;
        const float *const from = x + n * in * 16, *const added = z != NULL ? z + n * out * 16 : NULL;
        float *const to = y + n * out * 16;
        for (place[0] = 0; place[0] < v->out[0]; place[0]++)
            for (place[1] = 0; place[1] < v->out[1]; place[1]++) {
                xc_window_clip(v, 0, place[0], v->in[0], &first[0], &last[0]);
                xc_window_clip(v, 1, place[1], v->in[1], &first[1], &last[1]);
                for (place[2] = 0; place[2] < v->out[2];) {
                    xc_window_clip(v, 2, place[2], v->in[2], &first[2], &last[2]);
                    if (place[2] >= inside[0] && place[2] + 8 <= inside[1]) {
                        xc_depthwise_tile(8, q, place, first, last, from, filter, bias, added, to);
                        place[2] += 8;
                    } else if (place[2] >= inside[0] && place[2] + 4 <= inside[1]) {
                        xc_depthwise_tile(4, q, place, first, last, from, filter, bias, added, to);
                        place[2] += 4;
                    } else {
                        xc_depthwise_tile(1, q, place, first, last, from, filter, bias, added, to);
                        place[2]++;
                    }
                }
            }
    }
}

/* ---- Few channels a group: for each block the window's positions, of each the group's channels, of each 16 outputs
 * ---- */

static void xc_blocked_grouped(const xc_blocked *q, const float *x, const float *w, const float *b, const float *z,
                               float *y)
{
    const xc_window *const v = &q->window;
    const size_t in = (size_t)(v->in[0] * v->in[1] * v->in[2]), out = (size_t)(v->out[0] * v->out[1] * v->out[2]);
    const size_t taps = (size_t)(v->kernel[0] * v->kernel[1] * v->kernel[2]), channels = q->channels;
    ptrdiff_t first[3], last[3];
    for (size_t n = 0; n < q->batch * q->outputs; n++) {
        const size_t block = n % q->outputs;
        const float *const from = x + n * in * 16, *const filter = w + block * channels * taps * 16;
        for (size_t i = 0; i < out; i++) {
            const ptrdiff_t o = (ptrdiff_t)i;
            const ptrdiff_t place[3] = {o / v->out[2] / v->out[1], o / v->out[2] % v->out[1], o % v->out[2]};
            const size_t at = (n * out + i) * 16;
            float sum[16];
            for (size_t lane = 0; lane < 16; lane++)
                sum[lane] = b != NULL ? b[block * 16 + lane] : 0.0f;
            for (int axis = 0; axis < 3; axis++)
                xc_window_clip(v, axis, place[axis], v->in[axis], &first[axis], &last[axis]);
            for (ptrdiff_t d = first[0]; d < last[0]; d++)
                for (ptrdiff_t e = first[1]; e < last[1]; e++)
                    for (ptrdiff_t f = first[2]; f < last[2]; f++) {
                        const ptrdiff_t r0 = place[0] * v->stride[0] + d * v->dilation[0] - v->pad[0];
                        const ptrdiff_t r1 = place[1] * v->stride[1] + e * v->dilation[1] - v->pad[1];
                        const ptrdiff_t r2 = place[2] * v->stride[2] + f * v->dilation[2] - v->pad[2];
                        const float *const pixel = from + ((r0 * v->in[1] + r1) * v->in[2] + r2) * 16;
                        const float *const factors =
                            filter + (size_t)((d * v->kernel[1] + e) * v->kernel[2] + f) * channels * 16;
                        for (size_t c = 0; c < channels; c++)
                            for (size_t lane = 0; lane < 16; lane++)
                                sum[lane] += factors[c * 16 + lane] * pixel[lane / channels * channels + c];
                    }
            for (size_t lane = 0; lane < 16; lane++)
                y[at + lane] = xcvm_clamp_f32(sum[lane] + (z != NULL ? z[at + lane] : 0.0f), q->low, q->high);
        }
    }
}

/* ---- Winograd's algorithm, for windows of 3 x 3 ---- */

typedef struct xc_winograd {
    xc_blocked conv;
    size_t tile, band; /* outputs along an axis of a tile; tiles that are worked on at a time */
    int on_the_fly;    /* filters are packed as for direct */
} xc_winograd;

static xc_winograd_workspace xc_winograd_parts(const xc_winograd *q)
{
    return xc_winograd_workspace_of(q->tile, q->conv.channels, q->band, XC_TILE_BLOCKS);
}

static void xc_winograd_input(const xc_winograd *q, const float *x, size_t first, size_t count, float *to)
{
    const xc_window *const v = &q->conv.window;
    const size_t in_blocks = (q->conv.channels + 15) / 16, span = q->tile + 2;
    const size_t rows = ((size_t)v->out[1] + q->tile - 1) / q->tile,
                 columns = ((size_t)v->out[2] + q->tile - 1) / q->tile;
    const size_t stride = xc_winograd_parts(q).input_point, plane = (size_t)(v->in[1] * v->in[2]) * 16;
    float edge[6 * 6 * 16];
    for (size_t block = 0; block < in_blocks; block++)
        for (size_t t = first; t < first + count; t++) {
            const ptrdiff_t row = (ptrdiff_t)(t / columns % rows * q->tile) - v->pad[1];
            const ptrdiff_t column = (ptrdiff_t)(t % columns * q->tile) - v->pad[2];
            const float *const image = x + (t / columns / rows * in_blocks + block) * plane, *from = edge;
            float *const point = to + (block * q->band + t - first) * 16;
            size_t pitch = span * 16;
            if (row >= 0 && column >= 0 && row + (ptrdiff_t)span <= v->in[1] && column + (ptrdiff_t)span <= v->in[2]) {
                from = image + (row * v->in[2] + column) * 16;
                pitch = (size_t)v->in[2] * 16;
            } else {
                for (size_t i = 0; i < span; i++)
                    for (size_t j = 0; j < span; j++) {
                        const ptrdiff_t h = row + (ptrdiff_t)i, c = column + (ptrdiff_t)j;
                        const int inside = h >= 0 && h < v->in[1] && c >= 0 && c < v->in[2];
                        for (size_t lane = 0; lane < 16; lane++)
                            edge[(i * span + j) * 16 + lane] =
                                inside ? image[(h * v->in[2] + c) * 16 + (ptrdiff_t)lane] : 0.0f;
                    }
            }
            if (q->tile == 4)
                xcvm_tile_transform(4, from, pitch, point, stride);
            else
                xcvm_tile_transform(2, from, pitch, point, stride);
        }
}

/* The filters of `blocks` blocks of outputs for blocks of inputs [begin, end): [point][block][channel][16]. */
static void xc_winograd_transform(const xc_winograd *q, const float *w, size_t blocks, size_t begin, size_t end,
                                  float *to, size_t stride)
{
    const size_t channels = q->conv.channels, all = (end * 16 < channels ? end * 16 : channels) - begin * 16;
    for (size_t k = 0; k < blocks; k++)
        for (size_t block = begin; block < end; block++) {
            const size_t left = channels - block * 16, length = left < 16 ? left : 16;
            const float *const from = w + (k * channels + block * 16) * 9 * 16;
            float *const point = to + (k * all + (block - begin) * 16) * 16;
            for (size_t at = 0; at < length * 16; at += XCVM_LANES) {
                xcvm_lanes half[6][3], u[6];
#pragma GCC unroll 3
                for (size_t j = 0; j < 3; j++) {
                    xcvm_lanes taps[3];
#pragma GCC unroll 3
                    for (size_t i = 0; i < 3; i++)
                        taps[i] = xcvm_lanes_load(from + (i * 3 + j) * length * 16 + at);
                    xcvm_winograd_taps(taps, u);
#pragma GCC unroll 6
                    for (size_t i = 0; i < 6; i++)
                        half[i][j] = u[i];
                }
#pragma GCC unroll 6
                for (size_t i = 0; i < 6; i++) {
                    xcvm_winograd_taps(half[i], u);
#pragma GCC unroll 6
                    for (size_t j = 0; j < 6; j++)
                        xcvm_lanes_store(point + (i * 6 + j) * stride + at, u[j]);
                }
            }
        }
}

XCVM_INLINE void xc_winograd_output(const size_t tile, const xc_blocked *q, const float *from, size_t stride,
                                    const float *bias, const float *z, float *y, size_t rows, size_t columns)
{
    const size_t span = tile + 2, pitch = (size_t)q->window.out[2] * 16;
    for (size_t lane = 0; lane < 16; lane += XCVM_LANES) {
        xcvm_lanes half[4 * 6], m[6], t[4];
        const xcvm_lanes start = bias != NULL ? xcvm_lanes_load(bias + lane) : XCVM_ZERO;
#pragma GCC unroll 6
        for (size_t j = 0; j < span; j++) {
#pragma GCC unroll 6
            for (size_t i = 0; i < span; i++)
                m[i] = xcvm_lanes_load(from + (i * span + j) * stride + lane);
            xcvm_tile_transform_output(tile, m, 1, t);
#pragma GCC unroll 4
            for (size_t i = 0; i < tile; i++)
                half[i * span + j] = t[i];
        }
        for (size_t i = 0; i < rows; i++) {
            xcvm_tile_transform_output(tile, half + i * span, 1, t);
#pragma GCC unroll 4
            for (size_t j = 0; j < tile; j++) {
                const size_t at = i * pitch + j * 16 + lane;
                if (j >= columns)
                    break;
                xcvm_lanes sum = t[j] + start;
                if (z != NULL)
                    sum += xcvm_lanes_load(z + at);
                sum = xcvm_lanes_min(xcvm_lanes_max(sum, xcvm_lanes_all(q->low)), xcvm_lanes_all(q->high));
                xcvm_lanes_store(y + at, sum);
            }
        }
    }
}

static void xc_winograd_store(const xc_winograd *q, const float *products, size_t first, size_t count, size_t block,
                              size_t blocks, const float *b, const float *z, float *y)
{
    const xc_window *const v = &q->conv.window;
    const size_t rows = ((size_t)v->out[1] + q->tile - 1) / q->tile,
                 columns = ((size_t)v->out[2] + q->tile - 1) / q->tile;
    const size_t stride = xc_winograd_parts(q).product_point;
    for (size_t k = 0; k < blocks; k++)
        for (size_t t = first; t < first + count; t++) {
            const size_t row = t / columns % rows * q->tile, column = t % columns * q->tile;
            const size_t image = t / columns / rows * q->conv.outputs + block + k;
            const size_t at = ((image * (size_t)v->out[1] + row) * (size_t)v->out[2] + column) * 16;
            const size_t below = (size_t)v->out[1] - row, right = (size_t)v->out[2] - column;
            const float *const from = products + (k * q->band + t - first) * 16;
            const float *const bias = b != NULL ? b + (block + k) * 16 : NULL, *const added = z != NULL ? z + at : NULL;
            const size_t high = below < q->tile ? below : q->tile, wide = right < q->tile ? right : q->tile;
            if (q->tile == 4)
                xc_winograd_output(4, &q->conv, from, stride, bias, added, y + at, high, wide);
            else
                xc_winograd_output(2, &q->conv, from, stride, bias, added, y + at, high, wide);
        }
}

/* The products of all points with the filters of blocks of inputs [begin, end), at `w`. Points are `point` floats
 * apart, and blocks of outputs `w_block`. */
static void xc_winograd_multiply(const xc_winograd *q, const float *inputs, const float *w, size_t point,
                                 size_t w_block, size_t begin, size_t end, size_t blocks, size_t count, float *products)
{
    const size_t span = q->tile + 2, channels = q->conv.channels;
    const xc_winograd_workspace parts = xc_winograd_parts(q);
    for (size_t i = 0; i < span * span; i++)
        for (size_t from = begin; from < end; from += XC_STEPS) {
            const size_t to = end - from < XC_STEPS ? end : from + XC_STEPS;
            xc_product g;
            g.w = w + i * point;
            g.b = NULL;
            g.w_block = w_block;
            g.count = 0;
            g.shift = 0;
            g.spacing = g.y_spacing = 16;
            g.y_block = q->band * 16;
            g.resume = from > 0;
            g.last = 0;
            for (size_t block = from; block < to; block++) {
                const size_t left = channels - block * 16;
                g.offsets[g.count] = (ptrdiff_t)(block * q->band * 16);
                g.filters[g.count] = (block - begin) * 16 * 16;
                g.lengths[g.count++] = left < 16 ? left : 16;
            }
            xc_multiply(&g, blocks, count, inputs + i * parts.input_point, NULL, products + i * parts.product_point);
        }
}

static void xc_blocked_winograd(const xc_winograd *q, const float *x, const float *w, const float *b, const float *z,
                                float *y, float *workspace)
{
    const xc_window *const v = &q->conv.window;
    const size_t rows = ((size_t)v->out[1] + q->tile - 1) / q->tile,
                 columns = ((size_t)v->out[2] + q->tile - 1) / q->tile;
    const size_t tiles = q->conv.batch * rows * columns, channels = q->conv.channels, in_blocks = (channels + 15) / 16;
    const xc_winograd_workspace parts = xc_winograd_parts(q);
    float *const products = workspace + parts.products, *const filters = workspace + parts.filters;
    for (size_t first = 0; first < tiles; first += q->band) {
        const size_t count = tiles - first < q->band ? tiles - first : q->band;
        xc_winograd_input(q, x, first, count, workspace);
        for (size_t block = 0; block < q->conv.outputs;) {
            const size_t left = q->conv.outputs - block, blocks = left < XC_TILE_BLOCKS ? left : XC_TILE_BLOCKS;
            if (q->on_the_fly) {
                for (size_t begin = 0; begin < in_blocks; begin += XC_PORTION) {
                    const size_t end = in_blocks - begin < XC_PORTION ? in_blocks : begin + XC_PORTION;
                    const size_t portion = (end * 16 < channels ? end * 16 : channels) - begin * 16;
                    xc_winograd_transform(q, w + block * channels * 9 * 16, blocks, begin, end, filters,
                                          parts.filter_point);
                    xc_winograd_multiply(q, workspace, filters, parts.filter_point, portion * 16, begin, end, blocks,
                                         count, products);
                }
            } else {
                xc_winograd_multiply(q, workspace, w + block * channels * 16, q->conv.outputs * channels * 16,
                                     channels * 16, 0, in_blocks, blocks, count, products);
            }
            xc_winograd_store(q, products, first, count, block, blocks, b, z, y);
            block += blocks;
        }
    }
}

#endif
