/* Tests of data sets: each example of a file occurs in one batch, and unsuitable data is refused. */
#include "base/element.h"
#include "tests/suites.h"
#include "tests/train/folder.h"
#include "tests/support.h"
#include "tools/io/output.h"
#include "tools/tensors/png.h"
#include "train/data/convert_rows.h"
#include "train/data/loader.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static xcvm_value *tensor(xcvm_dtype dtype, int rank, const int64_t *dims)
{
    xcvm_value *value;
    ck_assert_int_eq(xcvm_tensor_create(NULL, dtype, rank, dims, &value, NULL), XCVM_OK);
    memset(xcvm_value_data(value), 0, xcvm_value_bytes(value));
    return value;
}

/* Arrays "images" and "labels", which are released. */
static void write_pair(const char *name, xcvm_value *x, xcvm_value *y)
{
    struct output output;
    xct_archive *archive;
    ck_assert_int_eq(output_open(&output, in_folder(name), NULL), XCVM_OK);
    ck_assert_int_eq(xct_archive_create((xcvm_sink){output_sink, &output}, NULL, &archive, NULL), XCVM_OK);
    ck_assert_int_eq(xct_archive_add(archive, "images", x, 0, NULL), XCVM_OK);
    ck_assert_int_eq(xct_archive_add(archive, "labels", y, 0, NULL), XCVM_OK);
    ck_assert_int_eq(xct_archive_finish(archive, NULL), XCVM_OK);
    xct_archive_destroy(archive);
    ck_assert_int_eq(output_finish(&output, NULL), XCVM_OK);
    xcvm_value_release(x);
    xcvm_value_release(y);
}

/* `rows` examples from number `first` on: x has the numbers 10 n and 10 n + 1, y has n. */
static void write_npz(const char *name, int64_t first, int64_t rows, xcvm_dtype x_type)
{
    xcvm_value *x = tensor(x_type, 2, (int64_t[]){rows, 2}), *y = tensor(XCVM_I64, 1, &rows);
    bool exceeds;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < 2; k++) {
            const int64_t number = 10 * (first + i) + k;
            if (x_type == XCVM_F32)
                ((float *)xcvm_value_data(x))[2 * i + k] = (float)number;
            else if (x_type == XCVM_U16)
                ((uint16_t *)xcvm_value_data(x))[2 * i + k] = (uint16_t)number;
            else if (x_type == XCVM_F16)
                ((uint16_t *)xcvm_value_data(x))[2 * i + k] =
                    (uint16_t)xcvm_float_encode(xcvm_float_format_of(XCVM_F16), (double)number, &exceeds);
        }
        ((int64_t *)xcvm_value_data(y))[i] = first + i;
    }
    write_pair(name, x, y);
}

static const xcvm_value_info inputs[] = {
    {"x", {.kind = XCVM_KIND_TENSOR, .dtype = XCVM_F32, .rank = 2, .dims = {-1, 2}}},
    {"y", {.kind = XCVM_KIND_TENSOR, .dtype = XCVM_I64, .rank = 1, .dims = {-1}}}};
static const xct_feed feed = {.inputs = inputs, .count = 2};
static const xct_column columns[] = {{"x", "images", 0}, {"y", "labels", 0}};

static xcvm_status make(const char *path, xct_dataset **set, xcvm_error *error)
{
    const char *paths[] = {path};
    return xct_dataset_make(&feed, paths, 1, columns, 2, NULL, set, error);
}

static xct_dataset *made(const char *path)
{
    xct_dataset *set = NULL;
    xcvm_error error = {.message = ""};
    ck_assert_msg(make(path, &set, &error) == XCVM_OK, "%s", error.message);
    return set;
}

/* Goes through epochs; each has each of `rows` examples once, in batches of `batch` but for the last. Returns a number
 * that depends on their order. */
