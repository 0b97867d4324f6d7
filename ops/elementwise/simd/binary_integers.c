/* Loops of binary instructions for each integer type. */
#include "ops/elementwise/simd/binary_integers.h"

#include "ops/util/convert.h"
#include "ops/simd/math.h"

/* `wide` is the type of the formula; the result is its low bits. A broadcast element (a step of 0 and one of 1) is
 * repeated in a block. */
#define LOOP(name, type, wide, result, formula)                                                                        \
    static void name(const void *a, size_t a_step, const void *b, size_t b_step, void *y, size_t count)                \
    {                                                                                                                  \
        type repeated[XCVM_BLOCK];                                                                                     \
        const size_t most = a_step == b_step ? count : XCVM_BLOCK;                                                     \
        for (size_t i = 0; a_step != b_step && i < xcvm_min(count, XCVM_BLOCK); i++)                                   \
            repeated[i] = *(const type *)(a_step == 0 ? a : b);                                                        \
        for (size_t at = 0; at < count; at += most) {                                                                  \
            const type *from_a = a_step >= b_step ? (const type *)a + at : repeated;                                   \
            const type *from_b = b_step >= a_step ? (const type *)b + at : repeated;                                   \
            result *to = (result *)y + at;                                                                             \
            const size_t n = xcvm_min(count - at, most);                                                               \
            XCVM_INDEPENDENT                                                                                           \
            for (size_t i = 0; i < n; i++) {                                                                           \
                const wide u = from_a[i], v = from_b[i];                                                               \
                to[i] = (result)(formula);                                                                             \
            }                                                                                                          \
        }                                                                                                              \
    }

/* ---- Formulas ---- */

#define RESULT_SAME(type) type
#define RESULT_BOOL(type) uint8_t

