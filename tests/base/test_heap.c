/* Tests of the session's heap: reuse, counting, the limit, and blocks that outlive it. */
#include "base/heap.h"
#include "tests/support.h"

#include <check.h>

static xcvm_heap *create(test_allocator *allocator, size_t limit)
{
    xcvm_heap *heap;
    test_allocator_start(allocator, 0);
    ck_assert_int_eq(xcvm_heap_create(&allocator->allocator, limit, &heap, NULL), XCVM_OK);
    return heap;
}

static xcvm_storage *allocate_filled(xcvm_heap *heap, size_t bytes)
{
    xcvm_storage *storage;
    ck_assert_int_eq(xcvm_heap_allocate(heap, bytes, &storage, NULL), XCVM_OK);
    ck_assert_uint_ge(storage->bytes, bytes);
    ck_assert_uint_eq((uintptr_t)storage->data % XCVM_ALIGNMENT, 0);
    memset(storage->data, 0x5a, storage->bytes);
    return storage;
}

START_TEST(left_within_the_limit)
{
    test_allocator allocator;
    xcvm_heap *heap = create(&allocator, 0);
    ck_assert_uint_eq(xcvm_heap_left(heap), SIZE_MAX);
    xcvm_heap_set_limit(heap, 1 << 20);
    ck_assert_uint_eq(xcvm_heap_left(heap), 1 << 20);
    ck_assert_int_eq(xcvm_heap_account(heap, 1 << 19, NULL), XCVM_OK);
    xcvm_storage *held = allocate_filled(heap, 1 << 18);
    ck_assert_uint_lt(xcvm_heap_left(heap), 1 << 18);
    ck_assert_uint_gt(xcvm_heap_left(heap), 1 << 17);
    /* Blocks that are kept for the next request can be released. */
    xcvm_storage_release(held);
    ck_assert_uint_eq(xcvm_heap_left(heap), 1 << 19);
    xcvm_heap_set_limit(heap, 1 << 10);
    ck_assert_uint_eq(xcvm_heap_left(heap), 0);
    xcvm_heap_account(heap, -(1 << 19), NULL);
    xcvm_heap_destroy(heap);
    ck_assert_uint_eq(allocator.live, 0);
}
END_TEST

START_TEST(blocks_come_back)
{
    test_allocator allocator;
    xcvm_heap *heap = create(&allocator, 0);
    const size_t sizes[] = {0, 1, 64, 65, 500, 513, 4096, 5000, 100000, 262144, 300000, 5000000};
    size_t first = 0;
    for (int round = 0; round < 3; round++) {
        xcvm_storage *held[12];
        for (size_t i = 0; i < 12; i++)
            held[i] = allocate_filled(heap, sizes[i]);
        for (size_t i = 0; i < 12; i++)
            xcvm_storage_release(held[i]);
        if (round == 0)
            first = allocator.requests;
        ck_assert_uint_eq(allocator.requests, first);
        ck_assert_uint_eq(xcvm_heap_live(heap), 0);
    }
    /* A little less is served by the same block, much less is not. */
    xcvm_storage *large = allocate_filled(heap, 4500000);
    ck_assert_uint_eq(allocator.requests, first);
    xcvm_storage *half = allocate_filled(heap, 2000000);
    ck_assert_uint_eq(allocator.requests, first + 1);
    xcvm_storage_release(large);
    xcvm_storage_release(half);
    ck_assert_uint_gt(xcvm_heap_reserved(heap), 0);
    xcvm_heap_trim(heap);
    ck_assert_uint_eq(xcvm_heap_reserved(heap), 0);
    xcvm_heap_destroy(heap);
    ck_assert_uint_eq(allocator.live, 0);
}
END_TEST

START_TEST(waste_is_bounded)
{
    test_allocator allocator;
    xcvm_heap *heap = create(&allocator, 0);
    for (size_t bytes = 64; bytes < 3000000; bytes += bytes / 7) {
        xcvm_storage *storage = allocate_filled(heap, bytes);
        ck_assert_uint_le(storage->bytes, bytes + bytes / 4 + XCVM_ALIGNMENT);
        xcvm_storage_release(storage);
        xcvm_heap_trim(heap);
    }
    xcvm_heap_destroy(heap);
}
END_TEST

