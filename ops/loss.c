/* NegativeLogLikelihoodLoss. */
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

/* The element of x for target `i`, which is of class `class`. */
static double element_of(const xcvm_value *x, size_t batch, size_t classes, size_t class, size_t inner, size_t i)
{
    const size_t at = (batch * classes + class) * inner + i;
    return x->dtype == XCVM_F32 ? (double)XCVM_CDATA(float, x)[at] : xcvm_element_as_double(x, at);
}

XCVM_KERNEL(NegativeLogLikelihoodLoss)
{
    const size_t count = xcvm_element_count(a->target), classes = (size_t)a->x->dims[1];
    size_t inner = 1;
    for (int d = 2; d < a->x->rank; d++)
        inner *= (size_t)a->x->dims[d];
    double sum = 0, weights = 0;
    size_t batch = 0, at = 0;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < count; i++, at++) {
        if (at == inner) {
            at = 0;
            batch++;
        }
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        const int64_t class =
            a->target->dtype == XCVM_I64 ? XCVM_CDATA(int64_t, a->target)[i] : xcvm_element_as_int(a->target, i);
        double loss = 0;
        if (class != a->ignore_index) {
            XCVM_CHECK(k->error, class >= 0 && (size_t) class < classes, OUT_OF_RANGE,
                       "target %zu is class %lld, x has %zu classes", i, (long long)class, classes);
            const double weight = a->weight != NULL ? xcvm_element_as_double(a->weight, (size_t) class) : 1;
            loss = -weight * element_of(a->x, batch, classes, (size_t) class, inner, at);
            weights += weight;
        }
        sum += loss;
        if (a->reduction == XCVM_LOSS_REDUCTION_none)
            xcvm_write_double(a->y, i, loss);
    }
    if (a->reduction != XCVM_LOSS_REDUCTION_none)
        xcvm_write_double(a->y, 0, a->reduction == XCVM_LOSS_REDUCTION_mean ? sum / weights : sum);
    return XCVM_OK;
}
