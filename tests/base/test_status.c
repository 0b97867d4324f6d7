/* Tests of statuses and error messages. */
#include "base/status.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

START_TEST(names)
{
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", XCVM_VERSION_MAJOR, XCVM_VERSION_MINOR, XCVM_VERSION_PATCH);
    ck_assert_str_eq(xcvm_version(), version);
    ck_assert_str_eq(xcvm_status_name(XCVM_OUT_OF_MEMORY), "OUT_OF_MEMORY");
    ck_assert_str_eq(xcvm_status_summary(XCVM_OK), "success");
    ck_assert_ptr_null(xcvm_status_name((xcvm_status)99));
    ck_assert_ptr_null(xcvm_status_summary((xcvm_status)-1));
}
END_TEST

START_TEST(set_fills_all)
{
    xcvm_error error;
    memset(&error, 'x', sizeof error);
    ck_assert_int_eq(xcvm_error_set(&error, XCVM_IO, "file %d", 7), XCVM_IO);
    ck_assert_int_eq(error.status, XCVM_IO);
    ck_assert_int_eq(error.pc, -1);
    ck_assert_str_eq(error.instruction, "");
    ck_assert_str_eq(error.node, "");
    ck_assert_str_eq(error.message, "file 7");
    ck_assert_int_eq(xcvm_error_set(NULL, XCVM_IO, "nobody listens"), XCVM_IO);
    xcvm_error_prefix(NULL, "nobody listens");
}
END_TEST

START_TEST(long_messages_are_cut)
{
    xcvm_error error;
    char longer[2 * sizeof error.message];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    xcvm_error_set(&error, XCVM_IO, "%s", longer);
    ck_assert_uint_eq(strlen(error.message), sizeof error.message - 1);
    xcvm_error_prefix(&error, "line %d", 3);
    ck_assert_uint_eq(strlen(error.message), sizeof error.message - 1);
    ck_assert_int_eq(strncmp(error.message, "line 3: aaa", 11), 0);
    xcvm_error_prefix(&error, "%s", longer);
    ck_assert_uint_lt(strlen(error.message), sizeof error.message);
    ck_assert_int_eq(strncmp(error.message, "aaa", 3), 0);
}
END_TEST

START_TEST(prefixes)
{
    xcvm_error error;
    xcvm_error_set(&error, XCVM_IO, "why");
    xcvm_error_prefix(&error, "inner");
    xcvm_error_prefix(&error, "outer %d", 1);
    ck_assert_str_eq(error.message, "outer 1: inner: why");
    xcvm_error_set(&error, XCVM_IO, "%s", "");
    xcvm_error_prefix(&error, "only");
    ck_assert_str_eq(error.message, "only: ");
}
END_TEST

Suite *suite_base_status(void);
Suite *suite_base_status(void)
{
    Suite *suite = suite_create("base_status");
    TCase *tests = tcase_create("status");
    tcase_add_test(tests, names);
    tcase_add_test(tests, set_fills_all);
    tcase_add_test(tests, long_messages_are_cut);
    tcase_add_test(tests, prefixes);
    suite_add_tcase(suite, tests);
    return suite;
}