static uint64_t go_through(const xct_dataset *set, uint64_t rows, const xct_loading *loading, bool shuffle)
{
    xct_order order;
    xct_loader *loader;
    xcvm_error error = {.message = ""};
    uint64_t hash = 0, seen = 0, epoch = loading->epoch;
    ck_assert_int_eq(xct_order_begin(&order, set, XCT_ALL, 0, shuffle, 5, &error), XCVM_OK);
    ck_assert_int_eq(xct_loader_create(&order, loading, &loader, &error), XCVM_OK);
    char *found = calloc(rows, 1);
    for (bool more = true;;) {
        xct_batch batch;
        ck_assert_msg(xct_loader_take(loader, &batch, &more, &error) == XCVM_OK, "%s", error.message);
        if (!more)
            break;
        const float *x = xcvm_value_data(batch.values[0]);
        const int64_t *y = xcvm_value_data(batch.values[1]);
        ck_assert_uint_eq(batch.epoch, epoch);
        ck_assert_uint_eq((uint64_t)xcvm_value_dims(batch.values[0])[0], batch.count);
        ck_assert(batch.count == loading->batch || batch.last);
        for (size_t i = 0; i < batch.count; i++) {
            ck_assert(x[2 * i] == 10 * (float)y[i] && x[2 * i + 1] == 10 * (float)y[i] + 1);
            ck_assert_uint_lt((uint64_t)y[i], rows);
            ck_assert_int_eq(found[y[i]], 0);
            found[y[i]] = 1;
            hash = hash * 31 + (uint64_t)y[i];
        }
        seen += batch.count;
        if (batch.last) {
            ck_assert_uint_eq(seen, loading->place > 0 && epoch == loading->epoch ? rows - loading->place : rows);
            memset(found, 0, rows);
            seen = 0;
            epoch++;
        }
    }
    ck_assert_uint_eq(epoch, loading->epochs);
    free(found);
    xct_loader_destroy(loader);
    xct_order_end(&order);
    return hash;
}

START_TEST(one_file)
{
    write_npz("a.npz", 0, 10, XCVM_F32);
    xct_dataset *set = made(in_folder("a.npz"));
    ck_assert_uint_eq(xct_dataset_example_count(set), 10);
    const xct_loading loading = {.batch = 3, .epochs = 3};
    const uint64_t shuffled = go_through(set, 10, &loading, true), plain = go_through(set, 10, &loading, false);
    ck_assert_uint_ne(shuffled, plain);
    ck_assert_uint_eq(shuffled, go_through(set, 10, &loading, true));
    xct_dataset_destroy(set);
}
END_TEST

START_TEST(shards)
{
    write_npz("train-2.npz", 5, 7, XCVM_F32);
    write_npz("train-1.npz", 0, 5, XCVM_F32);
    write_npz("train-3.npz", 12, 1, XCVM_F32);
    xct_dataset *set = made(in_folder("train-*.npz"));
    ck_assert_uint_eq(set->shard_count, 3);
    for (size_t batch = 1; batch <= 13; batch += 3) {
        const xct_loading loading = {.batch = batch, .epochs = 3};
        go_through(set, 13, &loading, true);
        go_through(set, 13, &loading, false);
    }
    xct_dataset_destroy(set);
    set = made(folder);
    ck_assert_uint_eq(xct_dataset_example_count(set), 13);
    xct_dataset_destroy(set);
}
END_TEST

/* A loader that starts at a position returns the batches that follow there without an interruption. */
START_TEST(resumed)
{
    write_npz("train-1.npz", 0, 5, XCVM_F32);
    write_npz("train-2.npz", 5, 7, XCVM_F32);
    xct_dataset *set = made(in_folder("train-*.npz"));
    xct_order order;
    ck_assert_int_eq(xct_order_begin(&order, set, XCT_ALL, 0, true, 5, NULL), XCVM_OK);
    const xct_loading all = {.batch = 5, .epochs = 2}, rest = {.batch = 5, .epoch = 1, .place = 5, .epochs = 2};
    int64_t first[24], again[24];
    size_t first_count = 0, again_count = 0;
    for (int pass = 0; pass < 2; pass++) {
        xct_loader *loader;
        ck_assert_int_eq(xct_loader_create(&order, pass == 0 ? &all : &rest, &loader, NULL), XCVM_OK);
        for (bool more = true;;) {
            xct_batch batch;
            ck_assert_int_eq(xct_loader_take(loader, &batch, &more, NULL), XCVM_OK);
            if (!more)
                break;
            for (size_t i = 0; i < batch.count; i++)
                if (pass == 0)
                    first[first_count++] = ((const int64_t *)xcvm_value_data(batch.values[1]))[i];
                else
                    again[again_count++] = ((const int64_t *)xcvm_value_data(batch.values[1]))[i];
        }
        xct_loader_destroy(loader);
    }
    ck_assert_uint_eq(first_count, 24);
    ck_assert_uint_eq(again_count, 7);
    ck_assert_mem_eq(first + 17, again, 7 * sizeof *again);
    xct_order_end(&order);
    xct_dataset_destroy(set);
}
END_TEST

