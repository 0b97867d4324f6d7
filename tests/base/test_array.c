/* Arrays that grow: elements stay, memory is given back, and sizes that overflow are refused. */
#include "base/array.h"
#include "tests/suites.h"

#include <check.h>

#include <stdlib.h>
#include <string.h>

typedef struct counting {
    size_t live, requests, fail_at;
} counting;

static void *count_allocate(void *user, size_t bytes, size_t alignment)
{
    counting *c = user;
    if (++c->requests == c->fail_at)
        return NULL;
    c->live += bytes;
    return aligned_alloc(alignment, xcvm_round_up(bytes, alignment));
}

static void count_release(void *user, void *memory, size_t bytes)
{
    counting *c = user;
    c->live -= bytes;
    free(memory);
}

enum { ITEMS = 1000 };

START_TEST(of_an_allocator)
{
    counting c = {0};
    const xcvm_allocator allocator = {count_allocate, count_release, &c};
    uint64_t *items = NULL;
    size_t capacity = 0;
    for (uint64_t i = 0; i < ITEMS; i++) {
        uint64_t *all = xcvm_array_grow(&allocator, items, i, &capacity, sizeof *items);
        ck_assert_ptr_nonnull(all);
        ck_assert_uint_eq(c.live, capacity * sizeof *items);
        items = all;
        items[i] = i;
    }
    for (uint64_t i = 0; i < ITEMS; i++)
        ck_assert_uint_eq(items[i], i);
    ck_assert_uint_lt(c.requests, 10);
    /* Without memory everything is as it was. */
    c.fail_at = c.requests + 1;
    const size_t before = capacity;
    ck_assert_ptr_null(xcvm_array_grow(&allocator, items, capacity, &capacity, sizeof *items));
    ck_assert(capacity == before && items[ITEMS - 1] == ITEMS - 1);
    xcvm_deallocate(&allocator, items, capacity * sizeof *items);
    ck_assert_uint_eq(c.live, 0);
}
END_TEST

START_TEST(of_an_arena)
{
    xcvm_arena arena = {0};
    uint32_t *items = NULL;
    size_t capacity = 0;
    for (uint32_t i = 0; i < ITEMS; i++) {
        items = xcvm_arena_grow(&arena, items, i, &capacity, sizeof *items);
        ck_assert_ptr_nonnull(items);
        ck_assert_uint_eq(items[i], 0);
        items[i] = i;
    }
    for (uint32_t i = 0; i < ITEMS; i++)
        ck_assert_uint_eq(items[i], i);
    xcvm_arena_release(&arena);
}
END_TEST

START_TEST(overflow)
{
    static char item;
    xcvm_arena arena = {0};
    const size_t full[] = {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 8};
    for (size_t i = 0; i < sizeof full / sizeof *full; i++) {
        size_t capacity = full[i];
        ck_assert_ptr_null(xcvm_array_grow(NULL, &item, capacity, &capacity, 8));
        ck_assert_ptr_null(xcvm_arena_grow(&arena, &item, capacity, &capacity, 8));
        ck_assert_uint_eq(capacity, full[i]);
    }
    xcvm_arena_release(&arena);
}
END_TEST

Suite *suite_base_array(void);
Suite *suite_base_array(void)
{
    Suite *suite = suite_create("base_array");
    TCase *tests = tcase_create("array");
    tcase_add_test(tests, of_an_allocator);
    tcase_add_test(tests, of_an_arena);
    tcase_add_test(tests, overflow);
    suite_add_tcase(suite, tests);
    return suite;
}
