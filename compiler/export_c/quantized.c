/* Instructions on integers of quantized models as C. */
#include "compiler/export_c/export_c.h"
#include "compiler/export_c/c_runtime/workspace.h"

#include "ops/conv/window.h"
#include "ops/quantize/quantized_panels.h"
#include "ops/quantize/quantize_shape.h"

#include <math.h>
#include <string.h>

static const char *single(xcc_c_export *x, double value) { return xcc_c_number(x, XCVM_F32, (double)(float)value); }

/* ---- To integers and back ---- */

/* The loops over pieces of one scale each, and how many they are; `s` is the scale at hand and `i` the element. */
static bool begin_pieces(xcc_c_export *x, const xcvm_value *v, const xcvm_value *scale, int64_t axis,
                         int64_t block_size)
{
    xcvm_quantized p;
    xcvm_error error = {.pc = -1};
    if (xcvm_quantized_find(&error, v, scale, axis, block_size, &p) != XCVM_OK)
        return xcc_c_refuse(x, "%s", error.message);
    const size_t count = xcvm_element_count(v), blocks = (p.axis + p.block - 1) / p.block;
    if (p.single)
        xcc_c_line(x, "        for (size_t i = 0; i < %zu; i++) {\n            const size_t s = 0;\n", count);
    else if (p.by_inner)
        xcc_c_line(
            x,
            "        for (size_t i = 0; i < %zu; i++) {\n            const size_t s = (i / %zu * %zu + i / %zu %% "
            "%zu / %zu) * %zu + i %% %zu;\n",
            count, p.axis * p.inner, blocks, p.inner, p.axis, p.block, p.inner, p.inner);
    else
        xcc_c_line(x, "        for (size_t i = 0; i < %zu; i++) {\n            const size_t s = i / %zu %% %zu;\n",
                   count, p.inner, p.axis);
    return true;
}

static bool is_packed(const xcvm_value *v) { return xcvm_dtype_in((xcvm_dtype)v->dtype, XCVM_TYPES_PACKED); }
static bool is_signed(const xcvm_value *v)
{
    return xcvm_dtype_in((xcvm_dtype)v->dtype, XCVM_TYPES_SIGNED | XCVM_DTYPE_BIT(I4) | XCVM_DTYPE_BIT(I2));
}

/* Element `at` of v as a float. */
static const char *float_at(xcc_c_export *x, const xcvm_value *v, const char *at)
{
    if (v == NULL)
        return "0.0f";
    if (is_packed(v))
        return xcc_c_format(x, "(float)xc_packed(%s, %s, %d, %d)", xcc_c_read(x, v), at,
                            (int)xcvm_dtype_bits((xcvm_dtype)v->dtype), is_signed(v));
    return xcc_c_format(x, "(float)(%s)[%s]", xcc_c_read(x, v), at);
}

static bool has_whole_codes(xcc_c_export *x, const xcvm_value *v)
{
    return !xcc_c_is(v, XCVM_F4E2M1) || xcc_c_refuse(x, "C export does not support it on f4e2m1");
}

static bool write_quantize(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_QuantizeLinear_args *a = step->args;
    const int bits = (int)xcvm_dtype_bits((xcvm_dtype)a->y->dtype);
    const bool negative = is_signed(a->y);
    if (xcvm_dtype_in(a->precision, XCVM_TYPES_HALF))
        return xcc_c_refuse(x, "C export does not support a precision of %s", xcvm_dtype_name(a->precision));
    if (!has_whole_codes(x, a->y) || !begin_pieces(x, a->x, a->scale, a->axis, a->block_size))
        return false;
    const char *const code =
        xcc_c_format(x, "xc_quantize(%s / %s, %s, %s, %s)", float_at(x, a->x, "i"), float_at(x, a->scale, "s"),
                     float_at(x, a->zero_point, "s"), single(x, negative ? -ldexp(1, bits - 1) : 0),
                     single(x, ldexp(1, negative ? bits - 1 : bits) - 1));
    if (is_packed(a->y))
        xcc_c_line(x, "            xc_pack(%s, i, %d, %s);\n        }\n", xcc_c_write(x, a->y), bits, code);
    else
        xcc_c_line(x, "            (%s)[i] = (%s)%s;\n        }\n", xcc_c_write(x, a->y),
                   xcc_c_type((xcvm_dtype)a->y->dtype), code);
    return true;
}

