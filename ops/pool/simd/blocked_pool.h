/* MaxPool and AveragePool of tensors with blocked channels. */
#ifndef XCVM_OPS_POOL_SIMD_BLOCKED_POOL_H
#define XCVM_OPS_POOL_SIMD_BLOCKED_POOL_H

#include "ops/pool/pool_generic.h"

/* Returns true if the pooling is over the axes before blocks of channels. */
#define xcvm_blocked_pool_fits XCVM_PER_ISA(xcvm_blocked_pool_fits)
bool xcvm_blocked_pool_fits(const xcvm_pooling *p);
/* For a pooling that fits and has elements; without indices. */
#define xcvm_blocked_pool XCVM_PER_ISA(xcvm_blocked_pool)
xcvm_status xcvm_blocked_pool(const xcvm_kernel *k, const xcvm_pooling *p);

#endif
