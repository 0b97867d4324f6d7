/* Integers of quantized models. Sums have 32 bits and wrap around. The floats after them are rounded one by one, so
 * results are the same bits as the VM's. */
#ifndef XC_QUANTIZED_H
#define XC_QUANTIZED_H

#include "compiler/export_c/c_runtime/workspace.h"
#include "compiler/export_c/c_runtime/windows.h"

/* gcc contracts a product and a sum into one rounding unless this is disabled; clang does not across statements. */
#if defined(__GNUC__) && !defined(__clang__)
#define XC_ROUNDED __attribute__((optimize("fp-contract=off")))
#else
#define XC_ROUNDED
#endif

/* Clamps from low to high, with NaN to low, then rounds to nearest even; both bounds are within 2 to the 21. */
static inline int32_t xc_nearest(float v, float low, float high)
{
    v = v > low ? v : low;
    v = v < high ? v : high;
    /* Adding this leaves no bits for a fraction. */
    v += 12582912.0f;
    v -= 12582912.0f;
    return (int32_t)v;
}

/* The quotient x / scale to nearest even, plus zero, saturated. What is far beyond any integer is cut off first. */
static inline int32_t xc_quantize(float quotient, float zero, float low, float high)
{
    const float v = (float)xc_nearest(quotient, -1048576.0f, 1048576.0f) + zero;
    return (int32_t)(v > low ? v < high ? v : high : low);
}

/* The scale and the zero point that cover the range of x and zero; y is x by them. NaN makes both bounds NaN. */
static XC_ROUNDED void xc_quantize_dynamic(const float *x, size_t count, uint8_t *y, float *scale, uint8_t *zero_point)
{
    float low = 0, high = 0;
    for (size_t i = 0; i < count; i++) {
        low = x[i] < low || x[i] != x[i] ? x[i] : low;
        high = x[i] > high || x[i] != x[i] ? x[i] : high;
    }
    const float step = (high - low) / 255.0f, divisor = step > 0 ? step : 1.0f;
    const uint8_t zero = (uint8_t)xc_nearest(-low / divisor, 0, 255);
    for (size_t i = 0; i < count; i++)
        y[i] = (uint8_t)xc_quantize(x[i] / divisor, (float)zero, 0, 255);
    *scale = step;
    *zero_point = zero;
}

/* Element i of codes of four or two bits, lowest first; those with a sign are of two's complement. */
static inline int32_t xc_packed(const uint8_t *codes, size_t i, unsigned bits, int is_signed)
{
    const unsigned each = 8 / bits, code = codes[i / each] >> i % each * bits & ((1u << bits) - 1);
    return (int32_t)code - (is_signed && code >> (bits - 1) ? 1 << bits : 0);
}
static inline void xc_pack(uint8_t *codes, size_t i, unsigned bits, int32_t code)
{
    const unsigned each = 8 / bits, at = (unsigned)(i % each) * bits, mask = ((1u << bits) - 1) << at;
    codes[i / each] = (uint8_t)((codes[i / each] & ~mask) | ((unsigned)code << at & mask));
}

/* ---- Pairs ---- */

/* Rows of a sum or a product; a_step and b_step are 1, or 0 where an operand stays the same. */
typedef struct xc_quantized_pair {
    float a_scale, b_scale; /* of a product: a_scale alone */
    int32_t a_zero, b_zero, y_zero;
    float low, high; /* less y_zero */
} xc_quantized_pair;

static XC_ROUNDED void xc_quantized_add(const xc_quantized_pair *t, const uint8_t *a, size_t a_step, const uint8_t *b,
                                        size_t b_step, uint8_t *y, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float u = (float)(a[i * a_step] - t->a_zero) * t->a_scale;
        const float v = (float)(b[i * b_step] - t->b_zero) * t->b_scale;
        y[i] = (uint8_t)(xc_nearest(u + v, t->low, t->high) + t->y_zero);
    }
}

static XC_ROUNDED void xc_quantized_mul(const xc_quantized_pair *t, const uint8_t *a, size_t a_step, const uint8_t *b,
                                        size_t b_step, uint8_t *y, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float v = (float)((a[i * a_step] - t->a_zero) * (b[i * b_step] - t->b_zero)) * t->a_scale;
        y[i] = (uint8_t)(xc_nearest(v, t->low, t->high) + t->y_zero);
    }
}

