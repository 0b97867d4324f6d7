/* Integer regions: what the files of the pass share.
 *
 * Within a region every tensor is u8; one of s8 is its elements + 128, and so is its zero point. Images have their
 * channels last. At a region's edges stand instructions that bring tensors back to what the model has, a Lookup to s8
 * and a Transpose, and what reads such a tensor looks through them; those that nobody needs in the end go. */
#ifndef XCVM_COMPILER_PASSES_INTEGER_H
#define XCVM_COMPILER_PASSES_INTEGER_H

#include "compiler/passes/rewrite.h"
#include "compiler/ir/builder.h"

enum { XCC_BYTES = 256 };

/* A float tensor that is (q - zero) * scale of a tensor of bytes, the zero point as of u8. */
typedef struct xcc_dequantized {
    xcc_value *q;
    float scale;
    int zero;
} xcc_dequantized;

/* What a QuantizeLinear makes: bytes of a scale and a zero point (as of u8), within bounds that what stands in front of
 * it sets. */
typedef struct xcc_requantized {
    float scale;
    int zero, low, high;
    bool is_signed;
} xcc_requantized;

/* A tensor as a region has it. */
typedef struct xcc_bytes {
    xcc_value *v; /* u8; NULL: the failure is noted, or there is none */
    bool last;    /* it is an image with its channels last, of one that the model has with them first */
} xcc_bytes;

/* Whether v is dequantized bytes, by one scale. */
bool xcc_dequantized_of(const xcc_value *v, xcc_dequantized *d);
/* Whether a scale and a zero point (NULL: 0) are single numbers that mean something. */
bool xcc_scale_of(const xcc_value *scale, const xcc_value *zero_point, bool is_signed, float *number, int *zero);

/* The scale of x times w in steps of y (1 for w or y: there is none). False where f32 does not have the product as a
 * normal number, or the scale: bytes times infinity are no numbers, so what is to be scaled so stays in floats. */
bool xcc_scale_of_product(float x, float w, float y, float *scale);

/* Constant weights: s8 in the order of the model, and a scale for each output, or one for all. */
typedef struct xcc_integer_weights {
    const xcvm_value *q; /* as the model has them */
    const int8_t *bytes;
    const xcvm_value *scale;
} xcc_integer_weights;
static inline float xcc_integer_scale_at(const xcc_integer_weights *w, size_t output)
{
    return XCVM_CDATA(float, w->scale)[xcvm_element_count(w->scale) == 1 ? 0 : output];
}
/* Those that `v` is dequantized from, with zero points in the middle of their type; outputs lie along `axis`. */
bool xcc_integer_read_weights(xcc_rewrite *r, const xcc_value *v, int axis, xcc_integer_weights *w);

/* q as u8, in the layout that it has within its region; `images` asks for channels last, for a tensor of rank 4. */
xcc_bytes xcc_region_value(xcc_builder *b, xcc_value *q, bool images);
/* What the model sees of it. */
xcc_value *xcc_region_edge(xcc_builder *b, xcc_bytes bytes, bool is_signed);

/* Constants; NULL: the failure is noted. */
xcc_value *xcc_constant_bytes(xcc_builder *b, xcvm_dtype dtype, const uint8_t *bytes, size_t count);

/* Convolutions and products, whose results a QuantizeLinear takes (integer_products.c), and the others
 * (integer_elements.c). They look at the producer of the QuantizeLinear's operand `x`; the results are what the model
 * sees of the bytes, or NULL. */
xcc_value *xcc_integer_product(xcc_rewrite *r, xcc_node *n, const xcc_value *x, const xcc_requantized *to);
xcc_value *xcc_integer_elements(xcc_rewrite *r, xcc_node *n, const xcc_value *x, const xcc_requantized *to);
/* Gemm and MatMul of dequantized bytes whose result stays a float (integer_products.c). */
bool xcc_integer_to_float(xcc_rewrite *r, xcc_node *n);
/* Likewise Conv, if it is pointwise (integer_products.c). */
bool xcc_integer_conv_to_float(xcc_rewrite *r, xcc_node *n);
/* A scaled MatMulInteger, and what is added to it or to any product that stays a float (integer_products.c). */
bool xcc_integer_dynamic(xcc_rewrite *r, xcc_node *n);
bool xcc_integer_shift(xcc_rewrite *r, xcc_node *n);
/* LSTM by dequantized weights (integer_recurrent.c). */
bool xcc_integer_lstm(xcc_rewrite *r, xcc_node *n);
/* QLinearConv and QLinearMatMul (integer_products.c). */
bool xcc_integer_qlinear_conv(xcc_rewrite *r, xcc_node *n);
bool xcc_integer_qlinear_matmul(xcc_rewrite *r, xcc_node *n);

/* Whether axes of an image of rank 4 are those of its positions (integer_elements.c). */
bool xcc_is_over_images(const xcc_value *axes);
/* Puts what a rule made, if anything, in the place of y. */
bool xcc_integer_replace(xcc_rewrite *r, xcc_value *y, xcc_value *made);
/* Counts a convolution or product by quantized weights that stayed in floats (integer_products.c). */
void xcc_integer_count_left(xcc_module *m, const xcc_node *n);
/* The same of LSTM (integer_recurrent.c). */
void xcc_integer_count_left_lstm(xcc_module *m, const xcc_node *n);

#endif
