/* Reads complete files within limits of memory and time: regular files, pipes, devices. */
#ifndef XCVM_TOOLS_IO_READ_H
#define XCVM_TOOLS_IO_READ_H

#include "cli/buffer.h"

/* Limits of reading. */
struct read_limits {
    uint64_t bytes; /* 0: no limit, except half of the machine's memory for files of unknown size */
    double until;   /* by now_seconds; 0: no limit */
};

/* A file that is being read. */
struct reading {
    const char *name; /* for messages */
    int fd;
    bool owned, ended; /* must be closed; is complete */
    bool empty;        /* a non-blocking file that had no data at the last read */
    uint64_t size;     /* of a regular file; UINT64_MAX: unknown */
    struct read_limits limits;
    struct buffer bytes; /* bytes read so far */
};

/* Opens a file. "-" is standard input, which can be read once. `limits` may be NULL. Directories and endless
 * devices fail with IO. */
xcvm_status reading_open(struct reading *reading, const char *path, const struct read_limits *limits,
                         xcvm_error *error);
/* Reads until there are `count` bytes or the file ends. Fails with OUT_OF_TIME, OUT_OF_MEMORY or IO. */
xcvm_status reading_start(struct reading *reading, size_t count, xcvm_error *error);
/* Reads the rest. The file may have `most` bytes in all; `why` names this limit in the message. */
xcvm_status reading_rest(struct reading *reading, uint64_t most, const char *why, xcvm_error *error);
void reading_close(struct reading *reading);

/* The whole file. `limits` may be NULL. */
xcvm_status file_read(const char *path, const struct read_limits *limits, struct buffer *bytes, xcvm_error *error);
/* Reads a stream ahead. The bytes are kept for its next reader. `path` must stay valid. */
xcvm_status file_read_ahead(const char *path, const struct read_limits *limits, const struct buffer **bytes,
                            xcvm_error *error);
/* Opens a file for reading. Refuses the same files as reading_open. */
xcvm_status file_open(const char *path, int flags, int *fd, xcvm_error *error);

#endif
