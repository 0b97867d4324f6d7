/* Tests of TensorProto in its encodings, values in ONNX's files, and external weights. */
#include "base/budget.h"
#include "compiler/onnx_model/onnx_model.h"
#include "proto/wire.h"
#include "tests/support.h"
#include "xcvm/compiler.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static xcvm_error error;

/* A module that owns the tensors. */
static xcc_module m;

static void begin(void) { ck_assert_int_eq(xcc_module_init(&m, NULL, &error), XCVM_OK); }
static void finish(void) { xcc_module_release(&m); }

static Onnx__TensorProto proto_of(xcvm_dtype dtype, size_t rank, int64_t *dims)
{
    Onnx__TensorProto proto = ONNX__TENSOR_PROTO__INIT;
    proto.has_data_type = 1;
    proto.data_type = (int32_t)dtype;
    proto.n_dims = rank;
    proto.dims = dims;
    return proto;
}

static xcvm_status read_tensor(const Onnx__TensorProto *proto, xcc_tensor *t)
{
    return xcc_tensor_read(proto, &m.arena, NULL, t, &error);
}

START_TEST(raw_data)
{
    int64_t dims[] = {2};
    float numbers[] = {1, 2};
    xcc_tensor t;
    Onnx__TensorProto proto = proto_of(XCVM_F32, 1, dims);
    proto.has_raw_data = 1;
    proto.raw_data = (ProtobufCBinaryData){sizeof numbers, (uint8_t *)numbers};
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_OK);
    ck_assert_ptr_eq(t.data, numbers);
    ck_assert_uint_eq(t.count, 2);
    proto.raw_data.len = 7;
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_INVALID_MODEL);
    ck_assert_ptr_nonnull(strstr(error.message, "7 bytes, 8 are needed"));
    uint8_t flags[] = {0, 7};
    proto = proto_of(XCVM_BOOL, 1, dims);
    proto.has_raw_data = 1;
    proto.raw_data = (ProtobufCBinaryData){2, flags};
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_OK);
    ck_assert_int_eq(((const uint8_t *)t.data)[1], 1);
}
END_TEST

START_TEST(typed_fields)
{
    int64_t dims[] = {2};
    int32_t ints[] = {-1, 300};
    uint64_t words[] = {5, UINT32_MAX};
    double doubles[] = {1, 2, 3, 4};
    xcc_tensor t;
    static const xcvm_dtype narrow[] = {XCVM_I8,  XCVM_U8,   XCVM_I16,    XCVM_U16,
                                        XCVM_F16, XCVM_BF16, XCVM_F8E5M2, XCVM_I32};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
        Onnx__TensorProto proto = proto_of(narrow[i], 1, dims);
        proto.n_int32_data = 2;
        proto.int32_data = ints;
        ck_assert_int_eq(read_tensor(&proto, &t), XCVM_OK);
        size_t size = xcvm_dtype_size(narrow[i]);
        ck_assert_int_eq(memcmp(t.data, &ints[0], size), 0);
        ck_assert_int_eq(memcmp((const char *)t.data + size, &ints[1], size), 0);
    }
    Onnx__TensorProto proto = proto_of(XCVM_U32, 1, dims);
    proto.n_uint64_data = 2;
    proto.uint64_data = words;
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_OK);
    ck_assert_uint_eq(((const uint32_t *)t.data)[1], UINT32_MAX);
    proto = proto_of(XCVM_C128, 1, dims);
    proto.n_double_data = 4;
    proto.double_data = doubles;
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_OK);
    ck_assert_ptr_eq(t.data, doubles);
    proto.n_double_data = 2;
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_INVALID_MODEL);
    ck_assert_ptr_nonnull(strstr(error.message, "double_data has 2 entries, 4 are needed"));
    /* Two to a byte, a byte to an entry. */
    int64_t three[] = {3};
    int32_t packed[] = {0x21, 0x03};
    proto = proto_of(XCVM_I4, 1, three);
    proto.n_int32_data = 2;
    proto.int32_data = packed;
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_OK);
    ck_assert_uint_eq(t.bytes, 2);
    ck_assert_int_eq(((const uint8_t *)t.data)[0], 0x21);
    /* A number that ONNX may give to a type, and a type of this machine's own. */
    proto = proto_of(28, 1, dims);
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_UNSUPPORTED);
    proto = proto_of(XCVM_F24, 1, dims);
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_INVALID_MODEL);
}
END_TEST