static bool write_dequantize(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_DequantizeLinear_args *a = step->args;
    if (!has_whole_codes(x, a->x) || !begin_pieces(x, a->x, a->scale, a->axis, a->block_size))
        return false;
    xcc_c_line(x, "            (%s)[i] = (%s - %s) * %s;\n        }\n", xcc_c_write(x, a->y), float_at(x, a->x, "i"),
               float_at(x, a->zero_point, "s"), float_at(x, a->scale, "s"));
    return true;
}

static bool write_quantize_dynamic(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_DynamicQuantizeLinear_args *a = step->args;
    xcc_c_line(x, "        xc_quantize_dynamic(%s, %zu, %s, %s, %s);\n", xcc_c_read(x, a->x), xcvm_element_count(a->x),
               xcc_c_write(x, a->y), xcc_c_write(x, a->scale), xcc_c_write(x, a->zero_point));
    return true;
}

/* ---- Element by element ---- */

static bool write_lookup(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Lookup_args *a = step->args;
    xcc_c_line(
        x, "        for (size_t i = 0; i < %zu; i++)\n            (%s)[i] = (%s)[((const unsigned char *)(%s))[i]];\n",
        xcvm_element_count(a->x), xcc_c_write(x, a->y), xcc_c_read(x, a->table), xcc_c_read(x, a->x));
    return true;
}

typedef struct pair {
    double a_scale, b_scale;
    int64_t a_zero, b_zero, y_zero, low, high;
} pair;

static bool write_pair(xcc_c_export *x, xcc_c_step *step, const char *function, const pair *p)
{
    const size_t index = x->table_count++;
    xcc_c_put(
        &x->tables,
        "\nstatic const xc_quantized_pair xc_table_%zu = {.a_scale = %s, .b_scale = %s, .a_zero = %lld, .b_zero = "
        "%lld, .y_zero = %lld, .low = %lld, .high = %lld};\n",
        index, single(x, p->a_scale), single(x, p->b_scale), (long long)p->a_zero, (long long)p->b_zero,
        (long long)p->y_zero, (long long)(p->low - p->y_zero), (long long)(p->high - p->y_zero));
    return xcc_c_write_rows(x, step, xcc_c_format(x, "%s(&xc_table_%zu, ", function, index));
}

static bool write_add(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_QuantizedAdd_args *a = step->args;
    return write_pair(
        x, step, "xc_quantized_add",
        &(pair){a->a_scale, a->b_scale, a->a_zero_point, a->b_zero_point, a->y_zero_point, a->low, a->high});
}

static bool write_mul(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_QuantizedMul_args *a = step->args;
    return write_pair(x, step, "xc_quantized_mul",
                      &(pair){a->scale, 0, a->a_zero_point, a->b_zero_point, a->y_zero_point, a->low, a->high});
}

/* ---- Products and pools of channels-last images ---- */

/* Properties of a window over images and of the bytes that it computes. */
typedef struct image_product {
    const xcvm_value *x, *y;
    xcvm_ints kernel, strides, pads, dilations; /* empty: those of the whole image; 1; 0; 1 */
    int64_t groups, outputs, x_zero, y_zero, low, high;
    xcvm_quantized_runs runs;
    bool copies, floats;
    int64_t rows; /* of a product of matrices, in place of an image; else 0 */
} image_product;

