/* Tests of values and their reference counts. */
#include "base/value.h"
#include "tests/support.h"

#include <check.h>
#include <string.h>

static const int64_t *dims2(int64_t a, int64_t b)
{
    static int64_t dims[2];
    dims[0] = a;
    dims[1] = b;
    return dims;
}

START_TEST(sizes)
{
    size_t count, bytes;
    ck_assert(xcvm_tensor_size(XCVM_F32, 2, dims2(2, 3), &count, &bytes));
    ck_assert_uint_eq(count, 6);
    ck_assert_uint_eq(bytes, 24);
    ck_assert(xcvm_tensor_size(XCVM_I4, 1, dims2(5, 0), &count, &bytes));
    ck_assert_uint_eq(bytes, 3);
    ck_assert(xcvm_tensor_size(XCVM_U2, 1, dims2(5, 0), &count, &bytes));
    ck_assert_uint_eq(bytes, 2);
    ck_assert(xcvm_tensor_size(XCVM_F64, 0, NULL, &count, &bytes));
    ck_assert_uint_eq(bytes, 8);
    ck_assert(xcvm_tensor_size(XCVM_F32, 2, dims2(INT64_MAX / 4, 0), &count, &bytes));
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(bytes, 0);
    /* Other dimensions beside a 0 must not overflow either. */
    ck_assert(!xcvm_tensor_size(XCVM_F32, 2, dims2(INT64_MAX, 0), &count, &bytes));
    ck_assert(!xcvm_tensor_size(XCVM_F32, 2, dims2(-2, 0), &count, &bytes));
    ck_assert(!xcvm_tensor_size(XCVM_F32, 2, dims2(INT64_MAX, 2), &count, &bytes));
    ck_assert(!xcvm_tensor_size(XCVM_U8, 2, dims2(INT64_MAX, 2), &count, &bytes));
    ck_assert(!xcvm_tensor_size(XCVM_F64, 1, dims2(INT64_MAX / 4, 0), &count, &bytes));
    ck_assert(!xcvm_tensor_size(XCVM_F32, -1, NULL, &count, &bytes));
}
END_TEST

START_TEST(descriptions)
{
    char text[64];
    xcvm_value value = {.rank = 0};
    ck_assert_str_eq(xcvm_value_describe(&value, text, sizeof text), "null");
    xcvm_value_set_tensor(&value, XCVM_F32, 2, (int64_t[]){2, XCVM_ANY_DIM});
    ck_assert_str_eq(xcvm_value_describe(&value, text, sizeof text), "f32[2x?]");
    xcvm_value_set_tensor(&value, XCVM_I64, 0, NULL);
    ck_assert_str_eq(xcvm_value_describe(&value, text, sizeof text), "i64[]");
    xcvm_value_set_tensor(&value, XCVM_NO_DTYPE, -1, NULL);
    ck_assert_str_eq(xcvm_value_describe(&value, text, sizeof text), "?[...]");
    value.kind = XCVM_KIND_SEQUENCE;
    value.dtype = XCVM_U8;
    ck_assert_str_eq(xcvm_value_describe(&value, text, sizeof text), "seq(u8)");
    ck_assert_uint_lt(strlen(xcvm_dims_describe(2, dims2(INT64_MAX, INT64_MAX), text, 8)), 8);
}
END_TEST

START_TEST(tensors)
{
    xcvm_value *tensor, *kept;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 2, dims2(2, 3), &tensor, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_value_kind(tensor), XCVM_KIND_TENSOR);
    ck_assert_int_eq(xcvm_value_dtype(tensor), XCVM_F32);
    ck_assert_int_eq(xcvm_value_rank(tensor), 2);
    ck_assert_int_eq(xcvm_value_dims(tensor)[1], 3);
    ck_assert_uint_eq(xcvm_value_count(tensor), 6);
    ck_assert_uint_eq(xcvm_value_bytes(tensor), 24);
    ck_assert_uint_eq((uintptr_t)xcvm_value_data(tensor) % XCVM_ALIGNMENT, 0);
    ck_assert_ptr_null(xcvm_value_item_at(tensor, 0));
    ck_assert_int_eq(xcvm_value_retain(tensor, &kept, &error), XCVM_OK);
    ck_assert_ptr_eq(kept, tensor);
    xcvm_value_release(tensor);
    ck_assert_uint_eq(xcvm_value_count(tensor), 6);
    xcvm_value_release(tensor);
    xcvm_value_release(NULL);
    ck_assert_int_eq(xcvm_value_kind(NULL), XCVM_KIND_NULL);
    ck_assert_ptr_null(xcvm_value_data(NULL));
}
END_TEST

