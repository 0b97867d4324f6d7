/* QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear. */
#include "ops/convert.h"
#include "ops/kernel.h"

#include <math.h>

#define TYPES_QUANTISED                                                                                                \
    (XCVM_TYPES_BYTE | XCVM_DTYPE_BIT(U16) | XCVM_DTYPE_BIT(I16) | XCVM_TYPES_F8 | XCVM_TYPES_PACKED)

/* How x is divided into pieces of one scale each: outer x axis x inner elements, of which `block` neighbours on the
 * axis share a scale (all of them: block is the axis' size); a scale for each inner element too if `by_inner`. */
typedef struct pieces {
    size_t outer, axis, inner, block;
    bool single, by_inner;
} pieces;

static xcvm_status find_pieces(xcvm_error *error, const xcvm_value *x, const xcvm_value *scale, int64_t axis,
                               int64_t block_size, pieces *p)
{
    char given[96], expected[96];
    *p = (pieces){.outer = 1, .axis = 1, .inner = 1, .block = 1};
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
        XCVM_CHECK(error, scale->rank == 1 && (size_t)scale->dims[0] == p->axis, SHAPE_MISMATCH,
                   "scale has shape %s; one number, or %zu of them, as many as x has along axis %d, are needed",
                   xcvm_dims_describe(scale->rank, scale->dims, given, sizeof given), p->axis, at);
        return XCVM_OK;
    }
    p->by_inner = true;
    p->block = (size_t)block_size;
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    dims[at] = (x->dims[at] + block_size - 1) / block_size;
    bool fits = scale->rank == x->rank;
    for (int d = 0; d < x->rank && fits; d++)
        fits = scale->dims[d] == dims[d];
    XCVM_CHECK(error, fits, SHAPE_MISMATCH, "scale has shape %s; with blocks of %lld, %s is needed",
               xcvm_dims_describe(scale->rank, scale->dims, given, sizeof given), (long long)block_size,
               xcvm_dims_describe(x->rank, dims, expected, sizeof expected));
    return XCVM_OK;
}

/* Index of the scale of element `i`, and how many elements from it on share it. */
static size_t scale_of(const pieces *p, size_t i, size_t *run)
{
    if (p->single) {
        *run = p->inner - i;
        return 0;
    }
    const size_t inner = i % p->inner, along = i / p->inner % p->axis, outer = i / p->inner / p->axis;
    if (!p->by_inner) {
        *run = p->inner - inner;
        return along;
    }
    const size_t blocks = (p->axis + p->block - 1) / p->block;
    *run = 1;
    if (p->inner == 1) {
        const size_t end = (along / p->block + 1) * p->block;
        *run = (end < p->axis ? end : p->axis) - along;
    }
    return (outer * blocks + along / p->block) * p->inner + inner;
}

static xcvm_status check_zero_point(xcvm_error *error, const xcvm_value *scale, const xcvm_value *zero_point)
{
    if (zero_point == NULL || !xcvm_dims_known(zero_point) || !xcvm_dims_known(scale))
        return XCVM_OK;
    XCVM_CHECK(error, xcvm_element_count(zero_point) == xcvm_element_count(scale), SHAPE_MISMATCH,
               "zero_point has %zu elements, scale has %zu", xcvm_element_count(zero_point), xcvm_element_count(scale));
    return XCVM_OK;
}

static double number_at(const xcvm_value *v, size_t i)
{
    double number = 0;
    if (v != NULL)
        xcvm_load_f64((xcvm_dtype)v->dtype, v->data, i, 1, &number);
    return number;
}

/* ---- QuantizeLinear ---- */

XCVM_SHAPE_RULE_OF(QuantizeLinear)
{
    xcvm_dtype dtype = a->zero_point != NULL ? (xcvm_dtype)a->zero_point->dtype : a->output_dtype;
    if (a->zero_point == NULL && dtype == XCVM_NO_DTYPE)
        dtype = XCVM_U8;
    char types[160];
    XCVM_REQUIRE(t, dtype == XCVM_NO_DTYPE || xcvm_dtype_in(dtype, TYPES_QUANTISED), TYPE_MISMATCH,
                 "x cannot be quantised to %s, but to %s", xcvm_dtype_name(dtype),
                 xcvm_dtypes_describe(TYPES_QUANTISED, types, sizeof types));
    XCVM_REQUIRE(t, a->zero_point == NULL || a->output_dtype == XCVM_NO_DTYPE || a->output_dtype == dtype,
                 TYPE_MISMATCH, "zero_point is %s, output_dtype %s", xcvm_dtype_name(dtype),
                 xcvm_dtype_name(a->output_dtype));
    XCVM_TRY(check_zero_point(t->error, a->scale, a->zero_point));
    xcvm_value_set_tensor(a->y, dtype, a->x->rank, a->x->dims);
    return XCVM_OK;
}

typedef struct quantisation {
    const xcvm_QuantizeLinear_args *args;
    pieces pieces;
    double low, high; /* of the quantised integers; both 0 for floats */
} quantisation;

static void integer_range(xcvm_dtype dtype, double *low, double *high)
{
    const int bits = xcvm_dtype_bits(dtype);
    const bool is_signed = dtype == XCVM_I8 || dtype == XCVM_I16 || dtype == XCVM_I4 || dtype == XCVM_I2;
    *low = is_signed ? -ldexp(1, bits - 1) : 0;
    *high = ldexp(1, is_signed ? bits - 1 : bits) - 1;
}

