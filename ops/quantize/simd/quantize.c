/* QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear. */
#include "ops/quantize/quantize_shape.h"
#include "ops/quantize/simd/dynamic_rows.h"
#include "ops/simd/reductions.h"
#include "ops/simd/halves.h"
#include "ops/simd/math.h"

typedef struct quantize_loop {
    const xcvm_value *x;
    xcvm_value *y;
    xcvm_quantized pieces;
    const float *scales, *zero_points;
    bool saturate;
    xcvm_dtype precision; /* f16 or bf16 if operands and quotients are rounded to it; other types: no rounding */
    float low, high;      /* range of the quantized integers; both 0 for floats */
} quantize_loop;

static void load(const xcvm_value *v, size_t first, size_t count, float *to)
{
    const uint8_t *bytes = v->data;
    switch ((xcvm_dtype)v->dtype) {
    case XCVM_F32:
    case XCVM_F16:
    case XCVM_BF16:
        xcvm_halves_load(v->dtype, v->data, first, count, to);
        break;
    case XCVM_U8:
        for (size_t i = 0; i < count; i++)
            to[i] = (float)bytes[first + i];
        break;
    case XCVM_I8:
        for (size_t i = 0; i < count; i++)
            to[i] = (float)(int8_t)bytes[first + i];
        break;
    case XCVM_U16:
        for (size_t i = 0; i < count; i++)
            to[i] = (float)XCVM_CDATA(uint16_t, v)[first + i];
        break;
    case XCVM_I16:
        for (size_t i = 0; i < count; i++)
            to[i] = (float)XCVM_CDATA(int16_t, v)[first + i];
        break;
    default: {
        double wide[XCVM_BLOCK];
        xcvm_load_f64(v->dtype, v->data, first, count, wide);
        for (size_t i = 0; i < count; i++)
            to[i] = (float)wide[i];
        break;
    }
    }
}

/* Rounds to that precision. */
static void narrow(xcvm_dtype precision, float *x, size_t count)
{
    uint16_t halves[XCVM_BLOCK];
    if (!xcvm_dtype_in(precision, XCVM_TYPES_HALF))
        return;
    xcvm_halves_store(precision, halves, 0, count, x);
    xcvm_halves_load(precision, halves, 0, count, x);
}

/* Loads scales and then zero points as f32 to the kernel's scratch. */
static xcvm_status load_scales(xcvm_kernel *k, quantize_loop *t, const xcvm_value *scale, const xcvm_value *zero_point)
{
    size_t count = xcvm_element_count(scale), bytes;
    XCVM_CHECK(k->error, xcvm_size_mul(count, 2 * sizeof(float), &bytes), OUT_OF_RANGE, "there are %zu scales", count);
    float *scratch = xcvm_kernel_scratch(k, bytes);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    t->scales = scratch;
    t->zero_points = scratch + count;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t at = 0; at < count; at += XCVM_BLOCK) {
        size_t n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
        XCVM_TRY(xcvm_poll_after(&poller, n));
        load(scale, at, n, scratch + at);
        narrow(t->precision, scratch + at, n);
        if (zero_point != NULL)
            load(zero_point, at, n, scratch + count + at);
    }
    if (zero_point == NULL)
        memset(scratch + count, 0, count * sizeof *scratch);
    return XCVM_OK;
}

/* ---- Quantization ---- */

/* `x` are float quotients, as ONNX defines it, and their rounding decides ties. NaN becomes the lowest number. */
static void quantize_block(const float *x, const float *zero_points, size_t count, float low, float high, int32_t *to)
{
    for (size_t i = 0; i < count; i++) {
        float v = rintf(x[i]) + zero_points[i];
        v = v > low ? v : low;
        to[i] = (int32_t)(v < high ? v : high);
    }
}

/* The same in a single pass for one scale. Clamping comes before rounding, which is equivalent because the bounds minus
 * the zero point are integers. The result is in the low bits after rounding, which suffice for 16 bits of either
 * signedness. */
#define QUANTIZE_AT_ONCE(name, type)                                                                                   \
    static void name(const float *x, float scale, float zero_point, size_t count, float low, float high, type *to)     \
    {                                                                                                                  \
        const uint32_t zero = (uint32_t)(int32_t)zero_point;                                                           \
        low -= zero_point;                                                                                             \
        high -= zero_point;                                                                                            \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                           \
            float v = x[i] / scale;                                                                                    \
            v = v > low ? v : low;                                                                                     \
            v = v < high ? v : high;                                                                                   \
            to[i] = (type)(xcvm_f32_bits(v + XCVM_ROUND_F32) + zero);                                                  \
        }                                                                                                              \
    }
