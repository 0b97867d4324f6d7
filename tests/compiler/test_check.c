/* Tests of the text of xcc_check_file. */
#include "tests/compiler/import_onnx/onnx_text.h"
#include "xcvm/compiler.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static xcvm_status check(const char *text, test_bytes *report, xcvm_error *error)
{
    char path[] = "/tmp/xcvm_check_XXXXXX";
    test_bytes model = onnx_from_text(text);
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, model.at, model.length), (ssize_t)model.length);
    close(file);
    xcvm_status status = xcc_check_file(path, NULL, (xcvm_sink){test_bytes_sink, report}, error);
    test_bytes_sink(report, "", 1);
    unlink(path);
    test_bytes_free(&model);
    return status;
}

static void need(const test_bytes *report, const char *part)
{
    ck_assert_msg(strstr(report->at, part) != NULL, "'%s' is not in:\n%s", part, report->at);
}

START_TEST(a_sound_model)
{
    test_bytes report = {0};
    xcvm_error error;
    xcvm_status status = check("ir 8\nopset 13\ninput x f32[Nx2]\ninit w f32[2x2] 1 2 3 4\noutput y\na = MatMul(x, w)\n"
                               "b = Relu(a)\ny = Relu(b)\n",
                               &report, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    need(&report, "ir version   8\n");
    need(&report, "ai.onnx 13\n");
    need(&report, "parameters   4 in 1 tensors, 16 bytes\n");
    need(&report, "nodes        3\n");
    need(&report, "2 Relu\n");
    need(&report, "1 MatMul\n");
    need(&report, "input        x f32[Nx2]\n");
    need(&report, "output       y f32[Nx2]\n");
    need(&report, "flops");
    need(&report, "peak memory");
    test_bytes_free(&report);
}
END_TEST

START_TEST(all_that_is_not_supported)
{
    test_bytes report = {0};
    xcvm_error error;
    ck_assert_int_eq(
        check("opset 13\nopset com.example 2\ninput x f32[2]\noutput y\na = com.example::Foo(x)\nb = Bar(x)\n"
              "c = Relu(a)\ny = Add(b, c)\n",
              &report, &error),
        XCVM_UNSUPPORTED);
    need(&report, "not supported\n");
    need(&report, "  node 'a' (com.example.Foo, opset 2): there is no such operator in com.example\n");
    need(&report, "  node 'b' (Bar, opset 13): there is no such operator\n");
    ck_assert_ptr_null(strstr(report.at, "node 'c'"));
    test_bytes_free(&report);
}
END_TEST

START_TEST(an_opset_of_the_future)
{
    test_bytes report = {0};
    xcvm_error error;
    ck_assert_int_eq(check("opset 99\ninput x f32[Nx2]\noutput y f32[2x2]\ny = Relu(x)\n", &report, &error),
                     XCVM_UNSUPPORTED);
    need(&report, "not supported\n  the model uses opset 99");
    need(&report, "input        x f32[Nx2]\n");
    need(&report, "output       y");
    test_bytes_free(&report);
}
END_TEST

START_TEST(files_that_are_no_models)
{
    test_bytes report = {0};
    xcvm_error error;
    ck_assert_int_eq(xcc_check_file("/nowhere/model.onnx", NULL, (xcvm_sink){test_bytes_sink, &report}, &error),
                     XCVM_IO);
    ck_assert_int_eq(xcc_check_file("/proc/self/status", NULL, (xcvm_sink){test_bytes_sink, &report}, &error),
                     XCVM_INVALID_MODEL);
    ck_assert_int_eq(xcc_check_file(NULL, NULL, (xcvm_sink){test_bytes_sink, &report}, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcc_check_file(XCVM_TEST_DATA "/main.c", NULL, (xcvm_sink){test_full_sink, NULL}, &error),
                     XCVM_INVALID_MODEL);
    test_bytes_free(&report);
}
END_TEST

Suite *suite_compiler_check(void);
Suite *suite_compiler_check(void)
{
    Suite *suite = suite_create("compiler/check");
    TCase *all = tcase_create("reports");
    tcase_add_test(all, a_sound_model);
    tcase_add_test(all, all_that_is_not_supported);
    tcase_add_test(all, an_opset_of_the_future);
    tcase_add_test(all, files_that_are_no_models);
    suite_add_tcase(suite, all);
    return suite;
}
