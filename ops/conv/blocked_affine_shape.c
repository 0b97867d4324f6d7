/* Shape rule of BlockedAffine. */
#include "ops/conv/blocked_axes.h"
#include "ops/elementwise/activation.h"
#include "ops/util/shape.h"

static xcvm_status check_vector(const xcvm_inference *t, const xcvm_value *v, int64_t blocks, const char *what)
{
    int64_t channels;
    if (v->rank < 0)
        return XCVM_OK;
    XCVM_CHECK(t->error, v->rank == 1, SHAPE_MISMATCH, "%s has the wrong rank (%d; expected 1)", what, v->rank);
    XCVM_CHECK(t->error, blocks < 0 || !__builtin_mul_overflow(blocks, (int64_t)XCVM_CHANNEL_BLOCK, &channels),
               OUT_OF_RANGE, "xs have %lld blocks of channels", (long long)blocks);
    XCVM_CHECK(t->error, blocks < 0 || v->dims[0] < 0 || v->dims[0] == channels, SHAPE_MISMATCH,
               "%s has %lld elements for %lld blocks of channels", what, (long long)v->dims[0], (long long)blocks);
    return XCVM_OK;
}

/* Updates `dims` to the concatenation with operand i. */
static xcvm_status append_part(const xcvm_inference *t, size_t i, const xcvm_value *x, int rank, int64_t *dims)
{
    XCVM_CHECK(t->error, xcvm_blocked_takes_rank(XCVM_OP_BlockedAffine, x->rank), SHAPE_MISMATCH,
               "element %zu of xs has the wrong rank (%d; expected 4 to 6)", i, x->rank);
    XCVM_CHECK(t->error, x->rank == rank, SHAPE_MISMATCH, "element %zu of xs has rank %d, that of another is %d", i,
               x->rank, rank);
    const int64_t last = x->dims[rank - 1];
    XCVM_CHECK(t->error, last < 0 || last == XCVM_CHANNEL_BLOCK, SHAPE_MISMATCH,
               "the last dimension of element %zu of xs is %lld, blocks have %d channels", i, (long long)last,
               XCVM_CHANNEL_BLOCK);
    for (int d = 0; d < rank - 1; d++) {
        if (d == 1)
            continue;
        XCVM_CHECK(t->error, xcvm_dims_agree(&dims[d], x->dims[d]), SHAPE_MISMATCH,
                   "dimension %d of element %zu of xs is %lld, of another %lld", d, i, (long long)x->dims[d],
                   (long long)dims[d]);
    }
    if (dims[1] < 0 || x->dims[1] < 0)
        dims[1] = XCVM_ANY_DIM;
    else
        XCVM_CHECK(t->error, !__builtin_add_overflow(dims[1], x->dims[1], &dims[1]), OUT_OF_RANGE,
                   "the sum of the blocks of channels overflows");
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(BlockedAffine)
{
    int64_t dims[XCVM_MAX_RANK] = {XCVM_ANY_DIM, 0};
    int rank = -1;
    XCVM_CHECK(t->error, a->xs.count != 0, INVALID_ARGUMENT, "there is no x");
    XCVM_TRY(xcvm_activation_check(t->error, a->activation, a->activation_params));
    for (size_t i = 0; i < a->xs.count; i++)
        rank = rank < 0 ? a->xs.at[i]->rank : rank;
    for (int d = 2; d + 1 < rank; d++)
        dims[d] = XCVM_ANY_DIM;
    for (size_t i = 0; i < a->xs.count; i++) {
        if (a->xs.at[i]->rank < 0)
            dims[1] = XCVM_ANY_DIM;
        else
            XCVM_TRY(append_part(t, i, a->xs.at[i], rank, dims));
    }
    if (rank > 0)
        dims[rank - 1] = XCVM_CHANNEL_BLOCK;
    XCVM_TRY(check_vector(t, a->scale, dims[1], "scale"));
    XCVM_TRY(check_vector(t, a->shift, dims[1], "shift"));
    xcvm_value_set_tensor(a->y, XCVM_F32, rank, dims);
    return XCVM_OK;
}
