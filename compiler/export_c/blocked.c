/* Convolutions of channels in blocks as C, and the pools that are made with them. */
#include "compiler/export_c/export_c.h"
#include "compiler/export_c/c_runtime/workspace.h"

#include "ops/conv/blocked.h"
#include "ops/conv/window.h"
#include "ops/elementwise/activation.h"

#include <string.h>

static bool write_block_channels(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_value *v = step->in[0], *y = step->out[0];
    xcc_c_line(x, "        xc_block_channels(%s, %s, %lld, %lld, %lld);\n", xcc_c_read(x, v), xcc_c_write(x, y),
               (long long)v->dims[0], (long long)v->dims[1], (long long)xcc_c_product(v->dims, 2, v->rank));
    return true;
}

static bool write_unblock_channels(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_UnblockChannels_args *a = step->args;
    xcc_c_line(x, "        xc_unblock_channels(%s, %s, %lld, %lld, %lld);\n", xcc_c_read(x, a->x), xcc_c_write(x, a->y),
               (long long)a->x->dims[0], (long long)a->channels,
               (long long)xcc_c_product(a->x->dims, 2, a->x->rank - 1));
    return true;
}

/* Pixels of a block of channels. */
static int64_t pixels_of(const xcvm_value *v) { return xcc_c_product(v->dims, 2, v->rank - 1); }

static bool write_blocked_affine(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_BlockedAffine_args *a = step->args;
    const xcvm_activation f = xcvm_activation_of(a->activation, a->activation_params);
    int64_t first = 0;
    for (size_t i = 0; i < a->xs.count; first += a->xs.at[i++]->dims[1])
        xcc_c_line(x, "        xc_blocked_affine(%s, %s, %lld, %lld, %lld, %lld, %lld, %s, %s, %s, %s);\n",
                   xcc_c_read(x, a->xs.at[i]), xcc_c_write(x, a->y), (long long)a->y->dims[0],
                   (long long)a->xs.at[i]->dims[1], (long long)a->y->dims[1], (long long)first,
                   (long long)pixels_of(a->y), xcc_c_read(x, a->scale), xcc_c_read(x, a->shift), xcc_c_bound(x, f.low),
                   xcc_c_bound(x, f.high));
    return f.kind == XCVM_ACTIVATION_none ||
           xcc_c_write_activation(x, a->y, a->activation, a->activation_params, (xcvm_floats){NULL, 0});
}

static bool write_blocked_concat(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_BlockedConcat_args *a = step->args;
    int64_t first = 0;
    /* The unused channels of the last block are zero. */
    xcc_c_line(x, "        memset(%s, 0, %zu);\n", xcc_c_write(x, a->y), a->y->bytes);
    for (size_t i = 0; i < a->xs.count; first += a->channels.at[i++])
        if (a->xs.at[i]->bytes > 0)
            xcc_c_line(x, "        xc_blocked_concat(%s, %s, %lld, %lld, %lld, %lld, %lld);\n",
                       xcc_c_read(x, a->xs.at[i]), xcc_c_write(x, a->y), (long long)a->y->dims[0],
                       (long long)a->channels.at[i], (long long)a->y->dims[1], (long long)first,
                       (long long)pixels_of(a->y));
    return true;
}

typedef struct conv {
    xcvm_window window;
    int64_t channels, outputs; /* of a group; blocks, likewise */
    bool plain;
} conv;

