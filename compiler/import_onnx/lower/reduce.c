/* Lowering of reductions. */
#include "compiler/import_onnx/lower/lower.h"

/* The axes of ReduceSum became an operand with opset 13, those of the others with 18. No axes are all axes. */
static xcvm_status reduction_axes(xcc_lowering *n, int64_t since)
{
    XCVM_TRY(xcc_attribute_to_input(n, "axes", 1, since));
    if (n->version < since && xcc_is_empty_constant(xcc_input(n, 1)))
        n->inputs[1] = NULL;
    return XCVM_OK;
}

xcvm_status xcc_lower_reduce(xcc_lowering *n)
{
    XCVM_TRY(reduction_axes(n, strcmp(n->op->info.name, "ReduceSum") == 0 ? 13 : 18));
    return xcc_lower_one_to_one(n);
}

/* For integers the logarithm of their sum, which wraps around like ReduceSum's, is rounded towards zero. */
xcvm_status xcc_lower_reduce_log_sum(xcc_lowering *n)
{
    bool keepdims, noop;
    XCVM_TRY(reduction_axes(n, 18));
    XCVM_TRY(xcc_need_inputs(n, 1, 2));
    XCVM_TRY(xcc_attribute_bool(n, "keepdims", true, &keepdims));
    XCVM_TRY(xcc_attribute_bool(n, "noop_with_empty_axes", false, &noop));
    xcc_value *sum = xcc_apply(&n->b, ReduceSum, y, .x = XCC_IN(n->inputs[0]), .axes = XCC_IN(xcc_input(n, 1)),
                               .keepdims = keepdims, .noop_with_empty_axes = noop);
    if (sum == NULL)
        return xcc_failure(n);
    const xcvm_dtype dtype = (xcvm_dtype)sum->type.dtype;
    xcc_value *wide = xcvm_dtype_in(dtype, XCVM_TYPES_INT) ? xcc_build_cast(&n->b, sum, XCVM_F64) : sum;
    return xcc_bind(n, 0, xcc_build_cast(&n->b, xcc_build_unary(&n->b, XCVM_OP_Log, wide), dtype));
}
