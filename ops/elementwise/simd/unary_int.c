/* Unary element-wise instructions on integers. Overflow wraps, so the lowest number is its own absolute value and
 * negation. */
#include "ops/util/convert.h"
#include "ops/elementwise/unary_generic.h"

#include "ops/simd/math.h"

/* Minimum elements per thread. */
enum { GRAIN = 32768 };

typedef struct int_map {
    xcvm_unary_integer op;
    xcvm_value *y;
    const xcvm_value *x;
    int64_t low, high; /* bounds of Clip, as bits of the element type */
} int_map;

/* No default: a missing case is a compiler warning. */
#define CASE_INTEGER(Name, formula)                                                                                    \
    case XCVM_UNARY_INTEGER_##Name:                                                                                    \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = begin; i < end; i++) {                                                                         \
            const element v = x[i], negated = (element)(0u - (modular)v);                                              \
            (void)negated;                                                                                             \
            y[i] = (element)(formula);                                                                                 \
        }                                                                                                              \
        break;
#define CASE_THROUGH_F64(Name, nothing)
#define CASE_NONE(Name, nothing)
#define CASE(Name, kernel, grain, f32, f64, integers) XCVM_BY_KIND(CASE_, Name, XCVM_TAKEN_##integers)

/* `modular` is the unsigned type, in which overflow wraps. */
#define MAP_RANGE(type, unsigned_type)                                                                                 \
    static void map_##type(const int_map *m, size_t begin, size_t end)                                                 \
    {                                                                                                                  \
        typedef type element;                                                                                          \
        typedef unsigned_type modular;                                                                                 \
        const element low = (element)m->low, high = (element)m->high, *x = m->x->data;                                 \
        element *y = m->y->data;                                                                                       \
        switch (m->op) {                                                                                               \
            XCVM_UNARY_FORMULAS(CASE)                                                                                  \
        }                                                                                                              \
    }
MAP_RANGE(int8_t, uint8_t)
MAP_RANGE(int16_t, uint16_t)
MAP_RANGE(int32_t, uint32_t)
MAP_RANGE(int64_t, uint64_t)
MAP_RANGE(uint8_t, uint8_t)
MAP_RANGE(uint16_t, uint16_t)
MAP_RANGE(uint32_t, uint32_t)
MAP_RANGE(uint64_t, uint64_t)

static void map_range(void *context, size_t begin, size_t end, int worker)
{
    const int_map *m = context;
    (void)worker;
#define TYPE(dtype, type)                                                                                              \
    case dtype:                                                                                                        \
        map_##type(m, begin, end);                                                                                     \
        break
    switch (m->x->dtype) {
        TYPE(XCVM_I8, int8_t);
        TYPE(XCVM_I16, int16_t);
        TYPE(XCVM_I32, int32_t);
        TYPE(XCVM_I64, int64_t);
        TYPE(XCVM_U8, uint8_t);
        TYPE(XCVM_U16, uint16_t);
        TYPE(XCVM_U32, uint32_t);
    default:
        map_uint64_t(m, begin, end);
        break;
    }
#undef TYPE
}

xcvm_status xcvm_unary_int(xcvm_kernel *k, xcvm_unary_integer op, xcvm_value *y, const xcvm_value *x)
{
    int_map map = {.op = op, .y = y, .x = x};
    return xcvm_kernel_parallel(k, xcvm_element_count(x), GRAIN, map_range, &map);
}

xcvm_status xcvm_clip_int(const xcvm_kernel *k, xcvm_value *y, const xcvm_value *x, const xcvm_value *min,
                          const xcvm_value *max)
{
    const xcvm_dtype dtype = x->dtype;
    const int bits = 8 * (int)xcvm_dtype_size(dtype);
    const bool is_signed = xcvm_dtype_in(dtype, XCVM_TYPES_SIGNED);
    int_map map = {.op = XCVM_UNARY_INTEGER_Clip, .y = y, .x = x};
    map.low = is_signed ? INT64_MIN >> (64 - bits) : 0;
    map.high = is_signed ? INT64_MAX >> (64 - bits) : -1;
    if (min != NULL)
        xcvm_load_i64(dtype, min->data, 0, 1, &map.low);
    if (max != NULL)
        xcvm_load_i64(dtype, max->data, 0, 1, &map.high);
    return xcvm_kernel_parallel(k, xcvm_element_count(x), GRAIN, map_range, &map);
}
