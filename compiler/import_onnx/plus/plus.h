/* ONNX+, Chainer Compiler's operators (domain org.chainer): what their lowerings share. */
#ifndef XCVM_COMPILER_IMPORT_ONNX_PLUS_PLUS_H
#define XCVM_COMPILER_IMPORT_ONNX_PLUS_PLUS_H

#include "compiler/import_onnx/lower/lower.h"

/* Returns true if operand i is omitted, or a value known to be null (NullConstant). */
bool xcc_plus_is_null(const xcc_lowering *n, size_t i);
/* Returns operand i, or its content if it is an optional; NULL if it is omitted, or known to be null. Only the module's
 * error shows a failure. */
xcc_value *xcc_plus_input(xcc_lowering *n, size_t i);
/* The same for operands 0 up to `least`, in n->inputs, which must be present; at most `most` are allowed. */
xcvm_status xcc_plus_need_inputs(xcc_lowering *n, size_t least, size_t most);
/* INVALID_MODEL with TYPE_MISMATCH unless it is known to be of that kind. */
xcvm_status xcc_plus_need_kind(const xcc_lowering *n, const xcc_value *v, xcvm_kind kind);
/* An integer, given as a tensor of one element of any integer type, as an i64 tensor of rank 0 or of shape [1]. */
xcc_value *xcc_plus_scalar(xcc_lowering *n, xcc_value *v);
xcc_value *xcc_plus_vector(xcc_lowering *n, xcc_value *v);
/* The items of a sequence as one tensor, stacked along a new axis. */
xcc_value *xcc_plus_stack(xcc_lowering *n, xcc_value *sequence, int64_t axis);

#endif
