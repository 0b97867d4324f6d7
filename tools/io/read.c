/* Reading files whole, within limits. */
#include "io/read.h"
#include "cli/clock.h"
#include "cli/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Maximum bytes per read; the deadline is checked in between. */
enum { STREAM_STEP = 1 << 16, FILE_STEP = 1 << 24 };

/* /dev/zero and its like never end; /dev/null does, and terminals do. */
static bool is_endless(int fd, const struct stat *facts)
{
    return S_ISBLK(facts->st_mode) || (S_ISCHR(facts->st_mode) && facts->st_rdev != makedev(1, 3) && isatty(fd) == 0);
}

static xcvm_status check_kind(int fd, const char *name, xcvm_error *error)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return XCVM_OK;
    if (S_ISDIR(facts.st_mode))
        return error_set(error, XCVM_IO, "%s: is a directory (expected a file)", name);
    if (is_endless(fd, &facts))
        return error_set(error, XCVM_IO, "%s: is a device (expected a file)", name);
    return XCVM_OK;
}

xcvm_status file_open(const char *path, int flags, int *fd, xcvm_error *error)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (*fd < 0)
        return error_set(error, XCVM_IO, "%s: cannot be opened: %s", path, strerror(errno));
    const xcvm_status status = check_kind(*fd, path, error);
    if (status != XCVM_OK)
        close(*fd);
    return status;
}

/* ---- Streams that were read ahead ---- */

static struct {
    const char *path; /* NULL: none */
    struct buffer bytes;
} ahead;

static bool take_ahead(struct reading *reading, const char *path)
{
    if (ahead.path == NULL || strcmp(ahead.path, path) != 0)
        return false;
    reading->bytes = ahead.bytes;
    reading->size = ahead.bytes.length;
    reading->ended = true;
    ahead.bytes = (struct buffer){0};
    ahead.path = NULL;
    return true;
}

xcvm_status file_read_ahead(const char *path, const struct read_limits *limits, const struct buffer **bytes,
                            xcvm_error *error)
{
    *bytes = &ahead.bytes;
    if (ahead.path != NULL && strcmp(ahead.path, path) == 0)
        return XCVM_OK;
    buffer_release(&ahead.bytes);
    ahead.path = NULL;
    TRY(file_read(path, limits, &ahead.bytes, error));
    ahead.path = path;
    return XCVM_OK;
}

/* ---- Reading ---- */

static xcvm_status open_input(struct reading *reading, xcvm_error *error)
{
    static bool input_read;
    if (input_read)
        return error_set(error, XCVM_INVALID_ARGUMENT, "standard input (-) can be read only once, but is named twice");
    input_read = true;
    reading->name = "standard input";
    reading->fd = STDIN_FILENO;
    return check_kind(STDIN_FILENO, reading->name, error);
}

/* The size of a regular file; files of /proc have none. */
static uint64_t file_size(int fd)
{
    struct stat facts;
    return fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0 ? (uint64_t)facts.st_size : UINT64_MAX;
}

xcvm_status reading_open(struct reading *reading, const char *path, const struct read_limits *limits, xcvm_error *error)
{
    *reading = (struct reading){.name = path, .fd = -1, .size = UINT64_MAX};
    if (limits != NULL)
        reading->limits = *limits;
    if (take_ahead(reading, path))
        return XCVM_OK;
    if (strcmp(path, "-") == 0) {
        TRY(open_input(reading, error));
    } else {
        /* With a time limit, only wait_for_bytes waits for the other end of a pipe. */
        TRY(file_open(path, reading->limits.until != 0 ? O_NONBLOCK : 0, &reading->fd, error));
        reading->owned = true;
    }
    reading->size = file_size(reading->fd);
    return XCVM_OK;
}

void reading_close(struct reading *reading)
{
    if (reading->owned)
        close(reading->fd);
    buffer_release(&reading->bytes);
    *reading = (struct reading){.fd = -1};
}

