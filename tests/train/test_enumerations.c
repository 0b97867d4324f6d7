/* Enumerations of the public headers: as many items as their count says, with different names, and none beyond. */
#include "tests/suites.h"
#include "xcvm/train.h"

#include <stdio.h>
#include <string.h>

/* Item `index` of an enumeration, or NULL. */
typedef const char *name_at(size_t index);

static void check_names(size_t count, name_at *name)
{
    ck_assert_uint_gt(count, 1);
    for (size_t i = 0; i < count; i++) {
        ck_assert_ptr_nonnull(name(i));
        for (size_t k = 0; k < i; k++)
            ck_assert_str_ne(name(i), name(k));
    }
    ck_assert_ptr_null(name(count));
    ck_assert_ptr_null(name(SIZE_MAX));
}

static const char *optimizer_name(size_t i) { return xcc_optimizer_at(i) != NULL ? xcc_optimizer_at(i)->name : NULL; }
static const char *loss_name(size_t i) { return xcc_loss_at(i) != NULL ? xcc_loss_at(i)->name : NULL; }
static const char *pass_name(size_t i) { return xcc_pass_at(i) != NULL ? xcc_pass_at(i)->name : NULL; }

START_TEST(names)
{
    check_names(xcc_optimizer_count(), optimizer_name);
    check_names(xcc_loss_count(), loss_name);
    check_names(xcc_pass_count(), pass_name);
    check_names(xcc_recompute_method_count(), xcc_recompute_method_at);
    check_names(xct_metric_count(), xct_metric_at);
    check_names(xct_schedule_count(), xct_schedule_at);
}
END_TEST

/* Each setting is accepted with its default; the first one of all optimizers is the learning rate. */
START_TEST(settings)
{
    for (size_t i = 0; i < xcc_optimizer_count(); i++) {
        const size_t count = xcc_optimizer_setting_count(i);
        ck_assert_ptr_null(xcc_optimizer_setting_at(i, count));
        for (size_t k = 0; k < count; k++) {
            const xcc_setting_info *setting = xcc_optimizer_setting_at(i, k);
            char text[200];
            double rate;
            xcvm_error error;
            ck_assert_ptr_nonnull(setting);
            snprintf(text, sizeof text, "%s:%s=%s", xcc_optimizer_at(i)->name, setting->name, setting->value);
            ck_assert_msg(xcc_optimizer_rate(text, &rate, &error) == XCVM_OK, "%s: %s", text, error.message);
        }
    }
    ck_assert_uint_eq(xcc_optimizer_setting_count(xcc_optimizer_count()), 0);
}
END_TEST

START_TEST(suggested_losses)
{
    ck_assert_str_eq(xcc_loss_suggest(2, 10, XCVM_I64, 1), "softmax_cross_entropy");
    ck_assert_str_eq(xcc_loss_suggest(3, 10, XCVM_I64, 2), "token_cross_entropy");
    ck_assert_str_eq(xcc_loss_suggest(2, 1, XCVM_U8, 2), "bce_with_logits");
    ck_assert_str_eq(xcc_loss_suggest(2, -1, XCVM_F32, 2), "mse");
    ck_assert_ptr_null(xcc_loss_suggest(2, 10, XCVM_STRING, 1));
}
END_TEST

START_TEST(arrays_of_files)
{
    xct_arrays *arrays;
    xcvm_error error;
    ck_assert_int_eq(xct_arrays_load_file(XCVM_TEST_DATA "/../examples/digits/digits.npz", NULL, &arrays, &error),
                     XCVM_OK);
    ck_assert_uint_eq(xct_arrays_count(arrays), 2);
    ck_assert_str_eq(xct_arrays_name_at(arrays, 0), "images");
    ck_assert_str_eq(xct_arrays_name_at(arrays, 1), "labels");
    ck_assert_ptr_null(xct_arrays_name_at(arrays, 2));
    ck_assert_uint_eq(xct_arrays_find(arrays, "labels"), 1);
    ck_assert_uint_eq(xct_arrays_find(arrays, "other"), SIZE_MAX);
    xct_arrays_destroy(arrays);
}
END_TEST

Suite *suite_train_enumerations(void)
{
    return SUITE_OF("train_enumerations", names, settings, suggested_losses, arrays_of_files);
}
