/* Tests of images by the C API: conversion, limits, and directories with images and other files. */
#include "tests/suites.h"
#include "tests/train/folder.h"
#include "train/data/resample.h"

#include "base/clock.h"
#include "xcvm/train.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define IMAGES XCVM_TEST_DATA "/tools/data/images/"

/* The bytes of a file, in memory of exactly their number. */
static unsigned char *read_file(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    fseek(file, 0, SEEK_END);
    *count = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*count);
    ck_assert_uint_eq(fread(bytes, 1, *count, file), *count);
    fclose(file);
    return bytes;
}

static xcvm_type type_of(xcvm_dtype dtype, int rank, const int64_t *dims)
{
    xcvm_type type = {.kind = XCVM_KIND_TENSOR, .dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++)
        type.dims[i] = dims[i];
    return type;
}

START_TEST(info_and_shapes)
{
    static const struct {
        const char *file;
        int64_t channels;
        int rank;
        int64_t wanted[4], dims[4];
    } rows[] = {
        {IMAGES "gray.png", 1, 3, {-1, -1, -1}, {1, 9, 13}},
        {IMAGES "alpha.png", 4, 3, {-1, -1, -1}, {4, 9, 13}},
        {IMAGES "turned_jpg_8.jpg", 3, 3, {-1, -1, 3}, {9, 13, 3}},
        {IMAGES "alpha_webp.webp", 4, 4, {-1, 3, -1, -1}, {1, 3, 9, 13}},
        {IMAGES "gray_lzw.tif", 1, 2, {-1, -1}, {9, 13}},
        {IMAGES "gray_lzw.tif", 1, 2, {1, -1}, {1, 117}},
        {IMAGES "plain.bmp", 3, 3, {3, 18, -1}, {3, 18, 26}},
        {IMAGES "plain.bmp", 3, 3, {3, -1, 26}, {3, 18, 26}},
        {IMAGES "cmyk.jpg", 3, 4, {1, 4, 5, 3}, {1, 4, 5, 3}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t count;
        unsigned char *bytes = read_file(rows[i].file, &count);
        const xcvm_type wanted = type_of(XCVM_U8, rows[i].rank, rows[i].wanted);
        xct_image_info info = {.size = sizeof info};
        xcvm_value *image;
        xcvm_error error;
        const xcvm_status status = xct_image_load(bytes, count, &wanted, NULL, &info, &image, &error);
        ck_assert_msg(status == XCVM_OK, "row %zu: %s", i, error.message);
        ck_assert_int_eq(xcvm_value_rank(image), rows[i].rank);
        for (int d = 0; d < rows[i].rank; d++)
            ck_assert_int_eq(xcvm_value_dims(image)[d], rows[i].dims[d]);
        ck_assert(info.channels == rows[i].channels && info.height == 9 && info.width == 13);
        xcvm_value_release(image);
        free(bytes);
    }
}
END_TEST

START_TEST(element_types)
{
    static const xcvm_dtype types[] = {XCVM_F32, XCVM_F64, XCVM_F16, XCVM_U8, XCVM_I32, XCVM_I64};
    size_t count;
    unsigned char *bytes = read_file(IMAGES "gray.png", &count);
    xcvm_value *plain, *image;
    ck_assert_int_eq(xct_image_load(bytes, count, NULL, NULL, NULL, &plain, NULL), XCVM_OK);
    const uint8_t *pixels = xcvm_value_data(plain);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const xcvm_type wanted = type_of(types[t], 2, (int64_t[]){9, 13});
        ck_assert_int_eq(xct_image_load(bytes, count, &wanted, NULL, NULL, &image, NULL), XCVM_OK);
        const void *data = xcvm_value_data(image);
        for (size_t i = 0; i < 9 * 13; i++) {
            if (types[t] == XCVM_F32)
                ck_assert(((const float *)data)[i] == (float)pixels[i] / 255.0F);
            else if (types[t] == XCVM_F64)
                ck_assert(((const double *)data)[i] == (double)pixels[i] / 255.0);
            else if (types[t] == XCVM_F16)
                ck_assert(((const uint16_t *)data)[i] == xcvm_f32_to_f16((float)((double)pixels[i] / 255.0)));
            else if (types[t] == XCVM_U8)
                ck_assert(((const uint8_t *)data)[i] == pixels[i]);
            else if (types[t] == XCVM_I32)
                ck_assert(((const int32_t *)data)[i] == pixels[i]);
            else
                ck_assert(((const int64_t *)data)[i] == pixels[i]);
        }
        xcvm_value_release(image);
    }
    xcvm_value_release(plain);
    free(bytes);
}
END_TEST

