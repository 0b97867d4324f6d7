/* Gradient of Resize: linear in x on each axis, with a matrix obtained by resampling the identity matrix, for any mode.
 */
#include "compiler/gradients/rule.h"

#define G xcc_g(d)
#define X xcc_in(d, 0)

/* Entry i of a list as a list of one element; NULL for NULL. */
static xcc_value *entry(xcc_vjp *d, xcc_value *list, int64_t i)
{
    return list != NULL ? xcc_build_gather(d->b, list, XCC_BUILD_INTS(d->b, i), 0) : NULL;
}

/* The matrix [in, out] of `axis`, which is entry i of `count` entries of the operands. */
static xcc_value *matrix_of(xcc_vjp *d, const xcvm_Resize_args *a, int axis, int64_t i, int64_t count)
{
    xcc_builder *b = d->b;
    xcc_value *size = xcc_build_dim_of(b, X, axis), *one = XCC_BUILD_INTS(b, 1);
    xcc_value *square = xcc_build_expand(b, xcc_num(d, X, 0), xcc_build_concat(b, 2, (xcc_value *[]){size, size}, 0));
    if (square == NULL)
        return NULL;
    xcc_value *unit = xcc_apply(b, EyeLike, y, .x = XCC_IN(square), .dtype = (xcvm_dtype)X->type.dtype);
    xcc_value *roi = xcc_value_of(a->roi), *scales = entry(d, xcc_value_of(a->scales), i);
    xcc_value *sizes = entry(d, xcc_value_of(a->sizes), i);
    if (roi != NULL && roi->type.rank == 1 && roi->type.dims[0] != 0)
        roi = xcc_build_concat(b, 2, (xcc_value *[]){entry(d, roi, i), entry(d, roi, i + count)}, 0);
    const int64_t along[] = {1};
    if (unit == NULL || one == NULL || (scales == NULL && sizes == NULL))
        return NULL;
    return xcc_apply(b, Resize, y, .x = XCC_IN(unit), .roi = XCC_IN(roi), .scales = XCC_IN(scales),
                     .sizes = XCC_IN(sizes), .axes = {along, 1}, .mode = a->mode,
                     .coordinate_transformation_mode = a->coordinate_transformation_mode,
                     .nearest_mode = a->nearest_mode, .antialias = a->antialias, .exclude_outside = a->exclude_outside,
                     .cubic_coeff_a = a->cubic_coeff_a);
}

/* Axis by axis, the gradient times the transposed matrix. Extrapolated elements do not depend on x. */
XCC_GRADIENT(Resize)
{
    const xcvm_Resize_args *a = XCC_ARGS(Resize, d->node);
    if (!xcc_vjp_need_rank(d, 0))
        return;
    if (a->sizes != NULL && a->keep_aspect_ratio_policy != XCVM_ASPECT_stretch) {
        xcc_refuse(d, "has no gradient yet if the aspect ratio is kept");
        return;
    }
    const int rank = X->type.rank;
    const int64_t count = a->axes.count > 0 ? (int64_t)a->axes.count : rank;
    xcc_value *g = G;
    for (int64_t i = 0; i < count && g != NULL; i++) {
        const int axis = (int)(a->axes.count == 0 ? i : a->axes.at[i] < 0 ? a->axes.at[i] + rank : a->axes.at[i]);
        const xcvm_value *scales = a->scales;
        if (scales != NULL && scales->data != NULL && XCVM_CDATA(float, scales)[i] == 1)
            continue;
        if (a->sizes != NULL && X->type.dims[axis] >= 0 && X->type.dims[axis] == xcc_out(d, 0)->type.dims[axis] &&
            a->coordinate_transformation_mode != XCVM_COORDINATE_tf_crop_and_resize)
            continue;
        int64_t perm[XCVM_MAX_RANK];
        for (int k = 0; k < rank; k++)
            perm[k] = k;
        perm[axis] = rank - 1;
        perm[rank - 1] = axis;
        xcc_value *last = xcc_build_transpose(d->b, g, (size_t)rank, perm), *matrix = matrix_of(d, a, axis, i, count);
        if (last == NULL || matrix == NULL) {
            d->failed = true;
            return;
        }
        xcc_value *product =
            xcc_apply(d->b, Gemm, y, .a = XCC_IN(last), .b = XCC_IN(matrix), .alpha = 1, .beta = 1, .transB = 1);
        g = xcc_build_transpose(d->b, product, (size_t)rank, perm);
    }
    xcc_set_gradient(d, 0, g);
}
