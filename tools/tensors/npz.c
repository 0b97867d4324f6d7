/* .npz files: arrays as stored ZIP members, followed by the directory. */
#include "tensors/npz.h"
#include "tensors/npy.h"
#include "cli/report.h"

#include <string.h>
#include <zlib.h>

enum { LOCAL_SIZE = 30, STORED = 0 };

static void put(struct buffer *to, uint64_t value, size_t count)
{
    for (size_t i = 0; i < count; i++, value >>= 8) {
        unsigned char byte = (unsigned char)value;
        buffer_append(to, &byte, 1);
    }
}

/* The fields that a member's header and its directory entry share. */
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

/* The array is held in memory together with its copy in the archive. */
static xcvm_status check_room(const struct npz_writer *writer, const xcvm_value *tensor, xcvm_error *error)
{
    uint64_t bytes;
    if (writer->budget == NULL || xcvm_value_kind(tensor) != XCVM_KIND_TENSOR)
        return XCVM_OK;
    TRY(npy_size(tensor, &bytes, error));
    if (bytes >= UINT32_MAX)
        return error_set(error, XCVM_UNSUPPORTED, "archives of 4 GB or more are not supported");
    return value_budget_check(writer->budget, 2 * bytes + writer->archive.length, error);
}

xcvm_status npz_add(struct npz_writer *writer, const char *key, const xcvm_value *tensor, xcvm_error *error)
{
    struct buffer array = {0};
    TRY(check_room(writer, tensor, error));
    xcvm_status status = npy_write(tensor, writer->budget, (xcvm_sink){buffer_sink, &array}, error);
    size_t name = strlen(key) + 4, offset = writer->archive.length;
    if (status == XCVM_OK && (array.length >= UINT32_MAX - offset - name - LOCAL_SIZE || name > UINT16_MAX ||
                              writer->count == UINT16_MAX - 1))
        status = error_set(error, XCVM_UNSUPPORTED, "archives of 4 GB or more are not supported");
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
        return error_set(error, XCVM_UNSUPPORTED, "archives of 4 GB or more are not supported");
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