/* Batches of one size leave examples out; of a part of each batch comes only that part. */
START_TEST(whole_batches_and_parts)
{
    write_npz("a.npz", 0, 10, XCVM_F32);
    xct_dataset *set = made(in_folder("a.npz"));
    xct_order order;
    ck_assert_int_eq(xct_order_begin(&order, set, XCT_ALL, 0, false, 5, NULL), XCVM_OK);
    const xct_loading whole = {.batch = 4, .epochs = 1, .whole = true},
                      part = {.batch = 4, .epochs = 1, .part = 1, .parts = 2};
    static const int64_t expected[] = {2, 3, 6, 7, 9};
    for (int pass = 0; pass < 2; pass++) {
        xct_loader *loader;
        size_t batches = 0, count = 0;
        ck_assert_int_eq(xct_loader_create(&order, pass == 0 ? &whole : &part, &loader, NULL), XCVM_OK);
        for (bool more = true;;) {
            xct_batch batch;
            ck_assert_int_eq(xct_loader_take(loader, &batch, &more, NULL), XCVM_OK);
            if (!more)
                break;
            batches++;
            for (size_t i = 0; i < batch.count && pass == 1; i++)
                ck_assert_int_eq(((const int64_t *)xcvm_value_data(batch.values[1]))[i], expected[count + i]);
            count += batch.count;
            ck_assert_int_eq(batch.last, batches == (pass == 0 ? 2U : 3U));
        }
        ck_assert_uint_eq(count, pass == 0 ? 8 : 5);
        xct_loader_destroy(loader);
    }
    xct_order_end(&order);
    xct_dataset_destroy(set);
}
END_TEST

START_TEST(converted)
{
    write_npz("a.npz", 0, 10, XCVM_U16);
    xct_dataset *set = made(in_folder("a.npz"));
    const xct_loading loading = {.batch = 4, .epochs = 1};
    go_through(set, 10, &loading, true);
    xct_dataset_destroy(set);
}
END_TEST

START_TEST(separate_arrays)
{
    int64_t rows = 3;
    xcvm_value *x = tensor(XCVM_F32, 2, (int64_t[]){rows, 2}), *y = tensor(XCVM_I64, 1, &rows);
    for (int i = 0; i < 3; i++) {
        ((float *)xcvm_value_data(x))[2 * i] = (float)(10 * i);
        ((float *)xcvm_value_data(x))[2 * i + 1] = (float)(10 * i + 1);
        ((int64_t *)xcvm_value_data(y))[i] = i;
    }
    const xcvm_value *values[] = {x, y};
    static const char *const names[] = {"images.npy", "labels.npy"};
    for (int i = 0; i < 2; i++) {
        struct output output;
        ck_assert_int_eq(output_open(&output, in_folder(names[i]), NULL), XCVM_OK);
        ck_assert_int_eq(xct_array_save(values[i], 0, (xcvm_sink){output_sink, &output}, NULL), XCVM_OK);
        ck_assert_int_eq(output_finish(&output, NULL), XCVM_OK);
    }
    const xct_loading loading = {.batch = 2, .epochs = 2};
    xct_dataset *set = made(folder);
    ck_assert_uint_eq(set->shard_count, 1);
    go_through(set, 3, &loading, true);
    xct_dataset_destroy(set);
    xcvm_value_release(x);
    xcvm_value_release(y);
}
END_TEST

