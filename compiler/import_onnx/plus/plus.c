/* Operands of ONNX+ operators. */
#include "compiler/import_onnx/plus/plus.h"

static bool is_null(const xcc_value *v)
{
    return v == NULL || (xcc_is(v->producer, XCVM_OP_Optional) && XCC_ARGS(Optional, v->producer)->xs.count == 0);
}

bool xcc_plus_is_null(const xcc_lowering *n, size_t i) { return is_null(xcc_input(n, i)); }

xcc_value *xcc_plus_input(xcc_lowering *n, size_t i)
{
    xcc_value *v = xcc_input(n, i);
    if (is_null(v))
        return NULL;
    return v->type.kind == XCVM_KIND_OPTIONAL ? xcc_build_unary(&n->b, XCVM_OP_OptionalGetElement, v) : v;
}

xcvm_status xcc_plus_need_inputs(xcc_lowering *n, size_t least, size_t most)
{
    XCVM_TRY(xcc_need_inputs(n, least, most));
    for (size_t i = 0; i < least; i++) {
        XCVM_CHECK(n->m->error, !xcc_plus_is_null(n, i), TYPE_MISMATCH, "operand %zu is null", i);
        if ((n->inputs[i] = xcc_plus_input(n, i)) == NULL)
            return xcc_failure(n);
    }
    return XCVM_OK;
}

xcvm_status xcc_plus_need_kind(const xcc_lowering *n, const xcc_value *v, xcvm_kind kind)
{
    char text[192];
    XCVM_CHECK(n->m->error, v->type.kind == kind, TYPE_MISMATCH, "%s is %s, a %s is needed", v->name,
               xcvm_value_describe(&v->type, text, sizeof text), kind == XCVM_KIND_TENSOR ? "tensor" : "sequence");
    return XCVM_OK;
}

xcc_value *xcc_plus_scalar(xcc_lowering *n, xcc_value *v)
{
    v = xcc_build_cast(&n->b, v, XCVM_I64);
    return v == NULL || v->type.rank == 0 ? v : xcc_build_reshape(&n->b, v, xcc_build_ints(&n->b, 0, NULL));
}

xcc_value *xcc_plus_vector(xcc_lowering *n, xcc_value *v)
{
    v = xcc_build_cast(&n->b, v, XCVM_I64);
    return v == NULL || (v->type.rank == 1 && v->type.dims[0] == 1)
               ? v
               : xcc_build_reshape(&n->b, v, XCC_BUILD_INTS(&n->b, 1));
}

xcc_value *xcc_plus_stack(xcc_lowering *n, xcc_value *sequence, int64_t axis)
{
    return sequence == NULL
               ? NULL
               : xcc_apply(&n->b, ConcatFromSequence, y, .s = XCC_IN(sequence), .axis = axis, .new_axis = 1);
}
