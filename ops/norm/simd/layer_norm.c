/* LayerNormalization, RMSNormalization, GroupNormalization and InstanceNormalization: lines of adjacent elements, each
 * normalized to mean 0 and variance 1, or to mean square 1. */
#include "ops/util/broadcast.h"

#include "ops/simd/reductions.h"
#include "ops/simd/halves.h"
#include "ops/simd/lines.h"
#include "ops/simd/math.h"

/* Scale or bias in f32, or in f64 if x is f64. */
typedef struct parameter {
    const void *data;    /* NULL: none */
    bool spread;         /* every line has its own, found with the plan; otherwise all lines share one */
    xcvm_broadcast plan; /* to the shape of x */
} parameter;

typedef struct norm {
    parameter scale, bias;
    double epsilon;
    bool centered;    /* subtracts the mean */
    size_t groups;    /* lines per batch entry if parameters are per channel; else 0 */
    size_t channels;  /* of a line */
    xcvm_value *mean; /* statistics results, or NULL */
    xcvm_value *inverse;
} norm;

/* ---- f32 ---- */

static __attribute__((noinline)) double sum_of(const float *x, size_t count)
{
    return xcvm_reduce_sum(xcvm_lanes_same, x, count);
}

/* Sum of (x[i] - mean)^2. */
static __attribute__((noinline)) double spread_of(const float *x, size_t count, float mean)
{
    const xcvm_lanes m = xcvm_lanes_all(mean);
    double sum = 0.0;
    for (size_t at = 0; at < count; at += XCVM_REDUCE_CHUNK) {
        size_t n = count - at < XCVM_REDUCE_CHUNK ? count - at : XCVM_REDUCE_CHUNK, i = 0;
        xcvm_lanes r[2] = {{0}, {0}};
        for (; i + 2 * XCVM_LANES <= n; i += 2 * XCVM_LANES)
            for (size_t j = 0; j < 2; j++) {
                xcvm_lanes d = xcvm_lanes_load(x + at + i + j * XCVM_LANES) - m;
                r[j] += d * d;
            }
        for (; i + XCVM_LANES <= n; i += XCVM_LANES) {
            xcvm_lanes d = xcvm_lanes_load(x + at + i) - m;
            r[0] += d * d;
        }
        if (i < n) {
            xcvm_lanes d = xcvm_lanes_load_rest(x + at, n, n - i, mean) - m;
            r[1] += d * d;
        }
        sum += (double)xcvm_lanes_reduce(xcvm_lanes_plus, r[0] + r[1]);
    }
    return sum;
}

/* y = (x - mean) * inverse * scale + bias; scale and bias may be NULL. */
static __attribute__((noinline)) void transform(const float *x, float *y, size_t count, float mean, float inverse,
                                                const float *scale, const float *bias)
{
    if (scale != NULL && bias != NULL) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            y[i] = (x[i] - mean) * inverse * scale[i] + bias[i];
    } else if (scale != NULL) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            y[i] = (x[i] - mean) * inverse * scale[i];
    } else {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            y[i] = (x[i] - mean) * inverse + (bias != NULL ? bias[i] : 0.0f);
    }
}

/* Elements [at, at + length) of the parameter for line `index`. */
static const void *parameter_of(const parameter *p, size_t size, size_t first, size_t at, size_t length, void *spare)
{
    if (!p->spread)
        return p->data != NULL ? (const char *)p->data + at * size : NULL;
    xcvm_broadcast_spread(&p->plan, 0, p->data, size, first + at, length, spare);
    return spare;
}

static void store_statistic(xcvm_value *statistic, size_t index, double value)
{
    if (statistic != NULL)
        xcvm_store_f64(statistic->dtype, statistic->data, index, 1, &value, false);
}

/* Elements of a line between polls. */
enum { CHUNK = 1 << 20 };
static bool goes_on(const xcvm_tile *t) { return t->length <= CHUNK || xcvm_kernel_poll(t->k) == XCVM_OK; }

/* Computes the mean, and the factor that normalizes the variance to 1. Returns false if the kernel must stop. */
static bool measure_line(const norm *n, const xcvm_tile *t, float *mean, float *inverse)
{
    const double count = (double)t->length;
    double sum = 0.0, spread = 0.0;
    for (size_t at = 0; at < t->length && n->centered; at += CHUNK) {
        sum += sum_of(t->x + at, xcvm_min(t->length - at, CHUNK));
        if (!goes_on(t))
            return false;
    }
    *mean = (float)(sum / count);
    for (size_t at = 0; at < t->length; at += CHUNK) {
        spread += spread_of(t->x + at, xcvm_min(t->length - at, CHUNK), *mean);
        if (!goes_on(t))
            return false;
    }
    *inverse = (float)(1.0 / sqrt(spread / count + n->epsilon));
    return true;
}

