/* Parts that the written forms share: Relu and Clip that saturation stands for, and constants as activations. */
#ifndef XCVM_COMPILER_QUANTIZE_RELU_H
#define XCVM_COMPILER_QUANTIZE_RELU_H

#include "compiler/quantize/model_writer.h"

/* Whether n is a Relu or Clip, the epilogue of a node that is quantised, which QuantizeLinear behind it does anyway, as
 * its integers end where n's bounds are. */
bool xcc_relu_is_implied(const quantizer *q, const xcc_quant_node *n);
/* Puts a constant as integers of its scale, under t->quantised_name. */
xcvm_status xcc_quant_constant(xcc_model_writer *w, xcc_quant_tensor *t, xcc_tensor *shape);
/* Puts weights and bias of a node as integers and what DequantizeLinear makes of them, whose names become `inputs`, for
 * which there is room up to the third (write_qdq.c). */
xcvm_status xcc_put_dequantised(xcc_model_writer *w, const xcc_quant_node *n, const char **inputs, size_t *input_count);

#endif
