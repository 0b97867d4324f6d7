/* Shape rules of DepthToSpace and SpaceToDepth; ops/data/simd/depth_space.c has the kernels. */
#include "ops/util/kernel.h"

/* The largest int whose square fits an int. */
enum { LARGEST_BLOCK = 46340 };

/* Common checks. If nothing is known about x, sets y's type and *done. */
static xcvm_status begin(const xcvm_inference *t, const xcvm_value *x, int64_t blocksize, xcvm_value *y, bool *done)
{
    XCVM_CHECK(t->error, x->rank < 0 || x->rank == 4, SHAPE_MISMATCH, "x has the wrong rank (%d; expected 4)", x->rank);
    XCVM_CHECK(t->error, blocksize <= LARGEST_BLOCK, OUT_OF_RANGE, "blocksize is %lld", (long long)blocksize);
    *done = x->rank < 0;
    if (*done) {
        const int64_t any[] = {XCVM_ANY_DIM, XCVM_ANY_DIM, XCVM_ANY_DIM, XCVM_ANY_DIM};
        xcvm_value_set_tensor(y, (xcvm_dtype)x->dtype, 4, any);
    }
    return XCVM_OK;
}

static int64_t multiplied(int64_t dim, int64_t by)
{
    int64_t product;
    return dim < 0 || __builtin_mul_overflow(dim, by, &product) ? (by == 1 ? dim : XCVM_ANY_DIM) : product;
}

XCVM_SHAPE_RULE_OF(DepthToSpace)
{
    const int64_t b = a->blocksize;
    bool done;
    XCVM_TRY(begin(t, a->x, b, a->y, &done));
    if (done)
        return XCVM_OK;
    const int64_t *x = a->x->dims;
    XCVM_CHECK(t->error, x[1] < 0 || x[1] % (b * b) == 0, SHAPE_MISMATCH, "x has %lld channels, no multiple of %lld",
               (long long)x[1], (long long)(b * b));
    const int64_t y[] = {x[0], x[1] < 0 ? XCVM_ANY_DIM : x[1] / (b * b), multiplied(x[2], b), multiplied(x[3], b)};
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->x->dtype, 4, y);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(SpaceToDepth)
{
    const int64_t b = a->blocksize;
    bool done;
    XCVM_TRY(begin(t, a->x, b, a->y, &done));
    if (done)
        return XCVM_OK;
    const int64_t *x = a->x->dims;
    for (int d = 2; d < 4; d++)
        XCVM_CHECK(t->error, x[d] < 0 || x[d] % b == 0, SHAPE_MISMATCH,
                   "dimension %d of x is %lld, no multiple of %lld", d, (long long)x[d], (long long)b);
    const int64_t y[] = {x[0], multiplied(x[1], b * b), x[2] < 0 ? XCVM_ANY_DIM : x[2] / b,
                         x[3] < 0 ? XCVM_ANY_DIM : x[3] / b};
    xcvm_value_set_tensor(a->y, (xcvm_dtype)a->x->dtype, 4, y);
    return XCVM_OK;
}
