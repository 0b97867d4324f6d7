/* f16 and bf16 as f32, and f24, in bulk. Kernels have loops for f32 alone and bring these types to it a block at a
 * time.
 */
#ifndef XCVM_OPS_VECTOR_HALVES_H
#define XCVM_OPS_VECTOR_HALVES_H

#include "ops/convert.h"
#include "ops/kernel.h"

/* Elements [first, first + count) at `data`, of type f16, bf16 or f32, for loading of f24 too; rounded to nearest even
 * on the way back. */
#define xcvm_halves_load XCVM_PER_ISA(xcvm_halves_load)
#define xcvm_halves_store XCVM_PER_ISA(xcvm_halves_store)
void xcvm_halves_load(xcvm_dtype dtype, const void *data, size_t first, size_t count, float *to);
void xcvm_halves_store(xcvm_dtype dtype, void *data, size_t first, size_t count, const float *from);

#endif
