/* Text cases: tests/ops/<room>/<Instruction>.xcvm (docs/assembly.md says what a case file looks like). */
#ifndef XCVM_TESTS_CASE_RUNNER_H
#define XCVM_TESTS_CASE_RUNNER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct case_counts {
    size_t run, failed;
    size_t gradients; /* cases that look at gradients */
} case_counts;

/* Runs every case of a file. What fails is said in `report`, a line each, "Add.xcvm:12: broadcast: ...", as far as it
 * fits. A file that cannot be read or has no cases counts as one that failed. */
case_counts case_file_run(const char *path, char *report, size_t size);

#endif
