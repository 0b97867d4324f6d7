/* Metrics. */
#include "train/metrics.h"
#include "xcvm/train.h"

#include "train/data/convert_rows.h"

#include <math.h>
#include <stdio.h>

static const struct {
    const char *name;
    bool more;
} metrics[] = {
#define XCT_METRIC(name, text, more) {text, more},
    XCT_METRIC_LIST(XCT_METRIC)
#undef XCT_METRIC
};

size_t xct_metric_count(void) { return XCT_METRICS; }
const char *xct_metric_at(size_t index) { return index < XCT_METRICS ? metrics[index].name : NULL; }
const char *xct_metric_name(xct_metric metric) { return metrics[metric].name; }
bool xct_metric_more_is_better(xct_metric metric) { return metrics[metric].more; }

xcvm_status xct_metric_find(const char *name, xct_metric *metric, xcvm_error *error)
{
    char names[200] = "loss";
    for (size_t i = 0; i < XCT_METRICS; i++) {
        if (strcmp(metrics[i].name, name) == 0) {
            *metric = (xct_metric)i;
            return XCVM_OK;
        }
        const size_t length = strlen(names);
        (void)snprintf(names + length, sizeof names - length, ", %s", metrics[i].name);
    }
    XCVM_FAIL(error, INVALID_ARGUMENT, "there is no metric \"%.60s\"; there is: %s", name, names);
}

/* ---- Tasks ---- */

static bool is_integer(xcvm_dtype dtype) { return dtype == XCVM_I64 || dtype == XCVM_I32; }

/* Returns whether labels have the dimensions of the predictions without `axis` (-1: all). */
static bool fits(const xcvm_type *predictions, const xcvm_type *labels, int axis)
{
    if (labels->rank != predictions->rank - (axis >= 0))
        return false;
    for (int p = 0, l = 0; p < predictions->rank; p++) {
        if (p == axis)
            continue;
        const int64_t a = predictions->dims[p], b = labels->dims[l++];
        if (a >= 0 && b >= 0 && a != b)
            return false;
    }
    return true;
}

xct_task xct_task_of(const xcvm_type *predictions, const xcvm_type *labels, int *axis)
{
    *axis = -1;
    if (predictions->kind != XCVM_KIND_TENSOR || labels->kind != XCVM_KIND_TENSOR || predictions->rank < 1 ||
        !xcvm_dtype_is_float(predictions->dtype))
        return XCT_NO_TASK;
    const int last = predictions->rank - 1;
    if (is_integer(labels->dtype)) {
        /* The classes are axis 1, as in a cross entropy, or else the last axis. */
        *axis = last >= 1 && fits(predictions, labels, 1)      ? 1
                : last >= 1 && fits(predictions, labels, last) ? last
                                                               : -1;
        if (*axis >= 0 && predictions->dims[*axis] != 1)
            return XCT_CLASSES;
        return *axis >= 0 || fits(predictions, labels, -1) ? XCT_TWO_CLASSES : XCT_NO_TASK;
    }
    if (labels->dtype == XCVM_BOOL)
        return fits(predictions, labels, -1) ? XCT_TWO_CLASSES : XCT_NO_TASK;
    return xcvm_dtype_is_float(labels->dtype) && fits(predictions, labels, -1) ? XCT_NUMBERS : XCT_NO_TASK;
}

bool xct_metric_suits(xct_metric metric, xct_task task)
{
    switch (metric) {
    case XCT_ACCURACY:
    case XCT_F1:
        return task == XCT_CLASSES || task == XCT_TWO_CLASSES;
    case XCT_TOP5:
        return task == XCT_CLASSES;
    case XCT_MSE:
    case XCT_MAE:
        return task == XCT_NUMBERS;
    default:
        return true;
    }
}

/* ---- Sums ---- */

void xct_measure_clear(xct_measure *m)
{
    const xct_measure empty = {.allocator = m->allocator,
                               .task = m->task,
                               .axis = m->axis,
                               .threshold = m->threshold,
                               .ignores = m->ignores,
                               .ignored = m->ignored,
                               .classes = m->classes,
                               .class_count = m->class_count};
    if (m->classes != NULL)
        memset(m->classes, 0, m->class_count * 3 * sizeof *m->classes);
    *m = empty;
}

void xct_measure_release(xct_measure *m)
{
    xcvm_deallocate(m->allocator, m->classes, m->class_count * 3 * sizeof *m->classes);
    *m = (xct_measure){.allocator = m->allocator};
}

