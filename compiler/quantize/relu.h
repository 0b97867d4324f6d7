/* Relu and Clip that saturation stands for. */
#ifndef XCVM_COMPILER_QUANTIZE_RELU_H
#define XCVM_COMPILER_QUANTIZE_RELU_H

#include "compiler/quantize/quantize.h"

/* Whether n is a Relu or Clip, the epilogue of a node that is quantized, which QuantizeLinear behind it does anyway, as
 * its integers end where n's bounds are. */
bool xcc_relu_is_implied(const quantizer *q, const xcc_quant_node *n);

#endif