/* The sizes that the packed filters imply (ops/conv/blocked.h). */
static bool read_conv(xcc_c_export *x, const xcvm_BlockedConv_args *a, conv *c)
{
    const int axes = (int)a->strides.count;
    int64_t kernel[XCVM_WINDOW_AXES], dims[2][XCVM_MAX_RANK];
    const bool transformed = a->algorithm == XCVM_BLOCKED_winograd;
    const bool has_channels = xcvm_blocked_has_channels(a->algorithm);
    c->plain = a->x->rank == axes + 2;
    if (a->algorithm == XCVM_BLOCKED_direct_pairs)
        return xcc_c_refuse(x, "C export does not support its computation in bf16");
    if (!xcc_c_is_f32(a->w) || a->algorithm == XCVM_BLOCKED_winograd_strided)
        return xcc_c_refuse(x, "C export does not support the layout of its filters");
    for (int i = 0; i < axes; i++)
        kernel[i] = transformed ? 3 : a->w->dims[a->w->rank - 1 - axes + i];
    const int64_t blocks = a->w->dims[transformed ? 1 : 0];
    c->channels = transformed ? a->w->dims[a->w->rank - 2] : has_channels ? a->w->dims[1] : 16;
    c->outputs = xcvm_blocked_is_by_block(a->algorithm) ? blocks : blocks / a->group;
    const bool winograd = xcvm_blocked_is_winograd(a->algorithm);
    for (int i = 0; winograd && i < axes; i++)
        if (axes > 2 || a->dilations.at[i] != 1 || c->plain)
            return xcc_c_refuse(x, "C export does not support Winograd's algorithm for volumes or dilated windows");
    /* y before pooling. */
    xcvm_value from = *a->x, to = *a->y;
    from.rank = to.rank = (int8_t)(axes + 2);
    for (int i = 0; i < axes + 2; i++) {
        dims[0][i] = a->x->dims[i];
        dims[1][i] = a->y->dims[i];
        if (a->pool > 1 && i >= 2)
            dims[1][i] = dims[0][i] + a->pads.at[i - 2] + a->pads.at[i - 2 + axes] - kernel[i - 2] + 1;
    }
    memcpy(from.dims, dims[0], sizeof from.dims);
    memcpy(to.dims, dims[1], sizeof to.dims);
    const xcvm_window_attributes attributes = {{kernel, (size_t)axes}, a->strides, a->pads, a->dilations};
    c->window = xcvm_window_of(&from, &to, &attributes);
    return true;
}

/* Tiles of a band: those whose numbers fit, but some dozens, all bands of about one size. Filters that are transformed
 * as they are used are so for each band, so that all tiles are better one, unless they are many. */
static int64_t band_of(const conv *c, int64_t batch, int tile, bool on_the_fly)
{
    enum { FLOATS = 300 * 1024, LEAST = 48, MOST = 128 };
    const int64_t points = (tile + 2) * (tile + 2), height = (int64_t)c->window.out[1],
                  width = (int64_t)c->window.out[2];
    const int64_t tiles = batch * ((height + tile - 1) / tile) * ((width + tile - 1) / tile);
    int64_t band = FLOATS / (points * ((c->channels + 15) / 16 * 16 + 64));
    band = on_the_fly ? MOST : band < LEAST ? LEAST : band;
    const int64_t bands = (tiles + band - 1) / band;
    return bands > 0 ? (tiles + bands - 1) / bands : 1;
}

/* A constant xc_blocked without its end, so that an xc_winograd may have more. */
static void put_blocked(xcc_c_export *x, const xcvm_BlockedConv_args *a, const conv *c, int64_t batch)
{
    const xcvm_activation f = xcvm_activation_affine(a->activation, a->activation_params, a->affine);
    xcc_c_note_outputs(x, c->outputs * XCVM_CHANNEL_BLOCK);
    xcc_c_put_window(&x->tables, &c->window);
    xcc_c_put(&x->tables,
              ", .batch = %lld, .groups = %lld, .channels = %lld, .outputs = %lld, .plain = %d, .low = %s, .high = %s",
              (long long)batch, (long long)(xcvm_blocked_is_by_block(a->algorithm) ? 1 : a->group),
              (long long)c->channels, (long long)c->outputs, c->plain, xcc_c_bound(x, f.low), xcc_c_bound(x, f.high));
}

/* Floats of a band of a convolution's rows, which the first cache holds, and the bands that are worth their code. */
enum { BAND_FLOATS = 8 * 1024, MOST_BANDS = 4 };