START_TEST(shapes_that_do_not_fit)
{
    int64_t negative[] = {-1}, huge[] = {INT64_MAX, 3}, many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    xcc_tensor t;
    Onnx__TensorProto proto = proto_of(XCVM_F32, 1, negative);
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_INVALID_MODEL);
    proto = proto_of(XCVM_F32, 2, huge);
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_INVALID_MODEL);
    proto = proto_of(XCVM_F32, 9, many);
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_UNSUPPORTED);
    proto = proto_of((xcvm_dtype)27, 0, NULL);
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_UNSUPPORTED);
    proto = proto_of((xcvm_dtype)77, 0, NULL);
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_INVALID_MODEL);
    proto = proto_of(XCVM_F32, 0, NULL);
    proto.has_data_type = 0;
    ck_assert_int_eq(read_tensor(&proto, &t), XCVM_INVALID_MODEL);
}
END_TEST

START_TEST(sparse_tensors)
{
    int64_t dims[] = {2, 3}, count[] = {2}, pairs[] = {2, 2};
    float numbers[] = {5, 6};
    int64_t linear[] = {1, 5}, coordinates[] = {0, 1, 1, 2};
    Onnx__TensorProto values = proto_of(XCVM_F32, 1, count), indices = proto_of(XCVM_I64, 1, count);
    values.n_float_data = 2;
    values.float_data = numbers;
    indices.n_int64_data = 2;
    indices.int64_data = linear;
    Onnx__SparseTensorProto sparse = ONNX__SPARSE_TENSOR_PROTO__INIT;
    sparse.values = &values;
    sparse.indices = &indices;
    sparse.n_dims = 2;
    sparse.dims = dims;
    static const float expected[] = {0, 5, 0, 0, 0, 6};
    xcc_tensor t;
    ck_assert_int_eq(xcc_sparse_tensor_read(&sparse, &m.arena, NULL, 1 << 20, &t, &error), XCVM_OK);
    ck_assert_mem_eq(t.data, expected, sizeof expected);
    indices.n_dims = 2;
    indices.dims = pairs;
    indices.n_int64_data = 4;
    indices.int64_data = coordinates;
    ck_assert_int_eq(xcc_sparse_tensor_read(&sparse, &m.arena, NULL, 1 << 20, &t, &error), XCVM_OK);
    ck_assert_mem_eq(t.data, expected, sizeof expected);
    coordinates[3] = 3;
    ck_assert_int_eq(xcc_sparse_tensor_read(&sparse, &m.arena, NULL, 1 << 20, &t, &error), XCVM_INVALID_MODEL);
    sparse.indices = NULL;
    ck_assert_int_eq(xcc_sparse_tensor_read(&sparse, &m.arena, NULL, 1 << 20, &t, &error), XCVM_INVALID_MODEL);
    sparse.indices = &indices;
    dims[0] = dims[1] = 1 << 20;
    ck_assert_int_eq(xcc_sparse_tensor_read(&sparse, &m.arena, NULL, 1 << 20, &t, &error), XCVM_UNSUPPORTED);
}
END_TEST

/* ---- Files of values ---- */

static xcvm_value *tensor_of(xcvm_dtype dtype, int rank, const int64_t *dims, const void *data)
{
    xcvm_value *v;
    ck_assert_int_eq(xcvm_tensor_create(NULL, dtype, rank, dims, &v, &error), XCVM_OK);
    memcpy(xcvm_value_data(v), data, xcvm_value_bytes(v));
    return v;
}

