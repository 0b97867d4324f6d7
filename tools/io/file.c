/* Files: telling their kinds, and paths. */
#include "io/file.h"
#include "cli/memory.h"
#include "cli/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Kinds ---- */

/* Reads up to `count` bytes at `offset` of a file or of memory; returns how many there were. */
struct reader {
    int fd; /* -1: `bytes` */
    const unsigned char *bytes;
    uint64_t size;
};

static size_t read_at(const struct reader *reader, uint64_t offset, unsigned char *to, size_t count)
{
    if (offset >= reader->size)
        return 0;
    if (count > reader->size - offset)
        count = (size_t)(reader->size - offset);
    if (reader->fd < 0) {
        memcpy(to, reader->bytes + offset, count);
        return count;
    }
    ssize_t got = pread(reader->fd, to, count, (off_t)offset);
    return got > 0 ? (size_t)got : 0;
}

static bool read_varint(const unsigned char *bytes, size_t count, size_t *at, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && *at < count; shift += 7) {
        unsigned char byte = bytes[(*at)++];
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* Both kinds of message begin with a small number and a producer. Only a model has a model version (5) that is a
 * number, or the fields 20 and 25; only a program has fields 5 that are messages, or field 15. */
static enum file_kind kind_of_message(const struct reader *reader)
{
    enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
    uint64_t offset = 0;
    bool opsets = false, graph = false;
    for (int fields = 0; fields < 4096; fields++) {
        unsigned char head[20];
        size_t got = read_at(reader, offset, head, sizeof head), at = 0;
        uint64_t tag, size = 0;
        if (got == 0 || !read_varint(head, got, &at, &tag))
            break;
        uint64_t field = tag >> 3, wire = tag & 7;
        if ((field == 5 && wire == BYTES) || (field == 15 && wire == BYTES) || (field == 9 && wire == VARINT))
            return FILE_PROGRAM;
        if ((field == 5 && wire == VARINT) || field == 20 || field == 25)
            return FILE_MODEL;
        graph |= field == 7 && wire == BYTES;
        opsets |= field == 8 && wire == BYTES;
        if (wire == VARINT || wire == BYTES) {
            if (!read_varint(head, got, &at, &size))
                break;
        }
        if (wire == FIXED64)
            size = 8;
        else if (wire == FIXED32)
            size = 4;
        else if (wire == VARINT)
            size = 0;
        else if (wire != BYTES)
            break;
        if (__builtin_add_overflow(offset, size, &offset) || __builtin_add_overflow(offset, at, &offset))
            break;
    }
    return graph && opsets ? FILE_MODEL : FILE_UNKNOWN;
}

static enum file_kind kind_of(const struct reader *reader)
{
    static const char mark[] = "xcvm ";
    unsigned char start[512];
    size_t got = read_at(reader, 0, start, sizeof start), at = 0;
    /* Comments and empty lines may stand before the first line of a text. */
    while (at < got && (start[at] == '#' || start[at] == '\n' || start[at] == ' ')) {
        if (start[at] == '#')
            while (at < got && start[at] != '\n')
                at++;
        else
            at++;
    }
    if (got - at >= sizeof mark - 1 && memcmp(start + at, mark, sizeof mark - 1) == 0)
        return FILE_ASSEMBLY;
    return kind_of_message(reader);
}

enum file_kind file_kind_of_bytes(const void *bytes, size_t count)
{
    return kind_of(&(struct reader){.fd = -1, .bytes = bytes, .size = count});
}

xcvm_status file_kind_of(const char *path, const struct read_limits *limits, enum file_kind *kind, xcvm_error *error)
{
    if (file_is_stream(path)) {
        const struct buffer *bytes;
        TRY(file_read_ahead(path, limits, &bytes, error));
        *kind = file_kind_of_bytes(bytes->data, bytes->length);
        return XCVM_OK;
    }
    int fd;
    TRY(file_open(path, O_NONBLOCK, &fd, error));
    struct stat facts;
    uint64_t size = fstat(fd, &facts) == 0 && facts.st_size > 0 ? (uint64_t)facts.st_size : 0;
    *kind = file_has_suffix(path, ".onnx") ? FILE_MODEL : kind_of(&(struct reader){.fd = fd, .size = size});
    close(fd);
    return XCVM_OK;
}

/* ---- Names ---- */

bool file_has_suffix(const char *path, const char *suffix)
{
    size_t length = strlen(path), end = strlen(suffix);
    return length > end && strcasecmp(path + length - end, suffix) == 0;
}

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

/* The path of a file that may not exist yet, behind links; NULL if its folder does not. Release with free. */
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
        /* The common leading folders, then .. for each that is left of `from`. */
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
