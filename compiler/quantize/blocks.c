/* Matrices in blocks of 4 bits: one scale per run of weights of an output. The result is MatMulNBits or, since opset
 * 21, DequantizeLinear with blocks before MatMul. */
#include "compiler/quantize/model_writer.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A block, rounded: (q - zero_point) * scale. */
typedef struct rounding {
    float scale;
    int zero_point;
    double error;
} rounding;

static int level_of(float x, const rounding *r)
{
    return (int)fmin(fmax(rint((double)(x / r->scale)) + r->zero_point, 0), 15);
}

static double error_of(const float *x, size_t count, size_t step, const rounding *r)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double e = (double)(r->scale * (float)(level_of(x[i * step], r) - r->zero_point)) - (double)x[i * step];
        sum += e * e;
    }
    return sum;
}

static void attempt(const float *x, size_t count, size_t step, double scale, int zero_point, rounding *best)
{
    if (!(fabs(scale) >= (double)FLT_MIN && fabs(scale) <= (double)FLT_MAX))
        return;
    rounding r = {.scale = (float)scale, .zero_point = zero_point};
    r.error = error_of(x, count, step, &r);
    if (r.error < best->error)
        *best = r;
}

/* Returns the scale with the smallest squared error, among scales that clip slightly or not at all. A symmetric block
 * has the zero point 8. It has eight levels on the side of its largest magnitude if its scale has the right sign. */
static rounding round_block(const float *x, size_t count, size_t step, bool asymmetric)
{
    enum { TRIES = 8 };
    float low = 0, high = 0;
    for (size_t i = 0; i < count; i++) {
        low = fminf(low, x[i * step]);
        high = fmaxf(high, x[i * step]);
    }
    const double most = fmax(-(double)low, (double)high);
    rounding best = {.scale = 1, .zero_point = 8, .error = (double)INFINITY};
    if (!(most > 0))
        return best;
    for (int i = 0; i < TRIES; i++) {
        const double part = 1 - 0.03 * i;
        if (asymmetric) {
            const double scale = ((double)high - (double)low) * part / 15;
            attempt(x, count, step, scale, (int)fmin(fmax(rint(-(double)low * part / scale), 0), 15), &best);
        } else {
            attempt(x, count, step, most * part / 7, 8, &best);
            attempt(x, count, step, (-(double)low >= (double)high ? 1 : -1) * most * part / 8, 8, &best);
        }
    }
    return best;
}

/* Levels of a matrix [K, N], with the scale and zero point of each block of each column. */
typedef struct blocks {
    size_t k, n, count; /* count: blocks of a column */
    size_t block;
    uint8_t *levels; /* [K, N] */
    float *scales;   /* [N, count] */
    uint8_t *zero_points;
} blocks;

