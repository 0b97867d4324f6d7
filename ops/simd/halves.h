/* Bulk conversion of f16 and bf16 to and from f32, and of f24 to f32. Kernels have loops only for f32 and convert these
 * types block by block. */
#ifndef XCVM_OPS_SIMD_HALVES_H
#define XCVM_OPS_SIMD_HALVES_H

#include "ops/util/convert.h"
#include "ops/util/kernel.h"

/* Convert elements [first, first + count) at `data`, of type f16, bf16 or f32, and for loading also f24. Stores round
 * to nearest even. */
#define xcvm_halves_load XCVM_PER_ISA(xcvm_halves_load)
#define xcvm_halves_store XCVM_PER_ISA(xcvm_halves_store)
void xcvm_halves_load(xcvm_dtype dtype, const void *data, size_t first, size_t count, float *to);
void xcvm_halves_store(xcvm_dtype dtype, void *data, size_t first, size_t count, const float *from);
/* Convert all elements of such a tensor, with polls. */
#define xcvm_halves_load_all XCVM_PER_ISA(xcvm_halves_load_all)
#define xcvm_halves_store_all XCVM_PER_ISA(xcvm_halves_store_all)
xcvm_status xcvm_halves_load_all(const xcvm_kernel *k, const xcvm_value *v, float *to);
xcvm_status xcvm_halves_store_all(const xcvm_kernel *k, const float *from, xcvm_value *v);

/* Bytes of a copy of a tensor in the computation type: f16 and bf16 are copied as f32. 0 for other types and for NULL.
 */
static inline size_t xcvm_halves_copy_bytes(const xcvm_value *v)
{
    const bool copied = v != NULL && xcvm_dtype_in((xcvm_dtype)v->dtype, XCVM_TYPES_HALF);
    return copied ? xcvm_round_up(xcvm_element_count(v) * sizeof(float), XCVM_ALIGNMENT) : 0;
}
/* Returns its elements in the computation type: in place, or copied to *at, which is advanced. NULL if v is NULL. */
#define xcvm_halves_as_floats XCVM_PER_ISA(xcvm_halves_as_floats)
const void *xcvm_halves_as_floats(const xcvm_kernel *k, const xcvm_value *v, char **at);

#endif
