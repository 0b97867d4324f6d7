/* Tests of C export: the contents of the files, and refusals. tests/c_export compares results with the VM's. */
#include "tests/vm/support.h"
#include "xcvm/compiler.h"
#include "xcvm/export_c.h"

#include <stdio.h>

/* The source, to be freed; nothing, and the error set, if the program is refused. */
static test_bytes export_text(const char *text, xcvm_error *error)
{
    test_bytes program = assemble(text), source = {0}, header = {0};
    const xcc_export_c_options options = {
        .size = sizeof options, .source = {test_bytes_sink, &source}, .header = {test_bytes_sink, &header}};
    *error = (xcvm_error){0};
    const xcvm_status status = xcc_export_c(program.at, program.length, &options, error);
    ck_assert_int_eq(status, error->status);
    ck_assert_uint_eq(source.length > 0, status == XCVM_OK);
    test_bytes_sink(&source, "", 1);
    test_bytes_free(&program);
    test_bytes_free(&header);
    return source;
}

/* An initializer ends with the last element that is not zero; negative zero counts as nonzero. */
START_TEST(zeros_are_left_out)
{
    static const struct {
        const char *elements, *initializer;
    } constants[] = {{"f32[6] 0 0 0 0 0 0", "const float xc_constant_0[6] = {0};"},
                     {"f32[6] 0 1.5 0 -2 0 0", "const float xc_constant_0[6] = {0.0f, 1.5f, 0.0f, -2.0f};"},
                     {"f32[6] 0 0 -0.0 0 0 0", "const float xc_constant_0[6] = {0.0f, 0.0f, -0.0f};"},
                     {"f32[6] 0 0 0 0 0 1", "const float xc_constant_0[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 1.0f};"},
                     {"f64[6] 0 0 0 0 0 0", "const double xc_constant_0[6] = {0};"},
                     {"i64[6] 0 256 0 0 0 0", "const int64_t xc_constant_0[6] = {INT64_C(0), INT64_C(256)};"},
                     {"u8[6] 0 0 0 0 0 0", "const uint8_t xc_constant_0[6] = {0};"}};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        char text[300];
        xcvm_error error;
        const char *const elements = constants[i].elements;
        const int type = (int)strcspn(elements, " ");
        snprintf(text, sizeof text,
                 "input x %.*s\noutput y %.*s\n$1 = In(name=\"x\")\n$2 = Add($1, %s)\nOut($2, name=\"y\")\n", type,
                 elements, type, elements, elements);
        test_bytes source = export_text(text, &error);
        ck_assert_msg(strstr(source.at, constants[i].initializer) != NULL, "%s: %s", elements, source.at);
        test_bytes_free(&source);
    }
}
END_TEST

/* As many samples as the VM accepts, and no more, because nothing stops the C code. */
START_TEST(samples_of_regions)
{
    for (int samples = 4096; samples <= 4097; samples++) {
        char text[500];
        xcvm_error error;
        snprintf(text, sizeof text,
                 "input x f32[1x1x4x4]\ninput rois f32[1x4]\noutput y f32[1x1x1x1]\n$1 = In(name=\"x\")\n"
                 "$2 = In(name=\"rois\")\n$3 = RoiAlign($1, $2, i64[1] 0, sampling_ratio=%d)\nOut($3, name=\"y\")\n",
                 samples);
        test_bytes source = export_text(text, &error);
        ck_assert_int_eq(error.status, samples <= 4096 ? XCVM_OK : XCVM_UNSUPPORTED);
        ck_assert_msg(samples <= 4096 || strstr(error.message, "more than 4096 samples") != NULL, "%s", error.message);
        test_bytes_free(&source);
    }
}
END_TEST

/* The size of the weights file equals the one in the header, also if the last constant is empty and its offset is after
 * all data. */
START_TEST(weights_end_with_the_data)
{
    test_bytes program = assemble("input x f32[1]\noutput y f32[1]\noutput z f32[0]\n$1 = In(name=\"x\")\n"
                                  "$2 = Add($1, f32[1] 1.5)\n$3 = Add($2, f32[0])\nOut($2, name=\"y\")\n"
                                  "Out($3, name=\"z\")\n");
    test_bytes source = {0}, header = {0}, weights = {0};
    const xcc_export_c_options options = {.size = sizeof options,
                                          .source = {test_bytes_sink, &source},
                                          .header = {test_bytes_sink, &header},
                                          .weights = {test_bytes_sink, &weights}};
    xcvm_error error = {0};
    ck_assert_msg(xcc_export_c(program.at, program.length, &options, &error) == XCVM_OK, "%s", error.message);
    test_bytes_sink(&header, "", 1);
    test_bytes_sink(&source, "", 1);
    ck_assert_msg(strstr(header.at, "#define NET_WEIGHTS_BYTES 4\n") != NULL, "%s", header.at);
    ck_assert_uint_eq(weights.length, 4);
    const float first = 1.5f;
    ck_assert_mem_eq(weights.at, &first, sizeof first);
    ck_assert_msg(strstr(source.at, "weights + 64") == NULL, "%s", source.at);
    test_bytes_free(&program);
    test_bytes_free(&source);
    test_bytes_free(&header);
    test_bytes_free(&weights);
}
END_TEST

Suite *suite_compiler_export_c(void);
Suite *suite_compiler_export_c(void)
{
    Suite *suite = suite_create("compiler_export_c");
    TCase *tests = tcase_create("export_c");
    tcase_add_test(tests, zeros_are_left_out);
    tcase_add_test(tests, samples_of_regions);
    tcase_add_test(tests, weights_end_with_the_data);
    suite_add_tcase(suite, tests);
    return suite;
}
