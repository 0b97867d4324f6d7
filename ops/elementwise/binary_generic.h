/* Binary element-wise instructions for element types without vector loops. */
#ifndef XCVM_OPS_ELEMENTWISE_BINARY_GENERIC_H
#define XCVM_OPS_ELEMENTWISE_BINARY_GENERIC_H

#include "ops/elementwise/formulas.h"
#include "ops/util/kernel.h"

typedef enum xcvm_binary {
#define XCVM_BINARY_ENTRY(Name, kernel, grain, result, f32, f64, integers, booleans) XCVM_BINARY_##Name,
    XCVM_BINARY_FORMULAS(XCVM_BINARY_ENTRY) XCVM_BINARY_COUNT
} xcvm_binary;

/* y[i] = f(a[i * a_step], b[i * b_step]), with steps 0 or 1; y may be a or b. Comparisons write bool. */
typedef void (*xcvm_binary_loop)(const void *a, size_t a_step, const void *b, size_t b_step, void *y, size_t count);

/* Returns the loop for operands of type I64, U64 (WIDE formulas), BOOL, or F64 (only SCALAR formulas), or NULL if there
 * is none. All integers can use I64 if signed, else U64: results are correct modulo 2 to the width of the element type.
 * Divisors must not be 0. */
xcvm_binary_loop xcvm_binary_loop_of(xcvm_binary op, xcvm_dtype dtype);

/* Fails with the index of the first zero in an integer divisor. */
xcvm_status xcvm_divisor_check(xcvm_kernel *k, const xcvm_value *divisor);
/* y = (a == b) for string tensors. */
xcvm_status xcvm_equal_strings(const xcvm_kernel *k, xcvm_value *y, const xcvm_value *a, const xcvm_value *b);

#endif
