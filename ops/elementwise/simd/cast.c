/* Cast: frequent pairs of types have their own loops; others use blocks of f64 or i64. */
#include "ops/elementwise/cast_text.h"

#include "ops/simd/halves.h"
#include "ops/simd/math.h"

typedef struct cast_loop {
    const xcvm_value *x;
    xcvm_value *y;
    bool saturate;
    int round_mode; /* for f8e8m0 */
} cast_loop;

/* ---- Conversions as in convert.h: out of range gives the lowest integer ---- */

static inline int32_t int32_of_f32(float v)
{
    return (int32_t)(v >= -2147483648.0f && v < 2147483648.0f ? v : -2147483648.0f);
}
static inline int64_t int64_of_f32(float v)
{
    return (int64_t)(v >= -9223372036854775808.0f && v < 9223372036854775808.0f ? v : -9223372036854775808.0f);
}
static inline int32_t int32_of_f64(double v)
{
    return (int32_t)(v > -2147483649.0 && v < 2147483648.0 ? v : -2147483648.0);
}
static inline int64_t int64_of_f64(double v) { return (int64_t)(v >= -0x1p63 && v < 0x1p63 ? v : -0x1p63); }

/* Rounding to odd: an f32 whose last bit records inexactness, so that rounding it again to f16 or bf16 equals rounding
 * the f64 directly. */
static inline float odd_f32(double v)
{
    const float nearest = (float)v;
    const uint32_t bits = xcvm_f32_bits(nearest), is_greater = fabs((double)nearest) > fabs(v);
    const uint32_t odd = (bits - is_greater) | 1u;
    const int is_cut = ((double)nearest != v) & (v == v) & ((bits & 0x7fffffffu) != 0x7f800000u);
    return xcvm_f32_of(is_cut ? odd : bits);
}

/* ---- Loops for pairs of types, from x to y; they return false if there is none ---- */

#define LOOP(from, to, expression)                                                                                     \
    do {                                                                                                               \
        const from *in = x;                                                                                            \
        to *out = y;                                                                                                   \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const from v = in[i];                                                                                      \
            out[i] = (to)(expression);                                                                                 \
        }                                                                                                              \
        return true;                                                                                                   \
    } while (0)

/* Modulo the size of the result; only the signedness of the source matters. */
#define TO_WHOLE(to)                                                                                                   \
    switch (dtype) {                                                                                                   \
    case XCVM_I8:                                                                                                      \
        LOOP(int8_t, to, v);                                                                                           \
    case XCVM_U8:                                                                                                      \
        LOOP(uint8_t, to, v);                                                                                          \
    case XCVM_BOOL:                                                                                                    \
        LOOP(uint8_t, to, v != 0);                                                                                     \
    case XCVM_I16:                                                                                                     \
        LOOP(int16_t, to, v);                                                                                          \
    case XCVM_U16:                                                                                                     \
        LOOP(uint16_t, to, v);                                                                                         \
    case XCVM_I32:                                                                                                     \
        LOOP(int32_t, to, v);                                                                                          \
    case XCVM_U32:                                                                                                     \
        LOOP(uint32_t, to, v);                                                                                         \
    case XCVM_I64:                                                                                                     \
    case XCVM_U64:                                                                                                     \
        LOOP(uint64_t, to, v);                                                                                         \
    default:                                                                                                           \
        return false;                                                                                                  \
    }

static bool to_u8(xcvm_dtype dtype, const void *x, void *y, size_t count) { TO_WHOLE(uint8_t) }
static bool to_u16(xcvm_dtype dtype, const void *x, void *y, size_t count) { TO_WHOLE(uint16_t) }
static bool to_u32(xcvm_dtype dtype, const void *x, void *y, size_t count) { TO_WHOLE(uint32_t) }
static bool to_u64(xcvm_dtype dtype, const void *x, void *y, size_t count) { TO_WHOLE(uint64_t) }

static bool whole_to_bool(xcvm_dtype dtype, const void *x, void *y, size_t count)
{
    switch (xcvm_dtype_in(dtype, XCVM_TYPES_PACKED) ? 0 : xcvm_dtype_size(dtype)) {
    case 1:
        LOOP(uint8_t, uint8_t, v != 0);
    case 2:
        LOOP(uint16_t, uint8_t, v != 0);
    case 4:
        LOOP(uint32_t, uint8_t, v != 0);
    case 8:
        LOOP(uint64_t, uint8_t, v != 0);
    default:
        return false;
    }
}