/* Small blocks are requested with the alignment of malloc. */
START_TEST(small_tensors_are_aligned)
{
    enum { MOST = 1300, STEP = 13 };
    xcvm_value *made[MOST / STEP];
    bool aligned = true, kept = true;
    for (int i = 0; i < MOST / STEP; i++) {
        const int64_t size = i * STEP;
        ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_U8, 1, &size, &made[i], NULL), XCVM_OK);
        aligned = aligned && (uintptr_t)xcvm_value_data(made[i]) % XCVM_ALIGNMENT == 0;
        memset(xcvm_value_data(made[i]), i, (size_t)size);
    }
    for (int i = 0; i < MOST / STEP; i++) {
        const unsigned char *data = xcvm_value_data(made[i]);
        for (int k = 0; k < i * STEP; k++)
            kept = kept && data[k] == i;
        xcvm_value_release(made[i]);
    }
    ck_assert(aligned && kept);
}
END_TEST

START_TEST(bad_tensors)
{
    xcvm_value *tensor;
    xcvm_error error;
    const int64_t huge[3] = {INT64_MAX, 2, 2}, negative[1] = {-1};
    ck_assert_int_eq(xcvm_tensor_create(NULL, 77, 0, NULL, &tensor, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 9, huge, &tensor, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 3, huge, &tensor, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 1, negative, &tensor, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 1, NULL, &tensor, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_STRING, 0, NULL, &tensor, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 0, NULL, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 0, NULL, NULL, (xcvm_finalizer){0}, &tensor, &error),
                     XCVM_INVALID_ARGUMENT);
    float data[2] = {1, 2};
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 0, NULL, (char *)data + 1, (xcvm_finalizer){0}, &tensor, &error),
                     XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_STRING, 0, NULL, data, (xcvm_finalizer){0}, &tensor, &error),
                     XCVM_INVALID_ARGUMENT);
}
END_TEST

/* Elements of three bytes are at any address. */
START_TEST(wrapped_anywhere)
{
    char data[8];
    for (size_t shift = 0; shift < 3; shift++) {
        xcvm_value *tensor;
        ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F24, 1, dims2(1, 0), data + shift, (xcvm_finalizer){0}, &tensor, NULL),
                         XCVM_OK);
        xcvm_value_release(tensor);
    }
}
END_TEST

static void count_release(void *user) { ++*(int *)user; }

START_TEST(wrapped)
{
    xcvm_value *tensor, *list;
    xcvm_error error;
    float data[2] = {1, 2};
    int released = 0;
    ck_assert_int_eq(
        xcvm_tensor_wrap(XCVM_F32, 1, dims2(2, 0), data, (xcvm_finalizer){count_release, &released}, &tensor, &error),
        XCVM_OK);
    ck_assert_ptr_eq(xcvm_value_data(tensor), data);
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_OPTIONAL, 1, &tensor, &list, &error), XCVM_OK);
    xcvm_value_release(tensor);
    ck_assert_int_eq(released, 0);
    ck_assert_ptr_eq(xcvm_value_data(xcvm_value_item_at(list, 0)), data);
    xcvm_value_release(list);
    ck_assert_int_eq(released, 1);
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 1, dims2(0, 0), NULL, (xcvm_finalizer){0}, &tensor, &error), XCVM_OK);
    ck_assert_ptr_nonnull(xcvm_value_data(tensor));
    xcvm_value_release(tensor);
}
END_TEST

START_TEST(strings)
{
    const char *const texts[] = {"one", "", "three"};
    const size_t lengths[] = {2, 0, 5};
    xcvm_value *tensor;
    xcvm_error error;
    size_t length;
    ck_assert_int_eq(xcvm_string_tensor_create(NULL, 1, dims2(3, 0), texts, NULL, &tensor, &error), XCVM_OK);
    ck_assert_mem_eq(xcvm_value_string_at(tensor, 2, &length), "three", 5);
    ck_assert_uint_eq(length, 5);
    ck_assert_ptr_nonnull(xcvm_value_string_at(tensor, 1, NULL));
    ck_assert_ptr_null(xcvm_value_string_at(tensor, 3, &length));
    ck_assert_ptr_null(xcvm_value_data(tensor));
    ck_assert(xcvm_strings_valid(tensor->data, tensor->bytes, 3));
    ck_assert(!xcvm_strings_valid(tensor->data, tensor->bytes - 1, 3));
    ck_assert(!xcvm_strings_valid(tensor->data, 16, 3));
    XCVM_DATA(xcvm_string, tensor)[0].offset = 0;
    ck_assert(!xcvm_strings_valid(tensor->data, tensor->bytes, 3));
    xcvm_value_release(tensor);
    ck_assert_int_eq(xcvm_string_tensor_create(NULL, 1, dims2(3, 0), texts, lengths, &tensor, &error), XCVM_OK);
    xcvm_value_string_at(tensor, 0, &length);
    ck_assert_uint_eq(length, 2);
    xcvm_value_release(tensor);
    ck_assert_int_eq(xcvm_string_tensor_create(NULL, 1, dims2(1, 0), NULL, NULL, &tensor, &error),
                     XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_string_tensor_create(NULL, 0, NULL, (const char *const[]){NULL}, NULL, &tensor, &error),
                     XCVM_INVALID_ARGUMENT);
}
END_TEST

