/* Shape rules of reductions. */
#include "ops/reduce/reduction.h"

xcvm_status xcvm_reduction_axes(xcvm_error *error, const xcvm_value *axes, bool noop, int rank, uint32_t *mask,
                                bool *known)
{
    int64_t list[XCVM_MAX_RANK];
    size_t count = 0;
    *known = true;
    *mask = 0;
    if (axes != NULL)
        XCVM_TRY(xcvm_read_ints(error, axes, "axes", list, XCVM_MAX_RANK, &count, known));
    if (!*known)
        return XCVM_OK;
    for (size_t i = 0; i < count; i++) {
        int axis;
        XCVM_TRY(xcvm_resolve_axis(error, list[i], rank, &axis));
        XCVM_CHECK(error, (*mask >> axis & 1) == 0, INVALID_ARGUMENT, "axis %d is in axes twice", axis);
        *mask |= UINT32_C(1) << axis;
    }
    if (count == 0 && !noop)
        *mask = (UINT32_C(1) << rank) - 1;
    return XCVM_OK;
}

/* Sets y to x without the axes of the mask, or with 1 in their place. */
static void reduce_dims(xcvm_value *y, const xcvm_value *x, uint32_t mask, bool keepdims)
{
    int64_t dims[XCVM_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x->rank; i++)
        if ((mask >> i & 1) == 0)
            dims[rank++] = x->dims[i];
        else if (keepdims)
            dims[rank++] = 1;
    xcvm_value_set_tensor(y, y->dtype, rank, dims);
}

XCVM_SHAPE_RULE(reduction)
{
    /* All reductions have the same arguments. */
    const xcvm_ReduceSum_args *a = t->args;
    bool keepdims = a->keepdims != 0, known;
    if (a->x->rank < 0) {
        const bool all = a->axes == NULL || (a->axes->rank == 1 && a->axes->dims[0] == 0);
        xcvm_set_unknown(a->y, a->y->dtype, all && !keepdims && a->noop_with_empty_axes == 0 ? 0 : -1);
        return XCVM_OK;
    }
    uint32_t mask;
    XCVM_TRY(xcvm_reduction_axes(t->error, a->axes, a->noop_with_empty_axes != 0, a->x->rank, &mask, &known));
    if (known) {
        reduce_dims(a->y, a->x, mask, keepdims);
    } else if (keepdims) {
        xcvm_set_unknown(a->y, a->y->dtype, a->x->rank);
    } else {
        /* The number of axes determines the rank even if the axes are unknown. */
        int64_t count = a->axes->rank == 1 ? a->axes->dims[0] : a->axes->rank == 0 ? 1 : XCVM_ANY_DIM;
        xcvm_set_unknown(a->y, a->y->dtype, count > 0 && count <= a->x->rank ? a->x->rank - (int)count : -1);
    }
    return XCVM_OK;
}

XCVM_SHAPE_RULE(arg_reduction)
{
    const xcvm_ArgMax_args *a = t->args;
    if (a->x->rank < 0) {
        xcvm_set_unknown(a->y, XCVM_I64, -1);
        return XCVM_OK;
    }
    int axis;
    XCVM_TRY(xcvm_resolve_axis(t->error, a->axis, a->x->rank, &axis));
    XCVM_CHECK(t->error, a->x->dims[axis] != 0, SHAPE_MISMATCH,
               "axis %d of x is empty, so it has no greatest or least element", axis);
    a->y->dtype = XCVM_I64;
    reduce_dims(a->y, a->x, UINT32_C(1) << axis, a->keepdims != 0);
    return XCVM_OK;
}
