/* Shape rule of GridSample, for any number of spatial dimensions; ops/image/simd/grid_sample.c has the kernel. */
#include "ops/util/kernel.h"

XCVM_SHAPE_RULE_OF(GridSample)
{
    const xcvm_value *x = a->x, *grid = a->grid;
    XCVM_CHECK(t->error, x->rank < 0 || x->rank >= 3, SHAPE_MISMATCH, "x has the wrong rank (%d; expected at least 3)",
               x->rank);
    XCVM_CHECK(t->error, grid->rank < 0 || grid->rank >= 3, SHAPE_MISMATCH,
               "grid has the wrong rank (%d; expected at least 3)", grid->rank);
    XCVM_CHECK(t->error, x->rank < 0 || grid->rank < 0 || x->rank == grid->rank, SHAPE_MISMATCH,
               "grid has rank %d, that of x is %d", grid->rank, x->rank);
    const int rank = x->rank < 0 ? grid->rank : x->rank;
    int64_t dims[XCVM_MAX_RANK];
    for (int d = 0; d < rank; d++)
        dims[d] = XCVM_ANY_DIM;
    if (x->rank >= 0) {
        dims[0] = x->dims[0];
        dims[1] = x->dims[1];
    }
    if (grid->rank >= 0) {
        const int64_t points = grid->dims[rank - 1];
        XCVM_CHECK(t->error, points < 0 || points == rank - 2, SHAPE_MISMATCH,
                   "the last dimension of grid is the wrong number of coordinates (%lld; expected %d)",
                   (long long)points, rank - 2);
        XCVM_CHECK(t->error, dims[0] < 0 || grid->dims[0] < 0 || dims[0] == grid->dims[0], SHAPE_MISMATCH,
                   "x has %lld samples, grid %lld", (long long)dims[0], (long long)grid->dims[0]);
        for (int d = 2; d < rank; d++)
            dims[d] = grid->dims[d - 1];
    }
    xcvm_value_set_tensor(a->y, (xcvm_dtype)x->dtype, rank, dims);
    return XCVM_OK;
}
