/* Tests of the texts that select optimizers. */
#include "compiler/training/optimizer.h"
#include "ops/table/table.h"

#include <check.h>
#include <math.h>
#include <string.h>

static xcc_optimizer_spec read_spec(const char *text)
{
    xcc_optimizer_spec spec;
    xcvm_error error = {0};
    ck_assert_msg(xcc_optimizer_read(text, &spec, &error) == XCVM_OK, "%s: %s", text, error.message);
    return spec;
}

START_TEST(every_optimizer_has_defaults)
{
    for (size_t i = 0; xcc_optimizer_at(i) != NULL; i++) {
        const xcc_optimizer_spec spec = read_spec(xcc_optimizer_at(i)->name);
        ck_assert_str_eq(spec.row->info.name, xcc_optimizer_at(i)->name);
        ck_assert_double_gt(xcc_optimizer_value(&spec, "lr"), 0.0);
        ck_assert_str_eq(xcc_optimizer_setting_at(i, 0)->name, "lr");
        ck_assert_str_eq(xcc_optimizer_setting_at(i, 1)->name, "weight_decay");
        ck_assert_ptr_null(xcc_optimizer_setting_at(i, XCC_OPTIMIZER_SETTINGS));
    }
    ck_assert_ptr_null(xcc_optimizer_setting_at(100, 0));
}
END_TEST

/* Each attribute of an instruction that a setting is for is there, and each moment is an operand. */
START_TEST(settings_are_those_of_the_rows)
{
    for (size_t i = 0; xcc_optimizer_at(i) != NULL; i++) {
        const xcc_optimizer_row *row = read_spec(xcc_optimizer_at(i)->name).row;
        const xcvm_schema *schema = xcvm_schema_of(row->opcode);
        size_t wanted = 0, found = 0;
        for (size_t k = 0; k < 2 * XCC_OPTIMIZER_SETTINGS; k++)
            wanted += row->settings[k / 2].fields[k % 2] != NULL;
        for (size_t k = 0; k < XCC_OPTIMIZER_MOMENTS; k++)
            wanted += row->moments[k].field != NULL;
        for (size_t f = 0; f < schema->field_count; f++) {
            for (size_t k = 0; k < 2 * XCC_OPTIMIZER_SETTINGS; k++) {
                const char *field = row->settings[k / 2].fields[k % 2];
                found += field != NULL && strcmp(field, schema->fields[f].name) == 0;
            }
            for (size_t k = 0; k < XCC_OPTIMIZER_MOMENTS; k++)
                found += row->moments[k].field != NULL && strcmp(row->moments[k].field, schema->fields[f].name) == 0;
        }
        ck_assert_msg(found == wanted, "%s: %zu of %zu", row->info.name, found, wanted);
    }
}
END_TEST

START_TEST(values)
{
    const xcc_optimizer_spec spec = read_spec("adam:betas=0.5/0.75,lr=1e-2,amsgrad=true");
    ck_assert_double_eq(xcc_optimizer_value(&spec, "lr"), 0.01);
    ck_assert_double_eq(xcc_optimizer_value(&spec, "betas"), 0.5);
    ck_assert_double_eq(xcc_optimizer_value(&spec, "amsgrad"), 1.0);
    ck_assert_double_eq(xcc_optimizer_value(&spec, "eps"), 1e-8);
    ck_assert_double_eq(xcc_optimizer_value(&spec, "momentum"), 0.0);
    double rate;
    xcvm_error error = {0};
    ck_assert_int_eq(xcc_optimizer_rate("sgd:momentum=0.9,lr=0.25", &rate, &error), XCVM_OK);
    ck_assert_double_eq(rate, 0.25);
}
END_TEST

START_TEST(written_text_reads_back)
{
    static const char *const texts[] = {"adam:betas=0.5/0.75,lr=0.30000000000000004,amsgrad=1", "lion",
                                        "sgd:dampening=-0.125,momentum=0.9"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[600];
        const xcc_optimizer_spec first = read_spec(texts[i]),
                                 again = read_spec(xcc_optimizer_write(&first, text, sizeof text));
        ck_assert_ptr_eq(first.row, again.row);
        ck_assert_msg(memcmp(first.values, again.values, sizeof first.values) == 0, "%s", text);
    }
}
END_TEST

static const struct {
    const char *text, *message;
} refused[] = {
    {"adan", "there is no optimizer 'adan'; there are sgd, adam, adamw, rmsprop, adagrad, adadelta, lars, lion"},
    {"", "there is no optimizer ''"},
    {"sgd:beta=1", "sgd has no setting 'beta'; it has lr, weight_decay, momentum, dampening, nesterov, maximize"},
    {"sgd:lr", "sgd: 'lr' is no SETTING=VALUE"},
    {"sgd:lr=0.1,", "sgd: '' is no SETTING=VALUE"},
    {"sgd:lr=", "sgd: lr cannot be ''; it is a number from 0"},
    {"sgd:lr=-1", "sgd: lr cannot be '-1'"},
    {"sgd:lr=nan", "sgd: lr cannot be 'nan'"},
    {"sgd:lr=inf", "sgd: lr cannot be 'inf'"},
    {"sgd:lr=1,lr=2", "sgd: lr is given twice"},
    {"sgd:nesterov=yes", "sgd: nesterov cannot be 'yes'; it is true or false"},
    {"sgd:nesterov=true", "nesterov needs a momentum"},
    {"sgd:nesterov=true,momentum=0.9,dampening=0.1", "nesterov needs a momentum, and no dampening"},
    {"adam:betas=0.9", "adam: betas cannot be '0.9'; it is two numbers as 0.9/0.99 from 0 to below 1"},
    {"adam:betas=0.9/1", "adam: betas cannot be '0.9/1'"},
    {"adam:betas=0.9/0.99/0.999", "adam: betas cannot be '0.9/0.99/0.999'"},
};

START_TEST(what_is_wrong_is_said)
{
    xcc_optimizer_spec spec;
    xcvm_error error = {0};
    ck_assert_int_eq(xcc_optimizer_read(refused[_i].text, &spec, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, refused[_i].message) != NULL, "%s", error.message);
    ck_assert_int_eq(xcc_optimizer_read(refused[_i].text, &spec, NULL), XCVM_INVALID_ARGUMENT);
}
END_TEST

Suite *suite_compiler_optimizer(void);
Suite *suite_compiler_optimizer(void)
{
    Suite *suite = suite_create("compiler_optimizer");
    TCase *c = tcase_create("language");
    tcase_add_test(c, every_optimizer_has_defaults);
    tcase_add_test(c, settings_are_those_of_the_rows);
    tcase_add_test(c, values);
    tcase_add_test(c, written_text_reads_back);
    tcase_add_loop_test(c, what_is_wrong_is_said, 0, sizeof refused / sizeof *refused);
    suite_add_tcase(suite, c);
    return suite;
}