START_TEST(counters)
{
    test_allocator allocator;
    xcvm_heap *heap = create(&allocator, 0);
    xcvm_storage *a = allocate_filled(heap, 1000), *b = allocate_filled(heap, 500);
    ck_assert_uint_eq(xcvm_heap_live(heap), 1500);
    ck_assert_int_eq(xcvm_heap_account(heap, 2000, NULL), XCVM_OK);
    ck_assert_uint_eq(xcvm_heap_live(heap), 3500);
    xcvm_storage_release(a);
    ck_assert_int_eq(xcvm_heap_account(heap, -2000, NULL), XCVM_OK);
    ck_assert_uint_eq(xcvm_heap_live(heap), 500);
    ck_assert_uint_eq(xcvm_heap_peak(heap), 3500);
    xcvm_storage_retain(b);
    xcvm_storage_release(b);
    ck_assert_uint_eq(xcvm_heap_live(heap), 500);
    xcvm_storage_release(b);
    xcvm_heap_destroy(heap);
}
END_TEST

START_TEST(limit)
{
    test_allocator allocator;
    xcvm_heap *heap = create(&allocator, 100000);
    xcvm_storage *a = allocate_filled(heap, 60000), *b;
    xcvm_error error;
    ck_assert_int_eq(xcvm_heap_allocate(heap, 60000, &b, &error), XCVM_OUT_OF_MEMORY);
    ck_assert_ptr_nonnull(strstr(error.message, "limit of 100000"));
    ck_assert_int_eq(xcvm_heap_account(heap, 60000, &error), XCVM_OUT_OF_MEMORY);
    xcvm_storage_release(a);
    /* The free block is given up for one that it cannot serve. */
    b = allocate_filled(heap, 90000);
    ck_assert_uint_le(xcvm_heap_reserved(heap), 100000);
    xcvm_storage_release(b);
    ck_assert_int_eq(xcvm_heap_account(heap, 60000, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_heap_allocate(heap, 60000, &b, &error), XCVM_OUT_OF_MEMORY);
    ck_assert_int_eq(xcvm_heap_account(heap, -60000, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_heap_allocate(heap, SIZE_MAX - 5, &b, &error), XCVM_OUT_OF_MEMORY);
    xcvm_heap_destroy(heap);
    ck_assert_uint_eq(allocator.live, 0);
}
END_TEST

START_TEST(storage_outlives_the_heap)
{
    test_allocator allocator;
    xcvm_heap *heap = create(&allocator, 0);
    xcvm_storage *a = allocate_filled(heap, 1000), *b = allocate_filled(heap, 2000);
    xcvm_heap_destroy(heap);
    ck_assert_uint_gt(allocator.live, 0);
    memset(a->data, 1, a->bytes);
    xcvm_storage_release(a);
    xcvm_storage_release(b);
    ck_assert_uint_eq(allocator.live, 0);
}
END_TEST

START_TEST(lists_clear_their_items)
{
    test_allocator allocator;
    xcvm_heap *heap = create(&allocator, 0);
    xcvm_storage *list, *item = allocate_filled(heap, 100);
    ck_assert_int_eq(xcvm_heap_allocate_list(heap, 3, &list, NULL), XCVM_OK);
    xcvm_value *items = list->data;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(items[i].kind, XCVM_KIND_NULL);
    items[1] = (xcvm_value){.kind = XCVM_KIND_TENSOR, .storage = item, .memory_kind = XCVM_MEMORY_OWNED};
    ck_assert_int_eq(xcvm_heap_allocate_list(heap, SIZE_MAX / 8, &list, NULL), XCVM_OUT_OF_MEMORY);
    /* The list is released after the heap, and its item with it. */
    xcvm_heap_destroy(heap);
    ck_assert_uint_eq(item->refs, 1);
    xcvm_storage_release(list);
    ck_assert_uint_eq(allocator.live, 0);
}
END_TEST

START_TEST(sizes_that_never_return_do_not_pile_up)
{
    test_allocator allocator;
    xcvm_heap *heap = create(&allocator, 0);
    for (size_t bytes = 1 << 20; bytes < (size_t)64 << 20; bytes += 1 << 20) {
        xcvm_storage *storage;
        ck_assert_int_eq(xcvm_heap_allocate(heap, bytes, &storage, NULL), XCVM_OK);
        xcvm_storage_release(storage);
    }
    ck_assert_uint_le(xcvm_heap_reserved(heap), 6 * xcvm_heap_peak(heap) + ((size_t)64 << 20));
    xcvm_heap_destroy(heap);
}
END_TEST

START_TEST(without_memory)
{
    test_allocator failing;
    xcvm_heap *heap;
    xcvm_storage *storage;
    xcvm_error error;
    test_allocator_start(&failing, 1);
    ck_assert_int_eq(xcvm_heap_create(&failing.allocator, 0, &heap, &error), XCVM_OUT_OF_MEMORY);
    test_allocator_start(&failing, 2);
    ck_assert_int_eq(xcvm_heap_create(&failing.allocator, 0, &heap, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_heap_allocate(heap, 10, &storage, &error), XCVM_OUT_OF_MEMORY);
    xcvm_heap_destroy(heap);
    xcvm_heap_destroy(NULL);
    ck_assert_uint_eq(failing.live, 0);
}
END_TEST

START_TEST(discarded_and_limited_anew)
{
    test_allocator allocator;
    xcvm_heap *heap = create(&allocator, 0);
    xcvm_storage *kept = allocate_filled(heap, 1000), *outgrown = allocate_filled(heap, 300000);
    const size_t before = allocator.live;
    xcvm_heap_discard(heap, outgrown);
    ck_assert_uint_lt(allocator.live, before);
    ck_assert_uint_eq(xcvm_heap_live(heap), 1000);
    xcvm_heap_discard(heap, NULL);
    ck_assert_uint_eq(xcvm_heap_set_limit(heap, 10000), 0);
    xcvm_storage *more = NULL;
    ck_assert_int_eq(xcvm_heap_allocate(heap, 300000, &more, NULL), XCVM_OUT_OF_MEMORY);
    ck_assert_uint_eq(xcvm_heap_set_limit(heap, 0), 10000);
    more = allocate_filled(heap, 300000);
    xcvm_storage_release(more);
    xcvm_storage_release(kept);
    xcvm_heap_destroy(heap);
    ck_assert_uint_eq(allocator.live, 0);
}
END_TEST

/* Zeros use memory when they are written, if no other program allocates it. */
START_TEST(zeros)
{
    enum { BYTES = 8 << 20 };
    xcvm_heap *heap;
    xcvm_storage *storage;
    xcvm_error error;
    ck_assert_int_eq(xcvm_heap_create(NULL, 0, &heap, NULL), XCVM_OK);
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(xcvm_heap_allocate_zeros(heap, BYTES + 3, &storage, NULL), XCVM_OK);
        unsigned char *at = storage->data;
        ck_assert_uint_eq((uintptr_t)at % XCVM_ALIGNMENT, 0);
        ck_assert_uint_ge(storage->bytes, BYTES + 3);
        ck_assert_uint_le(test_resident_pages(at, BYTES), 1);
        for (size_t i = 1; i <= 5; i++)
            at[i << 20] = 1;
        ck_assert_uint_ge(test_resident_pages(at, BYTES), 5);
        ck_assert_uint_le(test_resident_pages(at, BYTES), 6);
        ck_assert_uint_eq(at[(1 << 20) + 1] + at[BYTES + 2], 0);
        ck_assert_uint_eq(xcvm_heap_live(heap), BYTES + 3);
        xcvm_storage_release(storage);
        ck_assert_uint_eq(xcvm_heap_reserved(heap), 0);
    }
    xcvm_heap_set_limit(heap, BYTES);
    ck_assert_int_eq(xcvm_heap_allocate_zeros(heap, BYTES, &storage, &error), XCVM_OUT_OF_MEMORY);
    ck_assert_int_eq(xcvm_heap_allocate_zeros(heap, SIZE_MAX, &storage, &error), XCVM_OUT_OF_MEMORY);
    xcvm_heap_set_limit(heap, 0);
    ck_assert_int_eq(xcvm_heap_allocate_zeros(heap, BYTES, &storage, NULL), XCVM_OK);
    xcvm_heap_destroy(heap);
    xcvm_storage_release(storage);
}
END_TEST

START_TEST(zeros_of_others)
{
    test_allocator allocator;
    xcvm_heap *heap = create(&allocator, 0);
    xcvm_storage *storage = allocate_filled(heap, 300000);
    xcvm_storage_release(storage);
    ck_assert_int_eq(xcvm_heap_allocate_zeros(heap, 300000, &storage, NULL), XCVM_OK);
    for (size_t i = 0; i < 300000; i++)
        ck_assert_uint_eq(((unsigned char *)storage->data)[i], 0);
    xcvm_storage_release(storage);
    xcvm_heap_destroy(heap);
    ck_assert_uint_eq(allocator.live, 0);
}
END_TEST

Suite *suite_base_heap(void);
Suite *suite_base_heap(void)
{
    Suite *suite = suite_create("base_heap");
    TCase *tests = tcase_create("heap");
    tcase_add_test(tests, blocks_come_back);
    tcase_add_test(tests, left_within_the_limit);
    tcase_add_test(tests, waste_is_bounded);
    tcase_add_test(tests, counters);
    tcase_add_test(tests, limit);
    tcase_add_test(tests, storage_outlives_the_heap);
    tcase_add_test(tests, lists_clear_their_items);
    tcase_add_test(tests, sizes_that_never_return_do_not_pile_up);
    tcase_add_test(tests, without_memory);
    tcase_add_test(tests, discarded_and_limited_anew);
    tcase_add_test(tests, zeros);
    tcase_add_test(tests, zeros_of_others);
    suite_add_tcase(suite, tests);
    return suite;
}
