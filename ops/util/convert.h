/* Conversion of blocks of elements of any number type to f64 or i64 and back. Used by Cast and for arithmetic on rare
 * element types. */
#ifndef XCVM_OPS_UTIL_CONVERT_H
#define XCVM_OPS_UTIL_CONVERT_H

#include "base/value.h"

/* Elements of a block on the stack. */
enum { XCVM_BLOCK = 256 };

#define XCVM_TYPES_PACKED_INT (XCVM_DTYPE_BIT(U4) | XCVM_DTYPE_BIT(I4) | XCVM_DTYPE_BIT(U2) | XCVM_DTYPE_BIT(I2))
/* Types that fit in an i64 (u64 modulo 2^64). */
#define XCVM_TYPES_WHOLE (XCVM_TYPES_INT | XCVM_TYPES_BOOL | XCVM_TYPES_PACKED_INT)
#define XCVM_TYPES_FRACTIONAL (XCVM_TYPES_FLOAT | XCVM_TYPES_F8 | XCVM_DTYPE_BIT(F8E8M0) | XCVM_DTYPE_BIT(F4E2M1))

/* Reads elements [first, first + count) at `data`, of an integer type, as i64; bool as 0 and 1. */
void xcvm_load_i64(xcvm_dtype dtype, const void *data, size_t first, size_t count, int64_t *to);
/* Writes them, modulo 2 to the width. For bool, nonzero is true. */
void xcvm_store_i64(xcvm_dtype dtype, void *data, size_t first, size_t count, const int64_t *from);
/* Reads elements of an integer or fractional type as f64. */
void xcvm_load_f64(xcvm_dtype dtype, const void *data, size_t first, size_t count, double *to);
/* Writes them. Fractional types are rounded once, to nearest even. With `saturate`, types of 8 bits give the largest
 * finite number instead of infinity or NaN; the type of 4 bits always does. Integers truncate towards zero. Out of
 * range they follow x86: the lowest i32 or i64, also for NaN, of which narrower types keep the low bits. f8e8m0 rounds
 * away from zero and drops the sign. Integers of 4 and 2 bits round to nearest even. NaN becomes -0 in f4e2m1, as in
 * ONNX's reference implementation. Packed elements share bytes: ranges written by different threads must start at
 * multiples of 4. */
void xcvm_store_f64(xcvm_dtype dtype, void *data, size_t first, size_t count, const double *from, bool saturate);

/* Read f16, bf16, f24 and f32 as f32, and write them. */
void xcvm_load_f32(xcvm_dtype dtype, const void *data, size_t first, size_t count, float *to);
void xcvm_store_f32(xcvm_dtype dtype, void *data, size_t first, size_t count, const float *from);

/* Returns the f8e8m0 code of a number without its sign. `mode` is a ROUND_MODE; "nearest" rounds ties up. A finite
 * number that is too large gives the largest if `saturate`, else NaN. Infinity gives NaN. */
uint8_t xcvm_f8e8m0_from_f64(double value, bool saturate, int mode);
/* Writes element `index` of a packed type and clears the following ones in its byte, so that writing elements in order
 * leaves no old bits. */
void xcvm_packed_set(xcvm_dtype dtype, void *data, size_t index, uint32_t bits);

#endif
