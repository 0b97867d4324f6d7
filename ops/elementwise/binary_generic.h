/* The element-wise instructions of two operands on the element types without vector loops of their own. */
#ifndef XCVM_OPS_BINARY_H
#define XCVM_OPS_BINARY_H

#include "ops/kernel.h"

typedef enum xcvm_binary {
    XCVM_BINARY_Add,
    XCVM_BINARY_Sub,
    XCVM_BINARY_Mul,
    XCVM_BINARY_Div,
    XCVM_BINARY_Max,
    XCVM_BINARY_Min,
    XCVM_BINARY_And,
    XCVM_BINARY_Or,
    XCVM_BINARY_Xor,
    XCVM_BINARY_Equal,
    XCVM_BINARY_Greater,
    XCVM_BINARY_GreaterOrEqual,
    XCVM_BINARY_Pow,
    XCVM_BINARY_Mod,  /* with the sign of the divisor */
    XCVM_BINARY_Fmod, /* with the sign of the dividend */
    XCVM_BINARY_ShiftLeft,
    XCVM_BINARY_ShiftRight,
    XCVM_BINARY_PRelu,
    XCVM_BINARY_COUNT
} xcvm_binary;

/* y[i] = f(a[i * a_step], b[i * b_step]), steps 0 or 1; y may be a or b. Comparisons write bool. */
typedef void (*xcvm_binary_loop)(const void *a, size_t a_step, const void *b, size_t b_step, void *y, size_t count);

/* The loop for operands of type F64, I64, U64, I32 or BOOL, or NULL where that type has none. All integers can go
 * through I64, if signed, or U64: results are right modulo 2 to the width of the element type. Divisors must not be 0.
 */
xcvm_binary_loop xcvm_binary_loop_of(xcvm_binary op, xcvm_dtype dtype);

/* Fails with the index of the first zero of a tensor of integers, which is to divide. */
xcvm_status xcvm_divisor_check(xcvm_kernel *k, const xcvm_value *divisor);
/* y = whether a equals b, tensors of strings. */
xcvm_status xcvm_equal_strings(const xcvm_kernel *k, xcvm_value *y, const xcvm_value *a, const xcvm_value *b);

#endif
