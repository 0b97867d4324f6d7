/* .npz files: the ZIP directory, and members that zlib inflates. */
#include "tensors/npz.h"
#include "tensors/npy.h"
#include "cli/report.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

enum {
    END_SIZE = 22,
    END64_LOCATOR_SIZE = 20,
    END64_SIZE = 56,
    ENTRY_SIZE = 46,
    LOCAL_SIZE = 30,
    STORED = 0,
    DEFLATED = 8
};

static uint64_t little(const unsigned char *bytes, size_t count)
{
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

struct archive {
    const unsigned char *bytes;
    uint64_t size;
    uint64_t at, end; /* the directory */
};

struct member {
    const char *name;
    size_t name_length;
    unsigned method, flags;
    uint32_t crc;
    uint64_t packed, size, offset;
};

static xcvm_status broken(xcvm_error *error, const char *what)
{
    return error_set(error, XCVM_INVALID_ARGUMENT, "the archive is broken: %s", what);
}

static xcvm_status open_archive(struct archive *archive, const void *bytes, size_t count, xcvm_error *error)
{
    const unsigned char *at = bytes;
    if (count < END_SIZE || memcmp(at, "PK", 2) != 0)
        return error_set(error, XCVM_INVALID_ARGUMENT, "not a NumPy archive (a ZIP file)");
    /* The end record has a comment of up to 65535 bytes behind it. */
    size_t end = count - END_SIZE, limit = end > 65535 ? end - 65535 : 0;
    while (memcmp(at + end, "PK\5\6", 4) != 0) {
        if (end == limit)
            return broken(error, "it has no directory");
        end--;
    }
    uint64_t size = little(at + end + 12, 4), start = little(at + end + 16, 4);
    if ((start == UINT32_MAX || size == UINT32_MAX || little(at + end + 10, 2) == UINT16_MAX) &&
        end >= END64_LOCATOR_SIZE && memcmp(at + end - END64_LOCATOR_SIZE, "PK\6\7", 4) == 0) {
        uint64_t wide = little(at + end - END64_LOCATOR_SIZE + 8, 8);
        if (wide > end || end - wide < END64_SIZE || memcmp(at + wide, "PK\6\6", 4) != 0)
            return broken(error, "its directory is not where it says");
        size = little(at + wide + 40, 8);
        start = little(at + wide + 48, 8);
    }
    if (start > end || size > end - start)
        return broken(error, "its directory lies outside the file");
    *archive = (struct archive){at, count, start, start + size};
    return XCVM_OK;
}

/* The 64-bit sizes of an entry, from its extra field. */
static bool read_wide_sizes(const unsigned char *extra, size_t length, struct member *member)
{
    while (length >= 4) {
        size_t kind = (size_t)little(extra, 2), size = (size_t)little(extra + 2, 2);
        if (size > length - 4)
            return false;
        if (kind == 1) {
            const unsigned char *at = extra + 4;
            uint64_t *fields[] = {&member->size, &member->packed, &member->offset};
            for (size_t i = 0; i < 3; i++) {
                if (*fields[i] != UINT32_MAX)
                    continue;
                if ((size_t)(extra + 4 + size - at) < 8)
                    return false;
                *fields[i] = little(at, 8);
                at += 8;
            }
            return true;
        }
        extra += 4 + size;
        length -= 4 + size;
    }
    return true;
}

/* Steps to the next entry of the directory; *more is false behind the last. */
static xcvm_status next_member(struct archive *archive, struct member *member, bool *more, xcvm_error *error)
{
    uint64_t left = archive->end - archive->at;
    const unsigned char *at = archive->bytes + archive->at;
    *more = left != 0;
    if (left == 0)
        return XCVM_OK;
    if (left < ENTRY_SIZE || memcmp(at, "PK\1\2", 4) != 0)
        return broken(error, "its directory ends too early");
    size_t name = (size_t)little(at + 28, 2), extra = (size_t)little(at + 30, 2), comment = (size_t)little(at + 32, 2);
    if (name + extra + comment > left - ENTRY_SIZE)
        return broken(error, "an entry of its directory is longer than the directory");
    *member = (struct member){.name = (const char *)at + ENTRY_SIZE,
                              .name_length = name,
                              .flags = (unsigned)little(at + 8, 2),
                              .method = (unsigned)little(at + 10, 2),
                              .crc = (uint32_t)little(at + 16, 4),
                              .packed = little(at + 20, 4),
                              .size = little(at + 24, 4),
                              .offset = little(at + 42, 4)};
    if (!read_wide_sizes(at + ENTRY_SIZE + name, extra, member))
        return broken(error, "the sizes of an entry cannot be read");
    archive->at += ENTRY_SIZE + name + extra + comment;
    return XCVM_OK;
}

static xcvm_status inflate_member(const struct member *member, const unsigned char *data, struct buffer *out,
                                  xcvm_error *error)
{
    /* Deflate makes at most 1032 bytes out of one. */
    if (member->size / 1032 > member->packed + 1)
        return broken(error, "a member says that it is larger than it can be");
    z_stream stream = {0};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
        return error_set(error, XCVM_OUT_OF_MEMORY, "out of memory");
    uint64_t in = member->packed, left = member->size;
    unsigned char *to = buffer_extend(out, (size_t)member->size);
    int result = Z_OK;
    do {
        uInt in_now = in > UINT_MAX ? UINT_MAX : (uInt)in, out_now = left > UINT_MAX ? UINT_MAX : (uInt)left;
        stream.next_in = (unsigned char *)(uintptr_t)data;
        stream.avail_in = in_now;
        stream.next_out = to;
        stream.avail_out = out_now;
        result = inflate(&stream, Z_NO_FLUSH);
        data += in_now - stream.avail_in;
        in -= in_now - stream.avail_in;
        to += out_now - stream.avail_out;
        left -= out_now - stream.avail_out;
    } while (result == Z_OK && in != 0);
    inflateEnd(&stream);
    return result == Z_STREAM_END && left == 0 ? XCVM_OK : broken(error, "a member cannot be unpacked");
}

static xcvm_status read_member(const struct archive *archive, const struct member *member, xcvm_dtype wanted,
                               xcvm_value **tensor, xcvm_error *error)
{
    const unsigned char *at = archive->bytes + member->offset;
    if (member->offset > archive->size || archive->size - member->offset < LOCAL_SIZE || memcmp(at, "PK\3\4", 4) != 0)
        return broken(error, "a member is not where the directory says");
    uint64_t left = archive->size - member->offset - LOCAL_SIZE, skip = little(at + 26, 2) + little(at + 28, 2);
    if (skip > left || member->packed > left - skip)
        return broken(error, "a member reaches past the end of the file");
    const unsigned char *data = at + LOCAL_SIZE + skip;
    if ((member->flags & 1) != 0)
        return error_set(error, XCVM_UNSUPPORTED, "an encrypted archive");
    struct buffer unpacked = {0};
    uint64_t size = member->packed;
    xcvm_status status = XCVM_OK;
    if (member->method == DEFLATED) {
        status = inflate_member(member, data, &unpacked, error);
        data = (const unsigned char *)unpacked.data;
        size = unpacked.length;
    } else if (member->method != STORED) {
        status = error_set(error, XCVM_UNSUPPORTED, "compression method %u (stored and deflated can be read)",
                           member->method);
    } else if (member->size != member->packed) {
        status = broken(error, "a stored member has two sizes");
    }
    if (status == XCVM_OK && crc32_z(crc32_z(0, NULL, 0), data, (size_t)size) != member->crc)
        status = broken(error, "the check sum of a member is wrong");
    if (status == XCVM_OK)
        status = npy_read(data, (size_t)size, wanted, tensor, error);
    buffer_release(&unpacked);
    return status;
}

static bool is_called(const struct member *member, const char *key)
{
    size_t length = strlen(key);
    if (member->name_length < length || memcmp(member->name, key, length) != 0)
        return false;
    return member->name_length == length ||
           (member->name_length == length + 4 && memcmp(member->name + length, ".npy", 4) == 0);
}

xcvm_status npz_read(const void *bytes, size_t count, const char *key, const char *fallback, xcvm_dtype wanted,
                     xcvm_value **tensor, xcvm_error *error)
{
    struct archive archive;
    TRY(open_archive(&archive, bytes, count, error));
    bool named = key != NULL && *key != '\0', found = false, more;
    const char *name = named ? key : fallback != NULL ? fallback : "";
    struct member member, chosen = {0};
    struct buffer names = {0};
    size_t members = 0;
    xcvm_status status;
    while ((status = next_member(&archive, &member, &more, error)) == XCVM_OK && more) {
        if (*name != '\0' && is_called(&member, name) && !found) {
            chosen = member;
            found = true;
        }
        size_t length = member.name_length;
        if (length > 4 && memcmp(member.name + length - 4, ".npy", 4) == 0)
            length -= 4;
        if (members < 32)
            buffer_format(&names, "%s%.*s", members != 0 ? ", " : "", (int)length, member.name);
        members++;
    }
    if (status == XCVM_OK && !found && !named && members == 1) {
        TRY(open_archive(&archive, bytes, count, error));
        status = next_member(&archive, &chosen, &more, error);
        found = true;
    }
    if (status == XCVM_OK && !found)
        status = error_set(error, XCVM_INVALID_ARGUMENT, "has no array \"%.100s\"; it holds: %.400s", name,
                           members != 0 ? buffer_string(&names) : "nothing");
    buffer_release(&names);
    if (status == XCVM_OK)
        status = read_member(&archive, &chosen, wanted, tensor, error);
    return status;
}

/* ---- Writing ---- */

static void put(struct buffer *to, uint64_t value, size_t count)
{
    for (size_t i = 0; i < count; i++, value >>= 8) {
        unsigned char byte = (unsigned char)value;
        buffer_append(to, &byte, 1);
    }
}

/* What a member's own header and its directory entry have in common. */
static void put_facts(struct buffer *to, uint32_t crc, size_t size, size_t name)
{
    enum { VERSION = 20, DATE_1980 = 0x21 };
    put(to, VERSION, 2);
    put(to, 0, 2);
    put(to, STORED, 2);
    put(to, 0, 2);
    put(to, DATE_1980, 2);
    put(to, crc, 4);
    put(to, size, 4);
    put(to, size, 4);
    put(to, name, 2);
    put(to, 0, 2);
}

xcvm_status npz_add(struct npz_writer *writer, const char *key, const xcvm_value *tensor, xcvm_error *error)
{
    struct buffer array = {0};
    xcvm_status status = npy_write(tensor, buffer_sink, &array, error);
    size_t name = strlen(key) + 4, offset = writer->archive.length;
    if (status == XCVM_OK && (array.length >= UINT32_MAX - offset - name - LOCAL_SIZE || name > UINT16_MAX ||
                              writer->count == UINT16_MAX - 1))
        status = error_set(error, XCVM_UNSUPPORTED, "archives of 4 GB and more");
    if (status == XCVM_OK) {
        uint32_t crc = (uint32_t)crc32_z(crc32_z(0, NULL, 0), (const unsigned char *)array.data, array.length);
        buffer_append(&writer->archive, "PK\3\4", 4);
        put_facts(&writer->archive, crc, array.length, name);
        buffer_format(&writer->archive, "%s.npy", key);
        buffer_append(&writer->archive, array.data, array.length);
        buffer_append(&writer->directory, "PK\1\2", 4);
        put(&writer->directory, 20, 2);
        put_facts(&writer->directory, crc, array.length, name);
        put(&writer->directory, 0, 2 + 2 + 2 + 4);
        put(&writer->directory, offset, 4);
        buffer_format(&writer->directory, "%s.npy", key);
        writer->count++;
    }
    buffer_release(&array);
    return status;
}

xcvm_status npz_finish(struct npz_writer *writer, xcvm_error *error)
{
    size_t start = writer->archive.length, size = writer->directory.length;
    if (start >= UINT32_MAX || size >= UINT32_MAX - start)
        return error_set(error, XCVM_UNSUPPORTED, "archives of 4 GB and more");
    buffer_append(&writer->archive, writer->directory.data, size);
    buffer_append(&writer->archive, "PK\5\6", 4);
    put(&writer->archive, 0, 4);
    put(&writer->archive, writer->count, 2);
    put(&writer->archive, writer->count, 2);
    put(&writer->archive, size, 4);
    put(&writer->archive, start, 4);
    put(&writer->archive, 0, 2);
    return XCVM_OK;
}

void npz_release(struct npz_writer *writer)
{
    buffer_release(&writer->archive);
    buffer_release(&writer->directory);
    writer->count = 0;
}
