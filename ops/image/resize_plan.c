/* Plan of a resampling: source elements and weights. */
#include "ops/image/resize_plan.h"
#include "ops/image/sampling.h"

#include <math.h>

/* Doubles from this size do not fit in int64_t; memory is smaller. */
#define LARGEST 0x1p62
/* Integers below this are exact in f32. */
#define EXACT 0x1p24

static bool is_given(const xcvm_value *v) { return v != NULL && (v->rank != 1 || v->dims[0] != 0); }

/* Finds the dimension of x of entry `i` of scales, sizes or roi. */
static xcvm_status resized_axis(xcvm_error *error, const xcvm_Resize_args *a, size_t i, int rank, int *axis)
{
    if (a->axes.count == 0) {
        *axis = (int)i;
        return XCVM_OK;
    }
    return xcvm_resolve_axis(error, a->axes.at[i], rank, axis);
}

/* The product, rounded to f32 as in ONNX's shape inference, PyTorch and ONNX Runtime: 5 times the f32 nearest to 2.6 is
 * 13, and 7 times the f32 nearest to 2 / 7 is 2. */
static double scaled_length(int64_t in, double scale)
{
    const double product = (double)in * scale;
    return product < EXACT ? (double)(float)product : product;
}

/* Computes size and scale of a dimension from entry i of scales. */
static xcvm_status resize_by_scale(xcvm_error *error, const xcvm_Resize_args *a, size_t i, int64_t in, int64_t *out,
                                   double *scale)
{
    *scale = xcvm_element_as_double(a->scales, i);
    XCVM_CHECK(error, *scale > 0 && *scale < 1e9, OUT_OF_RANGE,
               "scales[%zu] is out of range (%g; expected above 0 and below 1e9)", i, *scale);
    XCVM_CHECK(error, (double)in * *scale < LARGEST, OUT_OF_RANGE, "scales[%zu] is %g, too large for %g elements", i,
               *scale, (double)in);
    *out = in < 0 ? (*scale == 1 ? in : XCVM_ANY_DIM) : (int64_t)floor(scaled_length(in, *scale));
    return XCVM_OK;
}

/* The same from entry i of sizes. *common becomes the smallest or largest scale, by the policy, or NaN if it depends on
 * an unknown size. */
static xcvm_status resize_by_size(xcvm_error *error, const xcvm_Resize_args *a, size_t i, int64_t in, int64_t *out,
                                  double *scale, double *common)
{
    *out = xcvm_element_as_int(a->sizes, i);
    XCVM_CHECK(error, *out >= 0 && *out <= INT32_MAX, OUT_OF_RANGE,
               "sizes[%zu] is out of range (%lld; expected 0 to %d)", i, (long long)*out, INT32_MAX);
    if (in > 0) {
        *scale = (double)*out / (double)in;
        *common = a->keep_aspect_ratio_policy == XCVM_ASPECT_not_larger ? fmin(*common, *scale) : fmax(*common, *scale);
    } else if (in < 0 && a->keep_aspect_ratio_policy != XCVM_ASPECT_stretch) {
        *common = NAN;
    }
    return XCVM_OK;
}

/* The same for every resized dimension, from one scale. */
static xcvm_status resize_all(xcvm_error *error, const xcvm_Resize_args *a, size_t count, double common,
                              int64_t dims[XCVM_MAX_RANK], double scales[XCVM_MAX_RANK])
{
    for (size_t i = 0; i < count; i++) {
        int d;
        XCVM_TRY(resized_axis(error, a, i, a->x->rank, &d));
        const double in = (double)a->x->dims[d];
        scales[d] = common;
        XCVM_CHECK(error, isnan(common) || in < 0 || fabs(in * common) < LARGEST, OUT_OF_RANGE,
                   "sizes are too large for %g elements, or there are none", in);
        dims[d] = isnan(common) || in < 0 ? XCVM_ANY_DIM : (int64_t)floor(in * common + 0.5);
    }
    return XCVM_OK;
}

/* Computes output sizes and scales of all dimensions of x; unresized ones have scale 1. In shape rules, dimensions and
 * sizes may be unknown (dims < 0). */
