/* Gradients of a case's program against finite differences, or against values that the case states. */
#ifndef XCVM_TESTS_CASE_GRADIENT_H
#define XCVM_TESTS_CASE_GRADIENT_H

#include "tests/case_compare.h"
#include "tests/support.h"

/* Checks the gradients of a case's program, which is straight-line code. Its f64 literals are the variables, unless
 * they determine a shape. The loss is the sum of y + y * y / 4 over the elements of all registers that the case names;
 * of y alone if it states values.
 *
 * Gradients must agree with central differences. They must be equal with all optimizations and none, with sizes that
 * only the run knows, and as two programs, forward and backward. They must agree within rounding in f32, f16 and bf16,
 * if the instructions support these, in memory that was filled with NaN before.
 *
 * Writes failures to `why`, and returns true if there are none. */
bool case_gradient_check(const test_bytes *file, const case_gradient *gradient, case_reason *why);

#endif
