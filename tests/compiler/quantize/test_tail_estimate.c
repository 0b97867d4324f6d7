/* Tests of the tail estimate with random inputs: it must hold nine times in ten. */
#include "compiler/quantize/histogram.h"
#include "tests/support.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

enum { BATCHES = 200, TRIALS = 1000 };

/* Evenly between 0 and 1, neither of them. */
static double draw(uint32_t *seed) { return ((double)(test_random(seed) >> 8) + 0.5) / 16777216.0; }

static double of_power(double u) { return pow(u, -0.3); }
static double of_exponential(double u) { return 2 - log(u); }

typedef struct seen {
    float extremes[XCC_EXTREMES];
    size_t count;
    double greatest;
} seen;

static seen see_batches(double (*tail)(double), uint32_t *seed)
{
    seen s = {.count = 0};
    for (size_t i = 0; i < BATCHES; i++) {
        const double x = tail(draw(seed));
        xcc_extremes_add(s.extremes, &s.count, (float)x);
        s.greatest = fmax(s.greatest, x);
    }
    return s;
}

START_TEST(greatest_in_order)
{
    seen s = {.count = 0};
    static const float given[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4};
    static const float right[XCC_EXTREMES] = {9, 9, 9, 8, 8, 7, 6, 5, 5, 5, 4, 4, 3, 3, 3, 3};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        xcc_extremes_add(s.extremes, &s.count, given[i]);
    ck_assert_uint_eq(s.count, XCC_EXTREMES);
    for (size_t i = 0; i < XCC_EXTREMES; i++)
        ck_assert_double_eq((double)s.extremes[i], (double)right[i]);
}
END_TEST

/* The share of trials in which as many further batches stay within the estimate, and within the measured range. */
static void try_tail(double (*tail)(double), double (*likely)(const float *, size_t, size_t), double *held,
                     double *seen_held)
{
    uint32_t seed = 7;
    *held = *seen_held = 0;
    for (size_t i = 0; i < TRIALS; i++) {
        const seen s = see_batches(tail, &seed);
        const double most = likely(s.extremes, s.count, BATCHES), greatest = see_batches(tail, &seed).greatest;
        ck_assert_double_ge(most, (double)s.extremes[0]);
        *held += (greatest <= most) / (double)TRIALS;
        *seen_held += (greatest <= s.greatest) / (double)TRIALS;
    }
}

START_TEST(tails)
{
    double held, seen_held;
    try_tail(of_power, xcc_tail_extreme, &held, &seen_held);
    ck_assert_double_ge(held, 0.82);
    ck_assert_double_le(held, 0.95);
    ck_assert_double_le(seen_held, 0.6);
    try_tail(of_exponential, xcc_tail_error, &held, &seen_held);
    ck_assert_double_ge(held, 0.82);
    ck_assert_double_le(held, 0.95);
    ck_assert_double_le(seen_held, 0.6);
}
END_TEST

START_TEST(shares)
{
    enum { ROWS = 100 };
    uint32_t seed = 3;
    double held = 0;
    for (size_t i = 0; i < TRIALS; i++) {
        double sums[2] = {0, 0};
        for (size_t k = 0; k < 2 * (size_t)ROWS; k++)
            sums[k / ROWS] += draw(&seed) < 0.9;
        held += (sums[1] / ROWS >= xcc_tail_agreement(sums[0], sums[0], ROWS)) / (double)TRIALS;
    }
    ck_assert_double_ge(held, 0.85);
    ck_assert_double_le(held, 0.95);
    ck_assert_double_eq(xcc_tail_agreement(ROWS, ROWS, ROWS), 1);
    ck_assert_double_eq(xcc_tail_agreement(0, 0, ROWS), 0);
    ck_assert_double_eq(xcc_tail_agreement(0.5, 0.25, 1), 0.5);
    ck_assert(isnan(xcc_tail_agreement(0, 0, 0)));
}
END_TEST

/* With few batches, or equal ones, the estimate is the measurement. One or two outliers are no tail. */
START_TEST(no_tails)
{
    seen s = {.count = 0};
    ck_assert_double_eq(xcc_tail_extreme(s.extremes, 0, 0), 0);
    ck_assert_double_eq(xcc_tail_error(s.extremes, 0, 0), 0);
    for (size_t i = 0; i < 20; i++)
        xcc_extremes_add(s.extremes, &s.count, (float)i);
    ck_assert_double_eq(xcc_tail_extreme(s.extremes, s.count, 20), 19);
    ck_assert_double_eq(xcc_tail_error(s.extremes, s.count, 20), 19);
    s = (seen){.count = 0};
    for (size_t i = 0; i < BATCHES; i++)
        xcc_extremes_add(s.extremes, &s.count, 6);
    ck_assert_double_eq_tol(xcc_tail_extreme(s.extremes, s.count, BATCHES), 6, 1e-9);
    ck_assert_double_eq_tol(xcc_tail_error(s.extremes, s.count, BATCHES), 6, 1e-9);
    s = (seen){.count = 0};
    for (size_t i = 0; i < 32; i++)
        xcc_extremes_add(s.extremes, &s.count, i < 3 ? 1000 : 1);
    ck_assert_double_eq(xcc_tail_extreme(s.extremes, s.count, 32), 1000);
    s = (seen){.count = 0};
    xcc_extremes_add(s.extremes, &s.count, INFINITY);
    ck_assert(isinf(xcc_tail_error(s.extremes, s.count, 1)));
}
END_TEST

/* A range exceeds the measurement on each side by its own tail, but not the interval in which readers distinguish
 * elements. */
START_TEST(ranges)
{
    xcc_statistics *s = calloc(1, sizeof *s);
    uint32_t seed = 1;
    float bad;
    double low, high;
    for (size_t i = 0; i < BATCHES; i++) {
        const float x[] = {-1, 0.5f, (float)of_power(draw(&seed))};
        ck_assert(xcc_statistics_add(s, x, 3, 0.01, &bad));
    }
    xcc_statistics_range(s, XCC_RANGE_TAIL, 0, 256, false, &low, &high);
    ck_assert_double_eq_tol(low, -1, 1e-9);
    ck_assert_double_gt(high, s->greatest * 1.05);
    ck_assert_double_lt(high, s->greatest * 4);
    double most = high;
    xcc_statistics_range(s, XCC_RANGE_TAIL, 0, 256, true, &low, &high);
    ck_assert_double_eq(high, most);
    ck_assert_double_eq(low, -most);
    xcc_statistics_clip(s, -0.25, 1);
    xcc_statistics_range(s, XCC_RANGE_TAIL, 0, 256, false, &low, &high);
    ck_assert_double_eq(low, -0.25);
    ck_assert_double_eq(high, 1);
    free(s);
}
END_TEST

Suite *suite_compiler_tail_estimate(void);
Suite *suite_compiler_tail_estimate(void)
{
    Suite *suite = suite_create("compiler_tail_estimate");
    TCase *tc = tcase_create("likely");
    tcase_add_test(tc, greatest_in_order);
    tcase_add_test(tc, tails);
    tcase_add_test(tc, shares);
    tcase_add_test(tc, no_tails);
    tcase_add_test(tc, ranges);
    suite_add_tcase(suite, tc);
    return suite;
}
