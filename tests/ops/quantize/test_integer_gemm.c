/* Products of bytes are exact at every edge of tiles and blocks, for all kinds of bytes and zero points, with every
 * instruction set that this CPU has and any number of threads. */
#include "tests/ops/support.h"
#include "ops/table/table.h"

xcvm_status xcvm_MatMulInteger_run(xcvm_kernel *k, const void *args);
xcvm_status xcvm_ConvInteger_run(xcvm_kernel *k, const void *args);

static xcvm_value bytes(bool is_signed, int rank, const int64_t *dims)
{
    xcvm_value v = {.rank = -1};
    xcvm_value_set_tensor(&v, is_signed ? XCVM_I8 : XCVM_U8, rank, dims);
    v.memory_kind = XCVM_MEMORY_BORROWED;
    v.data = malloc(v.bytes + 1);
    ck_assert_ptr_nonnull(v.data);
    for (size_t i = 0; i < v.bytes; i++) {
        random_float();
        XCVM_DATA(uint8_t, &v)[i] = (uint8_t)(random_state >> 24);
    }
    return v;
}

static int number(const xcvm_value *v, int64_t at)
{
    return v->dtype == XCVM_I8 ? XCVM_CDATA(int8_t, v)[at] : XCVM_CDATA(uint8_t, v)[at];
}

static void check(int64_t m, int64_t n, int64_t k, bool a_signed, bool b_signed, bool b_zero)
{
    xcvm_value a = bytes(a_signed, 2, (const int64_t[]){m, k}), b = bytes(b_signed, 2, (const int64_t[]){k, n});
    xcvm_value az = bytes(a_signed, 1, &m), bz = bytes(b_signed, 1, &n), y = {.rank = -1};
    xcvm_value_set_tensor(&y, XCVM_I32, 2, (const int64_t[]){m, n});
    y.memory_kind = XCVM_MEMORY_BORROWED;
    y.data = malloc(y.bytes);
    ck_assert_ptr_nonnull(y.data);
    const xcvm_MatMulInteger_args args = {
        .y = &y, .a = &a, .b = &b, .a_zero_point = &az, .b_zero_point = b_zero ? &bz : NULL};
    const xcvm_kernel_run kernels[] = {xcvm_kernel_of(XCVM_OP_MatMulInteger), xcvm_MatMulInteger_run};
    for (int v = 0; v < 4; v++) {
        run_on_threads(kernels[v % 2], &args, v < 2 ? 1 : 3);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                int32_t sum = 0;
                for (int64_t p = 0; p < k; p++)
                    sum += (number(&a, i * k + p) - number(&az, i)) *
                           (number(&b, p * n + j) - (b_zero ? number(&bz, j) : 0));
                ck_assert_int_eq(XCVM_CDATA(int32_t, &y)[i * n + j], sum);
            }
    }
    free(a.data);
    free(b.data);
    free(az.data);
    free(bz.data);
    free(y.data);
}

START_TEST(products)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {3, 7, 5},    {8, 48, 4},    {9, 50, 1030},
                                       {17, 64, 30}, {33, 193, 9}, {16, 100, 51}, {5, 17, 2052}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kind = 0; kind < 8; kind++)
            check(sizes[i][0], sizes[i][1], sizes[i][2], (kind & 1) != 0, (kind & 2) != 0, (kind & 4) != 0);
}
END_TEST

/* Sizes of a convolution of one image by two groups of filters, the same both ways but for the image's. */
typedef struct sizes {
    int64_t channels, outputs, height, width, kernel, stride, pad, dilation;
} sizes;

static int64_t out_size(const sizes *s, int64_t in)
{
    return (in + 2 * s->pad - s->dilation * (s->kernel - 1) - 1) / s->stride + 1;
}

/* The sum at place (h, w) of output `o`. */
static int32_t sum_at(const sizes *s, const xcvm_value *x, const xcvm_value *w, int x_zero, int w_zero, int64_t o,
                      int64_t h, int64_t v)
{
    int32_t sum = 0;
    const int64_t first = o < s->outputs ? 0 : s->channels;
    for (int64_t c = 0; c < s->channels; c++)
        for (int64_t i = 0; i < s->kernel * s->kernel; i++) {
            const int64_t y = h * s->stride + i / s->kernel * s->dilation - s->pad,
                          z = v * s->stride + i % s->kernel * s->dilation - s->pad;
            if (y >= 0 && y < s->height && z >= 0 && z < s->width)
                sum += (number(x, ((first + c) * s->height + y) * s->width + z) - x_zero) *
                       (number(w, (o * s->channels + c) * s->kernel * s->kernel + i) - w_zero);
        }
    return sum;
}

static void check_convolution(const sizes *s, bool x_signed, bool w_signed)
{
    const int64_t one = 1, outputs = 2 * s->outputs, height = out_size(s, s->height), width = out_size(s, s->width);
    int64_t steps[] = {s->stride, s->stride}, pads[] = {s->pad, s->pad, s->pad, s->pad},
            dilations[] = {s->dilation, s->dilation};
    xcvm_value x = bytes(x_signed, 4, (const int64_t[]){1, 2 * s->channels, s->height, s->width});
    xcvm_value w = bytes(w_signed, 4, (const int64_t[]){outputs, s->channels, s->kernel, s->kernel});
    xcvm_value xz = bytes(x_signed, 1, &one), wz = bytes(w_signed, 1, &outputs), y = {.rank = -1};
    xcvm_value_set_tensor(&y, XCVM_I32, 4, (const int64_t[]){1, outputs, height, width});
    y.memory_kind = XCVM_MEMORY_BORROWED;
    y.data = malloc(y.bytes);
    ck_assert_ptr_nonnull(y.data);
    const xcvm_ConvInteger_args args = {.y = &y,
                                        .x = &x,
                                        .w = &w,
                                        .x_zero_point = &xz,
                                        .w_zero_point = &wz,
                                        .strides = {steps, 2},
                                        .pads = {pads, 4},
                                        .dilations = {dilations, 2},
                                        .group = 2};
    const xcvm_kernel_run kernels[] = {xcvm_kernel_of(XCVM_OP_ConvInteger), xcvm_ConvInteger_run};
    for (int v = 0; v < 4; v++) {
        run_on_threads(kernels[v % 2], &args, v < 2 ? 1 : 3);
        for (int64_t i = 0; i < outputs * height * width; i++) {
            const int64_t o = i / (height * width);
            ck_assert_int_eq(XCVM_CDATA(int32_t, &y)[i],
                             sum_at(s, &x, &w, number(&xz, 0), number(&wz, o), o, i / width % height, i % width));
        }
    }
    free(x.data);
    free(w.data);
    free(xz.data);
    free(wz.data);
    free(y.data);
}

START_TEST(convolutions)
{
    static const sizes cases[] = {{1, 1, 1, 1, 1, 1, 0, 1},   {3, 5, 7, 9, 3, 1, 1, 1},   {4, 8, 11, 28, 3, 1, 1, 1},
                                  {2, 3, 12, 31, 3, 2, 1, 1}, {5, 9, 16, 16, 1, 1, 0, 1}, {3, 2, 10, 13, 2, 3, 2, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int kind = 0; kind < 4; kind++)
            check_convolution(&cases[i], (kind & 1) != 0, (kind & 2) != 0);
}
END_TEST

Suite *suite_ops_integer_gemm(void);
Suite *suite_ops_integer_gemm(void)
{
    Suite *suite = suite_create("ops_integer_gemm");
    TCase *tc = tcase_create("integer_gemm");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, products);
    tcase_add_test(tc, convolutions);
    suite_add_tcase(suite, tc);
    return suite;
}
