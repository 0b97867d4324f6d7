/* Files that appear whole or not at all: written beside their place, brought to the disk, and renamed. */
#ifndef XCVM_TRAIN_WHOLE_FILE_H
#define XCVM_TRAIN_WHOLE_FILE_H

#include "base/allocator.h"
#include "base/status.h"

/* Bytes of a path, at most. */
enum { XCT_PATH = 4096 };

typedef struct xct_whole_file {
    char path[XCT_PATH], temporary[XCT_PATH + 32];
    int fd;
    int failure; /* errno of the first write that failed, 0 so far */
} xct_whole_file;

/* IO if the file cannot be written; messages begin with its path. */
xcvm_status xct_whole_file_open(xct_whole_file *file, const char *path, xcvm_error *error);
/* An xcvm_sink whose user is such a file. */
bool xct_whole_file_sink(void *file, const void *bytes, size_t count);
/* Puts the file in its place if `status` is OK, else removes what was written; passes on what failed first. */
xcvm_status xct_whole_file_close(xct_whole_file *file, xcvm_status status, xcvm_error *error);

#endif