START_TEST(refusals)
{
    size_t count;
    unsigned char *bytes = read_file(IMAGES "plain.bmp", &count);
    static const struct {
        xcvm_dtype dtype;
        int rank;
        int64_t dims[5];
        xcvm_status status;
    } rows[] = {{XCVM_I8, 3, {3, 4, 5}, XCVM_TYPE_MISMATCH},      {XCVM_STRING, 3, {3, 4, 5}, XCVM_TYPE_MISMATCH},
                {XCVM_BOOL, 3, {3, 4, 5}, XCVM_TYPE_MISMATCH},    {XCVM_C64, 3, {3, 4, 5}, XCVM_TYPE_MISMATCH},
                {XCVM_F32, 4, {8, 3, 4, 5}, XCVM_SHAPE_MISMATCH}, {XCVM_F32, 3, {3, 0, 5}, XCVM_SHAPE_MISMATCH},
                {XCVM_F32, 2, {1, 116}, XCVM_SHAPE_MISMATCH},     {XCVM_F32, 0, {0}, XCVM_SHAPE_MISMATCH},
                {XCVM_F32, 4, {1, 2, 4, 5}, XCVM_SHAPE_MISMATCH}, {XCVM_F32, 5, {1, 1, 3, 4, 5}, XCVM_SHAPE_MISMATCH}};
    xcvm_value *image = NULL;
    xcvm_error error;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const xcvm_type wanted = type_of(rows[i].dtype, rows[i].rank, rows[i].dims);
        ck_assert_msg(xct_image_load(bytes, count, &wanted, NULL, NULL, &image, &error) == rows[i].status,
                      "row %zu: %s", i, error.message);
    }
    xct_image_options options = {.size = sizeof options, .memory_limit = 100};
    ck_assert_int_eq(xct_image_load(bytes, count, NULL, &options, NULL, &image, &error), XCVM_OUT_OF_MEMORY);
    options = (xct_image_options){.size = sizeof options, .timeout_ns = 1};
    ck_assert_int_eq(xct_image_load(bytes, count, NULL, &options, NULL, &image, &error), XCVM_OUT_OF_TIME);
    ck_assert_int_eq(xct_image_load("<html>", 6, NULL, NULL, NULL, &image, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "this is an HTML page"));
    ck_assert_int_eq(xct_image_load(NULL, 0, NULL, NULL, NULL, &image, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xct_image_load(bytes, count, NULL, NULL, NULL, NULL, &error), XCVM_INVALID_ARGUMENT);
    free(bytes);
}
END_TEST

static const char *const files[] = {IMAGES "turned_jpg_6.jpg",   IMAGES "big_endian.jpg",   IMAGES "turned_png_6.png",
                                    IMAGES "turned_webp_6.webp", IMAGES "turned_tif_6.tif", IMAGES "cmyk.jpg",
                                    IMAGES "palette.png",        IMAGES "plain.bmp"};
enum { FILES = sizeof files / sizeof *files };

