/* MaxPool, AveragePool and LpPool. Types read as f32: windows of few rows row by row, others axis by axis. Maxima of
 * f64 and with indices also row by row. Other types: one position at a time. */
#include "ops/pool/pool_generic.h"
#include "ops/pool/simd/blocked_pool.h"
#include "ops/pool/simd/pool_axes.h"
#include "ops/pool/simd/pool_maxima.h"
#include "ops/pool/simd/pool_rows.h"

#include <math.h>

static bool choose_reduce_op(const xcvm_pooling *p, xcvm_pool_reduce_op *f)
{
    *f = p->kind == XCVM_POOL_MAX ? XCVM_REDUCE_MAX : p->kind == XCVM_POOL_MEAN ? XCVM_REDUCE_SUM : XCVM_REDUCE_SQUARES;
    if (p->kind == XCVM_POOL_NORM && p->p == 1)
        *f = XCVM_REDUCE_ABSOLUTES;
    const xcvm_dtype dtype = (xcvm_dtype)p->x->dtype;
    return (p->kind != XCVM_POOL_NORM || p->p <= 2) &&
           (dtype == XCVM_F32 || dtype == XCVM_F16 || dtype == XCVM_BF16 || dtype == XCVM_U8 || dtype == XCVM_I8);
}

static xcvm_status pool(xcvm_kernel *k, const xcvm_pooling *p, int64_t *indices, bool columns_first)
{
    const xcvm_ints kernel = {p->kernel, (size_t)p->axes}, strides = {p->strides, (size_t)p->axes};
    const xcvm_window_attributes attributes = {
        kernel, strides, {p->pads, 2 * (size_t)p->axes}, {p->dilations, (size_t)p->axes}};
    xcvm_pool_reduce_op reduce_op;
    if (xcvm_element_count(p->y) == 0)
        return XCVM_OK;
    if (indices == NULL && xcvm_blocked_pool_fits(p))
        return xcvm_blocked_pool(k, p);
    const bool narrow = choose_reduce_op(p, &reduce_op);
    const xcvm_window window = xcvm_window_of(p->x, p->y, &attributes);
    if ((indices != NULL || !narrow) && p->in_plane != 0 && xcvm_pool_maxima_fits(p))
        return xcvm_pool_maxima(k, p, &window, indices, columns_first);
    if (indices != NULL || p->in_plane == 0 || !narrow)
        return xcvm_pool_positions(k, p, indices, columns_first);
    return xcvm_pool_rows_fit(&window, reduce_op) ? xcvm_pool_rows(k, p, &window, reduce_op)
                                                  : xcvm_pool_axes(k, p, &window, reduce_op);
}

XCVM_KERNEL(MaxPool)
{
    xcvm_pooling p = {.kind = XCVM_POOL_MAX};
    XCVM_TRY(xcvm_pooling_make(k, &p, a->x, a->y, a->kernel_shape, a->strides, a->pads, a->dilations, a->auto_pad));
    return pool(k, &p, a->indices != NULL ? XCVM_DATA(int64_t, a->indices) : NULL, a->storage_order != 0);
}

XCVM_KERNEL(AveragePool)
{
    xcvm_pooling p = {.kind = XCVM_POOL_MEAN, .count_pads = a->count_include_pad != 0};
    XCVM_TRY(xcvm_pooling_make(k, &p, a->x, a->y, a->kernel_shape, a->strides, a->pads, a->dilations, a->auto_pad));
    return pool(k, &p, NULL, false);
}

XCVM_KERNEL(LpPool)
{
    xcvm_pooling p = {.kind = XCVM_POOL_NORM, .p = a->p};
    XCVM_TRY(xcvm_pooling_make(k, &p, a->x, a->y, a->kernel_shape, a->strides, a->pads, a->dilations, a->auto_pad));
    return pool(k, &p, NULL, false);
}
