/* Products with scratch that was asked for once: blocks at the edges of a larger product need no more. */
#include "ops/matmul/simd/gemm.h"

#include <check.h>

static size_t scratch(size_t m, size_t n, bool b_turned)
{
    const size_t k = 27;
    const xcvm_gemm g = {.m = m,
                         .n = n,
                         .k = k,
                         .a_row = k,
                         .a_column = 1,
                         .b_row = b_turned ? 1 : n,
                         .b_column = b_turned ? k : 1,
                         .c_row = n,
                         .c_column = 1};
    return xcvm_gemm_part_scratch(&g);
}

START_TEST(scratch_is_enough_for_less)
{
    for (size_t m = 1; m <= 40; m++)
        for (size_t n = 1; n <= 130; n++)
            for (int turned = 0; turned < 2; turned++) {
                ck_assert_uint_ge(scratch(m + 1, n, turned), scratch(m, n, turned));
                ck_assert_uint_ge(scratch(m, n + 1, turned), scratch(m, n, turned));
            }
}
END_TEST

Suite *suite_ops_gemm(void);
Suite *suite_ops_gemm(void)
{
    Suite *s = suite_create("ops_gemm");
    TCase *t = tcase_create("gemm");
    tcase_add_test(t, scratch_is_enough_for_less);
    suite_add_tcase(s, t);
    return s;
}
