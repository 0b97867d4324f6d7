/* Tests of schedules: their values at steps, and invalid texts. */
#include "tests/suites.h"
#include "train/schedule.h"

#include <math.h>
#include <string.h>

static const xct_span span = {.epoch = 10, .all = 100};

static xct_schedule parse(const char *text)
{
    xct_schedule s;
    xcvm_error error;
    ck_assert_msg(xct_schedule_parse(text, &span, &s, &error) == XCVM_OK, "%s: %s", text, error.message);
    return s;
}

START_TEST(factors)
{
    static const struct {
        const char *text;
        uint64_t step;
        double factor;
    } rows[] = {
        {"constant", 0, 1},
        {"constant", 99, 1},
        {"constant:warmup=4", 0, 0.25},
        {"constant:warmup=4", 3, 1},
        {"constant:warmup=4", 50, 1},
        {"step:every=2e,factor=0.5", 19, 1},
        {"step:every=2e,factor=0.5", 20, 0.5},
        {"step:every=2e,factor=0.5", 40, 0.25},
        {"step:every=50%,factor=0.1", 50, 0.1},
        {"exponential:every=10,factor=0.5", 10, 0.5},
        {"exponential:every=10,factor=0.5", 5, 0.70710678118654752},
        {"linear", 0, 1},
        {"linear", 50, 0.5},
        {"linear:to=0.2", 50, 0.6},
        {"linear:to=0.2", 100, 0.2},
        {"cosine", 50, 0.5},
        {"cosine", 25, 0.85355339059327373},
        {"cosine:warmup=20,to=0.1", 60, 0.55},
        {"cosine:warmup=20", 9, 0.5},
        {"wsd:decay=20", 79, 1},
        {"wsd:decay=20", 90, 0.5},
        /* torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=100) at steps 0, 10, 29, 50 and 99. */
        {"onecycle", 0, 0.04},
        {"onecycle", 10, 0.29516395},
        {"onecycle", 29, 1},
        {"onecycle", 50, 0.79389263},
        {"onecycle", 99, 4e-6},
        {"plateau", 50, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const xct_schedule s = parse(rows[i].text);
        const double factor = xct_schedule_factor(&s, rows[i].step);
        ck_assert_msg(fabs(factor - rows[i].factor) < 1e-6, "%s at %llu: %.9g, not %.9g", rows[i].text,
                      (unsigned long long)rows[i].step, factor, rows[i].factor);
    }
}
END_TEST

START_TEST(plateau)
{
    xct_schedule s = parse("plateau:factor=0.5,patience=2,min=0.2");
    static const double losses[] = {1, 0.5, 0.5, 0.5, 0.5, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4};
    static const double expected[] = {1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        xct_schedule_observe(&s, losses[i]);
        ck_assert_msg(xct_schedule_factor(&s, 3) == expected[i], "observation %zu", i);
    }
}
END_TEST

START_TEST(refused)
{
    static const struct {
        const char *text, *message;
    } rows[] = {{"cosin", "there is no schedule \"cosin\"; there is: constant, step,"},
                {"", "there is no schedule"},
                {"cosine:form=1", "has no setting \"form\"; it has: warmup, to"},
                {"cosine:to", "to is a number"},
                {"cosine:to=2", "to is a number from 0 to 1, not \"to=2\""},
                {"step:every=-1", "every is a number of steps"},
                {"step:every=1x", "every is a number of steps"},
                {"linear:to=nan", "to is a number"},
                {"linear:", "has no setting \"\""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        xct_schedule s;
        xcvm_error error = {.message = ""};
        ck_assert_int_eq(xct_schedule_parse(rows[i].text, &span, &s, &error), XCVM_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.message, rows[i].message) != NULL, "%s: %s", rows[i].text, error.message);
    }
}
END_TEST

Suite *suite_train_schedule(void)
{
    Suite *suite = suite_create("train_schedule");
    TCase *tests = tcase_create("schedule");
    tcase_add_test(tests, factors);
    tcase_add_test(tests, plateau);
    tcase_add_test(tests, refused);
    suite_add_tcase(suite, tests);
    return suite;
}
