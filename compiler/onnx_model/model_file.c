/* Model files: mapped or read. */
#include "compiler/onnx_model/model_file.h"
#include "base/array.h"
#include "base/system.h"
#include "compiler/ir/compilation.h"
#include "proto/recognize.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static xcvm_status fail(const char *path, int reason, xcvm_error *error)
{
    char text[128];
    return xcvm_error_set(error, XCVM_IO, "%s: cannot be read: %s", path, xcvm_error_text(reason, text, sizeof text));
}

static xcvm_status out_of_memory(const char *path, xcvm_error *error)
{
    return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "%s: no memory for the file", path);
}

static xcvm_status find_dir(xcc_model_file *file, const char *path, xcvm_error *error)
{
    const char *slash = strrchr(path, '/');
    const char *dir = slash == NULL ? "." : slash == path ? "/" : path;
    size_t length = slash == NULL || slash == path ? 1 : (size_t)(slash - path);
    file->dir_bytes = length + 1;
    file->dir = xcvm_allocate(file->allocator, file->dir_bytes);
    if (file->dir == NULL)
        return out_of_memory(path, error);
    memcpy(file->dir, dir, length);
    file->dir[length] = '\0';
    return XCVM_OK;
}

/* A model that is a symbolic link may have external data in the directory of the link's target. */
static xcvm_status resolve_dir(const char *path, xcc_module *m)
{
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISLNK(info.st_mode))
        return XCVM_OK;
    char real[PATH_MAX];
    if (xcvm_real_path(path, real) == NULL)
        return XCVM_OK;
    const char *slash = strrchr(real, '/');
    m->compilation->resolved_dir = xcc_string(m, real, slash != real ? (size_t)(slash - real) : 1);
    return m->compilation->resolved_dir != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

/* Until there is something to read from a pipe, whose writer may never come. */
static xcvm_status wait_for_bytes(int fd, xcc_module *m)
{
    enum { SLICE_MS = 20 };
    struct pollfd here = {.fd = fd, .events = POLLIN};
    do
        XCVM_TRY(xcc_poll_now(m));
    while (poll(&here, 1, SLICE_MS) == 0);
    return XCVM_OK;
}

/* Into memory that doubles when it is full; file->count is its size until the end, and then cut down. */
static xcvm_status read_all(xcc_model_file *file, int fd, const char *path, xcc_module *m)
{
    xcvm_error *error = m->error;
    size_t used = 0, capacity = 1 << 16;
    char *bytes = xcvm_allocate(file->allocator, capacity);
    if (bytes == NULL)
        return out_of_memory(path, error);
    for (;;) {
        if (used == capacity) {
            char *larger = xcvm_array_grow(file->allocator, bytes, used, &capacity, 1);
            if (larger == NULL) {
                xcvm_deallocate(file->allocator, bytes, capacity);
                return out_of_memory(path, error);
            }
            bytes = larger;
        }
        xcvm_status status = wait_for_bytes(fd, m);
        if (status != XCVM_OK) {
            xcvm_deallocate(file->allocator, bytes, capacity);
            return status;
        }
        ssize_t got = read(fd, bytes + used, capacity - used);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0) {
            int reason = errno;
            /* The allocator gets back the size that it gave. */
            char *exact = got == 0 ? xcvm_allocate(file->allocator, used) : NULL;
            if (exact != NULL)
                memcpy(exact, bytes, used);
            xcvm_deallocate(file->allocator, bytes, capacity);
            file->bytes = exact;
            file->count = used;
            return exact != NULL ? XCVM_OK : got == 0 ? out_of_memory(path, error) : fail(path, reason, error);
        }
        used += (size_t)got;
    }
}

static xcvm_status read_file(xcc_model_file *file, int fd, const char *path, xcc_module *m)
{
    xcvm_error *error = m->error;
    struct stat info;
    if (fstat(fd, &info) != 0)
        return fail(path, errno, error);
    if (S_ISDIR(info.st_mode)) {
        char text[400];
        xcvm_recognize_folder(path, text, sizeof text);
        return xcvm_error_set(error, XCVM_IO, "%s: %s", path, text);
    }
    if (!S_ISREG(info.st_mode) || info.st_size == 0)
        return read_all(file, fd, path, m);
    void *mapping = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapping == MAP_FAILED)
        return fail(path, errno, error);
    file->bytes = mapping;
    file->count = (size_t)info.st_size;
    file->mapped = true;
    return XCVM_OK;
}

xcvm_status xcc_model_file_open(xcc_model_file *file, const char *path, xcc_module *m)
{
    xcvm_error *error = m->error;
    *file = (xcc_model_file){.allocator = m->allocator};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail(path, errno, error);
    xcvm_status status = read_file(file, fd, path, m);
    close(fd);
    if (status == XCVM_OK)
        status = find_dir(file, path, error);
    if (status == XCVM_OK)
        status = resolve_dir(path, m);
    if (status != XCVM_OK)
        xcc_model_file_close(file);
    return status;
}

void xcc_model_file_close(xcc_model_file *file)
{
    if (file->mapped)
        munmap(file->bytes, file->count);
    else
        xcvm_deallocate(file->allocator, file->bytes, file->count);
    xcvm_deallocate(file->allocator, file->dir, file->dir_bytes);
    *file = (xcc_model_file){.allocator = file->allocator};
}
