/* Streaming histograms, and the ranges that the methods take from them, against direct computation. */
#include "compiler/quantize/histogram.h"
#include "tests/support.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 200000, HALF = XCC_BINS / 2 };

static uint64_t state;
static double uniform(void) { return (double)(test_random_wide(&state) >> 11) / 9007199254740992.0; }
/* Sum of twelve: near enough to a normal distribution, within 6. */
static double normal(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += uniform();
    return sum;
}

static float *draw(double (*from)(void), double factor, double shift)
{
    float *x = malloc(COUNT * sizeof *x);
    state = 7;
    for (size_t i = 0; i < COUNT; i++)
        x[i] = (float)(from() * factor + shift);
    return x;
}

static xcc_statistics *see(const float *x, size_t count)
{
    xcc_statistics *s = calloc(1, sizeof *s);
    float bad;
    ck_assert(xcc_statistics_add(s, x, count, 0.01, &bad));
    return s;
}

START_TEST(bins_are_counts)
{
    float *x = draw(normal, 3, 0.5), bad;
    xcc_statistics *s = calloc(1, sizeof *s), *back = calloc(1, sizeof *back);
    uint64_t *counts = calloc(XCC_BINS, sizeof *counts);
    /* The range grows many times: the first batches are small. */
    for (size_t i = 0; i < 1000; i++)
        x[i] *= 1e-4f;
    x[5] = 0;
    for (size_t i = 0; i < COUNT; i += 1000) {
        ck_assert(xcc_statistics_add(s, x + i, 1000, 0.01, &bad));
        ck_assert(xcc_statistics_add(back, x + COUNT - 1000 - i, 1000, 0.01, &bad));
    }
    double least = 1e9, greatest = -1e9;
    for (size_t i = 0; i < COUNT; i++) {
        least = fmin(least, (double)x[i]);
        greatest = fmax(greatest, (double)x[i]);
        if (x[i] != 0)
            counts[(int)floor((double)x[i] / s->width) + HALF]++;
    }
    ck_assert_double_eq(s->least, least);
    ck_assert_double_eq(s->greatest, greatest);
    ck_assert_uint_eq(s->count, COUNT);
    ck_assert_uint_eq(s->zeros, 1);
    ck_assert_int_eq(memcmp(s->bins, counts, sizeof s->bins), 0);
    /* In any order. */
    ck_assert_double_eq(s->width, back->width);
    ck_assert_int_eq(memcmp(s->bins, back->bins, sizeof s->bins), 0);
    /* Between half and all of the bins on a side are of use. */
    ck_assert_double_lt(fmax(-least, greatest), s->width * HALF);
    ck_assert_double_ge(fmax(-least, greatest) * 2, s->width * HALF);
    free(counts);
    free(s);
    free(back);
    free(x);
}
END_TEST

START_TEST(what_is_not_finite)
{
    const float values[] = {1, -INFINITY, 2}, more[] = {NAN};
    float bad = 0;
    xcc_statistics *s = calloc(1, sizeof *s);
    ck_assert(!xcc_statistics_add(s, values, 3, 0.01, &bad));
    ck_assert(isinf(bad));
    ck_assert(!xcc_statistics_add(s, more, 1, 0.01, &bad));
    ck_assert(isnan(bad));
    ck_assert_uint_eq(s->count, 0);
    ck_assert(xcc_statistics_add(s, values, 0, 0.01, &bad));
    ck_assert_uint_eq(s->count, 0);
    free(s);
}
END_TEST

START_TEST(constants_and_zeros)
{
    static const float zeros[4] = {0}, fives[] = {5, 5, 5}, tiny[] = {1e-40f, 0}, huge[] = {3e38f, -3e38f};
    static const xcc_range_method methods[] = {XCC_RANGE_MINMAX,     XCC_RANGE_MOVING, XCC_RANGE_ENTROPY,
                                               XCC_RANGE_PERCENTILE, XCC_RANGE_MSE,    XCC_RANGE_TAIL};
    double low, high;
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        xcc_statistics *s = see(zeros, 4);
        xcc_statistics_range(s, methods[m], 99.999, 256, false, &low, &high);
        ck_assert_double_eq(low, 0);
        ck_assert_double_eq(high, 0);
        free(s);
        s = see(fives, 3);
        xcc_statistics_range(s, methods[m], 99.999, 256, false, &low, &high);
        ck_assert_double_eq(low, 0);
        ck_assert_double_eq_tol(high, 5, 0.01);
        xcc_statistics_range(s, methods[m], 99.999, 256, true, &low, &high);
        ck_assert_double_eq(low, -high);
        ck_assert_double_eq_tol(high, 5, 0.01);
        free(s);
        s = see(tiny, 2);
        xcc_statistics_range(s, methods[m], 99.999, 256, false, &low, &high);
        ck_assert_double_gt(high, 0);
        free(s);
        s = see(huge, 2);
        xcc_statistics_range(s, methods[m], 99.999, 256, false, &low, &high);
        ck_assert_double_gt(high, 2.9e38);
        ck_assert_double_lt(low, -2.9e38);
        free(s);
    }
}
END_TEST