/* ---- Products: channels are last, filters in panels of 16 outputs as in the VM ---- */

/* The outputs of a panel. */
enum { XC_QUANTIZED_OUTPUTS = 16 };

/* A row of the product consists of `segments` runs of `length` bytes, padded to quads of four: the rows of the window,
 * or its positions. If `copies` is not set, rows are read from x, `length` bytes apart. */
typedef struct xc_quantized_product {
    xc_window window; /* over axes 1 and 2 */
    size_t batch, groups, channels, outputs;
    size_t segments, length, quads;
    int by_rows, copies, floats, x_zero;
    int32_t zero;
    float low, high; /* less zero */
} xc_quantized_product;

/* Sums of `rows` rows, `step` bytes apart, with the 16 columns of a panel. */
static void xc_quantized_tile_plain(const uint8_t *x, size_t step, size_t rows, size_t quads, const int8_t *w,
                                    uint32_t (*sums)[XC_QUANTIZED_OUTPUTS])
{
    for (size_t i = 0; i < rows; i++) {
        const uint8_t *from = x + i * step;
        const int8_t *at = w;
        uint32_t sum[XC_QUANTIZED_OUTPUTS] = {0};
        for (size_t q = 0; q < quads; q++, from += 4, at += 4 * XC_QUANTIZED_OUTPUTS)
            for (size_t j = 0; j < XC_QUANTIZED_OUTPUTS; j++)
                sum[j] += (uint32_t)(from[0] * at[4 * j] + from[1] * at[4 * j + 1] + from[2] * at[4 * j + 2] +
                                     from[3] * at[4 * j + 3]);
        memcpy(sums[i], sum, sizeof sum);
    }
}

/* The bytes of one position of y, of one group. */
static void xc_quantized_gather(const xc_quantized_product *p, const uint8_t *image, size_t group, ptrdiff_t row,
                                ptrdiff_t column, uint8_t *to)
{
    const xc_window *const g = &p->window;
    const size_t all = p->groups * p->channels, run = 4 * p->quads;
    const ptrdiff_t left = column * g->stride[2] - g->pad[2];
    for (ptrdiff_t a = 0; a < g->kernel[1]; a++) {
        const ptrdiff_t h = row * g->stride[1] + a * g->dilation[1] - g->pad[1];
        const int inside = h >= 0 && h < g->in[1];
        const uint8_t *const line = image + (inside ? (size_t)(h * g->in[2]) * all : 0) + group * p->channels;
        uint8_t *const first = to + (size_t)(p->by_rows ? a : a * g->kernel[2]) * run;
        if (p->by_rows && inside && left >= 0 && left + g->kernel[2] <= g->in[2]) {
            memcpy(first, line + (size_t)left * all, p->length);
            continue;
        }
        for (ptrdiff_t b = 0; b < g->kernel[2]; b++) {
            const ptrdiff_t w = left + b * g->dilation[2];
            uint8_t *const at = first + (size_t)b * (p->by_rows ? p->channels : run);
            if (inside && w >= 0 && w < g->in[2])
                memcpy(at, line + (size_t)w * all, p->channels);
            else
                memset(at, p->x_zero, p->channels);
        }
    }
}

/* Sums of one row and up to 16 outputs, as bytes or floats. */
static XC_ROUNDED void xc_quantized_store(const xc_quantized_product *p, const uint32_t *sums, size_t count,
                                          const int32_t *bias, const float *scale, const float *shift, void *y,
                                          size_t at)
{
    float v[XC_QUANTIZED_OUTPUTS];
    for (size_t j = 0; j < count; j++)
        v[j] = (float)(int32_t)(sums[j] + (uint32_t)bias[j]) * scale[j];
    for (size_t j = 0; shift != NULL && j < count; j++)
        v[j] += shift[j];
    for (size_t j = 0; j < count; j++) {
        if (p->floats)
            ((float *)y)[at + j] = v[j];
        else
            ((uint8_t *)y)[at + j] = (uint8_t)(xc_nearest(v[j], p->low, p->high) + p->zero);
    }
}

/* `tile` is one of the functions of tiles; `workspace` holds a row of bytes for each row of one, where rows are copied.
 */
