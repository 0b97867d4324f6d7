/* AffineGrid: the points of a regular grid, moved by a matrix for each image. */
#include "compiler/import_onnx/lower/lower.h"

enum { MOST_AXES = 3 };

/* Coordinates of `size` (a scalar of `work`) points from -1 to 1: of their centers, or with the outer ones at the
 * borders; one point is 0. */
static xcc_value *coordinates(xcc_lowering *n, xcc_value *size, bool corners)
{
    xcc_value *one = xcc_build_number(&n->b, size, 1), *two = xcc_build_number(&n->b, size, 2);
    xcc_value *i =
        xcc_build_call(&n->b, XCVM_OP_Range, 3, (xcc_value *[]){xcc_build_number(&n->b, size, 0), size, one});
    xcc_value *gaps = xcc_build_sub(&n->b, size, one);
    xcc_value *doubled = xcc_build_sub(&n->b, xcc_build_mul(&n->b, i, two), gaps);
    return xcc_build_div(&n->b, doubled, corners ? xcc_build_binary(&n->b, XCVM_OP_Max, gaps, one) : size);
}

xcvm_status xcc_lower_affine_grid(xcc_lowering *n)
{
    bool corners;
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_attribute_bool(n, "align_corners", false, &corners));
    xcc_value *theta = n->inputs[0], *size = n->inputs[1];
    const xcvm_value *t = &theta->type, *s = &size->type;
    XCVM_CHECK(n->m->error, t->kind == XCVM_KIND_TENSOR && s->kind == XCVM_KIND_TENSOR, TYPE_MISMATCH,
               "an operand is no tensor");
    XCVM_CHECK(n->m->error, t->rank < 0 || t->rank == 3, SHAPE_MISMATCH, "operand 0 has %d dimensions, 3 are needed",
               t->rank);
    const int64_t axes = t->rank == 3 && t->dims[1] >= 0   ? t->dims[1]
                         : s->rank == 1 && s->dims[0] >= 0 ? s->dims[0] - 2
                                                           : -1;
    XCVM_CHECK(n->m->error, axes >= 0, UNSUPPORTED, "the number of spatial axes is not known at compile time");
    XCVM_CHECK(n->m->error, axes == 2 || axes == MOST_AXES, SHAPE_MISMATCH,
               "the number of spatial axes is %lld; expected 2 or 3", (long long)axes);
    const xcvm_dtype dtype = (xcvm_dtype)t->dtype, work = dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32;
    const size_t count = (size_t)axes;
    xcc_value *space = xcc_build_slice(&n->b, size, 0, 2, INT64_MAX, 1);
    xcc_value *unit = xcc_build_concat(&n->b, 2, (xcc_value *[]){space, XCC_BUILD_INTS(&n->b, 1)}, 0);
    /* A point is (x, y, 1), so the last axis comes first. */
    xcc_value *columns[MOST_AXES + 1];
    for (size_t i = 0; i < count; i++) {
        const int64_t axis = 2 + axes - 1 - (int64_t)i;
        xcc_value *points =
            xcc_build_cast(&n->b, xcc_build_gather(&n->b, size, xcc_scalar_i64(n->b.graph, axis), 0), work);
        int64_t shape[MOST_AXES + 1] = {1, 1, 1, 1};
        shape[count - 1 - i] = -1;
        xcc_value *column =
            xcc_build_reshape(&n->b, coordinates(n, points, corners), xcc_build_ints(&n->b, count + 1, shape));
        columns[i] = xcc_build_expand(&n->b, column, unit);
    }
    columns[count] = xcc_build_expand(&n->b, xcc_scalar(n->b.graph, work, 1), unit);
    xcc_value *grid = xcc_build_reshape(&n->b, xcc_build_concat(&n->b, count + 1, columns, axes),
                                        XCC_BUILD_INTS(&n->b, -1, axes + 1));
    xcc_value *turned = xcc_build_transpose(&n->b, xcc_build_cast(&n->b, theta, work), 3, (const int64_t[]){0, 2, 1});
    xcc_value *moved = xcc_build_binary(&n->b, XCVM_OP_MatMul, grid, turned);
    xcc_value *images = xcc_build_slice(&n->b, size, 0, 0, 1, 1);
    xcc_value *shape = xcc_build_concat(&n->b, 3, (xcc_value *[]){images, space, XCC_BUILD_INTS(&n->b, axes)}, 0);
    return xcc_bind(n, 0, xcc_build_cast(&n->b, xcc_build_reshape_to(&n->b, moved, shape), dtype));
}
