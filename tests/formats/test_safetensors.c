/* Tests of safetensors: written files are read again, and broken files fail cleanly. */
#include "formats/safetensors.h"
#include "tests/suites.h"
#include "tests/support.h"

#include <stdlib.h>

static const float floats[] = {1, 2, 3, 4, 5, 6};
static const int64_t wholes[] = {-7};
static const xcvm_safetensor tensors[] = {
    {.name = "layer.weight", .dtype = XCVM_F32, .rank = 2, .dims = {2, 3}, .data = floats, .bytes = sizeof floats},
    {.name = "a \"name\"\n\\", .dtype = XCVM_I64, .rank = 0, .data = wholes, .bytes = sizeof wholes},
    {.name = "nothing", .dtype = XCVM_BF16, .rank = 2, .dims = {0, 4}, .data = NULL, .bytes = 0},
};
static const xcvm_safetensors_note notes[] = {{"step", "12"}, {"title", "Größe"}};

static void write_sample(test_bytes *bytes)
{
    xcvm_error error;
    const xcvm_status status =
        xcvm_safetensors_write(tensors, 3, notes, 2, NULL, (xcvm_sink){test_bytes_sink, bytes}, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
}

START_TEST(round_trip)
{
    test_bytes bytes = {NULL, 0, 0};
    xcvm_safetensors file = {.count = 0};
    xcvm_error error;
    write_sample(&bytes);
    const xcvm_status status = xcvm_safetensors_read(&file, bytes.at, bytes.length, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    ck_assert_uint_eq(file.count, 3);
    for (size_t i = 0; i < 3; i++) {
        const xcvm_safetensor *t = xcvm_safetensors_find(&file, tensors[i].name);
        ck_assert_ptr_nonnull(t);
        ck_assert_int_eq(t->dtype, tensors[i].dtype);
        ck_assert_int_eq(t->rank, tensors[i].rank);
        ck_assert_uint_eq(t->bytes, tensors[i].bytes);
        for (int d = 0; d < t->rank; d++)
            ck_assert_int_eq(t->dims[d], tensors[i].dims[d]);
        if (t->bytes > 0)
            ck_assert_mem_eq(t->data, tensors[i].data, t->bytes);
    }
    ck_assert_ptr_null(xcvm_safetensors_find(&file, "layer"));
    ck_assert_str_eq(xcvm_safetensors_note_find(&file, "title"), "Größe");
    ck_assert_ptr_null(xcvm_safetensors_note_find(&file, "Step"));
    xcvm_safetensors_release(&file);
    test_bytes_free(&bytes);
}
END_TEST

/* A file with this header, followed by `data` bytes. */
static xcvm_status read_header(const char *header, size_t data, xcvm_error *error)
{
    xcvm_safetensors file = {.count = 0};
    const uint64_t size = strlen(header);
    char *bytes = malloc(8 + size + data);
    memcpy(bytes, &size, 8);
    memcpy(bytes + 8, header, size);
    memset(bytes + 8 + size, 0, data);
    const xcvm_status status = xcvm_safetensors_read(&file, bytes, 8 + size + data, error);
    xcvm_safetensors_release(&file);
    free(bytes);
    return status;
}

START_TEST(headers)
{
    static const struct {
        const char *header;
        size_t data;
        xcvm_status status;
        const char *message;
    } rows[] = {
        {"{}", 0, XCVM_OK, ""},
        {"{ \"x\" : { \"shape\" : [ 2 ] , \"dtype\" : \"F32\", \"data_offsets\":[0, 8]} } ", 8, XCVM_OK, ""},
        {"{\"\\u00e4\\ud83d\\ude00\":{\"shape\":[],\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, XCVM_OK, ""},
        {"{\"x\":{\"shape\":[2],\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 7, XCVM_INVALID_ARGUMENT,
         "x: broken safetensors: it is at bytes 0 to 8 of the 7 that there are"},
        {"{\"x\":{\"shape\":[2],\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 8, XCVM_INVALID_ARGUMENT,
         "its type and shape take 8 bytes, it is at bytes 0 to 4, which are 4"},
        {"{\"x\":{\"shape\":[2],\"dtype\":\"F32\",\"data_offsets\":[8,0]}}", 8, XCVM_INVALID_ARGUMENT,
         "it is at bytes 8 to 0"},
        {"{\"x\":{\"shape\":[4611686018427387904,4],\"dtype\":\"F32\",\"data_offsets\":[0,0]}}", 8,
         XCVM_INVALID_ARGUMENT, "its shape is too large to exist"},
        {"{\"x\":{\"shape\":[99999999999999999999],\"dtype\":\"F32\",\"data_offsets\":[0,0]}}", 8,
         XCVM_INVALID_ARGUMENT, "too large"},
        {"{\"x\":{\"shape\":[1],\"dtype\":\"Q4\",\"data_offsets\":[0,1]}}", 8, XCVM_UNSUPPORTED, "type Q4"},
        {"{\"x\":{\"shape\":[1,1,1,1,1,1,1,1,1],\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 8, XCVM_UNSUPPORTED,
         "more than 8 dimensions"},
        {"{\"x\":{\"shape\":[1],\"dtype\":\"U8\"}}", 8, XCVM_INVALID_ARGUMENT, "does not have dtype, shape"},
        {"{\"x\":{\"shape\":[1],\"dtype\":\"U8\",\"data_offsets\":[0,1],\"more\":1}}", 8, XCVM_INVALID_ARGUMENT,
         "something else"},
        {"{\"x\":{\"shape\":[1],\"dtype\":\"U8\",\"data_offsets\":[0,1]},\"x\":{\"shape\":[1],\"dtype\":\"U8\","
         "\"data_offsets\":[0,1]}}",
         8, XCVM_INVALID_ARGUMENT, "two tensors are named x"},
        {"{\"x", 0, XCVM_INVALID_ARGUMENT, "ends within a text"},
        {"{\"\\ud800\":1}", 0, XCVM_INVALID_ARGUMENT, "an escape"},
        {"{\"__metadata__\":{\"a\":1}}", 0, XCVM_INVALID_ARGUMENT, "a text is missing"},
        {"{} x", 0, XCVM_INVALID_ARGUMENT, "followed by other characters"},
        {"[]", 0, XCVM_INVALID_ARGUMENT, "not a safetensors file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        xcvm_error error = {.message = ""};
        const xcvm_status status = read_header(rows[i].header, rows[i].data, &error);
        ck_assert_msg(status == rows[i].status && strstr(error.message, rows[i].message) != NULL, "%s: %d, %s",
                      rows[i].header, status, error.message);
    }
}
END_TEST

/* Every prefix, and every byte changed, in memory of exactly its size. */
START_TEST(broken_files)
{
    test_bytes bytes = {NULL, 0, 0};
    write_sample(&bytes);
    for (size_t at = 0; at < 2 * bytes.length; at++) {
        const size_t count = at < bytes.length ? at : bytes.length;
        char *copy = malloc(count + 1);
        memcpy(copy, bytes.at, count);
        if (at >= bytes.length)
            copy[at - bytes.length] ^= (char)(1 << at % 8);
        xcvm_safetensors file = {.count = 0};
        xcvm_error error;
        if (xcvm_safetensors_read(&file, copy, count, &error) == XCVM_OK)
            for (size_t i = 0; i < file.count; i++)
                ck_assert((const char *)file.tensors[i].data + file.tensors[i].bytes <= copy + count);
        xcvm_safetensors_release(&file);
        free(copy);
    }
    test_bytes_free(&bytes);
}
END_TEST

START_TEST(refused_to_write)
{
    xcvm_error error;
    const xcvm_safetensor text = {.name = "t", .dtype = XCVM_STRING};
    ck_assert_int_eq(xcvm_safetensors_write(&text, 1, NULL, 0, NULL, (xcvm_sink){test_full_sink, NULL}, &error),
                     XCVM_UNSUPPORTED);
    ck_assert_int_eq(xcvm_safetensors_write(tensors, 3, NULL, 0, NULL, (xcvm_sink){test_full_sink, NULL}, &error),
                     XCVM_IO);
    xcvm_safetensor notes_name = tensors[0];
    notes_name.name = "__metadata__";
    ck_assert_int_eq(xcvm_safetensors_write(&notes_name, 1, NULL, 0, NULL, (xcvm_sink){test_full_sink, NULL}, &error),
                     XCVM_UNSUPPORTED);
}
END_TEST

START_TEST(without_memory)
{
    test_bytes bytes = {NULL, 0, 0};
    write_sample(&bytes);
    for (size_t fail_at = 1;; fail_at++) {
        test_allocator a;
        test_allocator_start(&a, fail_at);
        xcvm_safetensors file = {.arena = {.allocator = &a.allocator}};
        xcvm_error error;
        const xcvm_status status = xcvm_safetensors_read(&file, bytes.at, bytes.length, &error);
        xcvm_safetensors_release(&file);
        ck_assert_uint_eq(a.live, 0);
        if (status == XCVM_OK)
            break;
        ck_assert_int_eq(status, XCVM_OUT_OF_MEMORY);
    }
    test_bytes_free(&bytes);
}
END_TEST

Suite *suite_formats_safetensors(void)
{
    Suite *suite = suite_create("formats_safetensors");
    TCase *tests = tcase_create("safetensors");
    tcase_add_test(tests, round_trip);
    tcase_add_test(tests, headers);
    tcase_add_test(tests, broken_files);
    tcase_add_test(tests, refused_to_write);
    tcase_add_test(tests, without_memory);
    suite_add_tcase(suite, tests);
    return suite;
}
