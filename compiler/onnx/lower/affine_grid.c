/* AffineGrid: the points of a regular grid, moved by a matrix for each image. */
#include "compiler/onnx/lower/lower.h"

enum { MOST_AXES = 3 };

/* Coordinates of `size` (a scalar of `work`) points from -1 to 1: of their centres, or with the outer ones at the
 * borders; one point is 0. */
static xcc_value *coordinates(xcc_lowering *n, xcc_value *size, bool corners)
{
    xcc_value *one = xcc_low_number(n, size, 1), *two = xcc_low_number(n, size, 2);
    xcc_value *i = xcc_low_call(n, XCVM_OP_Range, 3, (xcc_value *[]){xcc_low_number(n, size, 0), size, one});
    xcc_value *gaps = xcc_low_sub(n, size, one);
    xcc_value *doubled = xcc_low_sub(n, xcc_low_mul(n, i, two), gaps);
    return xcc_low_div(n, doubled, corners ? xcc_low_binary(n, XCVM_OP_Max, gaps, one) : size);
}

xcvm_status xcc_lower_affine_grid(xcc_lowering *n)
{
    bool corners;
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_attribute_bool(n, "align_corners", false, &corners));
    xcc_value *theta = n->inputs[0], *size = n->inputs[1];
    const xcvm_value *t = &theta->type, *s = &size->type;
    XCC_NEED(n, t->kind == XCVM_KIND_TENSOR && s->kind == XCVM_KIND_TENSOR, TYPE_MISMATCH, "an operand is no tensor");
    XCC_NEED(n, t->rank < 0 || t->rank == 3, SHAPE_MISMATCH, "operand 0 has %d dimensions, 3 are needed", t->rank);
    const int64_t axes = t->rank == 3 && t->dims[1] >= 0   ? t->dims[1]
                         : s->rank == 1 && s->dims[0] >= 0 ? s->dims[0] - 2
                                                           : -1;
    XCC_NEED(n, axes >= 0, UNSUPPORTED, "the number of spatial axes is not known at compile time");
    XCC_NEED(n, axes == 2 || axes == MOST_AXES, SHAPE_MISMATCH, "there are %lld spatial axes, 2 or 3 are needed",
             (long long)axes);
    const xcvm_dtype dtype = (xcvm_dtype)t->dtype, work = dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32;
    const size_t count = (size_t)axes;
    xcc_value *space = xcc_low_slice(n, size, 0, 2, INT64_MAX, 1);
    xcc_value *unit = xcc_low_concat(n, 2, (xcc_value *[]){space, XCC_LOW_INTS(n, 1)}, 0);
    /* A point is (x, y, 1), so the last axis comes first. */
    xcc_value *columns[MOST_AXES + 1];
    for (size_t i = 0; i < count; i++) {
        const int64_t axis = 2 + axes - 1 - (int64_t)i;
        xcc_value *points = xcc_low_cast(n, xcc_low_gather(n, size, xcc_scalar_i64(n->b.graph, axis), 0), work);
        int64_t shape[MOST_AXES + 1] = {1, 1, 1, 1};
        shape[count - 1 - i] = -1;
        xcc_value *column = xcc_low_reshape(n, coordinates(n, points, corners), xcc_low_ints(n, count + 1, shape));
        columns[i] = xcc_low_expand(n, column, unit);
    }
    columns[count] = xcc_low_expand(n, xcc_scalar(n->b.graph, work, 1), unit);
    xcc_value *grid = xcc_low_reshape(n, xcc_low_concat(n, count + 1, columns, axes), XCC_LOW_INTS(n, -1, axes + 1));
    xcc_value *turned = xcc_low_transpose(n, xcc_low_cast(n, theta, work), 3, (const int64_t[]){0, 2, 1});
    xcc_value *moved = xcc_low_binary(n, XCVM_OP_MatMul, grid, turned);
    xcc_value *images = xcc_low_slice(n, size, 0, 0, 1, 1);
    xcc_value *shape = xcc_low_concat(n, 3, (xcc_value *[]){images, space, XCC_LOW_INTS(n, axes)}, 0);
    return xcc_bind(n, 0, xcc_low_cast(n, xcc_low_reshape_to(n, moved, shape), dtype));
}
