/* Tests of SipHash against its reference. */
#include "base/hash.h"

#include <check.h>

/* The reference's own vectors: key 00 01 .. 0f, messages of 0, 1, ... bytes 00 01 .. */
START_TEST(reference)
{
    const xcvm_hash_key key = {{UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};
    ck_assert_uint_eq(xcvm_hash(&key, "", 0), UINT64_C(0xabac0158050fc4dc));
}
END_TEST

START_TEST(depends_on_all)
{
    const xcvm_hash_key a = xcvm_hash_key_make(), b = xcvm_hash_key_make();
    uint8_t bytes[40] = {0};
    ck_assert_uint_ne(xcvm_hash(&a, bytes, sizeof bytes), xcvm_hash(&b, bytes, sizeof bytes));
    for (size_t count = 0; count < sizeof bytes; count++) {
        ck_assert_uint_ne(xcvm_hash(&a, bytes, count), xcvm_hash(&a, bytes, count + 1));
        const uint64_t before = xcvm_hash(&a, bytes, count + 1);
        bytes[count] = 1;
        ck_assert_uint_ne(xcvm_hash(&a, bytes, count + 1), before);
        bytes[count] = 0;
        ck_assert_uint_eq(xcvm_hash(&a, bytes, count + 1), before);
    }
}
END_TEST

Suite *suite_base_hash(void);
Suite *suite_base_hash(void)
{
    Suite *s = suite_create("base_hash");
    TCase *tc = tcase_create("hash");
    tcase_add_test(tc, reference);
    tcase_add_test(tc, depends_on_all);
    suite_add_tcase(s, tc);
    return s;
}
