/* Sequences and optionals without operands, whose type an attribute says. */
#include "compiler/import_onnx/lower/lower.h"

xcvm_status xcc_lower_sequence_empty(xcc_lowering *n)
{
    xcvm_dtype dtype;
    XCVM_TRY(xcc_need_inputs(n, 0, 0));
    XCVM_TRY(xcc_attribute_dtype(n, "dtype", XCVM_F32, &dtype));
    return xcc_bind(n, 0, xcc_apply(&n->b, SequenceConstruct, y, .dtype = dtype));
}

/* An empty optional holds nothing that had a type. */
xcvm_status xcc_lower_optional(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 0, 1));
    xcc_attribute_ignore(n, "type");
    return xcc_lower_one_to_one(n);
}