QUANTIZE_AT_ONCE(quantize_bytes, uint8_t)
QUANTIZE_AT_ONCE(quantize_words, uint16_t)

/* Returns true if elements of 8 or 16 bits have one scale and f32 floats, so that the single-pass loops apply. */
static bool goes_at_once(const quantize_loop *t, xcvm_dtype floats, xcvm_dtype integers)
{
    return floats == XCVM_F32 && t->pieces.single && !xcvm_dtype_in(t->precision, XCVM_TYPES_HALF) &&
           (xcvm_dtype_in(integers, XCVM_TYPES_BYTE) || integers == XCVM_U16 || integers == XCVM_I16);
}

static void store_integers(xcvm_value *y, size_t first, size_t count, const int32_t *from)
{
    if (xcvm_dtype_in(y->dtype, XCVM_TYPES_BYTE)) {
        uint8_t *to = (uint8_t *)y->data + first;
        for (size_t i = 0; i < count; i++)
            to[i] = (uint8_t)from[i];
    } else if (xcvm_dtype_in(y->dtype, XCVM_TYPES_PACKED)) {
        for (size_t i = 0; i < count; i++)
            xcvm_packed_set(y->dtype, y->data, first + i, (uint32_t)from[i]);
    } else {
        uint16_t *to = (uint16_t *)y->data + first;
        for (size_t i = 0; i < count; i++)
            to[i] = (uint16_t)from[i];
    }
}

/* The range is in blocks, so that no two share a byte of packed elements. */
static void quantize_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const quantize_loop *t = context;
    float x[XCVM_BLOCK], scales[XCVM_BLOCK], zero_points[XCVM_BLOCK];
    int32_t integers[XCVM_BLOCK];
    const size_t count = xcvm_element_count(t->x);
    if (goes_at_once(t, t->x->dtype, t->y->dtype)) {
        const size_t first = begin * XCVM_BLOCK, number = xcvm_min(end * XCVM_BLOCK, count) - first;
        const float *from = XCVM_CDATA(float, t->x) + first;
        if (xcvm_dtype_bits(t->y->dtype) == 8)
            quantize_bytes(from, t->scales[0], t->zero_points[0], number, t->low, t->high,
                           XCVM_DATA(uint8_t, t->y) + first);
        else
            quantize_words(from, t->scales[0], t->zero_points[0], number, t->low, t->high,
                           XCVM_DATA(uint16_t, t->y) + first);
        return;
    }
    for (size_t block = begin; block < end; block++) {
        size_t at = block * XCVM_BLOCK, n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
        load(t->x, at, n, x);
        narrow(t->precision, x, n);
        if (block == begin || !t->pieces.single) {
            xcvm_quantized_spread(&t->pieces, t->scales, at, n, scales);
            xcvm_quantized_spread(&t->pieces, t->zero_points, at, n, zero_points);
        }
        for (size_t i = 0; i < n; i++)
            x[i] /= scales[i];
        narrow(t->precision, x, n);
        if (t->high > 0.0f) {
            quantize_block(x, zero_points, n, t->low, t->high, integers);
            store_integers(t->y, at, n, integers);
        } else {
            double wide[XCVM_BLOCK];
            for (size_t i = 0; i < n; i++)
                wide[i] = (double)(x[i] + zero_points[i]);
            xcvm_store_f64(t->y->dtype, t->y->data, at, n, wide, t->saturate);
        }
    }
}

static void integer_range(xcvm_dtype dtype, float *low, float *high)
{
    const int bits = xcvm_dtype_bits(dtype);
    const bool is_signed = dtype == XCVM_I8 || dtype == XCVM_I16 || dtype == XCVM_I4 || dtype == XCVM_I2;
    *low = is_signed ? -ldexpf(1.0f, bits - 1) : 0.0f;
    *high = ldexpf(1.0f, is_signed ? bits - 1 : bits) - 1.0f;
}

static size_t blocks_of(const xcvm_value *x) { return (xcvm_element_count(x) + XCVM_BLOCK - 1) / XCVM_BLOCK; }

XCVM_KERNEL(QuantizeLinear)
{
    quantize_loop t = {.x = a->x, .y = a->y, .saturate = a->saturate != 0, .precision = a->precision};
    XCVM_TRY(xcvm_quantized_find(k->error, a->x, a->scale, a->axis, a->block_size, &t.pieces));
    if (xcvm_dtype_in(a->y->dtype, XCVM_TYPES_INT | XCVM_TYPES_PACKED_INT))
        integer_range(a->y->dtype, &t.low, &t.high);
    XCVM_TRY(load_scales(k, &t, a->scale, a->zero_point));
    return xcvm_kernel_parallel(k, blocks_of(a->x), 64, quantize_range, &t);
}

