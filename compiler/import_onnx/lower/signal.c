/* Lowering of window functions and Fourier transforms. */
#include "compiler/import_onnx/lower/lower.h"

/* a - b cos(2 pi i / N) + c cos(4 pi i / N) for i from 0 to size - 1; N is size, or size - 1 where the window is
 * symmetric. Coefficients of ONNX's operators. */
xcvm_status xcc_lower_window(xcc_lowering *n)
{
    static const struct {
        const char *name;
        double a, b, c;
    } windows[] = {{"HannWindow", 0.5, 0.5, 0},
                   {"HammingWindow", 25.0 / 46.0, 21.0 / 46.0, 0},
                   {"BlackmanWindow", 0.42, 0.5, 0.08}};
    static const double pi = 3.14159265358979323846;
    bool periodic;
    xcvm_dtype dtype;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_bool(n, "periodic", true, &periodic));
    XCVM_TRY(xcc_attribute_dtype(n, "output_datatype", XCVM_F32, &dtype));
    size_t kind = 0;
    while (strcmp(windows[kind].name, n->op->info.name) != 0)
        kind++;
    xcc_graph *g = n->b.graph;
    const xcvm_dtype work = dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32;
    xcc_value *size = xcc_build_cast(&n->b, n->inputs[0], work), *one = xcc_scalar(g, work, 1);
    /* The operator's size may be a list of one. */
    if (size != NULL && size->type.rank != 0)
        size = xcc_build_reshape(&n->b, size, xcc_build_ints(&n->b, 0, NULL));
    xcc_value *i = xcc_build_call(&n->b, XCVM_OP_Range, 3, (xcc_value *[]){xcc_scalar(g, work, 0), size, one});
    xcc_value *length = periodic ? size : xcc_build_sub(&n->b, size, one);
    xcc_value *angle = xcc_build_div(&n->b, xcc_build_mul(&n->b, i, xcc_scalar(g, work, 2 * pi)), length);
    xcc_value *cosine =
        xcc_build_mul(&n->b, xcc_build_unary(&n->b, XCVM_OP_Cos, angle), xcc_scalar(g, work, windows[kind].b));
    xcc_value *y = xcc_build_sub(&n->b, xcc_scalar(g, work, windows[kind].a), cosine);
    if (windows[kind].c != 0) {
        xcc_value *twice = xcc_build_unary(&n->b, XCVM_OP_Cos, xcc_build_mul(&n->b, angle, xcc_scalar(g, work, 2)));
        y = xcc_build_add(&n->b, y, xcc_build_mul(&n->b, twice, xcc_scalar(g, work, windows[kind].c)));
    }
    return xcc_bind(n, 0, xcc_build_cast(&n->b, y, dtype));
}

/* The axis became an operand with opset 20, and its default another one. */
xcvm_status xcc_lower_dft(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 1, n->version < 20 ? 2 : 3));
    if (n->version < 20) {
        int64_t axis;
        XCVM_TRY(xcc_attribute_int(n, "axis", 1, &axis));
        XCVM_TRY(xcc_set_input(n, 2, xcc_scalar_i64(n->b.graph, axis)));
    } else if (xcc_input(n, 2) == NULL) {
        XCVM_TRY(xcc_set_input(n, 2, xcc_scalar_i64(n->b.graph, -2)));
    }
    return xcc_lower_one_to_one(n);
}

xcvm_status xcc_lower_mel_weight_matrix(xcc_lowering *n)
{
    XCC_ONE_TO_ONE_ARGS(n, MelWeightMatrix, args);
    XCVM_TRY(xcc_attribute_dtype(n, "output_datatype", XCVM_F32, &args.dtype));
    return XCC_EMIT_ONE_TO_ONE(n, MelWeightMatrix, args);
}