static void check_round_trip(const xcvm_value *v, xcvm_kind kind)
{
    test_bytes bytes = {0}, again = {0};
    char name[128];
    xcvm_value *copy;
    const xcvm_type type = {.kind = kind, .dtype = xcvm_value_dtype(v), .rank = -1};
    ck_assert_int_eq(xcc_value_save(v, "some name", (xcvm_sink){test_bytes_sink, &bytes}, &error), XCVM_OK);
    xcvm_status status = xcc_value_load(bytes.at, bytes.length, &type, NULL, 0, name, &copy, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    ck_assert_str_eq(name, "some name");
    ck_assert_int_eq(xcvm_value_kind(copy), kind);
    ck_assert_int_eq(xcvm_value_dtype(copy), xcvm_value_dtype(v));
    ck_assert_uint_eq(xcvm_value_count(copy), xcvm_value_count(v));
    ck_assert_int_eq(xcc_value_save(copy, "some name", (xcvm_sink){test_bytes_sink, &again}, &error), XCVM_OK);
    ck_assert(test_bytes_equal(&bytes, &again));
    xcvm_value_release(copy);
    for (size_t n = 0; n < bytes.length; n++) {
        char *prefix = malloc(n > 0 ? n : 1);
        memcpy(prefix, bytes.at, n);
        if (xcc_value_load(prefix, n, &type, NULL, 0, name, &copy, &error) == XCVM_OK)
            xcvm_value_release(copy);
        free(prefix);
    }
    for (size_t fail_at = 1;; fail_at++) {
        test_allocator a;
        test_allocator_start(&a, fail_at);
        status = xcc_value_load(bytes.at, bytes.length, &type, &a.allocator, 0, name, &copy, &error);
        if (status == XCVM_OK) {
            xcvm_value_release(copy);
            ck_assert_uint_eq(a.live, 0);
            break;
        }
        ck_assert_int_eq(status, XCVM_OUT_OF_MEMORY);
        ck_assert_uint_eq(a.live, 0);
    }
    test_bytes_free(&bytes);
    test_bytes_free(&again);
}

START_TEST(values_there_and_back)
{
    const int64_t dims[] = {2, 1};
    const float numbers[] = {1, 2};
    const char *strings[] = {"a", ""};
    xcvm_value *tensor = tensor_of(XCVM_F32, 2, dims, numbers), *text, *list, *nested, *optional, *empty;
    ck_assert_int_eq(xcvm_string_tensor_create(NULL, 2, dims, strings, NULL, &text, &error), XCVM_OK);
    xcvm_value *items[] = {tensor, tensor};
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_SEQUENCE, 2, items, &list, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_SEQUENCE, 1, &list, &nested, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_OPTIONAL, 1, &list, &optional, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_OPTIONAL, 0, NULL, &empty, &error), XCVM_OK);
    check_round_trip(tensor, XCVM_KIND_TENSOR);
    check_round_trip(text, XCVM_KIND_TENSOR);
    check_round_trip(list, XCVM_KIND_SEQUENCE);
    check_round_trip(nested, XCVM_KIND_SEQUENCE);
    check_round_trip(optional, XCVM_KIND_OPTIONAL);
    check_round_trip(empty, XCVM_KIND_OPTIONAL);
    xcvm_value_release(tensor);
    xcvm_value_release(text);
    xcvm_value_release(list);
    xcvm_value_release(nested);
    xcvm_value_release(optional);
    xcvm_value_release(empty);
}
END_TEST

/* A list of very many empty lists, of two bytes each: the clock is looked at, and items take no more than they are. */
START_TEST(lists_within_limits)
{
    enum { ITEMS = 1 << 16, MOST_OF_ONE = 300 };
    uint8_t *bytes = malloc(2 * (size_t)ITEMS);
    for (size_t i = 0; i < ITEMS; i++) {
        bytes[2 * i] = 5 << 3 | XCVM_WIRE_BYTES;
        bytes[2 * i + 1] = 0;
    }
    xcvm_value *value;
    xcvm_budget budget;
    const xcvm_type type = {.kind = XCVM_KIND_SEQUENCE, .rank = -1};
    ck_assert_int_eq(xcc_value_load(bytes, 2 * (size_t)ITEMS, &type, NULL, 1, NULL, &value, &error), XCVM_OUT_OF_TIME);
    ck_assert_ptr_nonnull(strstr(error.message, "reading the value exceeds the time limit"));
    xcvm_budget_begin(&budget, NULL, (size_t)ITEMS * MOST_OF_ONE);
    ck_assert_int_eq(xcc_value_load(bytes, 2 * (size_t)ITEMS, &type, &budget.allocator, 0, NULL, &value, &error),
                     XCVM_OK);
    ck_assert_uint_eq(xcvm_value_count(value), ITEMS);
    xcvm_value_release(value);
    ck_assert_uint_eq(budget.held, 0);
    xcvm_budget_begin(&budget, NULL, (size_t)ITEMS);
    ck_assert_int_eq(xcc_value_load(bytes, 2 * (size_t)ITEMS, &type, &budget.allocator, 0, NULL, &value, &error),
                     XCVM_OUT_OF_MEMORY);
    ck_assert_uint_eq(budget.held, 0);
    free(bytes);
}
END_TEST

