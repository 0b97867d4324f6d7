/* Reading files whole, within limits of memory and time, whatever they are: files, pipes, what the kernel makes up. */
#ifndef XCVM_TOOLS_IO_READ_H
#define XCVM_TOOLS_IO_READ_H

#include "cli/buffer.h"

/* What reading may take. */
struct read_limits {
    uint64_t bytes; /* 0: no limit, but what does not tell its size may have half of the machine's memory */
    double until;   /* by now_seconds; 0: no limit */
};

/* A file that is being read. */
struct reading {
    const char *name; /* for messages */
    int fd;
    bool owned, ended; /* it is to be closed; all is there */
    bool empty;        /* it does not block, and had nothing when it was read last */
    uint64_t size;     /* that a regular file tells; UINT64_MAX: not known */
    struct read_limits limits;
    struct buffer bytes; /* those read so far */
};

/* "-" is standard input, which can be read once. `limits` NULL: none. Folders and devices without an end are refused
 * with IO. A file that may not be read is closed. */
xcvm_status reading_open(struct reading *reading, const char *path, const struct read_limits *limits,
                         xcvm_error *error);
/* Reads until `count` bytes are there, or the file has ended. OUT_OF_TIME, OUT_OF_MEMORY where it has more than it may,
 * IO. */
xcvm_status reading_start(struct reading *reading, size_t count, xcvm_error *error);
/* The rest. It may be `most` bytes in all, for the reason `why`, as far as the limits allow. */
xcvm_status reading_rest(struct reading *reading, uint64_t most, const char *why, xcvm_error *error);
void reading_close(struct reading *reading);

/* The whole file. `limits` may be NULL. */
xcvm_status file_read(const char *path, const struct read_limits *limits, struct buffer *bytes, xcvm_error *error);
/* Lends the bytes of a stream, which wait then for whoever reads it; the path has to stay. */
xcvm_status file_read_ahead(const char *path, const struct read_limits *limits, const struct buffer **bytes,
                            xcvm_error *error);
/* Opens a file for reading; the same are refused as by reading_open. */
xcvm_status file_open(const char *path, int flags, int *fd, xcvm_error *error);

#endif
