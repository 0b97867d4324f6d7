/* Shape rule of NegativeLogLikelihoodLoss. */
#include "ops/util/shape.h"

XCVM_SHAPE_RULE_OF(NegativeLogLikelihoodLoss)
{
    const xcvm_value *x = a->x, *target = a->target;
    XCVM_CHECK(t->error, x->rank < 0 || x->rank >= 2, SHAPE_MISMATCH, "x has the wrong rank (%d; expected at least 2)",
               x->rank);
    XCVM_CHECK(t->error, x->rank < 0 || target->rank < 0 || target->rank == x->rank - 1, SHAPE_MISMATCH,
               "target has the wrong rank (%d; expected %d, one less than x)", target->rank, x->rank - 1);
    if (x->rank >= 0 && target->rank >= 0)
        for (int d = 0; d < target->rank; d++) {
            const int64_t size = x->dims[d == 0 ? 0 : d + 1];
            XCVM_CHECK(t->error, size < 0 || target->dims[d] < 0 || size == target->dims[d], SHAPE_MISMATCH,
                       "dimension %d of target has the wrong size (%lld; expected %lld)", d, (long long)target->dims[d],
                       (long long)size);
        }
    if (a->weight != NULL && a->weight->rank >= 0)
        XCVM_CHECK(t->error,
                   a->weight->rank == 1 &&
                       (x->rank < 0 || x->dims[1] < 0 || a->weight->dims[0] < 0 || a->weight->dims[0] == x->dims[1]),
                   SHAPE_MISMATCH, "weight must have one entry for each class of x");
    if (a->reduction == XCVM_LOSS_REDUCTION_none)
        xcvm_value_set_tensor(a->y, (xcvm_dtype)x->dtype, target->rank, target->dims);
    else
        xcvm_value_set_tensor(a->y, (xcvm_dtype)x->dtype, 0, NULL);
    return XCVM_OK;
}