static const char *product_table(xcc_c_export *x, const image_product *p)
{
    const size_t index = x->table_count++;
    const bool image = p->rows == 0;
    xcc_c_text *const t = &x->tables;
    const int64_t in[] = {image ? p->x->dims[1] : 1, image ? p->x->dims[2] : p->rows};
    const int64_t out[] = {image ? p->y->dims[1] : 1, image ? p->y->dims[2] : p->rows};
    int64_t axes[5][2];
    for (int i = 0; i < 2; i++) {
        axes[0][i] = p->kernel.count > 0 ? p->kernel.at[i] : image ? in[i] : 1;
        axes[1][i] = p->strides.count > 0 ? p->strides.at[i] : 1;
        axes[2][i] = p->dilations.count > 0 ? p->dilations.at[i] : 1;
        axes[3][i] = p->pads.count > 0 ? p->pads.at[i] : 0;
        axes[4][i] = p->pads.count > 0 ? p->pads.at[2 + i] : 0;
    }
    xcc_c_put(
        t,
        "\nstatic const xc_quantized_product xc_table_%zu = {.window = {.in = {1, %lld, %lld}, .out = {1, %lld, %lld}",
        index, (long long)in[0], (long long)in[1], (long long)out[0], (long long)out[1]);
    static const char *const names[] = {"kernel", "stride", "dilation", "pad", "pad_end"};
    for (int i = 0; i < 5; i++)
        xcc_c_put(t, ", .%s = {%d, %lld, %lld}", names[i], i < 3, (long long)axes[i][0], (long long)axes[i][1]);
    const int64_t channels = p->x->dims[p->x->rank - 1];
    xcc_c_put(
        t,
        "}, .batch = %lld, .groups = %lld, .channels = %lld, .outputs = %lld, .segments = %zu, .length = %zu, .quads "
        "= %zu, .by_rows = %d, .copies = %d, .floats = %d, .x_zero = %lld, .zero = %lld, .low = %lld, .high = "
        "%lld};\n",
        (long long)(image ? p->x->dims[0] : 1), (long long)p->groups, (long long)(channels / p->groups),
        (long long)p->outputs, p->runs.segments, p->runs.length, p->runs.quads, p->runs.by_rows, p->copies, p->floats,
        (long long)p->x_zero, (long long)p->y_zero, (long long)(p->low - p->y_zero), (long long)(p->high - p->y_zero));
    return xcc_c_format(x, "xc_table_%zu", index);
}

static bool write_product(xcc_c_export *x, const image_product *p, const xcvm_value *w, const xcvm_value *b,
                          const xcvm_value *scale, const xcvm_value *shift)
{
    const uint64_t row = (uint64_t)p->runs.segments * p->runs.quads * XCVM_QUAD;
    x->intrinsics = x->intrinsics || x->vectors;
    xcc_c_line(x, "        xc_quantized_multiply(&%s, xc_quantized_tile_%s, %s, %s, %s, %s, %s, %s, %s);\n",
               product_table(x, p), x->vectors ? "lanes" : "plain", xcc_c_read(x, p->x), xcc_c_read(x, w),
               xcc_c_read(x, b), xcc_c_read(x, scale), xcc_c_read(x, shift), xcc_c_write(x, p->y),
               p->copies ? xcc_c_format(x, "(uint8_t *)(void *)(%s)", xcc_c_scratch(x, row * XC_QUANTIZED_ROWS))
                         : "NULL");
    return true;
}

static bool write_conv(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_QuantizedConv_args *a = step->args;
    const int64_t *kernel = a->kernel_shape.at, channels = a->x->dims[3] / a->group;
    image_product p = {.x = a->x,
                       .y = a->y,
                       .kernel = a->kernel_shape,
                       .strides = a->strides,
                       .pads = a->pads,
                       .dilations = a->dilations,
                       .groups = a->group,
                       .outputs = (int64_t)xcvm_element_count(a->b) / a->group,
                       .x_zero = a->x_zero_point,
                       .y_zero = a->y_zero_point,
                       .low = a->low,
                       .high = a->high};
    p.runs = xcvm_quantized_runs_of((size_t)kernel[0], (size_t)kernel[1], (size_t)a->dilations.at[1], (size_t)channels,
                                    (size_t)a->group);
    bool plain = a->group == 1 && kernel[0] == 1 && kernel[1] == 1 && channels % XCVM_QUAD == 0;
    for (size_t i = 0; i < 4; i++)
        plain = plain && a->pads.at[i] == 0 && (i >= 2 || a->strides.at[i] == 1);
    p.copies = !plain;
    return write_product(x, &p, a->w, a->b, a->scale, NULL);
}

