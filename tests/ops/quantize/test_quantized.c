/* The instructions of integer regions against sums in 64 bits: at every edge of panels, quads and tiles, for bytes that
 * saturate where pairs are added in 16 bits, with every instruction set that this CPU has, each of its ways to
 * multiply, and any number of threads. Results are the same bits. */
#include "ops/quantize/quantized_panels.h"
#include "ops/quantize/simd/quantized_product.h"
#include "tests/ops/support.h"

#include "base/isas.h"

#include <math.h>

typedef enum fill { RANDOM, EXTREME } fill;

static int64_t random_below(int64_t n)
{
    random_float();
    return (int64_t)((random_state >> 8) % (uint32_t)n);
}

static xcvm_value blank(xcvm_dtype dtype, int rank, const int64_t *dims)
{
    xcvm_value v = {.rank = -1};
    xcvm_value_set_tensor(&v, dtype, rank, dims);
    v.memory_kind = XCVM_MEMORY_BORROWED;
    v.data = malloc(v.bytes + 1);
    ck_assert_ptr_nonnull(v.data);
    memset(v.data, 0xa5, v.bytes + 1);
    return v;
}

static void fill_bytes(void *bytes, size_t count, fill how, uint8_t extreme)
{
    for (size_t i = 0; i < count; i++)
        ((uint8_t *)bytes)[i] = how == EXTREME ? extreme : (uint8_t)random_below(256);
}

/* Half a step below the limit, ties included: the kernels' result for a sum. */
static int64_t requantized(int64_t sum, float scale, int64_t zero, int64_t low, int64_t high)
{
    const float v = (float)(int32_t)sum * scale;
    const int64_t q = v != v ? low : v < -1e9f ? low : v > 1e9f ? high : (int64_t)rintf(v) + zero;
    return q < low ? low : q > high ? high : q;
}

typedef struct conv_case {
    int64_t images, height, width, channels, outputs, group, kernel[2], stride[2], dilation[2], pads[4];
} conv_case;

/* Scales that bring sums of this many products into 8 bits, some of which are exact halves. */
static void fill_numbers(xcvm_value *b, xcvm_value *scale, int64_t products)
{
    for (size_t i = 0; i < xcvm_element_count(b); i++) {
        XCVM_DATA(int32_t, b)[i] = (int32_t)(random_below(20001) - 10000);
        XCVM_DATA(float, scale)
        [i] = ldexpf(1.0f + (float)random_below(2) * 0.37f, -(int)log2((double)(products * 64 + 1)));
    }
}

static int64_t expected_at(const conv_case *c, const uint8_t *x, const int8_t *w, int64_t zero, int64_t image,
                           int64_t row, int64_t column, int64_t output)
{
    const int64_t channels = c->channels / c->group, group = output / (c->outputs / c->group);
    int64_t sum = 0;
    for (int64_t i = 0; i < c->kernel[0]; i++)
        for (int64_t j = 0; j < c->kernel[1]; j++)
            for (int64_t k = 0; k < channels; k++) {
                const int64_t h = row * c->stride[0] + i * c->dilation[0] - c->pads[0];
                const int64_t v = column * c->stride[1] + j * c->dilation[1] - c->pads[1];
                const bool inside = h >= 0 && h < c->height && v >= 0 && v < c->width;
                const int64_t at = ((image * c->height + h) * c->width + v) * c->channels + group * channels + k;
                sum += (inside ? x[at] : zero) * w[((output * channels + k) * c->kernel[0] + i) * c->kernel[1] + j];
            }
    return sum;
}

/* The filters as the kernel reads them. */
static xcvm_value pack_conv(const conv_case *c, const int8_t *w, bool depthwise)
{
    const int64_t taps = c->kernel[0] * c->kernel[1], channels = c->channels / c->group;
    if (depthwise) {
        const xcvm_value panels = blank(XCVM_I8, 3, (const int64_t[]){c->kernel[0], c->kernel[1], c->channels});
        for (int64_t o = 0; o < c->channels; o++)
            for (int64_t i = 0; i < taps; i++)
                XCVM_DATA(int8_t, &panels)[i * c->channels + o] = w[o * taps + i];
        return panels;
    }
    const xcvm_quantized_runs runs = xcvm_quantized_runs_of((size_t)c->kernel[0], (size_t)c->kernel[1],
                                                            (size_t)c->dilation[1], (size_t)channels, (size_t)c->group);
    const size_t outputs = (size_t)(c->outputs / c->group);
    const xcvm_value panels =
        blank(XCVM_I8, 4,
              (const int64_t[]){c->group * (int64_t)xcvm_quantized_panels(outputs),
                                (int64_t)(runs.segments * runs.quads), XCVM_QUANTIZED_OUTPUTS, XCVM_QUAD});
    const size_t steps[] = {(size_t)(channels * taps), (size_t)taps, (size_t)c->kernel[1], 1};
    xcvm_quantized_pack(w, steps, (size_t)c->group, outputs, (size_t)channels, (size_t)c->kernel[0],
                        (size_t)c->kernel[1], &runs, panels.data);
    return panels;
}

