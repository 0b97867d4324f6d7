/* Inputs of models that have defaults. */
#include "tests/suites.h"
#include "tests/support.h"

#include <xcvm/compiler.h>

#include <stdio.h>
#include <string.h>

#define MODELS XCVM_TEST_DATA "/tools/data/defaults/"

static void add_name(void *user, const char *name)
{
    char *names = user;
    snprintf(names + strlen(names), 100 - strlen(names), "%s ", name);
}

START_TEST(listed)
{
    static const struct {
        const char *path, *names;
    } rows[] = {{MODELS "last.onnx", "k b "}, {MODELS "between.onnx", "k b "}, {MODELS "ir3.onnx", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char names[100] = "";
        xcvm_error error;
        const xcvm_status status =
            xcc_visit_default_inputs_file(rows[i].path, NULL, (xcc_name_visitor){add_name, names}, &error);
        ck_assert_msg(status == XCVM_OK, "%s", error.message);
        ck_assert_str_eq(names, rows[i].names);
    }
    char names[100] = "";
    xcvm_error error;
    ck_assert_int_eq(xcc_visit_default_inputs("<html>", 6, NULL, (xcc_name_visitor){add_name, names}, &error),
                     XCVM_INVALID_MODEL);
    ck_assert_ptr_nonnull(strstr(error.message, "this is an HTML page"));
    ck_assert_int_eq(
        xcc_visit_default_inputs_file(MODELS "none.onnx", NULL, (xcc_name_visitor){add_name, names}, &error), XCVM_IO);
    ck_assert_int_eq(xcc_visit_default_inputs("", 0, NULL, (xcc_name_visitor){NULL, names}, &error),
                     XCVM_INVALID_ARGUMENT);
}
END_TEST

/* The names of a program's inputs. */
static xcvm_status compile(const char *path, const char *const *kept, size_t count, char names[100], xcvm_error *error)
{
    const xcc_options options = {.size = sizeof options, .default_inputs = kept, .default_input_count = count};
    test_bytes bytes = {0};
    xcvm_program *program;
    names[0] = '\0';
    const xcvm_status status = xcc_compile_file(path, &options, (xcvm_sink){test_bytes_sink, &bytes}, NULL, error);
    if (status == XCVM_OK) {
        ck_assert_int_eq(xcvm_program_load(bytes.at, bytes.length, NULL, &program, error), XCVM_OK);
        for (size_t i = 0; i < xcvm_program_input_count(program); i++)
            add_name(names, xcvm_program_input_at(program, i)->name);
        xcvm_program_destroy(program);
    }
    test_bytes_free(&bytes);
    return status;
}

START_TEST(kept)
{
    static const char *const both[] = {"b", "k"}, *const other[] = {"x"}, *const none[] = {NULL};
    char names[100];
    xcvm_error error;
    ck_assert_int_eq(compile(MODELS "between.onnx", NULL, 0, names, &error), XCVM_OK);
    ck_assert_str_eq(names, "x ");
    ck_assert_int_eq(compile(MODELS "between.onnx", both, 1, names, &error), XCVM_OK);
    ck_assert_str_eq(names, "x b ");
    ck_assert_int_eq(compile(MODELS "between.onnx", both, 2, names, &error), XCVM_OK);
    ck_assert_str_eq(names, "k x b ");
    ck_assert_int_eq(compile(MODELS "between.onnx", other, 1, names, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "\"x\" is not an input with a default (inputs with defaults: "));
    ck_assert_int_eq(compile(MODELS "between.onnx", none, 1, names, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(compile(MODELS "ir3.onnx", both, 1, names, &error), XCVM_INVALID_ARGUMENT);
}
END_TEST

Suite *suite_compiler_default_inputs(void)
{
    Suite *suite = suite_create("compiler_default_inputs");
    TCase *tests = tcase_create("default inputs");
    tcase_add_test(tests, listed);
    tcase_add_test(tests, kept);
    suite_add_tcase(suite, tests);
    return suite;
}
