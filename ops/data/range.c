/* Range. */
#include "ops/util/index.h"

#include <math.h>

/* Number of values from start to limit with step delta. */
static xcvm_status count_of(const xcvm_inference *t, const xcvm_Range_args *a, int64_t *count)
{
    *count = 0;
    if (xcvm_dtype_is_float(a->start->dtype)) {
        double start = xcvm_element_as_double(a->start, 0), limit = xcvm_element_as_double(a->limit, 0),
               delta = xcvm_element_as_double(a->delta, 0);
        XCVM_CHECK(t->error, delta != 0, INVALID_ARGUMENT, "delta is 0");
        double n = ceil((limit - start) / delta);
        XCVM_CHECK(t->error, !isnan(n) && n < 0x1p62, OUT_OF_RANGE, "from %g to %g by %g is not a finite range", start,
                   limit, delta);
        *count = n > 0 ? (int64_t)n : 0;
        return XCVM_OK;
    }
    __extension__ typedef __int128 wide;
    wide start, limit, delta;
    if (a->start->dtype == XCVM_U64) {
        start = *XCVM_CDATA(uint64_t, a->start);
        limit = *XCVM_CDATA(uint64_t, a->limit);
        delta = *XCVM_CDATA(uint64_t, a->delta);
    } else {
        start = xcvm_element_as_int(a->start, 0);
        limit = xcvm_element_as_int(a->limit, 0);
        delta = xcvm_element_as_int(a->delta, 0);
    }
    XCVM_CHECK(t->error, delta != 0, INVALID_ARGUMENT, "delta is 0");
    wide distance = delta > 0 ? limit - start : start - limit, step = delta > 0 ? delta : -delta;
    wide n = distance > 0 ? (distance + step - 1) / step : 0;
    XCVM_CHECK(t->error, n <= INT64_MAX, OUT_OF_RANGE, "the range is too long");
    *count = (int64_t)n;
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(Range)
{
    bool start_known, limit_known, delta_known;
    int64_t count = XCVM_ANY_DIM;
    XCVM_TRY(xcvm_scalar_check(t->error, a->start, "start", &start_known));
    XCVM_TRY(xcvm_scalar_check(t->error, a->limit, "limit", &limit_known));
    XCVM_TRY(xcvm_scalar_check(t->error, a->delta, "delta", &delta_known));
    if (start_known && limit_known && delta_known)
        XCVM_TRY(count_of(t, a, &count));
    xcvm_value_set_tensor(a->y, a->y->dtype, 1, &count);
    return XCVM_OK;
}

#define FILL(type)                                                                                                     \
    do {                                                                                                               \
        type *to = a->y->data;                                                                                         \
        const uint64_t step = (uint64_t)*XCVM_CDATA(type, a->delta);                                                   \
        uint64_t value = (uint64_t)*XCVM_CDATA(type, a->start) + (uint64_t)begin * step;                               \
        for (size_t i = begin; i < end; i++, value += step)                                                            \
            to[i] = (type)value;                                                                                       \
    } while (0)
#define FILL_FLOAT(type, convert)                                                                                      \
    do {                                                                                                               \
        type *to = a->y->data;                                                                                         \
        for (size_t i = begin; i < end; i++)                                                                           \
            to[i] = convert(start + (double)i * delta);                                                                \
    } while (0)
#define TO_F16(x) xcvm_f32_to_f16((float)(x))
#define TO_BF16(x) xcvm_f32_to_bf16((float)(x))

static void fill_range(void *context, size_t begin, size_t end, int worker)
{
    const xcvm_Range_args *a = context;
    (void)worker;
    double start = xcvm_element_as_double(a->start, 0), delta = xcvm_element_as_double(a->delta, 0);
    switch ((xcvm_dtype)a->y->dtype) {
    case XCVM_F32:
        FILL_FLOAT(float, (float));
        break;
    case XCVM_F64:
        FILL_FLOAT(double, (double));
        break;
    case XCVM_F16:
        FILL_FLOAT(uint16_t, TO_F16);
        break;
    case XCVM_BF16:
        FILL_FLOAT(uint16_t, TO_BF16);
        break;
    case XCVM_I8:
        FILL(int8_t);
        break;
    case XCVM_I16:
        FILL(int16_t);
        break;
    case XCVM_I32:
        FILL(int32_t);
        break;
    case XCVM_I64:
        FILL(int64_t);
        break;
    case XCVM_U8:
        FILL(uint8_t);
        break;
    case XCVM_U16:
        FILL(uint16_t);
        break;
    case XCVM_U32:
        FILL(uint32_t);
        break;
    default: /* the remaining type of the op definition */
        FILL(uint64_t);
        break;
    }
}

XCVM_KERNEL(Range)
{
    enum { GRAIN = 32768 };
    xcvm_Range_args args = *a;
    return xcvm_kernel_parallel(k, xcvm_element_count(a->y), GRAIN, fill_range, &args);
}
