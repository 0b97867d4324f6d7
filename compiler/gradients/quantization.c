/* Gradients of quantization. Rounding has no gradient unless straight-through gradients are requested. */
#include "compiler/gradients/rule.h"
#include "ops/quantize/quantize_shape.h"

#include <math.h>

#define G xcc_g(d)
#define X xcc_in(d, 0)

/* Layout of scales along an axis of x. */
typedef struct layout {
    int axis;
    int64_t block; /* elements per scale; 0: a single scale, or one per element of the axis */
} layout;

/* Refuses and returns false if required ranks are unknown. */
static bool find_layout(xcc_vjp *d, int64_t axis, int64_t block_size, layout *l)
{
    if (!xcc_vjp_need_rank(d, 0) || !xcc_vjp_need_rank(d, 1))
        return false;
    *l = (layout){(int)(axis < 0 ? axis + X->type.rank : axis), block_size};
    return true;
}

/* The sizes of x with the axis split into `blocks` times `block`, or merged. */
static xcc_value *blocked_shape(xcc_vjp *d, const layout *l, bool apart)
{
    xcc_value *sizes[XCVM_MAX_RANK + 1], *block = XCC_BUILD_INTS(d->b, l->block),
                                         *blocks = xcc_build_dim_of(d->b, xcc_in(d, 1), l->axis);
    size_t count = 0;
    for (int i = 0; i < X->type.rank; i++) {
        if (i != l->axis) {
            sizes[count++] = xcc_build_dim_of(d->b, X, i);
            continue;
        }
        sizes[count++] = apart ? blocks : xcc_mul(d, blocks, block);
        if (apart)
            sizes[count++] = block;
    }
    return xcc_build_concat(d->b, count, sizes, 0);
}

/* Broadcasts a scale or zero point to x. */
static xcc_value *spread(xcc_vjp *d, const layout *l, xcc_value *v)
{
    if (v == NULL || v->type.rank == 0)
        return v;
    if (l->block == 0) {
        int64_t shape[XCVM_MAX_RANK] = {-1};
        for (int i = 1; i < X->type.rank - l->axis; i++)
            shape[i] = 1;
        return xcc_build_reshape(d->b, v, xcc_build_ints(d->b, (size_t)(X->type.rank - l->axis), shape));
    }
    const int64_t behind[] = {l->axis + 1};
    xcc_value *copies = xcc_build_expand(d->b, xcc_build_unsqueeze(d->b, v, 1, behind), blocked_shape(d, l, true));
    xcc_value *all = xcc_build_reshape_to(d->b, copies, blocked_shape(d, l, false));
    return xcc_build_call(d->b, XCVM_OP_Slice, 4,
                          (xcc_value *[]){all, XCC_BUILD_INTS(d->b, 0), xcc_build_dim_of(d->b, X, l->axis),
                                          XCC_BUILD_INTS(d->b, l->axis)});
}

/* Sums g, one number per element of x, over the elements that share an element of `v`, operand 1 or 2. */
static xcc_value *gather_up(xcc_vjp *d, const layout *l, xcc_value *g, xcc_value *v)
{
    if (l->block == 0 || v->type.rank == 0) {
        xcc_value *wide = spread(d, l, v);
        return xcc_reshape_like(d->b, xcc_sum_to(d->b, g, wide), v);
    }
    xcc_value *size = xcc_mul(d, xcc_build_dim_of(d->b, xcc_in(d, 1), l->axis), XCC_BUILD_INTS(d->b, l->block));
    xcc_value *more = xcc_sub(d, size, xcc_build_dim_of(d->b, X, l->axis)), *axis = XCC_BUILD_INTS(d->b, l->axis);
    xcc_value *pads = xcc_build_concat(d->b, 2, (xcc_value *[]){XCC_BUILD_INTS(d->b, 0), more}, 0);
    if (g == NULL || pads == NULL || axis == NULL)
        return NULL;
    xcc_value *whole = xcc_apply(d->b, Pad, y, .x = XCC_IN(g), .pads = XCC_IN(pads), .axes = XCC_IN(axis));
    xcc_value *parts = xcc_build_reshape_to(d->b, whole, blocked_shape(d, l, true));
    return xcc_reshape_like(
        d->b, xcc_build_reduce(d->b, XCVM_OP_ReduceSum, parts, XCC_BUILD_INTS(d->b, l->axis + 1), false), v);
}

/* Converts to a type with enough precision for products of quantized numbers. */
static xcc_value *wide(xcc_vjp *d, xcc_value *v)
{
    const bool f64 = v != NULL && (v->type.dtype == XCVM_F64 || G->type.dtype == XCVM_F64);
    return xcc_build_cast(d->b, v, f64 ? XCVM_F64 : XCVM_F32);
}

