/* xcvm_tests [SUITE...]: runs the suites named, by default all. Check's own variables hold: CK_FORK=no for a debugger,
 * CK_RUN_CASE, CK_VERBOSITY, CK_DEFAULT_TIMEOUT. */
#include "tests/suites.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Check writes the place of each assertion that holds to a file, for the report of a test that crashes or hangs. That
 * takes half the time of tests with an assertion for each element, and their file grows to megabytes. So the linker
 * (--wrap) replaces the function by one that keeps the place, and writes it once per tick of the system's clock, and
 * when a signal ends the test. */
static _Thread_local struct {
    const char *file;
    int line;
    long tick;
} last_place;

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);

void __wrap__mark_point(const char *file, int line)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    last_place.file = file;
    last_place.line = line;
    if (now.tv_nsec == last_place.tick)
        return;
    last_place.tick = now.tv_nsec;
    __real__mark_point(file, line);
}

#ifndef XCVM_SANITIZED
/* The process ends in any case, so that writing in a signal handler can make nothing worse. */
static void write_last_place(int signal_number)
{
    if (last_place.file != NULL)
        __real__mark_point(last_place.file, last_place.line);
    raise(signal_number);
}

static void catch_crashes(void)
{
    const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction action = {.sa_handler = write_last_place, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}
#else
/* Sanitizers report what a signal means themselves. */
static void catch_crashes(void) {}
#endif

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
    catch_crashes();
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
