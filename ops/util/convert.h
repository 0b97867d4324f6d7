/* Blocks of elements of any type that holds numbers, as f64 or i64 and back: what Cast is made of, and what arithmetic
 * on the rarer element types goes through. */
#ifndef XCVM_OPS_UTIL_CONVERT_H
#define XCVM_OPS_UTIL_CONVERT_H

#include "base/value.h"

/* Elements that a block on the stack holds. */
enum { XCVM_BLOCK = 256 };

#define XCVM_TYPES_PACKED_INT (XCVM_DTYPE_BIT(U4) | XCVM_DTYPE_BIT(I4) | XCVM_DTYPE_BIT(U2) | XCVM_DTYPE_BIT(I2))
/* Held by an i64 (those of u64 modulo 2^64). */
#define XCVM_TYPES_WHOLE (XCVM_TYPES_INT | XCVM_TYPES_BOOL | XCVM_TYPES_PACKED_INT)
#define XCVM_TYPES_FRACTIONAL (XCVM_TYPES_FLOAT | XCVM_TYPES_F8 | XCVM_DTYPE_BIT(F8E8M0) | XCVM_DTYPE_BIT(F4E2M1))

/* Elements [first, first + count) at `data`, of a whole type, as i64; bool as 0 and 1. */
void xcvm_load_i64(xcvm_dtype dtype, const void *data, size_t first, size_t count, int64_t *to);
/* Back, modulo 2 to the width; to bool, whether they are not 0. */
void xcvm_store_i64(xcvm_dtype dtype, void *data, size_t first, size_t count, const int64_t *from);
/* Elements of a whole or fractional type as f64. */
void xcvm_load_f64(xcvm_dtype dtype, const void *data, size_t first, size_t count, double *to);
/* Back. Fractional types round to nearest even, once; those of 8 bits give the greatest finite number instead of
 * infinity or NaN where `saturate`, that of 4 bits always. Integers are cut off towards zero; what is out of range
 * becomes what x86 makes of it: the lowest i32 or i64 (and so do NaNs), of which narrower types keep the low bits.
 * Powers of two alone (f8e8m0) round away from zero and lose their sign.
 * Integers of 4 and 2 bits are rounded to nearest even instead. NaN becomes -0 in f4e2m1, as in ONNX's reference
 * implementation and its cases. Packed elements share bytes with their neighbors: ranges that different threads write
 * must start at multiples of 4. */
void xcvm_store_f64(xcvm_dtype dtype, void *data, size_t first, size_t count, const double *from, bool saturate);

/* f16, bf16, f24 and f32 as f32, and back. */
void xcvm_load_f32(xcvm_dtype dtype, const void *data, size_t first, size_t count, float *to);
void xcvm_store_f32(xcvm_dtype dtype, void *data, size_t first, size_t count, const float *from);

/* The code in f8e8m0 of a number, without its sign; `mode` is one of ROUND_MODE, of which "nearest" rounds ties up. A
 * finite number that is too large gives the greatest where `saturate`, else NaN, as infinity does. */
uint8_t xcvm_f8e8m0_from_f64(double value, bool saturate, int mode);
/* Writes element `index` of a packed type and clears those behind it in its byte, so that elements written in their
 * order leave no bits of what was there before. */
void xcvm_packed_set(xcvm_dtype dtype, void *data, size_t index, uint32_t bits);

#endif
