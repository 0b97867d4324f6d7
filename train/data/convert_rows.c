/* Conversions by way of f64, which holds every number of the types that are converted. */
#include "train/data/convert_rows.h"

#include "base/allocator.h"

/* X(dtype, C type, expression of the number in x) */
#define LOADS(X)                                                                                                       \
    X(XCVM_BOOL, uint8_t, x != 0)                                                                                      \
    X(XCVM_U8, uint8_t, x)                                                                                             \
    X(XCVM_I8, int8_t, x)                                                                                              \
    X(XCVM_U16, uint16_t, x)                                                                                           \
    X(XCVM_I16, int16_t, x)                                                                                            \
    X(XCVM_U32, uint32_t, x)                                                                                           \
    X(XCVM_I32, int32_t, x)                                                                                            \
    X(XCVM_F16, uint16_t, xcvm_f16_to_f32(x))                                                                          \
    X(XCVM_BF16, uint16_t, xcvm_bf16_to_f32(x))                                                                        \
    X(XCVM_F32, float, x)
#define STORES(X)                                                                                                      \
    X(XCVM_I32, int32_t)                                                                                               \
    X(XCVM_I64, int64_t)                                                                                               \
    X(XCVM_F32, float)                                                                                                 \
    X(XCVM_F64, double)

/* Bits that a type's integers take, with their sign; of floating-point types, those of the significand. */
static int precision(xcvm_dtype dtype)
{
    switch (dtype) {
    case XCVM_BOOL:
        return 1;
    case XCVM_U8:
    case XCVM_I8:
        return 8;
    case XCVM_U16:
    case XCVM_I16:
        return 16;
    case XCVM_U32:
    case XCVM_I32:
        return 32;
    default:
        return 0;
    }
}

bool xct_converts(xcvm_dtype from, xcvm_dtype to)
{
    if (from == to)
        return true;
    if (from == XCVM_F16 || from == XCVM_BF16)
        return to == XCVM_F32 || to == XCVM_F64;
    if (from == XCVM_F32)
        return to == XCVM_F64;
    const int bits = precision(from);
    if (bits == 0)
        return false;
    return to == XCVM_F64 || to == XCVM_I64 || (to == XCVM_F32 && bits <= 16) || (to == XCVM_I32 && bits <= 16);
}

static void load(xcvm_dtype dtype, const unsigned char *data, double *to, size_t count)
{
    switch (dtype) {
#define LOAD(name, type, number)                                                                                       \
    case name:                                                                                                         \
        for (size_t i = 0; i < count; i++) {                                                                           \
            type x;                                                                                                    \
            memcpy(&x, data + i * sizeof x, sizeof x);                                                                 \
            to[i] = (double)(number);                                                                                  \
        }                                                                                                              \
        break;
        LOADS(LOAD)
#undef LOAD
    default:
        break;
    }
}

static void store(xcvm_dtype dtype, const double *from, unsigned char *data, size_t count)
{
    switch (dtype) {
#define STORE(name, type)                                                                                              \
    case name:                                                                                                         \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const type x = (type)from[i];                                                                              \
            memcpy(data + i * sizeof x, &x, sizeof x);                                                                 \
        }                                                                                                              \
        break;
        STORES(STORE)
#undef STORE
    default:
        break;
    }
}

void xct_convert(xcvm_dtype from, const void *data, xcvm_dtype to, void *result, size_t count)
{
    enum { PORTION = 256 };
    double numbers[PORTION];
    const size_t from_size = xcvm_dtype_size(from), to_size = xcvm_dtype_size(to);
    if (from == to) {
        if (count > 0)
            memcpy(result, data, count * to_size);
        return;
    }
    for (size_t at = 0; at < count; at += PORTION) {
        const size_t now = xcvm_min(count - at, PORTION);
        load(from, (const unsigned char *)data + at * from_size, numbers, now);
        store(to, numbers, (unsigned char *)result + at * to_size, now);
    }
}

/* Elements whose bits without the sign are greater than infinity's. */
#define COUNT_NAN(type, magnitude, infinity)                                                                           \
    for (size_t i = 0; i < count; i++) {                                                                               \
        type word;                                                                                                     \
        memcpy(&word, (const unsigned char *)data + i * sizeof word, sizeof word);                                     \
        found |= (word & (magnitude)) > (infinity);                                                                    \
    }

bool xct_has_nan(xcvm_dtype dtype, const void *data, size_t count)
{
    bool found = false;
    switch (dtype) {
    case XCVM_F16:
        COUNT_NAN(uint16_t, 0x7fff, 0x7c00)
        break;
    case XCVM_BF16:
        COUNT_NAN(uint16_t, 0x7fff, 0x7f80)
        break;
    case XCVM_F32:
        COUNT_NAN(uint32_t, UINT32_C(0x7fffffff), UINT32_C(0x7f800000))
        break;
    case XCVM_F64:
        COUNT_NAN(uint64_t, UINT64_C(0x7fffffffffffffff), UINT64_C(0x7ff0000000000000))
        break;
    default:
        break;
    }
    return found;
}
