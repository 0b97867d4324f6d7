/* ZIP archives: the directory, and members that zlib inflates. */
#include "formats/zip.h"
#include "base/clock.h"

#include <string.h>
#include <zlib.h>

/* Records of archives of 4 GB and more. */
enum { END64_LOCATOR_SIZE = 20, END64_SIZE = 56 };

static uint64_t little(const unsigned char *bytes, size_t count)
{
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

static xcvm_status broken(xcvm_error *error, const char *what)
{
    return xcvm_error_set(error, XCVM_INVALID_ARGUMENT, "the archive is broken: %s", what);
}

xcvm_status xcvm_zip_open(xcvm_zip *zip, const void *bytes, size_t count, xcvm_error *error)
{
    const unsigned char *at = bytes;
    XCVM_CHECK(error, count >= XCVM_ZIP_END_SIZE && memcmp(at, "PK", 2) == 0, INVALID_ARGUMENT,
               "not a NumPy archive (a ZIP file)");
    /* The end record is followed by a comment of up to 65535 bytes. */
    size_t end = count - XCVM_ZIP_END_SIZE;
    const size_t limit = end > 65535 ? end - 65535 : 0;
    while (memcmp(at + end, XCVM_ZIP_END, 4) != 0) {
        if (end == limit)
            return broken(error, "it has no directory");
        end--;
    }
    uint64_t size = little(at + end + 12, 4), start = little(at + end + 16, 4);
    if ((start == UINT32_MAX || size == UINT32_MAX || little(at + end + 10, 2) == UINT16_MAX) &&
        end >= END64_LOCATOR_SIZE && memcmp(at + end - END64_LOCATOR_SIZE, "PK\6\7", 4) == 0) {
        const uint64_t wide = little(at + end - END64_LOCATOR_SIZE + 8, 8);
        if (wide > end || end - wide < END64_SIZE || memcmp(at + wide, "PK\6\6", 4) != 0)
            return broken(error, "its directory is not where it says");
        size = little(at + wide + 40, 8);
        start = little(at + wide + 48, 8);
    }
    if (start > end || size > end - start)
        return broken(error, "its directory lies outside the file");
    *zip = (xcvm_zip){.bytes = at, .size = count, .at = start, .end = start + size};
    return XCVM_OK;
}

/* The 64-bit sizes of an entry, from its extra field. */
static bool read_wide_sizes(const unsigned char *extra, size_t length, xcvm_zip_member *member)
{
    while (length >= 4) {
        const size_t kind = (size_t)little(extra, 2), size = (size_t)little(extra + 2, 2);
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

xcvm_status xcvm_zip_next(xcvm_zip *zip, xcvm_zip_member *member, bool *more, xcvm_error *error)
{
    const uint64_t left = zip->end - zip->at;
    const unsigned char *at = zip->bytes + zip->at;
    *more = left != 0;
    if (left == 0)
        return XCVM_OK;
    if (left < XCVM_ZIP_ENTRY_SIZE || memcmp(at, XCVM_ZIP_ENTRY, 4) != 0)
        return broken(error, "its directory ends too early");
    const size_t name = (size_t)little(at + 28, 2), extra = (size_t)little(at + 30, 2);
    const size_t comment = (size_t)little(at + 32, 2);
    if (name + extra + comment > left - XCVM_ZIP_ENTRY_SIZE)
        return broken(error, "an entry of its directory is longer than the directory");
    *member = (xcvm_zip_member){.name = (const char *)at + XCVM_ZIP_ENTRY_SIZE,
                                .name_length = name,
                                .flags = (unsigned)little(at + 8, 2),
                                .method = (unsigned)little(at + 10, 2),
                                .crc = (uint32_t)little(at + 16, 4),
                                .packed = little(at + 20, 4),
                                .size = little(at + 24, 4),
                                .offset = little(at + 42, 4)};
    if (!read_wide_sizes(at + XCVM_ZIP_ENTRY_SIZE + name, extra, member))
        return broken(error, "the sizes of an entry cannot be read");
    zip->at += XCVM_ZIP_ENTRY_SIZE + name + extra + comment;
    return XCVM_OK;
}

/* Bytes that are unpacked and added to the check sum at a time. */
enum { PORTION = 1 << 22 };

static xcvm_status check_time(const xcvm_zip *zip, xcvm_error *error)
{
    XCVM_CHECK(error, zip->deadline_ns == 0 || xcvm_clock_ns() < zip->deadline_ns, OUT_OF_TIME,
               "unpacking a member exceeds the time limit");
    return XCVM_OK;
}

static xcvm_status check_sum(const xcvm_zip *zip, const xcvm_zip_member *member, const unsigned char *data,
                             xcvm_error *error)
{
    const size_t size = (size_t)member->size;
    uLong sum = crc32_z(0, NULL, 0);
    for (size_t at = 0; at < size; at += PORTION) {
        XCVM_TRY(check_time(zip, error));
        sum = crc32_z(sum, data + at, size - at < PORTION ? size - at : PORTION);
    }
    return sum == member->crc ? XCVM_OK : broken(error, "the check sum of a member is wrong");
}

/* Unpacks the first `size` bytes of a member. Sets *ended if it has no more. */
static xcvm_status inflate_bytes(const xcvm_zip *zip, const xcvm_zip_member *member, const unsigned char *data,
                                 unsigned char *to, uint64_t size, bool *ended, xcvm_error *error)
{
    z_stream stream = {0};
    XCVM_CHECK(error, inflateInit2(&stream, -MAX_WBITS) == Z_OK, OUT_OF_MEMORY, "no memory to unpack a member");
    uint64_t in = member->packed, left = size;
    int result = Z_OK;
    xcvm_status status = XCVM_OK;
    do {
        const uInt in_now = in > PORTION ? PORTION : (uInt)in, out_now = left > PORTION ? PORTION : (uInt)left;
        status = check_time(zip, error);
        if (status != XCVM_OK)
            break;
        stream.next_in = (unsigned char *)(uintptr_t)data;
        stream.avail_in = in_now;
        stream.next_out = to;
        stream.avail_out = out_now;
        result = inflate(&stream, Z_NO_FLUSH);
        data += in_now - stream.avail_in;
        in -= in_now - stream.avail_in;
        to += out_now - stream.avail_out;
        left -= out_now - stream.avail_out;
    } while (result == Z_OK); /* otherwise nothing was read or written: input or output is at its end */
    inflateEnd(&stream);
    XCVM_TRY(status);
    *ended = result == Z_STREAM_END;
    return left == 0 ? XCVM_OK : broken(error, "a member cannot be unpacked");
}

/* Returns the position of a member's bytes in the archive. */
static xcvm_status find_data(const xcvm_zip *zip, const xcvm_zip_member *member, const unsigned char **data,
                             xcvm_error *error)
{
    if (member->offset > zip->size || zip->size - member->offset < XCVM_ZIP_LOCAL_SIZE ||
        memcmp(zip->bytes + member->offset, XCVM_ZIP_LOCAL, 4) != 0)
        return broken(error, "a member is not where the directory says");
    const unsigned char *at = zip->bytes + member->offset;
    const uint64_t left = zip->size - member->offset - XCVM_ZIP_LOCAL_SIZE,
                   skip = little(at + 26, 2) + little(at + 28, 2);
    if (skip > left || member->packed > left - skip)
        return broken(error, "a member reaches past the end of the file");
    XCVM_CHECK(error, (member->flags & 1) == 0, UNSUPPORTED, "an encrypted archive");
    XCVM_CHECK(error, member->method == XCVM_ZIP_DEFLATED || member->method == XCVM_ZIP_STORED, UNSUPPORTED,
               "compression method %u (stored and deflated can be read)", member->method);
    if (member->method == XCVM_ZIP_STORED && member->size != member->packed)
        return broken(error, "a stored member has two sizes");
    /* Deflate expands a byte to at most 1032 bytes. */
    if (member->method == XCVM_ZIP_DEFLATED && member->size / 1032 > member->packed + 1)
        return broken(error, "a member says that it is larger than it can be");
    *data = at + XCVM_ZIP_LOCAL_SIZE + skip;
    return XCVM_OK;
}

xcvm_status xcvm_zip_read(const xcvm_zip *zip, const xcvm_zip_member *member, const xcvm_allocator *allocator,
                          const unsigned char **data, unsigned char **unpacked, xcvm_error *error)
{
    const size_t size = (size_t)member->size;
    xcvm_status status = XCVM_OK;
    *unpacked = NULL;
    XCVM_TRY(find_data(zip, member, data, error));
    if (member->method == XCVM_ZIP_DEFLATED) {
        bool ended = false;
        *unpacked = xcvm_allocate(allocator, size);
        XCVM_CHECK(error, *unpacked != NULL, OUT_OF_MEMORY, "no memory for the %zu bytes of a member", size);
        status = inflate_bytes(zip, member, *data, *unpacked, size, &ended, error);
        if (status == XCVM_OK && !ended)
            status = broken(error, "a member cannot be unpacked");
        *data = *unpacked;
    }
    if (status == XCVM_OK)
        status = check_sum(zip, member, *data, error);
    if (status != XCVM_OK && *unpacked != NULL) {
        xcvm_deallocate(allocator, *unpacked, size);
        *unpacked = NULL;
    }
    return status;
}

xcvm_status xcvm_zip_peek(const xcvm_zip *zip, const xcvm_zip_member *member, void *to, size_t size, size_t *got,
                          xcvm_error *error)
{
    const unsigned char *data = NULL;
    bool ended;
    XCVM_TRY(find_data(zip, member, &data, error));
    *got = member->size < size ? (size_t)member->size : size;
    if (member->method == XCVM_ZIP_DEFLATED)
        return inflate_bytes(zip, member, data, to, *got, &ended, error);
    memcpy(to, data, *got);
    return XCVM_OK;
}
