/* Reduction loops for types that are combined as f64 or i64. */
#ifndef XCVM_OPS_REDUCE_SIMD_REDUCE_WIDE_H
#define XCVM_OPS_REDUCE_SIMD_REDUCE_WIDE_H

#include "ops/reduce/reduction.h"

#define xcvm_reduce_f64 XCVM_PER_ISA(xcvm_reduce_f64)
#define xcvm_reduce_i64 XCVM_PER_ISA(xcvm_reduce_i64)
extern const xcvm_reduce_loops xcvm_reduce_f64, xcvm_reduce_i64;

#endif
