/* Tests of bytes that grow. */
#include "base/bytes.h"
#include "tests/support.h"

#include <check.h>
#include <string.h>

START_TEST(pieces_stand_in_order)
{
    xcvm_bytes b = {.allocator = NULL};
    uint8_t piece[1000];
    for (size_t i = 0; i < 50; i++) {
        memset(piece, (int)i, sizeof piece);
        ck_assert(xcvm_bytes_sink(&b, piece, i));
        ck_assert(xcvm_bytes_sink(&b, piece, sizeof piece - i));
    }
    ck_assert(xcvm_bytes_sink(&b, NULL, 0));
    ck_assert_uint_eq(b.count, 50 * sizeof piece);
    for (size_t i = 0; i < b.count; i++)
        ck_assert_uint_eq(b.at[i], i / sizeof piece);
    xcvm_bytes_release(&b);
    ck_assert_ptr_null(b.at);
    ck_assert_uint_eq(b.count, 0);
}
END_TEST

/* After a failure nothing is appended, even if a smaller piece would fit: there would be a gap. */
START_TEST(failed_bytes_stay_so)
{
    test_allocator a;
    test_allocator_start(&a, 2);
    a.once = true;
    xcvm_bytes b = {.allocator = &a.allocator};
    static const uint8_t large[10000];
    ck_assert(xcvm_bytes_sink(&b, "abc", 3));
    ck_assert(!xcvm_bytes_sink(&b, large, sizeof large));
    ck_assert(b.failed);
    ck_assert(!xcvm_bytes_sink(&b, "d", 1));
    ck_assert_uint_eq(b.count, 3);
    ck_assert_int_eq(memcmp(b.at, "abc", 3), 0);
    xcvm_bytes_release(&b);
    ck_assert(!b.failed);
    ck_assert(!xcvm_bytes_sink(&b, large, SIZE_MAX));
    xcvm_bytes_release(&b);
    ck_assert_uint_eq(a.live, 0);
}
END_TEST

Suite *suite_base_bytes(void);
Suite *suite_base_bytes(void)
{
    Suite *suite = suite_create("base_bytes");
    TCase *tcase = tcase_create("bytes");
    tcase_add_test(tcase, pieces_stand_in_order);
    tcase_add_test(tcase, failed_bytes_stay_so);
    suite_add_tcase(suite, tcase);
    return suite;
}