START_TEST(elements_beyond_an_end)
{
    float *x = draw(normal, 2, 0.3), *ended = malloc(COUNT * sizeof *ended);
    static const struct {
        double low, high;
    } ends[] = {{-3, INFINITY}, {-1, 2.5}, {0, 1}, {-INFINITY, 3}, {-100, 100}, {-0.7, 0.3}};
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        for (size_t i = 0; i < COUNT; i++)
            ended[i] = (float)fmin(fmax((double)x[i], ends[k].low), ends[k].high);
        xcc_statistics *s = see(x, COUNT), *right = see(ended, COUNT);
        xcc_statistics_clip(s, ends[k].low, ends[k].high);
        ck_assert_double_eq_tol(s->least, right->least, 1e-6);
        ck_assert_double_eq_tol(s->greatest, right->greatest, 1e-6);
        uint64_t count = s->zeros;
        for (size_t i = 0; i < XCC_BINS; i++)
            count += s->bins[i];
        ck_assert_uint_eq(count, COUNT);
        /* Every method returns the range that it would for elements that end there. */
        for (int method = XCC_RANGE_MINMAX; method <= XCC_RANGE_TAIL; method++) {
            double low, high, low_right, high_right;
            /* Its threshold depends on single bins. */
            if (method == XCC_RANGE_ENTROPY)
                continue;
            xcc_statistics_range(s, (xcc_range_method)method, 99.9, 256, false, &low, &high);
            xcc_statistics_range(right, (xcc_range_method)method, 99.9, 256, false, &low_right, &high_right);
            ck_assert_double_eq_tol(low, low_right, 0.05);
            ck_assert_double_eq_tol(high, high_right, 0.05);
        }
        free(s);
        free(right);
    }
    xcc_statistics *zeros = calloc(1, sizeof *zeros);
    xcc_statistics_clip(zeros, -1, 1);
    ck_assert_double_eq(zeros->greatest, 0);
    free(zeros);
    free(x);
    free(ended);
}
END_TEST

START_TEST(percentiles)
{
    float *x = draw(uniform, 10, -2);
    xcc_statistics *s = see(x, COUNT);
    double low, high;
    /* A tenth is outside, half of it on either side: from -2 + 0.5 to 8 - 0.5. */
    xcc_statistics_range(s, XCC_RANGE_PERCENTILE, 90, 256, false, &low, &high);
    ck_assert_double_eq_tol(low, -1.5, 0.05);
    ck_assert_double_eq_tol(high, 7.5, 0.05);
    /* Magnitudes above 7 are a tenth. */
    xcc_statistics_range(s, XCC_RANGE_PERCENTILE, 90, 256, true, &low, &high);
    ck_assert_double_eq_tol(high, 7, 0.05);
    ck_assert_double_eq(low, -high);
    xcc_statistics_range(s, XCC_RANGE_PERCENTILE, 100, 256, false, &low, &high);
    ck_assert_double_eq(low, s->least);
    ck_assert_double_eq(high, s->greatest);
    free(s);
    free(x);
}
END_TEST

/* The mean squared error of rounding to `levels` between low and high; clipping counts eight times. */
static double squared(const float *x, double low, double high, int levels)
{
    const double scale = (high - low) / (levels - 1), zero = rint(-low / scale);
    double sum = 0;
    for (size_t i = 0; i < COUNT; i++) {
        const double q = fmin(fmax(rint((double)x[i] / scale) + zero, 0), levels - 1);
        const double e = (q - zero) * scale - (double)x[i], over = fmax(low - (double)x[i], (double)x[i] - high);
        sum += over > 0 ? 8 * over * over : e * e;
    }
    return sum / COUNT;
}

