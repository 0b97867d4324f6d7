/* Tests of tensor files: written files are read again, and broken files fail cleanly. */
#include "tests/suites.h"
#include "tools/values/compare.h"
#include "tools/io/file.h"
#include "tools/cli/suffix.h"
#include "tools/tensors/arrays.h"
#include "tools/tensors/image.h"
#include "tools/tensors/png.h"
#include "tools/tensors/spec.h"
#include "tools/tensors/tensor_file.h"
#include "tools/values/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES XCVM_TEST_DATA "/tools/data/files/"

static xcvm_value *make(const char *text)
{
    struct spec spec;
    xcvm_error error;
    xcvm_value *value;
    ck_assert_int_eq(spec_parse(text, &spec, &error), XCVM_OK);
    struct wanted wanted = {0};
    xcvm_status status = spec_value(&spec, &wanted, &(struct filling){1, 100, NULL}, &value, &error);
    ck_assert_msg(status == XCVM_OK, "%s: %s", text, error.message);
    spec_release(&spec);
    return value;
}

static void check_equal(const xcvm_value *actual, const xcvm_value *expected, const char *what)
{
    struct comparison comparison;
    struct buffer text = {0};
    compare_values(actual, expected, (struct tolerance){0, 0}, &comparison);
    comparison_print(&text, &comparison);
    ck_assert_msg(comparison.agrees, "%s: %s", what, buffer_string(&text));
    buffer_release(&text);
}

START_TEST(npy_round_trip)
{
#define XCVM_DTYPE(name, number, text, bits) text,
    static const char *const types[] = {XCVM_DTYPE_LIST(XCVM_DTYPE)};
#undef XCVM_DTYPE
    static const char *const shapes[] = {"", "7x", "2x3x", "0x", "1x0x4x", "2x1x3x1x2x"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            char text[64];
            snprintf(text, sizeof text, "%s%s=random", shapes[s], types[t]);
            xcvm_value *value = make(text), *again;
            struct buffer bytes = {0};
            xcvm_error error;
            ck_assert_int_eq(array_write(value, NULL, (xcvm_sink){buffer_sink, &bytes}, &error), XCVM_OK);
            xcvm_status status =
                arrays_read(bytes.data, bytes.length, NULL, NULL, xcvm_value_dtype(value), NULL, &again, &error);
            ck_assert_msg(status == XCVM_OK, "%s: %s", text, error.message);
            check_equal(again, value, text);
            xcvm_value_release(value);
            xcvm_value_release(again);
            buffer_release(&bytes);
        }
}
END_TEST

/* NumPy pads all texts to the length of the longest one. A size that is too large is reported before anything is
 * allocated. */
START_TEST(texts_within_limits)
{
    enum { TEXTS = 1000, LONG = 5000 };
    const char *texts[TEXTS];
    char longest[LONG + 1] = "";
    memset(longest, 'x', LONG);
    for (size_t i = 0; i < TEXTS; i++)
        texts[i] = i == 0 ? longest : "";
    xcvm_value *value, *again;
    xcvm_error error;
    const int64_t count = TEXTS;
    uint64_t bytes;
    struct value_budget budget;
    struct buffer file = {0};
    ck_assert_int_eq(xcvm_string_tensor_create(NULL, 1, &count, texts, NULL, &value, &error), XCVM_OK);
    ck_assert_int_eq(xct_array_file_bytes(value, &bytes, &error), XCVM_OK);
    ck_assert_uint_eq(bytes, 4 * (uint64_t)LONG * TEXTS);
    value_budget_begin(&budget, 1 << 20, 0);
    ck_assert_int_eq(array_write(value, &budget, (xcvm_sink){buffer_sink, &file}, &error), XCVM_OUT_OF_MEMORY);
    ck_assert_str_eq(error.message,
                     "it takes 20000000 bytes, and the memory limit of 1048576 leaves 1048576 beside the others");
    ck_assert_uint_eq(file.length, 0);
    struct tensor_files files = {.budget = &budget};
    ck_assert_int_eq(tensor_file_write(&files, "x.npz", "x", "x", value, &error), XCVM_OUT_OF_MEMORY);
    ck_assert_int_eq(tensor_files_finish(&files, false, &error), XCVM_OK);
    value_budget_begin(&budget, 0, 1);
    budget.until = 0;
    ck_assert_int_eq(array_write(value, &budget, (xcvm_sink){buffer_sink, &file}, &error), XCVM_OUT_OF_TIME);
    ck_assert_uint_lt(file.length, bytes / 10);
    file.length = 0;
    value_budget_begin(&budget, 32 << 20, 0);
    ck_assert_int_eq(array_write(value, &budget, (xcvm_sink){buffer_sink, &file}, &error), XCVM_OK);
    ck_assert_int_eq(arrays_read(file.data, file.length, NULL, NULL, XCVM_STRING, NULL, &again, &error), XCVM_OK);
    check_equal(again, value, "texts");
    buffer_release(&file);
    xcvm_value_release(again);
    xcvm_value_release(value);
}
END_TEST

