/* Tests of allocators, arenas and budgets. */
#include "base/allocator.h"
#include "tests/support.h"

#include <check.h>
#include <string.h>

START_TEST(default_allocator)
{
    unsigned char *memory = xcvm_allocate_zeroed(NULL, 100);
    ck_assert_ptr_nonnull(memory);
    ck_assert_uint_eq((uintptr_t)memory % XCVM_ALIGNMENT, 0);
    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(memory[i], 0);
    xcvm_deallocate(NULL, memory, 100);
    void *nothing = xcvm_allocate(NULL, 0);
    ck_assert_ptr_nonnull(nothing);
    xcvm_deallocate(NULL, nothing, 0);
    ck_assert_ptr_null(xcvm_allocate(NULL, SIZE_MAX));
    ck_assert_ptr_null(xcvm_allocate_zeroed(NULL, (size_t)PTRDIFF_MAX + 1));
    xcvm_deallocate(NULL, NULL, 5);
}
END_TEST

START_TEST(sizes)
{
    size_t result;
    ck_assert(xcvm_size_mul(6, 7, &result));
    ck_assert_uint_eq(result, 42);
    ck_assert(!xcvm_size_mul(SIZE_MAX, 2, &result));
    ck_assert(!xcvm_size_add(SIZE_MAX, 1, &result));
    ck_assert_uint_eq(xcvm_round_up(65, 64), 128);
    ck_assert_uint_eq(xcvm_round_up(64, 64), 64);
}
END_TEST

START_TEST(arena)
{
    test_allocator counting;
    test_allocator_start(&counting, 0);
    xcvm_arena a = {.allocator = &counting.allocator};
    unsigned char *blocks[400];
    bool zeroed = true, kept = true;
    for (size_t i = 0; i < 400; i++) {
        size_t bytes = i * i % 5000;
        blocks[i] = xcvm_arena_allocate(&a, bytes);
        ck_assert_ptr_nonnull(blocks[i]);
        ck_assert_uint_eq((uintptr_t)blocks[i] % 16, 0);
        for (size_t j = 0; j < bytes; j++)
            zeroed = zeroed && blocks[i][j] == 0;
        memset(blocks[i], (int)(i & 255), bytes);
    }
    for (size_t i = 0; i < 400; i++)
        for (size_t j = 0; j < i * i % 5000; j++)
            kept = kept && blocks[i][j] == (i & 255);
    ck_assert(zeroed && kept);
    ck_assert_str_eq(xcvm_arena_string(&a, "text!", 4), "text");
    ck_assert_str_eq(xcvm_arena_string(&a, NULL, 0), "");
    ck_assert_ptr_null(xcvm_arena_string(&a, "x", SIZE_MAX));
    ck_assert_ptr_null(xcvm_arena_allocate(&a, SIZE_MAX - 3));
    ck_assert_uint_lt(counting.requests, 300);
    xcvm_arena_release(&a);
    ck_assert_uint_eq(counting.live, 0);
    ck_assert_uint_eq(a.used, 0);
    xcvm_arena_release(&a);
}
END_TEST

START_TEST(arena_without_memory)
{
    test_allocator failing;
    test_allocator_start(&failing, 2);
    xcvm_arena a = {.allocator = &failing.allocator};
    ck_assert_ptr_nonnull(xcvm_arena_allocate(&a, 10));
    ck_assert_ptr_null(xcvm_arena_allocate(&a, 100000));
    ck_assert_ptr_nonnull(xcvm_arena_allocate(&a, 10));
    xcvm_arena_release(&a);
    ck_assert_uint_eq(failing.live, 0);
}
END_TEST

/* After xcvm_arena_clear, an arena has one zeroed block for the next allocations, and nothing else. */
START_TEST(arenas_are_cleared)
{
    test_allocator a;
    test_allocator_start(&a, 0);
    xcvm_arena blocks = {.allocator = &a.allocator};
    xcvm_arena_clear(&blocks);
    ck_assert_uint_eq(a.requests, 0);
    memset(xcvm_arena_allocate(&blocks, 100), 0xff, 100);
    const size_t block = a.live;
    ck_assert_ptr_nonnull(xcvm_arena_allocate(&blocks, 1 << 20));
    const size_t requests = a.requests;
    for (int round = 0; round < 3; round++) {
        xcvm_arena_clear(&blocks);
        ck_assert_uint_eq(a.live, block);
        const unsigned char *memory = xcvm_arena_allocate(&blocks, 100);
        for (size_t i = 0; i < 100; i++)
            ck_assert_uint_eq(memory[i], 0);
        memset((void *)(uintptr_t)memory, 0xff, 100);
    }
    ck_assert_uint_eq(a.requests, requests);
    xcvm_arena_release(&blocks);
    ck_assert_uint_eq(a.live, 0);
}
END_TEST

Suite *suite_base_allocator(void);
Suite *suite_base_allocator(void)
{
    Suite *suite = suite_create("base_allocator");
    TCase *tests = tcase_create("allocator");
    tcase_add_test(tests, default_allocator);
    tcase_add_test(tests, sizes);
    tcase_add_test(tests, arena);
    tcase_add_test(tests, arena_without_memory);
    tcase_add_test(tests, arenas_are_cleared);
    suite_add_tcase(suite, tests);
    return suite;
}