START_TEST(refused)
{
    static const xcvm_value_info wide[] = {
        {"x", {.kind = XCVM_KIND_TENSOR, .dtype = XCVM_F32, .rank = 2, .dims = {-1, 3}}},
        {"y", {.kind = XCVM_KIND_TENSOR, .dtype = XCVM_I64, .rank = 1, .dims = {-1}}}};
    static const xcvm_value_info narrow[] = {
        {"x", {.kind = XCVM_KIND_TENSOR, .dtype = XCVM_F32, .rank = 2, .dims = {-1, 2}}},
        {"y", {.kind = XCVM_KIND_TENSOR, .dtype = XCVM_F32, .rank = 1, .dims = {-1}}}};
    static const xcvm_value_info open[] = {
        {"x", {.kind = XCVM_KIND_TENSOR, .dtype = XCVM_F32, .rank = 2, .dims = {-1, -1}}},
        {"y", {.kind = XCVM_KIND_TENSOR, .dtype = XCVM_I64, .rank = 1, .dims = {-1}}}};
    static const xct_column absent[] = {{"x", "pictures", 0}, {"y", "labels", 0}};
    static const xct_column nobody[] = {{"z", "images", 0}};
    static const struct {
        const xcvm_value_info *inputs;
        const xct_column *columns;
        size_t column_count;
        const char *file;
        xcvm_status status;
        const char *message;
    } rows[] = {
        {wide, columns, 2, "a.npz", XCVM_SHAPE_MISMATCH, "array \"images\" is [10x2], input \"x\" wants [?x3]"},
        {narrow, columns, 2, "a.npz", XCVM_TYPE_MISMATCH, "array \"labels\" is of i64, input \"y\" wants f32"},
        {inputs, absent, 2, "a.npz", XCVM_INVALID_ARGUMENT, "has no array \"pictures\"; it holds: images, labels"},
        {inputs, nobody, 1, "a.npz", XCVM_INVALID_ARGUMENT, "there is no input \"z\"; there is: x, y"},
        {inputs, columns, 2, "none.npz", XCVM_IO, "No such file"},
        {inputs, columns, 2, "none-*.npz", XCVM_IO, "no file has such a name"},
        {inputs, columns, 2, "empty.npz", XCVM_INVALID_ARGUMENT, "the data set is empty"},
        {open, columns, 2, "nothing.npz", XCVM_SHAPE_MISMATCH,
         "array \"images\": the examples for input \"x\" are without elements in [3x0]"},
        {inputs, columns, 2, "text.npz", XCVM_INVALID_ARGUMENT, "this is a text"},
        {inputs, columns, 2, "uneven.npz", XCVM_SHAPE_MISMATCH,
         "array \"labels\" has 3 examples, but array \"images\" 2"},
    };
    write_npz("a.npz", 0, 10, XCVM_F32);
    write_npz("empty.npz", 0, 0, XCVM_F32);
    write_pair("uneven.npz", tensor(XCVM_F32, 2, (int64_t[]){2, 2}), tensor(XCVM_I64, 1, (int64_t[]){3}));
    write_pair("nothing.npz", tensor(XCVM_F32, 2, (int64_t[]){3, 0}), tensor(XCVM_I64, 1, (int64_t[]){3}));
    ck_assert_int_eq(output_write(in_folder("text.npz"), "hello, world", 12, NULL), XCVM_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const xct_feed own = {.inputs = rows[i].inputs, .count = 2};
        const char *paths[] = {in_folder(rows[i].file)};
        xct_dataset *set = NULL;
        xcvm_error error = {.message = ""};
        const xcvm_status status =
            xct_dataset_make(&own, paths, 1, rows[i].columns, rows[i].column_count, NULL, &set, &error);
        ck_assert_msg(status == rows[i].status && strstr(error.message, rows[i].message) != NULL, "row %zu: %d, %s", i,
                      status, error.message);
    }
}
END_TEST

START_TEST(not_a_number)
{
    xcvm_value *x = tensor(XCVM_F32, 2, (int64_t[]){3, 2});
    ((float *)xcvm_value_data(x))[5] = NAN;
    write_pair("nan.npz", x, tensor(XCVM_I64, 1, (int64_t[]){3}));
    xct_dataset *set = made(in_folder("nan.npz"));
    xct_order order;
    xct_loader *loader;
    xct_batch batch;
    xcvm_error error = {.message = ""};
    bool more;
    ck_assert_int_eq(xct_order_begin(&order, set, XCT_ALL, 0, false, 0, NULL), XCVM_OK);
    const xct_loading loading = {.batch = 1, .epochs = 1};
    ck_assert_int_eq(xct_loader_create(&order, &loading, &loader, NULL), XCVM_OK);
    ck_assert_int_eq(xct_loader_take(loader, &batch, &more, &error), XCVM_OK);
    ck_assert_int_eq(xct_loader_take(loader, &batch, &more, &error), XCVM_OK);
    ck_assert_int_eq(xct_loader_take(loader, &batch, &more, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "array \"images\" has NaN (not a number) in example 2"));
    xct_loader_destroy(loader);
    xct_order_end(&order);
    xct_dataset_destroy(set);
}
END_TEST

