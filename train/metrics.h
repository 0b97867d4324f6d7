/* Metrics of a model's predictions, with their standard errors. */
#ifndef XCVM_TRAIN_METRICS_H
#define XCVM_TRAIN_METRICS_H

#include "base/value.h"

/* X(name, text, whether more is better) */
#define XCT_METRIC_LIST(X)                                                                                             \
    X(ACCURACY, "accuracy", true)                                                                                      \
    X(TOP5, "top5", true)                                                                                              \
    X(F1, "f1", true)                                                                                                  \
    X(MSE, "mse", false)                                                                                               \
    X(MAE, "mae", false)                                                                                               \
    X(PERPLEXITY, "perplexity", false)

typedef enum xct_metric {
#define XCT_METRIC(name, text, more) XCT_##name,
    XCT_METRIC_LIST(XCT_METRIC)
#undef XCT_METRIC
        XCT_METRICS
} xct_metric;

const char *xct_metric_name(xct_metric metric);
bool xct_metric_more_is_better(xct_metric metric);
/* Finds a metric by name. INVALID_ARGUMENT lists the known ones. */
xcvm_status xct_metric_find(const char *name, xct_metric *metric, xcvm_error *error);

/* A number with its standard error; NaN if unknown. */
typedef struct xct_figure {
    double value, error;
} xct_figure;

/* The relation of predictions and labels. */
typedef enum xct_task {
    XCT_NO_TASK,     /* only metrics of the loss */
    XCT_CLASSES,     /* scores of classes along an axis, numbers of classes */
    XCT_TWO_CLASSES, /* one score each, 0 or 1 */
    XCT_NUMBERS      /* numbers of the same shape */
} xct_task;
/* Infers the task from the types of predictions and labels. Negative dimensions are open. `axis` receives the axis of
 * classes. */
xct_task xct_task_of(const xcvm_type *predictions, const xcvm_type *labels, int *axis);
/* Returns whether a metric can be measured for a task. */
bool xct_metric_suits(xct_metric metric, xct_task task);

/* Sums over batches, those of predictions first: predictions and correct ones; powers of differences, and the count of
 * numbers; examples, their weight, batches and losses. */
#define XCT_SUM_LIST(X)                                                                                                \
    X(predicted)                                                                                                       \
    X(right)                                                                                                           \
    X(right5)                                                                                                          \
    X(squares)                                                                                                         \
    X(quads)                                                                                                           \
    X(absolutes)                                                                                                       \
    X(numbers)                                                                                                         \
    X(examples)                                                                                                        \
    X(weight)                                                                                                          \
    X(batches)                                                                                                         \
    X(loss)                                                                                                            \
    X(loss_squares)

enum {
#define XCT_SUM(name) XCT_SUM_##name,
    XCT_SUM_LIST(XCT_SUM)
#undef XCT_SUM
        XCT_SUMS,
    XCT_PREDICTION_SUMS = XCT_SUM_examples
};

/* Members after `ignored` start as zero. */
typedef struct xct_measure {
    const xcvm_allocator *allocator;
    xct_task task;
    int axis;
    double threshold; /* a score above it means class 1 */
    bool ignores;     /* labels that equal `ignored` do not count */
    int64_t ignored;
#define XCT_SUM(name) double name;
    XCT_SUM_LIST(XCT_SUM)
#undef XCT_SUM
    uint64_t *classes; /* per class: predicted, labeled, both */
    size_t class_count;
} xct_measure;

void xct_measure_clear(xct_measure *measure);
void xct_measure_release(xct_measure *measure);
/* Adds a batch, whose loss has this weight. Predictions and labels are NULL without a task. Labels that are no class do
 * not count. */
xcvm_status xct_measure_add(xct_measure *measure, double loss, size_t examples, double weight,
                            const xcvm_value *predictions, const xcvm_value *labels, xcvm_error *error);
/* Returns the share of labels that count, from 0 to 1. */
double xct_measure_counted(const xct_measure *measure, const xcvm_value *labels);
/* Copy the sums to and from an array, so that those of other processes can be added. */
void xct_measure_get_sums(const xct_measure *measure, double sums[XCT_SUMS]);
void xct_measure_set_sums(xct_measure *measure, const double sums[XCT_SUMS]);
/* Allocates memory for at least this number of classes. */
xcvm_status xct_measure_need_classes(xct_measure *measure, size_t count, xcvm_error *error);
xct_figure xct_measure_loss(const xct_measure *measure);
xct_figure xct_measure_metric(const xct_measure *measure, xct_metric metric);

#endif
