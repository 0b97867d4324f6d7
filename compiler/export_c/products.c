/* Products, convolutions and pools as C. */
#include "compiler/export_c/export_c.h"
#include "compiler/export_c/c_runtime/workspace.h"

#include "ops/conv/blocked.h"
#include "ops/conv/window.h"
#include "ops/elementwise/activation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Matrices ---- */

static const char *suffix_of(const xcvm_value *v) { return xcc_c_suffix((xcvm_dtype)v->dtype); }

/* y = alpha * y + beta * c, c broadcast; then the activation. */
static bool finish_gemm(xcc_c_export *x, const xcvm_Gemm_args *a, const char *type)
{
    const xcvm_value *y = a->y, *c = a->beta != 0.0 ? a->c : NULL;
    const int64_t columns = y->dims[y->rank - 1];
    const xcvm_dtype dtype = (xcvm_dtype)y->dtype;
    const bool is_float = xcvm_dtype_is_float(dtype);
    if (!is_float && (a->alpha != 1.0 || (c != NULL && a->beta != 1.0)))
        return xcc_c_refuse(x, "C export does not support its factors of integers");
    if (a->alpha != 1.0 || c != NULL) {
        int64_t row = 0, column = 0;
        if (c != NULL && c->rank > 0 && c->dims[c->rank - 1] > 1)
            column = 1;
        if (c != NULL && c->rank > 1 && xcc_c_product(c->dims, 0, c->rank - 1) > 1)
            row = c->dims[c->rank - 1];
        xcc_c_line(x, "        for (size_t i = 0; i < %zu; i++) {\n            %s *const element = %s + i;\n",
                   xcvm_element_count(y), type, xcc_c_write(x, y));
        if (is_float) {
            xcc_c_line(x, "            *element = *element * ");
            xcc_c_put_number(&x->body, dtype, a->alpha);
            xcc_c_line(x, ";\n");
        }
        if (c != NULL) {
            xcc_c_line(x,
                       "            *element = xc_multiply_add_%s(*element, (%s)[i / %lld * %lld + i %% %lld * %lld], ",
                       xcc_c_suffix(dtype), xcc_c_read(x, c), (long long)(columns > 0 ? columns : 1), (long long)row,
                       (long long)(columns > 0 ? columns : 1), (long long)column);
            if (is_float)
                xcc_c_put_number(&x->body, dtype, a->beta);
            else
                xcc_c_line(x, "1");
            xcc_c_line(x, ");\n");
        }
        xcc_c_line(x, "        }\n");
    }
    return xcc_c_write_activation(x, y, a->activation, a->activation_params, (xcvm_floats){NULL, 0});
}

/* Products by vectors take less work than putting the right side into panels. */
static bool pays_panels(const xcc_c_export *x, const xcvm_value *y, long long rows, long long k)
{
    return x->vectors && xcc_c_is_f32(y) && rows >= 4 && k >= 4;
}

/* One call of the function for products that suits them; */
static void write_product(xcc_c_export *x, const xcvm_value *y, const char *operands, long long m, long long k,
                          long long n, const long long steps[4])
{
    const bool panels = pays_panels(x, y, m, k);
    xcc_c_note_outputs(x, panels ? n : 0);
    xcc_c_line(x, "            xc_matmul_%s(%s, %lld, %lld, %lld, %lld, %lld, %lld, %lld%s%s);\n",
               panels ? "panels" : suffix_of(y), operands, m, k, n, steps[0], steps[1], steps[2], steps[3],
               panels ? ", " : "",
               panels ? xcc_c_scratch(x, xc_matmul_workspace_of((size_t)m, (size_t)k).all * sizeof(float)) : "");
}

