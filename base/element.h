/* Elements of tensors as bits, and the numeric value of bits of each floating-point type. Everything is inline and
 * depends only on the public header, so that the tools use the same table. dtype.h and ops/simd/halves.h convert whole
 * arrays of f16 and bf16 faster. */
#ifndef XCVM_BASE_ELEMENT_H
#define XCVM_BASE_ELEMENT_H

#include "xcvm/xcvm.h"

#include <math.h>
#include <string.h>

/* ---- Position of an element's bits ---- */

/* Elements are little-endian, as in files. Elements of fewer than 8 bits are packed from the low bits of a byte. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are little-endian");

/* Returns element `index` of a type of `bits` bits (2, 4, 8, 16, 24, 32 or 64) as an unsigned number. */
static inline uint64_t xcvm_element_get(int bits, const void *data, size_t index)
{
    const unsigned char *bytes = (const unsigned char *)data;
    uint64_t word = 0;
    if (bits >= 8) {
        memcpy(&word, bytes + index * ((size_t)bits / 8), (size_t)bits / 8);
        return word;
    }
    const size_t per_byte = 8 / (size_t)bits;
    return bytes[index / per_byte] >> (index % per_byte * (size_t)bits) & ((1u << bits) - 1u);
}

/* Writes the low `bits` bits of `word` without changing neighbors in the same byte. */
static inline void xcvm_element_set(int bits, void *data, size_t index, uint64_t word)
{
    unsigned char *bytes = (unsigned char *)data;
    if (bits >= 8) {
        memcpy(bytes + index * ((size_t)bits / 8), &word, (size_t)bits / 8);
        return;
    }
    const size_t per_byte = 8 / (size_t)bits;
    const unsigned shift = (unsigned)(index % per_byte * (size_t)bits), mask = ((1u << bits) - 1u) << shift;
    unsigned char *byte = bytes + index / per_byte;
    *byte = (unsigned char)((*byte & ~mask) | ((unsigned)word << shift & mask));
}

/* ---- Floating-point types ---- */

/* Bit fields are sign, exponent and mantissa from the highest bit; f8e8m0 has only an exponent. Numbers with exponent 0
 * have no hidden bit. Sources: IEEE 754; for types of 8 and 4 bits the ONNX pages "Float stored in 8 bits" and "Float
 * stored in 4 bits", and OCP Microscaling Formats. */
typedef struct xcvm_float_format {
    int bits, mantissa, bias;
    uint64_t sign;     /* sign bit; 0: none */
    uint64_t greatest; /* code of the largest finite number */
    uint64_t infinity; /* code of infinity; 0: none */
    uint64_t nan; /* code of the default NaN; 0: none. If it equals the sign bit, it is the only NaN and there is no
                     negative zero */
} xcvm_float_format;

/* Returns NULL if `dtype` is no floating-point type. Complex types consist of two floats and have no format of their
 * own. */
static inline const xcvm_float_format *xcvm_float_format_of(xcvm_dtype dtype)
{
#define XCVM_FLOAT_SIGN(bits) (UINT64_C(1) << ((bits)-1))
    static const xcvm_float_format formats[] = {
        [XCVM_F32] = {32, 23, 127, XCVM_FLOAT_SIGN(32), 0x7f7fffff, 0x7f800000, 0x7fc00000},
        [XCVM_F16] = {16, 10, 15, XCVM_FLOAT_SIGN(16), 0x7bff, 0x7c00, 0x7e00},
        [XCVM_F64] = {64, 52, 1023, XCVM_FLOAT_SIGN(64), UINT64_C(0x7fefffffffffffff), UINT64_C(0x7ff0000000000000),
                      UINT64_C(0x7ff8000000000000)},
        [XCVM_BF16] = {16, 7, 127, XCVM_FLOAT_SIGN(16), 0x7f7f, 0x7f80, 0x7fc0},
        [XCVM_F8E4M3FN] = {8, 3, 7, XCVM_FLOAT_SIGN(8), 0x7e, 0, 0x7f},
        [XCVM_F8E4M3FNUZ] = {8, 3, 8, XCVM_FLOAT_SIGN(8), 0x7f, 0, 0x80},
        [XCVM_F8E5M2] = {8, 2, 15, XCVM_FLOAT_SIGN(8), 0x7b, 0x7c, 0x7f},
        [XCVM_F8E5M2FNUZ] = {8, 2, 16, XCVM_FLOAT_SIGN(8), 0x7f, 0, 0x80},
        [XCVM_F4E2M1] = {4, 1, 1, XCVM_FLOAT_SIGN(4), 7, 0, 0},
        [XCVM_F8E8M0] = {8, 0, 127, 0, 0xfe, 0, 0xff},
    };
    /* Not in the table, because its number is far from the others. */
    static const xcvm_float_format f24 = {24, 15, 127, XCVM_FLOAT_SIGN(24), 0x7f7fff, 0x7f8000, 0x7fc000};
#undef XCVM_FLOAT_SIGN
    if (dtype == XCVM_F24)
        return &f24;
    return dtype < sizeof formats / sizeof *formats && formats[dtype].bits != 0 ? &formats[dtype] : NULL;
}

