/* The history of a training: measurements per step, as a CSV file and as a curve. */
#ifndef XCVM_TRAIN_HISTORY_H
#define XCVM_TRAIN_HISTORY_H

#include "train/metrics.h"
#include "train/whole_file.h"

enum { XCT_MAX_FIGURES = XCT_METRICS + 1 };

/* A line of the log: loss and metrics of a batch, and after an epoch those of validation; otherwise NaN. */
typedef struct xct_record {
    uint64_t step, epoch;
    double figures[XCT_MAX_FIGURES], validation[XCT_MAX_FIGURES];
    double rate;
} xct_record;

/* The figures: loss and metrics. Other members start as zero. */
typedef struct xct_columns {
    const xct_metric *metrics;
    size_t metric_count;
    bool validation;
} xct_columns;

/* ---- The log ---- */

/* Never blocks on a pipe: lines are buffered until they are read, and dropped if there are too many. */
typedef struct xct_log {
    int fd; /* -1: none, or a pipe without a reader */
    bool pipe;
    char path[XCT_PATH];
    xct_columns columns;
    char pending[1 << 16]; /* lines that are not yet written */
    size_t pending_count;
} xct_log;

typedef struct xct_history xct_history;

/* The state of a resumed training. */
typedef struct xct_log_start {
    uint64_t step;           /* rows of later steps are removed, earlier ones are added to the history */
    xct_history *history;    /* NULL: starts a new file */
    const atomic_bool *stop; /* as of xct_open_target */
} xct_log_start;

/* Starts a file or continues one. INVALID_ARGUMENT if an existing file is not a log of these columns; it stays
 * unchanged. */
xcvm_status xct_log_open(xct_log *log, const char *path, const xct_columns *columns, const xct_log_start *start,
                         xcvm_error *error);
xcvm_status xct_log_add(xct_log *log, const xct_record *record, xcvm_error *error);
void xct_log_close(xct_log *log);

/* ---- The curve ---- */

enum { XCT_HISTORY_POINTS = 2048 };

/* A bounded number of points of one figure over the steps. When it is full, each two neighbors are replaced by their
 * mean. */
typedef struct xct_series {
    double step[XCT_HISTORY_POINTS], value[XCT_HISTORY_POINTS];
    size_t count;
    double step_sum, value_sum; /* sum for the next point */
    uint64_t gathered, each;    /* values in the sum, and values per point; 0: 1 */
} xct_series;

struct xct_history {
    xct_columns columns;
    xct_series figures[XCT_MAX_FIGURES], validation[XCT_MAX_FIGURES];
};

void xct_history_add(xct_history *history, const xct_record *record);
/* Plots the loss, and the first metric if there is one, over the steps (SVG 1.1), for light and dark backgrounds. */
xcvm_status xct_curve_write(const xct_history *history, const char *title, xcvm_sink sink, xcvm_error *error);

#endif