static void xc_quantized_multiply(const xc_quantized_product *p,
                                  void (*tile)(const uint8_t *x, size_t step, size_t rows, size_t quads,
                                               const int8_t *w, uint32_t (*sums)[XC_QUANTIZED_OUTPUTS]),
                                  const uint8_t *x, const int8_t *w, const int32_t *bias, const float *scale,
                                  const float *shift, void *y, uint8_t *workspace)
{
    const size_t width = (size_t)p->window.out[2], positions = (size_t)p->window.out[1] * width;
    const size_t quads = p->segments * p->quads, panels = (p->outputs + 15) / 16, all = p->groups * p->outputs;
    const size_t image = (size_t)(p->window.in[1] * p->window.in[2]) * p->groups * p->channels;
    uint32_t sums[XC_QUANTIZED_ROWS][XC_QUANTIZED_OUTPUTS];
    if (p->copies)
        memset(workspace, 0, XC_QUANTIZED_ROWS * quads * 4);
    for (size_t n = 0; n < p->batch; n++)
        for (size_t item = 0; item < (positions + XC_QUANTIZED_ROWS - 1) / XC_QUANTIZED_ROWS * p->groups; item++) {
            const size_t at = item / p->groups * XC_QUANTIZED_ROWS, g = item % p->groups;
            const size_t rows = positions - at < XC_QUANTIZED_ROWS ? positions - at : XC_QUANTIZED_ROWS;
            for (size_t i = 0; p->copies && i < rows; i++)
                xc_quantized_gather(p, x + n * image, g, (ptrdiff_t)((at + i) / width), (ptrdiff_t)((at + i) % width),
                                    workspace + i * quads * 4);
            for (size_t panel = 0; panel < panels; panel++) {
                const size_t left = p->outputs - panel * 16, first = g * p->outputs + panel * 16;
                tile(p->copies ? workspace : x + n * image + at * p->length, quads * 4, rows, quads,
                     w + (g * panels + panel) * quads * 64, sums);
                for (size_t i = 0; i < rows; i++)
                    xc_quantized_store(p, sums[i], left < 16 ? left : 16, bias + first, scale + first,
                                       shift != NULL ? shift + first : NULL, y, (n * positions + at + i) * all + first);
            }
        }
}

/* Channels at a time that are summed up. */
enum { XC_QUANTIZED_CHANNELS = 64 };

/* Each channel by itself; w is window x channels. */
static void xc_quantized_depthwise(const xc_quantized_product *p, const uint8_t *x, const int8_t *w,
                                   const int32_t *bias, const float *scale, uint8_t *y)
{
    const xc_window *const g = &p->window;
    const size_t channels = p->channels;
    for (size_t n = 0; n < p->batch; n++, x += (size_t)(g->in[1] * g->in[2]) * channels)
        for (ptrdiff_t i = 0; i < g->out[1]; i++)
            for (ptrdiff_t j = 0; j < g->out[2]; j++, y += channels)
                for (size_t c = 0, count; c < channels; c += count) {
                    uint32_t sums[XC_QUANTIZED_CHANNELS] = {0};
                    count = channels - c < XC_QUANTIZED_CHANNELS ? channels - c : XC_QUANTIZED_CHANNELS;
                    for (ptrdiff_t a = 0; a < g->kernel[1]; a++)
                        for (ptrdiff_t b = 0; b < g->kernel[2]; b++) {
                            const ptrdiff_t h = i * g->stride[1] + a * g->dilation[1] - g->pad[1];
                            const ptrdiff_t v = j * g->stride[2] + b * g->dilation[2] - g->pad[2];
                            const int8_t *const by = w + (size_t)(a * g->kernel[2] + b) * channels + c;
                            if (h >= 0 && h < g->in[1] && v >= 0 && v < g->in[2]) {
                                const uint8_t *const from = x + (size_t)(h * g->in[2] + v) * channels + c;
                                for (size_t k = 0; k < count; k++)
                                    sums[k] += (uint32_t)(from[k] * by[k]);
                            } else {
                                for (size_t k = 0; k < count; k++)
                                    sums[k] += (uint32_t)(p->x_zero * by[k]);
                            }
                        }
                    for (size_t k = 0; k < count; k += XC_QUANTIZED_OUTPUTS)
                        xc_quantized_store(p, sums + k,
                                           count - k < XC_QUANTIZED_OUTPUTS ? count - k : XC_QUANTIZED_OUTPUTS,
                                           bias + c + k, scale + c + k, NULL, y, c + k);
                }
}