static void transform_channels(const norm *n, const xcvm_tile *t, float mean, float inverse)
{
    const size_t size = t->length / n->channels, channel = t->index % n->groups * n->channels;
    for (size_t c = 0; c < n->channels; c++) {
        const float factor = inverse * ((const float *)n->scale.data)[channel + c];
        const float bias = ((const float *)n->bias.data)[channel + c];
        const float *x = t->x + c * size;
        float *y = t->y + c * size;
        for (size_t at = 0; at < size; at += CHUNK) {
            const size_t end = at + xcvm_min(size - at, CHUNK);
            XCVM_INDEPENDENT
            for (size_t i = at; i < end; i++)
                y[i] = (x[i] - mean) * factor + bias;
            if (!goes_on(t))
                return;
        }
    }
}

static void norm_f32(const void *context, const xcvm_tile *t)
{
    const norm *n = context;
    float mean, inverse;
    if (!measure_line(n, t, &mean, &inverse))
        return;
    store_statistic(n->mean, t->index, (double)mean);
    store_statistic(n->inverse, t->index, (double)inverse);
    if (n->groups != 0) {
        transform_channels(n, t, mean, inverse);
        return;
    }
    const size_t first = t->index * t->length;
    for (size_t at = 0; at < t->length; at += CHUNK) {
        const size_t count = xcvm_min(t->length - at, CHUNK);
        const float *scale = parameter_of(&n->scale, sizeof *scale, first, at, count, t->spare);
        const float *bias =
            parameter_of(&n->bias, sizeof *bias, first, at, count, t->spare != NULL ? t->spare + t->length : NULL);
        transform(t->x + at, t->y + at, count, mean, inverse, scale, bias);
        if (!goes_on(t))
            return;
    }
}

/* ---- f64 ---- */

static void norm_f64(const xcvm_kernel *k, const void *context, const double *x, double *y, size_t length, size_t index)
{
    const norm *n = context;
    double mean = 0.0, spread = 0.0, count = (double)length;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < length && n->centered && xcvm_poll_after(&poller, 1) == XCVM_OK; i++)
        mean += x[i] / count;
    for (size_t i = 0; i < length && xcvm_poll_after(&poller, 1) == XCVM_OK; i++)
        spread += (x[i] - mean) * (x[i] - mean);
    double inverse = 1.0 / sqrt(spread / count + n->epsilon);
    store_statistic(n->mean, index, mean);
    store_statistic(n->inverse, index, inverse);
    size_t size = n->groups != 0 ? length / n->channels : 1,
           channel = n->groups != 0 ? index % n->groups * n->channels : 0;
    for (size_t i = 0; i < length; i++) {
        double scale = 1.0, bias = 0.0;
        if (xcvm_poll_after(&poller, 4) != XCVM_OK)
            return;
        size_t at = channel + i / size;
        if (n->scale.spread)
            xcvm_broadcast_spread(&n->scale.plan, 0, n->scale.data, sizeof scale, index * length + i, 1, &scale);
        else if (n->scale.data != NULL)
            scale = ((const double *)n->scale.data)[at];
        if (n->bias.spread)
            xcvm_broadcast_spread(&n->bias.plan, 0, n->bias.data, sizeof bias, index * length + i, 1, &bias);
        else if (n->bias.data != NULL)
            bias = ((const double *)n->bias.data)[at];
        y[i] = (x[i] - mean) * inverse * scale + bias;
    }
}

/* ---- The instructions ---- */

/* Number of f32 elements for converting a parameter to f32. */
static size_t widened_size(const xcvm_value *v)
{
    return v != NULL && xcvm_dtype_in(v->dtype, XCVM_TYPES_HALF) ? xcvm_round_up(xcvm_element_count(v), 16) : 0;
}

static float *widen(parameter *p, const xcvm_value *v, float *scratch)
{
    if (v == NULL)
        return scratch;
    p->data = v->data;
    if (widened_size(v) == 0)
        return scratch;
    xcvm_halves_load(v->dtype, v->data, 0, xcvm_element_count(v), scratch);
    p->data = scratch;
    return scratch + widened_size(v);
}