/* A value has no directory for external data; the message does not mention a model. */
START_TEST(value_in_another_file)
{
    static const uint8_t bytes[] = {0x10, 1, 0x70, 1}; /* data_type: FLOAT, data_location: EXTERNAL */
    xcvm_value *value;
    ck_assert_int_eq(xcc_value_load(bytes, sizeof bytes, NULL, NULL, 0, NULL, &value, &error), XCVM_UNSUPPORTED);
    ck_assert_str_eq(error.message, "the value keeps its data in another file");
}
END_TEST

START_TEST(lists_nested_too_deep)
{
    test_bytes inner = {0};
    test_bytes_sink(&inner, "", 0);
    for (int i = 0; i < 1000; i++) {
        test_bytes outer = {0};
        uint8_t key[2 * XCVM_VARINT_SIZE];
        size_t n = xcvm_varint_put(key, 5 << 3 | XCVM_WIRE_BYTES);
        n += xcvm_varint_put(key + n, inner.length);
        test_bytes_sink(&outer, key, n);
        test_bytes_sink(&outer, inner.at, inner.length);
        test_bytes_free(&inner);
        inner = outer;
    }
    xcvm_value *value;
    const xcvm_type type = {.kind = XCVM_KIND_SEQUENCE, .rank = -1};
    ck_assert_int_eq(xcc_value_load(inner.at, inner.length, &type, NULL, 0, NULL, &value, &error), XCVM_INVALID_MODEL);
    ck_assert_ptr_nonnull(strstr(error.message, "nested deeper"));
    test_bytes_free(&inner);
}
END_TEST

/* ---- External data ---- */

static char folder[64];

static void in_folder(char path[160], const char *name) { snprintf(path, 160, "%s/%s", folder, name); }

static void make_folder(void)
{
    char path[160];
    begin();
    strcpy(folder, "/tmp/xcvm_external_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    in_folder(path, "inner");
    ck_assert_int_eq(mkdir(path, 0700), 0);
    in_folder(path, "inner/w.bin");
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    const float numbers[] = {0, 0, 0, 0, 1, 2};
    fwrite(numbers, 1, sizeof numbers, f);
    fclose(f);
    in_folder(path, "link");
    ck_assert_int_eq(symlink("inner", path), 0);
    in_folder(path, "inner/link.bin");
    ck_assert_int_eq(symlink("w.bin", path), 0);
    in_folder(path, "outer");
    ck_assert_int_eq(symlink("/etc", path), 0);
    in_folder(path, "pipe");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
}

static void remove_folder(void)
{
    static const char *const names[] = {"pipe", "outer", "inner/link.bin", "link", "inner/w.bin", "inner", ""};
    finish();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[160];
        in_folder(path, names[i]);
        remove(path);
    }
}

