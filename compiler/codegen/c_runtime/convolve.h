/* Products of f32 whose right side is put into panels of 16 columns as it is used: of matrices that change from run to
 * run, and of convolutions, their gradients and transposes as products of matrices. */
#ifndef XC_CONVOLVE_H
#define XC_CONVOLVE_H

#include "compiler/codegen/c_runtime/products.h"
#include "compiler/codegen/c_runtime/windows.h"

/* Columns that are put into panels at a time, a multiple of 16. */
enum { XC_PANEL_COLUMNS = 64 };

/* y = a * b, or y + a * b to `add`; rows of a, of k numbers each, are a_row apart, those of y y_row; b is in panels. */
static void xc_panel_product(const float *a, size_t a_row, const float *panels, size_t k, float *y, size_t y_row,
                             size_t rows, size_t columns, int add)
{
    enum { ROWS = 48 };
    const size_t whole = columns / 16, width = columns % 16;
    xc_product g = {.w = panels,
                    .b = NULL,
                    .w_block = k * 16,
                    .count = 1,
                    .shift = 0,
                    .offsets = {0},
                    .filters = {0},
                    .lengths = {k},
                    .spacing = a_row,
                    .y_spacing = y_row,
                    .y_block = 16,
                    .low = 0,
                    .high = 0,
                    .resume = add,
                    .last = 0,
                    .made = 0};
    for (size_t row = 0; row < rows; row += ROWS) {
        const size_t count = rows - row < ROWS ? rows - row : ROWS;
        g.w = panels;
        for (size_t panel = 0; panel < whole;) {
            const size_t left = whole - panel, blocks = left < XC_TILE_BLOCKS ? left : XC_TILE_BLOCKS;
            xc_multiply(&g, blocks, count, a + row * a_row, NULL, y + row * y_row + panel * 16);
            panel += blocks;
            g.w += blocks * k * 16;
        }
        if (width > 0) {
            float lines[ROWS * 16];
            xc_product last = g;
            last.y_spacing = 16;
            last.resume = 0;
            xc_multiply(&last, 1, count, a + row * a_row, NULL, lines);
            for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < width; j++) {
                    float *const to = y + (row + i) * y_row + whole * 16 + j;
                    *to = lines[i * 16 + j] + (add ? *to : 0.0f);
                }
        }
    }
}

/* Columns [0, count) of b, k rows, in panels; the last one is filled up with zeros. */
static void xc_pack_panels(const float *b, float *panels, size_t k, size_t count, size_t b_row, size_t b_column)
{
    for (size_t j = 0; j < count; j += 16) {
        const size_t width = count - j < 16 ? count - j : 16;
        if (b_column != 1 && b_row == 1) {
            for (size_t i = 0; i < 16; i++)
                for (size_t p = 0; p < k; p++)
                    panels[p * 16 + i] = i < width ? b[(j + i) * b_column + p] : 0.0f;
        } else {
            for (size_t p = 0; p < k; p++)
                for (size_t i = 0; i < 16; i++)
                    panels[p * 16 + i] = i < width ? b[p * b_row + (j + i) * b_column] : 0.0f;
        }
        panels += k * 16;
    }
}

/* As xc_matmul_f32; `room` is for k * (m + XC_PANEL_COLUMNS) numbers. */
static void xc_matmul_panels(const float *a, const float *b, float *y, size_t m, size_t k, size_t n, size_t a_row,
                             size_t a_column, size_t b_row, size_t b_column, float *room)
{
    float *const panels = room + m * k;
    if (a_column != 1) {
        for (size_t p = 0; p < k; p++)
            for (size_t i = 0; i < m; i++)
                room[i * k + p] = a[i * a_row + p * a_column];
        a = room;
        a_row = k;
    }
    for (size_t j = 0; j < n; j += XC_PANEL_COLUMNS) {
        const size_t count = n - j < XC_PANEL_COLUMNS ? n - j : XC_PANEL_COLUMNS;
        xc_pack_panels(b + j * b_column, panels, k, count, b_row, b_column);
        xc_panel_product(a, a_row, panels, k, y + j, n, m, count, 0);
    }
}

/* ---- Windows ---- */

/* Output positions [p, p + length) of one output row meet, for window position (a, b, c), elements of a plane from
 * `from` on; of these [first, last) lie inside. Returns length. */
