/* The history: points stay bounded, and a curve of nothing is a picture, too. */
#include "tests/suites.h"
#include "tests/support.h"
#include "tests/train/folder.h"
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
    ck_assert_int_eq(xct_curve_write(h, "nothing", (xcvm_sink){test_bytes_sink, &empty}, &error), XCVM_OK);
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
    ck_assert_int_eq(xct_curve_write(h, "something", (xcvm_sink){test_bytes_sink, &full}, &error), XCVM_OK);
    ck_assert_uint_eq(count_text(&full, "<polyline"), 6);
    ck_assert_uint_eq(count_text(&full, "<circle"), 6);
    ck_assert_uint_eq(count_text(&full, ">accuracy</text>"), 1);
    ck_assert_uint_eq(count_text(&full, "nan") + count_text(&full, "inf\""), 0);
    ck_assert_int_eq(xct_curve_write(h, "full", (xcvm_sink){test_full_sink, NULL}, &error), XCVM_IO);
    test_bytes_free(&empty);
    test_bytes_free(&full);
    free(h);
}
END_TEST

/* Numbers between which there are no steps to be counted. */
START_TEST(endless_axes)
{
    static const double ends[][2] = {
        {-1e308, 1e308}, {0, 5e-324}, {1e300, 1.0000000000000002e300}, {5e-324, 1e308}, {1, 1.7e308}};
    xcvm_error error;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        xct_history *h = calloc(1, sizeof *h);
        test_bytes picture = {NULL, 0, 0};
        for (uint64_t step = 1; step <= 8; step++) {
            const xct_record r = record(step, ends[i][step % 2]);
            xct_history_add(h, &r);
        }
        ck_assert_int_eq(xct_curve_write(h, "endless", (xcvm_sink){test_bytes_sink, &picture}, &error), XCVM_OK);
        ck_assert_uint_lt(count_text(&picture, "class=\"grid\""), 60);
        ck_assert_uint_eq(count_text(&picture, "</svg>"), 1);
        ck_assert_uint_eq(count_text(&picture, "nan") + count_text(&picture, "inf\""), 0);
        ck_assert_uint_eq(count_text(&picture, "inf<"), 0);
        test_bytes_free(&picture);
        free(h);
    }
}
END_TEST

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

/* Opens a log to continue at step 1, closes it, and returns the contents of the file. */
static xcvm_status go_on(const char *text, test_bytes *after, xcvm_error *error)
{
    const char *path = in_folder("log.csv");
    xct_history *h = calloc(1, sizeof *h);
    const xct_columns columns = {.metric_count = 0};
    const xct_log_start start = {.step = 1, .history = h};
    xct_log log;
    write_text(path, text);
    const xcvm_status status = xct_log_open(&log, path, &columns, &start, error);
    xct_log_close(&log);
    *after = test_file_read(path);
    free(h);
    return status;
}

/* A log is continued, or begun in an empty file; other files do not change. */
START_TEST(logs)
{
#define HEADER "step,epoch,loss,learning_rate\n"
    static const struct {
        const char *before, *after; /* NULL: refused */
    } rows[] = {{"", HEADER},
                {"step,ep", HEADER},
                {HEADER "1,1,0.5,0.1\n2,1,0.4,0.1\n", HEADER "1,1,0.5,0.1\n"},
                {HEADER "1,1,0.5", HEADER},
                {"step,epoch,loss,accuracy,learning_rate\n1,1,0.5,1,0.1\n", NULL},
                {"PK\3\4", NULL},
                {"\n" HEADER, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_bytes after;
        xcvm_error error = {.message = ""};
        const xcvm_status status = go_on(rows[i].before, &after, &error);
        const char *expected = rows[i].after != NULL ? rows[i].after : rows[i].before;
        ck_assert_int_eq(status, rows[i].after != NULL ? XCVM_OK : XCVM_INVALID_ARGUMENT);
        ck_assert(rows[i].after != NULL || strstr(error.message, "does not begin with step,epoch,loss,learning_rate"));
        ck_assert_uint_eq(after.length, strlen(expected));
        ck_assert_mem_eq(after.at, expected, after.length);
        test_bytes_free(&after);
    }
}
END_TEST

Suite *suite_train_history(void)
{
    Suite *suite = suite_create("train_history");
    TCase *tests = tcase_create("history");
    tcase_add_test(tests, bounded);
    tcase_add_test(tests, curves);
    tcase_add_test(tests, endless_axes);
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_test(tests, logs);
    suite_add_tcase(suite, tests);
    return suite;
}