/* Levels that were chosen by the data; with moments they are chosen now; otherwise the nearest. */
static xcvm_status round_matrix(quantizer *q, xcvm_arena *arena, const xcc_quant_node *n, const xcc_moments *moments,
                                blocks *b)
{
    xcc_quant_tensor *t = xcc_quant_input(q, n, 1);
    const bool transposed = xcc_quant_is(n, "Gemm") && xcc_quant_int(n, "transB", 0) != 0;
    const float alpha = xcc_quant_is(n, "Gemm") ? (float)xcc_quant_real(n, "alpha", 1) : 1;
    xcc_tensor shape;
    float *x;
    XCVM_TRY(xcc_quant_floats(q, t, arena, &shape, &x));
    b->k = (size_t)shape.dims[transposed ? 1 : 0];
    b->n = (size_t)shape.dims[transposed ? 0 : 1];
    b->block = (size_t)q->o.block;
    b->count = xcvm_ceil_div(b->k, b->block);
    b->levels = xcvm_arena_allocate(arena, shape.count + 1);
    b->scales = xcvm_arena_allocate(arena, (b->n * b->count + 1) * sizeof *b->scales);
    b->zero_points = xcvm_arena_allocate(arena, b->n * b->count + 1);
    float *scales = xcvm_arena_allocate(arena, (b->n * b->count + 1) * sizeof *scales);
    int32_t *zero_points = xcvm_arena_allocate(arena, (b->n * b->count + 1) * sizeof *zero_points);
    if (b->levels == NULL || b->scales == NULL || b->zero_points == NULL || scales == NULL || zero_points == NULL)
        return xcc_out_of_memory(&q->m);
    const size_t row = transposed ? 1 : b->n, column = transposed ? b->k : 1;
    for (size_t c = 0; c < b->n; c++) {
        XCVM_TRY(xcc_poll(&q->m));
        for (size_t at = 0; at < b->count; at++) {
            const size_t first = at * b->block, length = xcvm_min(b->block, b->k - first);
            const float *from = x + c * column + first * row;
            const rounding r = round_block(from, length, row, q->o.asymmetric_weights);
            b->scales[c * b->count + at] = r.scale * alpha;
            b->zero_points[c * b->count + at] = (uint8_t)r.zero_point;
            scales[c * b->count + at] = r.scale;
            zero_points[c * b->count + at] = r.zero_point;
            for (size_t i = 0; i < length && moments == NULL; i++)
                b->levels[(first + i) * b->n + c] = t->levels != NULL ? t->levels[c * column + (first + i) * row]
                                                                      : (uint8_t)level_of(from[i * row], &r);
        }
    }
    if (moments == NULL)
        return XCVM_OK;
    const xcc_weight_layout layout = {.outputs = b->n, .output = column, .input = row};
    const xcc_grid grid = {
        .scales = scales, .zero_points = zero_points, .step = b->count, .run = b->block, .greatest = 15};
    t->levels = xcc_alloc(&q->m, shape.count + 1);
    return t->levels != NULL ? xcc_gptq(&q->m, moments, &grid, &layout, x, t->levels) : XCVM_OUT_OF_MEMORY;
}

xcvm_status xcc_round_blocks(quantizer *q, const xcc_quant_node *n, const xcc_moments *moments)
{
    blocks b;
    xcvm_arena arena = {.allocator = q->m.allocator};
    const xcvm_status status = round_matrix(q, &arena, n, moments, &b);
    xcvm_arena_release(&arena);
    return status;
}

/* ---- MatMulNBits ---- */

static xcvm_status put_nbits(xcc_model_writer *w, const xcc_quant_node *n, const blocks *b, const char *stem,
                             const char *result)
{
    const size_t bytes = b->count * b->block / 2, points = (b->count + 1) / 2;
    uint8_t *packed = xcvm_arena_allocate(&w->arena, b->n * bytes + 1),
            *zero_points = xcvm_arena_allocate(&w->arena, b->n * points + 1);
    if (packed == NULL || zero_points == NULL)
        return xcc_out_of_memory(&w->q->m);
    memset(packed, 0x88, b->n * bytes); /* what fills up the last block of a column is zero */
    for (size_t c = 0; c < b->n; c++) {
        for (size_t i = 0; i < b->k; i++) {
            uint8_t *at = &packed[c * bytes + i / 2];
            const uint8_t level = b->levels[i * b->n + c];
            *at = (uint8_t)(i % 2 == 0 ? (*at & 0xf0) | level : (*at & 0x0f) | level << 4);
        }
        for (size_t i = 0; i < b->count; i++)
            zero_points[c * points + i / 2] |= (uint8_t)(b->zero_points[c * b->count + i] << (i % 2 * 4));
    }
    const char *weights = xcc_put_name(w, stem, "_quantized"), *scale = xcc_put_name(w, stem, "_scale"),
               *zero_point = xcc_put_name(w, stem, "_zero_point");
    const int64_t n_count = (int64_t)b->n, count = (int64_t)b->count;
    xcc_put_constant(w, weights, XCVM_U8, 3, (const int64_t[]){n_count, count, (int64_t)b->block / 2}, packed,
                     b->n * bytes);
    xcc_put_constant(w, scale, XCVM_F32, 2, (const int64_t[]){n_count, count}, b->scales,
                     b->n * b->count * sizeof *b->scales);
    if (w->q->o.asymmetric_weights)
        xcc_put_constant(w, zero_point, XCVM_U8, 2, (const int64_t[]){n_count, (int64_t)points}, zero_points,
                         b->n * points);
    Onnx__NodeProto *node = xcc_put_node(w, "com.microsoft", "MatMulNBits", w->q->o.asymmetric_weights ? 4 : 3,
                                         (const char *[]){n->proto->input[0], weights, scale, zero_point}, result);
    xcc_put_int(w, node, "K", (int64_t)b->k);
    xcc_put_int(w, node, "N", n_count);
    xcc_put_int(w, node, "bits", 4);
    xcc_put_int(w, node, "block_size", (int64_t)b->block);
    return XCVM_OK;
}