static bool whole_to_whole(xcvm_dtype from, const void *x, xcvm_dtype to, void *y, size_t count)
{
    switch (to) {
    case XCVM_BOOL:
        return whole_to_bool(from, x, y, count);
    case XCVM_I8:
    case XCVM_U8:
        return to_u8(from, x, y, count);
    case XCVM_I16:
    case XCVM_U16:
        return to_u16(from, x, y, count);
    case XCVM_I32:
    case XCVM_U32:
        return to_u32(from, x, y, count);
    case XCVM_I64:
    case XCVM_U64:
        return to_u64(from, x, y, count);
    default:
        return false;
    }
}

/* From types that f32 represents exactly, and from 32 and 64 bits, which are rounded once. */
static bool to_f32(xcvm_dtype dtype, const void *x, float *y, size_t count)
{
    if (xcvm_dtype_in(dtype, XCVM_TYPES_HALF)) {
        xcvm_halves_load(dtype, x, 0, count, y);
        return true;
    }
    switch (dtype) {
    case XCVM_I8:
        LOOP(int8_t, float, v);
    case XCVM_U8:
        LOOP(uint8_t, float, v);
    case XCVM_BOOL:
        LOOP(uint8_t, float, v != 0);
    case XCVM_I16:
        LOOP(int16_t, float, v);
    case XCVM_U16:
        LOOP(uint16_t, float, v);
    case XCVM_I32:
        LOOP(int32_t, float, v);
    case XCVM_U32:
        LOOP(uint32_t, float, v);
    case XCVM_I64:
        LOOP(int64_t, float, v);
    case XCVM_U64:
        LOOP(uint64_t, float, v);
    case XCVM_F64:
        LOOP(double, float, v);
    default:
        return false;
    }
}

static bool to_f64(xcvm_dtype dtype, const void *x, double *y, size_t count)
{
    switch (dtype) {
    case XCVM_I32:
        LOOP(int32_t, double, v);
    case XCVM_U32:
        LOOP(uint32_t, double, v);
    case XCVM_I64:
        LOOP(int64_t, double, v);
    case XCVM_U64:
        LOOP(uint64_t, double, v);
    case XCVM_F32:
        LOOP(float, double, v);
    default:
        return false;
    }
}

static bool from_f32(const float *x, xcvm_dtype dtype, void *y, size_t count)
{
    if (xcvm_dtype_in(dtype, XCVM_TYPES_HALF)) {
        xcvm_halves_store(dtype, y, 0, count, x);
        return true;
    }
    switch (dtype) {
    case XCVM_I8:
    case XCVM_U8:
        LOOP(float, uint8_t, int32_of_f32(v));
    case XCVM_BOOL:
        LOOP(float, uint8_t, v != 0.0f);
    case XCVM_I16:
    case XCVM_U16:
        LOOP(float, uint16_t, int32_of_f32(v));
    case XCVM_I32:
        LOOP(float, int32_t, int32_of_f32(v));
    case XCVM_U32:
        LOOP(float, uint32_t, int64_of_f32(v));
    case XCVM_I64:
        LOOP(float, int64_t, int64_of_f32(v));
    case XCVM_F64:
        LOOP(float, double, v);
    default:
        return false;
    }
}

static bool from_f64(const double *x, xcvm_dtype dtype, void *y, size_t count)
{
    switch (dtype) {
    case XCVM_I8:
    case XCVM_U8:
        LOOP(double, uint8_t, int32_of_f64(v));
    case XCVM_BOOL:
        LOOP(double, uint8_t, v != 0.0);
    case XCVM_I16:
    case XCVM_U16:
        LOOP(double, uint16_t, int32_of_f64(v));
    case XCVM_I32:
        LOOP(double, int32_t, int32_of_f64(v));
    case XCVM_U32:
        LOOP(double, uint32_t, int64_of_f64(v));
    case XCVM_I64:
        LOOP(double, int64_t, int64_of_f64(v));
    case XCVM_F16:
    case XCVM_BF16: {
        float odd[XCVM_BLOCK];
        for (size_t at = 0; at < count; at += XCVM_BLOCK) {
            const size_t n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
            XCVM_INDEPENDENT
            for (size_t i = 0; i < n; i++)
                odd[i] = odd_f32(x[at + i]);
            xcvm_halves_store(dtype, y, at, n, odd);
        }
        return true;
    }
    default:
        return false;
    }
}

