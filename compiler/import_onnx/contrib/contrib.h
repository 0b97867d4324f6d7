/* Helpers for lowerings of ONNX Runtime's contributed operators (domain com.microsoft, and the other domains that it
 * writes). */
#ifndef XCVM_COMPILER_IMPORT_ONNX_CONTRIB_CONTRIB_H
#define XCVM_COMPILER_IMPORT_ONNX_CONTRIB_CONTRIB_H

#include "compiler/import_onnx/lower/lower.h"

/* The activation of that name ("": none) of x; `params` are its parameters, with defaults for missing ones. */
xcc_value *xcc_contrib_activate(xcc_lowering *n, const char *name, xcvm_floats params, xcc_value *x);
/* x with bias added, which may be NULL: left out. */
xcc_value *xcc_contrib_biased(xcc_lowering *n, xcc_value *x, xcc_value *bias);
/* An image [batch, ..., channels] as [batch, channels, ...], and back. */
xcc_value *xcc_contrib_channels_first(xcc_lowering *n, xcc_value *x);
xcc_value *xcc_contrib_channels_last(xcc_lowering *n, xcc_value *x);
/* Fails if the rank of the tensor is known and outside of the range. */
xcvm_status xcc_contrib_need_ranks(const xcc_lowering *n, const xcc_value *x, const char *what, int least, int most);
/* Reads a required attribute, which must be in the range. */
xcvm_status xcc_contrib_need_int(xcc_lowering *n, const char *name, int64_t least, int64_t most, int64_t *value);

/* ---- Quantized values (quantized.c) ---- */

/* Fail unless x has bytes, or operand i is there. */
xcvm_status xcc_contrib_need_byte(const xcc_lowering *n, const xcc_value *x, const char *what);
xcvm_status xcc_contrib_need_operand(const xcc_lowering *n, size_t i, const char *what);

/* (x - zero_point) * scale; zero_point NULL: 0. Scales and zero points of one element may have any rank. */
xcc_value *xcc_contrib_dequantized(xcc_lowering *n, xcc_value *x, xcc_value *scale, xcc_value *zero_point,
                                   int64_t axis);
/* Bits of bytes, low ones first: [..., k] of u8 to [..., k * 8 / bits]. */
xcc_value *xcc_contrib_unpacked(xcc_lowering *n, xcc_value *bytes, int64_t bits);

/* ---- Attention (attention.c) ---- */

/* The common form of Attention, MultiHeadAttention, and their quantized and packed variants. */
typedef struct xcc_contrib_attention {
    xcc_value *q, *k, *v; /* of rank 3, heads side by side, or of rank 4, [batch, heads, length, size] */
    xcc_value *mask;      /* ONNX Runtime's key padding mask or mask index; NULL: none */
    xcc_value *bias;      /* added to the scores; NULL: none */
    xcc_value *past_key, *past_value;
    int64_t heads;
    double scale, mask_filter;
    bool causal;
    xcc_value *y, *present_key, *present_value, *qk; /* results */
    bool want_qk;
} xcc_contrib_attention;
/* Reads num_heads, scale, mask_filter_value and unidirectional. */
xcvm_status xcc_contrib_read_attention(xcc_lowering *n, xcc_contrib_attention *a);
xcvm_status xcc_contrib_attend(xcc_lowering *n, xcc_contrib_attention *a);
/* The columns of a product of queries, keys and values, whose widths the attribute qkv_hidden_sizes says, or which are
 * equal. */
xcvm_status xcc_contrib_split_columns(xcc_lowering *n, xcc_value *product, xcc_contrib_attention *a);
/* Keys and values of `past` [2, ...], if it is there; and the present ones stacked likewise as result 1, if wanted. */
xcvm_status xcc_contrib_split_past(xcc_lowering *n, xcc_value *past, xcc_contrib_attention *a);
xcvm_status xcc_contrib_bind_present(xcc_lowering *n, const xcc_contrib_attention *a);

#endif
