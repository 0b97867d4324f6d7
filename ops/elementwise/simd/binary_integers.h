/* Loops of binary instructions on integers, on each element type as it is. */
#ifndef XCVM_OPS_ELEMENTWISE_SIMD_BINARY_INTEGERS_H
#define XCVM_OPS_ELEMENTWISE_SIMD_BINARY_INTEGERS_H

#include "ops/elementwise/binary_generic.h"

/* The loop for operands of an integer type, or NULL where it goes through I64 or U64
 * (ops/elementwise/binary_generic.h). Divisors must not be 0. */
#define xcvm_binary_integers XCVM_PER_ISA(xcvm_binary_integers)
xcvm_binary_loop xcvm_binary_integers(xcvm_binary op, xcvm_dtype dtype);

/* Fails as xcvm_divisor_check does, which it calls if there is a zero. */
#define xcvm_divisors_check XCVM_PER_ISA(xcvm_divisors_check)
xcvm_status xcvm_divisors_check(xcvm_kernel *k, const xcvm_value *divisor);

#endif