static inline uint64_t xcvm_double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double xcvm_double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline bool xcvm_float_is_nan(const xcvm_float_format *f, uint64_t bits)
{
    if (f->nan == f->sign || f->sign == 0)
        return bits == f->nan;
    return f->nan != 0 && (bits & ~f->sign) > (f->infinity != 0 ? f->infinity : f->greatest);
}

/* Returns the exact value of the low f->bits bits. A NaN keeps only its sign (f64: all bits). */
static inline double xcvm_float_decode(const xcvm_float_format *f, uint64_t bits)
{
    if (f->mantissa == 52)
        return xcvm_double_of(bits);
    const uint64_t code = bits & ~f->sign, sign = (bits & f->sign) != 0 ? UINT64_C(1) << 63 : 0;
    if (xcvm_float_is_nan(f, bits))
        return xcvm_double_of(xcvm_double_bits((double)NAN) | sign);
    if (f->infinity != 0 && code == f->infinity)
        return xcvm_double_of(xcvm_double_bits((double)INFINITY) | sign);
    const uint64_t exponent = code >> f->mantissa, fraction = code & ((UINT64_C(1) << f->mantissa) - 1);
    if (exponent > 0 || f->sign == 0)
        return xcvm_double_of((exponent + (uint64_t)(1023 - f->bias)) << 52 | fraction << (52 - f->mantissa) | sign);
    const double last_place = xcvm_double_of((uint64_t)(1024 - f->bias - f->mantissa) << 52);
    return xcvm_double_of(xcvm_double_bits((double)fraction * last_place) | sign);
}

/* Rounding of a positive number to a power of two. XCVM_POWER_NEAREST rounds ties up. */
typedef enum xcvm_power_rounding { XCVM_POWER_UP, XCVM_POWER_DOWN, XCVM_POWER_NEAREST } xcvm_power_rounding;

/* Returns the f8e8m0 code of |value|. A value above the largest number, or infinity, gives NaN and sets *exceeds to
 * true; otherwise *exceeds is false. A value below the smallest number, or zero, gives the smallest. */
static inline uint64_t xcvm_power_encode(double value, xcvm_power_rounding rounding, bool *exceeds)
{
    const uint64_t bits = xcvm_double_bits(value) & ~(UINT64_C(1) << 63), fraction = bits & UINT64_C(0xfffffffffffff);
    const uint64_t nan = 0xff;
    const int exponent = (int)(bits >> 52) - 1023;
    *exceeds = false;
    if (exponent == 1024) {
        *exceeds = fraction == 0;
        return nan;
    }
    if (exponent < -127)
        return 0;
    const bool up = rounding == XCVM_POWER_UP        ? fraction != 0
                    : rounding == XCVM_POWER_NEAREST ? fraction >> 51 != 0
                                                     : false;
    const int code = exponent + 127 + up;
    *exceeds = code > 0xfe;
    return *exceeds ? nan : (uint64_t)code;
}

/* Rounds `value` to nearest even (f8e8m0: up, ignoring the sign), independently of the processor's rounding mode.
 * Overflow by half a unit in the last place or more gives infinity, else NaN, else the largest number, whichever the
 * type has. *exceeds is set if the type has no infinity or the value is finite. NaN gives the default NaN with its
 * sign; types without NaN give minus zero, like ONNX's reference implementation. */
static inline uint64_t xcvm_float_encode(const xcvm_float_format *f, double value, bool *exceeds)
{
    const uint64_t bits = xcvm_double_bits(value), magnitude = bits & ~(UINT64_C(1) << 63);
    const uint64_t infinity = UINT64_C(0x7ff0000000000000);
    uint64_t sign = bits != magnitude ? f->sign : 0, code;
    *exceeds = false;
    if (magnitude > infinity)
        return f->nan != 0 ? f->nan | sign : f->sign;
    if (f->mantissa == 52)
        return bits;
    if (f->sign == 0)
        return xcvm_power_encode(value, XCVM_POWER_UP, exceeds);
    if (magnitude == infinity) {
        code = UINT64_MAX;
    } else {
        const int exponent = (int)(magnitude >> 52) - 1023 + f->bias;
        uint64_t units = (magnitude & UINT64_C(0xfffffffffffff)) | UINT64_C(1) << 52; /* units of 2^-52 */
        /* Subnormal results lose more bits. Below half a unit in the last place they lose all. */
        const int cut = 52 - f->mantissa + (exponent < 1 ? 1 - exponent : 0);
        units = cut > 53 ? 0 : (units + (UINT64_C(1) << (cut - 1)) - 1 + (units >> cut & 1)) >> cut;
        /* The hidden bit adds 1 to the exponent, as a carry does. */
        code = exponent < 1 ? units : ((uint64_t)(exponent - 1) << f->mantissa) + units;
    }
    if (code > f->greatest) {
        *exceeds = magnitude != infinity || f->infinity == 0;
        code = f->infinity != 0 ? f->infinity : f->nan != 0 ? f->nan : f->greatest;
    }
    if (f->nan == f->sign && (code == 0 || code == f->sign))
        sign = 0;
    return code | sign;
}

#endif
