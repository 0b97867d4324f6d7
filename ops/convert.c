#include "ops/convert.h"
#include "ops/choices.h"

#include <math.h>

/* ---- Numbers of few bits ---- */

/* Source: the ONNX pages "Float stored in 8 bits" and "Float stored in 4 bits". */
typedef struct narrow_format {
    uint8_t mantissa, bias;
    uint8_t sign;     /* its bit */
    uint8_t greatest; /* code of the greatest finite number */
    uint8_t infinity; /* code; where there is none, that of NaN */
    uint8_t nan;
} narrow_format;

static const narrow_format *format_of(xcvm_dtype dtype)
{
    static const narrow_format e4m3fn = {3, 7, 0x80, 0x7e, 0x7f, 0x7f};
    static const narrow_format e4m3fnuz = {3, 8, 0x80, 0x7f, 0x80, 0x80};
    static const narrow_format e5m2 = {2, 15, 0x80, 0x7b, 0x7c, 0x7f};
    static const narrow_format e5m2fnuz = {2, 16, 0x80, 0x7f, 0x80, 0x80};
    static const narrow_format e2m1 = {1, 1, 0x08, 0x07, 0x07, 0x07};
    return dtype == XCVM_F8E4M3FN     ? &e4m3fn
           : dtype == XCVM_F8E4M3FNUZ ? &e4m3fnuz
           : dtype == XCVM_F8E5M2     ? &e5m2
           : dtype == XCVM_F8E5M2FNUZ ? &e5m2fnuz
                                      : &e2m1;
}

float xcvm_f8_to_f32(xcvm_dtype dtype, uint32_t bits)
{
    const narrow_format *f = format_of(dtype);
    uint32_t code = bits & (f->sign - 1u);
    bool negative = (bits & f->sign) != 0;
    if (code > f->greatest || (f->nan == f->sign && bits == f->sign)) {
        float special = code == f->infinity && f->infinity != f->nan ? INFINITY : NAN;
        return negative ? -special : special;
    }
    int exponent = (int)(code >> f->mantissa);
    uint32_t mantissa = code & ((1u << f->mantissa) - 1u);
    if (exponent == 0)
        exponent = 1;
    else
        mantissa |= 1u << f->mantissa;
    float value = ldexpf((float)mantissa, exponent - f->bias - f->mantissa);
    return negative ? -value : value;
}

uint32_t xcvm_f8_from_f64(xcvm_dtype dtype, double value, bool saturate)
{
    const narrow_format *f = format_of(dtype);
    bool signless_zero = f->nan == f->sign;
    uint32_t sign = signbit(value) ? f->sign : 0u;
    uint32_t code;
    if (isnan(value))
        return dtype == XCVM_F4E2M1 ? f->sign : f->nan | (signless_zero ? 0u : sign);
    double a = fabs(value);
    uint32_t beyond = saturate ? f->greatest : f->infinity;
    if (a >= 65536.0 * 4) {
        code = beyond;
    } else {
        int exponent = a == 0.0 ? -1000 : ilogb(a);
        if (exponent < 1 - f->bias)
            exponent = 1 - f->bias;
        /* The number in units of its last place; a carry out of it moves on to the next exponent by itself. */
        double units = rint(ldexp(a, f->mantissa - exponent));
        code = (uint32_t)(exponent + f->bias - 1) << f->mantissa;
        code += (uint32_t)units;
        if (code > f->greatest)
            code = beyond;
    }
    if (signless_zero && (code == 0 || code == f->nan))
        return code;
    return code | sign;
}

/* Source: OCP Microscaling Formats, and the page of Cast. */
float xcvm_f8e8m0_to_f32(uint32_t bits) { return bits == 255 ? NAN : ldexpf(1.0f, (int)bits - 127); }

uint32_t xcvm_f8e8m0_from_f64(double value, bool saturate, int mode)
{
    int exponent;
    if (!isfinite(value))
        return 255;
    /* value = fraction * 2^exponent, 1 / 2 <= fraction < 1 */
    const double fraction = frexp(fabs(value), &exponent);
    if (fraction == 0.0 || exponent - 1 < -127)
        return 0;
    const bool up = mode == XCVM_ROUND_MODE_up ? fraction > 0.5 : mode == XCVM_ROUND_MODE_nearest && fraction >= 0.75;
    const int code = exponent - 1 + up + 127;
    return code <= 254 ? (uint32_t)code : saturate ? 254 : 255;
}

static size_t packed_bits(xcvm_dtype dtype) { return dtype == XCVM_U2 || dtype == XCVM_I2 ? 2 : 4; }

uint32_t xcvm_packed_get(xcvm_dtype dtype, const void *data, size_t index)
{
    size_t bits = packed_bits(dtype), per_byte = 8 / bits;
    uint32_t byte = ((const uint8_t *)data)[index / per_byte];
    return byte >> (index % per_byte * bits) & ((1u << bits) - 1u);
}

