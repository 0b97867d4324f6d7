/* Element types: sets of types, and conversion of narrow types. */
#ifndef XCVM_BASE_DTYPE_H
#define XCVM_BASE_DTYPE_H

#include "xcvm/xcvm.h"

#include <string.h>

/* A set of element types is a bit mask. The bit is the type's number; types that are not from ONNX have numbers from
 * 100 and bits from 28. */
typedef uint32_t xcvm_dtypes;
#define XCVM_DTYPE_INDEX(number) ((number) < 100 ? (number) : (number)-72)
#define XCVM_DTYPE_BIT(name) (UINT32_C(1) << XCVM_DTYPE_INDEX(XCVM_##name))

#define XCVM_TYPES_FLOAT (XCVM_DTYPE_BIT(F16) | XCVM_DTYPE_BIT(BF16) | XCVM_DTYPE_BIT(F32) | XCVM_DTYPE_BIT(F64))
#define XCVM_TYPES_SIGNED (XCVM_DTYPE_BIT(I8) | XCVM_DTYPE_BIT(I16) | XCVM_DTYPE_BIT(I32) | XCVM_DTYPE_BIT(I64))
#define XCVM_TYPES_UNSIGNED (XCVM_DTYPE_BIT(U8) | XCVM_DTYPE_BIT(U16) | XCVM_DTYPE_BIT(U32) | XCVM_DTYPE_BIT(U64))
#define XCVM_TYPES_INT (XCVM_TYPES_SIGNED | XCVM_TYPES_UNSIGNED)
#define XCVM_TYPES_REAL (XCVM_TYPES_FLOAT | XCVM_TYPES_INT)
#define XCVM_TYPES_BOOL XCVM_DTYPE_BIT(BOOL)
#define XCVM_TYPES_F32_OR_BOOL (XCVM_DTYPE_BIT(F32) | XCVM_TYPES_BOOL)
#define XCVM_TYPES_FLOAT_OR_BOOL (XCVM_TYPES_FLOAT | XCVM_TYPES_BOOL)
#define XCVM_TYPES_STRING XCVM_DTYPE_BIT(STRING)
#define XCVM_TYPES_REAL_OR_BOOL (XCVM_TYPES_REAL | XCVM_TYPES_BOOL)
#define XCVM_TYPES_INDEX (XCVM_DTYPE_BIT(I32) | XCVM_DTYPE_BIT(I64))
#define XCVM_TYPES_I64 XCVM_DTYPE_BIT(I64)
#define XCVM_TYPES_F64 XCVM_DTYPE_BIT(F64)
#define XCVM_TYPES_I32 XCVM_DTYPE_BIT(I32)
#define XCVM_TYPES_F32 XCVM_DTYPE_BIT(F32)
#define XCVM_TYPES_BF16 XCVM_DTYPE_BIT(BF16)
#define XCVM_TYPES_HALF (XCVM_DTYPE_BIT(F16) | XCVM_DTYPE_BIT(BF16))
/* Narrow weight types, which are converted to f32 when they are read, and all weight types. */
#define XCVM_TYPES_NARROW (XCVM_TYPES_HALF | XCVM_DTYPE_BIT(F24))
#define XCVM_TYPES_WEIGHT (XCVM_TYPES_NARROW | XCVM_DTYPE_BIT(F32))
/* Types of scales and offsets of block-quantized weights. */
#define XCVM_TYPES_SCALE (XCVM_TYPES_HALF | XCVM_DTYPE_BIT(F32))
#define XCVM_TYPES_U8_F32 (XCVM_DTYPE_BIT(U8) | XCVM_DTYPE_BIT(F32))
#define XCVM_TYPES_F32_F64 (XCVM_DTYPE_BIT(F32) | XCVM_DTYPE_BIT(F64))
#define XCVM_TYPES_U8 XCVM_DTYPE_BIT(U8)
#define XCVM_TYPES_I8 XCVM_DTYPE_BIT(I8)
#define XCVM_TYPES_U8_F32 (XCVM_DTYPE_BIT(U8) | XCVM_DTYPE_BIT(F32))
#define XCVM_TYPES_BYTE (XCVM_DTYPE_BIT(U8) | XCVM_DTYPE_BIT(I8))
#define XCVM_TYPES_COMPLEX (XCVM_DTYPE_BIT(C64) | XCVM_DTYPE_BIT(C128))
#define XCVM_TYPES_F8                                                                                                  \
    (XCVM_DTYPE_BIT(F8E4M3FN) | XCVM_DTYPE_BIT(F8E4M3FNUZ) | XCVM_DTYPE_BIT(F8E5M2) | XCVM_DTYPE_BIT(F8E5M2FNUZ))
#define XCVM_TYPES_PACKED                                                                                              \
    (XCVM_DTYPE_BIT(U4) | XCVM_DTYPE_BIT(I4) | XCVM_DTYPE_BIT(F4E2M1) | XCVM_DTYPE_BIT(U2) | XCVM_DTYPE_BIT(I2))
/* All types of whole bytes that may be copied without interpreting them. */
#define XCVM_TYPES_PLAIN (XCVM_TYPES_REAL_OR_BOOL | XCVM_TYPES_COMPLEX | XCVM_TYPES_F8 | XCVM_DTYPE_BIT(F8E8M0))
#define XCVM_TYPES_ANY_COMPARABLE (XCVM_TYPES_REAL_OR_BOOL | XCVM_TYPES_STRING)
#define XCVM_TYPES_TOKEN (XCVM_TYPES_INDEX | XCVM_TYPES_STRING)
#define XCVM_TYPES_ANY (XCVM_TYPES_PLAIN | XCVM_TYPES_STRING | XCVM_TYPES_PACKED)

static inline bool xcvm_dtype_in(xcvm_dtype dtype, xcvm_dtypes set)
{
    return (set >> XCVM_DTYPE_INDEX(dtype) & 1) != 0;
}
static inline bool xcvm_dtype_is_float(xcvm_dtype dtype) { return xcvm_dtype_in(dtype, XCVM_TYPES_FLOAT); }
/* Bytes of one element; 0 for packed types. */
static inline size_t xcvm_dtype_size(xcvm_dtype dtype) { return (size_t)xcvm_dtype_bits(dtype) / 8; }
/* Writes the names, such as "f32 f64 i32", for messages. Returns `text`. */
const char *xcvm_dtypes_describe(xcvm_dtypes set, char *text, size_t size);

/* Conversions of IEEE 754 binary16 and bfloat16 round to nearest even and keep NaN. */
float xcvm_f16_to_f32(uint16_t half);
uint16_t xcvm_f32_to_f16(float value);
static inline float xcvm_bf16_to_f32(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}
uint16_t xcvm_f32_to_bf16(float value);

/* The 24-bit floating-point type of PXR24 compression (OpenEXR, "Technical Introduction"): f32 without its last byte.
 */
static inline float xcvm_f24_to_f32(const void *from)
{
    uint32_t word = 0;
    float value;
    memcpy((char *)&word + 1, from, 3);
    memcpy(&value, &word, sizeof value);
    return value;
}
void xcvm_f32_to_f24(float value, void *to);

#endif
