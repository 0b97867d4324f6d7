/* Conversion of blocks of elements between all number types. */
#include "ops/util/convert.h"
#include "base/element.h"
#include "ops/choices.h"

#include <math.h>

/* ---- Packed integers ---- */

uint8_t xcvm_f8e8m0_from_f64(double value, bool saturate, int mode)
{
    _Static_assert((int)XCVM_POWER_UP == XCVM_ROUND_MODE_up && (int)XCVM_POWER_DOWN == XCVM_ROUND_MODE_down &&
                       (int)XCVM_POWER_NEAREST == XCVM_ROUND_MODE_nearest,
                   "the choices of round_mode are the ways to round");
    bool exceeds;
    const uint64_t code = xcvm_power_encode(value, (xcvm_power_rounding)mode, &exceeds);
    return (uint8_t)(exceeds && saturate && isfinite(value) ? xcvm_float_format_of(XCVM_F8E8M0)->greatest : code);
}

static uint32_t narrow_of(const xcvm_float_format *f, double value, bool saturate)
{
    bool exceeds;
    uint64_t code = xcvm_float_encode(f, value, &exceeds);
    if (saturate && (exceeds || isinf(value)))
        code = f->greatest | (signbit(value) ? f->sign : 0);
    return (uint32_t)code;
}

static uint32_t packed_get(xcvm_dtype dtype, const void *data, size_t index)
{
    return (uint32_t)xcvm_element_get(dtype == XCVM_U2 || dtype == XCVM_I2 ? 2 : 4, data, index);
}

void xcvm_packed_set(xcvm_dtype dtype, void *data, size_t index, uint32_t value)
{
    const size_t bits = dtype == XCVM_U2 || dtype == XCVM_I2 ? 2 : 4, per_byte = 8 / bits;
    const size_t shift = index % per_byte * bits;
    uint8_t *byte = (uint8_t *)data + index / per_byte;
    uint32_t before = (1u << shift) - 1u, mask = ((1u << bits) - 1u) << shift;
    *byte = (uint8_t)((*byte & before) | (value << shift & mask));
}

/* ---- Integers ---- */

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
        /* The highest bit of signed types has negative weight. */
        int64_t sign = dtype == XCVM_I4 ? 8 : dtype == XCVM_I2 ? 2 : 0;
        for (size_t i = 0; i < count; i++)
            to[i] = ((int64_t)packed_get(dtype, data, first + i) ^ sign) - sign;
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

/* ---- Fractional types ---- */

void xcvm_load_f32(xcvm_dtype dtype, const void *data, size_t first, size_t count, float *to)
{
    const uint16_t *from = (const uint16_t *)data + first;
    if (dtype == XCVM_F16)
        for (size_t i = 0; i < count; i++)
            to[i] = xcvm_f16_to_f32(from[i]);
    else if (dtype == XCVM_BF16)
        for (size_t i = 0; i < count; i++)
            to[i] = xcvm_bf16_to_f32(from[i]);
    else if (dtype == XCVM_F24)
        for (size_t i = 0; i < count; i++)
            to[i] = xcvm_f24_to_f32((const char *)data + (first + i) * 3);
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
    else if (dtype == XCVM_F24)
        for (size_t i = 0; i < count; i++)
            xcvm_f32_to_f24(from[i], (char *)data + (first + i) * 3);
    else
        memcpy((float *)data + first, from, count * sizeof *from);
}

void xcvm_load_f64(xcvm_dtype dtype, const void *data, size_t first, size_t count, double *to)
{
    const xcvm_float_format *f = xcvm_float_format_of(dtype);
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
    case XCVM_F24:
        for (size_t i = 0; i < count; i++)
            to[i] = (double)xcvm_f24_to_f32((const char *)data + (first + i) * 3);
        break;
    case XCVM_F8E4M3FN:
    case XCVM_F8E4M3FNUZ:
    case XCVM_F8E5M2:
    case XCVM_F8E5M2FNUZ:
    case XCVM_F8E8M0:
        for (size_t i = 0; i < count; i++)
            to[i] = xcvm_float_decode(f, ((const uint8_t *)data)[first + i]);
        break;
    case XCVM_F4E2M1:
        for (size_t i = 0; i < count; i++)
            to[i] = xcvm_float_decode(f, packed_get(dtype, data, first + i));
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

/* Rounding to odd: an f32 whose last bit records inexactness, so that rounding it again to at most 22 bits equals
 * rounding the f64 directly. */
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

/* Truncation defined for every number, with the results of the x86 instruction cvttsd2si. */
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

/* The low bits are the integer. */
static uint32_t packed_of(double value) { return (uint32_t)int32_of(rint(value)); }

void xcvm_store_f64(xcvm_dtype dtype, void *data, size_t first, size_t count, const double *from, bool saturate)
{
#define STORE(type, expression)                                                                                        \
    for (size_t i = 0; i < count; i++) {                                                                               \
        double v = from[i];                                                                                            \
        ((type *)data)[first + i] = (type)(expression);                                                                \
    }                                                                                                                  \
    break
    const xcvm_float_format *f = xcvm_float_format_of(dtype);
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
    case XCVM_F24:
        for (size_t i = 0; i < count; i++)
            xcvm_f32_to_f24(odd_f32(from[i]), (char *)data + (first + i) * 3);
        break;
    case XCVM_F8E4M3FN:
    case XCVM_F8E4M3FNUZ:
    case XCVM_F8E5M2:
    case XCVM_F8E5M2FNUZ:
        STORE(uint8_t, narrow_of(f, v, saturate));
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
            xcvm_packed_set(dtype, data, first + i, narrow_of(f, from[i], true));
        break;
    default:
        for (size_t i = 0; i < count; i++)
            xcvm_packed_set(dtype, data, first + i, packed_of(from[i]));
        break;
    }
#undef STORE
}
