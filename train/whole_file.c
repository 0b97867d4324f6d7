/* Writing files whole. */
#include "train/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

xcvm_status xct_whole_file_open(xct_whole_file *file, const char *path, xcvm_error *error)
{
    *file = (xct_whole_file){.fd = -1};
    const int length = snprintf(file->path, sizeof file->path, "%s", path);
    XCVM_CHECK(error, length > 0 && (size_t)length < sizeof file->path, IO, "%.100s: no name for a file", path);
    (void)snprintf(file->temporary, sizeof file->temporary, "%s.%ld.new", path, (long)getpid());
    file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    XCVM_CHECK(error, file->fd >= 0, IO, "%s: %s", path, strerror(errno));
    return XCVM_OK;
}

bool xct_whole_file_sink(void *user, const void *bytes, size_t count)
{
    xct_whole_file *file = user;
    for (const char *at = bytes; count > 0 && file->failure == 0;) {
        const ssize_t done = write(file->fd, at, count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            file->failure = errno;
            break;
        }
        at += done;
        count -= (size_t)done;
    }
    return file->failure == 0;
}

/* A name is on the disk when its folder is. */
static void sync_folder(const char *path)
{
    char folder[XCT_PATH];
    (void)snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        (void)snprintf(folder, sizeof folder, ".");
    else
        slash[slash == folder] = '\0';
    const int fd = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

xcvm_status xct_whole_file_close(xct_whole_file *file, xcvm_status status, xcvm_error *error)
{
    if (file->fd < 0)
        return status;
    /* Some file systems have no way to wait for the disk: EINVAL. */
    if (status == XCVM_OK && file->failure == 0 && fsync(file->fd) != 0 && errno != EINVAL && errno != ENOSYS)
        file->failure = errno;
    if (close(file->fd) != 0 && file->failure == 0)
        file->failure = errno;
    file->fd = -1;
    if (status == XCVM_OK && file->failure == 0 && rename(file->temporary, file->path) != 0)
        file->failure = errno;
    if (file->failure != 0)
        status = xcvm_error_set(error, XCVM_IO, "%s: cannot be written: %s", file->path, strerror(file->failure));
    if (status != XCVM_OK)
        (void)unlink(file->temporary);
    else
        sync_folder(file->path);
    return status;
}