/* The name of a loop consists of type and formula. If signs do not matter, unsigned loops are used for both. */
#define LOOPS_MODULAR(Name, result, formula)                                                                           \
    LOOP(u8_##Name, uint8_t, uint32_t, RESULT_##result(uint8_t), formula)                                              \
    LOOP(u16_##Name, uint16_t, uint32_t, RESULT_##result(uint16_t), formula)                                           \
    LOOP(u32_##Name, uint32_t, uint32_t, RESULT_##result(uint32_t), formula)                                           \
    LOOP(u64_##Name, uint64_t, uint64_t, RESULT_##result(uint64_t), formula)
#define LOOPS_ORDERED(Name, result, formula)                                                                           \
    LOOP(u8_##Name, uint8_t, uint8_t, RESULT_##result(uint8_t), formula)                                               \
    LOOP(u16_##Name, uint16_t, uint16_t, RESULT_##result(uint16_t), formula)                                           \
    LOOP(u32_##Name, uint32_t, uint32_t, RESULT_##result(uint32_t), formula)                                           \
    LOOP(u64_##Name, uint64_t, uint64_t, RESULT_##result(uint64_t), formula)                                           \
    LOOP(i8_##Name, int8_t, int8_t, RESULT_##result(int8_t), formula)                                                  \
    LOOP(i16_##Name, int16_t, int16_t, RESULT_##result(int16_t), formula)                                              \
    LOOP(i32_##Name, int32_t, int32_t, RESULT_##result(int32_t), formula)                                              \
    LOOP(i64_##Name, int64_t, int64_t, RESULT_##result(int64_t), formula)
#define LOOPS_UNSIGNED(Name, result, formula)                                                                          \
    LOOP(u8_##Name, uint8_t, uint64_t, RESULT_##result(uint8_t), formula)                                              \
    LOOP(u16_##Name, uint16_t, uint64_t, RESULT_##result(uint16_t), formula)                                           \
    LOOP(u32_##Name, uint32_t, uint64_t, RESULT_##result(uint32_t), formula)                                           \
    LOOP(u64_##Name, uint64_t, uint64_t, RESULT_##result(uint64_t), formula)
#define LOOPS_WIDE(Name, result, with_sign, without)
#define LOOPS_NONE(Name, result, nothing)
#define LOOPS_OF_KIND(...) LOOPS_OF_KIND_(__VA_ARGS__)
#define LOOPS_OF_KIND_(prefix, Name, result, kind, ...) prefix##kind(Name, result, __VA_ARGS__)
#define LOOPS(Name, kernel, grain, result, f32, f64, integers, booleans)                                               \
    LOOPS_OF_KIND(LOOPS_, Name, result, XCVM_TAKEN_##integers)
XCVM_BINARY_FORMULAS(LOOPS)

/* ---- Division ----
 *
 * There are vector divisions of floats, but not of integers. The truncated float quotient equals the integer quotient
 * if the operands are exact: a non-integer quotient is, relatively, at least 1 / u from the next integer, which is more
 * than its rounding error. The lowest number divided by -1 overflows and wraps. */

static inline int32_t quotient_i32(int32_t u, int32_t v)
{
    const double q = (double)u / (double)v;
    return (int32_t)(q < 2147483648.0 ? q : -2147483648.0);
}

static inline uint32_t quotient_u32(uint32_t u, uint32_t v)
{
    const double q = (double)u / (double)v;
    const uint32_t upper = q < 2147483648.0 ? 0 : 0x80000000u;
    return (uint32_t)(int32_t)(q < 2147483648.0 ? q : q - 2147483648.0) ^ upper;
}

static inline int32_t quotient_narrow(int32_t u, int32_t v) { return (int32_t)((float)u / (float)v); }

static inline uint32_t rest_u32(uint32_t u, uint32_t v) { return u - quotient_u32(u, v) * v; }
static inline int32_t rest_i32(int32_t u, int32_t v)
{
    return (int32_t)((uint32_t)u - (uint32_t)quotient_i32(u, v) * (uint32_t)v);
}
static inline int32_t rest_narrow(int32_t u, int32_t v) { return u - quotient_narrow(u, v) * v; }

/* With the sign of the divisor, as in Python. */
static inline int32_t signed_as(int32_t rest, int32_t v) { return rest != 0 && (rest ^ v) < 0 ? rest + v : rest; }

#define DIVISION(type, c_type, wide, quotient, rest, modulo)                                                           \
    LOOP(type##_Div, c_type, wide, c_type, quotient(u, v))                                                             \
    LOOP(type##_Fmod, c_type, wide, c_type, rest(u, v))                                                                \
    LOOP(type##_Mod, c_type, wide, c_type, modulo(rest(u, v), v))
#define AS_IT_IS(rest, v) (rest)
DIVISION(u8, uint8_t, int32_t, quotient_narrow, rest_narrow, AS_IT_IS)
DIVISION(u16, uint16_t, int32_t, quotient_narrow, rest_narrow, AS_IT_IS)
DIVISION(u32, uint32_t, uint32_t, quotient_u32, rest_u32, AS_IT_IS)
DIVISION(i8, int8_t, int32_t, quotient_narrow, rest_narrow, signed_as)
DIVISION(i16, int16_t, int32_t, quotient_narrow, rest_narrow, signed_as)
DIVISION(i32, int32_t, int32_t, quotient_i32, rest_i32, signed_as)

/* ---- Selection ---- */

xcvm_binary_loop xcvm_binary_integers(xcvm_binary op, xcvm_dtype dtype)
{
    enum { TYPE_u8, TYPE_u16, TYPE_u32, TYPE_u64, TYPE_i8, TYPE_i16, TYPE_i32, TYPE_i64, TYPES };
#define ENTRY(type, Name, loop) [XCVM_BINARY_##Name][TYPE_##type] = loop##_##Name,
#define WITHOUT_SIGN(Name) ENTRY(u8, Name, u8) ENTRY(u16, Name, u16) ENTRY(u32, Name, u32) ENTRY(u64, Name, u64)
#define ENTRIES_MODULAR(Name, formula)                                                                                 \
    WITHOUT_SIGN(Name) ENTRY(i8, Name, u8) ENTRY(i16, Name, u16) ENTRY(i32, Name, u32) ENTRY(i64, Name, u64)
#define ENTRIES_ORDERED(Name, formula)                                                                                 \
    WITHOUT_SIGN(Name) ENTRY(i8, Name, i8) ENTRY(i16, Name, i16) ENTRY(i32, Name, i32) ENTRY(i64, Name, i64)
#define ENTRIES_UNSIGNED(Name, formula) WITHOUT_SIGN(Name)
#define ENTRIES_WIDE(Name, with_sign, without)
#define ENTRIES_NONE(Name, nothing)
#define ENTRIES(Name, kernel, grain, result, f32, f64, integers, booleans)                                             \
    XCVM_BY_KIND(ENTRIES_, Name, XCVM_TAKEN_##integers)
#define NARROW(Name)                                                                                                   \
    ENTRY(u8, Name, u8)                                                                                                \
    ENTRY(u16, Name, u16) ENTRY(u32, Name, u32) ENTRY(i8, Name, i8) ENTRY(i16, Name, i16) ENTRY(i32, Name, i32)
    static const xcvm_binary_loop loops[XCVM_BINARY_COUNT][TYPES] = {XCVM_BINARY_FORMULAS(ENTRIES) NARROW(Div)
                                                                         NARROW(Mod) NARROW(Fmod)};
    static const uint8_t types[] = {
        [XCVM_U8] = TYPE_u8, [XCVM_U16] = TYPE_u16, [XCVM_U32] = TYPE_u32, [XCVM_U64] = TYPE_u64,
        [XCVM_I8] = TYPE_i8, [XCVM_I16] = TYPE_i16, [XCVM_I32] = TYPE_i32, [XCVM_I64] = TYPE_i64};
    return xcvm_dtype_in(dtype, XCVM_TYPES_INT) ? loops[op][types[dtype]] : NULL;
}

#define HAS_ZERO(type)                                                                                                 \
    static bool has_zero_##type(const void *data, size_t first, size_t count)                                          \
    {                                                                                                                  \
        const type *from = (const type *)data + first;                                                                 \
        type found = 0;                                                                                                \
        for (size_t i = 0; i < count; i++)                                                                             \
            found |= (type)(from[i] == 0);                                                                             \
        return found != 0;                                                                                             \
    }
HAS_ZERO(uint8_t)
HAS_ZERO(uint16_t)
HAS_ZERO(uint32_t)
HAS_ZERO(uint64_t)

xcvm_status xcvm_divisors_check(xcvm_kernel *k, const xcvm_value *divisor)
{
    const size_t count = xcvm_element_count(divisor), size = xcvm_dtype_size((xcvm_dtype)divisor->dtype);
    bool (*const has_zero)(const void *data, size_t first, size_t n) = size == 1   ? has_zero_uint8_t
                                                                       : size == 2 ? has_zero_uint16_t
                                                                       : size == 4 ? has_zero_uint32_t
                                                                                   : has_zero_uint64_t;
    for (size_t at = 0; at < count; at += XCVM_POLL_STEPS) {
        if (at > 0)
            XCVM_TRY(xcvm_kernel_poll(k));
        if (has_zero(divisor->data, at, xcvm_min(count - at, XCVM_POLL_STEPS)))
            return xcvm_divisor_check(k, divisor);
    }
    return XCVM_OK;
}