/* ---- Dequantization ---- */

/* Dequantizes 8- or 16-bit integers with one scale, without an intermediate block. */
#define DEQUANTIZE_AT_ONCE(name, type)                                                                                 \
    static void name(const quantize_loop *t, size_t first, size_t count)                                               \
    {                                                                                                                  \
        const type *x = XCVM_CDATA(type, t->x) + first;                                                                \
        float *y = XCVM_DATA(float, t->y) + first;                                                                     \
        const float scale = t->scales[0], zero = t->zero_points[0];                                                    \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < count; i++)                                                                             \
            y[i] = ((float)x[i] - zero) * scale;                                                                       \
    }
DEQUANTIZE_AT_ONCE(dequantize_u8, uint8_t)
DEQUANTIZE_AT_ONCE(dequantize_i8, int8_t)
DEQUANTIZE_AT_ONCE(dequantize_u16, uint16_t)
DEQUANTIZE_AT_ONCE(dequantize_i16, int16_t)

static void dequantize_at_once(const quantize_loop *t, size_t first, size_t count)
{
    switch ((xcvm_dtype)t->x->dtype) {
    case XCVM_U8:
        dequantize_u8(t, first, count);
        break;
    case XCVM_I8:
        dequantize_i8(t, first, count);
        break;
    case XCVM_U16:
        dequantize_u16(t, first, count);
        break;
    default: /* excluded by goes_at_once */
        dequantize_i16(t, first, count);
        break;
    }
}

static void dequantize_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const quantize_loop *t = context;
    float x[XCVM_BLOCK], scales[XCVM_BLOCK], zero_points[XCVM_BLOCK];
    const size_t count = xcvm_element_count(t->x);
    if (goes_at_once(t, t->y->dtype, t->x->dtype)) {
        const size_t first = begin * XCVM_BLOCK;
        dequantize_at_once(t, first, xcvm_min(end * XCVM_BLOCK, count) - first);
        return;
    }
    for (size_t block = begin; block < end; block++) {
        size_t at = block * XCVM_BLOCK, n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
        load(t->x, at, n, x);
        if (block == begin || !t->pieces.single) {
            xcvm_quantized_spread(&t->pieces, t->scales, at, n, scales);
            xcvm_quantized_spread(&t->pieces, t->zero_points, at, n, zero_points);
        }
        for (size_t i = 0; i < n; i++)
            x[i] = (x[i] - zero_points[i]) * scales[i];
        if (t->y->dtype == XCVM_F64)
            for (size_t i = 0; i < n; i++)
                XCVM_DATA(double, t->y)[at + i] = (double)x[i];
        else
            xcvm_halves_store(t->y->dtype, t->y->data, at, n, x);
    }
}

XCVM_KERNEL(DequantizeLinear)
{
    quantize_loop t = {.x = a->x, .y = a->y};
    XCVM_TRY(xcvm_quantized_find(k->error, a->x, a->scale, a->axis, a->block_size, &t.pieces));
    XCVM_TRY(load_scales(k, &t, a->scale, a->zero_point));
    return xcvm_kernel_parallel(k, blocks_of(a->x), 64, dequantize_range, &t);
}

XCVM_KERNEL(DynamicQuantizeLinear)
{
    enum { CHUNK = 2048 }; /* stays in the first-level cache for the second extreme */
    const float *x = a->x->data;
    const size_t count = xcvm_element_count(a->x);
    float low = 0.0f, high = 0.0f;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t at = 0, n; at < count; at += n) {
        n = xcvm_min(count - at, CHUNK);
        XCVM_TRY(xcvm_poll_after(&poller, n));
        low = (float)xcvm_reduce_extreme(xcvm_lanes_lesser, x + at, n, low);
        high = (float)xcvm_reduce_extreme(xcvm_lanes_greater, x + at, n, high);
    }
    const xcvm_dynamic_scale s = xcvm_dynamic_scale_of(low, high);
    *XCVM_DATA(float, a->scale) = s.scale;
    *XCVM_DATA(uint8_t, a->zero_point) = s.zero_point;
    const float zero = (float)s.zero_point;
    quantize_loop t = {
        .x = a->x, .y = a->y, .pieces = {.single = true}, .scales = &s.divisor, .zero_points = &zero, .high = 255.0f};
    return xcvm_kernel_parallel(k, blocks_of(a->x), 64, quantize_range, &t);
}