static bool write_gemm(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Gemm_args *a = step->args;
    const int64_t columns = a->y->dims[a->y->rank - 1];
    const long long n = columns, k = a->b->dims[a->transB ? 1 : 0];
    const long long m = columns > 0 ? (long long)xcvm_element_count(a->y) / columns : 0;
    const long long steps[] = {a->transA ? 1 : k, a->transA ? m : 1, a->transB ? 1 : n, a->transB ? k : 1};
    write_product(x, a->y,
                  xcc_c_format(x, "%s, %s, %s", xcc_c_read(x, a->a), xcc_c_read(x, a->b), xcc_c_write(x, a->y)), m, k,
                  n, steps);
    return finish_gemm(x, a, xcc_c_type((xcvm_dtype)a->y->dtype));
}

void xcc_c_begin_matrices(xcc_c_export *x, const xcvm_value *v, const xcvm_value *w, const xcvm_value *result_of,
                          xcc_c_matrices *to)
{
    const xcvm_value *in[] = {v, w};
    const long long k = v->dims[v->rank - 1], m = v->rank > 1 ? v->dims[v->rank - 2] : 1;
    const long long n = w->rank > 1 ? w->dims[w->rank - 1] : 1;
    const int leads[] = {v->rank > 2 ? v->rank - 2 : 0, w->rank > 2 ? w->rank - 2 : 0};
    const int lead = leads[0] > leads[1] ? leads[0] : leads[1];
    const long long matrix[] = {m * k, k * n};
    char at[2][300] = {"", ""};
    long long result = m * n;
    for (int i = 0; i < 2; i++)
        xcc_c_line(x, "        const %s *const %s = %s;\n", xcc_c_type((xcvm_dtype)in[i]->dtype), i == 0 ? "a" : "b",
                   xcc_c_read(x, in[i]));
    xcc_c_line(x, "        %s *const y = %s;\n", xcc_c_type((xcvm_dtype)result_of->dtype), xcc_c_write(x, result_of));
    int64_t dims[XCVM_MAX_RANK];
    for (int axis = 0; axis < lead; axis++) {
        dims[axis] = 1;
        for (int i = 0; i < 2; i++) {
            const int own = axis - (lead - leads[i]);
            if (own >= 0 && in[i]->dims[own] != 1)
                dims[axis] = in[i]->dims[own];
        }
        xcc_c_line(x, "        for (size_t i%d = 0; i%d < %lld; i%d++)\n", axis, axis, (long long)dims[axis], axis);
    }
    for (int i = 0; i < 2; i++)
        for (int own = 0; own < leads[i]; own++) {
            const size_t used = strlen(at[i]);
            if (in[i]->dims[own] != 1)
                snprintf(at[i] + used, sizeof at[i] - used, " + i%d * %lld", own + lead - leads[i],
                         (long long)xcc_c_product(in[i]->dims, own + 1, leads[i]) * matrix[i]);
        }
    char place[300] = "y";
    for (int axis = lead; axis-- > 0; result *= dims[axis]) {
        const size_t used = strlen(place);
        snprintf(place + used, sizeof place - used, " + i%d * %lld", axis, result);
    }
    *to = (xcc_c_matrices){
        xcc_c_format(x, "a%s", at[0]), xcc_c_format(x, "b%s", at[1]), xcc_c_format(x, "%s", place), m, k, n};
}

static bool write_matmul(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_MatMul_args *a = step->args;
    xcc_c_matrices at;
    xcc_c_begin_matrices(x, a->a, a->b, a->y, &at);
    const long long steps[] = {at.k, 1, at.n, 1};
    write_product(x, a->y, xcc_c_format(x, "%s, %s, %s", at.a, at.b, at.y), at.m, at.k, at.n, steps);
    return true;
}