/* Non-blocking streams of the caller are polled, not read in a busy loop. */
static xcvm_status wait_for_bytes(const struct reading *reading, xcvm_error *error)
{
    const double until = reading->limits.until;
    while (until != 0 || reading->empty) {
        const double left = until != 0 ? (until - now_seconds()) * 1e3 : 1000;
        if (left <= 0)
            return error_set(error, XCVM_OUT_OF_TIME, "%s: reading exceeded the time limit", reading->name);
        struct pollfd here = {.fd = reading->fd, .events = POLLIN};
        if (poll(&here, 1, left < 1000 ? (int)left + 1 : 1000) != 0)
            break;
    }
    return XCVM_OK;
}

/* Reads once; `step` bytes at most. */
static xcvm_status read_step(struct reading *reading, size_t step, xcvm_error *error)
{
    struct buffer *bytes = &reading->bytes;
    TRY(wait_for_bytes(reading, error));
    const size_t before = bytes->length;
    char *at = buffer_extend(bytes, step);
    const ssize_t got = read(reading->fd, at, step);
    const int number = errno;
    bytes->length = before + (got > 0 ? (size_t)got : 0);
    bytes->data[bytes->length] = '\0';
    reading->ended = got == 0;
    reading->empty = got < 0 && number == EAGAIN;
    if (got < 0 && number != EINTR && number != EAGAIN)
        return error_set(error, XCVM_IO, "%s: cannot be read: %s", reading->name, strerror(number));
    return XCVM_OK;
}

xcvm_status reading_start(struct reading *reading, size_t count, xcvm_error *error)
{
    while (!reading->ended && reading->bytes.length < count)
        TRY(read_step(reading, count - reading->bytes.length, error));
    return XCVM_OK;
}

/* The smallest of the limits, and its kind. */
static uint64_t least_bound(const struct reading *reading, uint64_t most, const char **why)
{
    const uint64_t limit = reading->limits.bytes;
    const bool known = reading->size != UINT64_MAX;
    if (limit != 0 && limit <= most) {
        *why = "the rest of the memory limit";
        return limit;
    }
    const uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t possible = known ? memory : memory / 2;
    if (limit != 0 || most <= possible)
        return most;
    *why = known ? "the memory of this machine" : "half of the memory of this machine, because its size is unknown";
    return possible;
}

xcvm_status reading_rest(struct reading *reading, uint64_t most, const char *why, xcvm_error *error)
{
    struct buffer *bytes = &reading->bytes;
    const uint64_t bound = least_bound(reading, most, &why);
    const bool known = reading->size != UINT64_MAX;
    if (known && !reading->ended && reading->size <= bound && reading->size > bytes->length &&
        reading->size < SIZE_MAX) {
        const size_t before = bytes->length;
        (void)buffer_extend(bytes, (size_t)reading->size - before + 1);
        bytes->length = before;
    }
    while ((!known || reading->size <= bound) && bytes->length <= bound && !reading->ended) {
        const uint64_t left = known && reading->size > bytes->length ? reading->size - bytes->length + 1 : STREAM_STEP;
        TRY(read_step(reading, left < FILE_STEP ? (size_t)left : FILE_STEP, error));
    }
    if (bytes->length <= bound && reading->ended)
        return XCVM_OK;
    return error_set(error, XCVM_OUT_OF_MEMORY, "%s: has more than %" PRIu64 " bytes, %s", reading->name, bound, why);
}

xcvm_status file_read(const char *path, const struct read_limits *limits, struct buffer *bytes, xcvm_error *error)
{
    struct reading reading;
    TRY(reading_open(&reading, path, limits, error));
    const xcvm_status status = reading_rest(&reading, UINT64_MAX, "", error);
    if (status == XCVM_OK) {
        *bytes = reading.bytes;
        reading.bytes = (struct buffer){0};
    }
    reading_close(&reading);
    return status;
}
