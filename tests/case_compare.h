/* Compares the outcome of a case with its expectations. */
#ifndef XCVM_TESTS_CASE_COMPARE_H
#define XCVM_TESTS_CASE_COMPARE_H

#include "tests/case_text.h"

/* Description of a failure; empty if there is none. */
typedef struct case_reason {
    char text[800];
} case_reason;

/* Writes a description and returns false. */
bool case_fail(case_reason *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes more of it. */
void case_append(case_reason *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Compares the results, and the states that the case names, of a session that has run. With `exact`, floats have to be
 * the same where the case says nothing else. */
bool case_compare(const test_case *test, const xcvm_program *program, const xcvm_session *session, bool exact,
                  case_reason *why);

#endif
