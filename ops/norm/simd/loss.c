/* NegativeLogLikelihoodLoss. */
#include "ops/util/convert.h"
#include "ops/util/floats.h"
#include "ops/util/kernel.h"

/* Checks that each of n targets, starting with target `at`, is a class of x or ignored; counts the latter in *ignored.
 * Uses the sign bits of differences, because GCC compiles comparisons to masked loads of constants: with a zero mask
 * and a page that is not yet mapped, such a load takes a microcode assist. */
static xcvm_status check_targets(const xcvm_kernel *k, const xcvm_NegativeLogLikelihoodLoss_args *a, size_t at,
                                 size_t n, const int64_t *targets, size_t *ignored)
{
    const uint64_t classes = (uint64_t)a->x->dims[1];
    const int64_t ignore = a->ignore_index;
    uint64_t counted = 0, outside = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t class = (uint64_t)targets[i], difference = class ^ (uint64_t)ignore;
        const uint64_t counts = (difference | (0 - difference)) >> 63;
        counted += counts;
        outside |= counts & (class | (classes - 1 - class)) >> 63;
    }
    for (size_t i = 0; i < n && outside != 0; i++)
        XCVM_CHECK(k->error, targets[i] == ignore || (uint64_t)targets[i] < classes, OUT_OF_RANGE,
                   "target %zu is class %lld, x has %llu classes", at + i, (long long)targets[i],
                   (unsigned long long)classes);
    *ignored = n - (size_t)counted;
    return XCVM_OK;
}

/* Computes the losses of n targets. The class scores of the first begin at `first`, `inner` apart. */
static void take_losses(const xcvm_NegativeLogLikelihoodLoss_args *a, size_t first, size_t inner, size_t n,
                        const int64_t *targets, double *losses)
{
    const float *floats = a->x->dtype == XCVM_F32 ? XCVM_CDATA(float, a->x) : NULL;
    const int64_t ignore = a->ignore_index;
    if (floats != NULL)
        for (size_t i = 0; i < n; i++) {
            /* An ignored target has no position, so any valid one is read. */
            const bool counts = targets[i] != ignore;
            const double loss = -(double)floats[first + (counts ? (size_t)targets[i] : 0) * inner + i];
            losses[i] = counts ? loss : 0;
        }
    else
        for (size_t i = 0; i < n; i++)
            losses[i] =
                targets[i] == ignore ? 0 : -xcvm_element_as_double(a->x, first + (size_t)targets[i] * inner + i);
}

XCVM_KERNEL(NegativeLogLikelihoodLoss)
{
    const size_t count = xcvm_element_count(a->target), classes = (size_t)a->x->dims[1];
    size_t inner = 1;
    for (int d = 2; d < a->x->rank; d++)
        inner *= (size_t)a->x->dims[d];
    double sums[4] = {0}, weights = 0, losses[XCVM_BLOCK];
    size_t counted = 0;
    int64_t converted[XCVM_BLOCK];
    const int64_t ignore = a->ignore_index;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t at = 0, n; at < count; at += n) {
        /* A block ends at the end of a batch entry. */
        const size_t within = at % inner, left = inner - within;
        n = left < XCVM_BLOCK ? left : XCVM_BLOCK;
        XCVM_TRY(xcvm_poll_after(&poller, n));
        const int64_t *targets = converted;
        if (a->target->dtype == XCVM_I64)
            targets = XCVM_CDATA(int64_t, a->target) + at;
        else
            xcvm_load_i64((xcvm_dtype)a->target->dtype, a->target->data, at, n, converted);
        const size_t first = (at / inner) * classes * inner + within;
        size_t ignored = 0;
        XCVM_TRY(check_targets(k, a, at, n, targets, &ignored));
        counted += n - ignored;
        if (ignored == n)
            memset(losses, 0, n * sizeof *losses);
        else
            take_losses(a, first, inner, n, targets, losses);
        for (size_t i = 0; i < n && a->weight != NULL; i++)
            if (targets[i] != ignore) {
                const double weight = xcvm_element_as_double(a->weight, (size_t)targets[i]);
                losses[i] *= weight;
                weights += weight;
            }
        /* Four independent sums. */
        size_t whole = 0;
        for (; whole + 4 <= n; whole += 4)
            for (size_t i = 0; i < 4; i++)
                sums[i] += losses[whole + i];
        for (size_t i = whole; i < n; i++)
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
