/* The loops of reductions for types that are combined as f64 or i64. */
#ifndef XCVM_OPS_VECTOR_REDUCE_WIDE_H
#define XCVM_OPS_VECTOR_REDUCE_WIDE_H

#include "ops/reduce/reduction.h"

#define xcvm_fold_f64 XCVM_PER_ISA(xcvm_fold_f64)
#define xcvm_fold_i64 XCVM_PER_ISA(xcvm_fold_i64)
extern const xcvm_fold_loops xcvm_fold_f64, xcvm_fold_i64;

#endif
