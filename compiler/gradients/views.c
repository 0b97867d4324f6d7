/* Gradients of data movement without selection or repetition: the inverse movement. */
#include "compiler/gradients/rule.h"

#define ARGS(Name) const xcvm_##Name##_args *a = XCC_ARGS(Name, d->node)
#define G xcc_g(d)
#define X xcc_in(d, 0)

XCC_GRADIENT(reshape) { xcc_set_gradient(d, 0, xcc_reshape_like(d->b, G, X)); }

XCC_GRADIENT(Transpose)
{
    ARGS(Transpose);
    int64_t perm[XCVM_MAX_RANK];
    if (!xcc_vjp_need_rank(d, 0))
        return;
    const int rank = X->type.rank;
    for (int i = 0; i < rank; i++)
        perm[a->perm.count > 0 ? a->perm.at[i] : rank - 1 - i] = i;
    xcc_set_gradient(d, 0, xcc_build_transpose(d->b, G, (size_t)rank, perm));
}

XCC_GRADIENT(ReverseSequence)
{
    ARGS(ReverseSequence);
    xcc_set_gradient(d, 0,
                     xcc_apply(d->b, ReverseSequence, y, .x = XCC_IN(G), .sequence_lens = a->sequence_lens,
                               .batch_axis = a->batch_axis, .time_axis = a->time_axis));
}

/* SpaceToDepth puts the positions of a block before the channels; mode CRD has them after. */
XCC_GRADIENT(DepthToSpace)
{
    ARGS(DepthToSpace);
    const int64_t b = a->blocksize;
    xcc_value *g = xcc_apply(d->b, SpaceToDepth, y, .x = XCC_IN(G), .blocksize = b);
    if (a->mode == XCVM_DEPTH_MODE_CRD) {
        xcc_value *parts[] = {xcc_build_dim_of(d->b, G, 0), XCC_BUILD_INTS(d->b, b * b), xcc_build_dim_of(d->b, G, 1),
                              xcc_build_dim_of(d->b, g, 2), xcc_build_dim_of(d->b, g, 3)};
        xcc_value *split = xcc_build_reshape_to(d->b, g, xcc_build_concat(d->b, 5, parts, 0));
        g = xcc_build_transpose(d->b, split, 5, (const int64_t[]){0, 2, 1, 3, 4});
    }
    xcc_set_gradient(d, 0, xcc_reshape_like(d->b, g, X));
}

XCC_GRADIENT(SpaceToDepth)
{
    ARGS(SpaceToDepth);
    xcc_set_gradient(
        d, 0, xcc_apply(d->b, DepthToSpace, y, .x = XCC_IN(G), .blocksize = a->blocksize, .mode = XCVM_DEPTH_MODE_DCR));
}
