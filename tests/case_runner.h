/* Text cases: tests/ops/<module>/<Instruction>.xcvm (docs/assembly.md describes case files). */
#ifndef XCVM_TESTS_CASE_RUNNER_H
#define XCVM_TESTS_CASE_RUNNER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct case_counts {
    size_t run, failed;
    size_t gradients; /* cases that look at gradients */
} case_counts;

/* Runs every case of a file. Failures are written to `report`, one per line, "Add.xcvm:12: broadcast: ...", as far as
 * they fit. A file that cannot be read or has no cases counts as one failure. */
case_counts case_file_run(const char *path, char *report, size_t size);

#endif
