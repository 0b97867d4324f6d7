/* Casting between numbers and strings. */
#ifndef XCVM_OPS_ELEMENTWISE_CAST_TEXT_H
#define XCVM_OPS_ELEMENTWISE_CAST_TEXT_H

#include "ops/util/kernel.h"

/* y = x, of which at least one is a tensor of strings; y has its type and shape, and memory unless it is strings.
 *
 * Numbers become text as NumPy writes them, the shortest decimal that reads back as the same number, with an exponent
 * below 1e-4 and from 1e16 on, but "NaN", "INF" and "-INF" as ONNX has them; bool becomes "True" and "False". Text
 * becomes a number as ONNX says, spaces around it allowed: decimals, with or without exponent, "nan", "inf" and
 * "infinity" in any case, and for bool also "true" and "false"; a fraction is cut off for integers. Other text fails.
 */
xcvm_status xcvm_cast_strings(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x);

#endif
