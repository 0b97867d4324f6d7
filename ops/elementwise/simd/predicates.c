/* Not, BitwiseNot, IsNaN and IsInf: operations on bits. */
#include "ops/util/kernel.h"
#include "ops/simd/math.h"

/* Minimum bytes per thread. */
enum { GRAIN = 131072 };

typedef struct bytes {
    const uint8_t *x;
    uint8_t *y;
} bytes;

static void not_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const uint8_t *x = ((const bytes *)context)->x;
    uint8_t *y = ((const bytes *)context)->y;
    XCVM_INDEPENDENT
    for (size_t i = begin; i < end; i++)
        y[i] = x[i] == 0;
}

static void invert_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const uint8_t *x = ((const bytes *)context)->x;
    uint8_t *y = ((const bytes *)context)->y;
    XCVM_INDEPENDENT
    for (size_t i = begin; i < end; i++)
        y[i] = (uint8_t)~x[i];
}

XCVM_KERNEL(Not)
{
    bytes b = {a->x->data, a->y->data};
    return xcvm_kernel_parallel(k, xcvm_element_count(a->x), GRAIN, not_range, &b);
}

XCVM_KERNEL(BitwiseNot)
{
    bytes b = {a->x->data, a->y->data};
    return xcvm_kernel_parallel(k, xcvm_element_count(a->x) * xcvm_dtype_size(a->x->dtype), GRAIN, invert_range, &b);
}

typedef struct classes {
    const xcvm_value *x;
    uint8_t *y;
    bool nan, negative, positive; /* values to detect */
} classes;

/* Compares the bits without sign with those of infinity. */
#define CLASSIFY(type, sign, infinity)                                                                                 \
    do {                                                                                                               \
        const type *from = (const type *)c->x->data;                                                                   \
        uint8_t *to = c->y;                                                                                            \
        const type nan = c->nan, negative = c->negative, positive = c->positive;                                       \
        if (c->nan && !c->negative && !c->positive) {                                                                  \
            XCVM_INDEPENDENT                                                                                           \
            for (size_t i = begin; i < end; i++)                                                                       \
                to[i] = (from[i] & (type) ~(type)(sign)) > (infinity);                                                 \
            return;                                                                                                    \
        }                                                                                                              \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = begin; i < end; i++) {                                                                         \
            const type rest = (type)(from[i] & (type) ~(type)(sign));                                                  \
            const type infinite = from[i] == rest ? positive : negative;                                               \
            to[i] = (uint8_t)((rest == (infinity) ? infinite : 0) | (rest > (infinity) ? nan : 0));                    \
        }                                                                                                              \
    } while (0)

static void classify_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const classes *c = context;
    if (c->x->dtype == XCVM_F32)
        CLASSIFY(uint32_t, 0x80000000u, 0x7f800000u);
    else if (c->x->dtype == XCVM_F64)
        CLASSIFY(uint64_t, UINT64_C(1) << 63, UINT64_C(0x7ff0000000000000));
    else if (c->x->dtype == XCVM_F16)
        CLASSIFY(uint16_t, 0x8000u, 0x7c00u);
    else
        CLASSIFY(uint16_t, 0x8000u, 0x7f80u);
}

XCVM_KERNEL(IsNaN)
{
    classes c = {a->x, a->y->data, true, false, false};
    return xcvm_kernel_parallel(k, xcvm_element_count(a->x), GRAIN / 4, classify_range, &c);
}

XCVM_KERNEL(IsInf)
{
    classes c = {a->x, a->y->data, false, a->detect_negative != 0, a->detect_positive != 0};
    return xcvm_kernel_parallel(k, xcvm_element_count(a->x), GRAIN / 4, classify_range, &c);
}
