/* ONNX+: layers, losses and what their gradients need. */
#include "compiler/import_onnx/plus/plus.h"
#include "ops/image/sampling.h"
#include "ops/table/table.h"
#include "proto/arguments.h"

/* y = x * w transposed + b; the first n_batch_axes axes of x are rows, the others one row. */
xcvm_status xcc_lower_plus_linear(xcc_lowering *n)
{
    int64_t axes;
    XCVM_TRY(xcc_plus_need_inputs(n, 2, 3));
    XCVM_TRY(xcc_attribute_int(n, "n_batch_axes", 1, &axes));
    XCVM_CHECK(n->m->error, axes >= 1 && axes < XCVM_MAX_RANK, OUT_OF_RANGE,
               "n_batch_axes is %lld, 1 to %d is expected", (long long)axes, XCVM_MAX_RANK - 1);
    xcc_value *x = n->inputs[0], *b = NULL;
    if (!xcc_plus_is_null(n, 2) && (b = xcc_plus_input(n, 2)) == NULL)
        return xcc_failure(n);
    const bool matrix = x->type.kind == XCVM_KIND_TENSOR && x->type.rank == axes + 1;
    xcc_value *rows = matrix ? x : xcc_apply(&n->b, Flatten, y, .x = XCC_IN(x), .axis = axes);
    if (rows == NULL)
        return xcc_failure(n);
    xcc_value *y = xcc_apply(&n->b, Gemm, y, .a = XCC_IN(rows), .b = XCC_IN(n->inputs[1]), .c = XCC_IN(b), .alpha = 1,
                             .beta = 1, .transB = 1);
    if (y == NULL || matrix || axes == 1)
        return xcc_bind(n, 0, y);
    xcc_value *batch = xcc_apply(&n->b, Shape, y, .x = XCC_IN(x), .start = 0, .end = axes);
    xcc_value *shape = xcc_build_concat(&n->b, 2, (xcc_value *[]){batch, xcc_build_dim_of(&n->b, y, 1)}, 0);
    return xcc_bind(n, 0, shape != NULL ? xcc_build_reshape_to(&n->b, y, shape) : NULL);
}

xcvm_status xcc_lower_plus_relu_grad(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 2, 2));
    xcc_value *zero = xcc_build_number(&n->b, n->inputs[0], 0);
    xcc_value *off = xcc_build_binary(&n->b, XCVM_OP_LessOrEqual, n->inputs[0], zero);
    return xcc_bind(n, 0,
                    xcc_build_call(&n->b, XCVM_OP_Where, 3,
                                   (xcc_value *[]){off, xcc_build_number(&n->b, n->inputs[1], 0), n->inputs[1]}));
}

xcvm_status xcc_lower_plus_square(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 1, 1));
    return xcc_bind(n, 0, xcc_build_mul(&n->b, n->inputs[0], n->inputs[0]));
}

/* Reverses a broadcast: sums over the axes in which x is larger than shape, and over axes that shape lacks. */
xcvm_status xcc_lower_plus_reduce_sum_to(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 2, 2));
    xcc_value *x = n->inputs[0], *to = xcc_build_cast(&n->b, n->inputs[1], XCVM_I64),
              *from = xcc_build_shape_of(&n->b, x);
    if (to != NULL && to->type.rank != 1)
        to = xcc_build_reshape(&n->b, to, XCC_BUILD_INTS(&n->b, -1));
    xcc_value *missing =
        xcc_build_sub(&n->b, xcc_plus_vector(n, xcc_build_rank_of(&n->b, x)), xcc_build_dim_of(&n->b, to, 0));
    xcc_value *ones = xcc_build_expand(&n->b, xcc_scalar_i64(n->b.graph, 1), missing);
    xcc_value *padded = xcc_build_concat(&n->b, 2, (xcc_value *[]){ones, to}, 0);
    xcc_value *differs = xcc_build_unary(&n->b, XCVM_OP_Not, xcc_build_binary(&n->b, XCVM_OP_Equal, from, padded));
    xcc_value *axes =
        xcc_build_reshape(&n->b, xcc_build_unary(&n->b, XCVM_OP_NonZero, differs), XCC_BUILD_INTS(&n->b, -1));
    if (axes == NULL)
        return xcc_failure(n);
    xcc_value *y =
        xcc_apply(&n->b, ReduceSum, y, .x = XCC_IN(x), .axes = XCC_IN(axes), .keepdims = 1, .noop_with_empty_axes = 1);
    return xcc_bind(n, 0, xcc_build_reshape_to(&n->b, y, to));
}

/* ROIMaxPool2D, ROIAveragePool2D, ROIMaxAlign2D and ROIAverageAlign2D. */
static xcvm_status lower_regions(xcc_lowering *n, int mode, bool align)
{
    xcvm_ints shape, samples = {NULL, 0};
    double scale;
    XCVM_TRY(xcc_plus_need_inputs(n, 3, 3));
    XCVM_TRY(xcc_attribute_ints(n, "output_shape", &shape));
    XCVM_TRY(xcc_attribute_float(n, "spatial_scale", 1, &scale));
    XCVM_CHECK(n->m->error, shape.count == 2 && shape.at[0] > 0 && shape.at[1] > 0, INVALID_MODEL,
               "attribute 'output_shape' must be a height and a width");
    if (align) {
        static const int64_t each_pixel[2] = {0, 0};
        XCVM_TRY(xcc_attribute_ints(n, "sampling_ratio", &samples));
        XCVM_CHECK(n->m->error, samples.count == 0 || samples.count == 2, INVALID_MODEL,
                   "attribute 'sampling_ratio' has %zu entries, 2 are needed", samples.count);
        if (samples.count == 0)
            samples = (xcvm_ints){each_pixel, 2};
        for (size_t i = 0; i < 2; i++)
            XCVM_CHECK(n->m->error, samples.at[i] >= 0 && samples.at[i] <= XCVM_MOST_SAMPLES, OUT_OF_RANGE,
                       "attribute 'sampling_ratio' is %lld, 0 to %d is expected", (long long)samples.at[i],
                       XCVM_MOST_SAMPLES);
    }
    XCVM_CHECK(n->m->error, shape.at[0] <= INT32_MAX && shape.at[1] <= INT32_MAX, OUT_OF_RANGE,
               "attribute 'output_shape' is too large");
    return xcc_bind(n, 0,
                    xcc_apply(&n->b, RoiPool, y, .x = XCC_IN(n->inputs[0]), .rois = XCC_IN(n->inputs[1]),
                              .batch_indices = XCC_IN(n->inputs[2]), .mode = mode, .output_height = shape.at[0],
                              .output_width = shape.at[1], .samples = samples, .spatial_scale = scale));
}

