/* f16 and bf16 as f32, and f24, in bulk. Kernels have loops for f32 alone and bring these types to it a block at a
 * time.
 */
#ifndef XCVM_OPS_SIMD_HALVES_H
#define XCVM_OPS_SIMD_HALVES_H

#include "ops/util/convert.h"
#include "ops/util/kernel.h"

/* Elements [first, first + count) at `data`, of type f16, bf16 or f32, for loading of f24 too; rounded to nearest even
 * on the way back. */
#define xcvm_halves_load XCVM_PER_ISA(xcvm_halves_load)
#define xcvm_halves_store XCVM_PER_ISA(xcvm_halves_store)
void xcvm_halves_load(xcvm_dtype dtype, const void *data, size_t first, size_t count, float *to);
void xcvm_halves_store(xcvm_dtype dtype, void *data, size_t first, size_t count, const float *from);
/* All elements of a tensor of such a type; they poll. */
#define xcvm_halves_load_all XCVM_PER_ISA(xcvm_halves_load_all)
#define xcvm_halves_store_all XCVM_PER_ISA(xcvm_halves_store_all)
xcvm_status xcvm_halves_load_all(const xcvm_kernel *k, const xcvm_value *v, float *to);
xcvm_status xcvm_halves_store_all(const xcvm_kernel *k, const float *from, xcvm_value *v);

/* A tensor in the type that is computed in: f16 and bf16 as f32, in a copy; all others as they are. Bytes that the copy
 * takes, 0 if there is none, or no tensor (NULL). */
static inline size_t xcvm_halves_copy_bytes(const xcvm_value *v)
{
    const bool copied = v != NULL && xcvm_dtype_in((xcvm_dtype)v->dtype, XCVM_TYPES_HALF);
    return copied ? xcvm_round_up(xcvm_element_count(v) * sizeof(float), XCVM_ALIGNMENT) : 0;
}
/* Its elements: where they lie, or copied to *at, which then moves on beyond them. NULL if it is NULL. */
#define xcvm_halves_as_floats XCVM_PER_ISA(xcvm_halves_as_floats)
const void *xcvm_halves_as_floats(const xcvm_kernel *k, const xcvm_value *v, char **at);

#endif