/* The reason that stb reports may contain bytes of the file: the type of a chunk, here a line break or nothing. */
START_TEST(png_of_unknown_chunks)
{
    static const struct {
        const char *type, *message;
    } rows[] = {{"A\nBC", "the image cannot be decoded: A"}, {"\0ABC", "the image cannot be decoded"}};
    for (size_t i = 0; i < 2; i++) {
        struct buffer bytes = {0};
        xcvm_value *value;
        xcvm_error error;
        ck_assert_int_eq(file_read(FILES "gray.png", NULL, &bytes, &error), XCVM_OK);
        memcpy(bytes.data + 37, rows[i].type, 4);
        ck_assert_int_eq(image_read(bytes.data, bytes.length, NULL, false, "x", NULL, &value, &error),
                         XCVM_INVALID_ARGUMENT);
        ck_assert_str_eq(error.message, rows[i].message);
        buffer_release(&bytes);
    }
}
END_TEST

/* The error shows the memory at the time of the failure, not after the release of the rest. */
START_TEST(budget_tells_what_was_left)
{
    struct value_budget budget;
    xcvm_error error = {.status = XCVM_OK};
    xcvm_value *first, *second;
    const int64_t half = 600, dims = 1000;
    value_budget_begin(&budget, 2000, 0);
    ck_assert_int_eq(value_zeros(&budget, XCVM_U8, 1, &half, &first, &error), XCVM_OK);
    const uint64_t left = value_budget_left(&budget);
    ck_assert_int_eq(value_zeros(&budget, XCVM_F64, 1, &dims, &second, &error), XCVM_OUT_OF_MEMORY);
    xcvm_value_release(first);
    char expected[40];
    snprintf(expected, sizeof expected, "of 2000 leaves %u ", (unsigned)left);
    value_budget_name(&budget, XCVM_OUT_OF_MEMORY, &error);
    ck_assert_ptr_nonnull(strstr(error.message, expected));
}
END_TEST

START_TEST(npz_round_trip)
{
    struct buffer file = {0};
    xct_archive *archive;
    xcvm_value *values[] = {make("2x3xf32=random"), make("str=\"hello\""), make("0xi64=")}, *again;
    static const char *const keys[] = {"a", "b.npy", "c"};
    xcvm_error error;
    ck_assert_int_eq(xct_archive_create((xcvm_sink){buffer_sink, &file}, NULL, &archive, &error), XCVM_OK);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(xct_archive_add(archive, keys[i], values[i], 0, &error), XCVM_OK);
    ck_assert_int_eq(xct_archive_finish(archive, &error), XCVM_OK);
    xct_archive_destroy(archive);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(arrays_read(file.data, file.length, keys[i], NULL, XCVM_NO_DTYPE, NULL, &again, &error),
                         XCVM_OK);
        check_equal(again, values[i], keys[i]);
        xcvm_value_release(again);
        xcvm_value_release(values[i]);
    }
    buffer_release(&file);
}
END_TEST

START_TEST(png_round_trip)
{
    static const char *const specs[] = {"4x5xu8=random", "3x4x5xu8=random", "1x4x5x3xu8=random", "4x2x2xu8=random"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        xcvm_value *value = make(specs[i]), *again;
        xcvm_type type = value_type(value);
        struct buffer bytes = {0};
        xcvm_error error;
        ck_assert_int_eq(png_write(value, (xcvm_sink){buffer_sink, &bytes}, &error), XCVM_OK);
        xcvm_status status = image_read(bytes.data, bytes.length, &type, false, "x", NULL, &again, &error);
        ck_assert_msg(status == XCVM_OK, "%s: %s", specs[i], error.message);
        check_equal(again, value, specs[i]);
        xcvm_value_release(value);
        xcvm_value_release(again);
        buffer_release(&bytes);
    }
}
END_TEST

static xcvm_status read_any(const char *path, const void *bytes, size_t count, xcvm_value **value)
{
    xcvm_error error;
    if (suffix_is(path, ".png"))
        return image_read(bytes, count, NULL, false, "x", NULL, value, &error);
    return arrays_read(bytes, count, "x", NULL, XCVM_NO_DTYPE, NULL, value, &error);
}