static bool write_packed_gemm(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_PackedGemm_args *a = step->args;
    const xcvm_activation f = xcvm_activation_of(a->activation, a->activation_params);
    const long long k = a->w->dims[1];
    const long long rows = a->columns > 0 ? (long long)xcvm_element_count(a->y) / a->columns : 0;
    if (!xcc_c_is_f32(a->w))
        return xcc_c_refuse(x, "its weights are of %s", xcvm_dtype_name((xcvm_dtype)a->w->dtype));
    xcc_c_note_outputs(x, a->columns);
    xcc_c_line(x, "        xc_packed_product(%s, %s, %s, %s, %s, %lld, %lld, %lld, %s, %s);\n", xcc_c_read(x, a->a),
               xcc_c_read(x, a->w), xcc_c_read(x, a->c), xcc_c_read(x, a->z), xcc_c_write(x, a->y), rows, k,
               (long long)a->columns, xcc_c_bound(x, f.low), xcc_c_bound(x, f.high));
    return f.kind == XCVM_ACTIVATION_none ||
           xcc_c_write_activation(x, a->y, a->activation, a->activation_params, (xcvm_floats){NULL, 0});
}

static bool write_pair_product(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Bf16Gemm_args *a = step->args;
    const xcvm_activation f = xcvm_activation_of(a->activation, a->activation_params);
    const long long k = a->a->dims[a->a->rank - 1], rows = (long long)xcvm_element_count(a->y) / a->columns;
    xcc_c_line(x, "        xc_pair_product(%s, %s, %s, %s, %s, %lld, %lld, %lld, %s, %s);\n", xcc_c_read(x, a->a),
               xcc_c_read(x, a->w), xcc_c_read(x, a->c), xcc_c_read(x, a->z), xcc_c_write(x, a->y), rows, k,
               (long long)a->columns, xcc_c_bound(x, f.low), xcc_c_bound(x, f.high));
    return f.kind == XCVM_ACTIVATION_none ||
           xcc_c_write_activation(x, a->y, a->activation, a->activation_params, (xcvm_floats){NULL, 0});
}

static const xcc_c_row product_rows[] = {{XCVM_OP_Gemm, write_gemm},
                                         {XCVM_OP_MatMul, write_matmul},
                                         {XCVM_OP_PackedGemm, write_packed_gemm},
                                         {XCVM_OP_Bf16Gemm, write_pair_product}};
const xcc_c_rows xcc_c_product_rows = {product_rows, sizeof product_rows / sizeof *product_rows};

/* ---- Windows ---- */

static void put_sizes(xcc_c_text *to, const char *name, const size_t sizes[3])
{
    xcc_c_put(to, ".%s = {%zu, %zu, %zu}, ", name, sizes[0], sizes[1], sizes[2]);
}

void xcc_c_put_window(xcc_c_text *to, const xcvm_window *w)
{
    xcc_c_put(to, "{");
    put_sizes(to, "in", w->in);
    put_sizes(to, "out", w->out);
    put_sizes(to, "kernel", w->kernel);
    put_sizes(to, "stride", w->stride);
    put_sizes(to, "dilation", w->dilation);
    xcc_c_put(to, ".pad = {%td, %td, %td}, .pad_end = {%td, %td, %td}}", w->pad[0], w->pad[1], w->pad[2], w->pad_end[0],
              w->pad_end[1], w->pad_end[2]);
}

const char *xcc_c_window_table(xcc_c_export *x, const xcvm_window *w)
{
    const size_t index = x->table_count++;
    xcc_c_put(&x->tables, "\nstatic const xc_window xc_table_%zu = ", index);
    xcc_c_put_window(&x->tables, w);
    xcc_c_put(&x->tables, ";\n");
    return xcc_c_format(x, "xc_table_%zu", index);
}

static bool has_window_axes(xcc_c_export *x, const xcvm_value *v)
{
    return (v->rank >= 3 && v->rank <= XCVM_WINDOW_AXES + 2) ||
           xcc_c_refuse(x, "C export does not support it over %d axes", v->rank - 2);
}

/* Elements of a plane with its padding. */
static size_t padded_plane(const xcvm_window *w)
{
    size_t plane = 1;
    for (int i = 0; i < XCVM_WINDOW_AXES; i++)
        plane *= xc_padded_size(w->out[i], w->stride[i], w->kernel[i], w->dilation[i]);
    return plane;
}

