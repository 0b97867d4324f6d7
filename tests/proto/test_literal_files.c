/* Tests of literals whose elements are in files: tensors of safetensors files. Offsets are tested in
 * test_open_beneath.c. */
#include "proto/image.h"
#include "tests/support.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/xcvm_test_XXXXXX";
static xcvm_error error;

/* Written by hand from the format's description: two tensors, and then nothing but a header that ends too early. */
static const char header[] = "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                             "\"a b\":{\"dtype\":\"I8\",\"shape\":[1,3],\"data_offsets\":[8,11]}}";
static const char elements[] = "\x00\x00\x80\x3f\x00\x00\x20\xc0\x01\xff\x07"; /* 1, -2.5; 1, -1, 7 */

static void write_file(const char *name, uint64_t header_bytes)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    fwrite(&header_bytes, 1, sizeof header_bytes, file);
    fwrite(header, 1, strlen(header), file);
    fwrite(elements, 1, sizeof elements - 1, file);
    fclose(file);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    write_file("good.safetensors", strlen(header));
    write_file("broken.safetensors", strlen(header) - 3);
}

static void teardown(void)
{
    static const char *const names[] = {"good.safetensors", "broken.safetensors", "."};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (remove(path) != 0)
            (void)!rmdir(folder);
    }
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
}

static test_bytes assemble(const char *text, const char *dir)
{
    test_bytes file = {0};
    const xcvm_status status = xcvm_assemble(text, strlen(text), dir, (xcvm_sink){test_bytes_sink, &file}, &error);
    ck_assert_msg(status == XCVM_OK, "%s\n%s", text, status != XCVM_OK ? error.message : "");
    return file;
}

/* Tensors of files are the constants, operands and results that lists of their elements are. */
START_TEST(test_tensors)
{
    static const char listed[] = "xcvm 1\nconstant x f32[2] = 1 -2.5\n$1 = Concat([@x, f32[2] 1 -2.5])\n"
                                 "$2 = Neg(i8[1x3] 1 -1 7)\n";
    static const char stored[] = "xcvm 1\nconstant x f32[2] = @\"good.safetensors\":x\n"
                                 "$1 = Concat([@x, f32[2] @\"good.safetensors\":x])\n"
                                 "$2 = Neg(i8[1x3] @\"./good.safetensors\":\"a b\")\n";
    test_bytes expected = assemble(listed, NULL), actual = assemble(stored, folder);
    ck_assert_uint_eq(actual.length, expected.length);
    ck_assert(memcmp(actual.at, expected.at, expected.length) == 0);
    test_bytes_free(&expected);
    test_bytes_free(&actual);
}
END_TEST

static const struct {
    const char *literal;
    xcvm_status status;
    const char *message;
} refusals[] = {
    {"f32[2] = @\"good.safetensors\":y", XCVM_INVALID_PROGRAM, "line 2: `good.safetensors` has no tensor `y`"},
    {"f32[3] = @\"good.safetensors\":x", XCVM_INVALID_PROGRAM,
     "line 2: `x` of `good.safetensors` is f32[2]; expected f32[3]"},
    {"i32[2] = @\"good.safetensors\":x", XCVM_INVALID_PROGRAM, "is f32[2]; expected i32[2]"},
    {"f32[2] = @\"good.safetensors\":", XCVM_INVALID_PROGRAM, "a name is expected"},
    {"f32[2] = @\"none.safetensors\":x", XCVM_IO, "line 2: `none.safetensors`"},
    {"f32[2] = @\"../good.safetensors\":x", XCVM_INVALID_ARGUMENT, "line 2: "},
    {"f32[2] = @\"broken.safetensors\":x", XCVM_INVALID_ARGUMENT,
     "line 2: `broken.safetensors`: a b: broken safetensors"},
    {"f32[2] = @\"a\\x00\":x", XCVM_INVALID_PROGRAM, "the name of a file has a NUL in it"},
};

START_TEST(test_refusal)
{
    char text[200];
    test_bytes file = {0};
    snprintf(text, sizeof text, "xcvm 1\nconstant c %s\n", refusals[_i].literal);
    ck_assert_int_eq(xcvm_assemble(text, strlen(text), folder, (xcvm_sink){test_bytes_sink, &file}, &error),
                     refusals[_i].status);
    ck_assert_msg(strstr(error.message, refusals[_i].message) != NULL, "%s", error.message);
    ck_assert_uint_eq(file.length, 0);
}
END_TEST

START_TEST(test_no_memory)
{
    static const char text[] = "xcvm 1\nconstant a f32[2] = @\"good.safetensors\":x\n"
                               "constant b i8[1x3] = @\"good.safetensors\":\"a b\"\n";
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    for (size_t fail_at = 1; status != XCVM_OK; fail_at++) {
        test_allocator a;
        test_allocator_start(&a, fail_at);
        xcvm_arena arena = {.allocator = &a.allocator};
        xcvm_image image;
        status = xcvm_image_assemble(text, strlen(text), folder, &a.allocator, &arena, &image, &error);
        ck_assert_msg(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY, "%s", error.message);
        xcvm_arena_release(&arena);
        ck_assert_uint_eq(a.live, 0);
    }
}
END_TEST

Suite *suite_proto_literal_files(void);
Suite *suite_proto_literal_files(void)
{
    Suite *suite = suite_create("proto_literal_files");
    TCase *tests = tcase_create("literal_files");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_tensors);
    tcase_add_loop_test(tests, test_refusal, 0, (int)(sizeof refusals / sizeof *refusals));
    tcase_add_test(tests, test_no_memory);
    suite_add_tcase(suite, tests);
    return suite;
}
