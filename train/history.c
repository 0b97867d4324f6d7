/* The history: its points, and the log. */
#include "train/history.h"

#include "base/decimal.h"
#include "train/data/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- Points ---- */

static void halve(xct_series *s)
{
    for (size_t i = 0; i < s->count / 2; i++) {
        s->step[i] = (s->step[2 * i] + s->step[2 * i + 1]) / 2;
        s->value[i] = (s->value[2 * i] + s->value[2 * i + 1]) / 2;
    }
    s->count /= 2;
    s->each *= 2;
}

static void add_point(xct_series *s, double step, double value)
{
    if (!isfinite(value))
        return;
    if (s->each == 0)
        s->each = 1;
    s->step_sum += step;
    s->value_sum += value;
    if (++s->gathered < s->each)
        return;
    s->step[s->count] = s->step_sum / (double)s->gathered;
    s->value[s->count++] = s->value_sum / (double)s->gathered;
    s->step_sum = s->value_sum = 0;
    s->gathered = 0;
    if (s->count == XCT_HISTORY_POINTS)
        halve(s);
}

void xct_history_add(xct_history *history, const xct_record *record)
{
    for (size_t i = 0; i <= history->columns.metric_count; i++) {
        add_point(&history->figures[i], (double)record->step, record->figures[i]);
        add_point(&history->validation[i], (double)record->step, record->validation[i]);
    }
}

/* ---- The log ---- */

static const char *figure_name(const xct_columns *columns, size_t index)
{
    return index == 0 ? "loss" : xct_metric_name(columns->metrics[index - 1]);
}

typedef struct line {
    char text[2048];
    size_t length;
} line;

static void put(line *l, const char *text)
{
    const int added = snprintf(l->text + l->length, sizeof l->text - l->length, "%s", text);
    l->length += added > 0 ? (size_t)added : 0;
}

static void put_number(line *l, double value)
{
    char digits[XCVM_DECIMAL_TEXT];
    put(l, ",");
    if (isfinite(value))
        put(l, xcvm_decimal_text(value, 9, digits));
    else if (isinf(value))
        put(l, value > 0 ? "inf" : "-inf");
}

static void put_header(line *l, const xct_columns *columns)
{
    put(l, "step,epoch");
    for (int validation = 0; validation <= (int)columns->validation; validation++)
        for (size_t i = 0; i <= columns->metric_count; i++) {
            put(l, validation ? ",validation_" : ",");
            put(l, figure_name(columns, i));
        }
    put(l, ",learning_rate\n");
}

