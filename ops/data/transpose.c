#include "ops/move.h"
#include "ops/strided.h"

/* perm, or the reverse order where it is empty. */
static int source_axis(const xcvm_Transpose_args *a, int rank, int i)
{
    return a->perm.count == 0 ? rank - 1 - i : (int)a->perm.at[i];
}

XCVM_SHAPE_RULE_OF(Transpose)
{
    const xcvm_value *x = a->x;
    int64_t dims[XCVM_MAX_RANK];
    unsigned seen = 0;
    XCVM_REQUIRE(t, a->perm.count <= XCVM_MAX_RANK, INVALID_ARGUMENT, "perm has %zu entries, at most %d are possible",
                 a->perm.count, XCVM_MAX_RANK);
    XCVM_REQUIRE(t, x->rank < 0 || a->perm.count == 0 || a->perm.count == (size_t)x->rank, SHAPE_MISMATCH,
                 "perm has %zu entries, x rank %d", a->perm.count, x->rank);
    for (size_t i = 0; i < a->perm.count; i++) {
        int64_t axis = a->perm.at[i];
        XCVM_REQUIRE(t, axis >= 0 && (size_t)axis < a->perm.count && !(seen >> axis & 1), INVALID_ARGUMENT,
                     "perm is no permutation of 0 to %zu", a->perm.count - 1);
        seen |= 1U << axis;
    }
    if (x->rank < 0) {
        xcvm_set_unknown(a->y, a->y->dtype, a->perm.count == 0 ? -1 : (int)a->perm.count);
        return XCVM_OK;
    }
    for (int i = 0; i < x->rank; i++)
        dims[i] = x->dims[source_axis(a, x->rank, i)];
    xcvm_value_set_tensor(a->y, a->y->dtype, x->rank, dims);
    return XCVM_OK;
}

static xcvm_status transpose(const xcvm_moving *m, const void *context)
{
    const xcvm_Transpose_args *a = context;
    int rank = a->x->rank;
    ptrdiff_t from[XCVM_MAX_RANK], to[XCVM_MAX_RANK];
    xcvm_row_major(rank, a->x->dims, from);
    xcvm_row_major(rank, a->y->dims, to);
    xcvm_strided s = {.rank = 0};
    for (int i = 0; i < rank; i++)
        xcvm_strided_axis(&s, (size_t)a->y->dims[i], to[i], from[source_axis(a, rank, i)]);
    return xcvm_strided_copy(m->k, &s, m->size, m->to[0], m->from[0]);
}

XCVM_KERNEL(Transpose) { return xcvm_move_one(k, a->x, a->y, transpose, a); }