/* ---- DequantizeLinear ---- */

static void pack_pairs(uint8_t *to, const uint8_t *from, size_t count, bool has_sign)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t v = (uint8_t)((from[i] + (has_sign ? 8 : 0)) & 15); /* two's complement of level - 8 */
        to[i / 2] = (uint8_t)(i % 2 == 0 ? v : to[i / 2] | v << 4);
    }
}

static xcvm_status put_dequantize(xcc_model_writer *w, const xcc_quant_node *n, const blocks *b, const char *stem,
                                  const char *result)
{
    const xcvm_dtype dtype = w->q->o.weights;
    const size_t elements = b->k * b->n, parts = b->count * b->n;
    uint8_t *packed = xcvm_arena_allocate(&w->arena, elements / 2 + 2),
            *points = xcvm_arena_allocate(&w->arena, parts + 2),
            *packed_points = xcvm_arena_allocate(&w->arena, parts + 2);
    float *scales = xcvm_arena_allocate(&w->arena, (parts + 1) * sizeof *scales);
    if (packed == NULL || points == NULL || packed_points == NULL || scales == NULL)
        return xcc_out_of_memory(&w->q->m);
    for (size_t c = 0; c < b->n; c++)
        for (size_t i = 0; i < b->count; i++) {
            scales[i * b->n + c] = b->scales[c * b->count + i];
            points[i * b->n + c] = b->zero_points[c * b->count + i];
        }
    pack_pairs(packed, b->levels, elements, dtype == XCVM_I4);
    pack_pairs(packed_points, points, parts, dtype == XCVM_I4);
    const char *weights = xcc_put_name(w, stem, "_quantized"), *scale = xcc_put_name(w, stem, "_scale"),
               *zero_point = xcc_put_name(w, stem, "_zero_point"), *matrix = xcc_put_name(w, stem, "_dequantized");
    const int64_t n_count = (int64_t)b->n, count = (int64_t)b->count;
    xcc_put_constant(w, weights, dtype, 2, (const int64_t[]){(int64_t)b->k, n_count}, packed, (elements + 1) / 2);
    xcc_put_constant(w, scale, XCVM_F32, 2, (const int64_t[]){count, n_count}, scales, parts * sizeof *scales);
    xcc_put_constant(w, zero_point, dtype, 2, (const int64_t[]){count, n_count}, packed_points, (parts + 1) / 2);
    Onnx__NodeProto *node =
        xcc_put_node(w, "", "DequantizeLinear", 3, (const char *[]){weights, scale, zero_point}, matrix);
    xcc_put_int(w, node, "axis", 0);
    xcc_put_int(w, node, "block_size", (int64_t)b->block);
    (void)xcc_put_node(w, "", "MatMul", 2, (const char *[]){n->proto->input[0], matrix}, result);
    return XCVM_OK;
}

xcvm_status xcc_put_blocks(xcc_model_writer *w, const xcc_quant_node *n)
{
    blocks b;
    const char *stem = xcc_quant_input(w->q, n, 1)->name, *result = n->proto->output[0], *bias = NULL;
    XCVM_TRY(round_matrix(w->q, &w->arena, n, NULL, &b));
    if (xcc_quant_is(n, "Gemm") && n->proto->n_input > 2 && n->proto->input[2][0] != '\0')
        bias = n->proto->input[2];
    const char *product = bias != NULL ? xcc_put_name(w, result, "_product") : result;
    /* Blocks of DequantizeLinear are whole; a shorter last one is filled up in MatMulNBits. */
    XCVM_TRY((w->q->opset >= 21 && b.k % b.block == 0 ? put_dequantize : put_nbits)(w, n, &b, stem, product));
    if (bias == NULL)
        return XCVM_OK;
    bias = xcc_put_scaled(w, bias, (float)xcc_quant_real(n, "beta", 1));
    (void)xcc_put_node(w, "", "Add", 2, (const char *[]){product, bias}, result);
    return XCVM_OK;
}
