/* Weights and biases as integers. */
#include "compiler/quantize/model_writer.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Biases are kept this far from the ends of i32. */
#define MOST_BIAS 1073741824.0

/* ---- Channels ---- */

/* The axis that has a scale for each index; -1: one scale for all. */
static int channel_axis(const quantizer *q, const xcc_quant_node *n, const xcc_tensor *shape)
{
    if (q->o.per_tensor)
        return -1;
    if (n->rule->kind == XCC_QUANT_RECURRENT)
        return shape->rank == 3 ? 1 : -1;
    if (xcc_quant_is(n, "Conv"))
        return shape->rank > 0 ? 0 : -1;
    if (xcc_quant_is(n, "ConvTranspose"))
        return shape->rank > 1 && xcc_quant_int(n, "group", 1) == 1 ? 1 : -1;
    if (shape->rank != 2)
        return -1;
    return xcc_quant_is(n, "Gemm") && xcc_quant_int(n, "transB", 0) != 0 ? 0 : 1;
}

typedef struct channels {
    int64_t count;
    size_t inner; /* elements side by side that have one index */
    float *scale;
    int32_t *zero_point;
} channels;

static size_t channel_at(const channels *c, size_t i) { return i / c->inner % (size_t)c->count; }

/* With ranges in each run, ONNX Runtime has convolutions and recurrent networks without zero points of weights. */
static bool is_symmetric(const quantizer *q, const xcc_quant_node *n)
{
    return !q->o.asymmetric_weights || (q->dynamic && !xcc_quant_is(n, "MatMul") && !xcc_quant_is(n, "Gemm"));
}

/* Scales from the least and the greatest of each channel. */
static xcvm_status find_scales(quantizer *q, const xcc_quant_node *n, const float *x, const xcc_tensor *shape, int axis,
                               xcvm_arena *arena, channels *c)
{
    c->count = axis >= 0 ? shape->dims[axis] : 1;
    c->inner = 1;
    for (int i = axis + 1; axis >= 0 && i < shape->rank; i++)
        c->inner *= (size_t)shape->dims[i];
    if (axis < 0)
        c->inner = shape->count > 0 ? shape->count : 1;
    const size_t count = (size_t)c->count;
    double *low = xcvm_arena_allocate(arena, (count + 1) * sizeof *low),
           *high = xcvm_arena_allocate(arena, (count + 1) * sizeof *high);
    c->scale = xcvm_arena_allocate(arena, (count + 1) * sizeof *c->scale);
    c->zero_point = xcvm_arena_allocate(arena, (count + 1) * sizeof *c->zero_point);
    if (low == NULL || high == NULL || c->scale == NULL || c->zero_point == NULL)
        return xcc_out_of_memory(&q->m);
    for (size_t i = 0; i < shape->count; i++) {
        const size_t at = channel_at(c, i);
        low[at] = fmin(low[at], (double)x[i]);
        high[at] = fmax(high[at], (double)x[i]);
    }
    for (size_t i = 0; i < count; i++)
        xcc_quant_scale(low[i], high[i], q->o.weights, is_symmetric(q, n), &c->scale[i], &c->zero_point[i]);
    return XCVM_OK;
}

static int32_t rounded(float x, float scale, int32_t zero_point, int32_t least, int32_t greatest)
{
    return (int32_t)fmin(fmax(rint((double)(x / scale)) + zero_point, least), greatest);
}

xcvm_status xcc_round_weights(quantizer *q, const xcc_quant_node *n, float *x, const xcc_tensor *shape)
{
    xcvm_arena arena = {.allocator = q->m.allocator};
    channels c;
    int32_t least, greatest;
    xcvm_status status = find_scales(q, n, x, shape, channel_axis(q, n, shape), &arena, &c);
    xcc_quant_limits(q->o.weights, &least, &greatest);
    for (size_t i = 0; i < shape->count && status == XCVM_OK; i++) {
        const size_t at = channel_at(&c, i);
        x[i] = (float)(rounded(x[i], c.scale[at], c.zero_point[at], least, greatest) - c.zero_point[at]) * c.scale[at];
    }
    xcvm_arena_release(&arena);
    return status;
}