static xcvm_status resolve(xcvm_error *error, const xcvm_Resize_args *a, int64_t dims[XCVM_MAX_RANK],
                           double scales[XCVM_MAX_RANK])
{
    const int rank = a->x->rank;
    size_t expected = a->axes.count != 0 ? a->axes.count : (size_t)rank;
    for (int d = 0; d < rank; d++) {
        dims[d] = a->x->dims[d];
        scales[d] = 1;
    }
    const bool by_scales = is_given(a->scales), by_sizes = is_given(a->sizes);
    XCVM_CHECK(error, by_scales != by_sizes, INVALID_ARGUMENT, "exactly one of scales and sizes must be given");
    const xcvm_value *given = by_scales ? a->scales : a->sizes;
    const char *what = by_scales ? "scales" : "sizes";
    XCVM_CHECK(error, given->rank < 0 || given->rank == 1, SHAPE_MISMATCH, "%s has the wrong rank (%d; expected 1)",
               what, given->rank);
    XCVM_CHECK(error, expected <= (size_t)rank, SHAPE_MISMATCH, "axes has %zu entries, x has rank %d", expected, rank);
    if (given->data == NULL || !xcvm_dims_known(given)) {
        for (size_t i = 0; i < expected; i++) {
            int d;
            XCVM_TRY(resized_axis(error, a, i, rank, &d));
            dims[d] = XCVM_ANY_DIM;
        }
        return XCVM_OK;
    }
    XCVM_CHECK(error, xcvm_element_count(given) == expected, SHAPE_MISMATCH,
               "%s has the wrong number of entries (%zu; expected %zu)", what, xcvm_element_count(given), expected);
    double common = a->keep_aspect_ratio_policy == XCVM_ASPECT_not_larger ? INFINITY : 0;
    for (size_t i = 0; i < expected; i++) {
        int d;
        XCVM_TRY(resized_axis(error, a, i, rank, &d));
        if (by_scales)
            XCVM_TRY(resize_by_scale(error, a, i, a->x->dims[d], &dims[d], &scales[d]));
        else
            XCVM_TRY(resize_by_size(error, a, i, a->x->dims[d], &dims[d], &scales[d], &common));
    }
    if (by_sizes && a->keep_aspect_ratio_policy != XCVM_ASPECT_stretch)
        return resize_all(error, a, expected, common, dims, scales);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(Resize)
{
    int64_t dims[XCVM_MAX_RANK];
    double scales[XCVM_MAX_RANK];
    if (a->x->rank < 0) {
        xcvm_value_set_tensor(a->y, a->x->dtype, -1, NULL);
        return XCVM_OK;
    }
    XCVM_TRY(resolve(t->error, a, dims, scales));
    xcvm_value_set_tensor(a->y, a->x->dtype, a->x->rank, dims);
    return XCVM_OK;
}

/* length_resized of ONNX's formulas. The text defines it as the number of result elements, as PyTorch and ONNX Runtime
 * do. ONNX's test data for align_corners use the product with the scale instead if an axis shrinks. */
static double resized_length(const xcvm_Resize_args *a, int64_t in, int64_t out, double scale)
{
    const bool by_product =
        a->coordinate_transformation_mode == XCVM_COORDINATE_align_corners && is_given(a->scales) && scale < 1;
    return by_product ? scaled_length(in, scale) : (double)out;
}

/* Source position of output position `i` of an axis; formulas of ONNX's Resize, coordinate_transformation_mode. */
static double source_position(const xcvm_Resize_args *a, int64_t i, int64_t in, int64_t out, double scale,
                              double roi_start, double roi_end)
{
    const double x = (double)i, resized = resized_length(a, in, out, scale);
    switch (a->coordinate_transformation_mode) {
    case XCVM_COORDINATE_half_pixel_symmetric: {
        const double adjustment = (double)out / (scale * (double)in);
        return (double)in / 2 * (1 - adjustment) + (x + 0.5) / scale - 0.5;
    }
    case XCVM_COORDINATE_pytorch_half_pixel:
        return out > 1 ? (x + 0.5) / scale - 0.5 : 0;
    case XCVM_COORDINATE_align_corners:
        return out == 1 || resized == 1 ? 0 : x * (double)(in - 1) / (resized - 1);
    case XCVM_COORDINATE_asymmetric:
        return x / scale;
    case XCVM_COORDINATE_tf_half_pixel_for_nn:
        return (x + 0.5) / scale;
    case XCVM_COORDINATE_tf_crop_and_resize:
        return out > 1 ? roi_start * (double)(in - 1) + x * (roi_end - roi_start) * (double)(in - 1) / (resized - 1)
                       : 0.5 * (roi_start + roi_end) * (double)(in - 1);
    default:
        return (x + 0.5) / scale - 0.5;
    }
}

static int64_t clamp(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

static int64_t nearest(int mode, double x)
{
    switch (mode) {
    case XCVM_NEAREST_round_prefer_ceil:
        return (int64_t)floor(x + 0.5);
    case XCVM_NEAREST_floor:
        return (int64_t)floor(x);
    case XCVM_NEAREST_ceil:
        return (int64_t)ceil(x);
    default:
        return (int64_t)ceil(x - 0.5);
    }
}

static int64_t tap_count(const xcvm_Resize_args *a, double scale)
{
    if (a->mode == XCVM_RESIZE_MODE_nearest)
        return 1;
    const double reach = a->mode == XCVM_RESIZE_MODE_linear ? 1 : 2;
    if (!a->antialias || scale >= 1)
        return 2 * (int64_t)reach;
    return 2 - 2 * ((int64_t)floor(-reach / scale) + 1);
}

static xcvm_status fill_axis(const xcvm_Resize_args *a, xcvm_resize_axis *p, double scale, double roi_start,
                             double roi_end, xcvm_poller *poller)
{
    const double filter = a->antialias ? fmin(scale, 1) : 1;
    const int64_t first = 1 - p->taps / 2;
    for (int64_t i = 0; i < p->out; i++) {
        XCVM_TRY(xcvm_poll_after(poller, 1));
        const double position = source_position(a, i, p->in, p->out, scale, roi_start, roi_end);
        /* Clamping positions far outside does not change results, and makes them fit an integer. */
        const double x = fmin(fmax(position, -0x1p52), 0x1p52);
        p->outside[i] = a->coordinate_transformation_mode == XCVM_COORDINATE_tf_crop_and_resize &&
                        (x < 0 || x > (double)(p->in - 1));
        int64_t *index = p->index + i * p->taps;
        float *weight = p->weight + i * p->taps;
        if (a->mode == XCVM_RESIZE_MODE_nearest) {
            index[0] = clamp(nearest((int)a->nearest_mode, x), p->in);
            weight[0] = 1;
            continue;
        }
        /* The tap left of x, so that its distance is in (0, 1]. */
        const int64_t left = (int64_t)ceil(x) - 1;
        const double ratio = x - (double)left;
        double sum = 0;
        for (int64_t j = 0; j < p->taps; j++) {
            XCVM_TRY(xcvm_poll_after(poller, 1));
            const double distance = ((double)(first + j) - ratio) * filter;
            const int64_t at = left + first + j;
            double w = a->mode == XCVM_RESIZE_MODE_linear ? fmax(0, 1 - fabs(distance))
                                                          : xcvm_cubic(a->cubic_coeff_a, distance);
            if (a->exclude_outside && (at < 0 || at >= p->in))
                w = 0;
            sum += w;
            index[j] = clamp(at, p->in);
            weight[j] = (float)w;
        }
        if ((a->exclude_outside || filter < 1) && sum != 0)
            for (int64_t j = 0; j < p->taps; j++)
                weight[j] = (float)((double)weight[j] / sum);
    }
    return XCVM_OK;
}

static xcvm_status find_region(xcvm_error *error, xcvm_resize *r)
{
    const xcvm_Resize_args *a = r->a;
    const int rank = a->x->rank;
    for (int d = 0; d < rank; d++) {
        r->starts[d] = 0;
        r->ends[d] = 1;
    }
    if (a->coordinate_transformation_mode != XCVM_COORDINATE_tf_crop_and_resize)
        return XCVM_OK;
    const size_t entries = a->axes.count != 0 ? a->axes.count : (size_t)rank;
    XCVM_CHECK(error, a->roi != NULL && xcvm_element_count(a->roi) == 2 * entries, SHAPE_MISMATCH,
               "roi must have %zu entries for tf_crop_and_resize", 2 * entries);
    for (size_t i = 0; i < entries; i++) {
        int d;
        XCVM_TRY(resized_axis(error, a, i, rank, &d));
        r->starts[d] = xcvm_element_as_double(a->roi, i);
        r->ends[d] = xcvm_element_as_double(a->roi, entries + i);
    }
    return XCVM_OK;
}

/* Computes the sizes of the axes' plans. */
static xcvm_status plan_axes(xcvm_error *error, xcvm_resize *r)
{
    const xcvm_Resize_args *a = r->a;
    for (int d = 0; d < a->x->rank; d++) {
        xcvm_resize_axis *p = &r->axes[d];
        const bool resized =
            r->scales[d] != 1 || a->x->dims[d] != a->y->dims[d] || r->starts[d] != 0 || r->ends[d] != 1;
        *p = (xcvm_resize_axis){
            .in = a->x->dims[d], .out = a->y->dims[d], .taps = resized || r->by_index ? tap_count(a, r->scales[d]) : 0};
        XCVM_CHECK(error, p->taps <= INT32_MAX / 4, OUT_OF_RANGE, "dimension %d shrinks too much", d);
        size_t taps;
        XCVM_CHECK(error,
                   xcvm_size_mul((size_t)p->out, (size_t)p->taps, &taps) && xcvm_size_add(r->taps, taps, &r->taps) &&
                       xcvm_size_add(r->positions, (size_t)p->out, &r->positions),
                   OUT_OF_MEMORY, "the result is too large");
    }
    return XCVM_OK;
}

/* Orders the axes that change: first those before the last that shrink, row by row; then the last, whose elements are
 * gathered one by one; then those that grow. */
static xcvm_status order_passes(xcvm_error *error, xcvm_resize *r)
{
    const int last = r->a->x->rank - 1;
    const xcvm_resize_axis *axes = r->axes;
    for (int d = 0; d < last; d++)
        if (axes[d].taps != 0 && axes[d].out < axes[d].in)
            r->order[r->passes++] = d;
    for (int d = last; d >= 0; d--)
        if (axes[d].taps != 0 && (d == last || axes[d].out >= axes[d].in))
            r->order[r->passes++] = d;
    r->direct = r->a->x->dtype == XCVM_F32 && r->passes > 0;
    size_t count = xcvm_element_count(r->a->x);
    r->largest = r->direct ? 0 : count;
    for (int i = 0; i < r->passes; i++) {
        const xcvm_resize_axis *p = &axes[r->order[i]];
        XCVM_CHECK(error, xcvm_size_mul(count / (size_t)p->in, (size_t)p->out, &count), OUT_OF_MEMORY,
                   "the result is too large");
        if (count > r->largest && !(r->direct && i == r->passes - 1))
            r->largest = count;
    }
    return XCVM_OK;
}

xcvm_status xcvm_resize_plan(xcvm_error *error, const xcvm_Resize_args *a, xcvm_resize *r)
{
    int64_t dims[XCVM_MAX_RANK];
    *r = (xcvm_resize){.a = a, .by_index = a->mode == XCVM_RESIZE_MODE_nearest};
    XCVM_TRY(resolve(error, a, dims, r->scales));
    XCVM_TRY(find_region(error, r));
    XCVM_TRY(plan_axes(error, r));
    XCVM_TRY(order_passes(error, r));
    /* An index and a weight per tap, and a flag per position; sizes rounded up must not overflow. */
    const size_t most = PTRDIFF_MAX / 4;
    XCVM_CHECK(error,
               r->taps <= most / (sizeof(int64_t) + sizeof(float)) && r->positions <= most &&
                   r->largest <= most / sizeof(float),
               OUT_OF_MEMORY, "the result is too large");
    r->table_bytes = xcvm_round_up(r->taps * (sizeof(int64_t) + sizeof(float)) + r->positions, XCVM_ALIGNMENT);
    return XCVM_OK;
}

xcvm_status xcvm_resize_fill(xcvm_resize *r, char *tables, xcvm_poller *poller)
{
    int64_t *index = (int64_t *)(void *)tables;
    float *weight = (float *)(void *)(index + r->taps);
    bool *outside = (bool *)(void *)(weight + r->taps);
    for (int d = 0; d < r->a->x->rank; d++) {
        xcvm_resize_axis *p = &r->axes[d];
        p->index = index;
        p->weight = weight;
        p->outside = outside;
        if (p->taps == 0) {
            memset(outside, 0, (size_t)p->out);
        } else {
            XCVM_TRY(fill_axis(r->a, p, r->scales[d], r->starts[d], r->ends[d], poller));
            for (int64_t i = 0; i < p->out; i++)
                r->any_outside |= outside[i];
        }
        index += p->out * p->taps;
        weight += p->out * p->taps;
        outside += p->out;
    }
    return XCVM_OK;
}
