/* Casts between numbers and strings. */
#ifndef XCVM_OPS_ELEMENTWISE_CAST_TEXT_H
#define XCVM_OPS_ELEMENTWISE_CAST_TEXT_H

#include "ops/util/kernel.h"

/* y = x, at least one of which is a string tensor. y has type, shape and, unless it has strings, memory.
 *
 * Numbers are formatted as NumPy does: the shortest decimal that reads back as the same number, with an exponent below
 * 1e-4 and from 1e16, but "NaN", "INF" and "-INF" as in ONNX. bool gives "True" and "False". Text is parsed as ONNX
 * defines, with surrounding spaces allowed: decimals with or without exponent, "nan", "inf" and "infinity" in any case,
 * and for bool also "true" and "false". Fractions truncate for integers. Other text fails. */
xcvm_status xcvm_cast_strings(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x);

#endif
