/* Tests of stripping. */
#include "tests/support.h"

#include <check.h>
#include <string.h>

static const char text[] = "xcvm 1\ninput x f32[2]\noutput y f32[2]\narena 64\n"
                           "$1 = In(name=\"x\")\n"
                           "$2 = Neg($1) slot=0+8 node=\"secret\" type=f32[2] name=\"hidden\" flops=2\n"
                           "Out($2, name=\"y\")\n";

START_TEST(test_strip)
{
    xcvm_error error;
    test_bytes file = {0}, stripped = {0}, again = {0}, dump = {0};
    ck_assert_int_eq(xcvm_assemble(text, strlen(text), NULL, (xcvm_sink){test_bytes_sink, &file}, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_strip(file.at, file.length, (xcvm_sink){test_bytes_sink, &stripped}, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_strip(stripped.at, stripped.length, (xcvm_sink){test_bytes_sink, &again}, &error), XCVM_OK);
    ck_assert(test_bytes_equal(&stripped, &again));
    ck_assert_ptr_null(memmem(stripped.at, stripped.length, "secret", 6));
    ck_assert_ptr_null(memmem(stripped.at, stripped.length, "hidden", 6));
    ck_assert_int_eq(xcvm_disassemble(stripped.at, stripped.length, NULL, (xcvm_sink){test_bytes_sink, &dump}, &error),
                     XCVM_OK);
    ck_assert_ptr_nonnull(memmem(dump.at, dump.length, "\n$2 = Neg($1) slot=0+8\n", 23));
    ck_assert_int_eq(xcvm_strip("", 0, (xcvm_sink){test_bytes_sink, &again}, &error), XCVM_INVALID_PROGRAM);
    test_bytes_free(&file);
    test_bytes_free(&stripped);
    test_bytes_free(&again);
    test_bytes_free(&dump);
}
END_TEST

Suite *suite_proto_strip(void);
Suite *suite_proto_strip(void)
{
    Suite *suite = suite_create("proto_strip");
    TCase *tests = tcase_create("strip");
    tcase_add_test(tests, test_strip);
    suite_add_tcase(suite, tests);
    return suite;
}
