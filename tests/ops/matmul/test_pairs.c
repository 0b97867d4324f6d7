/* Products of pairs of bf16 at every edge of tiles, panels and blocks: against sums in f64 of what operands are rounded
 * to, and the same bits from every instruction set that this CPU has and for any number of threads. */
#include "base/isas.h"
#include "ops/util/convert.h"
#include "ops/matmul/pairs.h"
#include "tests/ops/support.h"

#include <float.h>
#include <math.h>

static float rounded(float x)
{
    uint16_t half;
    xcvm_store_f32(XCVM_BF16, &half, 0, 1, &x);
    xcvm_load_f32(XCVM_BF16, &half, 0, 1, &x);
    return fabsf(x) < FLT_MIN ? copysignf(0.0f, x) : x;
}

static xcvm_value pack(const xcvm_value *b)
{
    const int64_t k = b->dims[0], n = b->dims[1], panels = (int64_t)xcvm_packed_panels((size_t)n);
    xcvm_value f32 = TENSOR(panels, k, 16), w = {.rank = -1};
    const int64_t dims[] = {panels, (int64_t)xcvm_pairs_of((size_t)k), 16, 2};
    xcvm_packed_write((size_t)k, (size_t)n, b->data, (size_t)n, 1, 1.0f, f32.data);
    xcvm_value_set_tensor(&w, XCVM_BF16, 4, dims);
    w.memory_kind = XCVM_MEMORY_BORROWED;
    w.data = malloc(w.bytes + 1);
    ck_assert_ptr_nonnull(w.data);
    for (int64_t p = 0; p < panels; p++)
        xcvm_pairs_write((size_t)k, XCVM_DATA(float, &f32) + p * k * 16,
                         XCVM_DATA(uint16_t, &w) + p * dims[1] * 16 * 2);
    free(f32.data);
    return w;
}

/* To nearest even, subnormal numbers to zero of their sign, beyond the greatest to infinity, NaN to NaN; by lines. */
START_TEST(rounding)
{
    static const struct {
        float from;
        uint16_t to;
    } numbers[] = {{1.0f + 0x1p-8f, 0x3f80}, {1.0f + 0x3p-8f, 0x3f82}, {1.0f + 0x1.0002p-8f, 0x3f81},
                   {-0x1p-127f, 0x8000},     {0x1.fep-127f, 0},        {0x1p-126f, 0x0080},
                   {FLT_MAX, 0x7f80},        {-INFINITY, 0xff80},      {0x1.fep127f, 0x7f7f},
                   {-0.0f, 0x8000}};
    enum { COUNT = sizeof numbers / sizeof *numbers };
    for (size_t i = 0; i < COUNT; i++) {
        float lines[3 * 16] = {0};
        uint16_t pairs[4 * 16];
        lines[5] = lines[16 + 6] = lines[32 + 7] = numbers[i].from;
        memset(pairs, 0xff, sizeof pairs);
        xcvm_pairs_write(3, lines, pairs);
        for (size_t j = 0; j < 4 * 16; j++) {
            const bool here = j == 5 * 2 || j == 6 * 2 + 1 || j == 32 + 7 * 2;
            ck_assert_uint_eq(pairs[j], here ? numbers[i].to : 0);
        }
        /* The same rounding for the other operand: times 1, of numbers that are not NaN. */
        xcvm_value a = TENSOR(1, 3), b = TENSOR(3, 1), y = TENSOR(1, 1);
        const float row[] = {0, numbers[i].from, 0}, column[] = {0, 1, 0};
        memcpy(a.data, row, sizeof row);
        memcpy(b.data, column, sizeof column);
        xcvm_value w = pack(&b);
        for (size_t v = 0; kernel_variant(XCVM_OP_Bf16Gemm, v) != NULL; v++) {
            const xcvm_Bf16Gemm_args args = {
                .y = &y, .a = &a, .w = &w, .columns = 1, .activation = XCVM_ACTIVATION_none};
            float expected;
            xcvm_load_f32(XCVM_BF16, &numbers[i].to, 0, 1, &expected);
            run_on_threads(kernel_variant(XCVM_OP_Bf16Gemm, v), &args, 1);
            ck_assert_float_eq(XCVM_DATA(float, &y)[0], expected);
        }
        xcvm_value *const all[] = {&a, &b, &y, &w};
        for (size_t j = 0; j < sizeof all / sizeof *all; j++)
            free(all[j]->data);
    }
}
END_TEST

