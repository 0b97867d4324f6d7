/* Gradient of Col2Im: reads the blocks at the positions where they were added. */
#include "compiler/gradients/rule.h"

#define G xcc_g(d)
#define X xcc_in(d, 0)

enum { SPATIAL = XCVM_MAX_RANK - 2 };

/* A list of `count` entries, or its default if it is empty. */
static xcvm_ints complete(xcvm_ints given, size_t count, const int64_t *otherwise)
{
    return given.count > 0 ? given : (xcvm_ints){otherwise, count};
}

/* A convolution with the rows of the identity matrix as filters extracts each position of the block. */
XCC_GRADIENT(Col2Im)
{
    static const int64_t ones[SPATIAL] = {1, 1, 1, 1, 1, 1}, zeros[2 * SPATIAL];
    const xcvm_Col2Im_args *a = XCC_ARGS(Col2Im, d->node);
    xcc_builder *b = d->b;
    xcc_value *block = xcc_in(d, 2);
    if (block->type.rank != 1 || block->type.dims[0] < 1 || block->type.dims[0] > SPATIAL) {
        xcc_refuse(d, "has a gradient that needs the number of axes of a block, which is not known");
        return;
    }
    const size_t axes = (size_t)block->type.dims[0];
    xcc_value *one = XCC_BUILD_INTS(b, 1), *cells = xcc_build_reduce(b, XCVM_OP_ReduceProd, block, NULL, true);
    xcc_value *square = xcc_build_expand(b, xcc_num(d, G, 0), xcc_build_concat(b, 2, (xcc_value *[]){cells, cells}, 0));
    xcc_value *unit =
        square != NULL ? xcc_apply(b, EyeLike, y, .x = XCC_IN(square), .dtype = (xcvm_dtype)G->type.dtype) : NULL;
    xcc_value *w = xcc_build_reshape_to(b, unit, xcc_build_concat(b, 3, (xcc_value *[]){cells, one, block}, 0));
    xcc_value *rest = xcc_build_slice(b, xcc_build_shape_of(b, G), 0, 2, INT64_MAX, 1);
    xcc_value *planes = xcc_mul(d, xcc_build_dim_of(b, G, 0), xcc_build_dim_of(b, G, 1));
    xcc_value *image = xcc_build_reshape_to(b, G, xcc_build_concat(b, 3, (xcc_value *[]){planes, one, rest}, 0));
    if (w == NULL || image == NULL) {
        d->failed = true;
        return;
    }
    xcc_value *columns = xcc_apply(
        b, Conv, y, .x = XCC_IN(image), .w = XCC_IN(w), .strides = complete(a->strides, axes, ones),
        .pads = complete(a->pads, 2 * axes, zeros), .dilations = complete(a->dilations, axes, ones), .group = 1);
    xcc_set_gradient(d, 0, xcc_reshape_like(b, columns, X));
}
