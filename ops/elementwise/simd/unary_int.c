/* Element-wise instructions on whole numbers. Sums wrap, so the lowest number is its own absolute value and negative.
 */
#include "ops/convert.h"
#include "ops/elementwise/unary_generic.h"

#include "ops/simd/math.h"

/* Elements worth a thread of their own. */
enum { GRAIN = 32768 };

typedef struct int_map {
    xcvm_opcode opcode;
    xcvm_value *y;
    const xcvm_value *x;
    int64_t low, high; /* of Clip, as bits of the element type */
} int_map;

#define LOOP(type, expression)                                                                                         \
    do {                                                                                                               \
        const type *x = m->x->data;                                                                                    \
        type *y = m->y->data;                                                                                          \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = begin; i < end; i++) {                                                                         \
            const type v = x[i];                                                                                       \
            y[i] = (type)(expression);                                                                                 \
        }                                                                                                              \
        return;                                                                                                        \
    } while (0)

/* `opposite` is computed without sign. */
#define MAP_RANGE(type, opposite)                                                                                      \
    static void map_##type(const int_map *m, size_t begin, size_t end)                                                 \
    {                                                                                                                  \
        const type low = (type)m->low, high = (type)m->high;                                                           \
        switch (m->opcode) {                                                                                           \
        case XCVM_OP_Abs:                                                                                              \
            LOOP(type, v > 0 ? v : (opposite));                                                                        \
        case XCVM_OP_Neg:                                                                                              \
            LOOP(type, opposite);                                                                                      \
        case XCVM_OP_Sign:                                                                                             \
            LOOP(type, (v > 0) - (v < 0));                                                                             \
        case XCVM_OP_Clip:                                                                                             \
            LOOP(type, (v < low ? low : v) > high ? high : v < low ? low : v);                                         \
        default:                                                                                                       \
            LOOP(type, v > 0 ? v : 0);                                                                                 \
        }                                                                                                              \
    }
MAP_RANGE(int8_t, -v)
MAP_RANGE(int16_t, -v)
MAP_RANGE(int32_t, (int32_t)(0u - (uint32_t)v))
MAP_RANGE(int64_t, (int64_t)(0u - (uint64_t)v))

#define MAP_RANGE_UNSIGNED(type)                                                                                       \
    static void map_##type(const int_map *m, size_t begin, size_t end)                                                 \
    {                                                                                                                  \
        const type low = (type)m->low, high = (type)m->high;                                                           \
        switch (m->opcode) {                                                                                           \
        case XCVM_OP_Neg:                                                                                              \
            LOOP(type, 0u - v);                                                                                        \
        case XCVM_OP_Sign:                                                                                             \
            LOOP(type, v != 0);                                                                                        \
        case XCVM_OP_Clip:                                                                                             \
            LOOP(type, (v < low ? low : v) > high ? high : v < low ? low : v);                                         \
        default:                                                                                                       \
            LOOP(type, v);                                                                                             \
        }                                                                                                              \
    }
MAP_RANGE_UNSIGNED(uint8_t)
MAP_RANGE_UNSIGNED(uint16_t)
MAP_RANGE_UNSIGNED(uint32_t)
MAP_RANGE_UNSIGNED(uint64_t)

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

xcvm_status xcvm_unary_int(xcvm_kernel *k, xcvm_opcode opcode, xcvm_value *y, const xcvm_value *x)
{
    int_map map = {.opcode = opcode, .y = y, .x = x};
    return xcvm_kernel_parallel(k, xcvm_element_count(x), GRAIN, map_range, &map);
}

xcvm_status xcvm_clip_int(const xcvm_kernel *k, xcvm_value *y, const xcvm_value *x, const xcvm_value *min,
                          const xcvm_value *max)
{
    const xcvm_dtype dtype = x->dtype;
    const int bits = 8 * (int)xcvm_dtype_size(dtype);
    const bool is_signed = xcvm_dtype_in(dtype, XCVM_TYPES_SIGNED);
    int_map map = {.opcode = XCVM_OP_Clip, .y = y, .x = x};
    map.low = is_signed ? INT64_MIN >> (64 - bits) : 0;
    map.high = is_signed ? INT64_MAX >> (64 - bits) : -1;
    if (min != NULL)
        xcvm_load_i64(dtype, min->data, 0, 1, &map.low);
    if (max != NULL)
        xcvm_load_i64(dtype, max->data, 0, 1, &map.high);
    return xcvm_kernel_parallel(k, xcvm_element_count(x), GRAIN, map_range, &map);
}
