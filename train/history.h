/* The history of a training: what was measured at which step, in a file of comma-separated values and as a curve. */
#ifndef XCVM_TRAIN_HISTORY_H
#define XCVM_TRAIN_HISTORY_H

#include "train/metrics.h"
#include "train/whole_file.h"

enum { XCT_MAX_FIGURES = XCT_METRICS + 1 };

/* A line of the log: the loss and the metrics of a batch, and behind an epoch those of the data for validation. NaN
 * where there is none. */
typedef struct xct_record {
    uint64_t step, epoch;
    double figures[XCT_MAX_FIGURES], validation[XCT_MAX_FIGURES];
    double rate;
} xct_record;

/* Figures: the loss and the metrics. Zero-initialized apart from those. */
typedef struct xct_columns {
    const xct_metric *metrics;
    size_t metric_count;
    bool validation;
} xct_columns;

/* ---- The log ---- */

/* A pipe is not waited for: lines are kept until somebody reads them, and left out where too many are. */
typedef struct xct_log {
    int fd; /* -1: none, or a pipe that nobody reads */
    bool pipe;
    char path[XCT_PATH];
    xct_columns columns;
    char pending[1 << 16]; /* of a pipe, what is not written yet */
    size_t pending_count;
} xct_log;

typedef struct xct_history xct_history;

/* The training that a log goes on with. */
typedef struct xct_log_start {
    uint64_t step;           /* rows of steps beyond it are cut off, the others are added to the history */
    xct_history *history;    /* NULL: the file begins anew */
    const atomic_bool *stop; /* as of xct_open_target */
} xct_log_start;

/* Begins a file, or goes on with one. INVALID_ARGUMENT where that has something else in it than a log of these columns;
 * it stays as it is then. */
xcvm_status xct_log_open(xct_log *log, const char *path, const xct_columns *columns, const xct_log_start *start,
                         xcvm_error *error);
xcvm_status xct_log_add(xct_log *log, const xct_record *record, xcvm_error *error);
void xct_log_close(xct_log *log);

/* ---- The curve ---- */

enum { XCT_HISTORY_POINTS = 2048 };

/* Points of one figure over the steps, their number bounded: where there would be more, each two neighbors become
 * their mean. */
typedef struct xct_series {
    double step[XCT_HISTORY_POINTS], value[XCT_HISTORY_POINTS];
    size_t count;
    double step_sum, value_sum; /* of what will be the next point */
    uint64_t gathered, each;    /* values of that point so far, and wanted; 0: 1 */
} xct_series;

struct xct_history {
    xct_columns columns;
    xct_series figures[XCT_MAX_FIGURES], validation[XCT_MAX_FIGURES];
};

void xct_history_add(xct_history *history, const xct_record *record);
/* A picture of the loss, and of the first metric if there is one, over the steps (SVG 1.1), readable on light and dark
 * ground. */
xcvm_status xct_curve_write(const xct_history *history, const char *title, xcvm_sink sink, xcvm_error *error);

#endif
