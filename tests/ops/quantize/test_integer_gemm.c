/* Products of bytes are exact at every edge of tiles and blocks, for all kinds of bytes and zero points, with every
 * instruction set that this CPU has and any number of threads. */
#include "tests/ops/support.h"

xcvm_status xcvm_MatMulInteger_run(xcvm_kernel *k, const void *args);

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
        run(kernels[v % 2], &args, v < 2 ? 1 : 3);
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

Suite *suite_ops_integer_gemm(void);
Suite *suite_ops_integer_gemm(void)
{
    Suite *suite = suite_create("ops_integer_gemm");
    TCase *tc = tcase_create("integer_gemm");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, products);
    suite_add_tcase(suite, tc);
    return suite;
}