static bool write_gemm(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_QuantizedGemm_args *a = step->args;
    const int64_t outputs = (int64_t)xcvm_element_count(a->b), depth = a->a->dims[a->a->rank - 1];
    const image_product p = {.x = a->a,
                             .y = a->y,
                             .groups = 1,
                             .outputs = outputs,
                             .y_zero = a->y_zero_point,
                             .low = a->low,
                             .high = a->high,
                             .runs = xcvm_quantized_runs_of(1, 1, 1, (size_t)depth, 1),
                             .copies = depth % XCVM_QUAD != 0,
                             .floats = xcc_c_is(a->y, XCVM_F32),
                             .rows = (int64_t)xcvm_element_count(a->y) / outputs};
    return write_product(x, &p, a->w, a->b, a->scale, a->shift);
}

static bool write_depthwise(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_QuantizedDepthwiseConv_args *a = step->args;
    const xcvm_ints kernel = {a->w->dims, 2};
    const image_product p = {.x = a->x,
                             .y = a->y,
                             .kernel = kernel,
                             .strides = a->strides,
                             .pads = a->pads,
                             .dilations = a->dilations,
                             .groups = 1,
                             .outputs = 1,
                             .x_zero = a->x_zero_point,
                             .y_zero = a->y_zero_point,
                             .low = a->low,
                             .high = a->high};
    xcc_c_line(x, "        xc_quantized_depthwise(&%s, %s, %s, %s, %s, %s);\n", product_table(x, &p),
               xcc_c_read(x, a->x), xcc_c_read(x, a->w), xcc_c_read(x, a->b), xcc_c_read(x, a->scale),
               xcc_c_write(x, a->y));
    return true;
}

static bool write_max_pool(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_QuantizedMaxPool_args *a = step->args;
    const image_product p = {.x = a->x,
                             .y = a->y,
                             .kernel = a->kernel_shape,
                             .strides = a->strides,
                             .pads = a->pads,
                             .dilations = a->dilations,
                             .groups = 1};
    xcc_c_line(x, "        xc_quantized_max_pool(&%s, %s, %s);\n", product_table(x, &p), xcc_c_read(x, a->x),
               xcc_c_write(x, a->y));
    return true;
}

static bool write_average_pool(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_QuantizedAveragePool_args *a = step->args;
    const bool whole = a->kernel_shape.count == 0;
    const xcvm_ints none = {NULL, 0};
    const image_product p = {.x = a->x,
                             .y = a->y,
                             .kernel = a->kernel_shape,
                             .strides = whole ? none : a->strides,
                             .pads = whole ? none : a->pads,
                             .groups = 1,
                             .x_zero = a->x_zero_point,
                             .y_zero = a->y_zero_point,
                             .low = a->low,
                             .high = a->high};
    const int64_t *const kernel = whole ? a->x->dims + 1 : a->kernel_shape.at;
    if ((double)kernel[0] * (double)kernel[1] * UINT8_MAX >= INT32_MAX)
        return xcc_c_refuse(x, "the sum of its window may not fit 32 bits");
    xcc_c_line(x, "        xc_quantized_mean_pool(&%s, %d, %s, %s, %s);\n", product_table(x, &p),
               (int)a->count_include_pad, single(x, a->scale), xcc_c_read(x, a->x), xcc_c_write(x, a->y));
    return true;
}

/* ---- Operators on integers as ONNX has them ---- */

/* One number, or one for each of `count` lines: the step from one to the next. */
static bool find_step(xcc_c_export *x, const xcvm_value *v, const char *what, int64_t count, size_t *step)
{
    const size_t given = v != NULL ? xcvm_element_count(v) : 1;
    *step = given != 1;
    return given == 1 || given == (size_t)count ||
           xcc_c_refuse(x, "C export does not support numbers of %s that differ between matrices", what);
}