/* The name of a directory is not a pattern. */
START_TEST(folders_with_marks)
{
    static const char *const names[] = {"dq?", "dqz", "da[1]"};
    for (size_t i = 0; i < 3; i++) {
        char path[40];
        ck_assert_int_eq(mkdir(in_folder(names[i]), 0700), 0);
        snprintf(path, sizeof path, "%s/a.npz", names[i]);
        write_npz(path, 0, 3, XCVM_F32);
        snprintf(path, sizeof path, "%s/.b.npz", names[i]);
        write_npz(path, 0, 3, XCVM_F32);
    }
    for (size_t i = 0; i < 3; i++) {
        xct_dataset *set = made(in_folder(names[i]));
        ck_assert_uint_eq(xct_dataset_example_count(set), 3);
        xct_dataset_destroy(set);
    }
}
END_TEST

static void write_image(const char *name, int64_t height, int64_t width, int color)
{
    xcvm_value *image = tensor(XCVM_U8, 3, (int64_t[]){height, width, 3});
    struct output output;
    memset(xcvm_value_data(image), color, xcvm_value_bytes(image));
    ck_assert_int_eq(output_open(&output, in_folder(name), NULL), XCVM_OK);
    ck_assert_int_eq(png_write(image, (xcvm_sink){output_sink, &output}, NULL), XCVM_OK);
    ck_assert_int_eq(output_finish(&output, NULL), XCVM_OK);
    xcvm_value_release(image);
}

