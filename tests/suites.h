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

#endif