/* ---- Bias ---- */

/* The constant that is added to the sums of products, wherever it stands; NULL: there is none. */
static xcc_quant_tensor *bias_of(const quantizer *q, const xcc_quant_node *n)
{
    if (n->rule->kind != XCC_QUANT_WEIGHTED || xcc_quant_is(n, "MatMul"))
        return NULL;
    xcc_quant_tensor *t = xcc_quant_input(q, n, 2);
    return xcc_quant_is_weight(t) ? t : NULL;
}

/* The bias, corrected; *floats NULL if there is none, or none that is a constant with an element for each of
 * `channels` (0: however many there are). */
static xcvm_status read_bias(xcc_model_writer *w, const xcc_quant_node *n, int64_t count, float **floats,
                             xcc_tensor *shape)
{
    quantizer *q = w->q;
    const xcc_quant_tensor *t = bias_of(q, n);
    *floats = NULL;
    *shape = (xcc_tensor){.dtype = XCVM_F32, .rank = 1, .dims = {count}, .count = (size_t)count};
    if (t != NULL) {
        XCVM_TRY(xcc_quant_floats(q, t, &w->arena, shape, floats));
        if (count > 0 && (shape->rank != 1 || shape->count != (size_t)count))
            *floats = NULL;
    } else if (n->bias_change != NULL && n->proto->n_input < 3) {
        shape->dims[0] = (int64_t)n->bias_change_count;
        shape->count = n->bias_change_count;
        *floats = xcvm_arena_allocate(&w->arena, (shape->count + 1) * sizeof **floats);
        if (*floats == NULL)
            return xcc_out_of_memory(&q->m);
    }
    for (size_t i = 0;
         *floats != NULL && n->bias_change != NULL && shape->count == n->bias_change_count && i < shape->count; i++)
        (*floats)[i] += n->bias_change[i];
    return XCVM_OK;
}

xcvm_status xcc_put_float_bias(xcc_model_writer *w, const xcc_quant_node *n, const char **name)
{
    xcc_tensor shape;
    float *bias;
    const xcc_quant_tensor *t = bias_of(w->q, n);
    *name = n->proto->n_input > 2 ? n->proto->input[2] : NULL;
    if (n->bias_change == NULL)
        return XCVM_OK;
    XCVM_TRY(read_bias(w, n, 0, &bias, &shape));
    if (bias == NULL)
        return XCVM_OK;
    *name = xcc_put_name(w, t != NULL ? t->name : n->proto->output[0], t != NULL ? "_corrected" : "_bias");
    xcc_put_constant(w, *name, XCVM_F32, shape.rank, shape.dims, bias, shape.count * sizeof *bias);
    return XCVM_OK;
}

