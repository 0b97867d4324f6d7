/* .npz files: arrays as stored ZIP members, followed by the directory. */
#include "formats/npz_write.h"
#include "formats/zip.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

enum { HEADER_ROOM = 512, HEADER_UNIT = 64, NAME_ROOM = 1024 };

/* Data of a member for its directory entry. */
typedef struct member {
    uint32_t crc, size, offset;
} member;

static unsigned char *put(unsigned char *to, uint64_t value, size_t count)
{
    for (size_t i = 0; i < count; i++, value >>= 8)
        to[i] = (unsigned char)value;
    return to + count;
}

/* Fields that a member's local header and its directory entry share. */
static unsigned char *put_facts(unsigned char *to, const member *m, size_t name)
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
    to = put(to, name, 2);
    return put(to, 0, 2);
}

/* NumPy's name of an element type; NULL if it has none. */
static const char *descr_of(xcvm_dtype dtype)
{
    static const struct {
        xcvm_dtype dtype;
        const char *descr;
    } types[] = {{XCVM_F16, "<f2"}, {XCVM_F32, "<f4"}, {XCVM_F64, "<f8"},  {XCVM_BF16, "<V2"}, {XCVM_I8, "|i1"},
                 {XCVM_I16, "<i2"}, {XCVM_I32, "<i4"}, {XCVM_I64, "<i8"},  {XCVM_U8, "|u1"},   {XCVM_U16, "<u2"},
                 {XCVM_U32, "<u4"}, {XCVM_U64, "<u8"}, {XCVM_BOOL, "|b1"}, {XCVM_C64, "<c8"},  {XCVM_C128, "<c16"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype)
            return types[i].descr;
    return NULL;
}

/* The header of an array file, padded so that the elements begin at a multiple of 64 bytes. */
static size_t write_header(const xcvm_safetensor *t, const char *descr, char header[HEADER_ROOM])
{
    char shape[256] = "";
    size_t used = 0;
    for (int i = 0; i < t->rank; i++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, i > 0 ? " %lld," : "%lld,", (long long)t->dims[i]);
    if (t->rank > 1)
        shape[used - 1] = '\0';
    enum { BEFORE = 10 };
    size_t length = (size_t)snprintf(header + BEFORE, HEADER_ROOM - BEFORE,
                                     "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    const size_t total = xcvm_round_up(BEFORE + length + 1, HEADER_UNIT);
    memset(header + BEFORE + length, ' ', total - BEFORE - length - 1);
    header[total - 1] = '\n';
    memcpy(header, "\x93NUMPY\1", 8);
    put((unsigned char *)header + 8, total - BEFORE, 2);
    return total;
}

typedef struct archive {
    xcvm_sink sink;
    uint64_t written;
    xcvm_error *error;
} archive;

static xcvm_status write_bytes(archive *a, const void *bytes, size_t count)
{
    a->written += count;
    XCVM_CHECK(a->error, count == 0 || a->sink.call(a->sink.user, bytes, count), IO, "the archive cannot be written");
    return XCVM_OK;
}

static xcvm_status check(const archive *a, const xcvm_safetensor *t)
{
    XCVM_CHECK(a->error, descr_of(t->dtype) != NULL, UNSUPPORTED, "\"%.100s\" is of type %s, which NumPy has not",
               t->name, xcvm_dtype_name(t->dtype));
    XCVM_CHECK(a->error, strlen(t->name) + 4 < NAME_ROOM, UNSUPPORTED,
               "\"%.100s...\" is too long a name for an archive", t->name);
    XCVM_CHECK(a->error, a->written + t->bytes + XCVM_ZIP_LOCAL_SIZE + NAME_ROOM + HEADER_ROOM < UINT32_MAX,
               UNSUPPORTED, "archives of 4 GB and more are not written");
    return XCVM_OK;
}

static xcvm_status add(archive *a, const xcvm_safetensor *t, member *m)
{
    char header[HEADER_ROOM], name[NAME_ROOM];
    unsigned char local[XCVM_ZIP_LOCAL_SIZE] = XCVM_ZIP_LOCAL;
    XCVM_TRY(check(a, t));
    const size_t length = write_header(t, descr_of(t->dtype), header);
    const size_t named = (size_t)snprintf(name, sizeof name, "%s.npy", t->name);
    uLong crc = crc32_z(crc32_z(0, NULL, 0), (const unsigned char *)header, length);
    crc = crc32_z(crc, t->data, t->bytes);
    *m = (member){(uint32_t)crc, (uint32_t)(length + t->bytes), (uint32_t)a->written};
    put_facts(local + 4, m, named);
    XCVM_TRY(write_bytes(a, local, sizeof local));
    XCVM_TRY(write_bytes(a, name, named));
    XCVM_TRY(write_bytes(a, header, length));
    return write_bytes(a, t->data, t->bytes);
}

static xcvm_status add_entry(archive *a, const xcvm_safetensor *t, const member *m)
{
    char name[NAME_ROOM];
    unsigned char entry[XCVM_ZIP_ENTRY_SIZE] = XCVM_ZIP_ENTRY;
    const size_t named = (size_t)snprintf(name, sizeof name, "%s.npy", t->name);
    unsigned char *to = put(entry + 4, 20, 2);
    to = put_facts(to, m, named);
    to = put(to, 0, 2 + 2 + 2 + 4);
    put(to, m->offset, 4);
    XCVM_TRY(write_bytes(a, entry, sizeof entry));
    return write_bytes(a, name, named);
}

static xcvm_status write_all(archive *a, const xcvm_safetensor *tensors, size_t count, member *members)
{
    for (size_t i = 0; i < count; i++)
        XCVM_TRY(add(a, &tensors[i], &members[i]));
    const uint64_t start = a->written;
    for (size_t i = 0; i < count; i++)
        XCVM_TRY(add_entry(a, &tensors[i], &members[i]));
    XCVM_CHECK(a->error, a->written < UINT32_MAX, UNSUPPORTED, "archives of 4 GB and more are not written");
    unsigned char end[XCVM_ZIP_END_SIZE] = XCVM_ZIP_END, *to = put(end + 4, 0, 4);
    to = put(to, count, 2);
    to = put(to, count, 2);
    to = put(to, a->written - start, 4);
    to = put(to, start, 4);
    put(to, 0, 2);
    return write_bytes(a, end, sizeof end);
}

xcvm_status xcvm_npz_write(const xcvm_safetensor *tensors, size_t count, const xcvm_allocator *allocator,
                           xcvm_sink sink, xcvm_error *error)
{
    archive a = {.sink = sink, .error = error};
    XCVM_CHECK(error, count < UINT16_MAX, UNSUPPORTED, "%zu arrays; an archive holds fewer than 65535", count);
    member *members = xcvm_allocate(allocator, count * sizeof *members);
    XCVM_CHECK(error, members != NULL, OUT_OF_MEMORY, "no memory for the directory of %zu arrays", count);
    const xcvm_status status = write_all(&a, tensors, count, members);
    xcvm_deallocate(allocator, members, count * sizeof *members);
    return status;
}