/* Writes a call over the window of a convolution, with panels if they are faster, which need `floats` of memory. */
static void write_windows(xcc_c_export *x, const char *name, const xcvm_conv_shape *s, const xcvm_value *y,
                          const char *operands, size_t floats)
{
    const bool panels = pays_panels(x, y, (long long)s->outputs, (long long)(s->channels * s->window.kernel_size));
    xcc_c_note_outputs(x, panels ? XC_PANEL_COLUMNS : 0);
    xcc_c_line(x, "        xc_%s_%s(&%s, %s, %zu, %zu, %zu, %zu%s%s);\n", name, panels ? "panels" : suffix_of(y),
               xcc_c_window_table(x, &s->window), operands, s->batch, s->group, s->channels, s->outputs,
               panels ? ", " : "", panels ? xcc_c_scratch(x, floats * sizeof(float)) : "");
}

/* Arguments of xc_conv_panels. */
static size_t conv_floats(const xcvm_window *w, size_t channels)
{
    return xc_conv_workspace_of(channels, w->kernel_size, padded_plane(w)).all;
}

static bool write_conv(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Conv_args *a = step->args;
    if (!has_window_axes(x, a->x))
        return false;
    const xcvm_conv_shape s = xcvm_conv_shape_of(a->x, a->w, a->y, a->strides, a->pads, a->dilations, a->group);
    write_windows(x, "conv", &s, a->y,
                  xcc_c_format(x, "%s, %s, %s, %s, %s", xcc_c_read(x, a->x), xcc_c_read(x, a->w), xcc_c_read(x, a->b),
                               xcc_c_read(x, a->z), xcc_c_write(x, a->y)),
                  conv_floats(&s.window, s.channels));
    return xcc_c_write_activation(x, a->y, a->activation, a->activation_params, a->affine);
}

static bool is_unstrided(const xcvm_window *w) { return w->stride[0] == 1 && w->stride[1] == 1 && w->stride[2] == 1; }

/* Without strides it is a convolution with flipped filters; `w` is the window of the convolution that it transposes. */
static bool write_turned(xcc_c_export *x, const xcvm_ConvTranspose_args *a, const xcvm_window *w)
{
    const size_t group = (size_t)a->group, outputs = (size_t)a->w->dims[1];
    const size_t filters = xcvm_round_up(xcvm_element_count(a->w), XCVM_CHANNEL_BLOCK);
    xcvm_conv_shape s = {*w, (size_t)a->x->dims[0], group, (size_t)a->x->dims[1] / group, outputs};
    for (int i = 0; i < XCVM_WINDOW_AXES; i++) {
        s.window.in[i] = w->out[i];
        s.window.out[i] = w->in[i];
        s.window.pad[i] = (ptrdiff_t)((w->kernel[i] - 1) * w->dilation[i]) - w->pad[i];
        s.window.pad_end[i] = 0; /* of pools alone */
    }
    const size_t floats = filters + conv_floats(&s.window, s.channels);
    const char *const workspace = xcc_c_scratch(x, floats * sizeof(float));
    xcc_c_note_outputs(x, XC_PANEL_COLUMNS);
    xcc_c_line(x,
               "        xc_turn_filters(%s, %s, %zu, %zu, %zu, %zu);\n"
               "        xc_conv_panels(&%s, %s, %s, %s, NULL, %s, %zu, %zu, %zu, %zu, %s + %zu);\n",
               xcc_c_read(x, a->w), workspace, group, s.channels, outputs, w->kernel_size,
               xcc_c_window_table(x, &s.window), xcc_c_read(x, a->x), workspace, xcc_c_read(x, a->b),
               xcc_c_write(x, a->y), s.batch, group, s.channels, outputs, workspace, filters);
    return true;
}