static xcvm_status normalize_lines(xcvm_kernel *k, xcvm_lines *lines, norm *n, const xcvm_value *scale,
                                   const xcvm_value *bias)
{
    lines->f32 = norm_f32;
    lines->f64 = norm_f64;
    lines->context = n;
    lines->inner = 1;
    lines->cost = 2;
    if (n->scale.spread || n->bias.spread)
        lines->spare = 2 * lines->length;
    size_t floats = widened_size(scale) + widened_size(bias), bytes = xcvm_lines_scratch(k, lines);
    bool fits = bytes != SIZE_MAX && xcvm_size_add(bytes, floats * sizeof(float), &bytes);
    XCVM_CHECK(k->error, fits, OUT_OF_RANGE, "lines of %zu elements are too long", lines->length);
    float *scratch = NULL;
    if (bytes != 0) {
        scratch = xcvm_kernel_scratch(k, bytes);
        if (scratch == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    return xcvm_lines_run(k, lines, widen(&n->bias, bias, widen(&n->scale, scale, scratch)));
}

/* Lines are the axes of x from `axis`; parameters broadcast to x. */
static xcvm_status run_trailing(xcvm_kernel *k, norm *n, xcvm_value *y, const xcvm_value *x, int64_t axis,
                                const xcvm_value *scale, const xcvm_value *bias)
{
    int resolved;
    XCVM_TRY(xcvm_resolve_axis(k->error, axis, x->rank, &resolved));
    xcvm_lines lines = {.outer = 1, .length = 1, .dtype = x->dtype, .x = x->data, .y = y->data};
    for (int i = 0; i < x->rank; i++)
        *(i < resolved ? &lines.outer : &lines.length) *= (size_t)x->dims[i];
    for (size_t i = 0; i < lines.outer && lines.length == 0; i++) {
        /* An empty line has no mean. */
        store_statistic(n->mean, i, (double)NAN);
        store_statistic(n->inverse, i, (double)NAN);
    }
    const xcvm_value *values[] = {scale, bias};
    parameter *parameters[] = {&n->scale, &n->bias};
    for (int i = 0; i < 2; i++) {
        if (values[i] == NULL)
            continue;
        int rank;
        int64_t dims[XCVM_MAX_RANK];
        XCVM_TRY(xcvm_broadcast_shapes(k->error, x, values[i], &rank, dims));
        xcvm_value whole = {0};
        xcvm_value_set_tensor(&whole, x->dtype, rank, dims);
        char of_v[192], of_x[192];
        XCVM_CHECK(k->error, xcvm_same_shape(&whole, x), SHAPE_MISMATCH,
                   "%s of shape %s does not broadcast to x of shape %s", i == 0 ? "scale" : "b",
                   xcvm_dims_describe(values[i]->rank, values[i]->dims, of_v, sizeof of_v),
                   xcvm_dims_describe(x->rank, x->dims, of_x, sizeof of_x));
        parameters[i]->spread = xcvm_element_count(values[i]) != lines.length || values[i]->rank > x->rank - resolved;
        if (parameters[i]->spread)
            xcvm_broadcast_plan(&parameters[i]->plan, x, &values[i], 1);
    }
    return normalize_lines(k, &lines, n, scale, bias);
}

XCVM_KERNEL(LayerNormalization)
{
    norm n = {.epsilon = a->epsilon, .centered = true, .mean = a->mean, .inverse = a->inv_std_dev};
    return run_trailing(k, &n, a->y, a->x, a->axis, a->scale, a->b);
}

XCVM_KERNEL(RMSNormalization)
{
    norm n = {.epsilon = a->epsilon};
    return run_trailing(k, &n, a->y, a->x, a->axis, a->scale, NULL);
}

/* Lines are groups of channels with their spatial axes. */
static xcvm_status run_groups(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x, const xcvm_value *scale,
                              const xcvm_value *bias, double epsilon, int64_t groups)
{
    XCVM_CHECK(k->error, x->rank >= 2, SHAPE_MISMATCH, "x has the wrong rank (%d; expected at least 2)", x->rank);
    int64_t channels = x->dims[1];
    if (groups == 0)
        groups = channels;
    XCVM_CHECK(k->error, groups == 0 || channels % groups == 0, SHAPE_MISMATCH,
               "the %lld channels of x cannot be divided into %lld groups", (long long)channels, (long long)groups);
    XCVM_CHECK(k->error, xcvm_element_count(scale) == (size_t)channels, SHAPE_MISMATCH,
               "scale has %zu elements, but x has %lld channels", xcvm_element_count(scale), (long long)channels);
    XCVM_CHECK(k->error, xcvm_element_count(bias) == (size_t)channels, SHAPE_MISMATCH,
               "b has %zu elements, but x has %lld channels", xcvm_element_count(bias), (long long)channels);
    size_t count = xcvm_element_count(x);
    if (count == 0)
        return XCVM_OK;
    norm n = {.epsilon = epsilon, .centered = true, .groups = (size_t)groups, .channels = (size_t)(channels / groups)};
    xcvm_lines lines = {.outer = (size_t)(x->dims[0] * groups), .dtype = x->dtype, .x = x->data, .y = y->data};
    lines.length = count / lines.outer;
    return normalize_lines(k, &lines, &n, scale, bias);
}

XCVM_KERNEL(InstanceNormalization) { return run_groups(k, a->y, a->x, a->scale, a->b, a->epsilon, 0); }

XCVM_KERNEL(GroupNormalization) { return run_groups(k, a->y, a->x, a->scale, a->b, a->epsilon, a->num_groups); }