xcvm_status xcc_lower_plus_roi_max_pool(xcc_lowering *n) { return lower_regions(n, XCVM_ROI_MODE_max, false); }
xcvm_status xcc_lower_plus_roi_average_pool(xcc_lowering *n) { return lower_regions(n, XCVM_ROI_MODE_avg, false); }
xcvm_status xcc_lower_plus_roi_max_align(xcc_lowering *n) { return lower_regions(n, XCVM_ROI_MODE_max, true); }
xcvm_status xcc_lower_plus_roi_average_align(xcc_lowering *n) { return lower_regions(n, XCVM_ROI_MODE_avg, true); }

/* Bilinear, the corners of both images in the same places. */
xcvm_status xcc_lower_plus_resize_images(xcc_lowering *n)
{
    static const int64_t axes[2] = {2, 3};
    xcvm_ints shape;
    XCVM_TRY(xcc_plus_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_ints(n, "output_shape", &shape));
    XCVM_CHECK(n->m->error, shape.count == 2, INVALID_MODEL, "attribute 'output_shape' must be a height and a width");
    xcc_value *sizes = xcc_build_ints(&n->b, 2, shape.at);
    if (sizes == NULL)
        return xcc_failure(n);
    xcvm_Resize_args args;
    xcvm_args_default(xcvm_schema_of(XCVM_OP_Resize), &args);
    args.x = XCC_IN(n->inputs[0]);
    args.sizes = XCC_IN(sizes);
    args.axes = (xcvm_ints){axes, 2};
    args.mode = XCVM_RESIZE_MODE_linear;
    args.coordinate_transformation_mode = XCVM_COORDINATE_align_corners;
    return xcc_bind(n, 0, xcc_apply_at(&n->b, XCVM_OP_Resize, &args, offsetof(xcvm_Resize_args, y)));
}

/* Zeros are added until there are `size` samples; that there were not more shows when the result is reshaped. */
xcvm_status xcc_lower_plus_pad_batch_size(xcc_lowering *n)
{
    int64_t size;
    XCVM_TRY(xcc_plus_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_int(n, "size", -1, &size));
    XCVM_CHECK(n->m->error, size >= 0, INVALID_MODEL, "attribute 'size' is missing or below 0");
    xcc_value *x = n->inputs[0], *zero = XCC_BUILD_INTS(&n->b, 0);
    xcc_value *wanted = xcc_build_ints(&n->b, 1, &size),
              *more = xcc_build_sub(&n->b, wanted, xcc_build_dim_of(&n->b, x, 0));
    xcc_value *pads =
        xcc_build_concat(&n->b, 2, (xcc_value *[]){zero, xcc_build_binary(&n->b, XCVM_OP_Max, more, zero)}, 0);
    if (pads == NULL)
        return xcc_failure(n);
    xcc_value *y = xcc_apply(&n->b, Pad, y, .x = XCC_IN(x), .pads = XCC_IN(pads), .axes = XCC_IN(zero));
    xcc_value *rest = xcc_build_slice(&n->b, xcc_build_shape_of(&n->b, x), 0, 1, INT64_MAX, 1);
    return xcc_bind(n, 0, xcc_build_reshape_to(&n->b, y, xcc_build_concat(&n->b, 2, (xcc_value *[]){wanted, rest}, 0)));
}

/* One element of each row. */
xcvm_status xcc_lower_plus_select_item(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 2, 2));
    static const int64_t last[1] = {1};
    xcc_value *indices = xcc_build_unsqueeze(&n->b, n->inputs[1], 1, last);
    if (indices == NULL)
        return xcc_failure(n);
    xcc_value *y =
        xcc_apply(&n->b, GatherElements, y, .x = XCC_IN(n->inputs[0]), .indices = XCC_IN(indices), .axis = 1);
    return xcc_bind(n, 0, y != NULL ? xcc_build_squeeze(&n->b, y, 1, last) : NULL);
}

/* The mean loss over the samples whose label is not -1. */
xcvm_status xcc_lower_plus_softmax_cross_entropy(xcc_lowering *n)
{
    XCVM_TRY(xcc_plus_need_inputs(n, 2, 2));
    xcc_value *log_prob = xcc_apply(&n->b, LogSoftmax, y, .x = XCC_IN(n->inputs[0]), .axis = 1);
    if (log_prob == NULL)
        return xcc_failure(n);
    return xcc_bind(n, 0,
                    xcc_apply(&n->b, NegativeLogLikelihoodLoss, y, .x = XCC_IN(log_prob),
                              .target = XCC_IN(n->inputs[1]), .ignore_index = -1,
                              .reduction = XCVM_LOSS_REDUCTION_mean));
}