START_TEST(lists)
{
    xcvm_value *tensor, *list, *outer, *twice[2];
    xcvm_error error;
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_I64, 0, NULL, &tensor, &error), XCVM_OK);
    *(int64_t *)xcvm_value_data(tensor) = 42;
    twice[0] = twice[1] = tensor;
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_SEQUENCE, 2, twice, &list, &error), XCVM_OK);
    xcvm_value_release(tensor);
    ck_assert_uint_eq(xcvm_value_count(list), 2);
    ck_assert_int_eq(xcvm_value_dtype(list), XCVM_I64);
    ck_assert_int_eq(xcvm_value_rank(list), -1);
    ck_assert_ptr_null(xcvm_value_dims(list));
    ck_assert_int_eq(*(const int64_t *)xcvm_value_data(xcvm_value_item_at(list, 1)), 42);
    ck_assert_ptr_null(xcvm_value_item_at(list, 2));
    /* An item is lent. Retained, it is a value of its own that shares the elements and outlives the list. */
    xcvm_value *item;
    ck_assert_int_eq(xcvm_value_retain(xcvm_value_item_at(list, 1), &item, &error), XCVM_OK);
    ck_assert_ptr_ne(item, xcvm_value_item_at(list, 1));
    ck_assert_ptr_eq(xcvm_value_data(item), xcvm_value_data(xcvm_value_item_at(list, 1)));
    xcvm_value_release(list);
    ck_assert_int_eq(*(const int64_t *)xcvm_value_data(item), 42);
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_SEQUENCE, 1, &item, &list, &error), XCVM_OK);
    xcvm_value_release(item);
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_OPTIONAL, 2, twice, &outer, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_MAP, 1, twice, &outer, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_TENSOR, 1, twice, &outer, &error), XCVM_INVALID_ARGUMENT);
    /* Lists nest, but not without end. */
    int depth = 1;
    while (xcvm_list_create(NULL, XCVM_KIND_SEQUENCE, 1, &list, &outer, &error) == XCVM_OK) {
        xcvm_value_release(list);
        list = outer;
        depth++;
    }
    ck_assert_int_eq(depth, XCVM_MAX_NESTING);
    ck_assert_int_eq(error.status, XCVM_INVALID_ARGUMENT);
    xcvm_value_release(list);
}
END_TEST

START_TEST(lent_items_are_copied)
{
    float data[2] = {1, 2};
    xcvm_value lent = {.memory_kind = XCVM_MEMORY_CONSTANT}, *pointer = &lent, *list;
    xcvm_value_set_tensor(&lent, XCVM_F32, 1, dims2(2, 0));
    lent.data = data;
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_SEQUENCE, 1, &pointer, &list, NULL), XCVM_OK);
    data[0] = 9;
    ck_assert_float_eq(((const float *)xcvm_value_data(xcvm_value_item_at(list, 0)))[0], 1);
    xcvm_value_release(list);
}
END_TEST

/* Every allocation of the constructors fails in turn. */
START_TEST(without_memory)
{
    const char *const texts[] = {"a", "b"};
    for (size_t fail_at = 1; fail_at <= 4; fail_at++) {
        test_allocator failing;
        test_allocator_start(&failing, fail_at);
        xcvm_value *tensor = NULL, *list = NULL;
        xcvm_error error;
        xcvm_status status =
            xcvm_string_tensor_create(&failing.allocator, 1, dims2(2, 0), texts, NULL, &tensor, &error);
        if (status == XCVM_OK)
            status = xcvm_list_create(&failing.allocator, XCVM_KIND_SEQUENCE, 1, &tensor, &list, &error);
        ck_assert_int_eq(status, XCVM_OUT_OF_MEMORY);
        xcvm_value_release(tensor);
        ck_assert_uint_eq(failing.live, 0);
    }
}
END_TEST

Suite *suite_base_value(void);
Suite *suite_base_value(void)
{
    Suite *suite = suite_create("base_value");
    TCase *tests = tcase_create("value");
    tcase_add_test(tests, sizes);
    tcase_add_test(tests, descriptions);
    tcase_add_test(tests, tensors);
    tcase_add_test(tests, small_tensors_are_aligned);
    tcase_add_test(tests, bad_tensors);
    tcase_add_test(tests, wrapped_anywhere);
    tcase_add_test(tests, wrapped);
    tcase_add_test(tests, strings);
    tcase_add_test(tests, lists);
    tcase_add_test(tests, lent_items_are_copied);
    tcase_add_test(tests, without_memory);
    suite_add_tcase(suite, tests);
    return suite;
}
