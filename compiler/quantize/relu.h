/* Relu and Clip that saturation of integers replaces. */
#ifndef XCVM_COMPILER_QUANTIZE_RELU_H
#define XCVM_COMPILER_QUANTIZE_RELU_H

#include "compiler/quantize/quantize.h"

/* Returns true if n is a Relu or Clip after a quantized node, and the range of integers of the following QuantizeLinear
 * ends at the bounds of n, so that n has no effect. */
bool xcc_relu_is_implied(const quantizer *q, const xcc_quant_node *n);

#endif