/* Decoding counts against the memory and time limits. The same data set can be read with larger limits. */
START_TEST(images_within_limits)
{
    static const xcvm_value_info own[] = {
        {"x", {.kind = XCVM_KIND_TENSOR, .dtype = XCVM_F32, .rank = 4, .dims = {-1, 3, 4, 4}}}};
    ck_assert_int_eq(mkdir(in_folder("large"), 0700), 0);
    write_image("large/1.png", 1000, 1000, 7);
    const char *paths[] = {folder};
    static const struct {
        size_t memory;
        uint64_t timeout;
        xcvm_status status;
        const char *message;
    } rows[] = {{1 << 20, 0, XCVM_OUT_OF_MEMORY, "would go past the memory limit of 1048576"},
                {0, 1, XCVM_OUT_OF_TIME, "exceeds the time limit"},
                {64 << 20, (uint64_t)60 * 1000000000, XCVM_OK, ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        xct_dataset *set;
        xcvm_value *value = NULL;
        xcvm_error error = {.message = ""};
        ck_assert_int_eq(xct_dataset_create_for_inputs(own, 1, paths, 1, NULL, 0, NULL, &set, &error), XCVM_OK);
        xct_dataset_set_limits(set, rows[i].memory, rows[i].timeout);
        const xcvm_status status = xct_dataset_read(set, 0, 1, &value, &error);
        ck_assert_msg(status == rows[i].status && strstr(error.message, rows[i].message) != NULL, "row %zu: %d, %s", i,
                      status, error.message);
        ck_assert((value != NULL) == (status == XCVM_OK));
        xct_dataset_destroy(set);
        xcvm_value_release(value);
    }
}
END_TEST

/* A mixed order has each example once, over several files, is the same each time, and differs between seeds. */
START_TEST(mixed_order)
{
    enum { EACH = 8, ALL = 2 * EACH };
    float orders[3][ALL];
    write_npz("a.npz", 0, EACH, XCVM_F32);
    write_npz("b.npz", EACH, EACH, XCVM_F32);
    const char *paths[] = {in_folder("?.npz")};
    for (size_t k = 0; k < 3; k++) {
        bool seen[ALL] = {false}, moved = false;
        const xct_column by[] = {{"x", "images", 0}, {"y", "labels", 0}};
        xct_dataset *set;
        ck_assert_int_eq(xct_dataset_create_for_inputs(inputs, 2, paths, 1, by, 2, NULL, &set, NULL), XCVM_OK);
        xct_dataset_mix(set, k / 2);
        for (uint64_t first = 0; first < ALL; first += 4) {
            xcvm_value *values[2];
            ck_assert_int_eq(xct_dataset_read(set, first, 4, values, NULL), XCVM_OK);
            for (size_t i = 0; i < 4; i++) {
                const float *row = xcvm_value_data(values[0]);
                const size_t example = (size_t)(row[i * 2] / 10);
                ck_assert_uint_lt(example, ALL);
                ck_assert(!seen[example]);
                seen[example] = true;
                orders[k][first + i] = row[i * 2];
                moved = moved || example != first + i;
            }
            xcvm_value_release(values[0]);
            xcvm_value_release(values[1]);
        }
        ck_assert(moved);
        xct_dataset_destroy(set);
    }
    ck_assert_mem_eq(orders[0], orders[1], sizeof orders[0]);
    ck_assert_mem_ne(orders[0], orders[2], sizeof orders[0]);
    xct_dataset_mix(NULL, 0);
}
END_TEST

/* Two classes of pictures of one color each, of another size than the input. */
START_TEST(image_folders)
{
    static const char *const names[] = {"black/1.png", "black/2.png", "white/1.png"};
    ck_assert_int_eq(mkdir(in_folder("black"), 0700), 0);
    ck_assert_int_eq(mkdir(in_folder("white"), 0700), 0);
    for (int i = 0; i < 3; i++)
        write_image(names[i], 8, 6, i == 2 ? 255 : 0);
    static const struct {
        xcvm_dtype dtype;
        int64_t dims[4];
        double white;
    } rows[] = {{XCVM_F32, {-1, 3, 4, 4}, 1}, {XCVM_F32, {-1, 5, 7, 1}, 1}, {XCVM_U8, {-1, 1, 8, 6}, 255}};
    for (size_t r = 0; r < 3; r++) {
        xcvm_value_info own[] = {{"x", {.kind = XCVM_KIND_TENSOR, .dtype = rows[r].dtype, .rank = 4}}, inputs[1]};
        memcpy(own[0].type.dims, rows[r].dims, sizeof rows[r].dims);
        const xct_feed own_feed = {.inputs = own, .count = 2};
        const char *paths[] = {folder};
        xct_dataset *set = NULL;
        xct_order order;
        xct_loader *loader;
        xct_batch batch;
        bool more;
        xcvm_error error = {.message = ""};
        ck_assert_msg(xct_dataset_make(&own_feed, paths, 1, NULL, 0, NULL, &set, &error) == XCVM_OK, "%s",
                      error.message);
        ck_assert_int_eq(xct_order_begin(&order, set, XCT_ALL, 0, false, 0, NULL), XCVM_OK);
        const xct_loading loading = {.batch = 3, .epochs = 1};
        ck_assert_int_eq(xct_loader_create(&order, &loading, &loader, &error), XCVM_OK);
        ck_assert_msg(xct_loader_take(loader, &batch, &more, &error) == XCVM_OK, "%s", error.message);
        const int64_t *labels = xcvm_value_data(batch.values[1]);
        ck_assert(labels[0] == 0 && labels[1] == 0 && labels[2] == 1);
        const size_t count = xcvm_value_count(batch.values[0]);
        for (size_t i = 0; i < count; i++) {
            double number = 0;
            const size_t size = xcvm_dtype_size(rows[r].dtype);
            xct_convert(rows[r].dtype, (char *)xcvm_value_data(batch.values[0]) + i * size, XCVM_F64, &number, 1);
            ck_assert_msg(fabs(number - (i < count / 3 * 2 ? 0 : rows[r].white)) < 1e-5, "%zu: %g", i, number);
        }
        xct_loader_destroy(loader);
        xct_order_end(&order);
        xct_dataset_destroy(set);
    }
}
END_TEST

/* A factor multiplies arrays of any type for inputs of any float type. Inputs of integers take none. */
START_TEST(factors)
{
    static const struct {
        xcvm_dtype array, input;
        double factor;
    } rows[] = {{XCVM_F32, XCVM_F32, 2},
                {XCVM_U16, XCVM_F32, 0.25},
                {XCVM_U16, XCVM_F64, 0.1},
                {XCVM_F16, XCVM_F16, 0.25},
                {XCVM_F32, XCVM_F64, 3}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const xcvm_value_info own[] = {
            {"x", {.kind = XCVM_KIND_TENSOR, .dtype = rows[r].input, .rank = 2, .dims = {-1, 2}}}, inputs[1]};
        const xct_column by[] = {{"x", "images", rows[r].factor}, {"y", "labels", 0}};
        const char *paths[] = {in_folder("f.npz")};
        xct_dataset *set = NULL;
        xcvm_value *values[2];
        xcvm_error error = {.message = ""};
        write_npz("f.npz", 0, 2, rows[r].array);
        ck_assert_msg(xct_dataset_create_for_inputs(own, 2, paths, 1, by, 2, NULL, &set, &error) == XCVM_OK, "%s",
                      error.message);
        ck_assert(xct_dataset_scale(set, "x") == rows[r].factor);
        ck_assert_int_eq(xct_dataset_read(set, 0, 2, values, &error), XCVM_OK);
        for (size_t i = 0; i < 4; i++) {
            double number = 0;
            const double wanted = (double)(10 * (i / 2) + i % 2) * rows[r].factor;
            xct_convert(rows[r].input, (char *)xcvm_value_data(values[0]) + i * xcvm_dtype_size(rows[r].input),
                        XCVM_F64, &number, 1);
            ck_assert_msg(fabs(number - wanted) <= 1e-6 * wanted, "row %zu: %g, not %g", r, number, wanted);
        }
        for (size_t i = 0; i < 2; i++)
            xcvm_value_release(values[i]);
        xct_dataset_destroy(set);
    }
    const xct_column labels[] = {{"x", "images", 0}, {"y", "labels", 0.5}};
    const char *paths[] = {in_folder("f.npz")};
    xct_dataset *set = NULL;
    xcvm_error error = {.message = ""};
    ck_assert_int_eq(xct_dataset_create_for_inputs(inputs, 2, paths, 1, labels, 2, NULL, &set, &error),
                     XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "input \"y\" is of i64") != NULL, "%s", error.message);
}
END_TEST

