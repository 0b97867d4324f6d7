/* Shape rule of Transpose. */
#include "ops/data/transpose.h"

XCVM_SHAPE_RULE_OF(Transpose)
{
    const xcvm_value *x = a->x;
    int64_t dims[XCVM_MAX_RANK];
    unsigned seen = 0;
    XCVM_CHECK(t->error, a->perm.count <= XCVM_MAX_RANK, INVALID_ARGUMENT,
               "perm has too many entries (%zu; expected at most %d)", a->perm.count, XCVM_MAX_RANK);
    XCVM_CHECK(t->error, x->rank < 0 || a->perm.count == 0 || a->perm.count == (size_t)x->rank, SHAPE_MISMATCH,
               "perm has %zu entries, x rank %d", a->perm.count, x->rank);
    for (size_t i = 0; i < a->perm.count; i++) {
        int64_t axis = a->perm.at[i];
        XCVM_CHECK(t->error, axis >= 0 && (size_t)axis < a->perm.count && !(seen >> axis & 1), INVALID_ARGUMENT,
                   "perm is not a permutation of 0 to %zu", a->perm.count - 1);
        seen |= 1U << axis;
    }
    if (x->rank < 0) {
        xcvm_set_unknown(a->y, a->y->dtype, a->perm.count == 0 ? -1 : (int)a->perm.count);
        return XCVM_OK;
    }
    for (int i = 0; i < x->rank; i++)
        dims[i] = x->dims[xcvm_transposed_axis(a, x->rank, i)];
    xcvm_value_set_tensor(a->y, a->y->dtype, x->rank, dims);
    return XCVM_OK;
}