static xcvm_status read_external(const char *location, const char *offset, const char *length, const char *dir,
                                 xcc_tensor *t)
{
    static int64_t dims[] = {2};
    const char *pairs[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    Onnx__StringStringEntryProto entries[3], *list[3];
    Onnx__TensorProto proto = proto_of(XCVM_F32, 1, dims);
    xcc_external_files files = {.module = &m, .dir = dir};
    for (size_t i = 0; i < 3; i++) {
        if (pairs[i][1] == NULL)
            continue;
        onnx__string_string_entry_proto__init(&entries[proto.n_external_data]);
        entries[proto.n_external_data].key = (char *)(uintptr_t)pairs[i][0];
        entries[proto.n_external_data].value = (char *)(uintptr_t)pairs[i][1];
        list[proto.n_external_data] = &entries[proto.n_external_data];
        proto.n_external_data++;
    }
    proto.external_data = list;
    proto.has_data_location = 1;
    proto.data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    /* The location must outlive the files. */
    return xcc_tensor_read(&proto, &m.arena, &files, t, &error);
}

START_TEST(external_data_is_read)
{
    static const float expected[] = {1, 2};
    xcc_tensor t;
    xcvm_status status = read_external("inner/w.bin", "16", "8", folder, &t);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    ck_assert_mem_eq(t.data, expected, sizeof expected);
    ck_assert_int_eq(read_external("./inner//w.bin", "16", NULL, folder, &t), XCVM_OK);
    ck_assert_int_eq(read_external("inner/w.bin", NULL, NULL, folder, &t), XCVM_OK);
    /* Links inside the directory may be followed. */
    ck_assert_int_eq(read_external("link/w.bin", "16", NULL, folder, &t), XCVM_OK);
    ck_assert_mem_eq(t.data, expected, sizeof expected);
    ck_assert_int_eq(read_external("inner/link.bin", "16", NULL, folder, &t), XCVM_OK);
    ck_assert_mem_eq(t.data, expected, sizeof expected);
    char inner[160];
    in_folder(inner, "inner");
    ck_assert_int_eq(read_external("link.bin", "16", NULL, inner, &t), XCVM_OK);
}
END_TEST

START_TEST(external_data_is_refused)
{
    xcc_tensor t;
    static const struct {
        const char *location, *offset, *length, *part;
        xcvm_status status;
    } cases[] = {
        {"/etc/passwd", NULL, NULL, "absolute", XCVM_INVALID_MODEL},
        {"../w.bin", NULL, NULL, "is outside", XCVM_INVALID_MODEL},
        {"inner/../../w.bin", NULL, NULL, "is outside", XCVM_INVALID_MODEL},
        {"outer/passwd", NULL, NULL, "it leads to /etc/passwd", XCVM_IO},
        {"inner", NULL, NULL, "no regular file", XCVM_INVALID_MODEL},
        {"pipe", NULL, NULL, "no regular file", XCVM_INVALID_MODEL},
        {"absent", NULL, NULL, "no such file", XCVM_IO},
        {"", NULL, NULL, "no location", XCVM_INVALID_MODEL},
        {".", NULL, NULL, "no file", XCVM_INVALID_MODEL},
        {NULL, NULL, NULL, "no location", XCVM_INVALID_MODEL},
        {"inner/w.bin", "17", NULL, "8 at 17 are needed", XCVM_INVALID_MODEL},
        {"inner/w.bin", "18446744073709551615", NULL, "are needed", XCVM_INVALID_MODEL},
        {"inner/w.bin", "99999999999999999999", NULL, "no number", XCVM_INVALID_MODEL},
        {"inner/w.bin", "-1", NULL, "no number", XCVM_INVALID_MODEL},
        {"inner/w.bin", "0", "4", "length of 4 bytes, 8 are needed", XCVM_INVALID_MODEL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xcvm_status status = read_external(cases[i].location, cases[i].offset, cases[i].length, folder, &t);
        ck_assert_msg(status == cases[i].status && strstr(error.message, cases[i].part) != NULL, "case %zu: %s %s", i,
                      xcvm_status_name(status), error.message);
    }
    ck_assert_int_eq(read_external("inner/w.bin", NULL, NULL, NULL, &t), XCVM_INVALID_MODEL);
    ck_assert_ptr_nonnull(strstr(error.message, "external data"));
}
END_TEST

Suite *suite_compiler_tensor_proto(void);
Suite *suite_compiler_tensor_proto(void)
{
    Suite *suite = suite_create("compiler/tensor_proto");
    TCase *encodings = tcase_create("encodings");
    tcase_add_checked_fixture(encodings, begin, finish);
    tcase_add_test(encodings, raw_data);
    tcase_add_test(encodings, typed_fields);
    tcase_add_test(encodings, shapes_that_do_not_fit);
    tcase_add_test(encodings, sparse_tensors);
    suite_add_tcase(suite, encodings);
    TCase *values = tcase_create("values");
    tcase_add_test(values, values_there_and_back);
    tcase_add_test(values, lists_nested_too_deep);
    tcase_add_test(values, lists_within_limits);
    tcase_add_test(values, value_in_another_file);
    suite_add_tcase(suite, values);
    TCase *external = tcase_create("external data");
    tcase_add_checked_fixture(external, make_folder, remove_folder);
    tcase_add_test(external, external_data_is_read);
    tcase_add_test(external, external_data_is_refused);
    suite_add_tcase(suite, external);
    return suite;
}