static bool write_conv_transpose(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_ConvTranspose_args *a = step->args;
    int64_t resolved[2 * XCVM_MAX_RANK];
    if (!has_window_axes(x, a->x))
        return false;
    /* It scatters the elements that the convolution from y to x gathers. */
    const xcvm_ints pads = xcvm_transposed_pads(a, resolved);
    const xcvm_window_attributes attributes = {
        {a->w->dims + 2, (size_t)a->w->rank - 2}, a->strides, pads, a->dilations};
    const xcvm_window w = xcvm_window_of(a->y, a->x, &attributes);
    const size_t channels = (size_t)(a->x->dims[1] / a->group), outputs = (size_t)a->w->dims[1];
    const bool panels = pays_panels(x, a->y, (long long)(outputs * w.kernel_size), (long long)channels);
    if (panels && is_unstrided(&w))
        return write_turned(x, a, &w);
    const xc_conv_transpose_workspace workspace =
        xc_conv_transpose_workspace_of(channels, w.kernel_size, padded_plane(&w), outputs);
    xcc_c_note_outputs(x, panels ? XC_PANEL_COLUMNS : 0);
    xcc_c_line(x, "        xc_conv_transpose_%s(&%s, %s, %s, %s, %s, %lld, %lld, %zu, %zu%s%s);\n",
               panels ? "panels" : suffix_of(a->y), xcc_c_window_table(x, &w), xcc_c_read(x, a->x), xcc_c_read(x, a->w),
               xcc_c_read(x, a->b), xcc_c_write(x, a->y), (long long)a->x->dims[0], (long long)a->group, channels,
               outputs, panels ? ", " : "", panels ? xcc_c_scratch(x, workspace.all * sizeof(float)) : "");
    return true;
}

static bool write_filter_gradient(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_ConvFilterGradient_args *a = step->args;
    if (!has_window_axes(x, a->x))
        return false;
    const xcvm_conv_shape s = xcvm_conv_shape_of(a->x, a->y, a->g, a->strides, a->pads, a->dilations, a->group);
    write_windows(
        x, "filter_gradient", &s, a->y,
        xcc_c_format(x, "%s, %s, %s", xcc_c_read(x, a->x), xcc_c_read(x, a->g), xcc_c_write(x, a->y)),
        xc_filter_gradient_workspace_of(s.channels, s.window.kernel_size, padded_plane(&s.window), s.outputs).all);
    return true;
}

/* A pool that does not change its last axes computes adjacent elements together, like the channels of a block. */
static bool pool_window(xcc_c_export *x, const xcvm_value *v, const xcvm_value *y, xcvm_ints kernel, xcvm_ints strides,
                        xcvm_ints pads, xcvm_ints dilations, int auto_pad, xcvm_window *w, int64_t *inner)
{
    int64_t resolved[2 * XCVM_MAX_RANK], first[2 * XCVM_MAX_RANK];
    const xcvm_window_attributes all = {kernel, strides, pads, dilations};
    const xcvm_ints padded = xcvm_window_pads(auto_pad, v, &all, resolved);
    size_t axes = kernel.count;
    *inner = 1;
    while (axes > 1 && kernel.at[axes - 1] == 1 && strides.at[axes - 1] == 1 && padded.at[axes - 1] == 0 &&
           padded.at[axes - 1 + kernel.count] == 0)
        *inner *= v->dims[axes-- + 1];
    if (axes > XCVM_WINDOW_AXES)
        return xcc_c_refuse(x, "C export does not support it over %zu axes", axes);
    memcpy(first, padded.at, axes * sizeof *first);
    memcpy(first + axes, padded.at + kernel.count, axes * sizeof *first);
    xcvm_value from = *v, to = *y;
    from.rank = to.rank = (int8_t)(axes + 2);
    const xcvm_window_attributes attributes = {
        {kernel.at, axes}, {strides.at, axes}, {first, 2 * axes}, {dilations.at, axes}};
    *w = xcvm_window_of(&from, &to, &attributes);
    return true;
}