/* The factor of images multiplies their bytes, so that *1/255 is what they have without one. */
START_TEST(factors_of_images)
{
    static const struct {
        xcvm_dtype dtype;
        double factor, wanted;
    } rows[] = {{XCVM_F32, 0, 51 / 255.0}, {XCVM_F32, 1.0 / 255, 51 / 255.0},
                {XCVM_F32, 1, 51},         {XCVM_F32, 2, 102},
                {XCVM_F64, 0.1, 5.1},      {XCVM_F16, 1, 51}};
    write_image("1.png", 8, 6, 51);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const xcvm_value_info own[] = {
            {"x", {.kind = XCVM_KIND_TENSOR, .dtype = rows[r].dtype, .rank = 4, .dims = {-1, 3, 4, 4}}}};
        const xct_column by[] = {{"x", NULL, rows[r].factor}};
        const char *paths[] = {folder};
        xct_dataset *set = NULL;
        xcvm_value *value;
        xcvm_error error = {.message = ""};
        ck_assert_msg(xct_dataset_create_for_inputs(own, 1, paths, 1, by, 1, NULL, &set, &error) == XCVM_OK, "%s",
                      error.message);
        ck_assert(xct_dataset_scale(set, "x") == rows[r].factor);
        ck_assert_msg(xct_dataset_read(set, 0, 1, &value, &error) == XCVM_OK, "%s", error.message);
        for (size_t i = 0; i < xcvm_value_count(value); i++) {
            double number = 0;
            xct_convert(rows[r].dtype, (char *)xcvm_value_data(value) + i * xcvm_dtype_size(rows[r].dtype), XCVM_F64,
                        &number, 1);
            ck_assert_msg(fabs(number - rows[r].wanted) <= 1e-6 * rows[r].wanted, "row %zu: %g", r, number);
        }
        xcvm_value_release(value);
        xct_dataset_destroy(set);
    }
}
END_TEST

START_TEST(conversions)
{
    static const int16_t shorts[] = {-32768, 32767, -1};
    float floats[3];
    ck_assert(xct_converts(XCVM_I16, XCVM_F32) && !xct_converts(XCVM_I32, XCVM_F32) &&
              !xct_converts(XCVM_F64, XCVM_F32));
    ck_assert(xct_converts(XCVM_U32, XCVM_I64) && !xct_converts(XCVM_U32, XCVM_I32) &&
              !xct_converts(XCVM_I64, XCVM_F64));
    xct_convert(XCVM_I16, shorts, XCVM_F32, floats, 3);
    for (int i = 0; i < 3; i++)
        ck_assert(floats[i] == (float)shorts[i]);
    const uint16_t halves[] = {0x7c00, 0x7c01}; /* infinity and NaN */
    ck_assert(!xct_has_nan(XCVM_F16, halves, 1) && xct_has_nan(XCVM_F16, halves, 2));
    const double doubles[] = {INFINITY, NAN};
    ck_assert(!xct_has_nan(XCVM_F64, doubles, 1) && xct_has_nan(XCVM_F64, doubles, 2));
}
END_TEST

