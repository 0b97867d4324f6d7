/* Opening files beneath a directory: component by component, without following symbolic links. */
#include "proto/open_beneath.h"
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* O_NONBLOCK: opening a FIFO must not block. */
enum { READ_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK };

static xcvm_status cannot_open(xcvm_error *error, const char *path, int code)
{
    char text[100];
    const char *reason = xcvm_error_text(code, text, sizeof text);
    return xcvm_error_set(error, XCVM_IO, "`%.300s` cannot be opened: %s", path,
                          code == ELOOP     ? "it is a symbolic link"
                          : code == ENOENT  ? "there is no such file"
                          : code == ENOTDIR ? "a part of the path is not a folder, or a symbolic link"
                                            : reason);
}

/* Copies the first component of *path to `name` and advances *path past it. */
static size_t next_component(const char **path, char name[NAME_MAX + 1])
{
    size_t length = strcspn(*path, "/");
    if (length <= NAME_MAX) {
        memcpy(name, *path, length);
        name[length] = '\0';
    }
    *path += length;
    *path += strspn(*path, "/");
    return length;
}

xcvm_status xcvm_open_any_beneath(const char *dir, const char *path, int *fd, xcvm_error *error)
{
    char name[NAME_MAX + 1];
    const char *left = path;
    XCVM_CHECK(error, path[0] != '/' && path[0] != '\0', INVALID_ARGUMENT,
               "`%.300s` is not a path relative to the folder that files may be in", path);
    int folder = open(dir, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (folder < 0)
        return cannot_open(error, dir, errno);
    for (;;) {
        size_t length = next_component(&left, name);
        bool last = *left == '\0';
        if (length > NAME_MAX || strcmp(name, "..") == 0) {
            close(folder);
            return xcvm_error_set(error, XCVM_INVALID_ARGUMENT, "`%.300s` may not be opened: it leaves its folder",
                                  path);
        }
        /* Opening each component separately prevents links inside the path from being followed. */
        int next = openat(folder, name, READ_FLAGS | O_NOFOLLOW | (last ? 0 : O_DIRECTORY));
        int code = errno;
        close(folder);
        if (next < 0)
            return cannot_open(error, path, code);
        folder = next;
        if (last) {
            *fd = next;
            return XCVM_OK;
        }
    }
}

/* Returns the part of `path` below `folder`, or NULL if it is not below it. Both must be resolved. */
static const char *path_below(const char *folder, const char *path)
{
    const size_t length = strcmp(folder, "/") != 0 ? strlen(folder) : 0;
    return strncmp(path, folder, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

/* Opens the resolved `path` if it is below `folder`. */
static bool open_below(const char *folder, const char *path, int *fd)
{
    char real[PATH_MAX];
    const char *rest = folder != NULL && xcvm_real_path(folder, real) != NULL ? path_below(real, path) : NULL;
    return rest != NULL && xcvm_open_any_beneath(real, rest, fd, NULL) == XCVM_OK;
}

/* Joins `dir` and `path` and resolves all links. */
static bool resolve(const char *dir, const char *path, char real[PATH_MAX])
{
    char joined[PATH_MAX];
    const int length = snprintf(joined, sizeof joined, "%s/%s", dir, path);
    return length > 0 && (size_t)length < sizeof joined && xcvm_real_path(joined, real) != NULL;
}

xcvm_status xcvm_open_any_resolved(const char *dir, const char *other, const char *path, int *fd, xcvm_error *error)
{
    char real[PATH_MAX];
    const xcvm_status status = xcvm_open_any_beneath(dir, path, fd, error);
    if (status != XCVM_IO || !resolve(dir, path, real))
        return status;
    if (open_below(dir, real, fd) || open_below(other, real, fd))
        return XCVM_OK;
    XCVM_FAIL(error, IO,
              "`%.200s` cannot be opened: it leads to %.200s, which is neither below the model's folder nor below that "
              "of the file that the model is; copy it there",
              path, real);
}

xcvm_status xcvm_open_beneath(const char *dir, const char *path, int *fd, uint64_t *size, xcvm_error *error)
{
    struct stat status;
    int file = -1;
    if (dir[0] != '\0') {
        XCVM_TRY(xcvm_open_any_beneath(dir, path, &file, error));
    } else {
        file = open(path, READ_FLAGS);
        if (file < 0)
            return cannot_open(error, path, errno);
    }
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(file);
        return xcvm_error_set(error, XCVM_IO, "`%.300s` is not a regular file", path);
    }
    *fd = file;
    *size = (uint64_t)status.st_size;
    return XCVM_OK;
}

xcvm_status xcvm_read_beneath(int fd, uint64_t offset, void *bytes, size_t count, xcvm_error *error)
{
    char *at = bytes;
    while (count > 0) {
        ssize_t got = pread(fd, at, count, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        XCVM_CHECK(error, got > 0, IO, "a file cannot be read, or has become shorter");
        at += got;
        offset += (uint64_t)got;
        count -= (size_t)got;
    }
    return XCVM_OK;
}
