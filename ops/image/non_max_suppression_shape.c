/* Shape rule of NonMaxSuppression. */
#include "ops/util/kernel.h"

XCVM_SHAPE_RULE_OF(NonMaxSuppression)
{
    XCVM_CHECK(t->error,
               a->boxes->rank < 0 || (a->boxes->rank == 3 && (a->boxes->dims[2] < 0 || a->boxes->dims[2] == 4)),
               SHAPE_MISMATCH, "boxes must be of shape samples x boxes x 4");
    XCVM_CHECK(t->error, a->scores->rank < 0 || a->scores->rank == 3, SHAPE_MISMATCH,
               "scores must be of shape samples x classes x boxes");
    if (a->boxes->rank == 3 && a->scores->rank == 3)
        for (int d = 0; d < 2; d++) {
            const int64_t boxes = a->boxes->dims[d], scores = a->scores->dims[2 * d];
            XCVM_CHECK(t->error, boxes < 0 || scores < 0 || boxes == scores, SHAPE_MISMATCH,
                       "boxes are for %lld %s, scores for %lld", (long long)boxes, d == 0 ? "samples" : "boxes",
                       (long long)scores);
        }
    const int64_t dims[] = {XCVM_ANY_DIM, 3};
    xcvm_value_set_tensor(a->selected, XCVM_I64, 2, dims);
    return XCVM_OK;
}
