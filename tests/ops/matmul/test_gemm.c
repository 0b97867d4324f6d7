/* Products with scratch memory that was requested once: blocks at the edges of a larger product need no more, and all
 * layouts of the panels of b give the sums. */
#include "ops/matmul/simd/gemm.h"

#include <check.h>
#include <stdlib.h>

enum { DEPTH = 27, MOST_ROWS = 40, MOST_COLUMNS = 130 };

/* Columns of a b that has `width` of them. */
static xcvm_gemm product(size_t m, size_t n, size_t width, bool b_turned)
{
    return (xcvm_gemm){.m = m,
                       .n = n,
                       .k = DEPTH,
                       .a_row = DEPTH,
                       .a_column = 1,
                       .b_row = b_turned ? 1 : width,
                       .b_column = b_turned ? DEPTH : 1,
                       .c_row = width,
                       .c_column = 1,
                       .alpha = 1.0f};
}

static size_t scratch(size_t m, size_t n, bool b_turned)
{
    const xcvm_gemm g = product(m, n, n, b_turned);
    return xcvm_gemm_part_scratch(&g);
}

START_TEST(scratch_is_enough_for_less)
{
    for (size_t m = 1; m <= MOST_ROWS; m++)
        for (size_t n = 1; n <= MOST_COLUMNS; n++)
            for (int turned = 0; turned < 2; turned++) {
                ck_assert_uint_ge(scratch(m + 1, n, turned), scratch(m, n, turned));
                ck_assert_uint_ge(scratch(m, n + 1, turned), scratch(m, n, turned));
            }
}
END_TEST

START_TEST(scratch_is_enough_for_some_columns)
{
    for (size_t width = 1; width <= 8 * MOST_COLUMNS; width += 7)
        for (size_t n = 1; n <= width; n++) {
            const xcvm_gemm all = product(MOST_ROWS, width, width, false), some = product(MOST_ROWS, n, width, false);
            ck_assert_uint_ge(xcvm_gemm_part_scratch(&all), xcvm_gemm_part_scratch(&some));
        }
}
END_TEST

/* Small whole numbers, whose sums are exact. */
static float number(size_t i) { return (float)(i * 2654435761u >> 16 & 15) - 7.0f; }

/* The product with separate memory for each operand, so that sanitizers detect reads past its end. */
static void check_product(size_t m, size_t n, bool turned)
{
    xcvm_gemm g = product(m, n, n, turned);
    float *a = calloc(m * DEPTH, sizeof *a), *b = calloc(n * DEPTH, sizeof *b), *c = calloc(m * n, sizeof *c);
    void *rest = aligned_alloc(64, (xcvm_gemm_part_scratch(&g) + 64) / 64 * 64);
    ck_assert(a != NULL && b != NULL && c != NULL && rest != NULL);
    for (size_t i = 0; i < m * DEPTH; i++)
        a[i] = number(i);
    for (size_t i = 0; i < n * DEPTH; i++)
        b[i] = number(i + 1);
    g.a = a;
    g.b = b;
    g.c = c;
    const xcvm_kernel k = {.error = NULL};
    ck_assert_int_eq(xcvm_gemm_part(&k, &g, 0, m, 0, n, rest), XCVM_OK);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float sum = 0.0f;
            for (size_t p = 0; p < DEPTH; p++)
                sum += a[i * DEPTH + p] * b[p * g.b_row + j * g.b_column];
            ck_assert_float_eq(c[i * n + j], sum);
        }
    free(a);
    free(b);
    free(c);
    free(rest);
}

START_TEST(sums_stand)
{
    for (size_t n = 1; n <= MOST_COLUMNS; n++)
        for (size_t m = 1; m <= MOST_ROWS; m += 13)
            for (int turned = 0; turned < 2; turned++)
                check_product(m, n, turned);
}
END_TEST

Suite *suite_ops_gemm(void);
Suite *suite_ops_gemm(void)
{
    Suite *s = suite_create("ops_gemm");
    TCase *t = tcase_create("gemm");
    tcase_add_test(t, scratch_is_enough_for_less);
    tcase_add_test(t, scratch_is_enough_for_some_columns);
    tcase_add_test(t, sums_stand);
    suite_add_tcase(s, t);
    return s;
}
