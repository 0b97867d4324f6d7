/* Loops of binary instructions for each integer type. */
#ifndef XCVM_OPS_ELEMENTWISE_SIMD_BINARY_INTEGERS_H
#define XCVM_OPS_ELEMENTWISE_SIMD_BINARY_INTEGERS_H

#include "ops/elementwise/binary_generic.h"

/* Returns the loop for operands of an integer type, or NULL if I64 or U64 is used (ops/elementwise/binary_generic.h).
 * Divisors must not be 0. */
#define xcvm_binary_integers XCVM_PER_ISA(xcvm_binary_integers)
xcvm_binary_loop xcvm_binary_integers(xcvm_binary op, xcvm_dtype dtype);

/* Fails like xcvm_divisor_check, which it calls if there is a zero. */
#define xcvm_divisors_check XCVM_PER_ISA(xcvm_divisors_check)
xcvm_status xcvm_divisors_check(xcvm_kernel *k, const xcvm_value *divisor);

#endif