static size_t xc_window_run(const xc_window *g, size_t tap, size_t p, size_t count, ptrdiff_t *from, size_t *first,
                            size_t *last)
{
    const size_t width = (size_t)g->out[2], height = (size_t)g->out[1];
    const ptrdiff_t c = (ptrdiff_t)tap % g->kernel[2], rest = (ptrdiff_t)tap / g->kernel[2];
    const ptrdiff_t b = rest % g->kernel[1], a = rest / g->kernel[1];
    const size_t k = p % width, length = width - k < count ? width - k : count;
    const ptrdiff_t j = (ptrdiff_t)(p / width % height) * g->stride[1] + b * g->dilation[1] - g->pad[1];
    const ptrdiff_t i = (ptrdiff_t)(p / width / height) * g->stride[0] + a * g->dilation[0] - g->pad[0];
    ptrdiff_t low, high;
    xc_window_inside(g, 2, c, &low, &high);
    *first = low > (ptrdiff_t)k ? (size_t)low - k : 0;
    *first = *first < length ? *first : length;
    *last = high > (ptrdiff_t)k ? (size_t)high - k : 0;
    *last = *last < length ? *last : length;
    if (i < 0 || i >= g->in[0] || j < 0 || j >= g->in[1] || *first > *last)
        *last = *first;
    *from = (i * g->in[1] + j) * g->in[2] + (ptrdiff_t)k * g->stride[2] + c * g->dilation[2] - g->pad[2];
    return length;
}

/* What lies under one position of the window for output positions [p, p + count); zero in the padding. */
static void xc_window_gather(const xc_window *g, const float *plane, size_t tap, size_t p, size_t count, float *line)
{
    for (size_t done = 0; done < count;) {
        ptrdiff_t from;
        size_t first, last;
        const size_t length = xc_window_run(g, tap, p + done, count - done, &from, &first, &last);
        float *const to = line + done;
        const ptrdiff_t stride = g->stride[2];
        for (size_t i = 0; i < first; i++)
            to[i] = 0.0f;
        if (stride == 1)
            for (size_t i = first; i < last; i++)
                to[i] = plane[from + (ptrdiff_t)i];
        else
            for (size_t i = first; i < last; i++)
                to[i] = plane[from + (ptrdiff_t)i * stride];
        for (size_t i = last; i < length; i++)
            to[i] = 0.0f;
        done += length;
    }
}

/* The reverse: adds a line to what lies there. */
static void xc_window_spread(const xc_window *g, float *plane, size_t tap, size_t p, size_t count, const float *line)
{
    for (size_t done = 0; done < count;) {
        ptrdiff_t from;
        size_t first, last;
        const size_t length = xc_window_run(g, tap, p + done, count - done, &from, &first, &last);
        const ptrdiff_t stride = g->stride[2];
        if (stride == 1)
            for (size_t i = first; i < last; i++)
                plane[from + (ptrdiff_t)i] += line[done + i];
        else
            for (size_t i = first; i < last; i++)
                plane[from + (ptrdiff_t)i * stride] += line[done + i];
        done += length;
    }
}

/* As xc_conv_f32; `room` is for (channels * window + 1) * XC_PANEL_COLUMNS numbers. */
static void xc_conv_panels(const xc_window *g, const float *x, const float *w, const float *b, const float *z, float *y,
                           size_t batch, size_t groups, size_t channels, size_t outputs, float *room)
{
    const size_t in = (size_t)(g->in[0] * g->in[1] * g->in[2]), out = (size_t)(g->out[0] * g->out[1] * g->out[2]);
    const size_t kernel = (size_t)(g->kernel[0] * g->kernel[1] * g->kernel[2]), k = channels * kernel;
    float *const line = room, *const panels = room + XC_PANEL_COLUMNS;
    for (size_t n = 0; n < batch * groups; n++) {
        const float *const from = x + n * channels * in, *const filters = w + n % groups * outputs * k;
        float *const to = y + n * outputs * out;
        for (size_t m = 0; m < outputs; m++)
            for (size_t i = 0; i < out; i++)
                to[m * out + i] =
                    (b != NULL ? b[n % groups * outputs + m] : 0.0f) + (z != NULL ? z[(n * outputs + m) * out + i] : 0);
        for (size_t p = 0; p < out; p += XC_PANEL_COLUMNS) {
            const size_t count = out - p < XC_PANEL_COLUMNS ? out - p : XC_PANEL_COLUMNS;
            for (size_t i = count; i < XC_PANEL_COLUMNS; i++)
                line[i] = 0.0f;
            for (size_t r = 0; r < k; r++) {
                xc_window_gather(g, from + r / kernel * in, r % kernel, p, count, line);
                for (size_t j = 0; j < count; j += 16)
                    memcpy(panels + (j * k + r * 16), line + j, 16 * sizeof *line);
            }
            xc_panel_product(filters, k, panels, k, to + p, out, outputs, count, 1);
        }
    }
}

