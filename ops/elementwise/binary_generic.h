/* The element-wise instructions of two operands on the element types without vector loops of their own. */
#ifndef XCVM_OPS_ELEMENTWISE_BINARY_GENERIC_H
#define XCVM_OPS_ELEMENTWISE_BINARY_GENERIC_H

#include "ops/elementwise/formulas.h"
#include "ops/util/kernel.h"

typedef enum xcvm_binary {
#define XCVM_BINARY_ENTRY(Name, kernel, grain, result, f32, f64, integers, booleans) XCVM_BINARY_##Name,
    XCVM_BINARY_FORMULAS(XCVM_BINARY_ENTRY) XCVM_BINARY_COUNT
} xcvm_binary;

/* y[i] = f(a[i * a_step], b[i * b_step]), steps 0 or 1; y may be a or b. Comparisons write bool. */
typedef void (*xcvm_binary_loop)(const void *a, size_t a_step, const void *b, size_t b_step, void *y, size_t count);

/* The loop for operands of type I64, U64 (WIDE formulas), BOOL, or F64 (SCALAR formulas alone), or NULL where that type
 * has none. All integers can go through I64, if signed, or U64: results are right modulo 2 to the width of the element
 * type. Divisors must not be 0. */
xcvm_binary_loop xcvm_binary_loop_of(xcvm_binary op, xcvm_dtype dtype);

/* Fails with the index of the first zero of a tensor of integers, which is to divide. */
xcvm_status xcvm_divisor_check(xcvm_kernel *k, const xcvm_value *divisor);
/* y = whether a equals b, tensors of strings. */
xcvm_status xcvm_equal_strings(const xcvm_kernel *k, xcvm_value *y, const xcvm_value *a, const xcvm_value *b);

#endif
