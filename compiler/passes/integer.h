/* Integer regions: definitions shared by the files of the pass.
 *
 * Within a region every tensor is u8; an s8 tensor is represented by its elements + 128, and so is its zero point.
 * Images have channels last. At boundaries, a Lookup to s8 and a Transpose restore the model's form. Rules look through
 * these, and unused ones are removed. */
#ifndef XCVM_COMPILER_PASSES_INTEGER_H
#define XCVM_COMPILER_PASSES_INTEGER_H

#include "compiler/passes/rewrite.h"
#include "compiler/ir/builder.h"

enum { XCC_BYTES = 256 };

/* A float tensor that is (q - zero) * scale of a byte tensor, with the zero point in u8 form. */
typedef struct xcc_dequantized {
    xcc_value *q;
    float scale;
    int zero;
} xcc_dequantized;

/* The result of a QuantizeLinear: scale and zero point (in u8 form), and bounds set by preceding nodes. */
typedef struct xcc_requantized {
    float scale;
    int zero, low, high;
    bool is_signed;
} xcc_requantized;

/* A tensor in the form of a region. */
typedef struct xcc_region_tensor {
    xcc_value *v; /* u8; NULL: failed (the error is recorded), or absent */
    bool last;    /* an image in channels-last layout, of one with channels first in the model */
} xcc_region_tensor;

/* Returns true if v is dequantized bytes with a single scale. */
bool xcc_dequantized_of(const xcc_value *v, xcc_dequantized *d);
/* Reads a scale and a zero point (NULL: 0). Returns true if they are valid single numbers. */
bool xcc_scale_of(const xcc_value *scale, const xcc_value *zero_point, bool is_signed, float *number, int *zero);

/* Scale of x times w in units of y (w or y 1: none). Returns false if f32 cannot represent the product as a normal
 * number, or the scale; bytes times infinity give NaN, so the node stays in floats. */
bool xcc_scale_of_product(float x, float w, float y, float *scale);

/* Constant weights: s8 in the model's order, and one scale per output, or a single one. */
typedef struct xcc_integer_weights {
    const xcvm_value *q; /* as in the model */
    const int8_t *bytes;
    const xcvm_value *scale;
} xcc_integer_weights;
static inline float xcc_integer_scale_at(const xcc_integer_weights *w, size_t output)
{
    return XCVM_CDATA(float, w->scale)[xcvm_element_count(w->scale) == 1 ? 0 : output];
}
/* Reads the weights that `v` is dequantized from. Their zero points must be the middle of their type; outputs are along
 * `axis`. */
bool xcc_integer_read_weights(xcc_rewrite *r, const xcc_value *v, int axis, xcc_integer_weights *w);

/* Returns q as u8 in its region's layout. `images` requests channels last for a tensor of rank 4. */
xcc_region_tensor xcc_region_value(xcc_builder *b, xcc_value *q, bool images);
/* Restores the model's form. */
xcc_value *xcc_region_edge(xcc_builder *b, xcc_region_tensor bytes, bool is_signed);

/* Makes a constant; NULL: the failure is recorded. */
xcc_value *xcc_constant_bytes(xcc_builder *b, xcvm_dtype dtype, const uint8_t *bytes, size_t count);

/* Match convolutions and products whose results are quantized (integer_products.c), and other nodes
 * (integer_elements.c). `x` is the QuantizeLinear's operand. They return the result in the model's form, or NULL. */
xcc_value *xcc_integer_product(xcc_rewrite *r, xcc_node *n, const xcc_value *x, const xcc_requantized *to);
xcc_value *xcc_integer_elements(xcc_rewrite *r, xcc_node *n, const xcc_value *x, const xcc_requantized *to);
/* Gemm and MatMul of dequantized bytes with a float result (integer_products.c). */
bool xcc_integer_to_float(xcc_rewrite *r, xcc_node *n);
/* The same for pointwise Conv (integer_products.c). */
bool xcc_integer_conv_to_float(xcc_rewrite *r, xcc_node *n);
/* A scaled MatMulInteger, and an addend to it or to any product with a float result (integer_products.c). */
bool xcc_integer_dynamic(xcc_rewrite *r, xcc_node *n);
bool xcc_integer_shift(xcc_rewrite *r, xcc_node *n);
/* LSTM with dequantized weights (integer_recurrent.c). */
bool xcc_integer_lstm(xcc_rewrite *r, xcc_node *n);
/* QLinearConv and QLinearMatMul (integer_products.c). */
bool xcc_integer_qlinear_conv(xcc_rewrite *r, xcc_node *n);
bool xcc_integer_qlinear_matmul(xcc_rewrite *r, xcc_node *n);

/* Returns true if the axes are the spatial axes of a rank 4 image (integer_elements.c). */
bool xcc_is_over_images(const xcc_value *axes);
/* Replaces y by the result of a rule, if there is one. */
bool xcc_integer_replace(xcc_rewrite *r, xcc_value *y, xcc_value *made);
/* Counts a convolution or product with quantized weights that stays in floats (integer_products.c). */
void xcc_integer_count_left(xcc_module *m, const xcc_node *n);
/* The same for LSTM (integer_recurrent.c). */
void xcc_integer_count_left_lstm(xcc_module *m, const xcc_node *n);

#endif
