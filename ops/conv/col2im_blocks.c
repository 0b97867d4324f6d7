/* Shape rule of Col2Im; ops/conv/simd/col2im.c is the kernel. */
#include "ops/conv/col2im_blocks.h"

xcvm_Col2Im_args xcvm_col2im_with_entries(const xcvm_Col2Im_args *a, size_t axes)
{
    static const int64_t ones[XCVM_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1}, zeros[2 * XCVM_MAX_RANK];
    xcvm_Col2Im_args full = *a;
    if (full.strides.count == 0)
        full.strides = (xcvm_ints){ones, axes};
    if (full.dilations.count == 0)
        full.dilations = (xcvm_ints){ones, axes};
    if (full.pads.count == 0)
        full.pads = (xcvm_ints){zeros, 2 * axes};
    return full;
}

XCVM_SHAPE_RULE_OF(Col2Im)
{
    int64_t image[XCVM_MAX_RANK], block[XCVM_MAX_RANK], dims[XCVM_MAX_RANK] = {XCVM_ANY_DIM, XCVM_ANY_DIM};
    size_t spatial, block_count;
    bool known, block_known;
    XCVM_CHECK(t->error, a->x->rank < 0 || a->x->rank == 3, SHAPE_MISMATCH, "x has the wrong rank (%d; expected 3)",
               a->x->rank);
    XCVM_TRY(xcvm_read_ints(t->error, a->image_shape, "image_shape", image, XCVM_MAX_RANK - 2, &spatial, &known));
    XCVM_TRY(
        xcvm_read_ints(t->error, a->block_shape, "block_shape", block, XCVM_MAX_RANK - 2, &block_count, &block_known));
    if (!known || !block_known) {
        xcvm_value_set_tensor(a->y, (xcvm_dtype)a->x->dtype, -1, NULL);
        return XCVM_OK;
    }
    const xcvm_Col2Im_args full = xcvm_col2im_with_entries(a, spatial);
    a = &full;
    XCVM_CHECK(t->error,
               spatial == block_count && a->strides.count == spatial && a->dilations.count == spatial &&
                   a->pads.count == 2 * spatial,
               SHAPE_MISMATCH,
               "image_shape, block_shape, strides and dilations must have %zu entries, pads twice as many", spatial);
    int64_t elements = 1, places = 1;
    for (size_t d = 0; d < spatial; d++) {
        int64_t reach, padded;
        XCVM_CHECK(t->error, block[d] > 0 && image[d] > 0 && block[d] <= INT32_MAX && image[d] <= INT32_MAX,
                   OUT_OF_RANGE, "image_shape and block_shape must be positive");
        XCVM_CHECK(t->error,
                   !__builtin_mul_overflow(block[d] - 1, a->dilations.at[d], &reach) &&
                       !__builtin_add_overflow(image[d] + a->pads.at[d], a->pads.at[d + spatial], &padded) &&
                       padded > reach &&
                       !__builtin_mul_overflow(places, (padded - reach - 1) / a->strides.at[d] + 1, &places) &&
                       !__builtin_mul_overflow(elements, block[d], &elements),
                   OUT_OF_RANGE, "a block does not fit the image in dimension %zu", d);
        dims[2 + d] = image[d];
    }
    if (a->x->rank == 3) {
        XCVM_CHECK(t->error, a->x->dims[1] < 0 || a->x->dims[1] % elements == 0, SHAPE_MISMATCH,
                   "dimension 1 of x is %lld, no multiple of the %lld elements of a block", (long long)a->x->dims[1],
                   (long long)elements);
        XCVM_CHECK(t->error, a->x->dims[2] < 0 || a->x->dims[2] == places, SHAPE_MISMATCH,
                   "dimension 2 of x is the wrong number of blocks (%lld; expected %lld)", (long long)a->x->dims[2],
                   (long long)places);
        dims[0] = a->x->dims[0];
        dims[1] = a->x->dims[1] < 0 ? XCVM_ANY_DIM : a->x->dims[1] / elements;
    }
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->x->dtype, 2 + (int)spatial, dims);
    return XCVM_OK;
}
