/* Metrics of small batches that can be counted by hand. */
#include "tests/suites.h"
#include "train/metrics.h"

#include <math.h>

static xcvm_value *tensor(xcvm_dtype dtype, int rank, const int64_t *dims, const void *data)
{
    xcvm_value *value;
    ck_assert_int_eq(xcvm_tensor_wrap(dtype, rank, dims, (void *)(uintptr_t)data, (xcvm_finalizer){0}, &value, NULL),
                     XCVM_OK);
    return value;
}

static void close_to(double actual, double expected, const char *what)
{
    ck_assert_msg(fabs(actual - expected) < 1e-9, "%s is %.12g, not %.12g", what, actual, expected);
}

START_TEST(classes)
{
    /* Four examples of 6 classes: ranked first, second, sixth, and one with an invalid label. */
    static const float scores[] = {9, 1, 2, 3, 4, 5, 1, 8, 9, 0, 0, 0, 0, 5, 4, 3, 2, 1, 1, 0, 0, 0, 0, 0};
    static const int64_t labels[] = {0, 1, 0, -100};
    xct_measure m = {.task = XCT_CLASSES, .axis = 1};
    xcvm_value *p = tensor(XCVM_F32, 2, (int64_t[]){4, 6}, scores), *l = tensor(XCVM_I64, 1, (int64_t[]){4}, labels);
    ck_assert_int_eq(xct_measure_add(&m, 2, 4, 4, p, l, NULL), XCVM_OK);
    close_to(xct_measure_metric(&m, XCT_ACCURACY).value, 1.0 / 3, "accuracy");
    close_to(xct_measure_metric(&m, XCT_ACCURACY).error, sqrt(2.0 / 9 / 3), "error of accuracy");
    close_to(xct_measure_metric(&m, XCT_TOP5).value, 2.0 / 3, "top5");
    /* Class 0: once right of once predicted and twice there; classes 1 and 2 have none right. */
    close_to(xct_measure_metric(&m, XCT_F1).value, 2.0 / 3 / 3, "f1");
    close_to(xct_measure_loss(&m).value, 2, "loss");
    ck_assert(isnan(xct_measure_loss(&m).error));
    ck_assert_int_eq(xct_measure_add(&m, 4, 4, 4, p, l, NULL), XCVM_OK);
    close_to(xct_measure_loss(&m).value, 3, "loss");
    close_to(xct_measure_loss(&m).error, 1, "error of loss");
    close_to(xct_measure_metric(&m, XCT_PERPLEXITY).value, exp(3), "perplexity");
    xct_measure_clear(&m);
    ck_assert(isnan(xct_measure_metric(&m, XCT_ACCURACY).value));
    ck_assert_int_eq(xct_measure_add(&m, 1, 4, 4, p, l, NULL), XCVM_OK);
    close_to(xct_measure_metric(&m, XCT_ACCURACY).value, 1.0 / 3, "accuracy behind clear");
    xct_measure_release(&m);
    xcvm_value_release(p);
    xcvm_value_release(l);
}
END_TEST

/* Scores of pixels, whose classes are not the last axis. */
START_TEST(classes_in_the_middle)
{
    static const float scores[] = {1, 0, 1, 0, 1, 0};
    static const int32_t labels[] = {0, 1, 1};
    xct_measure m = {.task = XCT_CLASSES, .axis = 1};
    xcvm_value *p = tensor(XCVM_F32, 3, (int64_t[]){1, 2, 3}, scores);
    xcvm_value *l = tensor(XCVM_I32, 2, (int64_t[]){1, 3}, labels);
    ck_assert_int_eq(xct_measure_add(&m, 0, 1, 1, p, l, NULL), XCVM_OK);
    close_to(xct_measure_metric(&m, XCT_ACCURACY).value, 2.0 / 3, "accuracy");
    xct_measure_release(&m);
    xcvm_value_release(p);
    xcvm_value_release(l);
}
END_TEST

/* Ignored examples do not affect metrics, even if they have a class. The weight of a batch is the number of its other
 * examples. */
START_TEST(left_out)
{
    static const float scores[] = {9, 1, 1, 9, 9, 1, 1, 9};
    static const int64_t labels[] = {0, 0, 1, 1};
    xct_measure m = {.task = XCT_CLASSES, .axis = 1, .ignores = true, .ignored = 1};
    xcvm_value *p = tensor(XCVM_F32, 2, (int64_t[]){4, 2}, scores), *l = tensor(XCVM_I64, 1, (int64_t[]){4}, labels);
    close_to(xct_measure_counted(&m, l), 0.5, "share that counts");
    ck_assert_int_eq(xct_measure_add(&m, 3, 4, 2, p, l, NULL), XCVM_OK);
    ck_assert_int_eq(xct_measure_add(&m, 0, 4, 0, NULL, NULL, NULL), XCVM_OK);
    ck_assert_int_eq(xct_measure_add(&m, 6, 4, 4, NULL, NULL, NULL), XCVM_OK);
    close_to(xct_measure_metric(&m, XCT_ACCURACY).value, 0.5, "accuracy");
    close_to(xct_measure_metric(&m, XCT_F1).value, 1.0 / 3, "f1");
    close_to(xct_measure_loss(&m).value, 5, "loss");
    ck_assert(m.examples == 12);
    xct_measure_release(&m);
    xcvm_value_release(p);
    xcvm_value_release(l);
}
END_TEST