/* Every prefix, in memory of exactly its size, is refused or read without harm, and so is every changed byte. */
START_TEST(broken_files)
{
    size_t count;
    unsigned char *bytes = read_file(files[_i], &count);
    const xct_image_options options = {.size = sizeof options, .memory_limit = 4 << 20};
    const xcvm_type wanted = type_of(XCVM_F32, 3, (int64_t[]){3, 4, 4});
    xcvm_value *image;
    for (size_t at = 0; at < count; at++) {
        unsigned char *copy = malloc(at > 0 ? at : 1);
        memcpy(copy, bytes, at);
        if (xct_image_load(copy, at, &wanted, &options, NULL, &image, NULL) == XCVM_OK)
            xcvm_value_release(image);
        free(copy);
        const unsigned char before = bytes[at];
        bytes[at] = (unsigned char)~before;
        if (xct_image_load(bytes, count, &wanted, &options, NULL, &image, NULL) == XCVM_OK)
            xcvm_value_release(image);
        bytes[at] = before;
    }
    free(bytes);
}
END_TEST

static void write_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, count, file), count);
    ck_assert_int_eq(fclose(file), 0);
}

/* Files of a directory that are no images are counted. Images may also be without classes. */
START_TEST(skipped_files)
{
    size_t count;
    unsigned char *bytes = read_file(IMAGES "cmyk.jpg", &count);
    const xcvm_value_info inputs[] = {{"x", type_of(XCVM_F32, 4, (int64_t[]){-1, 3, 4, 4})},
                                      {"y", type_of(XCVM_I64, 1, (int64_t[]){-1})}};
    ck_assert_int_eq(mkdir(in_folder("a"), 0700), 0);
    ck_assert_int_eq(mkdir(in_folder("b"), 0700), 0);
    write_file(in_folder("a/1.jpg"), bytes, count);
    write_file(in_folder("b/without"), bytes, count);
    write_file(in_folder("b/Thumbs.db"), "abcd", 4);
    write_file(in_folder("b/2.gif"), "GIF89a", 6);
    const char *paths[] = {folder, in_folder("b")}, *names = NULL;
    xct_dataset *set;
    xcvm_value *values[2];
    xcvm_error error;
    xcvm_status status = xct_dataset_create_for_inputs(inputs, 2, paths, 1, NULL, 0, NULL, &set, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    ck_assert_uint_eq(xct_dataset_example_count(set), 2);
    ck_assert_uint_eq(xct_dataset_skipped_count(set, &names), 2);
    ck_assert(strstr(names, "b/2.gif") != NULL && strstr(names, "b/Thumbs.db") != NULL);
    ck_assert_uint_eq(xct_dataset_class_count(set), 2);
    ck_assert_str_eq(xct_dataset_class_at(set, 0), "a");
    ck_assert_str_eq(xct_dataset_class_at(set, 1), "b");
    ck_assert_ptr_null(xct_dataset_class_at(set, 2));
    ck_assert_int_eq(xct_dataset_read(set, 0, 2, values, &error), XCVM_OK);
    ck_assert_int_eq(((const int64_t *)xcvm_value_data(values[1]))[1], 1);
    xcvm_value_release(values[0]);
    xcvm_value_release(values[1]);
    xct_dataset_destroy(set);
    /* A single directory has images without labels. */
    write_file(in_folder("b/3.jpg"), bytes, count);
    ck_assert_int_eq(xct_dataset_create_for_inputs(inputs, 2, paths + 1, 1, NULL, 0, NULL, &set, &error),
                     XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "input \"y\" takes labels, but these images have none"));
    ck_assert_int_eq(xct_dataset_create_for_inputs(inputs, 1, paths + 1, 1, NULL, 0, NULL, &set, &error), XCVM_OK);
    ck_assert_uint_eq(xct_dataset_example_count(set), 2);
    ck_assert_uint_eq(xct_dataset_skipped_count(set, NULL), 2);
    xct_dataset_destroy(set);
    ck_assert_uint_eq(xct_dataset_skipped_count(NULL, &names), 0);
    ck_assert_ptr_null(names);
    free(bytes);
}
END_TEST

Suite *suite_train_image(void)
{
    Suite *suite = suite_create("train_image");
    TCase *tests = tcase_create("image");
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, info_and_shapes);
    tcase_add_test(tests, element_types);
    tcase_add_test(tests, refusals);
    tcase_add_loop_test(tests, broken_files, 0, FILES);
    tcase_add_test(tests, skipped_files);
    suite_add_tcase(suite, tests);
    return suite;
}
