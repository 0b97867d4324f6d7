/* Gradients of a case's program against finite differences, or against values that the case states. */
#ifndef XCVM_TESTS_CASE_GRADIENT_H
#define XCVM_TESTS_CASE_GRADIENT_H

#include "tests/case_compare.h"
#include "tests/support.h"

/* Takes the case's program, straight-line code whose f64 literals are what is differentiated by unless they decide a
 * shape, into the compiler. The loss is the sum of y + y * y / 4 over the elements of all registers that the case
 * names; of y alone if it states values. The gradients must agree with central differences, and be the same again
 *   - compiled with every optimization and with none,
 *   - with sizes that only the run knows,
 *   - as two programs, forward and backward,
 *   - to within rounding in f32, f16 and bf16, where the instructions have these,
 * in memory that was filled with NaN before. Writes what is wrong to `why`; returns whether nothing is. */
bool case_gradient_check(const test_bytes *file, const case_gradient *gradient, case_reason *why);

#endif