static double number_at(const xcvm_value *value, size_t index)
{
    double number = 0;
    const xcvm_dtype dtype = xcvm_value_dtype(value);
    const unsigned char *data = xcvm_value_data(value);
    if (dtype == XCVM_I64) {
        int64_t whole;
        memcpy(&whole, data + index * sizeof whole, sizeof whole);
        return (double)whole;
    }
    xct_convert(dtype, data + index * xcvm_dtype_size(dtype), XCVM_F64, &number, 1);
    return number;
}

static bool is_left_out(const xct_measure *m, const xcvm_value *labels, size_t index)
{
    return m->ignores && number_at(labels, index) == (double)m->ignored;
}

double xct_measure_counted(const xct_measure *m, const xcvm_value *labels)
{
    const size_t count = labels != NULL ? xcvm_value_count(labels) : 0;
    size_t counted = 0;
    if (!m->ignores || count == 0)
        return 1;
    for (size_t i = 0; i < count; i++)
        counted += !is_left_out(m, labels, i);
    return (double)counted / (double)count;
}

xcvm_status xct_measure_need_classes(xct_measure *m, size_t count, xcvm_error *error)
{
    if (m->class_count >= count)
        return XCVM_OK;
    uint64_t *classes = xcvm_allocate_zeroed(m->allocator, count * 3 * sizeof *classes);
    XCVM_CHECK(error, classes != NULL, OUT_OF_MEMORY, "no memory for the metrics of %zu classes", count);
    if (m->classes != NULL)
        memcpy(classes, m->classes, m->class_count * 3 * sizeof *classes);
    xcvm_deallocate(m->allocator, m->classes, m->class_count * 3 * sizeof *classes);
    m->classes = classes;
    m->class_count = count;
    return XCVM_OK;
}

static void count_prediction(xct_measure *m, size_t predicted, size_t label)
{
    m->predicted += 1;
    m->right += predicted == label;
    m->classes[predicted * 3]++;
    m->classes[label * 3 + 1]++;
    m->classes[label * 3 + 2] += predicted == label;
}

static xcvm_status add_classes(xct_measure *m, const xcvm_value *predictions, const xcvm_value *labels,
                               xcvm_error *error)
{
    const int64_t *dims = xcvm_value_dims(predictions);
    size_t classes = (size_t)dims[m->axis], inner = 1;
    for (int i = m->axis + 1; i < xcvm_value_rank(predictions); i++)
        inner *= (size_t)dims[i];
    const size_t count = classes > 0 ? xcvm_value_count(predictions) / classes : 0;
    XCVM_CHECK(error, count == xcvm_value_count(labels), SHAPE_MISMATCH, "%zu predictions, but %zu labels", count,
               xcvm_value_count(labels));
    XCVM_TRY(xct_measure_need_classes(m, classes, error));
    for (size_t i = 0; i < count; i++) {
        const double label = number_at(labels, i);
        if (!(label >= 0) || label >= (double)classes || is_left_out(m, labels, i))
            continue;
        const size_t own = (size_t)label, start = i / inner * inner * classes + i % inner;
        const double score = number_at(predictions, start + own * inner);
        size_t best = 0, better = 0;
        double most = -INFINITY;
        for (size_t c = 0; c < classes; c++) {
            const double other = number_at(predictions, start + c * inner);
            if (other > most) {
                most = other;
                best = c;
            }
            better += other > score || (other == score && c < own);
        }
        count_prediction(m, best, own);
        m->right5 += better < 5 && !isnan(score);
    }
    return XCVM_OK;
}

static xcvm_status add_two_classes(xct_measure *m, const xcvm_value *predictions, const xcvm_value *labels,
                                   xcvm_error *error)
{
    XCVM_TRY(xct_measure_need_classes(m, 2, error));
    const size_t count = xcvm_value_count(labels);
    XCVM_CHECK(error, count == xcvm_value_count(predictions), SHAPE_MISMATCH, "%zu predictions, but %zu labels",
               xcvm_value_count(predictions), count);
    for (size_t i = 0; i < count; i++)
        if (!is_left_out(m, labels, i))
            count_prediction(m, number_at(predictions, i) > m->threshold, number_at(labels, i) > 0.5);
    return XCVM_OK;
}

