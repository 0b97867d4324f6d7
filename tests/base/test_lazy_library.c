/* Tests of lazy loading. */
#include "base/lazy_library.h"

#include <check.h>
#include <math.h>
#include <string.h>

#define MATHEMATICS(X)                                                                                                 \
    X(cos)                                                                                                             \
    X(ldexp)
XCVM_LAZY_LIBRARY(mathematics, "libm.so.6", MATHEMATICS)
XCVM_LAZY_LIBRARY(nowhere, "libxcvm-nowhere.so.7", MATHEMATICS)

#define OTHERS(X)                                                                                                      \
    X(cos)                                                                                                             \
    X(xcvm_lazy_library_load)
XCVM_LAZY_LIBRARY(partial, "libm.so.6", OTHERS)

START_TEST(functions)
{
    xcvm_error error = {0};
    for (int times = 0; times < 2; times++)
        ck_assert_int_eq(load_mathematics(&error), XCVM_OK);
    ck_assert(mathematics.cos(0) == 1);
    ck_assert(mathematics.ldexp(3, 4) == 48);
}
END_TEST

START_TEST(missing)
{
    xcvm_error error = {0};
    for (int times = 0; times < 2; times++) {
        ck_assert_int_eq(load_nowhere(&error), XCVM_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(error.message, "libxcvm-nowhere.so.7"));
    }
    ck_assert_int_eq(load_partial(&error), XCVM_UNSUPPORTED);
    ck_assert_str_eq(error.message, "libm.so.6 has no function xcvm_lazy_library_load");
}
END_TEST

Suite *suite_base_lazy_library(void)
{
    Suite *suite = suite_create("base_lazy_library");
    TCase *cases = tcase_create("lazy_library");
    tcase_add_test(cases, functions);
    tcase_add_test(cases, missing);
    suite_add_tcase(suite, cases);
    return suite;
}