/* ---- Pools: channels are last ---- */

static void xc_quantized_max_pool(const xc_quantized_product *p, const uint8_t *x, uint8_t *y)
{
    const xc_window *const g = &p->window;
    const size_t channels = p->channels;
    ptrdiff_t first[2], last[2];
    for (size_t n = 0; n < p->batch; n++, x += (size_t)(g->in[1] * g->in[2]) * channels)
        for (ptrdiff_t i = 0; i < g->out[1]; i++)
            for (ptrdiff_t j = 0; j < g->out[2]; j++, y += channels) {
                xc_window_clip(g, 1, i, g->in[1], &first[0], &last[0]);
                xc_window_clip(g, 2, j, g->in[2], &first[1], &last[1]);
                memset(y, 0, channels);
                for (ptrdiff_t a = first[0]; a < last[0]; a++)
                    for (ptrdiff_t b = first[1]; b < last[1]; b++) {
                        const ptrdiff_t h = i * g->stride[1] + a * g->dilation[1] - g->pad[1];
                        const ptrdiff_t v = j * g->stride[2] + b * g->dilation[2] - g->pad[2];
                        const uint8_t *const from = x + (size_t)(h * g->in[2] + v) * channels;
                        for (size_t k = 0; k < channels; k++)
                            y[k] = from[k] > y[k] ? from[k] : y[k];
                    }
            }
}

static void xc_quantized_mean_pool(const xc_quantized_product *p, int counts_padding, float scale, const uint8_t *x,
                                   uint8_t *y)
{
    const xc_window *const g = &p->window;
    const size_t channels = p->channels;
    ptrdiff_t first[2], last[2];
    for (size_t n = 0; n < p->batch; n++, x += (size_t)(g->in[1] * g->in[2]) * channels)
        for (ptrdiff_t i = 0; i < g->out[1]; i++)
            for (ptrdiff_t j = 0; j < g->out[2]; j++, y += channels) {
                ptrdiff_t unused, rows, columns;
                xc_window_clip(g, 1, i, g->in[1] + g->pad_end[1], &unused, &rows);
                xc_window_clip(g, 2, j, g->in[2] + g->pad_end[2], &unused, &columns);
                xc_window_clip(g, 1, i, g->in[1], &first[0], &last[0]);
                xc_window_clip(g, 2, j, g->in[2], &first[1], &last[1]);
                const ptrdiff_t seen = (last[0] - first[0]) * (last[1] - first[1]);
                const ptrdiff_t counted = counts_padding ? rows * columns : seen;
                const float divisor = counted != 0 ? (float)counted : 1.0f;
                for (size_t c = 0, count; c < channels; c += count) {
                    int32_t sums[XC_QUANTIZED_CHANNELS] = {0};
                    count = channels - c < XC_QUANTIZED_CHANNELS ? channels - c : XC_QUANTIZED_CHANNELS;
                    for (ptrdiff_t a = first[0]; a < last[0]; a++)
                        for (ptrdiff_t b = first[1]; b < last[1]; b++) {
                            const ptrdiff_t h = i * g->stride[1] + a * g->dilation[1] - g->pad[1];
                            const ptrdiff_t v = j * g->stride[2] + b * g->dilation[2] - g->pad[2];
                            const uint8_t *const from = x + (size_t)(h * g->in[2] + v) * channels + c;
                            for (size_t k = 0; k < count; k++)
                                sums[k] += from[k];
                        }
                    for (size_t k = 0; k < count; k++) {
                        const float mean = (float)(sums[k] - (int32_t)seen * p->x_zero) / divisor;
                        y[c + k] = (uint8_t)(xc_nearest(mean * scale, p->low, p->high) + p->zero);
                    }
                }
            }
}

/* ---- Operators on integers as ONNX has them: operands are u8 or i8, and so are zero points ---- */

static inline int32_t xc_byte(const void *at, size_t i, int is_signed)
{
    return is_signed ? ((const int8_t *)at)[i] : ((const uint8_t *)at)[i];
}

