/* Shape rules of quantization, and the mapping from elements to scales. */
#include "ops/quantize/quantize_shape.h"

xcvm_status xcvm_quantized_find(xcvm_error *error, const xcvm_value *x, const xcvm_value *scale, int64_t axis,
                                int64_t block_size, xcvm_quantized *p)
{
    char given[96], expected[96];
    *p = (xcvm_quantized){.outer = 1, .axis = 1, .inner = 1, .block = 1};
    if (scale->rank == 0 || (scale->rank == 1 && scale->dims[0] == 1 && block_size == 0)) {
        p->single = true;
        p->inner = xcvm_element_count(x);
        return XCVM_OK;
    }
    int at;
    XCVM_TRY(xcvm_resolve_axis(error, axis, x->rank, &at));
    for (int d = 0; d < x->rank; d++)
        *(d < at ? &p->outer : d == at ? &p->axis : &p->inner) *= (size_t)x->dims[d];
    if (block_size == 0) {
        XCVM_CHECK(
            error, scale->rank == 1 && (size_t)scale->dims[0] == p->axis, SHAPE_MISMATCH,
            "scale has the wrong shape (%s; expected one number, or %zu of them, as many as x has along axis %d)",
            xcvm_dims_describe(scale->rank, scale->dims, given, sizeof given), p->axis, at);
        return XCVM_OK;
    }
    p->by_inner = true;
    p->block = (size_t)block_size;
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    dims[at] = x->dims[at] / block_size + (x->dims[at] % block_size != 0);
    bool fits = scale->rank == x->rank;
    for (int d = 0; d < x->rank && fits; d++)
        fits = scale->dims[d] == dims[d];
    XCVM_CHECK(error, fits, SHAPE_MISMATCH, "scale has the wrong shape (%s with blocks of %lld; expected %s)",
               xcvm_dims_describe(scale->rank, scale->dims, given, sizeof given), (long long)block_size,
               xcvm_dims_describe(x->rank, dims, expected, sizeof expected));
    return XCVM_OK;
}

void xcvm_quantized_spread(const xcvm_quantized *p, const float *values, size_t first, size_t count, float *to)
{
    if (p->single) {
        for (size_t i = 0; i < count; i++)
            to[i] = values[0];
        return;
    }
    size_t inner = first % p->inner, along = first / p->inner % p->axis, outer = first / p->inner / p->axis;
    const size_t blocks = (p->axis + p->block - 1) / p->block;
    for (size_t done = 0, run; done < count; done += run) {
        const float *from =
            p->by_inner ? values + (outer * blocks + along / p->block) * p->inner + inner : values + along;
        bool constant = p->by_inner == (p->inner == 1);
        /* Length of a run with the same value, or with consecutive entries of `values`. */
        if (p->inner != 1)
            run = p->inner - inner;
        else
            run = p->by_inner ? (along / p->block + 1) * p->block - along : p->axis;
        if (p->inner == 1 && run > p->axis - along)
            run = p->axis - along;
        if (run > count - done)
            run = count - done;
        for (size_t i = 0; i < run; i++)
            to[done + i] = constant ? *from : from[i];
        inner += p->inner != 1 ? run : 0;
        along += p->inner != 1 ? inner == p->inner : run;
        inner = inner == p->inner ? 0 : inner;
        outer += along == p->axis;
        along = along == p->axis ? 0 : along;
    }
}

static xcvm_status check_zero_point(xcvm_error *error, const xcvm_value *scale, const xcvm_value *zero_point)
{
    if (zero_point == NULL || !xcvm_dims_known(zero_point) || !xcvm_dims_known(scale))
        return XCVM_OK;
    XCVM_CHECK(error, xcvm_element_count(zero_point) == xcvm_element_count(scale), SHAPE_MISMATCH,
               "zero_point has %zu elements, scale has %zu", xcvm_element_count(zero_point), xcvm_element_count(scale));
    return XCVM_OK;
}

/* Without blocks a scale is a scalar or a vector, as in ONNX, even if another shape has as many elements. */
static xcvm_status check_scale(xcvm_error *error, const xcvm_value *scale, int64_t block_size)
{
    char given[96];
    XCVM_CHECK(error, scale->rank <= 1 || block_size != 0, SHAPE_MISMATCH,
               "scale has the wrong shape (%s; expected one number, or a vector along axis, without block_size)",
               xcvm_dims_describe(scale->rank, scale->dims, given, sizeof given));
    return XCVM_OK;
}

/* ---- Shape rules ---- */

XCVM_SHAPE_RULE_OF(QuantizeLinear)
{
    xcvm_dtype dtype = a->zero_point != NULL ? (xcvm_dtype)a->zero_point->dtype : a->output_dtype;
    if (a->zero_point == NULL && dtype == XCVM_NO_DTYPE)
        dtype = XCVM_U8;
    char types[160];
    XCVM_CHECK(t->error, dtype == XCVM_NO_DTYPE || xcvm_dtype_in(dtype, XCVM_TYPES_QUANTIZED), TYPE_MISMATCH,
               "x cannot be quantized to %s, but to %s", xcvm_dtype_name(dtype),
               xcvm_dtypes_describe(XCVM_TYPES_QUANTIZED, types, sizeof types));
    XCVM_CHECK(t->error, a->zero_point == NULL || a->output_dtype == XCVM_NO_DTYPE || a->output_dtype == dtype,
               TYPE_MISMATCH, "zero_point is %s, output_dtype %s", xcvm_dtype_name(dtype),
               xcvm_dtype_name(a->output_dtype));
    XCVM_CHECK(t->error, a->precision == XCVM_NO_DTYPE || xcvm_dtype_in(a->precision, XCVM_TYPES_FLOAT),
               INVALID_ARGUMENT, "precision is not supported (%s; expected a float type)",
               xcvm_dtype_name(a->precision));
    XCVM_TRY(check_scale(t->error, a->scale, a->block_size));
    XCVM_TRY(check_zero_point(t->error, a->scale, a->zero_point));
    xcvm_value_set_tensor(a->y, dtype, a->x->rank, a->x->dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(DequantizeLinear)
{
    char types[160];
    XCVM_CHECK(t->error,
               a->x->dtype == XCVM_NO_DTYPE ||
                   xcvm_dtype_in((xcvm_dtype)a->x->dtype, XCVM_TYPES_QUANTIZED | XCVM_TYPES_I32),
               TYPE_MISMATCH, "x has the wrong type (%s; expected %s)", xcvm_dtype_name((xcvm_dtype)a->x->dtype),
               xcvm_dtypes_describe(XCVM_TYPES_QUANTIZED | XCVM_TYPES_I32, types, sizeof types));
    XCVM_CHECK(t->error, a->zero_point == NULL || a->zero_point->dtype == a->x->dtype, TYPE_MISMATCH,
               "zero_point is %s, x is %s",
               xcvm_dtype_name(a->zero_point != NULL ? (xcvm_dtype)a->zero_point->dtype : XCVM_NO_DTYPE),
               xcvm_dtype_name((xcvm_dtype)a->x->dtype));
    XCVM_TRY(check_scale(t->error, a->scale, a->block_size));
    XCVM_TRY(check_zero_point(t->error, a->scale, a->zero_point));
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->scale->dtype, a->x->rank, a->x->dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(DynamicQuantizeLinear)
{
    (void)t;
    xcvm_value_set_tensor(a->y, XCVM_U8, a->x->rank, a->x->dims);
    xcvm_value_set_tensor(a->scale, XCVM_F32, 0, NULL);
    xcvm_value_set_tensor(a->zero_point, XCVM_U8, 0, NULL);
    return XCVM_OK;
}