bool xcc_c_joins_pool(const xcc_c_export *x, const xcc_c_step *step, const xcc_c_step *pool)
{
    const xcvm_BlockedConv_args *a = step->args;
    const xcvm_MaxPool_args *p = pool->args;
    const xcvm_activation f = xcvm_activation_affine(a->activation, a->activation_params, a->affine);
    const size_t axes = p->kernel_shape.count;
    return x->vectors && a->algorithm == XCVM_BLOCKED_direct && a->strides.count == 2 && a->z == NULL && a->pool <= 1 &&
           f.kind == XCVM_ACTIVATION_none && xcc_c_is_f32(a->w) && p->indices == NULL && axes == 3 &&
           p->kernel_shape.at[2] == 1 && p->dilations.at[0] == 1 && p->strides.at[0] >= p->kernel_shape.at[0] &&
           p->x->rank == 5 && p->x->dims[4] == 16 && p->auto_pad == XCVM_AUTO_PAD_NOTSET &&
           xcvm_element_count(p->x) / (size_t)p->x->dims[0] <= (size_t)MOST_BANDS * BAND_FLOATS;
}

/* Rows of the pool of a band, all bands of about one size. */
static size_t band_rows(const xcvm_window *pool, size_t row)
{
    const size_t fitting = BAND_FLOATS / (row * pool->stride[1]), most = fitting > 0 ? fitting : 1;
    const size_t bands = (pool->out[1] + most - 1) / most;
    return (pool->out[1] + bands - 1) / bands;
}

bool xcc_c_write_pooled(xcc_c_export *x, const xcc_c_step *step, const xcvm_value *y, const xcvm_window *pool)
{
    const xcvm_BlockedConv_args *a = step->args;
    conv c;
    if (!read_conv(x, a, &c))
        return false;
    const size_t blocks = (size_t)(a->group * c.outputs), row = c.window.out[2] * XCVM_CHANNEL_BLOCK;
    const size_t count = band_rows(pool, blocks * row), y_row = pool->out[2] * XCVM_CHANNEL_BLOCK;
    const size_t image = xcvm_element_count(a->x) / (size_t)a->x->dims[0], height = c.window.out[1];
    const char *const v = xcc_c_read(x, a->x), *const w = xcc_c_read(x, a->w), *const b = xcc_c_read(x, a->b);
    xcc_c_line(x, "        for (size_t n = 0; n < %lld; n++) {\n", (long long)a->x->dims[0]);
    for (size_t i = 0; i < pool->out[1]; i += count) {
        xcvm_window rows = *pool;
        conv band = c;
        rows.out[1] = pool->out[1] - i < count ? pool->out[1] - i : count;
        const ptrdiff_t start = (ptrdiff_t)(i * pool->stride[1]) - pool->pad[1];
        const ptrdiff_t end = start + (ptrdiff_t)((rows.out[1] - 1) * pool->stride[1] + pool->kernel[1]);
        const ptrdiff_t first = start > 0 ? start : 0, last = end < (ptrdiff_t)height ? end : (ptrdiff_t)height;
        band.window.out[1] = rows.in[1] = (size_t)(last - first);
        band.window.pad[1] -= first * (ptrdiff_t)c.window.stride[1];
        rows.pad[1] = first - start;
        const char *const workspace = xcc_c_scratch(x, (uint64_t)blocks * rows.in[1] * row * sizeof(float));
        const size_t index = x->table_count++;
        xcc_c_put(&x->tables, "\nstatic const xc_blocked xc_table_%zu = {.window = ", index);
        put_blocked(x, a, &band, 1);
        xcc_c_put(&x->tables, "};\n");
        xcc_c_line(
            x,
            "            xc_blocked_direct(&xc_table_%zu, %s + n * %zu, %s, %s, NULL, %s);\n"
            "            for (size_t block = 0; block < %zu; block++)\n"
            "                xc_max_pool_blocks(&%s, %s + block * %zu, %s + (n * %zu + block) * %zu + %zu, 1);\n",
            index, v, image, w, b, workspace, blocks, xcc_c_window_table(x, &rows), workspace, rows.in[1] * row,
            xcc_c_write(x, y), blocks, pool->out[1] * y_row, i * y_row);
    }
    xcc_c_line(x, "        }\n");
    return true;
}

