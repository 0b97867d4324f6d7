/* Cast: pairs of types that are frequent have loops of their own, the others go through blocks of f64 or i64. */
#include "ops/cast.h"

#include "ops/vector/halves.h"
#include "ops/vector/math.h"

typedef struct task {
    const xcvm_value *x;
    xcvm_value *y;
    bool saturate;
    int round_mode; /* to f8e8m0 */
} task;

/* As convert.h has it for f64: what is out of range becomes the lowest integer. */
static inline int32_t int32_of(float v)
{
    return (int32_t)(v >= -2147483648.0f && v < 2147483648.0f ? v : -2147483648.0f);
}
static inline int64_t int64_of(float v)
{
    return (int64_t)(v >= -9223372036854775808.0f && v < 9223372036854775808.0f ? v : -9223372036854775808.0f);
}

#define CONVERT(from, to, expression)                                                                                  \
    do {                                                                                                               \
        const from *x = t->x->data;                                                                                    \
        to *y = t->y->data;                                                                                            \
        for (size_t i = begin; i < end; i++) {                                                                         \
            const from v = x[i];                                                                                       \
            y[i] = (to)(expression);                                                                                   \
        }                                                                                                              \
        return true;                                                                                                   \
    } while (0)

#define PAIR(from, to) ((uint32_t)(from) << 8 | (uint32_t)(to))

/* Returns whether there is a loop for this pair. */
static bool convert_direct(const task *t, size_t begin, size_t end)
{
    switch (PAIR(t->x->dtype, t->y->dtype)) {
    case PAIR(XCVM_F32, XCVM_I64):
        CONVERT(float, int64_t, int64_of(v));
    case PAIR(XCVM_F32, XCVM_I32):
        CONVERT(float, int32_t, int32_of(v));
    case PAIR(XCVM_F32, XCVM_U8):
    case PAIR(XCVM_F32, XCVM_I8):
        CONVERT(float, uint8_t, int32_of(v));
    case PAIR(XCVM_F32, XCVM_BOOL):
        CONVERT(float, uint8_t, v != 0.0f);
    case PAIR(XCVM_I64, XCVM_F32):
        CONVERT(int64_t, float, v);
    case PAIR(XCVM_I32, XCVM_F32):
        CONVERT(int32_t, float, v);
    case PAIR(XCVM_U8, XCVM_F32):
        CONVERT(uint8_t, float, v);
    case PAIR(XCVM_I8, XCVM_F32):
        CONVERT(int8_t, float, v);
    case PAIR(XCVM_BOOL, XCVM_F32):
        CONVERT(uint8_t, float, v != 0);
    case PAIR(XCVM_I64, XCVM_I32):
        CONVERT(int64_t, uint32_t, v);
    case PAIR(XCVM_I32, XCVM_I64):
        CONVERT(int32_t, int64_t, v);
    case PAIR(XCVM_F32, XCVM_F64):
        CONVERT(float, double, v);
    case PAIR(XCVM_F64, XCVM_F32):
        CONVERT(double, float, v);
    case PAIR(XCVM_F16, XCVM_F32):
    case PAIR(XCVM_BF16, XCVM_F32):
        xcvm_halves_load(t->x->dtype, t->x->data, begin, end - begin, (float *)t->y->data + begin);
        return true;
    case PAIR(XCVM_F32, XCVM_F16):
    case PAIR(XCVM_F32, XCVM_BF16):
        xcvm_halves_store(t->y->dtype, t->y->data, begin, end - begin, (const float *)t->x->data + begin);
        return true;
    default:
        return false;
    }
}

/* The range is in groups of 4 elements, so that ranges never share a byte of packed elements. */
static void convert_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const task *t = context;
    size_t count = xcvm_element_count(t->x), first = begin * 4, last = end * 4 < count ? end * 4 : count;
    if (convert_direct(t, first, last))
        return;
    bool whole = xcvm_dtype_in(t->x->dtype, XCVM_TYPES_WHOLE) && xcvm_dtype_in(t->y->dtype, XCVM_TYPES_WHOLE);
    for (size_t at = first; at < last; at += XCVM_BLOCK) {
        size_t n = last - at < XCVM_BLOCK ? last - at : XCVM_BLOCK;
        if (whole) {
            int64_t block[XCVM_BLOCK];
            xcvm_load_i64(t->x->dtype, t->x->data, at, n, block);
            xcvm_store_i64(t->y->dtype, t->y->data, at, n, block);
        } else {
            double block[XCVM_BLOCK];
            xcvm_load_f64(t->x->dtype, t->x->data, at, n, block);
            uint8_t *powers = (uint8_t *)t->y->data + at;
            if (t->y->dtype != XCVM_F8E8M0)
                xcvm_store_f64(t->y->dtype, t->y->data, at, n, block, t->saturate);
            for (size_t i = 0; i < n && t->y->dtype == XCVM_F8E8M0; i++)
                powers[i] = xcvm_f8e8m0_from_f64(block[i], t->saturate, t->round_mode);
        }
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
    task t = {a->x, a->y, a->saturate != 0, a->round_mode};
    return xcvm_kernel_parallel(k, (xcvm_element_count(a->x) + 3) / 4, 4096, convert_range, &t);
}
