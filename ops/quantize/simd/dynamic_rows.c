/* Rows quantized by their own range. */
#include "ops/quantize/simd/dynamic_rows.h"
#include "ops/quantize/simd/quantized_product.h"
#include "ops/simd/math.h"
#include "ops/simd/reductions.h"

enum { OUTPUTS = XCVM_QUANTIZED_OUTPUTS, LINE = XCVM_QUANTIZED_LINE, ROWS = 4, PANELS = 4 };

void xcvm_dynamic_row_make(const float *x, size_t count, xcvm_dynamic_row *row)
{
    const float low = (float)xcvm_reduce_extreme(xcvm_lanes_lesser, x, count, 0.0f);
    const float high = (float)xcvm_reduce_extreme(xcvm_lanes_greater, x, count, 0.0f);
    const xcvm_dynamic_scale s = xcvm_dynamic_scale_of(low, high);
    const float zero = (float)s.zero_point;
    XCVM_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        float v = rintf(x[i] / s.divisor) + zero;
        v = v > 0.0f ? v : 0.0f; /* also replaces NaN */
        row->bytes[i] = (uint8_t)(int32_t)(v < 255.0f ? v : 255.0f);
    }
    for (size_t i = count; i % XCVM_QUAD != 0; i++)
        row->bytes[i] = 0;
    row->scale = s.scale;
    row->zero = s.zero_point;
}

void xcvm_dynamic_row_rest(const float *x, size_t count, const xcvm_dynamic_row *row, float *rest)
{
    const float scale = row->scale;
    const int32_t zero = row->zero;
    XCVM_INDEPENDENT
    for (size_t i = 0; i < count; i++)
        rest[i] = x[i] - (float)(row->bytes[i] - zero) * scale;
}

void xcvm_dynamic_product_f32(const xcvm_dynamic_panels *w, size_t first, size_t last, const float *x, size_t count,
                              float *to)
{
    for (size_t panel = first; panel < last; panel++, to += OUTPUTS) {
        const int8_t *weights = w->panels + panel * w->quads * LINE;
        const float *scales = w->scales + panel * OUTPUTS;
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < OUTPUTS; j++) {
                const int8_t weight = weights[i / XCVM_QUAD * LINE + j * XCVM_QUAD + i % XCVM_QUAD];
                to[j] += x[i] * ((float)weight * scales[j]);
            }
    }
}

void xcvm_dynamic_product(const xcvm_dynamic_panels *w, size_t first, size_t last, const void *rows, size_t row_bytes,
                          size_t count, size_t terms, float *to, size_t to_row)
{
    int32_t sums[ROWS * PANELS * OUTPUTS] __attribute__((aligned(64)));
    for (size_t at = first, panels; at < last; at += panels) {
        panels = xcvm_min(last - at, PANELS);
        const int32_t *column_sums = w->sums + at * OUTPUTS;
        const float *scales = w->scales + at * OUTPUTS;
        for (size_t r = 0, some; r < count; r += some) {
            some = xcvm_min(count - r, ROWS);
            const char *const from = (const char *)rows + r * row_bytes;
            xcvm_quantized_sums(((const xcvm_dynamic_row *)(const void *)from)->bytes, row_bytes, some,
                                w->panels + at * w->quads * LINE, w->quads, panels, sums, PANELS * OUTPUTS);
            for (size_t i = 0; i < some; i++) {
                const xcvm_dynamic_row *row = (const xcvm_dynamic_row *)(const void *)(from + i * row_bytes);
                const uint32_t zero = (uint32_t)row->zero;
                const float scale = row->scale;
                float *y = to + (r + i) / terms * to_row + (at - first) * OUTPUTS;
                XCVM_INDEPENDENT
                for (size_t j = 0; j < panels * OUTPUTS; j++) {
                    const uint32_t sum = (uint32_t)sums[i * PANELS * OUTPUTS + j] - zero * (uint32_t)column_sums[j];
                    y[j] += (float)(int32_t)sum * (scale * scales[j]);
                }
            }
        }
    }
}
