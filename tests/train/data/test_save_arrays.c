/* Tests of writing arrays: files that fail. The round trips are in tests/tools/test_tensor_files.c. */
#include "tests/support.h"
#include "xcvm/data.h"

#include <check.h>
#include <string.h>

static xcvm_value *bytes_of(int64_t count)
{
    xcvm_value *value;
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_U8, 1, &count, &value, NULL), XCVM_OK);
    memset(xcvm_value_data(value), 7, (size_t)count);
    return value;
}

/* Accepts as many calls as *user says. */
static bool limited_sink(void *user, const void *bytes, size_t count)
{
    int *left = user;
    (void)bytes;
    (void)count;
    return (*left)-- > 0;
}

static xcvm_status write_archive(xcvm_sink sink, const xcvm_allocator *allocator, xcvm_error *error)
{
    xcvm_value *value = bytes_of(100);
    xct_archive *archive = NULL;
    xcvm_status status = xct_archive_create(sink, allocator, &archive, error);
    for (int i = 0; i < 3 && status == XCVM_OK; i++)
        status = xct_archive_add(archive, (const char *[]){"a", "b/c", "d"}[i], value, 0, error);
    if (status == XCVM_OK)
        status = xct_archive_finish(archive, error);
    xct_archive_destroy(archive);
    xcvm_value_release(value);
    return status;
}

/* An archive whose sink refuses any of its pieces fails with IO. */
START_TEST(test_refusing_sink)
{
    xcvm_status status = XCVM_IO;
    int calls = 0;
    for (; status != XCVM_OK; calls++) {
        xcvm_error error = {0};
        int left = calls;
        status = write_archive((xcvm_sink){limited_sink, &left}, NULL, &error);
        ck_assert_msg(status == XCVM_OK || status == XCVM_IO, "%s", error.message);
    }
    ck_assert_int_gt(calls, 10);
}
END_TEST

START_TEST(test_no_memory)
{
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    for (size_t fail_at = 1; status != XCVM_OK; fail_at++) {
        xcvm_error error = {0};
        test_allocator a;
        test_bytes file = {0};
        test_allocator_start(&a, fail_at);
        status = write_archive((xcvm_sink){test_bytes_sink, &file}, &a.allocator, &error);
        ck_assert_msg(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY, "%s", error.message);
        ck_assert_uint_eq(a.live, 0);
        test_bytes_free(&file);
    }
}
END_TEST

START_TEST(test_refusals)
{
    static char name[70000];
    xcvm_value *value = bytes_of(1);
    test_bytes file = {0};
    uint64_t bytes;
    xct_archive *archive;
    xcvm_error error;
    const xcvm_sink sink = {test_bytes_sink, &file};
    ck_assert_int_eq(xct_array_file_bytes(NULL, &bytes, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xct_array_save(value, 0, (xcvm_sink){0}, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xct_archive_create((xcvm_sink){0}, NULL, &archive, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xct_archive_create(sink, NULL, &archive, &error), XCVM_OK);
    memset(name, 'n', sizeof name - 1);
    ck_assert_int_eq(xct_archive_add(archive, name, value, 0, &error), XCVM_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "is too long a name"));
    ck_assert_uint_eq(file.length, 0);
    xct_archive_destroy(archive);
    xct_archive_destroy(NULL);
    xcvm_value_release(value);
    test_bytes_free(&file);
}
END_TEST

Suite *suite_train_save_arrays(void);
Suite *suite_train_save_arrays(void)
{
    Suite *suite = suite_create("train_save_arrays");
    TCase *tests = tcase_create("save_arrays");
    tcase_add_test(tests, test_refusing_sink);
    tcase_add_test(tests, test_no_memory);
    tcase_add_test(tests, test_refusals);
    suite_add_tcase(suite, tests);
    return suite;
}
