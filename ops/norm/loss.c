/* NegativeLogLikelihoodLoss. */
#include "ops/convert.h"
#include "ops/floats.h"
#include "ops/kernel.h"

XCVM_SHAPE_RULE_OF(NegativeLogLikelihoodLoss)
{
    const xcvm_value *x = a->x, *target = a->target;
    XCVM_REQUIRE(t, x->rank < 0 || x->rank >= 2, SHAPE_MISMATCH, "x has rank %d, at least 2 is needed", x->rank);
    XCVM_REQUIRE(t, x->rank < 0 || target->rank < 0 || target->rank == x->rank - 1, SHAPE_MISMATCH,
                 "target has rank %d, that of x less one, %d, is needed", target->rank, x->rank - 1);
    if (x->rank >= 0 && target->rank >= 0)
        for (int d = 0; d < target->rank; d++) {
            const int64_t size = x->dims[d == 0 ? 0 : d + 1];
            XCVM_REQUIRE(t, size < 0 || target->dims[d] < 0 || size == target->dims[d], SHAPE_MISMATCH,
                         "dimension %d of target is %lld, %lld is needed", d, (long long)target->dims[d],
                         (long long)size);
        }
    if (a->weight != NULL && a->weight->rank >= 0)
        XCVM_REQUIRE(t,
                     a->weight->rank == 1 &&
                         (x->rank < 0 || x->dims[1] < 0 || a->weight->dims[0] < 0 || a->weight->dims[0] == x->dims[1]),
                     SHAPE_MISMATCH, "weight must have one entry for each class of x");
    if (a->reduction == XCVM_LOSS_REDUCTION_none)
        xcvm_value_set_tensor(a->y, (xcvm_dtype)x->dtype, target->rank, target->dims);
    else
        xcvm_value_set_tensor(a->y, (xcvm_dtype)x->dtype, 0, NULL);
    return XCVM_OK;
}

XCVM_KERNEL(NegativeLogLikelihoodLoss)
{
    const size_t count = xcvm_element_count(a->target), classes = (size_t)a->x->dims[1];
    const float *floats = a->x->dtype == XCVM_F32 ? XCVM_CDATA(float, a->x) : NULL;
    size_t inner = 1;
    for (int d = 2; d < a->x->rank; d++)
        inner *= (size_t)a->x->dims[d];
    double sums[4] = {0}, weights = 0, losses[XCVM_BLOCK];
    size_t counted = 0;
    int64_t targets[XCVM_BLOCK];
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t at = 0, n; at < count; at += n) {
        /* A block ends where an entry of the batch ends. */
        const size_t within = at % inner, left = inner - within;
        n = left < XCVM_BLOCK ? left : XCVM_BLOCK;
        XCVM_TRY(xcvm_poll_after(&poller, n));
        xcvm_load_i64((xcvm_dtype)a->target->dtype, a->target->data, at, n, targets);
        const size_t first = (at / inner) * classes * inner + within;
        for (size_t i = 0; i < n; i++) {
            const int64_t class = targets[i];
            losses[i] = 0;
            if (class == a->ignore_index)
                continue;
            XCVM_CHECK(k->error, class >= 0 && (size_t) class < classes, OUT_OF_RANGE,
                       "target %zu is class %lld, x has %zu classes", at + i, (long long)class, classes);
            const size_t place = first + (size_t) class * inner + i;
            losses[i] = -(floats != NULL ? (double)floats[place] : xcvm_element_as_double(a->x, place));
            counted++;
            if (a->weight != NULL) {
                const double weight = xcvm_element_as_double(a->weight, (size_t) class);
                losses[i] *= weight;
                weights += weight;
            }
        }
        /* Four sums, which do not wait for each other. */
        for (size_t i = 0; i < n; i++)
            sums[i % 4] += losses[i];
        if (a->reduction == XCVM_LOSS_REDUCTION_none)
            xcvm_store_f64((xcvm_dtype)a->y->dtype, a->y->data, at, n, losses, true);
    }
    const double sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    if (a->weight == NULL)
        weights = (double)counted;
    if (a->reduction != XCVM_LOSS_REDUCTION_none)
        xcvm_write_double(a->y, 0, a->reduction == XCVM_LOSS_REDUCTION_mean ? sum / weights : sum);
    return XCVM_OK;
}
