/* Adds up the measurements of several processes. */
#include "train/trainer.h"

static size_t ranks_of(const xct_trainer *t) { return t->options.ranks > 1 ? (size_t)t->options.ranks : 1; }

static xcvm_status add_up(const xct_trainer *t, double *numbers, size_t count, xcvm_error *error)
{
    return t->options.all_reduce.sum(t->options.all_reduce.user, XCVM_F64, numbers, count, error);
}

/* The largest number of classes in any process; numbers[ranks] are those of all. */
static xcvm_status agree_on_classes(const xct_trainer *t, const xct_measure *m, double *numbers, size_t *classes,
                                    xcvm_error *error)
{
    numbers[t->options.rank] = (double)m->class_count;
    XCVM_TRY(add_up(t, numbers, ranks_of(t), error));
    *classes = 0;
    for (size_t i = 0; i < ranks_of(t); i++)
        *classes = numbers[i] > (double)*classes ? (size_t)numbers[i] : *classes;
    return XCVM_OK;
}

static xcvm_status add_classes(const xct_trainer *t, xct_measure *m, double *numbers, xcvm_error *error)
{
    const size_t count = m->class_count * 3;
    for (size_t i = 0; i < count; i++)
        numbers[i] = (double)m->classes[i];
    XCVM_TRY(add_up(t, numbers, count, error));
    for (size_t i = 0; i < count; i++)
        m->classes[i] = (uint64_t)numbers[i];
    return XCVM_OK;
}

/* Adds the counts for f1. */
static xcvm_status join_classes(const xct_trainer *t, xct_measure *m, xcvm_error *error)
{
    size_t classes = 0, room = ranks_of(t) * sizeof(double);
    double *numbers = xcvm_allocate_zeroed(t->allocator, room);
    XCVM_CHECK(error, numbers != NULL, OUT_OF_MEMORY, "no memory for the metrics of %zu processes", ranks_of(t));
    xcvm_status status = agree_on_classes(t, m, numbers, &classes, error);
    xcvm_deallocate(t->allocator, numbers, room);
    if (status != XCVM_OK || classes == 0)
        return status;
    XCVM_TRY(xct_measure_need_classes(m, classes, error));
    room = classes * 3 * sizeof(double);
    numbers = xcvm_allocate(t->allocator, room);
    XCVM_CHECK(error, numbers != NULL, OUT_OF_MEMORY, "no memory for the metrics of %zu classes", classes);
    status = add_classes(t, m, numbers, error);
    xcvm_deallocate(t->allocator, numbers, room);
    return status;
}

xcvm_status xct_measure_join(const xct_trainer *t, xct_measure *m, xcvm_error *error)
{
    double sums[XCT_SUMS];
    bool classes = false;
    if (ranks_of(t) == 1)
        return XCVM_OK;
    xct_measure_get_sums(m, sums);
    XCVM_TRY(add_up(t, sums, XCT_SUMS, error));
    xct_measure_set_sums(m, sums);
    for (size_t i = 0; i < t->metric_count; i++)
        classes |= t->metrics[i] == XCT_F1;
    return classes ? join_classes(t, m, error) : XCVM_OK;
}
