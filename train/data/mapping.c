/* Mapping a file. */
#include "train/data/mapping.h"

#include "proto/recognize.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static xcvm_status map(xct_mapping *mapping, int fd, const char *path, xcvm_error *error)
{
    struct stat info;
    XCVM_CHECK(error, fstat(fd, &info) == 0, IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) {
        char text[400];
        xcvm_recognize_folder(path, text, sizeof text);
        return xcvm_error_set(error, XCVM_IO, "%s: %s", path, text);
    }
    XCVM_CHECK(error, S_ISREG(info.st_mode), IO, "%s: not a regular file, which could be mapped", path);
    *mapping = (xct_mapping){.bytes = "", .count = (size_t)info.st_size};
    if (info.st_size == 0)
        return XCVM_OK;
    void *mapped = mmap(NULL, mapping->count, PROT_READ, MAP_PRIVATE, fd, 0);
    XCVM_CHECK(error, mapped != MAP_FAILED, IO, "%s: %s", path, strerror(errno));
    mapping->bytes = mapping->mapped = mapped;
    return XCVM_OK;
}

xcvm_status xct_mapping_open(xct_mapping *mapping, const char *path, xcvm_error *error)
{
    *mapping = (xct_mapping){.bytes = NULL};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    XCVM_CHECK(error, fd >= 0, IO, "%s: %s", path, strerror(errno));
    const xcvm_status status = map(mapping, fd, path, error);
    close(fd);
    return status;
}

void xct_mapping_close(xct_mapping *mapping)
{
    if (mapping->mapped != NULL)
        munmap(mapping->mapped, mapping->count);
    *mapping = (xct_mapping){.bytes = NULL};
}
