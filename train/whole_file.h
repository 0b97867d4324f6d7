/* Files that appear whole or not at all: written beside their place, brought to the disk, and renamed. */
#ifndef XCVM_TRAIN_WHOLE_FILE_H
#define XCVM_TRAIN_WHOLE_FILE_H

#include "base/allocator.h"
#include "base/status.h"

#include <stdatomic.h>
#include <sys/types.h>

/* Bytes of a path, at most. */
enum { XCT_PATH = 4096 };

/* What exists and is no regular file, as a pipe or /dev/null, is written to directly. A link stays, and what it leads
 * to is replaced; a file that may not be written is not, and one that is replaced keeps its mode. */
typedef struct xct_whole_file {
    char path[XCT_PATH];           /* as it was given */
    char target[XCT_PATH];         /* behind links */
    char temporary[XCT_PATH + 64]; /* empty if the target is written to directly */
    int fd;
    int failure; /* errno of the first write that failed, 0 so far */
} xct_whole_file;

/* IO if the file cannot be written; messages begin with its path. `stop` is as of xct_open_target. */
xcvm_status xct_whole_file_open(xct_whole_file *file, const char *path, const atomic_bool *stop, xcvm_error *error);
/* An xcvm_sink whose user is such a file. */
bool xct_whole_file_sink(void *file, const void *bytes, size_t count);
/* Puts the file in its place if `status` is OK, else removes what was written; passes on what failed first. CANCELLED
 * where nobody reads a pipe any more. */
xcvm_status xct_whole_file_close(xct_whole_file *file, xcvm_status status, xcvm_error *error);

/* As write, but nobody is sent SIGPIPE: where nobody reads it fails with EPIPE. */
ssize_t xct_write(int fd, const void *bytes, size_t count);

/* Opens a file for writing, which the flags O_CREAT and the like may make. A pipe waits for its reader: CANCELLED once
 * *stop is set (NULL: it never is). */
xcvm_status xct_open_target(const char *path, int flags, const atomic_bool *stop, int *fd, xcvm_error *error);

#endif
