/* xcvm_tests [SUITE...]: runs the suites named, by default all. Check's own variables hold: CK_FORK=no for a debugger,
 * CK_RUN_CASE, CK_VERBOSITY, CK_DEFAULT_TIMEOUT. */
#include "tests/suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const test_suite *find(const char *name)
{
    for (const test_suite *suite = test_suites; suite->name != NULL; suite++)
        if (strcmp(suite->name, name) == 0)
            return suite;
    return NULL;
}

int main(int argc, char **argv)
{
    /* Check's own limit of four seconds by the clock is for machines without anything else to do. */
    setenv("CK_DEFAULT_TIMEOUT", "120", 0);
    SRunner *runner = srunner_create(NULL);
    for (int i = 1; i < argc; i++) {
        const test_suite *suite = find(argv[i]);
        if (suite == NULL) {
            fprintf(stderr, "there is no suite %s; there are:\n", argv[i]);
            for (suite = test_suites; suite->name != NULL; suite++)
                fprintf(stderr, "  %s\n", suite->name);
            srunner_free(runner);
            return EXIT_FAILURE;
        }
        srunner_add_suite(runner, suite->create());
    }
    for (const test_suite *suite = test_suites; argc == 1 && suite->name != NULL; suite++)
        srunner_add_suite(runner, suite->create());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