void xcvm_packed_set(xcvm_dtype dtype, void *data, size_t index, uint32_t value)
{
    size_t bits = packed_bits(dtype), per_byte = 8 / bits, shift = index % per_byte * bits;
    uint8_t *byte = (uint8_t *)data + index / per_byte;
    uint32_t before = (1u << shift) - 1u, mask = ((1u << bits) - 1u) << shift;
    *byte = (uint8_t)((*byte & before) | (value << shift & mask));
}

/* ---- Whole numbers ---- */

void xcvm_load_i64(xcvm_dtype dtype, const void *data, size_t first, size_t count, int64_t *to)
{
#define LOAD(type)                                                                                                     \
    for (size_t i = 0; i < count; i++)                                                                                 \
        to[i] = (int64_t)((const type *)data)[first + i];                                                              \
    break
    switch (dtype) {
    case XCVM_I8:
        LOAD(int8_t);
    case XCVM_U8:
        LOAD(uint8_t);
    case XCVM_I16:
        LOAD(int16_t);
    case XCVM_U16:
        LOAD(uint16_t);
    case XCVM_I32:
        LOAD(int32_t);
    case XCVM_U32:
        LOAD(uint32_t);
    case XCVM_U64:
        LOAD(uint64_t);
    case XCVM_I64:
        memcpy(to, (const int64_t *)data + first, count * sizeof *to);
        break;
    case XCVM_BOOL:
        for (size_t i = 0; i < count; i++)
            to[i] = ((const uint8_t *)data)[first + i] != 0;
        break;
    default: {
        /* Of the signed ones the highest bit counts negative. */
        int64_t sign = dtype == XCVM_I4 ? 8 : dtype == XCVM_I2 ? 2 : 0;
        for (size_t i = 0; i < count; i++)
            to[i] = ((int64_t)xcvm_packed_get(dtype, data, first + i) ^ sign) - sign;
        break;
    }
    }
#undef LOAD
}

void xcvm_store_i64(xcvm_dtype dtype, void *data, size_t first, size_t count, const int64_t *from)
{
#define STORE(type)                                                                                                    \
    for (size_t i = 0; i < count; i++)                                                                                 \
        ((type *)data)[first + i] = (type)from[i];                                                                     \
    break
    switch (dtype) {
    case XCVM_I8:
    case XCVM_U8:
        STORE(uint8_t);
    case XCVM_I16:
    case XCVM_U16:
        STORE(uint16_t);
    case XCVM_I32:
    case XCVM_U32:
        STORE(uint32_t);
    case XCVM_I64:
    case XCVM_U64:
        memcpy((int64_t *)data + first, from, count * sizeof *from);
        break;
    case XCVM_BOOL:
        for (size_t i = 0; i < count; i++)
            ((uint8_t *)data)[first + i] = from[i] != 0;
        break;
    default:
        for (size_t i = 0; i < count; i++)
            xcvm_packed_set(dtype, data, first + i, (uint32_t)(from[i] & 15));
        break;
    }
#undef STORE
}

/* ---- Fractional numbers ---- */

void xcvm_load_f32(xcvm_dtype dtype, const void *data, size_t first, size_t count, float *to)
{
    const uint16_t *from = (const uint16_t *)data + first;
    if (dtype == XCVM_F16)
        for (size_t i = 0; i < count; i++)
            to[i] = xcvm_f16_to_f32(from[i]);
    else if (dtype == XCVM_BF16)
        for (size_t i = 0; i < count; i++)
            to[i] = xcvm_bf16_to_f32(from[i]);
    else
        memcpy(to, (const float *)data + first, count * sizeof *to);
}

void xcvm_store_f32(xcvm_dtype dtype, void *data, size_t first, size_t count, const float *from)
{
    uint16_t *to = (uint16_t *)data + first;
    if (dtype == XCVM_F16)
        for (size_t i = 0; i < count; i++)
            to[i] = xcvm_f32_to_f16(from[i]);
    else if (dtype == XCVM_BF16)
        for (size_t i = 0; i < count; i++)
            to[i] = xcvm_f32_to_bf16(from[i]);
    else
        memcpy((float *)data + first, from, count * sizeof *from);
}