static void check_elements(const conv_case *c, const xcvm_QuantizedConv_args *a, const int8_t *w, size_t isa)
{
    size_t at = 0;
    for (int64_t n = 0; n < c->images; n++)
        for (int64_t i = 0; i < a->y->dims[1]; i++)
            for (int64_t j = 0; j < a->y->dims[2]; j++)
                for (int64_t o = 0; o < c->outputs; o++, at++) {
                    const int64_t sum =
                        expected_at(c, a->x->data, w, a->x_zero_point, n, i, j, o) + XCVM_CDATA(int32_t, a->b)[o];
                    const int64_t q =
                        requantized(sum, XCVM_CDATA(float, a->scale)[o], a->y_zero_point, a->low, a->high);
                    ck_assert_msg(XCVM_CDATA(uint8_t, a->y)[at] == q, "isa %zu, (%d, %d, %d, %d): %d, not %d", isa,
                                  (int)n, (int)i, (int)j, (int)o, XCVM_CDATA(uint8_t, a->y)[at], (int)q);
                }
}

/* Every variant of the instruction's kernel, with one thread and with three, computes the expected result and writes
 * nothing after y. `given` are the kernel's arguments; `args` are the same as those of QuantizedConv. */
static void check_kernels(const conv_case *c, xcvm_opcode opcode, const void *given,
                          const xcvm_QuantizedConv_args *args, const int8_t *w)
{
    xcvm_value *y = args->y;
    xcvm_kernel_run kernel;
    for (size_t v = 0; (kernel = kernel_variant(opcode, v)) != NULL; v++)
        for (int threads = 1; threads <= 3; threads += 2) {
            memset(y->data, 0xa5, y->bytes + 1);
            run_on_threads(kernel, given, threads);
            check_elements(c, args, w, v);
            ck_assert_int_eq(XCVM_CDATA(uint8_t, y)[y->bytes], 0xa5);
        }
}

/* As depthwise if every channel is a group and `depthwise` is set. */
static void check_conv(const conv_case *c, fill how, bool depthwise)
{
    const int64_t taps = c->kernel[0] * c->kernel[1], channels = c->channels / c->group, zero = random_below(256);
    const int64_t size[] = {
        (c->height + c->pads[0] + c->pads[2] - (c->kernel[0] - 1) * c->dilation[0] - 1) / c->stride[0] + 1,
        (c->width + c->pads[1] + c->pads[3] - (c->kernel[1] - 1) * c->dilation[1] - 1) / c->stride[1] + 1};
    const size_t filters = (size_t)(c->outputs * channels * taps);
    xcvm_value x = blank(XCVM_U8, 4, (const int64_t[]){c->images, c->height, c->width, c->channels});
    int8_t *w = malloc(filters);
    ck_assert_ptr_nonnull(w);
    fill_bytes(x.data, x.bytes, how, 255);
    fill_bytes(w, filters, how, 0x80);
    xcvm_value b = blank(XCVM_I32, 1, &c->outputs), scale = blank(XCVM_F32, 1, &c->outputs);
    fill_numbers(&b, &scale, taps * channels);
    xcvm_value panels = pack_conv(c, w, depthwise);
    xcvm_value y = blank(XCVM_U8, 4, (const int64_t[]){c->images, size[0], size[1], c->outputs});
    const int64_t y_zero = random_below(256), low = random_below(2) * random_below(100),
                  high = 255 - random_below(2) * 100;
    const xcvm_ints strides = {c->stride, 2}, pads = {c->pads, 4}, dilations = {c->dilation, 2};
    const xcvm_QuantizedDepthwiseConv_args by_channels = {.y = &y,
                                                          .x = &x,
                                                          .w = &panels,
                                                          .b = &b,
                                                          .scale = &scale,
                                                          .strides = strides,
                                                          .pads = pads,
                                                          .dilations = dilations,
                                                          .x_zero_point = zero,
                                                          .y_zero_point = y_zero,
                                                          .low = low,
                                                          .high = high};
    const xcvm_QuantizedConv_args args = {.y = &y,
                                          .x = &x,
                                          .w = &panels,
                                          .b = &b,
                                          .scale = &scale,
                                          .kernel_shape = {c->kernel, 2},
                                          .strides = strides,
                                          .pads = pads,
                                          .dilations = dilations,
                                          .group = c->group,
                                          .x_zero_point = zero,
                                          .y_zero_point = y_zero,
                                          .low = low,
                                          .high = high};
    if (depthwise)
        check_kernels(c, XCVM_OP_QuantizedDepthwiseConv, &by_channels, &args, w);
    else
        check_kernels(c, XCVM_OP_QuantizedConv, &args, &args, w);
    free(w);
    free(x.data);
    free(b.data);
    free(scale.data);
    free(panels.data);
    free(y.data);
}

