/* Layout of `workspace`, the working memory of functions of exported C: its size and the offsets of its parts. The
 * exporter reserves it and the functions use it by the same definitions. Sizes are in f32 elements unless stated
 * otherwise. */
#ifndef XC_WORKSPACE_H
#define XC_WORKSPACE_H

#include <stddef.h>

/* ---- Products (products.h, convolve.h) ---- */

/* Blocks of 16 outputs that a tile spans at most, on any processor; and columns that are put into panels at a time, a
 * multiple of 16. */
enum { XC_MOST_TILE_BLOCKS = 4, XC_PANEL_COLUMNS = 64 };
/* Elements of a vector, at most: what whole vectors reach beyond a line. */
enum { XC_MOST_LANES = 16 };

/* xc_matmul_panels: a by rows, then panels. */
typedef struct xc_matmul_workspace {
    size_t panels, all;
} xc_matmul_workspace;
static inline xc_matmul_workspace xc_matmul_workspace_of(size_t m, size_t k)
{
    xc_matmul_workspace r;
    r.panels = m * k;
    r.all = r.panels + k * XC_PANEL_COLUMNS;
    return r;
}

/* Positions along an axis of a padded plane that windows read. */
static inline size_t xc_padded_size(size_t out, size_t stride, size_t kernel, size_t dilation)
{
    return (out - 1) * stride + (kernel - 1) * dilation + 1;
}

/* xc_conv_panels: panels, a line, and the channels' planes with their padding. */
typedef struct xc_conv_workspace {
    size_t line, padded, all;
} xc_conv_workspace;
static inline xc_conv_workspace xc_conv_workspace_of(size_t channels, size_t window, size_t plane)
{
    xc_conv_workspace r;
    r.line = channels * window * XC_PANEL_COLUMNS;
    r.padded = r.line + XC_PANEL_COLUMNS + XC_MOST_LANES;
    r.all = r.padded + channels * plane + XC_MOST_LANES;
    return r;
}

/* xc_filter_gradient_panels: the channels' planes with their padding, a line for each channel and window position,
 * panels of the gradient, and sums. */
enum { XC_GRADIENT_LINE = XC_PANEL_COLUMNS + XC_MOST_LANES };
typedef struct xc_filter_gradient_workspace {
    size_t lines, panels, sums, all;
} xc_filter_gradient_workspace;
static inline xc_filter_gradient_workspace xc_filter_gradient_workspace_of(size_t channels, size_t window, size_t plane,
                                                                           size_t outputs)
{
    const size_t columns = channels * window;
    xc_filter_gradient_workspace r;
    r.lines = channels * plane + XC_MOST_LANES;
    r.panels = r.lines + columns * XC_GRADIENT_LINE;
    r.sums = r.panels + (outputs + 15) / 16 * 16 * XC_PANEL_COLUMNS;
    r.all = r.sums + columns * outputs;
    return r;
}

/* xc_conv_transpose_panels: filters by rows, a line for each output and window position, panels, and the outputs'
 * planes with their padding. */
typedef struct xc_conv_transpose_workspace {
    size_t lines, panels, padded, all;
} xc_conv_transpose_workspace;
static inline xc_conv_transpose_workspace xc_conv_transpose_workspace_of(size_t channels, size_t window, size_t plane,
                                                                         size_t outputs)
{
    const size_t rows = outputs * window;
    xc_conv_transpose_workspace r;
    r.lines = rows * channels;
    r.panels = r.lines + rows * XC_PANEL_COLUMNS;
    r.padded = r.panels + channels * XC_PANEL_COLUMNS;
    r.all = r.padded + outputs * plane;
    return r;
}

/* ---- Winograd's algorithm (blocked.h) ---- */

/* Blocks of inputs whose filters are transformed at a time, and floats between the numbers of points. */
enum { XC_PORTION = 2, XC_GAP = 16 };

/* The transformed tiles of a band, their products with `blocks` blocks of outputs, and filters, with the distance
 * between two points of each. */
typedef struct xc_winograd_workspace {
    size_t input_point, product_point, filter_point, products, filters, all;
} xc_winograd_workspace;
static inline xc_winograd_workspace xc_winograd_workspace_of(size_t tile, size_t channels, size_t band, size_t blocks)
{
    const size_t points = (tile + 2) * (tile + 2);
    xc_winograd_workspace r;
    r.input_point = (channels + 15) / 16 * band * 16 + XC_GAP;
    r.product_point = blocks * band * 16 + XC_GAP;
    r.filter_point = blocks * XC_PORTION * 16 * 16 + XC_GAP;
    r.products = points * r.input_point;
    r.filters = r.products + points * r.product_point;
    r.all = r.filters + points * r.filter_point;
    return r;
}

/* ---- Others ---- */

/* xc_quantized_multiply: rows that meet a panel at a time, of bytes. */
enum { XC_QUANTIZED_ROWS = 4 };

/* xc_block_product, in bytes: scales and sums of a row's blocks, then its k integers of 8 bits. */
static inline size_t xc_block_workspace_bytes(size_t blocks, size_t k) { return 2 * blocks * sizeof(float) + k; }

/* xc_recurrent: a state and a cell, the memory of a step (sums, inner sums and a reset state), and the input's sums of
 * `steps` steps, 0 if these are an operand. */
typedef struct xc_recurrent_workspace {
    size_t cell, step, inputs, all;
} xc_recurrent_workspace;
static inline xc_recurrent_workspace xc_recurrent_workspace_of(size_t units, size_t width, size_t steps)
{
    xc_recurrent_workspace r;
    r.cell = units;
    r.step = r.cell + units;
    r.inputs = r.step + 2 * width + units;
    r.all = r.inputs + steps * width;
    return r;
}

/* xc_recurrent with weights of s8, in bytes: after `floats` numbers of xc_recurrent_workspace the remainder of a state
 * after the first of two terms, then a state in whole quads. */
typedef struct xc_recurrent_bytes_workspace {
    size_t rest, state, all;
} xc_recurrent_bytes_workspace;
static inline xc_recurrent_bytes_workspace xc_recurrent_bytes_workspace_of(size_t floats, size_t hidden, int terms)
{
    xc_recurrent_bytes_workspace r;
    r.rest = floats * sizeof(float);
    r.state = r.rest + (terms > 1 ? hidden : 0) * sizeof(float);
    r.all = r.state + (hidden + 3) / 4 * 4;
    return r;
}

/* xc_attend: keys transposed, then a score for each. */
typedef struct xc_attend_workspace {
    size_t scores, all;
} xc_attend_workspace;
static inline xc_attend_workspace xc_attend_workspace_of(size_t keys, size_t width)
{
    xc_attend_workspace r;
    r.scores = keys * width;
    r.all = r.scores + keys;
    return r;
}

/* xc_transform, of f64: the points that are given, and their transform, both complex. */
typedef struct xc_transform_workspace {
    size_t result, all;
} xc_transform_workspace;
static inline xc_transform_workspace xc_transform_workspace_of(size_t length)
{
    xc_transform_workspace r;
    r.result = 2 * length;
    r.all = 4 * length;
    return r;
}

#endif
