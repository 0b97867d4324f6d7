/* Padded byte images followed by extra bytes, so that every run of bytes that a kernel reads is contiguous. */
#ifndef XCVM_OPS_QUANTIZE_SIMD_QUANTIZED_PADDING_H
#define XCVM_OPS_QUANTIZE_SIMD_QUANTIZED_PADDING_H

#include "ops/util/kernel.h"

typedef struct xcvm_quantized_padding {
    const uint8_t *x;
    uint8_t *to;
    size_t height, line;       /* of x; bytes of a line */
    size_t top, padded_height; /* in lines */
    size_t left, padded_line;  /* in bytes */
    uint8_t zero;
} xcvm_quantized_padding;

/* For images of batch x height x width x channels. pads are of the starts of height and width, then of their ends. */
static inline xcvm_quantized_padding xcvm_quantized_padding_of(const xcvm_value *x, const size_t pads[4], uint8_t zero)
{
    const size_t height = (size_t)x->dims[1], width = (size_t)x->dims[2], channels = (size_t)x->dims[3];
    return (xcvm_quantized_padding){.x = x->data,
                                    .height = height,
                                    .line = width * channels,
                                    .top = pads[0],
                                    .padded_height = height + pads[0] + pads[2],
                                    .left = pads[1] * channels,
                                    .padded_line = (width + pads[1] + pads[3]) * channels,
                                    .zero = zero};
}

/* Computes the bytes of the padded images plus `behind` more. */
static inline xcvm_status xcvm_quantized_padded_bytes(xcvm_error *error, const xcvm_quantized_padding *t, size_t images,
                                                      size_t behind, size_t *bytes)
{
    XCVM_CHECK(error,
               xcvm_size_mul(images, t->padded_height, bytes) && xcvm_size_mul(*bytes, t->padded_line, bytes) &&
                   *bytes < SIZE_MAX / 4,
               OUT_OF_RANGE, "x with its padding is too large");
    *bytes = xcvm_round_up(*bytes + behind, XCVM_ALIGNMENT);
    return XCVM_OK;
}

static inline void xcvm_quantized_pad_lines(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const xcvm_quantized_padding *t = context;
    for (size_t i = begin; i < end; i++) {
        uint8_t *to = t->to + i * t->padded_line;
        const size_t image = i / t->padded_height, row = i % t->padded_height;
        if (row < t->top || row >= t->top + t->height) {
            memset(to, t->zero, t->padded_line);
            continue;
        }
        memset(to, t->zero, t->left);
        memcpy(to + t->left, t->x + (image * t->height + row - t->top) * t->line, t->line);
        memset(to + t->left + t->line, t->zero, t->padded_line - t->left - t->line);
    }
}

/* Copies x to t->to; the `behind` bytes are zero. */
static inline xcvm_status xcvm_quantized_pad(const xcvm_kernel *k, xcvm_quantized_padding *t, size_t images,
                                             size_t behind)
{
    enum { PORTION = 1 << 15 }; /* minimum bytes of a range */
    memset(t->to + images * t->padded_height * t->padded_line, 0, behind);
    return xcvm_kernel_parallel(k, images * t->padded_height, PORTION / (t->padded_line + 1) + 1,
                                xcvm_quantized_pad_lines, t);
}

#endif
