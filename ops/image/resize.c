/* Resize: resampling along chosen axes, one axis after the other. */
#include "ops/floats.h"
#include "ops/image/resize_row.h"
#include "ops/kernel.h"

#include <math.h>

/* A size from which on doubles are no int64_t any more; less is more than memory holds. */
#define LARGEST 0x1p62

/* Which dimension of x entry `i` of scales, sizes or roi is for. */
static xcvm_status resized_axis(xcvm_error *error, const xcvm_Resize_args *a, size_t i, int rank, int *axis)
{
    if (a->axes.count == 0) {
        *axis = (int)i;
        return XCVM_OK;
    }
    return xcvm_resolve_axis(error, a->axes.at[i], rank, axis);
}

/* Output sizes and scales of every dimension of x; scales are 1 where nothing is resized. Dimensions of x and sizes may
 * be unknown (dims < 0), as in shape rules. */
static xcvm_status resolve(xcvm_error *error, const xcvm_Resize_args *a, int64_t dims[XCVM_MAX_RANK],
                           double scales[XCVM_MAX_RANK])
{
    const int rank = a->x->rank;
    size_t expected = a->axes.count != 0 ? a->axes.count : (size_t)rank;
    for (int d = 0; d < rank; d++) {
        dims[d] = a->x->dims[d];
        scales[d] = 1;
    }
    const bool by_scales = a->scales != NULL && (a->scales->rank != 1 || a->scales->dims[0] != 0);
    const bool by_sizes = a->sizes != NULL && (a->sizes->rank != 1 || a->sizes->dims[0] != 0);
    XCVM_CHECK(error, by_scales != by_sizes, INVALID_ARGUMENT, "exactly one of scales and sizes must be given");
    const xcvm_value *given = by_scales ? a->scales : a->sizes;
    const char *what = by_scales ? "scales" : "sizes";
    XCVM_CHECK(error, given->rank < 0 || given->rank == 1, SHAPE_MISMATCH, "%s has rank %d, 1 is needed", what,
               given->rank);
    XCVM_CHECK(error, expected <= (size_t)rank, SHAPE_MISMATCH, "axes has %zu entries, x has rank %d", expected, rank);
    if (given->data == NULL || !xcvm_dims_known(given)) {
        for (size_t i = 0; i < expected; i++) {
            int d;
            XCVM_TRY(resized_axis(error, a, i, rank, &d));
            dims[d] = XCVM_ANY_DIM;
        }
        return XCVM_OK;
    }
    XCVM_CHECK(error, xcvm_element_count(given) == expected, SHAPE_MISMATCH, "%s has %zu entries, %zu are needed", what,
               xcvm_element_count(given), expected);
    double common = a->keep_aspect_ratio_policy == XCVM_ASPECT_not_larger ? INFINITY : 0;
    for (size_t i = 0; i < expected; i++) {
        int d;
        XCVM_TRY(resized_axis(error, a, i, rank, &d));
        const double in = (double)a->x->dims[d];
        if (by_scales) {
            scales[d] = xcvm_element_as_double(given, i);
            XCVM_CHECK(error, scales[d] > 0 && scales[d] < 1e9, OUT_OF_RANGE, "scales[%zu] is %g, it must be positive",
                       i, scales[d]);
            XCVM_CHECK(error, in * scales[d] < LARGEST, OUT_OF_RANGE, "scales[%zu] is %g, too large for %g elements", i,
                       scales[d], in);
            dims[d] =
                a->x->dims[d] < 0 ? (scales[d] == 1 ? a->x->dims[d] : XCVM_ANY_DIM) : (int64_t)floor(in * scales[d]);
        } else {
            dims[d] = xcvm_element_as_int(given, i);
            XCVM_CHECK(error, dims[d] >= 0 && dims[d] <= INT32_MAX, OUT_OF_RANGE, "sizes[%zu] is %lld", i,
                       (long long)dims[d]);
            if (a->x->dims[d] > 0) {
                scales[d] = (double)dims[d] / in;
                common = a->keep_aspect_ratio_policy == XCVM_ASPECT_not_larger ? fmin(common, scales[d])
                                                                               : fmax(common, scales[d]);
            } else if (a->x->dims[d] < 0 && a->keep_aspect_ratio_policy != XCVM_ASPECT_stretch) {
                common = NAN;
            }
        }
    }
    if (by_sizes && a->keep_aspect_ratio_policy != XCVM_ASPECT_stretch)
        for (size_t i = 0; i < expected; i++) {
            int d;
            XCVM_TRY(resized_axis(error, a, i, rank, &d));
            scales[d] = common;
            XCVM_CHECK(error, isnan(common) || a->x->dims[d] < 0 || fabs((double)a->x->dims[d] * common) < LARGEST,
                       OUT_OF_RANGE, "sizes are too large for %g elements, or there are none", (double)a->x->dims[d]);
            dims[d] = isnan(common) || a->x->dims[d] < 0 ? XCVM_ANY_DIM
                                                         : (int64_t)floor((double)a->x->dims[d] * common + 0.5);
        }
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

/* Where output position `i` of an axis lies on the input axis; formulas of ONNX's Resize,
 * coordinate_transformation_mode.
 */
static double source_position(const xcvm_Resize_args *a, int64_t i, int64_t in, int64_t out, double scale,
                              double roi_start, double roi_end)
{
    /* The length that the scale asks for, of which the result has the whole part. */
    const double x = (double)i, resized = scale * (double)in;
    switch (a->coordinate_transformation_mode) {
    case XCVM_COORDINATE_half_pixel_symmetric: {
        const double adjustment = (double)out / resized;
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

/* Keys' cubic convolution kernel (IEEE TASSP 29(6), 1981) at distance x. */
static double cubic(double a, double x)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/* The input positions and weights that one axis' output positions are made of: `taps` for each. */
typedef struct axis_plan {
    int64_t in, out, taps;
    int64_t *index; /* out x taps */
    float *weight;
    bool *outside; /* out; only tf_crop_and_resize */
} axis_plan;

static int64_t tap_count(const xcvm_Resize_args *a, double scale)
{
    if (a->mode == XCVM_RESIZE_MODE_nearest)
        return 1;
    const double reach = a->mode == XCVM_RESIZE_MODE_linear ? 1 : 2;
    if (!a->antialias || scale >= 1)
        return 2 * (int64_t)reach;
    return 2 - 2 * ((int64_t)floor(-reach / scale) + 1);
}

static xcvm_status fill_axis(const xcvm_Resize_args *a, axis_plan *p, double scale, double roi_start, double roi_end,
                             xcvm_poller *poller)
{
    const double filter = a->antialias ? fmin(scale, 1) : 1;
    const int64_t first = 1 - p->taps / 2;
    for (int64_t i = 0; i < p->out; i++) {
        XCVM_TRY(xcvm_poll_after(poller, 1));
        const double position = source_position(a, i, p->in, p->out, scale, roi_start, roi_end);
        /* Far outside is as good as farther, and can be an integer. */
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
        /* The tap to the left of x, so that its distance is in (0, 1]. */
        const int64_t left = (int64_t)ceil(x) - 1;
        const double ratio = x - (double)left;
        double sum = 0;
        for (int64_t j = 0; j < p->taps; j++) {
            XCVM_TRY(xcvm_poll_after(poller, 1));
            const double distance = ((double)(first + j) - ratio) * filter;
            const int64_t at = left + first + j;
            double w =
                a->mode == XCVM_RESIZE_MODE_linear ? fmax(0, 1 - fabs(distance)) : cubic(a->cubic_coeff_a, distance);
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

typedef struct pass {
    const xcvm_kernel *k;
    const axis_plan *axis;
    const float *from;
    float *to;
    size_t inner;
} pass;

/* One axis of float data: rows are the dimensions before it times its output positions. */
static void resample_rows(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const pass *p = context;
    const axis_plan *axis = p->axis;
    const size_t taps = (size_t)axis->taps, inner = p->inner;
    xcvm_poller poller = xcvm_poller_of(p->k);
    for (size_t row = begin; row < end; row++) {
        const size_t outer = row / (size_t)axis->out, i = row % (size_t)axis->out;
        const float *from = p->from + outer * (size_t)axis->in * inner;
        float *restrict to = p->to + row * inner;
        const int64_t *index = axis->index + i * taps;
        const float *weight = axis->weight + i * taps;
        size_t j = taps % 2;
        const float *first = from + (size_t)index[0] * inner;
        if (j == 1)
            for (size_t c = 0; c < inner; c++)
                to[c] = weight[0] * first[c];
        for (; j < taps; j += 2) {
            const float *restrict left = from + (size_t)index[j] * inner;
            const float *restrict right = from + (size_t)index[j + 1] * inner;
            const float wl = weight[j], wr = weight[j + 1];
            if (xcvm_poll_after(&poller, inner) != XCVM_OK)
                return;
            if (j == 0)
                for (size_t c = 0; c < inner; c++)
                    to[c] = wl * left[c] + wr * right[c];
            else
                for (size_t c = 0; c < inner; c++)
                    to[c] += wl * left[c] + wr * right[c];
        }
    }
}

/* The last axis: rows are the dimensions before it. */
static void resample_columns(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const pass *p = context;
    const axis_plan *axis = p->axis;
    const size_t taps = (size_t)axis->taps, out = (size_t)axis->out;
    xcvm_poller poller = xcvm_poller_of(p->k);
    for (size_t row = begin; row < end; row++) {
        const float *from = p->from + row * (size_t)axis->in;
        float *to = p->to + row * out;
        const int64_t *index = axis->index;
        const float *weight = axis->weight;
        if (xcvm_poll_after(&poller, taps == 2 ? out : 0) != XCVM_OK)
            return;
        if (taps == 2)
            for (size_t i = 0; i < out; i++, index += 2, weight += 2)
                to[i] = weight[0] * from[index[0]] + weight[1] * from[index[1]];
        else
            for (size_t i = 0; i < out; i++, index += taps, weight += taps) {
                float sum = 0;
                if (xcvm_poll_after(&poller, taps) != XCVM_OK)
                    return;
                for (size_t j = 0; j < taps; j++)
                    sum += weight[j] * from[index[j]];
                to[i] = sum;
            }
    }
}

/* Elements are copied in runs, each of `size` bytes: what lies behind the last axis that changes anything. */
typedef struct gather {
    const axis_plan *axes;
    const xcvm_value *x;
    xcvm_value *y;
    int last; /* that axis */
    size_t size;
    size_t repeats;                /* of each run where the last axis grows by a whole number, else 0 */
    bool doubles;                  /* the last two axes grow by two */
    size_t strides[XCVM_MAX_RANK]; /* of the axes of x before the last, in runs */
} gather;

/* Whether each position of an axis is where it was. */
static bool stays(const axis_plan *p)
{
    bool same = p->in == p->out;
    for (int64_t i = 0; same && i < p->out; i++)
        same = p->index[i] == i;
    return same;
}

static size_t repeats_of(const axis_plan *p)
{
    const int64_t n = p->out / p->in;
    bool same = p->out == n * p->in;
    for (int64_t i = 0; same && i < p->out; i++)
        same = p->index[i] == i / n;
    return same ? (size_t)n : 0;
}

static void gather_rows(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const gather *g = context;
    const int last = g->last;
    const size_t width = (size_t)g->y->dims[last], bytes = width * g->size;
    const int64_t *columns = g->axes[last].index;
    size_t place[XCVM_MAX_RANK];
    size_t rest = begin;
    for (int d = last - 1; d >= 0; d--) {
        place[d] = rest % (size_t)g->y->dims[d];
        rest /= (size_t)g->y->dims[d];
    }
    char *to = (char *)g->y->data + begin * bytes;
    const char *image = NULL; /* what the axes before the last two say */
    for (size_t row = begin, same; row < end; row += same, to += same * bytes) {
        if (image == NULL) {
            size_t from = 0;
            for (int d = 0; d < last - 1; d++)
                from += (size_t)g->axes[d].index[place[d]] * g->strides[d];
            image = (const char *)g->x->data + from * g->size;
        }
        same = 1;
        if (last == 0) {
            xcvm_resize_row(to, image, g->size, width, g->repeats, columns);
            continue;
        }
        const int64_t *index = g->axes[last - 1].index, at = index[place[last - 1]];
        const size_t left = (size_t)g->y->dims[last - 1] - place[last - 1];
        const size_t most = left < end - row ? left : end - row;
        const char *in = image + (size_t)at * g->strides[last - 1] * g->size;
        if (g->doubles && most > 1 && place[last - 1] % 2 == 0 &&
            xcvm_resize_double(to, in, g->size, width / 2, most / 2)) {
            same = most / 2 * 2;
        } else {
            xcvm_resize_row(to, in, g->size, width, g->repeats, columns);
            /* The same row of x again, as where it grows. */
            for (; same < most && index[place[last - 1] + same] == at; same++)
                memcpy(to + same * bytes, to, bytes);
        }
        place[last - 1] += same - 1;
        for (int d = last - 1; d >= 0 && ++place[d] == (size_t)g->y->dims[d]; d--) {
            place[d] = 0;
            image = NULL;
        }
    }
}

/* The plan of one Resize. */
typedef struct resize {
    const xcvm_Resize_args *a;
    double scales[XCVM_MAX_RANK];
    double starts[XCVM_MAX_RANK], ends[XCVM_MAX_RANK]; /* of the region of x, 0 to 1 */
    axis_plan axes[XCVM_MAX_RANK];
    size_t taps, positions;           /* of all axes */
    int order[XCVM_MAX_RANK], passes; /* the axes that change */
    bool direct;                      /* the first pass reads x and the last one writes y: f32 */
    size_t largest;                   /* elements of what goes through the buffers */
    bool by_index;                    /* elements are copied; else they are weighted sums, as f32 */
    bool any_outside;                 /* some position is outside of its axis */
} resize;

static xcvm_status find_region(const xcvm_kernel *k, resize *r)
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
    XCVM_CHECK(k->error, a->roi != NULL && xcvm_element_count(a->roi) == 2 * entries, SHAPE_MISMATCH,
               "roi must have %zu entries for tf_crop_and_resize", 2 * entries);
    for (size_t i = 0; i < entries; i++) {
        int d;
        XCVM_TRY(resized_axis(k->error, a, i, rank, &d));
        r->starts[d] = xcvm_element_as_double(a->roi, i);
        r->ends[d] = xcvm_element_as_double(a->roi, entries + i);
    }
    return XCVM_OK;
}

/* Sizes of the axes' plans. */
static xcvm_status plan_axes(const xcvm_kernel *k, resize *r)
{
    const xcvm_Resize_args *a = r->a;
    for (int d = 0; d < a->x->rank; d++) {
        axis_plan *p = &r->axes[d];
        const bool resized =
            r->scales[d] != 1 || a->x->dims[d] != a->y->dims[d] || r->starts[d] != 0 || r->ends[d] != 1;
        *p = (axis_plan){
            .in = a->x->dims[d], .out = a->y->dims[d], .taps = resized || r->by_index ? tap_count(a, r->scales[d]) : 0};
        XCVM_CHECK(k->error, p->taps <= INT32_MAX / 4, OUT_OF_RANGE, "dimension %d shrinks too much", d);
        size_t taps;
        XCVM_CHECK(k->error,
                   xcvm_size_mul((size_t)p->out, (size_t)p->taps, &taps) && xcvm_size_add(r->taps, taps, &r->taps) &&
                       xcvm_size_add(r->positions, (size_t)p->out, &r->positions),
                   OUT_OF_MEMORY, "the result is too large");
    }
    return XCVM_OK;
}

/* The axes that change, in the order in which they are resampled: first those before the last that shrink, row by row,
 * then the last, whose elements are picked one by one, and then those that grow. */
static xcvm_status order_passes(const xcvm_kernel *k, resize *r)
{
    const int last = r->a->x->rank - 1;
    const axis_plan *axes = r->axes;
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
        const axis_plan *p = &axes[r->order[i]];
        XCVM_CHECK(k->error, xcvm_size_mul(count / (size_t)p->in, (size_t)p->out, &count), OUT_OF_MEMORY,
                   "the result is too large");
        if (count > r->largest && !(r->direct && i == r->passes - 1))
            r->largest = count;
    }
    return XCVM_OK;
}

/* Memory for the plans and, behind them, for two buffers of `largest` floats that the passes go back and forth between;
 * NULL if there is none. */
static char *take_memory(xcvm_kernel *k, const resize *r, size_t *tables, size_t *buffer)
{
    /* An index and a weight for each tap, a flag for each position; what is rounded up stays a size. */
    const size_t most = PTRDIFF_MAX / 4;
    if (r->taps > most / (sizeof(int64_t) + sizeof(float)) || r->positions > most ||
        r->largest > most / sizeof(float)) {
        xcvm_error_set(k->error, XCVM_OUT_OF_MEMORY, "the result is too large");
        return NULL;
    }
    *tables = xcvm_round_up(r->taps * (sizeof(int64_t) + sizeof(float)) + r->positions, XCVM_ALIGNMENT);
    *buffer = r->by_index ? 0 : xcvm_round_up(r->largest * sizeof(float), XCVM_ALIGNMENT);
    return xcvm_kernel_scratch(k, *tables + 2 * *buffer);
}

static xcvm_status fill_axes(const xcvm_kernel *k, resize *r, char *tables)
{
    xcvm_poller poller = xcvm_poller_of(k);
    int64_t *index = (int64_t *)(void *)tables;
    float *weight = (float *)(void *)(index + r->taps);
    bool *outside = (bool *)(void *)(weight + r->taps);
    for (int d = 0; d < r->a->x->rank; d++) {
        axis_plan *p = &r->axes[d];
        p->index = index;
        p->weight = weight;
        p->outside = outside;
        if (p->taps == 0) {
            memset(outside, 0, (size_t)p->out);
        } else {
            XCVM_TRY(fill_axis(r->a, p, r->scales[d], r->starts[d], r->ends[d], &poller));
            for (int64_t i = 0; i < p->out; i++)
                r->any_outside |= outside[i];
        }
        index += p->out * p->taps;
        weight += p->out * p->taps;
        outside += p->out;
    }
    return XCVM_OK;
}

static bool is_outside(const resize *r, size_t element)
{
    bool outside = false;
    for (int d = r->a->x->rank - 1; d >= 0; d--) {
        outside |= r->axes[d].outside[element % (size_t)r->axes[d].out];
        element /= (size_t)r->axes[d].out;
    }
    return outside;
}

static xcvm_status resize_by_index(const xcvm_kernel *k, const resize *r)
{
    const xcvm_Resize_args *a = r->a;
    const size_t count = xcvm_element_count(a->y);
    const bool integer = xcvm_dtype_in((xcvm_dtype)a->y->dtype, XCVM_TYPES_INT);
    const float value = (float)a->extrapolation_value, beyond = integer ? truncf(value) : value;
    gather g = {.axes = r->axes,
                .x = a->x,
                .y = a->y,
                .last = a->y->rank - 1,
                .size = xcvm_dtype_size((xcvm_dtype)a->x->dtype)};
    size_t runs = count;
    while (g.last > 0 && stays(&r->axes[g.last])) {
        runs /= (size_t)a->y->dims[g.last];
        g.size *= (size_t)a->y->dims[g.last--];
    }
    const size_t width = (size_t)a->y->dims[g.last];
    g.repeats = repeats_of(&r->axes[g.last]);
    g.doubles = g.repeats == 2 && g.last > 0 && repeats_of(&r->axes[g.last - 1]) == 2;
    size_t stride = 1;
    for (int d = g.last - 1; d >= 0; d--)
        g.strides[d] = stride *= (size_t)a->x->dims[d + 1];
    XCVM_TRY(xcvm_kernel_parallel(k, runs / width, 1 + 16384 / (count / (runs / width)), gather_rows, &g));
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; r->any_outside && i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        if (is_outside(r, i))
            xcvm_write_floats(&beyond, 1, a->y, i);
    }
    return XCVM_OK;
}

static xcvm_status run_pass(const xcvm_kernel *k, const axis_plan *axes, int d, const int64_t *dims, int rank,
                            const float *from, float *to)
{
    pass p = {k, &axes[d], from, to, 1};
    size_t outer = 1;
    for (int e = 0; e < rank; e++)
        *(e < d ? &outer : &p.inner) *= e == d ? 1 : (size_t)dims[e];
    if (p.inner == 1) {
        const size_t work = (size_t)(axes[d].taps * axes[d].out);
        return xcvm_kernel_parallel(k, outer, 1 + 16384 / work, resample_columns, &p);
    }
    const size_t work = p.inner * (size_t)axes[d].taps;
    return xcvm_kernel_parallel(k, outer * (size_t)axes[d].out, 1 + 16384 / work, resample_rows, &p);
}

/* Integers are cut off, as ONNX's reference does; a whole number that lost a few bits on the way stays. */
static xcvm_status write_integers(const xcvm_kernel *k, float *from, size_t count, xcvm_value *y)
{
    const float hair = 1e-4f;
    for (size_t done = 0, n; done < count; done += n, from += n) {
        n = xcvm_min(count - done, XCVM_POLL_STEPS);
        if (y->dtype == XCVM_U8) {
            uint8_t *to = XCVM_DATA(uint8_t, y) + done;
            for (size_t i = 0; i < n; i++) {
                const float x = from[i] + hair;
                to[i] = (uint8_t)(int32_t)(!(x > 0) ? 0 : x < 255 ? x : 255);
            }
        } else {
            for (size_t i = 0; i < n; i++)
                from[i] = truncf(from[i] + copysignf(hair, from[i]));
            xcvm_write_floats(from, n, y, done);
        }
        XCVM_TRY(xcvm_kernel_poll(k));
    }
    return XCVM_OK;
}

/* The elements of x as floats. */
static xcvm_status read_elements(const xcvm_kernel *k, const xcvm_value *x, float *to)
{
    const size_t count = xcvm_element_count(x);
    if (x->dtype != XCVM_U8)
        return xcvm_kernel_read_floats(k, x, 0, count, to);
    for (size_t done = 0, n; done < count; done += n) {
        n = xcvm_min(count - done, XCVM_POLL_STEPS);
        for (size_t i = done; i < done + n; i++)
            to[i] = XCVM_CDATA(uint8_t, x)[i];
        XCVM_TRY(xcvm_kernel_poll(k));
    }
    return XCVM_OK;
}

static xcvm_status resize_by_weights(const xcvm_kernel *k, const resize *r, float *buffers[2])
{
    const xcvm_Resize_args *a = r->a;
    const size_t count = xcvm_element_count(a->y);
    int64_t dims[XCVM_MAX_RANK];
    float *result = buffers[0];
    const float *from = r->direct ? XCVM_CDATA(float, a->x) : buffers[0];
    if (!r->direct)
        XCVM_TRY(read_elements(k, a->x, buffers[0]));
    memcpy(dims, a->x->dims, sizeof dims);
    for (int i = 0; i < r->passes; i++) {
        const int d = r->order[i];
        result = r->direct && i == r->passes - 1 ? XCVM_DATA(float, a->y) : buffers[from == buffers[0]];
        XCVM_TRY(run_pass(k, r->axes, d, dims, a->x->rank, from, result));
        dims[d] = r->axes[d].out;
        from = result;
    }
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; r->any_outside && i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        if (is_outside(r, i))
            result[i] = (float)a->extrapolation_value;
    }
    if (xcvm_dtype_in((xcvm_dtype)a->y->dtype, XCVM_TYPES_INT))
        return write_integers(k, result, count, a->y);
    return r->direct ? XCVM_OK : xcvm_kernel_write_floats(k, result, count, a->y, 0);
}

XCVM_KERNEL(Resize)
{
    resize r = {.a = a, .by_index = a->mode == XCVM_RESIZE_MODE_nearest};
    int64_t dims[XCVM_MAX_RANK];
    size_t tables, buffer;
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    XCVM_CHECK(k->error, xcvm_element_count(a->x) != 0, SHAPE_MISMATCH, "x is empty, it cannot be resized");
    if (a->x->rank == 0) {
        memcpy(a->y->data, a->x->data, a->x->bytes);
        return XCVM_OK;
    }
    XCVM_TRY(resolve(k->error, a, dims, r.scales));
    XCVM_TRY(find_region(k, &r));
    XCVM_TRY(plan_axes(k, &r));
    XCVM_TRY(order_passes(k, &r));
    char *scratch = take_memory(k, &r, &tables, &buffer);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(fill_axes(k, &r, scratch));
    if (r.by_index)
        return resize_by_index(k, &r);
    return resize_by_weights(
        k, &r, (float *[]){(float *)(void *)(scratch + tables), (float *)(void *)(scratch + tables + buffer)});
}
