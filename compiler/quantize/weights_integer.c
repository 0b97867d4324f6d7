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
    return !q->o.asymmetric_weights ||
           (q->dynamic && n->body == NULL && !xcc_quant_is(n, "MatMul") && !xcc_quant_is(n, "Gemm"));
}

/* Scales from the minimum and the maximum of each channel. */
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

/* ---- Bias ---- */

/* The constant that is added to the sums of products, by the node or the next one; NULL: there is none. */
static xcc_quant_tensor *bias_of(const quantizer *q, const xcc_quant_node *n)
{
    if (n->rule->kind != XCC_QUANT_WEIGHTED || xcc_quant_is(n, "MatMul"))
        return NULL;
    xcc_quant_tensor *t = xcc_quant_input(q, n, 2);
    return xcc_quant_is_weight(t) ? t : NULL;
}

/* The bias, corrected; *floats NULL if there is none, or none that is a constant with an element for each of
 * `channels` (0: however many there are). */
static xcvm_status read_bias(quantizer *q, xcvm_arena *arena, const xcc_quant_node *n, int64_t count, float **floats,
                             xcc_tensor *shape)
{
    const xcc_quant_tensor *t = bias_of(q, n);
    *floats = NULL;
    *shape = (xcc_tensor){.dtype = XCVM_F32, .rank = 1, .dims = {count}, .count = (size_t)count};
    if (t != NULL) {
        XCVM_TRY(xcc_quant_floats(q, t, arena, shape, floats));
        if (count > 0 && (shape->rank != 1 || shape->count != (size_t)count))
            *floats = NULL;
    } else if (n->bias_change != NULL && n->proto->n_input < 3) {
        shape->dims[0] = (int64_t)n->bias_change_count;
        shape->count = n->bias_change_count;
        *floats = xcvm_arena_allocate(arena, (shape->count + 1) * sizeof **floats);
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
    XCVM_TRY(read_bias(w->q, &w->arena, n, 0, &bias, &shape));
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
    /* The scale would have to include the factors alpha and beta of Gemm. */
    if (xcc_quant_is(n, "Gemm") &&
        ((float)xcc_quant_real(n, "alpha", 1) != 1.0f || (float)xcc_quant_real(n, "beta", 1) != 1.0f))
        return XCVM_OK;
    XCVM_TRY(read_bias(w->q, &w->arena, n, weights->channels, &bias, &shape));
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
static xcvm_status raise_scales(quantizer *q, xcvm_arena *arena, const xcc_quant_node *n, float input_scale, int axis,
                                const xcc_tensor *shape, channels *c)
{
    xcc_tensor bias_shape;
    float *bias;
    const int64_t count = axis >= 0 ? c->count : 0;
    XCVM_TRY(read_bias(q, arena, n, count, &bias, &bias_shape));
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
static xcvm_status quantize_dead(quantizer *q, xcvm_arena *arena, const xcc_quant_node *n, float input_scale, int axis,
                                 const float *x, const xcc_tensor *shape, channels *c)
{
    if (axis < 0 || !(input_scale > 0))
        return XCVM_OK;
    uint8_t *alive = xcvm_arena_allocate(arena, (size_t)c->count + 1);
    xcc_tensor bias_shape;
    float *bias;
    if (alive == NULL)
        return xcc_out_of_memory(&q->m);
    for (size_t i = 0; i < shape->count; i++)
        alive[channel_at(c, i)] |= x[i] != 0.0f;
    XCVM_TRY(read_bias(q, arena, n, c->count, &bias, &bias_shape));
    for (size_t i = 0; bias != NULL && i < (size_t)c->count; i++)
        if (!alive[i] && bias[i] != 0.0f)
            c->scale[i] = (float)fmax(fabs((double)bias[i]) / ((double)input_scale * MOST_BIAS), (double)FLT_MIN);
    return XCVM_OK;
}

/* ---- Weights ---- */

/* The scale of the activations that a node's weights are multiplied by; 0: there is none. */
static float input_scale_of(const quantizer *q, const xcc_quant_node *n)
{
    const bool has = q->o.activations != XCVM_F32 && !q->dynamic && n->body == NULL &&
                     n->rule->kind == XCC_QUANT_WEIGHTED && n->level == XCC_LEVEL_INTEGER;
    return has ? xcc_quant_input(q, n, 0)->like->scale : 0;
}

/* A node's weights with their scales, and the resulting integers. */
typedef struct integers {
    xcc_tensor shape;
    float *x;
    int axis;
    channels c;
    uint8_t *levels;
} integers;

static xcvm_status read_weights(quantizer *q, xcvm_arena *arena, const xcc_quant_node *n, const xcc_quant_tensor *t,
                                integers *w)
{
    const float input_scale = input_scale_of(q, n);
    XCVM_TRY(xcc_quant_floats(q, t, arena, &w->shape, &w->x));
    w->axis = channel_axis(q, n, &w->shape);
    XCVM_TRY(find_scales(q, n, w->x, &w->shape, w->axis, arena, &w->c));
    if (t->consumer_count == 1) {
        XCVM_TRY(quantize_dead(q, arena, n, input_scale, w->axis, w->x, &w->shape, &w->c));
        XCVM_TRY(raise_scales(q, arena, n, input_scale, w->axis, &w->shape, &w->c));
    }
    w->levels = xcvm_arena_allocate(arena, w->shape.count + 1);
    return w->levels != NULL ? XCVM_OK : xcc_out_of_memory(&q->m);
}

static xcc_grid grid_of(const quantizer *q, const integers *w)
{
    xcc_grid grid = {.scales = w->c.scale, .zero_points = w->c.zero_point, .step = w->axis >= 0, .run = SIZE_MAX};
    xcc_quant_limits(q->o.weights, &grid.least, &grid.greatest);
    return grid;
}

static xcvm_status read_integers(quantizer *q, xcvm_arena *arena, const xcc_quant_node *n, const xcc_quant_tensor *t,
                                 integers *w)
{
    XCVM_TRY(read_weights(q, arena, n, t, w));
    const xcc_grid grid = grid_of(q, w);
    for (size_t i = 0; i < w->shape.count; i++) {
        const size_t at = channel_at(&w->c, i);
        /* Known levels are valid for the scale that they were rounded with. */
        const bool is_known = t->levels != NULL && t->level_scales[at] == w->c.scale[at];
        w->levels[i] = is_known ? t->levels[i] : (uint8_t)xcc_grid_level(&grid, at, w->x[i]);
    }
    return XCVM_OK;
}

static xcvm_status choose_levels(quantizer *q, xcvm_arena *arena, const xcc_quant_node *n, const xcc_moments *moments)
{
    xcc_quant_tensor *t = xcc_quant_input(q, n, 1);
    integers w;
    xcc_weight_layout layout;
    size_t groups;
    XCVM_TRY(read_weights(q, arena, n, t, &w));
    uint8_t *levels = xcc_alloc(&q->m, w.shape.count + 1);
    float *scales = xcc_alloc(&q->m, ((size_t)w.c.count + 1) * sizeof *scales);
    if (levels == NULL || scales == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcc_weight_layout_of(n, &w.shape, &layout, &groups);
    const xcc_grid grid = grid_of(q, &w);
    XCVM_TRY(xcc_gptq(&q->m, moments, &grid, &layout, w.x, levels));
    memcpy(scales, w.c.scale, (size_t)w.c.count * sizeof *scales);
    t->levels = levels;
    t->level_scales = scales;
    return XCVM_OK;
}

xcvm_status xcc_round_integers(quantizer *q, const xcc_quant_node *n, const xcc_moments *moments)
{
    xcvm_arena arena = {.allocator = q->m.allocator};
    const xcvm_status status = choose_levels(q, &arena, n, moments);
    xcvm_arena_release(&arena);
    return status;
}

/* The value of a level, which is stored in a byte of either sign. */
static float value_of(const quantizer *q, const integers *w, size_t i)
{
    const size_t at = channel_at(&w->c, i);
    const int32_t level = q->o.weights == XCVM_I8 ? (int8_t)w->levels[i] : w->levels[i];
    return (float)(level - w->c.zero_point[at]) * w->c.scale[at];
}

xcvm_status xcc_rounded_weights(quantizer *q, const xcc_quant_node *n, xcvm_arena *arena, xcc_tensor *shape,
                                float **right, float **rounded)
{
    integers w;
    XCVM_TRY(read_integers(q, arena, n, xcc_quant_input(q, n, 1), &w));
    *rounded = xcvm_arena_allocate(arena, w.shape.bytes + 1);
    if (*rounded == NULL)
        return xcc_out_of_memory(&q->m);
    for (size_t i = 0; i < w.shape.count; i++)
        (*rounded)[i] = value_of(q, &w, i);
    *shape = w.shape;
    *right = w.x;
    return XCVM_OK;
}

/* Exchanges the last two axes. */
static xcvm_status transpose(xcc_model_writer *w, integers *from)
{
    const int first = from->shape.rank - 2;
    const size_t rows = (size_t)from->shape.dims[first], columns = (size_t)from->shape.dims[first + 1];
    uint8_t *to = xcvm_arena_allocate(&w->arena, from->shape.count + 1);
    if (to == NULL)
        return xcc_out_of_memory(&w->q->m);
    for (size_t at = 0; at < from->shape.count; at += rows * columns)
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < columns; c++)
                to[at + c * rows + r] = from->levels[at + r * columns + c];
    from->levels = to;
    from->shape.dims[first] = (int64_t)columns;
    from->shape.dims[first + 1] = (int64_t)rows;
    from->axis = from->axis >= first ? 2 * first + 1 - from->axis : from->axis;
    return XCVM_OK;
}

xcvm_status xcc_put_weights(xcc_model_writer *w, const xcc_quant_node *n, size_t index, bool exchange,
                            xcc_integer_weights *weights)
{
    quantizer *q = w->q;
    const xcc_quant_tensor *t = xcc_quant_input(q, n, index);
    char key[80];
    integers made;
    /* Two nodes with the same weights have them once. A tensor's address is its own, whatever its name is. */
    (void)snprintf(key, sizeof key, "%p %d %d %s", (const void *)t, (int)exchange, (int)(n->body != NULL), n->rule->op);
    const struct xcc_table_entry *kept = xcc_table_lookup(&w->made, key);
    if (kept != NULL) {
        *weights = *(const xcc_integer_weights *)(intptr_t)kept->value;
        return XCVM_OK;
    }
    XCVM_TRY(xcc_poll(&q->m));
    XCVM_TRY(read_integers(q, &w->arena, n, t, &made));
    if (exchange)
        XCVM_TRY(transpose(w, &made));
    const channels *c = &made.c;
    uint8_t *zero_points = xcvm_arena_allocate(&w->arena, (size_t)c->count + 1);
    if (zero_points == NULL)
        return xcc_out_of_memory(&q->m);
    for (int64_t i = 0; i < c->count; i++)
        zero_points[i] = (uint8_t)c->zero_point[i];
    const int scale_rank = made.axis >= 0 ? 1 : 0;
    *weights = (xcc_integer_weights){.name = xcc_put_name(w, t->name, "_quantized"),
                                     .scale = xcc_put_name(w, t->name, "_scale"),
                                     .zero_point = xcc_put_name(w, t->name, "_zero_point"),
                                     .scales = c->scale,
                                     .channels = made.axis >= 0 ? c->count : 0,
                                     .axis = made.axis,
                                     .transposed = exchange};
    if (!q->o.trainable)
        xcc_put_constant(w, weights->name, q->o.weights, made.shape.rank, made.shape.dims, made.levels,
                         made.shape.count);
    xcc_put_constant(w, weights->scale, XCVM_F32, scale_rank, &c->count, c->scale, (size_t)c->count * sizeof *c->scale);
    /* ConvInteger has a single zero point. */
    const bool one = q->dynamic && n->body == NULL && is_symmetric(q, n);
    xcc_put_constant(w, weights->zero_point, q->o.weights, one ? 0 : scale_rank, &c->count, zero_points,
                     one ? 1 : (size_t)c->count);
    xcc_integer_weights *own = xcvm_arena_allocate(&w->arena, sizeof *own);
    const char *own_key = xcvm_arena_string(&w->arena, key, strlen(key));
    if (own == NULL || own_key == NULL)
        return xcc_out_of_memory(&q->m);
    *own = *weights;
    return xcc_table_put(&q->m, &w->made, own_key, (intptr_t)own);
}