static xcvm_status add_numbers(xct_measure *m, const xcvm_value *predictions, const xcvm_value *labels,
                               xcvm_error *error)
{
    const size_t count = xcvm_value_count(labels);
    XCVM_CHECK(error, count == xcvm_value_count(predictions), SHAPE_MISMATCH, "%zu predictions, but %zu labels",
               xcvm_value_count(predictions), count);
    for (size_t i = 0; i < count; i++) {
        const double off = number_at(predictions, i) - number_at(labels, i);
        m->squares += off * off;
        m->quads += off * off * off * off;
        m->absolutes += fabs(off);
    }
    m->numbers += (double)count;
    return XCVM_OK;
}

xcvm_status xct_measure_add(xct_measure *m, double loss, size_t examples, double weight, const xcvm_value *predictions,
                            const xcvm_value *labels, xcvm_error *error)
{
    m->examples += (double)examples;
    m->weight += weight;
    m->batches += 1;
    m->loss += loss * weight;
    m->loss_squares += loss * loss * weight;
    if (predictions == NULL || labels == NULL)
        return XCVM_OK;
    switch (m->task) {
    case XCT_CLASSES:
        return add_classes(m, predictions, labels, error);
    case XCT_TWO_CLASSES:
        return add_two_classes(m, predictions, labels, error);
    case XCT_NUMBERS:
        return add_numbers(m, predictions, labels, error);
    case XCT_NO_TASK:
        break;
    }
    return XCVM_OK;
}

void xct_measure_get_sums(const xct_measure *m, double sums[XCT_SUMS])
{
#define GET(name) sums[XCT_SUM_##name] = m->name;
    XCT_SUM_LIST(GET)
#undef GET
}

void xct_measure_set_sums(xct_measure *m, const double sums[XCT_SUMS])
{
#define SET(name) m->name = sums[XCT_SUM_##name];
    XCT_SUM_LIST(SET)
#undef SET
}

/* ---- Figures ---- */

/* The standard error of a mean of batch losses, from their variance. It is unknown for one batch. */
static double mean_error(double sum, double squares, double weight, double count)
{
    const double mean = sum / weight, variance = fmax(squares / weight - mean * mean, 0);
    return count > 1 ? sqrt(variance / (count - 1)) : (double)NAN;
}

xct_figure xct_measure_loss(const xct_measure *m)
{
    const double count = m->weight;
    if (count == 0) /* no label counts */
        return (xct_figure){m->batches > 0 ? 0 : (double)NAN, (double)NAN};
    return (xct_figure){m->loss / count, mean_error(m->loss, m->loss_squares, count, m->batches)};
}

static xct_figure share(double part, double all)
{
    if (all == 0)
        return (xct_figure){(double)NAN, (double)NAN};
    const double p = part / all;
    return (xct_figure){p, sqrt(p * (1 - p) / all)};
}

/* The mean of 2 * both / (labeled + predicted) over the classes that occur; for two classes, that of class 1. */
static double f1(const xct_measure *m)
{
    double sum = 0, count = 0;
    for (size_t c = m->task == XCT_TWO_CLASSES ? 1 : 0; c < m->class_count; c++) {
        const double there = (double)m->classes[c * 3] + (double)m->classes[c * 3 + 1];
        if (there > 0) {
            sum += 2 * (double)m->classes[c * 3 + 2] / there;
            count++;
        }
    }
    return count > 0 ? sum / count : (double)NAN;
}

xct_figure xct_measure_metric(const xct_measure *m, xct_metric metric)
{
    const xct_figure loss = xct_measure_loss(m);
    const double n = m->numbers;
    switch (metric) {
    case XCT_ACCURACY:
        return share(m->right, m->predicted);
    case XCT_TOP5:
        return share(m->right5, m->predicted);
    case XCT_F1:
        return (xct_figure){f1(m), (double)NAN};
    case XCT_MSE:
        return n == 0 ? (xct_figure){(double)NAN, (double)NAN}
                      : (xct_figure){m->squares / n, mean_error(m->squares, m->quads, n, n)};
    case XCT_MAE:
        return n == 0 ? (xct_figure){(double)NAN, (double)NAN}
                      : (xct_figure){m->absolutes / n, mean_error(m->absolutes, m->squares, n, n)};
    case XCT_PERPLEXITY:
        return (xct_figure){exp(loss.value), exp(loss.value) * loss.error};
    case XCT_METRICS:
        break;
    }
    return (xct_figure){(double)NAN, (double)NAN};
}