/* The clock is looked at where elements are copied, too; without a limit they are there. */
START_TEST(arrays_in_time)
{
    char npy[128 + 4] = "\x93NUMPY\x01";
    xct_arrays *arrays;
    xcvm_value *value = NULL;
    xcvm_error error = {0};
    npy[8] = 118;
    memset(npy + 10, ' ', 118);
    static const char header[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }";
    memcpy(npy + 10, header, sizeof header - 1);
    npy[127] = '\n';
    ck_assert_int_eq(xct_arrays_load(npy, sizeof npy, NULL, &arrays, &error), XCVM_OK);
    xct_arrays_set_timeout(arrays, 1);
    ck_assert_int_eq(xct_arrays_read(arrays, 0, XCVM_U8, &value, &error), XCVM_OUT_OF_TIME);
    xct_arrays_set_timeout(arrays, 0);
    ck_assert_int_eq(xct_arrays_read(arrays, 0, XCVM_U8, &value, &error), XCVM_OK);
    xcvm_value_release(value);
    xct_arrays_destroy(arrays);
}
END_TEST

/* Integers for floats by a factor; a label that is no class, and the ignored one. */
START_TEST(scales_and_labels)
{
    static const uint8_t bytes[] = {0, 51, 102, 255};
    static const int64_t numbers[] = {1, -100};
    static const float scaled[] = {0, 0.2F, 0.4F, 1};
    const xct_column by_255[] = {{"x", "images", 1.0 / 255}, {"y", "labels", 0}};
    const char *paths[] = {in_folder("bytes.npz")};
    xcvm_value *x = tensor(XCVM_U8, 2, (int64_t[]){2, 2}), *y = tensor(XCVM_I64, 1, (int64_t[]){2});
    memcpy(xcvm_value_data(x), bytes, sizeof bytes);
    memcpy(xcvm_value_data(y), numbers, sizeof numbers);
    write_pair("bytes.npz", x, y);
    for (int by = 0; by < 2; by++) {
        xct_dataset *set = NULL;
        xcvm_error error = {.message = ""};
        xcvm_value *values[2];
        ck_assert_int_eq(xct_dataset_make(&feed, paths, 1, by ? by_255 : columns, 2, NULL, &set, &error), XCVM_OK);
        ck_assert(xct_dataset_scale(set, "x") == (by ? 1.0 / 255 : 1.0));
        ck_assert(xct_dataset_scale(set, "y") == 0);
        ck_assert_int_eq(xct_dataset_read(set, 0, 2, values, &error), XCVM_OK);
        for (size_t i = 0; i < 4; i++) {
            const float is = ((const float *)xcvm_value_data(values[0]))[i];
            ck_assert(by ? fabsf(is - scaled[i]) < 1e-6F : is == (float)bytes[i]);
        }
        for (size_t i = 0; i < 2; i++)
            xcvm_value_release(values[i]);
        xct_dataset_destroy(set);
    }
    static const struct {
        int64_t classes, ignored;
        const char *message; /* NULL: it is opened */
    } rows[] = {{2, -100, NULL},
                {1, -100,
                 "array \"labels\" has the label 1 in example 0, counted from 0 (expected 0 to 0, as the model has "
                 "scores of 1 classes, or -100"},
                {2, -1, "has the label -100 in example 1"},
                {-1, -1, NULL}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        xct_feed own = feed;
        own.labels = (xct_label_rule){
            .checked = true, .input = 1, .classes = rows[r].classes, .ignores = true, .ignored = rows[r].ignored};
        xct_dataset *set = NULL;
        xcvm_error error = {.message = ""};
        const xcvm_status status = xct_dataset_make(&own, paths, 1, columns, 2, NULL, &set, &error);
        ck_assert_int_eq(status, rows[r].message == NULL ? XCVM_OK : XCVM_OUT_OF_RANGE);
        ck_assert_msg(rows[r].message == NULL || strstr(error.message, rows[r].message) != NULL, "%s", error.message);
        xct_dataset_destroy(set);
    }
}
END_TEST

Suite *suite_train_dataset(void)
{
    Suite *suite = suite_create("train_dataset");
    TCase *tests = tcase_create("dataset");
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, arrays_in_time);
    tcase_add_test(tests, one_file);
    tcase_add_test(tests, shards);
    tcase_add_test(tests, resumed);
    tcase_add_test(tests, whole_batches_and_parts);
    tcase_add_test(tests, converted);
    tcase_add_test(tests, separate_arrays);
    tcase_add_test(tests, refused);
    tcase_add_test(tests, scales_and_labels);
    tcase_add_test(tests, factors);
    tcase_add_test(tests, factors_of_images);
    tcase_add_test(tests, not_a_number);
    tcase_add_test(tests, folders_with_marks);
    tcase_add_test(tests, mixed_order);
    tcase_add_test(tests, image_folders);
    tcase_add_test(tests, images_within_limits);
    tcase_add_test(tests, conversions);
    suite_add_tcase(suite, tests);
    return suite;
}
