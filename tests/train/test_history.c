/* The history: points stay bounded, and a curve of nothing is a picture, too. */
#include "tests/suites.h"
#include "tests/support.h"
#include "train/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static xct_record record(uint64_t step, double loss)
{
    xct_record r = {.step = step, .epoch = 1, .rate = 0.1};
    for (size_t i = 0; i < XCT_MAX_FIGURES; i++)
        r.figures[i] = r.validation[i] = NAN;
    r.figures[0] = loss;
    return r;
}

/* However long it is, a series keeps its shape: here a straight line from 1 down to 0. */
START_TEST(bounded)
{
    enum { STEPS = 100000 };
    xct_history *h = calloc(1, sizeof *h);
    for (uint64_t step = 1; step <= STEPS; step++) {
        const xct_record r = record(step, 1 - (double)step / STEPS);
        xct_history_add(h, &r);
    }
    const xct_series *s = &h->figures[0];
    ck_assert_uint_lt(s->count, XCT_HISTORY_POINTS);
    ck_assert_uint_ge(s->count, XCT_HISTORY_POINTS / 2 - 1);
    for (size_t i = 0; i < s->count; i++)
        ck_assert(fabs(s->value[i] - (1 - s->step[i] / STEPS)) < 1e-9);
    ck_assert_uint_eq(h->validation[0].count, 0);
    free(h);
}
END_TEST

static size_t count_text(const test_bytes *bytes, const char *text)
{
    size_t count = 0;
    for (size_t i = 0; i + strlen(text) <= bytes->length; i++)
        count += memcmp(bytes->at + i, text, strlen(text)) == 0;
    return count;
}

START_TEST(curves)
{
    static const xct_metric metrics[] = {XCT_ACCURACY};
    xct_history *h = calloc(1, sizeof *h);
    test_bytes empty = {NULL, 0, 0}, full = {NULL, 0, 0};
    xcvm_error error;
    h->columns = (xct_columns){metrics, 1, true};
    ck_assert_int_eq(xct_curve_write(h, "nothing", test_bytes_sink, &empty, &error), XCVM_OK);
    ck_assert_uint_eq(count_text(&empty, "<polyline"), 0);
    ck_assert_uint_eq(count_text(&empty, "nan"), 0);
    for (uint64_t step = 1; step <= 30; step++) {
        xct_record r = record(step, exp(-(double)step));
        r.figures[1] = 0.5;
        if (step % 10 == 0) {
            r.validation[0] = 0.2;
            r.validation[1] = 0.4;
        }
        xct_history_add(h, &r);
    }
    ck_assert_int_eq(xct_curve_write(h, "something", test_bytes_sink, &full, &error), XCVM_OK);
    ck_assert_uint_eq(count_text(&full, "<polyline"), 6);
    ck_assert_uint_eq(count_text(&full, "<circle"), 6);
    ck_assert_uint_eq(count_text(&full, ">accuracy</text>"), 1);
    ck_assert_uint_eq(count_text(&full, "nan") + count_text(&full, "inf\""), 0);
    ck_assert_int_eq(xct_curve_write(h, "full", test_full_sink, NULL, &error), XCVM_IO);
    test_bytes_free(&empty);
    test_bytes_free(&full);
    free(h);
}
END_TEST

Suite *suite_train_history(void)
{
    Suite *suite = suite_create("train_history");
    TCase *tests = tcase_create("history");
    tcase_add_test(tests, bounded);
    tcase_add_test(tests, curves);
    suite_add_tcase(suite, tests);
    return suite;
}