/* A table of the properties of operands a and b for functions of c_runtime; false after a refusal. */
static bool write_integers(xcc_c_export *x, const xcvm_value *a, const xcvm_value *b, const xcvm_value *a_zero,
                           const xcvm_value *b_zero, int64_t rows, int64_t columns)
{
    size_t a_step, b_step;
    if (!find_step(x, a_zero, "a", rows, &a_step) || !find_step(x, b_zero, "b", columns, &b_step))
        return false;
    xcc_c_line(x,
               "        xc_integers integers = {.a_signed = %d, .b_signed = %d, .a_step = %zu, .b_step = %zu};\n"
               "        integers.a_zero = %s;\n        integers.b_zero = %s;\n",
               xcc_c_is(a, XCVM_I8), xcc_c_is(b, XCVM_I8), a_step, b_step, xcc_c_read(x, a_zero),
               xcc_c_read(x, b_zero));
    return true;
}

/* Conversion of sums to the result of QLinearMatMul and QLinearConv. */
static const char *zero_of(xcc_c_export *x, const xcvm_value *zero)
{
    return zero != NULL ? xcc_c_format(x, "(%s)[0]", xcc_c_read(x, zero)) : "0";
}

static bool has_float_scales(xcc_c_export *x, const xcvm_value *a, const xcvm_value *b, const xcvm_value *y)
{
    return (xcc_c_is(a, XCVM_F32) && xcc_c_is(b, XCVM_F32) && xcc_c_is(y, XCVM_F32)) ||
           xcc_c_refuse(x, "C export does not support scales that are not f32");
}

static bool write_matmul_integer(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_MatMulInteger_args *a = step->args;
    xcc_c_matrices at;
    const int64_t m = a->a->rank > 1 ? a->a->dims[a->a->rank - 2] : 1;
    const int64_t n = a->b->rank > 1 ? a->b->dims[a->b->rank - 1] : 1;
    if (!write_integers(x, a->a, a->b, a->a_zero_point, a->b_zero_point, m, n))
        return false;
    xcc_c_begin_matrices(x, a->a, a->b, a->y, &at);
    xcc_c_line(x,
               "            for (size_t row = 0; row < %lld; row++)\n"
               "                xc_integer_row(&integers, %s, %s, row, %lld, %lld, %s + row * %lld);\n",
               at.m, at.a, at.b, at.k, at.n, at.y, at.n);
    return true;
}

static bool write_qlinear_matmul(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_QLinearMatMul_args *a = step->args;
    xcc_c_matrices at;
    const int64_t m = a->a->rank > 1 ? a->a->dims[a->a->rank - 2] : 1;
    const int64_t n = a->b->rank > 1 ? a->b->dims[a->b->rank - 1] : 1;
    size_t a_step, b_step;
    if (!has_float_scales(x, a->a_scale, a->b_scale, a->y_scale) || !find_step(x, a->a_scale, "a", m, &a_step) ||
        !find_step(x, a->b_scale, "b", n, &b_step) ||
        !write_integers(x, a->a, a->b, a->a_zero_point, a->b_zero_point, m, n))
        return false;
    const char *const sums = xcc_c_scratch(x, (uint64_t)n * sizeof(int32_t));
    xcc_c_line(x,
               "        int32_t *const sums = (int32_t *)(void *)(%s);\n        const float factor = 1.0f / (%s)[0];\n",
               sums, xcc_c_read(x, a->y_scale));
    xcc_c_begin_matrices(x, a->a, a->b, a->y, &at);
    xcc_c_line(x,
               "            for (size_t row = 0; row < %lld; row++) {\n"
               "                xc_integer_row(&integers, %s, %s, row, %lld, %lld, sums);\n"
               "                xc_quantize_sums(sums, %lld, 0, (%s)[row * %zu] * factor, %s, %zu, %s, %d, %s + row * "
               "%lld);\n            }\n",
               at.m, at.a, at.b, at.k, at.n, at.n, xcc_c_read(x, a->a_scale), a_step, xcc_c_read(x, a->b_scale), b_step,
               zero_of(x, a->y_zero_point), xcc_c_is(a->y, XCVM_I8), at.y, at.n);
    return true;
}