/* Writes as many bytes as the pipe accepts. */
static void flush_pipe(xct_log *log)
{
    if (log->fd < 0)
        log->fd = open(log->path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    while (log->fd >= 0 && log->pending_count > 0) {
        const ssize_t done = xct_write(log->fd, log->pending, log->pending_count);
        if (done > 0) {
            log->pending_count -= (size_t)done;
            memmove(log->pending, log->pending + done, log->pending_count);
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN) { /* the reader is gone, and another one may follow */
            close(log->fd);
            log->fd = -1;
        }
        return;
    }
}

static void add_to_pipe(xct_log *log, const line *l)
{
    flush_pipe(log);
    if (l->length <= sizeof log->pending - log->pending_count) {
        memcpy(log->pending + log->pending_count, l->text, l->length);
        log->pending_count += l->length;
    }
    flush_pipe(log);
}

static xcvm_status write_line(xct_log *log, const line *l, xcvm_error *error)
{
    if (log->pipe) {
        add_to_pipe(log, l);
        return XCVM_OK;
    }
    for (size_t at = 0; at < l->length;) {
        const ssize_t done = xct_write(log->fd, l->text + at, l->length - at);
        if (done < 0 && errno == EINTR)
            continue;
        XCVM_CHECK(error, done >= 0, IO, "%s: cannot be written: %s", log->path, strerror(errno));
        at += (size_t)done;
    }
    return XCVM_OK;
}

/* Parses a row of put_row; false if it is not one. */
static bool parse_row(const xct_columns *columns, const char *text, size_t length, xct_record *record)
{
    char copy[2048];
    double numbers[2 * XCT_MAX_FIGURES + 3];
    const size_t figures = columns->metric_count + 1, wanted = 2 + figures * (columns->validation ? 2 : 1) + 1;
    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    size_t count = 0;
    for (char *at = copy; count < wanted; count++) {
        char *comma = strchr(at, ',');
        if (comma != NULL)
            *comma = '\0';
        numbers[count] = (double)NAN;
        if (*at != '\0' && !xcvm_decimal_parse(at, &numbers[count]) && strstr(at, "inf") == NULL)
            return false;
        if (comma == NULL) {
            count++;
            break;
        }
        at = comma + 1;
    }
    if (count != wanted || !(numbers[0] >= 1 && numbers[0] < 0x1p53) || !(numbers[1] >= 1 && numbers[1] < 0x1p53))
        return false;
    record->step = (uint64_t)numbers[0];
    record->epoch = (uint64_t)numbers[1];
    for (size_t i = 0; i < figures; i++) {
        record->figures[i] = numbers[2 + i];
        record->validation[i] = columns->validation ? numbers[2 + figures + i] : (double)NAN;
    }
    record->rate = numbers[wanted - 1];
    return true;
}

/* Returns the bytes of an older log to keep: its header and its rows up to the step; 0 if the header is incomplete.
 * Fails if the file is not a log of these columns. */
static xcvm_status keep_rows(const xct_log *log, const char *text, size_t count, const xct_log_start *start,
                             size_t *kept, xcvm_error *error)
{
    line header = {.length = 0};
    put_header(&header, &log->columns);
    const size_t shared = count < header.length ? count : header.length;
    XCVM_CHECK(error, memcmp(text, header.text, shared) == 0, INVALID_ARGUMENT,
               "%s cannot be gone on with, as it does not begin with %.*s", log->path, (int)header.length - 1,
               header.text);
    *kept = shared < header.length ? 0 : header.length;
    while (*kept > 0 && *kept < count) {
        const char *at = text + *kept, *end = memchr(at, '\n', count - *kept);
        xct_record record;
        if (end == NULL || !parse_row(&log->columns, at, (size_t)(end - at), &record) || record.step > start->step)
            break;
        xct_history_add(start->history, &record);
        *kept = (size_t)(end - text) + 1;
    }
    return XCVM_OK;
}

static xcvm_status read_old(const xct_log *log, const xct_log_start *start, size_t *kept, xcvm_error *error)
{
    xct_mapping old;
    XCVM_TRY(xct_mapping_open(&old, log->path, error));
    const xcvm_status status = keep_rows(log, old.bytes, old.count, start, kept, error);
    xct_mapping_close(&old);
    return status;
}

/* A new log replaces an older one, of any columns, but no other file. One that cannot be read is not looked at. */
static xcvm_status check_old(const xct_log *log, xcvm_error *error)
{
    static const char first[] = "step,epoch,loss", last[] = ",learning_rate";
    xct_mapping old;
    const xcvm_status status = xct_mapping_open(&old, log->path, error);
    if (status == XCVM_IO)
        return XCVM_OK;
    XCVM_TRY(status);
    const char *text = old.bytes, *end = memchr(text, '\n', old.count);
    const size_t length = end != NULL ? (size_t)(end - text) : 0;
    const bool good = length >= sizeof first + sizeof last - 2 && memcmp(text, first, sizeof first - 1) == 0 &&
                      memcmp(end - (sizeof last - 1), last, sizeof last - 1) == 0;
    xct_mapping_close(&old);
    XCVM_CHECK(error, good, INVALID_ARGUMENT,
               "%s is no log of a training, and is not overwritten. Name another file, or remove it", log->path);
    return XCVM_OK;
}

static xcvm_status open_log(xct_log *log, const xct_log_start *start, xcvm_error *error)
{
    size_t kept = 0;
    struct stat info;
    log->pipe = stat(log->path, &info) == 0 && S_ISFIFO(info.st_mode);
    if (!log->pipe)
        XCVM_TRY(xct_open_target(log->path, O_CREAT, start->stop, &log->fd, error));
    const bool regular = !log->pipe && fstat(log->fd, &info) == 0 && S_ISREG(info.st_mode);
    if (start->history != NULL && regular && info.st_size > 0)
        XCVM_TRY(read_old(log, start, &kept, error));
    if (start->history == NULL && regular && info.st_size > 0)
        XCVM_TRY(check_old(log, error));
    XCVM_CHECK(error, !regular || (ftruncate(log->fd, (off_t)kept) == 0 && lseek(log->fd, (off_t)kept, SEEK_SET) >= 0),
               IO, "%s: cannot be written: %s", log->path, strerror(errno));
    if (kept > 0)
        return XCVM_OK;
    line header = {.length = 0};
    put_header(&header, &log->columns);
    return write_line(log, &header, error);
}

xcvm_status xct_log_open(xct_log *log, const char *path, const xct_columns *columns, const xct_log_start *start,
                         xcvm_error *error)
{
    *log = (xct_log){.fd = -1, .columns = *columns};
    if (path == NULL)
        return XCVM_OK;
    const int length = snprintf(log->path, sizeof log->path, "%s", path);
    XCVM_CHECK(error, length > 0 && (size_t)length < sizeof log->path, IO, "%.100s: no name for a file", path);
    const xcvm_status status = open_log(log, start, error);
    if (status != XCVM_OK)
        xct_log_close(log);
    return status;
}

xcvm_status xct_log_add(xct_log *log, const xct_record *record, xcvm_error *error)
{
    line l = {.length = 0};
    char numbers[64];
    if (log->fd < 0 && !log->pipe)
        return XCVM_OK;
    (void)snprintf(numbers, sizeof numbers, "%llu,%llu", (unsigned long long)record->step,
                   (unsigned long long)record->epoch);
    put(&l, numbers);
    for (size_t i = 0; i <= log->columns.metric_count; i++)
        put_number(&l, record->figures[i]);
    for (size_t i = 0; log->columns.validation && i <= log->columns.metric_count; i++)
        put_number(&l, record->validation[i]);
    put_number(&l, record->rate);
    put(&l, "\n");
    return write_line(log, &l, error);
}

/* Time for reading the remaining lines, since the last one was read. */
static void drain_pipe(xct_log *log)
{
    enum { PATIENCE = 100 };
    const struct timespec pause = {.tv_nsec = 20000000};
    for (int waited = 0; log->pending_count > 0 && waited < PATIENCE; waited++) {
        const size_t before = log->pending_count;
        flush_pipe(log);
        if (log->pending_count < before)
            waited = 0;
        if (log->pending_count > 0)
            (void)nanosleep(&pause, NULL);
    }
    log->pending_count = 0;
}

void xct_log_close(xct_log *log)
{
    if (log->pipe)
        drain_pipe(log);
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
    log->pipe = false;
}
