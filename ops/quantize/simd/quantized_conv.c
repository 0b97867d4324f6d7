/* QuantizedConv and QuantizedGemm. */
#include "ops/quantize/simd/quantized_padding.h"
#include "ops/quantize/simd/quantized_product.h"

XCVM_KERNEL(QuantizedConv)
{
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    const size_t channels = (size_t)a->x->dims[3];
    const size_t images = (size_t)a->x->dims[0], groups = (size_t)a->group;
    const size_t window[] = {(size_t)a->kernel_shape.at[0], (size_t)a->kernel_shape.at[1]};
    const size_t stride[] = {(size_t)a->strides.at[0], (size_t)a->strides.at[1]};
    const size_t dilation[] = {(size_t)a->dilations.at[0], (size_t)a->dilations.at[1]};
    const size_t pads[] = {(size_t)a->pads.at[0], (size_t)a->pads.at[1], (size_t)a->pads.at[2], (size_t)a->pads.at[3]};
    const xcvm_quantized_runs runs =
        xcvm_quantized_runs_of(window[0], window[1], dilation[1], channels / groups, groups);
    xcvm_quantized_padding padding = xcvm_quantized_padding_of(a->x, pads, (uint8_t)a->x_zero_point);
    const bool copies =
        runs.length != 0 && (pads[0] + pads[1] + pads[2] + pads[3] != 0 || runs.length % XCVM_QUAD != 0);
    size_t bytes = 0, offsets;
    if (copies)
        XCVM_TRY(xcvm_quantized_padded_bytes(k->error, &padding, images, XCVM_QUAD, &bytes));
    xcvm_quantized_product p = {.images = images,
                                .height = (size_t)a->y->dims[1],
                                .width = (size_t)a->y->dims[2],
                                .groups = groups,
                                .x = a->x->data,
                                .image = padding.padded_height * padding.padded_line,
                                .line = stride[0] * padding.padded_line,
                                .pixel = stride[1] * channels,
                                .group = channels / groups,
                                .runs = runs,
                                .w = a->w->data,
                                .outputs = xcvm_element_count(a->b) / groups,
                                .bias = a->b->data,
                                .scale = a->scale->data,
                                .y = a->y->data,
                                .zero = (int32_t)a->y_zero_point,
                                .low = (int32_t)a->low,
                                .high = (int32_t)a->high};
    const size_t numbers = xcvm_quantized_product_scratch(&p);
    XCVM_CHECK(k->error, xcvm_size_mul(runs.segments, sizeof(size_t), &offsets) && offsets < SIZE_MAX / 4, OUT_OF_RANGE,
               "the window is too large");
    offsets = xcvm_round_up(offsets, XCVM_ALIGNMENT);
    char *scratch = xcvm_kernel_scratch(k, numbers + offsets + bytes);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    size_t *segment = (size_t *)(void *)(scratch + numbers);
    p.offsets = segment;
    for (size_t i = 0; i < runs.segments; i++) {
        const size_t row = runs.by_rows ? i : i / window[1], column = runs.by_rows ? 0 : i % window[1];
        segment[i] = row * dilation[0] * padding.padded_line + column * dilation[1] * channels;
    }
    if (copies) {
        padding.to = (uint8_t *)scratch + numbers + offsets;
        p.x = padding.to;
        XCVM_TRY(xcvm_quantized_pad(k, &padding, images, XCVM_QUAD));
    }
    return xcvm_quantized_product_run(k, &p, scratch);
}

XCVM_KERNEL(QuantizedGemm)
{
    static const size_t at_once = 0;
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    const size_t columns = xcvm_element_count(a->b), depth = (size_t)a->a->dims[a->a->rank - 1];
    const size_t rows = xcvm_element_count(a->y) / columns;
    xcvm_quantized_product p = {.images = 1,
                                .height = 1,
                                .width = rows,
                                .groups = 1,
                                .x = a->a->data,
                                .pixel = depth,
                                .runs = xcvm_quantized_runs_of(1, 1, 1, depth, 1),
                                .offsets = &at_once,
                                .w = a->w->data,
                                .outputs = columns,
                                .bias = a->b->data,
                                .scale = a->scale->data,
                                .shift = a->shift != NULL ? a->shift->data : NULL,
                                .y = a->y->data,
                                .floats = a->y->dtype == XCVM_F32,
                                .zero = (int32_t)a->y_zero_point,
                                .low = (int32_t)a->low,
                                .high = (int32_t)a->high};
    xcvm_quantized_padding padding = {
        .x = a->a->data, .height = rows, .line = depth, .padded_height = rows, .padded_line = depth};
    const bool copies = depth % XCVM_QUAD != 0;
    const size_t numbers = xcvm_quantized_product_scratch(&p);
    size_t bytes = 0;
    if (copies)
        XCVM_TRY(xcvm_quantized_padded_bytes(k->error, &padding, 1, XCVM_QUAD, &bytes));
    char *scratch = xcvm_kernel_scratch(k, numbers + bytes);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    if (copies) {
        /* Padding is needed only so that the last quad can be read whole. */
        padding.to = (uint8_t *)scratch + numbers;
        p.x = padding.to;
        XCVM_TRY(xcvm_quantized_pad(k, &padding, 1, XCVM_QUAD));
    }
    return xcvm_quantized_product_run(k, &p, scratch);
}