void xcvm_load_f64(xcvm_dtype dtype, const void *data, size_t first, size_t count, double *to)
{
    switch (dtype) {
    case XCVM_F64:
        memcpy(to, (const double *)data + first, count * sizeof *to);
        break;
    case XCVM_F32:
        for (size_t i = 0; i < count; i++)
            to[i] = (double)((const float *)data)[first + i];
        break;
    case XCVM_F16:
        for (size_t i = 0; i < count; i++)
            to[i] = (double)xcvm_f16_to_f32(((const uint16_t *)data)[first + i]);
        break;
    case XCVM_BF16:
        for (size_t i = 0; i < count; i++)
            to[i] = (double)xcvm_bf16_to_f32(((const uint16_t *)data)[first + i]);
        break;
    case XCVM_F8E4M3FN:
    case XCVM_F8E4M3FNUZ:
    case XCVM_F8E5M2:
    case XCVM_F8E5M2FNUZ:
        for (size_t i = 0; i < count; i++)
            to[i] = (double)xcvm_f8_to_f32(dtype, ((const uint8_t *)data)[first + i]);
        break;
    case XCVM_F8E8M0:
        for (size_t i = 0; i < count; i++)
            to[i] = (double)xcvm_f8e8m0_to_f32(((const uint8_t *)data)[first + i]);
        break;
    case XCVM_F4E2M1:
        for (size_t i = 0; i < count; i++)
            to[i] = (double)xcvm_f8_to_f32(dtype, xcvm_packed_get(dtype, data, first + i));
        break;
    case XCVM_U64:
        for (size_t i = 0; i < count; i++)
            to[i] = (double)((const uint64_t *)data)[first + i];
        break;
    default: {
        int64_t block[XCVM_BLOCK];
        for (size_t done = 0; done < count; done += XCVM_BLOCK) {
            size_t n = count - done < XCVM_BLOCK ? count - done : XCVM_BLOCK;
            xcvm_load_i64(dtype, data, first + done, n, block);
            for (size_t i = 0; i < n; i++)
                to[done + i] = (double)block[i];
        }
        break;
    }
    }
}

/* An f32 whose last bit tells that something was cut off, so that rounding it on to fewer bits (22 or less) gives what
 * rounding the f64 at once would: "rounding to odd". */
static float odd_f32(double value)
{
    float nearest = (float)value;
    if ((double)nearest == value || isnan(value) || isinf(nearest))
        return nearest;
    uint32_t bits;
    memcpy(&bits, &nearest, sizeof bits);
    if (fabs((double)nearest) > fabs(value))
        bits--;
    bits |= 1;
    memcpy(&nearest, &bits, sizeof bits);
    return nearest;
}

/* Truncation that is defined for every number, in the way of cvttsd2si. */
static int32_t int32_of(double value)
{
    return value > -2147483649.0 && value < 2147483648.0 ? (int32_t)value : INT32_MIN;
}

static int64_t int64_of(double value) { return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN; }

static uint64_t uint64_of(double value)
{
    if (value >= 0x1p63 && value < 0x1p64)
        return (uint64_t)value;
    return (uint64_t)int64_of(value);
}

/* The low bits hold the integer. */
static uint32_t packed_of(double value) { return (uint32_t)int32_of(rint(value)); }

void xcvm_store_f64(xcvm_dtype dtype, void *data, size_t first, size_t count, const double *from, bool saturate)
{
#define STORE(type, expression)                                                                                        \
    for (size_t i = 0; i < count; i++) {                                                                               \
        double v = from[i];                                                                                            \
        ((type *)data)[first + i] = (type)(expression);                                                                \
    }                                                                                                                  \
    break
    switch (dtype) {
    case XCVM_F64:
        memcpy((double *)data + first, from, count * sizeof *from);
        break;
    case XCVM_F32:
        STORE(float, v);
    case XCVM_F16:
        STORE(uint16_t, xcvm_f32_to_f16(odd_f32(v)));
    case XCVM_BF16:
        STORE(uint16_t, xcvm_f32_to_bf16(odd_f32(v)));
    case XCVM_F8E4M3FN:
    case XCVM_F8E4M3FNUZ:
    case XCVM_F8E5M2:
    case XCVM_F8E5M2FNUZ:
        STORE(uint8_t, xcvm_f8_from_f64(dtype, v, saturate));
    case XCVM_F8E8M0:
        STORE(uint8_t, xcvm_f8e8m0_from_f64(v, saturate, XCVM_ROUND_MODE_up));
    case XCVM_BOOL:
        STORE(uint8_t, v != 0.0);
    case XCVM_I8:
    case XCVM_U8:
        STORE(uint8_t, int32_of(v));
    case XCVM_I16:
    case XCVM_U16:
        STORE(uint16_t, int32_of(v));
    case XCVM_I32:
        STORE(int32_t, int32_of(v));
    case XCVM_U32:
        STORE(uint32_t, int64_of(v));
    case XCVM_I64:
        STORE(int64_t, int64_of(v));
    case XCVM_U64:
        STORE(uint64_t, uint64_of(v));
    case XCVM_F4E2M1:
        for (size_t i = 0; i < count; i++)
            xcvm_packed_set(dtype, data, first + i, xcvm_f8_from_f64(dtype, from[i], true));
        break;
    default:
        for (size_t i = 0; i < count; i++)
            xcvm_packed_set(dtype, data, first + i, packed_of(from[i]));
        break;
    }
#undef STORE
}