static conv_case random_conv(bool depthwise)
{
    conv_case c = {.images = 1 + random_below(2), .height = 1 + random_below(9), .width = 1 + random_below(12)};
    c.group = depthwise ? 1 + random_below(140) : random_below(3) == 0 ? 1 + random_below(4) : 1;
    c.channels = depthwise ? c.group : c.group * (1 + random_below(random_below(2) ? 5 : 40));
    c.outputs = depthwise ? c.group : c.group * (1 + random_below(random_below(3) ? 20 : 120));
    for (int i = 0; i < 2; i++) {
        const int64_t in = i == 0 ? c.height : c.width;
        c.kernel[i] = 1 + random_below(3);
        c.stride[i] = 1 + random_below(3);
        c.dilation[i] = 1 + random_below(2);
        c.pads[i] = random_below(3);
        const int64_t lacks = (c.kernel[i] - 1) * c.dilation[i] + 1 - in - c.pads[i];
        c.pads[2 + i] = lacks > 0 ? lacks : random_below(3);
    }
    return c;
}

START_TEST(convolutions)
{
    for (int i = 0; i < 120; i++) {
        const conv_case c = random_conv(i % 3 == 2);
        check_conv(&c, i % 10 == 9 ? EXTREME : RANDOM, i % 3 == 2);
    }
    /* Whole tiles, and all divisions of panels. */
    for (int64_t outputs = 16; outputs <= 128; outputs += 16) {
        const conv_case c = {1, 5, 7, 32, outputs, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}};
        check_conv(&c, RANDOM, false);
        check_conv(&c, EXTREME, false);
    }
    static const conv_case first = {1, 20, 20, 3, 32, 1, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}};
    check_conv(&first, RANDOM, false);
    static const conv_case wide = {2, 9, 9, 192, 192, 192, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}};
    check_conv(&wide, EXTREME, true);
}
END_TEST

static void check_gemm(int64_t m, int64_t n, int64_t k, fill how, bool floats, bool shifted)
{
    xcvm_value x = blank(XCVM_U8, 2, (const int64_t[]){m, k}), b = blank(XCVM_I32, 1, &n),
               scale = blank(XCVM_F32, 1, &n);
    xcvm_value shift = blank(XCVM_F32, 1, &n), y = blank(floats ? XCVM_F32 : XCVM_U8, 2, (const int64_t[]){m, n});
    const xcvm_quantized_runs runs = xcvm_quantized_runs_of(1, 1, 1, (size_t)k, 1);
    xcvm_value w = blank(XCVM_I8, 4,
                         (const int64_t[]){(int64_t)xcvm_quantized_panels((size_t)n), (int64_t)runs.quads,
                                           XCVM_QUANTIZED_OUTPUTS, XCVM_QUAD});
    int8_t *matrix = malloc((size_t)(n * k) + 1);
    ck_assert_ptr_nonnull(matrix);
    fill_bytes(x.data, x.bytes, how, 255);
    fill_bytes(matrix, (size_t)(n * k), how, 0x80);
    fill_numbers(&b, &scale, k);
    for (int64_t i = 0; i < n; i++)
        XCVM_DATA(float, &shift)[i] = (float)random_below(1000) / 7.0f;
    const size_t steps[] = {1, (size_t)n, 0, 0};
    xcvm_quantized_pack(matrix, steps, 1, (size_t)n, (size_t)k, 1, 1, &runs, w.data);
    const xcvm_QuantizedGemm_args args = {.y = &y,
                                          .a = &x,
                                          .w = &w,
                                          .b = &b,
                                          .scale = &scale,
                                          .shift = shifted ? &shift : NULL,
                                          .output_dtype = floats ? XCVM_F32 : XCVM_U8,
                                          .y_zero_point = 7,
                                          .high = 255};
    xcvm_kernel_run kernel;
    for (size_t v = 0; (kernel = kernel_variant(XCVM_OP_QuantizedGemm, v)) != NULL; v++)
        for (int threads = 1; threads <= 3; threads += 2) {
            run_on_threads(kernel, &args, threads);
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) {
                    int64_t sum = XCVM_CDATA(int32_t, &b)[j];
                    for (int64_t p = 0; p < k; p++)
                        sum += XCVM_CDATA(uint8_t, &x)[i * k + p] * matrix[p * n + j];
                    /* Two roundings, whatever the compiler would make of them. */
                    volatile float value = (float)(int32_t)sum * XCVM_CDATA(float, &scale)[j];
                    if (shifted)
                        value += XCVM_CDATA(float, &shift)[j];
                    if (floats)
                        ck_assert(XCVM_CDATA(float, &y)[i * n + j] == value);
                    else
                        ck_assert_int_eq(XCVM_CDATA(uint8_t, &y)[i * n + j], value < -7    ? 0
                                                                             : value > 248 ? 255
                                                                                           : (int)rintf(value) + 7);
                }
        }
    free(x.data);
    free(b.data);
    free(scale.data);
    free(shift.data);
    free(y.data);
    free(w.data);
    free(matrix);
}

