/* Shape and Size: results that depend only on a tensor's shape. */
#include "ops/util/kernel.h"

/* Clamps as Python's slice of [0, rank). */
static int clamp(int64_t position, int rank)
{
    if (position < 0)
        position += rank;
    return position < 0 ? 0 : position > rank ? rank : (int)position;
}

XCVM_SHAPE_RULE_OF(Shape)
{
    const bool unknown = a->x->kind == XCVM_KIND_NULL && a->x->rank < 0;
    XCVM_CHECK(t->error, a->x->kind == XCVM_KIND_TENSOR || unknown, TYPE_MISMATCH, "x is not a tensor");
    if (a->x->rank < 0) {
        xcvm_set_unknown(a->y, XCVM_I64, 1);
        return XCVM_OK;
    }
    int start = clamp(a->start, a->x->rank), end = clamp(a->end, a->x->rank);
    int64_t length = end > start ? end - start : 0;
    xcvm_value_set_tensor(a->y, XCVM_I64, 1, &length);
    return XCVM_OK;
}

XCVM_KERNEL(Shape)
{
    (void)k;
    int start = clamp(a->start, a->x->rank);
    for (int i = 0; i < a->y->dims[0]; i++)
        XCVM_DATA(int64_t, a->y)[i] = a->x->dims[start + i];
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(Size)
{
    (void)t;
    xcvm_value_set_tensor(a->y, XCVM_I64, 0, NULL);
    return XCVM_OK;
}

XCVM_KERNEL(Size)
{
    (void)k;
    *XCVM_DATA(int64_t, a->y) = (int64_t)xcvm_element_count(a->x);
    return XCVM_OK;
}