/* The loop over planes of results; `sums` are those of plane k. */
static bool begin_planes(xcc_c_export *x, const xcvm_value *v, const xcvm_value *w, const xcvm_value *x_zero,
                         const xcvm_value *w_zero, const xcvm_conv_shape *s, const char *sums)
{
    const int64_t outputs = (int64_t)(s->group * s->outputs);
    size_t x_step;
    if (!find_step(x, x_zero, "x", 1, &x_step) || !write_integers(x, w, v, w_zero, x_zero, outputs, 1))
        return false;
    xcc_c_line(x,
               "        for (size_t k = 0; k < %zu; k++) {\n            const size_t output = k %% %lld;\n"
               "            int32_t *const sums = %s;\n"
               "            xc_integer_plane(&%s, &integers, %s, output * %zu, %s, (k / %lld * %zu + output / %zu) * "
               "%zu, output, %zu, sums);\n",
               s->batch * (size_t)outputs, (long long)outputs, sums, xcc_c_window_table(x, &s->window),
               xcc_c_read(x, w), s->channels * s->window.kernel_size, xcc_c_read(x, v), (long long)outputs, s->group,
               s->outputs, s->channels * s->window.in_size, s->channels);
    return true;
}

static bool write_conv_integer(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_ConvInteger_args *a = step->args;
    const xcvm_conv_shape s = xcvm_conv_shape_of(a->x, a->w, a->y, a->strides, a->pads, a->dilations, a->group);
    if (!begin_planes(x, a->x, a->w, a->x_zero_point, a->w_zero_point, &s,
                      xcc_c_format(x, "%s + k * %zu", xcc_c_write(x, a->y), s.window.out_size)))
        return false;
    xcc_c_line(x, "        }\n");
    return true;
}

static bool write_qlinear_conv(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_QLinearConv_args *a = step->args;
    const xcvm_conv_shape s = xcvm_conv_shape_of(a->x, a->w, a->y, a->strides, a->pads, a->dilations, a->group);
    const size_t plane = s.window.out_size;
    size_t w_step;
    if (!has_float_scales(x, a->x_scale, a->w_scale, a->y_scale) ||
        !find_step(x, a->w_scale, "w", (int64_t)(s.group * s.outputs), &w_step) ||
        !begin_planes(x, a->x, a->w, a->x_zero_point, a->w_zero_point, &s,
                      xcc_c_format(x, "(int32_t *)(void *)(%s)", xcc_c_scratch(x, plane * sizeof(int32_t)))))
        return false;
    xcc_c_line(x,
               "            xc_quantize_sums(sums, %zu, %s, xc_quantized_scale((%s)[0], (%s)[output * %zu], (%s)[0]), "
               "NULL, 0, %s, %d, "
               "%s + k * %zu);\n        }\n",
               plane, a->b != NULL ? xcc_c_format(x, "(%s)[output]", xcc_c_read(x, a->b)) : "0",
               xcc_c_read(x, a->x_scale), xcc_c_read(x, a->w_scale), w_step, xcc_c_read(x, a->y_scale),
               zero_of(x, a->y_zero_point), xcc_c_is(a->y, XCVM_I8), xcc_c_write(x, a->y), plane);
    return true;
}

static const xcc_c_row quantized_rows[] = {{XCVM_OP_MatMulInteger, write_matmul_integer},
                                           {XCVM_OP_QLinearMatMul, write_qlinear_matmul},
                                           {XCVM_OP_ConvInteger, write_conv_integer},
                                           {XCVM_OP_QLinearConv, write_qlinear_conv},
                                           {XCVM_OP_QuantizeLinear, write_quantize},
                                           {XCVM_OP_DequantizeLinear, write_dequantize},
                                           {XCVM_OP_DynamicQuantizeLinear, write_quantize_dynamic},
                                           {XCVM_OP_Lookup, write_lookup},
                                           {XCVM_OP_QuantizedAdd, write_add},
                                           {XCVM_OP_QuantizedMul, write_mul},
                                           {XCVM_OP_QuantizedConv, write_conv},
                                           {XCVM_OP_QuantizedGemm, write_gemm},
                                           {XCVM_OP_QuantizedDepthwiseConv, write_depthwise},
                                           {XCVM_OP_QuantizedMaxPool, write_max_pool},
                                           {XCVM_OP_QuantizedAveragePool, write_average_pool}};
const xcc_c_rows xcc_c_quantized_rows = {quantized_rows, sizeof quantized_rows / sizeof *quantized_rows};