/* (x - zero_point) * scale is linear in each. Gradients of x and zero_point are straight-through. */
XCC_GRADIENT(DequantizeLinear)
{
    const xcvm_DequantizeLinear_args *a = XCC_ARGS(DequantizeLinear, d->node);
    xcc_value *scale = xcc_in(d, 1), *zero_point = xcc_value_of(a->zero_point), *g = wide(d, G);
    layout l;
    if (!find_layout(d, a->axis, a->block_size, &l))
        return;
    if (xcc_wanted(d, 0))
        xcc_set_gradient(d, 0, xcc_mul(d, g, wide(d, spread(d, &l, scale))));
    if (zero_point != NULL && xcc_wanted(d, 2))
        xcc_set_gradient(d, 2,
                         xcc_neg(d, xcc_mul(d, xcc_reshape_like(d->b, gather_up(d, &l, g, scale), zero_point),
                                            xcc_reshape_like(d->b, wide(d, scale), zero_point))));
    if (!xcc_wanted(d, 1))
        return;
    xcc_value *x = wide(d, X);
    if (zero_point != NULL) /* same number as scales */
        x = xcc_sub(d, x, spread(d, &l, xcc_reshape_like(d->b, wide(d, zero_point), scale)));
    xcc_set_gradient(d, 1,
                     xcc_build_cast(d->b, gather_up(d, &l, xcc_mul(d, g, x), scale), (xcvm_dtype)scale->type.dtype));
}

/* The smallest and the largest number of a quantized type. */
static void find_range(xcvm_dtype dtype, double *low, double *high)
{
    const int bits = xcvm_dtype_bits(dtype);
    switch (dtype) {
    case XCVM_F8E4M3FN:
        *high = 448;
        break;
    case XCVM_F8E4M3FNUZ:
        *high = 240;
        break;
    case XCVM_F8E5M2:
    case XCVM_F8E5M2FNUZ:
        *high = 57344;
        break;
    case XCVM_F4E2M1:
        *high = 6;
        break;
    case XCVM_I8:
    case XCVM_I16:
    case XCVM_I4:
    case XCVM_I2:
        *low = -ldexp(1, bits - 1);
        *high = ldexp(1, bits - 1) - 1;
        return;
    default:
        *low = 0;
        *high = ldexp(1, bits) - 1;
        return;
    }
    *low = -*high;
}

/* x / scale + zero_point where it does not saturate; elsewhere y is constant. */
XCC_GRADIENT(QuantizeLinear)
{
    const xcvm_QuantizeLinear_args *a = XCC_ARGS(QuantizeLinear, d->node);
    const xcvm_dtype dtype = (xcvm_dtype)a->y->dtype;
    xcc_value *scale = xcc_in(d, 1), *zero_point = xcc_value_of(a->zero_point), *g = wide(d, G);
    layout l;
    double low, high;
    if (!find_layout(d, a->axis, a->block_size, &l))
        return;
    find_range(dtype, &low, &high);
    xcc_value *each = wide(d, spread(d, &l, scale)), *quotient = xcc_div(d, wide(d, X), each), *y = quotient;
    if (!xcvm_dtype_in(dtype, XCVM_TYPES_F8 | XCVM_DTYPE_BIT(F4E2M1)))
        y = xcc_op1(d, XCVM_OP_Round, y);
    if (zero_point != NULL)
        y = xcc_add(d, y, spread(d, &l, xcc_reshape_like(d->b, wide(d, zero_point), scale)));
    xcc_value *inside = xcc_op2(d, XCVM_OP_And, xcc_op2(d, XCVM_OP_GreaterOrEqual, y, xcc_num(d, y, low)),
                                xcc_op2(d, XCVM_OP_LessOrEqual, y, xcc_num(d, y, high)));
    xcc_value *taken = xcc_where(d, inside, g, xcc_num(d, g, 0)), *share = xcc_div(d, taken, each);
    if (zero_point != NULL && xcc_wanted(d, 2))
        xcc_set_gradient(d, 2, xcc_reshape_like(d->b, gather_up(d, &l, taken, scale), zero_point));
    if (xcc_wanted(d, 0))
        xcc_set_gradient(d, 0, xcc_build_cast(d->b, share, (xcvm_dtype)X->type.dtype));
    if (xcc_wanted(d, 1))
        xcc_set_gradient(d, 1,
                         xcc_build_cast(d->b, gather_up(d, &l, xcc_neg(d, xcc_mul(d, share, quotient)), scale),
                                        (xcvm_dtype)scale->type.dtype));
}

/* The scale is the range of x and zero divided by 255, so nothing saturates. */
XCC_GRADIENT(DynamicQuantizeLinear)
{
    xcc_formula f;
    if (!xcc_formula_begin(d, &f))
        return;
    xcc_value *x = f.operands[0], *zero = xcc_num(d, X, 0);
    xcc_value *high = xcc_op2(d, XCVM_OP_Max, xcc_build_reduce(d->b, XCVM_OP_ReduceMax, x, NULL, false), zero);
    xcc_value *low = xcc_op2(d, XCVM_OP_Min, xcc_build_reduce(d->b, XCVM_OP_ReduceMin, x, NULL, false), zero);
    xcc_value *scale = xcc_div(d, xcc_sub(d, high, low), xcc_num(d, X, 255));
    xcc_value *divisor = xcc_where(d, xcc_op2(d, XCVM_OP_Equal, scale, zero), xcc_num(d, X, 1), scale);
    xcc_value *zero_point = xcc_neg(d, xcc_div(d, low, divisor));
    xcc_value *results[] = {xcc_add(d, xcc_div(d, x, divisor), zero_point), scale, zero_point};
    xcc_formula_end(d, &f, results);
}