/* A NaN makes only its row, or its column, NaN. */
START_TEST(not_a_number)
{
    enum { M = 9, N = 33, K = 37 };
    xcvm_value a = TENSOR(M, K), b = TENSOR(K, N), y = TENSOR(M, N);
    XCVM_DATA(float, &a)[4 * K + 36] = NAN;
    XCVM_DATA(float, &b)[20 * N + 17] = NAN;
    xcvm_value w = pack(&b);
    for (size_t v = 0; kernel_variant(XCVM_OP_Bf16Gemm, v) != NULL; v++) {
        const xcvm_Bf16Gemm_args args = {.y = &y, .a = &a, .w = &w, .columns = N, .activation = XCVM_ACTIVATION_none};
        run_on_threads(kernel_variant(XCVM_OP_Bf16Gemm, v), &args, 1);
        for (size_t i = 0; i < M; i++)
            for (size_t j = 0; j < N; j++)
                ck_assert_int_eq(isnan(XCVM_DATA(float, &y)[i * N + j]), i == 4 || j == 17);
    }
    free(a.data);
    free(b.data);
    free(y.data);
    free(w.data);
}
END_TEST

static void check_product(int64_t m, int64_t n, int64_t k)
{
    const bool extras = (m + n + k) % 2 == 0;
    xcvm_value a = TENSOR(m, k), b = TENSOR(k, n), c = TENSOR(n), z = TENSOR(m, n), y = TENSOR(m, n);
    xcvm_value again = TENSOR(m, n), least = TENSOR(m, n), w = pack(&b);
    double *expected = calloc((size_t)(m * n), 2 * sizeof *expected), *sizes = expected + m * n;
    ck_assert_ptr_nonnull(expected);
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++) {
            const double x = (double)rounded(XCVM_DATA(float, &a)[i * k + p]);
            for (int64_t j = 0; j < n; j++) {
                const double term = x * (double)rounded(XCVM_DATA(float, &b)[p * n + j]);
                expected[i * n + j] += term;
                sizes[i * n + j] += fabs(term);
            }
        }
    xcvm_Bf16Gemm_args args = {.y = &y, .a = &a, .w = &w, .columns = n, .activation = XCVM_ACTIVATION_none};
    if (extras) {
        args.c = &c;
        args.z = &z;
        args.activation = XCVM_ACTIVATION_Relu;
    }
    for (size_t v = 0; kernel_variant(XCVM_OP_Bf16Gemm, v) != NULL; v++) {
        const xcvm_kernel_run kernel = kernel_variant(XCVM_OP_Bf16Gemm, v);
        args.y = v == 0 ? &least : &y;
        run_on_threads(kernel, &args, 1);
        const float *got = args.y->data;
        for (int64_t at = 0; at < m * n; at++) {
            double sum = expected[at];
            if (extras) {
                sum += (double)XCVM_DATA(float, &c)[at % n] + (double)XCVM_DATA(float, &z)[at];
                sum = sum > 0 ? sum : 0;
            }
            if (!(fabs((double)got[at] - sum) <= 8e-7 * (1 + sizes[at])))
                ck_abort_msg("%dx%dx%d at %d: %g, expected %g", (int)m, (int)n, (int)k, (int)at, (double)got[at], sum);
        }
        ck_assert_msg(memcmp(got, least.data, least.bytes) == 0, "%dx%dx%d: build %zu makes other bits", (int)m, (int)n,
                      (int)k, v);
        args.y = &again;
        run_on_threads(kernel, &args, 3);
        ck_assert_mem_eq(again.data, least.data, least.bytes);
    }
    /* A row by itself is the same bits. */
    xcvm_value first = TENSOR(1, n), row = TENSOR(1, k);
    memcpy(row.data, XCVM_DATA(float, &a) + (m - 1) * k, row.bytes);
    if (!extras) {
        args.a = &row;
        args.y = &first;
        run_on_threads(kernel_variant(XCVM_OP_Bf16Gemm, 0), &args, 1);
        ck_assert_mem_eq(first.data, XCVM_DATA(float, &least) + (m - 1) * n, first.bytes);
    }
    xcvm_value *const all[] = {&a, &b, &c, &z, &y, &w, &again, &least, &first, &row};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
    free(expected);
}

START_TEST(products)
{
    static const int64_t widths[] = {1, 15, 16, 17, 31, 47, 48, 49, 64, 65, 113};
    static const int64_t depths[] = {1, 2, 7, 31, 32, 33, 67};
    for (int64_t m = 1; m <= 18; m++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
            for (size_t j = 0; j < sizeof depths / sizeof *depths; j++)
                if (test_takes((size_t)m + i + j))
                    check_product(m, widths[i], depths[j]);
}
END_TEST

/* Several blocks of b, and enough work for threads. */
START_TEST(large_products)
{
    check_product(1, 1000, 700);
    check_product(3, 1030, 1100);
    check_product(40, 130, 2051);
    check_product(65, 300, 301);
    check_product(150, 201, 1025);
}
END_TEST

Suite *suite_ops_pairs(void);
Suite *suite_ops_pairs(void)
{
    Suite *suite = suite_create("ops_pairs");
    TCase *tc = tcase_create("pairs");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, rounding);
    tcase_add_test(tc, not_a_number);
    tcase_add_test(tc, products);
    tcase_add_test(tc, large_products);
    suite_add_tcase(suite, tc);
    return suite;
}