START_TEST(two_classes)
{
    static const float scores[] = {0.9F, 0.4F, 0.6F, 0.1F};
    static const int64_t labels[] = {1, 1, 0, 0};
    xct_measure m = {.task = XCT_TWO_CLASSES, .threshold = 0.5};
    xcvm_value *p = tensor(XCVM_F32, 2, (int64_t[]){4, 1}, scores), *l = tensor(XCVM_I64, 1, (int64_t[]){4}, labels);
    ck_assert_int_eq(xct_measure_add(&m, 0, 4, 4, p, l, NULL), XCVM_OK);
    close_to(xct_measure_metric(&m, XCT_ACCURACY).value, 0.5, "accuracy");
    close_to(xct_measure_metric(&m, XCT_F1).value, 0.5, "f1");
    xct_measure_release(&m);
    xcvm_value_release(p);
    xcvm_value_release(l);
}
END_TEST

START_TEST(numbers)
{
    static const double is[] = {1, 2, 3}, should[] = {1, 4, 2};
    xct_measure m = {.task = XCT_NUMBERS};
    xcvm_value *p = tensor(XCVM_F64, 1, (int64_t[]){3}, is), *l = tensor(XCVM_F64, 1, (int64_t[]){3}, should);
    ck_assert_int_eq(xct_measure_add(&m, 0, 3, 3, p, l, NULL), XCVM_OK);
    close_to(xct_measure_metric(&m, XCT_MSE).value, 5.0 / 3, "mse");
    close_to(xct_measure_metric(&m, XCT_MSE).error, sqrt((17.0 / 3 - 25.0 / 9) / 2), "error of mse");
    close_to(xct_measure_metric(&m, XCT_MAE).value, 1, "mae");
    xcvm_value_release(p);
    xcvm_value_release(l);
}
END_TEST

static xcvm_type type_of(xcvm_dtype dtype, int rank, const int64_t *dims)
{
    xcvm_type type = {.kind = XCVM_KIND_TENSOR, .dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++)
        type.dims[i] = dims[i];
    return type;
}

START_TEST(tasks)
{
    static const struct {
        int rank, label_rank;
        int64_t dims[3], label_dims[3];
        xcvm_dtype label;
        xct_task task;
        int axis;
    } rows[] = {
        {2, 1, {-1, 10}, {-1}, XCVM_I64, XCT_CLASSES, 1},    {3, 2, {4, 7, 5}, {4, 5}, XCVM_I64, XCT_CLASSES, 1},
        {3, 2, {4, 7, 5}, {4, 7}, XCVM_I64, XCT_CLASSES, 2}, {2, 1, {-1, 1}, {-1}, XCVM_I64, XCT_TWO_CLASSES, 1},
        {1, 1, {-1}, {-1}, XCVM_BOOL, XCT_TWO_CLASSES, -1},  {2, 2, {-1, 3}, {-1, 3}, XCVM_F32, XCT_NUMBERS, -1},
        {2, 2, {-1, 3}, {-1, 4}, XCVM_F32, XCT_NO_TASK, -1}, {2, 1, {8, 3}, {9}, XCVM_I64, XCT_NO_TASK, -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int axis;
        const xcvm_type p = type_of(XCVM_F32, rows[i].rank, rows[i].dims);
        const xcvm_type l = type_of(rows[i].label, rows[i].label_rank, rows[i].label_dims);
        ck_assert_msg(xct_task_of(&p, &l, &axis) == rows[i].task && axis == rows[i].axis, "row %zu: axis %d", i, axis);
    }
}
END_TEST

START_TEST(names)
{
    xct_metric metric;
    xcvm_error error;
    ck_assert_int_eq(xct_metric_find("f1", &metric, NULL), XCVM_OK);
    ck_assert_int_eq(metric, XCT_F1);
    ck_assert_int_eq(xct_metric_find("acuracy", &metric, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message,
                     "there is no metric \"acuracy\"; there is: loss, accuracy, top5, f1, mse, mae, perplexity");
}
END_TEST

Suite *suite_train_metrics(void)
{
    Suite *suite = suite_create("train_metrics");
    TCase *tests = tcase_create("metrics");
    tcase_add_test(tests, classes);
    tcase_add_test(tests, classes_in_the_middle);
    tcase_add_test(tests, left_out);
    tcase_add_test(tests, two_classes);
    tcase_add_test(tests, numbers);
    tcase_add_test(tests, tasks);
    tcase_add_test(tests, names);
    suite_add_tcase(suite, tests);
    return suite;
}
