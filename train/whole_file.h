/* Atomic file replacement: a temporary file is written, synchronized and renamed. */
#ifndef XCVM_TRAIN_WHOLE_FILE_H
#define XCVM_TRAIN_WHOLE_FILE_H

#include "base/allocator.h"
#include "base/status.h"

#include <stdatomic.h>
#include <sys/types.h>

/* Maximum size of a path. */
enum { XCT_PATH = 4096 };

/* An existing target that is not a regular file, such as a pipe or /dev/null, is written directly. The target of a
 * symbolic link is replaced, and the link stays. A replaced file keeps its mode. A file without write permission is not
 * replaced. */
typedef struct xct_whole_file {
    char path[XCT_PATH];           /* as given */
    char target[XCT_PATH];         /* after following links */
    char temporary[XCT_PATH + 64]; /* empty if the target is written to directly */
    int fd;
    int failure; /* errno of the first failed write; 0: none */
} xct_whole_file;

/* Opens the file. IO if it cannot be written; errors begin with its path. `stop` as in xct_open_target. */
xcvm_status xct_whole_file_open(xct_whole_file *file, const char *path, const atomic_bool *stop, xcvm_error *error);
/* An xcvm_sink; `user` is the file. */
bool xct_whole_file_sink(void *file, const void *bytes, size_t count);
/* Replaces the target if `status` is OK, otherwise removes the temporary file. Returns the first failure. CANCELLED if
 * the reader of a pipe is gone. */
xcvm_status xct_whole_file_close(xct_whole_file *file, xcvm_status status, xcvm_error *error);

/* As write, but without SIGPIPE: fails with EPIPE if there is no reader. */
ssize_t xct_write(int fd, const void *bytes, size_t count);

/* Opens a file for writing, with flags such as O_CREAT. Waits for the reader of a pipe: CANCELLED when *stop is set
 * (NULL: never). */
xcvm_status xct_open_target(const char *path, int flags, const atomic_bool *stop, int *fd, xcvm_error *error);

#endif
