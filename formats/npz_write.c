/* .npz files: array files one after the other, as ZIP members that are stored, and then the directory. */
#include "formats/npz_write.h"
#include "base/array.h"
#include "base/status.h"
#include "formats/npy_write.h"
#include "formats/zip.h"

#include <string.h>
#include <zlib.h>

static const char suffix[] = ".npy";

static unsigned char *put(unsigned char *to, uint64_t value, size_t count)
{
    for (size_t i = 0; i < count; i++, value >>= 8)
        to[i] = (unsigned char)value;
    return to + count;
}

static size_t name_length(const xcvm_npz_member *m) { return strlen(m->name) + strlen(suffix); }

/* Writes the fields that a member's header and its directory entry share. */
static unsigned char *put_facts(unsigned char *to, const xcvm_npz_member *m)
{
    enum { VERSION = 20, DATE_1980 = 0x21 };
    to = put(to, VERSION, 2);
    to = put(to, 0, 2);
    to = put(to, XCVM_ZIP_STORED, 2);
    to = put(to, 0, 2);
    to = put(to, DATE_1980, 2);
    to = put(to, m->crc, 4);
    to = put(to, m->size, 4);
    to = put(to, m->size, 4);
    to = put(to, name_length(m), 2);
    return put(to, 0, 2);
}

/* ---- Sinks ---- */

static bool count_and_forward(void *user, const void *bytes, size_t count)
{
    xcvm_npz_writer *writer = user;
    writer->written += count;
    return count == 0 || writer->sink.call(writer->sink.user, bytes, count);
}

static xcvm_status send(xcvm_npz_writer *writer, const void *bytes, size_t count, xcvm_error *error)
{
    XCVM_CHECK(error, count_and_forward(writer, bytes, count), IO, "the archive cannot be written");
    return XCVM_OK;
}

static xcvm_status send_name(xcvm_npz_writer *writer, const xcvm_npz_member *m, xcvm_error *error)
{
    XCVM_TRY(send(writer, m->name, strlen(m->name), error));
    return send(writer, suffix, strlen(suffix), error);
}

/* The size and check sum of an array file, which precede it in the archive. */
typedef struct file_sum {
    uint64_t size;
    uLong crc;
} file_sum;

static bool add_to_sum(void *user, const void *bytes, size_t count)
{
    file_sum *sum = user;
    sum->size += count;
    sum->crc = crc32_z(sum->crc, bytes, count);
    return true;
}

/* ---- Archives ---- */

static xcvm_status too_large(xcvm_error *error)
{
    return xcvm_error_set(error, XCVM_UNSUPPORTED, "archives of 4 GB or more are not supported");
}

xcvm_status xcvm_npz_add(xcvm_npz_writer *writer, const char *name, const xcvm_value *tensor, uint64_t deadline_ns,
                         xcvm_error *error)
{
    enum { ROOM = 1024 }; /* for headers */
    uint64_t bytes;
    XCVM_TRY(xcvm_npy_size(tensor, &bytes, error));
    XCVM_CHECK(error, strlen(name) + strlen(suffix) <= UINT16_MAX, UNSUPPORTED,
               "\"%.100s...\" is too long a name for an archive", name);
    XCVM_CHECK(error, writer->count < UINT16_MAX - 1, UNSUPPORTED, "an archive can only contain 65,534 arrays");
    if (bytes >= UINT32_MAX || writer->written + bytes + strlen(name) + ROOM >= UINT32_MAX)
        return too_large(error);
    file_sum sum = {0, crc32_z(0, NULL, 0)};
    XCVM_TRY(xcvm_npy_write(tensor, deadline_ns, (xcvm_sink){add_to_sum, &sum}, error));
    xcvm_npz_member *members =
        xcvm_arena_grow(&writer->arena, writer->members, writer->count, &writer->capacity, sizeof *members);
    const char *copy = members != NULL ? xcvm_arena_string(&writer->arena, name, strlen(name)) : NULL;
    XCVM_CHECK(error, copy != NULL, OUT_OF_MEMORY, "no memory for the directory of an archive");
    writer->members = members;
    xcvm_npz_member *m = &members[writer->count++];
    *m = (xcvm_npz_member){copy, (uint32_t)sum.crc, (uint32_t)sum.size, (uint32_t)writer->written};
    unsigned char local[XCVM_ZIP_LOCAL_SIZE] = XCVM_ZIP_LOCAL;
    put_facts(local + 4, m);
    XCVM_TRY(send(writer, local, sizeof local, error));
    XCVM_TRY(send_name(writer, m, error));
    return xcvm_npy_write(tensor, deadline_ns, (xcvm_sink){count_and_forward, writer}, error);
}

static xcvm_status add_entry(xcvm_npz_writer *writer, const xcvm_npz_member *m, xcvm_error *error)
{
    unsigned char entry[XCVM_ZIP_ENTRY_SIZE] = XCVM_ZIP_ENTRY;
    unsigned char *to = put(entry + 4, 20, 2);
    to = put_facts(to, m);
    to = put(to, 0, 2 + 2 + 2 + 4);
    put(to, m->offset, 4);
    XCVM_TRY(send(writer, entry, sizeof entry, error));
    return send_name(writer, m, error);
}

xcvm_status xcvm_npz_finish(xcvm_npz_writer *writer, xcvm_error *error)
{
    const uint64_t start = writer->written;
    for (size_t i = 0; i < writer->count; i++)
        XCVM_TRY(add_entry(writer, &writer->members[i], error));
    if (writer->written >= UINT32_MAX)
        return too_large(error);
    unsigned char end[XCVM_ZIP_END_SIZE] = XCVM_ZIP_END, *to = put(end + 4, 0, 4);
    to = put(to, writer->count, 2);
    to = put(to, writer->count, 2);
    to = put(to, writer->written - start, 4);
    to = put(to, start, 4);
    put(to, 0, 2);
    return send(writer, end, sizeof end, error);
}

void xcvm_npz_release(xcvm_npz_writer *writer)
{
    xcvm_arena_release(&writer->arena);
    writer->members = NULL;
    writer->count = writer->capacity = 0;
}