/* As xc_filter_gradient_f32; `room` is for (channels * window + 16) * XC_PANEL_COLUMNS numbers. */
static void xc_filter_gradient_panels(const xc_window *g, const float *x, const float *dy, float *y, size_t batch,
                                      size_t groups, size_t channels, size_t outputs, float *room)
{
    const size_t in = (size_t)(g->in[0] * g->in[1] * g->in[2]), out = (size_t)(g->out[0] * g->out[1] * g->out[2]);
    const size_t kernel = (size_t)(g->kernel[0] * g->kernel[1] * g->kernel[2]), columns = channels * kernel;
    float *const panels = room;
    memset(y, 0, groups * outputs * columns * sizeof *y);
    for (size_t n = 0; n < batch * groups; n++)
        for (size_t p = 0; p < out; p += XC_PANEL_COLUMNS) {
            const size_t count = out - p < XC_PANEL_COLUMNS ? out - p : XC_PANEL_COLUMNS;
            for (size_t r = 0; r < columns; r++) {
                float line[XC_PANEL_COLUMNS], *const to = panels + r / 16 * 16 * count + r % 16;
                xc_window_gather(g, x + (n * channels + r / kernel) * in, r % kernel, p, count, line);
                for (size_t i = 0; i < count; i++)
                    to[i * 16] = line[i];
            }
            for (size_t r = columns; r % 16 != 0; r++)
                for (size_t i = 0; i < count; i++)
                    panels[r / 16 * 16 * count + i * 16 + r % 16] = 0.0f;
            xc_panel_product(dy + n * outputs * out + p, out, panels, count, y + n % groups * outputs * columns,
                             columns, outputs, columns, 1);
        }
}

/* As xc_conv_transpose_f32; `room` is for outputs * window * channels + (outputs * window + channels) *
 * XC_PANEL_COLUMNS numbers. */
static void xc_conv_transpose_panels(const xc_window *g, const float *x, const float *w, const float *b, float *y,
                                     size_t batch, size_t groups, size_t channels, size_t outputs, float *room)
{
    const size_t in = (size_t)(g->in[0] * g->in[1] * g->in[2]), out = (size_t)(g->out[0] * g->out[1] * g->out[2]);
    const size_t kernel = (size_t)(g->kernel[0] * g->kernel[1] * g->kernel[2]), rows = outputs * kernel;
    float *const filters = room, *const lines = filters + rows * channels,
                 *const panels = lines + rows * XC_PANEL_COLUMNS;
    for (size_t group = 0; group < groups; group++) {
        for (size_t c = 0; c < channels; c++)
            for (size_t r = 0; r < rows; r++)
                filters[r * channels + c] = w[(group * channels + c) * rows + r];
        for (size_t n = group; n < batch * groups; n += groups) {
            const float *const from = x + n * channels * out;
            float *const to = y + n * outputs * in;
            for (size_t m = 0; m < outputs; m++)
                for (size_t i = 0; i < in; i++)
                    to[m * in + i] = b != NULL ? b[group * outputs + m] : 0.0f;
            for (size_t p = 0; p < out; p += XC_PANEL_COLUMNS) {
                const size_t count = out - p < XC_PANEL_COLUMNS ? out - p : XC_PANEL_COLUMNS;
                xc_pack_panels(from + p, panels, channels, count, out, 1);
                xc_panel_product(filters, channels, panels, channels, lines, XC_PANEL_COLUMNS, rows, count, 0);
                for (size_t r = 0; r < rows; r++)
                    xc_window_spread(g, to + r / kernel * in, r % kernel, p, count, lines + r * XC_PANEL_COLUMNS);
            }
        }
    }
}

#endif