/* ---- Conversion with one loop, or with two and a block between them ---- */

static bool is_exact_in_f32(xcvm_dtype dtype)
{
    return xcvm_dtype_in(dtype, XCVM_TYPES_HALF) || dtype == XCVM_BOOL || dtype == XCVM_I8 || dtype == XCVM_U8 ||
           dtype == XCVM_I16 || dtype == XCVM_U16;
}

static bool convert_directly(xcvm_dtype from, const void *x, xcvm_dtype to, void *y, size_t count)
{
    if (xcvm_dtype_in(from, XCVM_TYPES_WHOLE) && xcvm_dtype_in(to, XCVM_TYPES_WHOLE))
        return whole_to_whole(from, x, to, y, count);
    return from == XCVM_F32   ? from_f32(x, to, y, count)
           : to == XCVM_F32   ? to_f32(from, x, y, count)
           : from == XCVM_F64 ? from_f64(x, to, y, count)
           : to == XCVM_F64   ? to_f64(from, x, y, count)
                              : false;
}

/* Converts at most XCVM_BLOCK elements. */
static bool convert_block(xcvm_dtype from, const void *x, xcvm_dtype to, void *y, size_t count)
{
    double block[XCVM_BLOCK];
    if (is_exact_in_f32(from))
        return to_f32(from, x, (float *)block, count) && from_f32((float *)block, to, y, count);
    return to_f64(from, x, block, count) && from_f64(block, to, y, count);
}

static void convert_others(const cast_loop *t, size_t at, size_t n)
{
    if (xcvm_dtype_in(t->x->dtype, XCVM_TYPES_WHOLE) && xcvm_dtype_in(t->y->dtype, XCVM_TYPES_WHOLE)) {
        int64_t block[XCVM_BLOCK];
        xcvm_load_i64(t->x->dtype, t->x->data, at, n, block);
        xcvm_store_i64(t->y->dtype, t->y->data, at, n, block);
        return;
    }
    double block[XCVM_BLOCK];
    xcvm_load_f64(t->x->dtype, t->x->data, at, n, block);
    uint8_t *powers = (uint8_t *)t->y->data + at;
    if (t->y->dtype != XCVM_F8E8M0)
        xcvm_store_f64(t->y->dtype, t->y->data, at, n, block, t->saturate);
    for (size_t i = 0; i < n && t->y->dtype == XCVM_F8E8M0; i++)
        powers[i] = xcvm_f8e8m0_from_f64(block[i], t->saturate, t->round_mode);
}

/* The range is in groups of 4 elements, so that ranges never share a byte of packed elements. */
static void convert_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const cast_loop *t = context;
    const xcvm_dtype from = t->x->dtype, to = t->y->dtype;
    const size_t x_size = xcvm_dtype_size(from), y_size = xcvm_dtype_size(to);
    size_t count = xcvm_element_count(t->x), first = begin * 4, last = end * 4 < count ? end * 4 : count;
    const char *x = t->x->data;
    char *y = t->y->data;
    if (first == last || convert_directly(from, x + first * x_size, to, y + first * y_size, last - first))
        return;
    for (size_t at = first; at < last; at += XCVM_BLOCK) {
        size_t n = last - at < XCVM_BLOCK ? last - at : XCVM_BLOCK;
        if (!convert_block(from, x + at * x_size, to, y + at * y_size, n))
            convert_others(t, at, n);
    }
}

XCVM_KERNEL(Cast)
{
    xcvm_dtype from = a->x->dtype;
    if (from == XCVM_STRING || a->to == XCVM_STRING)
        return xcvm_cast_strings(k, a->y, a->x);
    if (from == a->to)
        return xcvm_kernel_copy(k, a->y->data, a->x->data, a->x->bytes);
    XCVM_CHECK(k->error, !xcvm_dtype_in(from, XCVM_TYPES_COMPLEX) && !xcvm_dtype_in(a->to, XCVM_TYPES_COMPLEX),
               TYPE_MISMATCH, "%s cannot be cast to %s", xcvm_dtype_name(from), xcvm_dtype_name(a->to));
    cast_loop t = {a->x, a->y, a->saturate != 0, a->round_mode};
    return xcvm_kernel_parallel(k, (xcvm_element_count(a->x) + 3) / 4, 4096, convert_range, &t);
}
