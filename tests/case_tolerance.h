/* Tolerances between elements and their expected values. */
#ifndef XCVM_TESTS_CASE_TOLERANCE_H
#define XCVM_TESTS_CASE_TOLERANCE_H

#include "ops/op.h"
#include "tests/case_text.h"
#include "tests/support.h"

/* got is within atol + rtol * |expected|; where both are 0, the element must be the same number, zeros of the same
 * sign. NaN equals NaN. */
typedef struct case_tolerance {
    double rtol, atol;
} case_tolerance;

/* Returns true if the instruction may round results more than once, so that they depend on the order of its arithmetic.
 * All others have one correct result per element: they move it, select it, or round it once. */
bool case_row_rounds(const xcvm_schema *schema);
/* Returns true if no instruction of the program `file` rounds this way; false for bytes that are no program. */
bool case_is_exact(const test_bytes *file);

/* The tolerance of the expectation, or else the default for elements of `dtype`, which are floats or complex. */
case_tolerance case_tolerance_of(const case_expectation *e, xcvm_dtype dtype, bool exact);
bool case_is_close(double got, double expected, case_tolerance tolerance);

#endif