/* Which of the operands are i8; steps of their zero points from one line to the next. Without zero points these are
 * NULL. */
typedef struct xc_integers {
    int a_signed, b_signed, y_signed;
    size_t a_step, b_step;
    const void *a_zero, *b_zero;
} xc_integers;

/* One row of a product: of k elements of a with k rows of n columns of b. */
static void xc_integer_row(const xc_integers *t, const void *a, const void *b, size_t row, size_t k, size_t n,
                           int32_t *y)
{
    const int32_t a_zero = t->a_zero != NULL ? xc_byte(t->a_zero, row * t->a_step, t->a_signed) : 0;
    memset(y, 0, n * sizeof *y);
    for (size_t p = 0; p < k; p++) {
        const int32_t by = xc_byte(a, row * k + p, t->a_signed) - a_zero;
        for (size_t j = 0; j < n; j++) {
            const int32_t zero = t->b_zero != NULL ? xc_byte(t->b_zero, j * t->b_step, t->b_signed) : 0;
            y[j] = (int32_t)((uint32_t)y[j] + (uint32_t)(by * (xc_byte(b, p * n + j, t->b_signed) - zero)));
        }
    }
}

/* One plane of a convolution: a are the filters of one output, b the channels of its group. */
static void xc_integer_plane(const xc_window *g, const xc_integers *t, const void *a, size_t filter, const void *b,
                             size_t image, size_t output, size_t channels, int32_t *y)
{
    const size_t in = (size_t)(g->in[0] * g->in[1] * g->in[2]), out = (size_t)(g->out[0] * g->out[1] * g->out[2]);
    const int32_t a_zero = t->a_zero != NULL ? xc_byte(t->a_zero, output * t->a_step, t->a_signed) : 0;
    const int32_t b_zero = t->b_zero != NULL ? xc_byte(t->b_zero, 0, t->b_signed) : 0;
    const size_t kernel = (size_t)(g->kernel[0] * g->kernel[1] * g->kernel[2]);
    memset(y, 0, out * sizeof *y);
    for (size_t c = 0; c < channels; c++, image += in)
        for (size_t tap = 0; tap < kernel; tap++) {
            const int32_t by = xc_byte(a, filter++, t->a_signed) - a_zero;
            const xc_meeting m = xc_window_meeting(g, tap);
            for (ptrdiff_t i = m.first[0]; i < m.last[0]; i++)
                for (ptrdiff_t j = m.first[1]; j < m.last[1]; j++) {
                    const ptrdiff_t line = (ptrdiff_t)image + xc_window_line(g, &m, i, j);
                    int32_t *const to = y + (i * g->out[1] + j) * g->out[2];
                    for (ptrdiff_t l = m.first[2]; l < m.last[2]; l++) {
                        const int32_t v = xc_byte(b, (size_t)(line + l * g->stride[2]), t->b_signed) - b_zero;
                        to[l] = (int32_t)((uint32_t)to[l] + (uint32_t)(by * v));
                    }
                }
        }
}

/* x * w / y, in f32 but where f32 does not have the product. */
static XC_ROUNDED float xc_quantized_scale(float x, float w, float y)
{
    const float unit = x * w;
    return isnormal(unit) ? unit / y : (float)((double)x * (double)w / (double)y);
}

/* y[i] = sums[i] + bias, times scale, or scale * scales[i * step], to nearest even, plus zero, saturated. A scale
 * beyond f32 is the greatest of f32, by which any sum but 0 saturates. */
static void xc_quantize_sums(const int32_t *sums, size_t count, int32_t bias, float scale, const float *scales,
                             size_t step, int32_t zero, int is_signed, void *y)
{
    const float low = (float)((is_signed ? -128 : 0) - zero), high = (float)((is_signed ? 127 : 255) - zero);
    for (size_t i = 0; i < count; i++) {
        const float by = scales != NULL ? scale * scales[i * step] : scale;
        const float v =
            (float)(int32_t)((uint32_t)sums[i] + (uint32_t)bias) * (by < 0x1.fffffep127f ? by : 0x1.fffffep127f);
        ((uint8_t *)y)[i] = (uint8_t)(xc_nearest(v, low, high) + zero);
    }
}

#endif