static bool write_blocked_conv(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_BlockedConv_args *a = step->args;
    if (step->pool != NULL) {
        xcc_c_line(x, "        /* It is made with the pool behind it. */\n");
        return true;
    }
    static const char *const functions[XCVM_BLOCKED_COUNT] = {[XCVM_BLOCKED_direct] = "xc_blocked_direct",
                                                              [XCVM_BLOCKED_depthwise] = "xc_blocked_depthwise",
                                                              [XCVM_BLOCKED_grouped] = "xc_blocked_grouped"};
    const xcvm_activation f = xcvm_activation_affine(a->activation, a->activation_params, a->affine);
    const bool winograd = xcvm_blocked_is_winograd(a->algorithm);
    conv c;
    if (!read_conv(x, a, &c))
        return false;
    const int tile = a->algorithm == XCVM_BLOCKED_winograd && a->w->dims[0] == 16 ? 2 : 4;
    const int64_t batch = a->x->dims[0],
                  band = winograd ? band_of(&c, batch, tile, a->algorithm != XCVM_BLOCKED_winograd) : 0;
    const size_t index = x->table_count++;
    xcc_c_text *const t = &x->tables;
    xcc_c_put(t, "\nstatic const xc_%s xc_table_%zu = {%s.window = ", winograd ? "winograd" : "blocked", index,
              winograd ? ".conv = {" : "");
    put_blocked(x, a, &c, batch);
    if (winograd)
        xcc_c_put(t, "}, .tile = %d, .band = %lld, .on_the_fly = %d", tile, (long long)band,
                  a->algorithm != XCVM_BLOCKED_winograd);
    xcc_c_put(t, "};\n");
    const size_t workspace =
        xc_winograd_workspace_of((size_t)tile, (size_t)c.channels, (size_t)band, XC_MOST_TILE_BLOCKS).all;
    const size_t whole = a->pool > 1 ? (size_t)(batch * c.outputs) * c.window.out[1] * c.window.out[2] * 16 : 0;
    const char *const scratch = winograd ? xcc_c_scratch(x, (workspace + whole) * sizeof(float)) : "";
    const char *const y = a->pool > 1 ? xcc_c_format(x, "%s + %zu", scratch, workspace) : xcc_c_write(x, a->y);
    xcc_c_line(x, "        %s(&xc_table_%zu, %s, %s, %s, %s, %s%s%s);\n",
               winograd ? "xc_blocked_winograd" : functions[a->algorithm], index, xcc_c_read(x, a->x),
               xcc_c_read(x, a->w), xcc_c_read(x, a->b), xcc_c_read(x, a->z), y, winograd ? ", " : "", scratch);
    if (a->pool > 1) {
        const xcvm_window pool = {.in = {1, c.window.out[1], c.window.out[2]},
                                  .out = {1, c.window.out[1] / 2, c.window.out[2] / 2},
                                  .kernel = {1, 2, 2},
                                  .stride = {1, 2, 2},
                                  .dilation = {1, 1, 1}};
        if (f.kind != XCVM_ACTIVATION_none || !winograd)
            return xcc_c_refuse(x, "C export does not support it with a pool");
        xcc_c_line(x, "        xc_max_pool_f32(&%s, %s, %s, NULL, %lld, 16, 0, -INFINITY);\n",
                   xcc_c_window_table(x, &pool), y, xcc_c_write(x, a->y), (long long)(batch * c.outputs));
    }
    return f.kind == XCVM_ACTIVATION_none ||
           xcc_c_write_activation(x, a->y, a->activation, a->activation_params, a->affine);
}

static const xcc_c_row blocked_rows[] = {{XCVM_OP_BlockChannels, write_block_channels},
                                         {XCVM_OP_UnblockChannels, write_unblock_channels},
                                         {XCVM_OP_BlockedAffine, write_blocked_affine},
                                         {XCVM_OP_BlockedConcat, write_blocked_concat},
                                         {XCVM_OP_BlockedConv, write_blocked_conv}};
const xcc_c_rows xcc_c_blocked_rows = {blocked_rows, sizeof blocked_rows / sizeof *blocked_rows};