static void quantize(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const quantisation *q = context;
    const xcvm_QuantizeLinear_args *a = q->args;
    const bool integer = q->high > 0;
    for (size_t i = begin * XCVM_BLOCK, limit; i < end * XCVM_BLOCK; i = limit) {
        double x[XCVM_BLOCK];
        const size_t count = xcvm_element_count(a->x);
        if (i >= count)
            return;
        limit = i + XCVM_BLOCK < count ? i + XCVM_BLOCK : count;
        xcvm_load_f64((xcvm_dtype)a->x->dtype, a->x->data, i, limit - i, x);
        for (size_t j = i; j < limit;) {
            size_t run;
            const size_t s = scale_of(&q->pieces, j, &run);
            const double zero = number_at(a->zero_point, s);
            const float scale = (float)number_at(a->scale, s);
            const size_t stop = run < limit - j ? j + run : limit;
            /* The quotient is one of floats, as in ONNX's definition: its rounding decides ties. */
            for (; j < stop; j++) {
                const double quotient = (double)((float)x[j - i] / scale);
                x[j - i] = integer ? fmin(fmax(nearbyint(quotient) + zero, q->low), q->high) : quotient;
            }
        }
        xcvm_store_f64((xcvm_dtype)a->y->dtype, a->y->data, i, limit - i, x, a->saturate != 0);
    }
}

XCVM_KERNEL(QuantizeLinear)
{
    quantisation q = {.args = a};
    XCVM_TRY(find_pieces(k->error, a->x, a->scale, a->axis, a->block_size, &q.pieces));
    if (xcvm_dtype_in((xcvm_dtype)a->y->dtype, XCVM_TYPES_INT | XCVM_TYPES_PACKED_INT))
        integer_range((xcvm_dtype)a->y->dtype, &q.low, &q.high);
    xcvm_parallel(k->threads, (xcvm_element_count(a->x) + XCVM_BLOCK - 1) / XCVM_BLOCK, 32, quantize, &q);
    return XCVM_OK;
}

/* ---- DequantizeLinear ---- */

XCVM_SHAPE_RULE_OF(DequantizeLinear)
{
    char types[160];
    XCVM_REQUIRE(
        t, a->x->dtype == XCVM_NO_DTYPE || xcvm_dtype_in((xcvm_dtype)a->x->dtype, TYPES_QUANTISED | XCVM_TYPES_I32),
        TYPE_MISMATCH, "x is %s; %s is needed", xcvm_dtype_name((xcvm_dtype)a->x->dtype),
        xcvm_dtypes_describe(TYPES_QUANTISED | XCVM_TYPES_I32, types, sizeof types));
    XCVM_REQUIRE(t, a->zero_point == NULL || a->zero_point->dtype == a->x->dtype, TYPE_MISMATCH,
                 "zero_point is %s, x is %s",
                 xcvm_dtype_name(a->zero_point != NULL ? (xcvm_dtype)a->zero_point->dtype : XCVM_NO_DTYPE),
                 xcvm_dtype_name((xcvm_dtype)a->x->dtype));
    XCVM_TRY(check_zero_point(t->error, a->scale, a->zero_point));
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->scale->dtype, a->x->rank, a->x->dims);
    return XCVM_OK;
}

typedef struct dequantisation {
    const xcvm_DequantizeLinear_args *args;
    pieces pieces;
} dequantisation;

static void dequantize(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const dequantisation *q = context;
    const xcvm_DequantizeLinear_args *a = q->args;
    const size_t count = xcvm_element_count(a->x);
    for (size_t i = begin * XCVM_BLOCK, limit; i < end * XCVM_BLOCK && i < count; i = limit) {
        double x[XCVM_BLOCK];
        limit = i + XCVM_BLOCK < count ? i + XCVM_BLOCK : count;
        xcvm_load_f64((xcvm_dtype)a->x->dtype, a->x->data, i, limit - i, x);
        for (size_t j = i; j < limit;) {
            size_t run;
            const size_t s = scale_of(&q->pieces, j, &run);
            const double zero = number_at(a->zero_point, s), scale = number_at(a->scale, s);
            const size_t stop = run < limit - j ? j + run : limit;
            for (; j < stop; j++)
                x[j - i] = (x[j - i] - zero) * scale;
        }
        xcvm_store_f64((xcvm_dtype)a->y->dtype, a->y->data, i, limit - i, x, false);
    }
}

XCVM_KERNEL(DequantizeLinear)
{
    dequantisation q = {.args = a};
    XCVM_TRY(find_pieces(k->error, a->x, a->scale, a->axis, a->block_size, &q.pieces));
    xcvm_parallel(k->threads, (xcvm_element_count(a->x) + XCVM_BLOCK - 1) / XCVM_BLOCK, 32, dequantize, &q);
    return XCVM_OK;
}

/* ---- DynamicQuantizeLinear ---- */

XCVM_SHAPE_RULE_OF(DynamicQuantizeLinear)
{
    (void)t;
    xcvm_value_set_tensor(a->y, XCVM_U8, a->x->rank, a->x->dims);
    xcvm_value_set_tensor(a->scale, XCVM_F32, 0, NULL);
    xcvm_value_set_tensor(a->zero_point, XCVM_U8, 0, NULL);
    return XCVM_OK;
}

XCVM_KERNEL(DynamicQuantizeLinear)
{
    (void)k;
    const float *x = a->x->data;
    const size_t count = xcvm_element_count(a->x);
    float low = 0, high = 0;
    for (size_t i = 0; i < count; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    const float scale = (high - low) / 255;
    const float zero = scale > 0 ? fminf(fmaxf(nearbyintf(-low / scale), 0), 255) : 0;
    *XCVM_DATA(float, a->scale) = scale;
    *XCVM_DATA(uint8_t, a->zero_point) = (uint8_t)zero;
    uint8_t *y = a->y->data;
    for (size_t i = 0; i < count; i++)
        y[i] = (uint8_t)fminf(fmaxf(nearbyintf(scale > 0 ? x[i] / scale : 0) + zero, 0), 255);
    return XCVM_OK;
}
