/* Files: telling their kinds, and paths. */
#include "io/file.h"
#include "cli/memory.h"
#include "cli/report.h"
#include "cli/suffix.h"

#include <xcvm/files.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Kinds ---- */

enum file_kind file_kind_of_bytes(const void *bytes, size_t count)
{
    switch (xcvm_recognize(bytes, count, XCVM_FILE_UNKNOWN, NULL, 0)) {
    case XCVM_FILE_PROGRAM:
        return FILE_PROGRAM;
    case XCVM_FILE_ASSEMBLY:
        return FILE_ASSEMBLY;
    case XCVM_FILE_MODEL:
        return FILE_MODEL;
    case XCVM_FILE_UNKNOWN:
        return FILE_UNKNOWN;
    default:
        return FILE_OTHER;
    }
}

/* Maps the file, because the distinctive fields may follow large weights. */
static enum file_kind kind_of_file(int fd)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size <= 0)
        return FILE_UNKNOWN;
    void *bytes = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return FILE_UNKNOWN;
    const enum file_kind kind = file_kind_of_bytes(bytes, (size_t)facts.st_size);
    munmap(bytes, (size_t)facts.st_size);
    return kind;
}

xcvm_status file_kind_of(const char *path, const struct read_limits *limits, enum file_kind *kind, xcvm_error *error)
{
    if (file_is_stream(path)) {
        const struct buffer *bytes;
        TRY(file_read_ahead(path, limits, &bytes, error));
        *kind = file_kind_of_bytes(bytes->data, bytes->length);
        return XCVM_OK;
    }
    /* The compiler describes a directory. */
    *kind = FILE_MODEL;
    if (file_is_folder(path))
        return XCVM_OK;
    int fd;
    TRY(file_open(path, O_NONBLOCK, &fd, error));
    *kind = kind_of_file(fd);
    if ((*kind == FILE_UNKNOWN || *kind == FILE_OTHER) && suffix_is(path, ".onnx"))
        *kind = FILE_MODEL;
    close(fd);
    return XCVM_OK;
}

/* ---- Names ---- */

bool file_is_folder(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

bool file_is_regular(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

bool file_is_stream(const char *path)
{
    struct stat facts;
    return strcmp(path, "-") == 0 || (stat(path, &facts) == 0 && S_ISFIFO(facts.st_mode));
}

bool file_is_same(const char *a, const char *b)
{
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && S_ISREG(first.st_mode) && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

char *file_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return memory_text(".");
    return slash == path ? memory_text("/") : memory_text_n(path, (size_t)(slash - path));
}

/* The path of a file that may not exist yet, with links resolved; NULL if its directory does not exist. Release it
 * with free. */
static char *absolute(const char *path)
{
    char *real = realpath(path, NULL);
    if (real != NULL)
        return real;
    char *folder = file_folder(path), *name = file_base_name(path), *place = realpath(folder, NULL);
    real = place != NULL ? memory_format("%s/%s", place, name) : NULL;
    free(folder);
    free(name);
    free(place);
    return real;
}

bool file_is_one_target(const char *a, const char *b)
{
    struct stat facts;
    if (a == NULL || b == NULL || strcmp(a, "-") == 0 || strcmp(b, "-") == 0)
        return false;
    if (file_is_same(a, b))
        return true;
    if (stat(a, &facts) == 0 || stat(b, &facts) == 0)
        return false; /* a pipe or a device, or two files */
    char *first = absolute(a), *second = absolute(b);
    const bool same = first != NULL && second != NULL && strcmp(first, second) == 0;
    free(first);
    free(second);
    return same;
}

char *file_base_name(const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    return memory_text_n(path + start, end - start);
}

char *file_relative(const char *path, const char *folder)
{
    char *file = realpath(path, NULL), *from = realpath(folder, NULL);
    char *result;
    if (file == NULL || from == NULL) {
        result = memory_text(file != NULL ? file : path);
    } else {
        /* The common leading directories, then .. for each remaining directory of `from`. */
        size_t common = 0, at = 0;
        for (; file[at] != '\0' && file[at] == from[at]; at++)
            if (file[at] == '/')
                common = at;
        if (from[at] == '\0' && file[at] == '/')
            common = at;
        struct buffer text = {0};
        const char *rest = from + (strcmp(from, "/") == 0 ? 1 : common);
        for (; *rest != '\0'; rest++)
            if (*rest == '/')
                buffer_text(&text, "../");
        buffer_text(&text, file + common + 1);
        result = memory_text(buffer_string(&text));
        buffer_release(&text);
    }
    free(file);
    free(from);
    return result;
}