START_TEST(products)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {1, 100, 64}, {3, 7, 5},    {8, 48, 4},
                                       {9, 50, 1030}, {17, 64, 30}, {33, 193, 9}, {16, 100, 51},
                                       {5, 17, 2052}, {2, 3, 0},    {700, 40, 24}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kind = 0; kind < 8; kind++)
            check_gemm(sizes[i][0], sizes[i][1], sizes[i][2], kind & 1 ? EXTREME : RANDOM, (kind & 2) != 0,
                       (kind & 4) != 0);
}
END_TEST

/* ---- Each way of an instruction set by itself ---- */

#define DECLARE(of, kind, suffix, ...)                                                                                 \
    size_t xcvm_quantized_ways_run##suffix(void);                                                                      \
    size_t xcvm_quantized_product_scratch_run##suffix(const xcvm_quantized_product *p);                                \
    xcvm_status xcvm_quantized_product_by_run##suffix(const xcvm_kernel *k, const xcvm_quantized_product *p,           \
                                                      void *scratch, size_t way);
XCVM_ISAS(DECLARE, )

typedef struct isa_ways {
    const char *name;
    bool has;
    size_t (*ways)(void);
    xcvm_status (*by)(const xcvm_kernel *k, const xcvm_quantized_product *p, void *scratch, size_t way);
} isa_ways;

START_TEST(ways)
{
#define ISA_WAYS(of, kind, suffix, isa, available, ...)                                                                \
    {isa, available, xcvm_quantized_ways_run##suffix, xcvm_quantized_product_by_run##suffix},
    const isa_ways isas[] = {XCVM_ISAS(ISA_WAYS, )};
    enum { M = 13, N = 100, K = 76 };
    uint8_t x[M * K + 4], y[M * N], wanted[M * N];
    int8_t matrix[N * K], panels[(N + 15) / 16 * 16 * K];
    int32_t bias[N];
    float scale[N];
    static const size_t none = 0;
    for (int how = 0; how < 2; how++) {
        fill_bytes(x, sizeof x, (fill)how, 255);
        fill_bytes(matrix, sizeof matrix, (fill)how, 0x80);
        for (int j = 0; j < N; j++) {
            bias[j] = (int32_t)random_below(1000);
            scale[j] = 1e-4f * (float)(1 + random_below(100));
        }
        const xcvm_quantized_runs runs = xcvm_quantized_runs_of(1, 1, 1, K, 1);
        const size_t steps[] = {K, 1, 0, 0};
        xcvm_quantized_pack(matrix, steps, 1, N, K, 1, 1, &runs, panels);
        const xcvm_quantized_product p = {.images = 1,
                                          .height = 1,
                                          .width = M,
                                          .groups = 1,
                                          .x = x,
                                          .pixel = K,
                                          .runs = runs,
                                          .offsets = &none,
                                          .w = panels,
                                          .outputs = N,
                                          .bias = bias,
                                          .scale = scale,
                                          .y = y,
                                          .zero = 100,
                                          .high = 255};
        bool first = true;
        for (size_t i = 0; i < sizeof isas / sizeof *isas; i++)
            for (size_t way = 0; isas[i].has && way < isas[i].ways(); way++) {
                xcvm_error error = {.status = XCVM_OK};
                xcvm_threads *threads;
                ck_assert_int_eq(xcvm_threads_create(NULL, 1, &threads, &error), XCVM_OK);
                const xcvm_kernel k = {.error = &error, .threads = threads};
                void *scratch = malloc(4096);
                ck_assert_ptr_nonnull(scratch);
                ck_assert_int_eq(isas[i].by(&k, &p, scratch, way), XCVM_OK);
                if (first)
                    memcpy(wanted, y, sizeof y);
                first = false;
                ck_assert_msg(memcmp(wanted, y, sizeof y) == 0, "%s, way %zu", isas[i].name, way);
                free(scratch);
                xcvm_threads_destroy(threads);
            }
    }
}
END_TEST

Suite *suite_ops_quantized(void);
Suite *suite_ops_quantized(void)
{
    Suite *suite = suite_create("ops_quantized");
    TCase *tc = tcase_create("quantized");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, convolutions);
    tcase_add_test(tc, products);
    tcase_add_test(tc, ways);
    suite_add_tcase(suite, tc);
    return suite;
}