START_TEST(least_squared_error)
{
    float *x = draw(normal, 1, 0);
    xcc_statistics *s = see(x, COUNT);
    for (int levels = 16; levels <= 256; levels *= 4) {
        double low, high, best = INFINITY;
        xcc_statistics_range(s, XCC_RANGE_MSE, 0, levels, false, &low, &high);
        for (double edge = 1; edge < 6; edge += 0.05)
            best = fmin(best, squared(x, -edge, edge, levels));
        ck_assert_double_le(squared(x, low, high, levels), best * 1.05);
        /* It clips, the more the fewer levels there are. */
        ck_assert_double_lt(high, s->greatest);
    }
    free(s);
    /* If all elements are positive, all levels are used for them. */
    for (size_t i = 0; i < COUNT; i++)
        x[i] = fmaxf(x[i], 0);
    s = see(x, COUNT);
    double low, high;
    xcc_statistics_range(s, XCC_RANGE_MSE, 0, 256, false, &low, &high);
    ck_assert_double_eq(low, 0);
    ck_assert_double_gt(high, 3);
    free(s);
    free(x);
}
END_TEST

START_TEST(entropy)
{
    double low, high;
    /* A single outlier is cut off; of a uniform distribution nothing is. */
    float *x = draw(normal, 1, 0);
    x[17] = 100;
    xcc_statistics *s = see(x, COUNT);
    xcc_statistics_range(s, XCC_RANGE_ENTROPY, 0, 256, false, &low, &high);
    ck_assert_double_lt(high, 50);
    ck_assert_double_gt(high, 2);
    free(s);
    free(x);
    x = draw(uniform, 2, -1);
    s = see(x, COUNT);
    xcc_statistics_range(s, XCC_RANGE_ENTROPY, 0, 256, false, &low, &high);
    ck_assert_double_ge(high, 0.9);
    ck_assert_double_le(low, -0.9);
    free(s);
    free(x);
}
END_TEST

START_TEST(moving_averages)
{
    static const float first[] = {-1, 1}, second[] = {-3, 5};
    xcc_statistics *s = calloc(1, sizeof *s);
    float bad;
    double low, high;
    ck_assert(xcc_statistics_add(s, first, 2, 0.25, &bad));
    ck_assert(xcc_statistics_add(s, second, 2, 0.25, &bad));
    xcc_statistics_range(s, XCC_RANGE_MOVING, 0, 256, false, &low, &high);
    ck_assert_double_eq(low, -1.5);
    ck_assert_double_eq(high, 2);
    xcc_statistics_range(s, XCC_RANGE_MINMAX, 0, 256, false, &low, &high);
    ck_assert_double_eq(low, -3);
    ck_assert_double_eq(high, 5);
    free(s);
}
END_TEST

START_TEST(differences)
{
    static const float right[] = {1, 2, 3, 4}, x[] = {1, 2, 3.5f, 3};
    xcc_difference d = {.count = 0}, none = {.count = 0};
    xcc_difference_add(&d, right, x, 4, 2);
    ck_assert_double_eq(d.max, 1);
    ck_assert_double_eq(d.magnitudes, 1.5);
    ck_assert_double_eq_tol(xcc_difference_sqnr(&d), 10 * log10(30 / 1.25), 1e-9);
    ck_assert_uint_eq(d.rows, 2);
    ck_assert_uint_eq(d.agreeing, 1);
    ck_assert_double_eq(d.least, 1);
    ck_assert_double_eq(d.greatest, 4);
    xcc_difference_add(&none, right, right, 4, 0);
    ck_assert(isinf(xcc_difference_sqnr(&none)));
}
END_TEST

Suite *suite_compiler_histogram(void);
Suite *suite_compiler_histogram(void)
{
    Suite *suite = suite_create("compiler_histogram");
    TCase *tc = tcase_create("histogram");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, bins_are_counts);
    tcase_add_test(tc, what_is_not_finite);
    tcase_add_test(tc, constants_and_zeros);
    tcase_add_test(tc, elements_beyond_an_end);
    tcase_add_test(tc, percentiles);
    tcase_add_test(tc, least_squared_error);
    tcase_add_test(tc, entropy);
    tcase_add_test(tc, moving_averages);
    tcase_add_test(tc, differences);
    suite_add_tcase(suite, tc);
    return suite;
}
