/* Lowering of resampling. Upsample and the first Resize place samples as coordinate_transformation_mode=asymmetric
 * does. */
#include "compiler/import_onnx/lower/lower.h"

static xcc_value *resample(xcc_lowering *n, xcc_value *x, xcc_value *scales, int mode, int nearest)
{
    if (x == NULL || scales == NULL)
        return NULL;
    return xcc_apply(&n->b, Resize, y, .x = XCC_IN(x), .scales = XCC_IN(scales), .mode = mode,
                     .coordinate_transformation_mode = XCVM_COORDINATE_asymmetric, .nearest_mode = nearest,
                     .cubic_coeff_a = -0.75);
}

static xcc_value *scale_list(xcc_lowering *n, size_t count, const float *scales)
{
    const int64_t dim = (int64_t)count;
    return xcc_literal(xcc_constant(n->b.graph, NULL, XCVM_F32, 1, &dim, scales, false));
}

/* Nearest samples are rounded down where the tensor grows and up where it shrinks. */
static xcc_value *resample_nearest(xcc_lowering *n, xcc_value *x, xcc_value *scales)
{
    float up[XCVM_MAX_RANK], down[XCVM_MAX_RANK];
    bool grows = false, shrinks = false;
    if (scales == NULL)
        return NULL;
    size_t count = xcc_is_constant(scales) ? xcvm_element_count(&scales->type) : 0;
    if (count > XCVM_MAX_RANK || scales->type.dtype != XCVM_F32)
        count = 0;
    if (!xcc_is_constant(scales)) {
        xcc_value *one = xcc_build_number(&n->b, scales, 1);
        xcc_value *grown = resample(n, x, xcc_build_binary(&n->b, XCVM_OP_Max, scales, one), XCVM_RESIZE_MODE_nearest,
                                    XCVM_NEAREST_floor);
        return resample(n, grown, xcc_build_binary(&n->b, XCVM_OP_Min, scales, one), XCVM_RESIZE_MODE_nearest,
                        XCVM_NEAREST_ceil);
    }
    for (size_t i = 0; i < count; i++) {
        float scale = XCVM_CDATA(float, &scales->type)[i];
        up[i] = scale < 1 ? 1 : scale;
        down[i] = scale < 1 ? scale : 1;
        grows = grows || scale > 1;
        shrinks = shrinks || scale < 1;
    }
    if (!shrinks)
        return resample(n, x, scales, XCVM_RESIZE_MODE_nearest, XCVM_NEAREST_floor);
    if (!grows)
        return resample(n, x, scales, XCVM_RESIZE_MODE_nearest, XCVM_NEAREST_ceil);
    xcc_value *grown = resample(n, x, scale_list(n, count, up), XCVM_RESIZE_MODE_nearest, XCVM_NEAREST_floor);
    return resample(n, grown, scale_list(n, count, down), XCVM_RESIZE_MODE_nearest, XCVM_NEAREST_ceil);
}

static xcvm_status lower_old(xcc_lowering *n, xcc_value *scales)
{
    xcvm_text mode;
    if (scales == NULL)
        return xcc_failure(n);
    XCVM_TRY(xcc_attribute_text(n, "mode", "nearest", &mode));
    xcc_parameter_fix(scales);
    if (xcc_text_is(mode, "nearest"))
        return xcc_bind(n, 0, resample_nearest(n, n->inputs[0], scales));
    XCVM_CHECK(n->m->error, xcc_text_is(mode, "linear") || xcc_text_is(mode, "bilinear"), UNSUPPORTED,
               "attribute 'mode' is '%.40s', nearest or linear is expected", mode.at);
    return xcc_bind(n, 0, resample(n, n->inputs[0], scales, XCVM_RESIZE_MODE_linear, XCVM_NEAREST_floor));
}

xcvm_status xcc_lower_upsample(xcc_lowering *n)
{
    if (n->version >= 9) {
        XCVM_TRY(xcc_need_inputs(n, 2, 2));
        return lower_old(n, n->inputs[1]);
    }
    float scales[XCVM_MAX_RANK];
    size_t count;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    if (n->version >= 7) {
        xcvm_floats given;
        XCVM_TRY(xcc_attribute_floats(n, "scales", &given));
        XCVM_CHECK(n->m->error, given.count > 0 && given.count <= XCVM_MAX_RANK, INVALID_MODEL,
                   "attribute 'scales' has %zu entries, one for each dimension is needed", given.count);
        count = given.count;
        for (size_t i = 0; i < count; i++)
            scales[i] = (float)given.at[i];
    } else {
        double height, width;
        XCVM_TRY(xcc_attribute_float(n, "height_scale", 1, &height));
        XCVM_TRY(xcc_attribute_float(n, "width_scale", 1, &width));
        count = 4;
        scales[0] = scales[1] = 1;
        scales[2] = (float)height;
        scales[3] = (float)width;
    }
    return lower_old(n, scale_list(n, count, scales));
}

xcvm_status xcc_lower_resize(xcc_lowering *n)
{
    if (n->version < 11) {
        XCVM_TRY(xcc_need_inputs(n, 2, 2));
        return lower_old(n, n->inputs[1]);
    }
    /* An omitted operand may be a tensor without elements. */
    bool by_sizes = xcc_input(n, 3) != NULL && !xcc_is_empty_constant(n->inputs[3]);
    for (size_t i = 1; i < 4; i++)
        if (i < n->input_count && (xcc_is_empty_constant(n->inputs[i]) || (i == 2 && by_sizes)))
            n->inputs[i] = NULL;
    XCC_ONE_TO_ONE_ARGS(n, Resize, args);
    XCVM_CHECK(n->m->error, args.scales != NULL || args.sizes != NULL, INVALID_MODEL,
               "the operands scales and sizes are both missing");
    if (args.coordinate_transformation_mode != XCVM_COORDINATE_tf_crop_and_resize)
        args.roi = NULL;
    else
        XCVM_CHECK(n->m->error, args.roi != NULL, INVALID_MODEL, "tf_crop_and_resize needs operand 1 (roi)");
    return XCC_EMIT_ONE_TO_ONE(n, Resize, args);
}