static const char *const samples[] = {FILES "float32.npy",  FILES "text.npy", FILES "fortran.npy", FILES "stored.npz",
                                      FILES "deflated.npz", FILES "gray.png", FILES "color.png"};
enum { SAMPLES = sizeof samples / sizeof *samples };

/* Every prefix, in memory of exactly its size, is refused or read without harm. */
START_TEST(every_prefix)
{
    struct buffer bytes = {0};
    xcvm_error error;
    xcvm_value *value;
    ck_assert_int_eq(file_read(samples[_i], NULL, &bytes, &error), XCVM_OK);
    for (size_t count = 0; count < bytes.length; count++) {
        char *copy = malloc(count + 1);
        memcpy(copy, bytes.data, count);
        if (read_any(samples[_i], copy, count, &value) == XCVM_OK)
            xcvm_value_release(value);
        free(copy);
    }
    buffer_release(&bytes);
}
END_TEST

/* Every byte changed in several ways. */
START_TEST(every_mutation)
{
    struct buffer bytes = {0};
    xcvm_error error;
    xcvm_value *value;
    ck_assert_int_eq(file_read(samples[_i], NULL, &bytes, &error), XCVM_OK);
    static const unsigned char changes[] = {0x01, 0x80, 0xff, 0x10};
    char *copy = malloc(bytes.length);
    for (size_t at = 0; at < bytes.length; at++)
        for (size_t k = 0; k < sizeof changes; k++) {
            memcpy(copy, bytes.data, bytes.length);
            copy[at] = (char)(copy[at] ^ changes[k]);
            if (read_any(samples[_i], copy, bytes.length, &value) == XCVM_OK)
                xcvm_value_release(value);
        }
    free(copy);
    buffer_release(&bytes);
}
END_TEST

START_TEST(file_kinds)
{
    static const char model[] = "\x08\x08\x12\x01p\x3a\x02\x0a\x00\x42\x02\x10\x0d";
    static const char program[] = "\x08\x01\x12\x04xcvm\x2a\x02\x08\x01";
    ck_assert_int_eq(file_kind_of_bytes(model, sizeof model - 1), FILE_MODEL);
    ck_assert_int_eq(file_kind_of_bytes(program, sizeof program - 1), FILE_PROGRAM);
    ck_assert_int_eq(file_kind_of_bytes("xcvm 1\n", 7), FILE_ASSEMBLY);
    ck_assert_int_eq(file_kind_of_bytes("# note\n\nxcvm 1\n", 15), FILE_ASSEMBLY);
    ck_assert_int_eq(file_kind_of_bytes("", 0), FILE_OTHER);
    ck_assert_int_eq(file_kind_of_bytes("\xff\xff\xff", 3), FILE_UNKNOWN);
    for (size_t i = 0; i < sizeof model; i++) {
        file_kind_of_bytes(model, i);
        file_kind_of_bytes(program, i % sizeof program);
    }
}
END_TEST

START_TEST(relative_names)
{
    static const struct {
        const char *path, *folder, *relative;
    } rows[] = {{"/etc/passwd", "/etc", "passwd"},
                {"/etc/passwd", "/usr", "../etc/passwd"},
                {"/etc/passwd", "/", "etc/passwd"},
                {"/etc/passwd", "/usr/bin", "../../etc/passwd"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *relative = file_relative(rows[i].path, rows[i].folder);
        ck_assert_str_eq(relative, rows[i].relative);
        free(relative);
    }
    char *name = file_base_name("a/b//");
    ck_assert_str_eq(name, "b");
    free(name);
}
END_TEST

Suite *suite_tools_tensor_files(void)
{
    Suite *suite = suite_create("tools_tensor_files");
    TCase *tests = tcase_create("files");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, npy_round_trip);
    tcase_add_test(tests, npz_round_trip);
    tcase_add_test(tests, texts_within_limits);
    tcase_add_test(tests, budget_tells_what_was_left);
    tcase_add_test(tests, png_of_unknown_chunks);
    tcase_add_test(tests, png_round_trip);
    tcase_add_loop_test(tests, every_prefix, 0, SAMPLES);
    tcase_add_loop_test(tests, every_mutation, 0, SAMPLES);
    tcase_add_test(tests, file_kinds);
    tcase_add_test(tests, relative_names);
    suite_add_tcase(suite, tests);
    return suite;
}
