/* Products of f32 whose right operand is packed into panels of 16 columns while it is used: for matrices that change
 * from run to run, and for convolutions, their gradients and transposed convolutions as matrix products. */
#ifndef XC_CONVOLVE_H
#define XC_CONVOLVE_H

#include "compiler/export_c/c_runtime/products.h"
#include "compiler/export_c/c_runtime/workspace.h"
#include "compiler/export_c/c_runtime/windows.h"

/* y = a * b, or y + a * b if `add`. Rows of a have k numbers and are a_row apart, those of y are y_row apart. b is in
 * panels with space for `most` rows each. */
static void xc_panel_product(const float *a, size_t a_row, const float *panels, size_t k, size_t most, float *y,
                             size_t y_row, size_t rows, size_t columns, int add)
{
    enum { ROWS = 48 };
    const size_t whole = columns / 16, width = columns % 16;
    xc_product g = {.w = panels,
                    .b = NULL,
                    .w_block = most * 16,
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
            g.w += blocks * most * 16;
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

/* Arguments as for xc_matmul_f32. */
static void xc_matmul_panels(const float *a, const float *b, float *y, size_t m, size_t k, size_t n, size_t a_row,
                             size_t a_column, size_t b_row, size_t b_column, float *workspace)
{
    float *const panels = workspace + xc_matmul_workspace_of(m, k).panels;
    if (a_column != 1) {
        for (size_t p = 0; p < k; p++)
            for (size_t i = 0; i < m; i++)
                workspace[i * k + p] = a[i * a_row + p * a_column];
        a = workspace;
        a_row = k;
    }
    for (size_t j = 0; j < n; j += XC_PANEL_COLUMNS) {
        const size_t count = n - j < XC_PANEL_COLUMNS ? n - j : XC_PANEL_COLUMNS;
        xc_pack_panels(b + j * b_column, panels, k, count, b_row, b_column);
        xc_panel_product(a, a_row, panels, k, k, y + j, n, m, count, 0);
    }
}

/* ---- Windows ---- */

/* Planes are copied with their padding, so that each window position is inside. Sizes and elements of a padded
 * plane. */
static size_t xc_padded(const xc_window *g, size_t size[3])
{
    for (int axis = 0; axis < 3; axis++)
        size[axis] = xc_padded_size((size_t)g->out[axis], (size_t)g->stride[axis], (size_t)g->kernel[axis],
                                    (size_t)g->dilation[axis]);
    return size[0] * size[1] * size[2];
}

/* Copies planes `x`, or adds sums with padding, which is dropped, to planes `y`. One of them is NULL. */
static void xc_pad_planes(const xc_window *g, const float *x, float *y, size_t count, float *padded)
{
    size_t size[3];
    const size_t all = xc_padded(g, size), in = (size_t)(g->in[0] * g->in[1] * g->in[2]);
    const ptrdiff_t low = g->pad[2] > 0 ? g->pad[2] : 0, end = g->in[2] + g->pad[2];
    const ptrdiff_t high = end < (ptrdiff_t)size[2] ? end : (ptrdiff_t)size[2];
    for (size_t n = 0; n < count; n++, padded += all)
        for (ptrdiff_t i = 0; i < g->in[0]; i++)
            for (ptrdiff_t j = 0; j < g->in[1]; j++) {
                const ptrdiff_t a = i + g->pad[0], b = j + g->pad[1];
                const ptrdiff_t at = (ptrdiff_t)(n * in) + (i * g->in[1] + j) * g->in[2] - g->pad[2];
                if (a < 0 || b < 0 || a >= (ptrdiff_t)size[0] || b >= (ptrdiff_t)size[1])
                    continue;
                float *const with = padded + (a * (ptrdiff_t)size[1] + b) * (ptrdiff_t)size[2];
                if (x != NULL)
                    for (ptrdiff_t k = low; k < high; k++)
                        with[k] = x[at + k];
                else
                    for (ptrdiff_t k = low; k < high; k++)
                        y[at + k] += with[k];
            }
}

/* Adjacent output positions: the position of the first window in a padded plane. */
typedef struct xc_row {
    size_t from, length;
} xc_row;

/* The rows of output positions [p, p + count). Returns how many. */
static size_t xc_window_rows(const xc_window *g, size_t p, size_t count, xc_row rows[XC_PANEL_COLUMNS])
{
    const size_t width = (size_t)g->out[2], height = (size_t)g->out[1];
    size_t size[3], made = 0;
    (void)xc_padded(g, size);
    for (size_t left = count, length; left > 0; left -= length, p += length) {
        const size_t k = p % width, j = p / width % height, i = p / width / height;
        length = width - k < left ? width - k : left;
        rows[made].from =
            (i * (size_t)g->stride[0] * size[1] + j * (size_t)g->stride[1]) * size[2] + k * (size_t)g->stride[2];
        rows[made++].length = length;
    }
    return made;
}

/* Offset of a window position in a padded plane, from its first position. */
static size_t xc_window_tap(const xc_window *g, size_t tap)
{
    const size_t c = tap % (size_t)g->kernel[2], rest = tap / (size_t)g->kernel[2];
    const size_t b = rest % (size_t)g->kernel[1], a = rest / (size_t)g->kernel[1];
    size_t size[3];
    (void)xc_padded(g, size);
    return (a * (size_t)g->dilation[0] * size[1] + b * (size_t)g->dilation[1]) * size[2] + c * (size_t)g->dilation[2];
}

/* Copies the elements at one window position. Rows are copied by whole vectors. So up to XCVM_LANES - 1 numbers after
 * the line are written, and as many after the plane are read. */
static void xc_window_gather(const float *plane, const xc_row *rows, size_t count, ptrdiff_t stride, float *line)
{
    for (size_t r = 0; r < count; line += rows[r++].length) {
        const float *const from = plane + rows[r].from;
        if (stride == 1)
            for (size_t i = 0; i < rows[r].length; i += XCVM_LANES)
                xcvm_lanes_store(line + i, xcvm_lanes_load(from + i));
        else
            for (size_t i = 0; i < rows[r].length; i++)
                line[i] = from[(ptrdiff_t)i * stride];
    }
}

/* The reverse: adds a line to the elements of the plane. */
static void xc_window_spread(float *plane, const xc_row *rows, size_t count, ptrdiff_t stride, const float *line)
{
    for (size_t r = 0; r < count; line += rows[r++].length) {
        float *const to = plane + rows[r].from;
        for (size_t i = 0; i < rows[r].length; i++)
            to[(ptrdiff_t)i * stride] += line[i];
    }
}

/* Arguments as for xc_conv_f32. */
static void xc_conv_panels(const xc_window *g, const float *x, const float *w, const float *b, const float *z, float *y,
                           size_t batch, size_t groups, size_t channels, size_t outputs, float *workspace)
{
    const size_t in = (size_t)(g->in[0] * g->in[1] * g->in[2]), out = (size_t)(g->out[0] * g->out[1] * g->out[2]);
    const size_t kernel = (size_t)(g->kernel[0] * g->kernel[1] * g->kernel[2]), k = channels * kernel;
    size_t size[3];
    const size_t plane = xc_padded(g, size);
    const xc_conv_workspace at = xc_conv_workspace_of(channels, kernel, plane);
    float *const panels = workspace, *const line = workspace + at.line, *const padded = workspace + at.padded;
    xc_row rows[XC_PANEL_COLUMNS];
    memset(line, 0, (at.all - at.line) * sizeof *line);
    for (size_t n = 0; n < batch * groups; n++) {
        const float *const filters = w + n % groups * outputs * k;
        float *const to = y + n * outputs * out;
        xc_pad_planes(g, x + n * channels * in, NULL, channels, padded);
        for (size_t m = 0; m < outputs; m++)
            for (size_t i = 0; i < out; i++)
                to[m * out + i] =
                    (b != NULL ? b[n % groups * outputs + m] : 0.0f) + (z != NULL ? z[(n * outputs + m) * out + i] : 0);
        for (size_t p = 0; p < out; p += XC_PANEL_COLUMNS) {
            const size_t count = out - p < XC_PANEL_COLUMNS ? out - p : XC_PANEL_COLUMNS;
            const size_t row_count = xc_window_rows(g, p, count, rows);
            for (size_t tap = 0; tap < kernel; tap++) {
                const float *const from = padded + xc_window_tap(g, tap);
                for (size_t c = 0; c < channels; c++) {
                    xc_window_gather(from + c * plane, rows, row_count, g->stride[2], line);
                    for (size_t j = 0; j < count; j += 16)
                        memcpy(panels + (j * k + (c * kernel + tap) * 16), line + j, 16 * sizeof *line);
                }
            }
            xc_panel_product(filters, k, panels, k, k, to + p, out, outputs, count, 1);
        }
    }
}

/* Arguments as for xc_filter_gradient_f32. The elements under the windows are multiplied by dy, for XC_PANEL_COLUMNS
 * consecutive positions of all images at a time. */
static void xc_filter_gradient_panels(const xc_window *g, const float *x, const float *dy, float *y, size_t batch,
                                      size_t groups, size_t channels, size_t outputs, float *workspace)
{
    const size_t in = (size_t)(g->in[0] * g->in[1] * g->in[2]), out = (size_t)(g->out[0] * g->out[1] * g->out[2]);
    const size_t kernel = (size_t)(g->kernel[0] * g->kernel[1] * g->kernel[2]), columns = channels * kernel;
    size_t size[3];
    const size_t plane = xc_padded(g, size);
    const xc_filter_gradient_workspace at = xc_filter_gradient_workspace_of(channels, kernel, plane, outputs);
    float *const padded = workspace, *const lines = workspace + at.lines, *const panels = workspace + at.panels,
                 *const sums = workspace + at.sums;
    xc_row rows[XC_PANEL_COLUMNS];
    memset(padded, 0, at.lines * sizeof *padded);
    memset(panels, 0, (at.sums - at.panels) * sizeof *panels);
    for (size_t group = 0; group < groups; group++) {
        size_t filled = 0;
        memset(sums, 0, columns * outputs * sizeof *sums);
        for (size_t n = group; n < batch * groups; n += groups) {
            xc_pad_planes(g, x + n * channels * in, NULL, channels, padded);
            for (size_t p = 0, count; p < out; p += count) {
                count = out - p < XC_PANEL_COLUMNS - filled ? out - p : XC_PANEL_COLUMNS - filled;
                const size_t row_count = xc_window_rows(g, p, count, rows);
                for (size_t tap = 0; tap < kernel; tap++) {
                    const float *const from = padded + xc_window_tap(g, tap);
                    for (size_t c = 0; c < channels; c++)
                        xc_window_gather(from + c * plane, rows, row_count, g->stride[2],
                                         lines + (c * kernel + tap) * XC_GRADIENT_LINE + filled);
                }
                for (size_t m = 0; m < outputs; m++) {
                    const float *const by = dy + (n * outputs + m) * out + p;
                    float *const to = panels + (m / 16 * XC_PANEL_COLUMNS + filled) * 16 + m % 16;
                    for (size_t i = 0; i < count; i++)
                        to[i * 16] = by[i];
                }
                filled += count;
                if (filled == XC_PANEL_COLUMNS || (p + count == out && n + groups >= batch * groups)) {
                    xc_panel_product(lines, XC_GRADIENT_LINE, panels, filled, XC_PANEL_COLUMNS, sums, outputs, columns,
                                     outputs, 1);
                    filled = 0;
                }
            }
        }
        for (size_t m = 0; m < outputs; m++)
            for (size_t r = 0; r < columns; r++)
                *y++ = sums[r * outputs + m];
    }
}

/* The filters of a transposed convolution without strides as those of the convolution that it is: outputs and channels
 * change places, and windows are turned about. */
static void xc_turn_filters(const float *w, float *to, size_t groups, size_t channels, size_t outputs, size_t kernel)
{
    for (size_t group = 0; group < groups; group++, w += channels * outputs * kernel)
        for (size_t m = 0; m < outputs; m++)
            for (size_t c = 0; c < channels; c++)
                for (size_t k = 0; k < kernel; k++)
                    *to++ = w[(c * outputs + m) * kernel + kernel - 1 - k];
}

/* Arguments as for xc_conv_transpose_f32. */
static void xc_conv_transpose_panels(const xc_window *g, const float *x, const float *w, const float *b, float *y,
                                     size_t batch, size_t groups, size_t channels, size_t outputs, float *workspace)
{
    const size_t in = (size_t)(g->in[0] * g->in[1] * g->in[2]), out = (size_t)(g->out[0] * g->out[1] * g->out[2]);
    const size_t kernel = (size_t)(g->kernel[0] * g->kernel[1] * g->kernel[2]), rows = outputs * kernel;
    size_t size[3];
    const size_t plane = xc_padded(g, size);
    const xc_conv_transpose_workspace parts = xc_conv_transpose_workspace_of(channels, kernel, plane, outputs);
    float *const filters = workspace, *const lines = workspace + parts.lines, *const panels = workspace + parts.panels,
                 *const padded = workspace + parts.padded;
    xc_row at[XC_PANEL_COLUMNS];
    for (size_t group = 0; group < groups; group++) {
        for (size_t c = 0; c < channels; c++)
            for (size_t r = 0; r < rows; r++)
                filters[r * channels + c] = w[(group * channels + c) * rows + r];
        for (size_t n = group; n < batch * groups; n += groups) {
            const float *const from = x + n * channels * out;
            float *const to = y + n * outputs * in;
            memset(padded, 0, outputs * plane * sizeof *padded);
            for (size_t p = 0; p < out; p += XC_PANEL_COLUMNS) {
                const size_t count = out - p < XC_PANEL_COLUMNS ? out - p : XC_PANEL_COLUMNS;
                const size_t row_count = xc_window_rows(g, p, count, at);
                xc_pack_panels(from + p, panels, channels, count, out, 1);
                xc_panel_product(filters, channels, panels, channels, channels, lines, XC_PANEL_COLUMNS, rows, count,
                                 0);
                for (size_t tap = 0; tap < kernel; tap++)
                    for (size_t m = 0; m < outputs; m++)
                        xc_window_spread(padded + m * plane + xc_window_tap(g, tap), at, row_count, g->stride[2],
                                         lines + (m * kernel + tap) * XC_PANEL_COLUMNS);
            }
            for (size_t m = 0; m < outputs; m++)
                for (size_t i = 0; i < in; i++)
                    to[m * in + i] = b != NULL ? b[group * outputs + m] : 0.0f;
            xc_pad_planes(g, NULL, to, outputs, padded);
        }
    }
}

#endif
