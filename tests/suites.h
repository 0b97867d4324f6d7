/* The suites of tests/<floor>/test_<file>.c, each made by `Suite *suite_<floor>_<file>(void)`. The list is generated
 * from the file names. */
#ifndef XCVM_TESTS_SUITES_H
#define XCVM_TESTS_SUITES_H

#include <check.h>

typedef struct test_suite {
    const char *name; /* "<floor>_<file>" */
    Suite *(*create)(void);
} test_suite;

extern const test_suite test_suites[]; /* ends with NULLs */

/* A suite of tests that may take five minutes each: SUITE_OF("tape_calls", one_test, another). */
#define SUITE_OF(name, ...)                                                                                            \
    test_suite_of(name, (const TTest *const[]){__VA_ARGS__},                                                           \
                  sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(const TTest *))
static inline Suite *test_suite_of(const char *name, const TTest *const *tests, size_t count)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 300);
    for (size_t i = 0; i < count; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    return suite;
}

#endif