xcvm_status xcc_put_bias(xcc_model_writer *w, const xcc_quant_node *n, float input_scale,
                         const xcc_integer_weights *weights, const char **name, const char **scale,
                         const char **zero_point)
{
    xcc_tensor shape;
    float *bias;
    const xcc_quant_tensor *t = bias_of(w->q, n);
    *name = "";
    /* What Gemm multiplies products or the bias with would have to be in the scale. */
    if (xcc_quant_is(n, "Gemm") &&
        ((float)xcc_quant_real(n, "alpha", 1) != 1.0f || (float)xcc_quant_real(n, "beta", 1) != 1.0f))
        return XCVM_OK;
    XCVM_TRY(read_bias(w, n, weights->channels, &bias, &shape));
    if (bias == NULL)
        return XCVM_OK;
    const size_t count = shape.count, scale_count = weights->axis >= 0 ? count : 1;
    int32_t *integers = xcvm_arena_allocate(&w->arena, (count + 1) * sizeof *integers);
    float *scales = xcvm_arena_allocate(&w->arena, (count + 1) * sizeof *scales);
    if (integers == NULL || scales == NULL)
        return xcc_out_of_memory(&w->q->m);
    for (size_t i = 0; i < count; i++) {
        scales[i] = input_scale * weights->scales[weights->axis >= 0 ? i : 0];
        const double q = rint((double)bias[i] / (double)scales[i]);
        if (!(fabs(q) <= 2147483647.0))
            return XCVM_OK;
        integers[i] = (int32_t)q;
    }
    const char *stem = t != NULL ? t->name : n->proto->output[0];
    *name = xcc_put_name(w, stem, "_quantized");
    xcc_put_constant(w, *name, XCVM_I32, shape.rank, shape.dims, integers, count * sizeof *integers);
    if (scale != NULL) {
        *scale = xcc_put_name(w, *name, "_scale");
        xcc_put_constant(w, *scale, XCVM_F32, weights->axis >= 0 ? 1 : 0, shape.dims, scales,
                         scale_count * sizeof *scales);
    }
    if (zero_point != NULL) {
        memset(integers, 0, scale_count * sizeof *integers);
        *zero_point = xcc_put_name(w, *name, "_zero_point");
        xcc_put_constant(w, *zero_point, XCVM_I32, weights->axis >= 0 ? 1 : 0, shape.dims, integers,
                         scale_count * sizeof *integers);
    }
    return XCVM_OK;
}

/* Raises scales so far that no bias leaves i32, as those of channels that are nearly dead would make it. */
static xcvm_status raise_scales(xcc_model_writer *w, const xcc_quant_node *n, float input_scale, int axis,
                                const xcc_tensor *shape, channels *c)
{
    xcc_tensor bias_shape;
    float *bias;
    const int64_t count = axis >= 0 ? c->count : 0;
    XCVM_TRY(read_bias(w, n, count, &bias, &bias_shape));
    if (bias == NULL || !(input_scale > 0) || shape->count == 0)
        return XCVM_OK;
    for (size_t i = 0; i < bias_shape.count; i++) {
        const size_t at = axis >= 0 ? i : 0;
        const double least = fabs((double)bias[i]) / ((double)input_scale * MOST_BIAS);
        if ((double)c->scale[at] < least)
            c->scale[at] = (float)fmin(fmax(least, (double)FLT_MIN), (double)FLT_MAX);
    }
    return XCVM_OK;
}

/* A channel of zeros may have any scale: the finest at which its bias is well inside i32. */
static xcvm_status settle_dead(xcc_model_writer *w, const xcc_quant_node *n, float input_scale, int axis,
                               const float *x, const xcc_tensor *shape, channels *c)
{
    if (axis < 0 || !(input_scale > 0))
        return XCVM_OK;
    uint8_t *alive = xcvm_arena_allocate(&w->arena, (size_t)c->count + 1);
    xcc_tensor bias_shape;
    float *bias;
    if (alive == NULL)
        return xcc_out_of_memory(&w->q->m);
    for (size_t i = 0; i < shape->count; i++)
        alive[channel_at(c, i)] |= x[i] != 0.0f;
    XCVM_TRY(read_bias(w, n, c->count, &bias, &bias_shape));
    for (size_t i = 0; bias != NULL && i < (size_t)c->count; i++)
        if (!alive[i] && bias[i] != 0.0f)
            c->scale[i] = (float)fmax(fabs((double)bias[i]) / ((double)input_scale * MOST_BIAS), (double)FLT_MIN);
    return XCVM_OK;
}

/* ---- Weights ---- */

static void transpose(float *to, const float *from, size_t rows, size_t columns)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            to[c * rows + r] = from[r * columns + c];
}