static bool write_max_pool(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_MaxPool_args *a = step->args;
    xcvm_window w;
    int64_t inner;
    if (!pool_window(x, a->x, a->y, a->kernel_shape, a->strides, a->pads, a->dilations, a->auto_pad, &w, &inner))
        return false;
    if (a->indices != NULL && inner != 1)
        return xcc_c_refuse(x, "C export does not support indices of windows of 1");
    if (step->conv != NULL)
        return xcc_c_write_pooled(x, step->conv, a->y, &w);
    if (x->vectors && inner == 16 && xcc_c_is_f32(a->x)) {
        xcc_c_line(x, "        xc_max_pool_blocks(&%s, %s, %s, %lld);\n", xcc_c_window_table(x, &w),
                   xcc_c_read(x, a->x), xcc_c_write(x, a->y), (long long)(a->x->dims[0] * a->x->dims[1]));
        return true;
    }
    static const struct {
        xcvm_dtype dtype;
        const char *least;
    } least[] = {{XCVM_F32, "-INFINITY"}, {XCVM_F64, "-(double)INFINITY"}, {XCVM_I8, "INT8_MIN"},
                 {XCVM_I16, "INT16_MIN"}, {XCVM_I32, "INT32_MIN"},         {XCVM_I64, "INT64_MIN"},
                 {XCVM_NO_DTYPE, "0"}};
    size_t i = 0;
    while (least[i].dtype != XCVM_NO_DTYPE && least[i].dtype != (xcvm_dtype)a->x->dtype)
        i++;
    xcc_c_line(x, "        xc_max_pool_%s(&%s, %s, %s, %s, %lld, %lld, %d, %s);\n", suffix_of(a->x),
               xcc_c_window_table(x, &w), xcc_c_read(x, a->x), xcc_c_write(x, a->y), xcc_c_write(x, a->indices),
               (long long)(a->x->dims[0] * a->x->dims[1]), (long long)inner, (int)a->storage_order, least[i].least);
    return true;
}

static bool write_mean_pool(xcc_c_export *x, const xcvm_value *v, const xcvm_value *y, const xcvm_window *w,
                            int64_t inner, bool count_pads, int64_t p)
{
    xcc_c_line(x, "        xc_mean_pool_%s(&%s, %s, %s, %lld, %lld, %d, %lld);\n", suffix_of(v),
               xcc_c_window_table(x, w), xcc_c_read(x, v), xcc_c_write(x, y), (long long)(v->dims[0] * v->dims[1]),
               (long long)inner, count_pads, (long long)p);
    return true;
}

static bool write_average_pool(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_AveragePool_args *a = step->args;
    xcvm_window w;
    int64_t inner;
    return pool_window(x, a->x, a->y, a->kernel_shape, a->strides, a->pads, a->dilations, a->auto_pad, &w, &inner) &&
           write_mean_pool(x, a->x, a->y, &w, inner, a->count_include_pad != 0, 0);
}

static bool write_lp_pool(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_LpPool_args *a = step->args;
    xcvm_window w;
    int64_t inner;
    return pool_window(x, a->x, a->y, a->kernel_shape, a->strides, a->pads, a->dilations, a->auto_pad, &w, &inner) &&
           write_mean_pool(x, a->x, a->y, &w, inner, false, a->p);
}

static const xcc_c_row conv_rows[] = {{XCVM_OP_Conv, write_conv},
                                      {XCVM_OP_ConvTranspose, write_conv_transpose},
                                      {XCVM_OP_ConvFilterGradient, write_filter_gradient},
                                      {XCVM_OP_MaxPool, write_max_pool},
                                      {XCVM_OP_AveragePool, write_average_pool},
                                      {XCVM_OP_LpPool, write_lp_pool}};
const xcc_c_rows xcc_c_conv_rows = {conv_rows, sizeof conv_rows / sizeof *conv_rows};