xcvm_status xcc_put_weights(xcc_model_writer *w, const xcc_quant_node *n, size_t index, float input_scale,
                            bool exchange, xcc_integer_weights *weights)
{
    quantizer *q = w->q;
    const xcc_quant_tensor *t = xcc_quant_input(q, n, index);
    char key[700];
    xcc_tensor shape;
    float *x;
    channels c;
    int32_t least, greatest;
    /* Two nodes with the same weights have them once. */
    (void)snprintf(key, sizeof key, "%.600s\n%d%s", t->name, (int)exchange, n->proto->op_type);
    const struct xcc_table_entry *made = xcc_table_lookup(&w->made, key);
    if (made != NULL) {
        *weights = *(const xcc_integer_weights *)(intptr_t)made->value;
        return XCVM_OK;
    }
    XCVM_TRY(xcc_poll(&q->m));
    XCVM_TRY(xcc_quant_floats(q, t, &w->arena, &shape, &x));
    int axis = channel_axis(q, n, &shape);
    if (exchange) {
        float *other = xcvm_arena_allocate(&w->arena, shape.bytes + 1);
        const int first = shape.rank - 2;
        const size_t rows = (size_t)shape.dims[first], columns = (size_t)shape.dims[first + 1];
        if (other == NULL)
            return xcc_out_of_memory(&q->m);
        for (size_t at = 0; at < shape.count; at += rows * columns)
            transpose(other + at, x + at, rows, columns);
        x = other;
        shape.dims[first] = (int64_t)columns;
        shape.dims[first + 1] = (int64_t)rows;
        axis = axis >= first ? 2 * first + 1 - axis : axis;
    }
    XCVM_TRY(find_scales(q, n, x, &shape, axis, &w->arena, &c));
    if (t->consumer_count == 1) {
        XCVM_TRY(settle_dead(w, n, input_scale, axis, x, &shape, &c));
        XCVM_TRY(raise_scales(w, n, input_scale, axis, &shape, &c));
    }
    xcc_quant_limits(q->o.weights, &least, &greatest);
    uint8_t *integers = xcvm_arena_allocate(&w->arena, shape.count + 1),
            *zero_points = xcvm_arena_allocate(&w->arena, (size_t)c.count + 1);
    if (integers == NULL || zero_points == NULL)
        return xcc_out_of_memory(&q->m);
    for (size_t i = 0; i < shape.count; i++) {
        const size_t at = channel_at(&c, i);
        integers[i] = (uint8_t)rounded(x[i], c.scale[at], c.zero_point[at], least, greatest);
    }
    for (int64_t i = 0; i < c.count; i++)
        zero_points[i] = (uint8_t)c.zero_point[i];
    const int scale_rank = axis >= 0 ? 1 : 0;
    *weights = (xcc_integer_weights){.name = xcc_put_name(w, t->name, "_quantized"),
                                     .scale = xcc_put_name(w, t->name, "_scale"),
                                     .zero_point = xcc_put_name(w, t->name, "_zero_point"),
                                     .scales = c.scale,
                                     .channels = axis >= 0 ? c.count : 0,
                                     .axis = axis,
                                     .transposed = exchange};
    if (!q->o.trainable)
        xcc_put_constant(w, weights->name, q->o.weights, shape.rank, shape.dims, integers, shape.count);
    xcc_put_constant(w, weights->scale, XCVM_F32, scale_rank, &c.count, c.scale, (size_t)c.count * sizeof *c.scale);
    /* ConvInteger takes one zero point. */
    const bool one = q->dynamic && is_symmetric(q, n);
    xcc_put_constant(w, weights->zero_point, q->o.weights, one ? 0 : scale_rank, &c.count, zero_points,
                     one ? 1 : (size_t)c.count);
    xcc_integer_weights *kept = xcvm_arena_allocate(&w->arena, sizeof *kept);
    const char *own = xcvm_arena_string(&w->arena, key, strlen(key));
    if (kept == NULL || own == NULL)
        return xcc_out_of_memory(&q->m);
    *kept = *weights;
    return xcc_table_put(&q->m, &w->made, own, (intptr_t)kept);
}
