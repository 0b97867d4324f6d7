/* Files of named tensors: safetensors and npz. */
#include "tape/tensor_file.h"
#include "base/array.h"
#include "compiler/training/optimizer.h"
#include "formats/npy.h"
#include "formats/npz_write.h"
#include "formats/safetensors.h"
#include "formats/zip.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Entries ---- */

static tape_entry *find_entry(const tape_entries *entries, const char *name, size_t length)
{
    for (size_t i = 0; i < entries->count; i++)
        if (strncmp(entries->at[i].name, name, length) == 0 && entries->at[i].name[length] == '\0')
            return &entries->at[i];
    return NULL;
}

xcvm_status tape_entries_add(tape_entries *entries, const char *name, xcvm_value *value, xcvm_error *error)
{
    const tape_entry *other = find_entry(entries, name, strlen(name));
    XCVM_CHECK(error, other == NULL || other->value->data == value->data, INVALID_ARGUMENT,
               "two tensors have the name \"%.200s\"", name);
    if (other != NULL)
        return XCVM_OK;
    tape_entry *at = xcvm_arena_grow(&entries->arena, entries->at, entries->count, &entries->capacity, sizeof *at);
    const char *copy = at != NULL ? xcvm_arena_string(&entries->arena, name, strlen(name)) : NULL;
    XCVM_CHECK(error, copy != NULL, OUT_OF_MEMORY, "no memory for the name of a tensor");
    entries->at = at;
    at[entries->count++] = (tape_entry){copy, value};
    return XCVM_OK;
}

void tape_entries_release(tape_entries *entries) { xcvm_arena_release(&entries->arena); }

/* ---- Writing ---- */

static xcvm_status write_archive(const tape_entries *entries, xcvm_sink sink, xcvm_error *error)
{
    xcvm_npz_writer writer = {.sink = sink, .arena = {.allocator = entries->arena.allocator}};
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < entries->count && status == XCVM_OK; i++)
        status = xcvm_npz_add(&writer, entries->at[i].name, entries->at[i].value, 0, error);
    if (status == XCVM_OK)
        status = xcvm_npz_finish(&writer, error);
    xcvm_npz_release(&writer);
    return status;
}

static xcvm_status write_safetensors(const tape_entries *entries, xcvm_sink sink, xcvm_error *error)
{
    const size_t bytes = entries->count * sizeof(xcvm_safetensor);
    xcvm_safetensor *tensors = xcvm_allocate(entries->arena.allocator, bytes);
    XCVM_CHECK(error, tensors != NULL, OUT_OF_MEMORY, "no memory to save %zu tensors", entries->count);
    for (size_t i = 0; i < entries->count; i++) {
        const xcvm_value *value = entries->at[i].value;
        tensors[i] = (xcvm_safetensor){.name = entries->at[i].name,
                                       .dtype = (xcvm_dtype)value->dtype,
                                       .rank = value->rank,
                                       .data = value->data,
                                       .bytes = value->bytes};
        memcpy(tensors[i].dims, value->dims, sizeof tensors[i].dims);
    }
    const xcvm_status status =
        xcvm_safetensors_write(tensors, entries->count, NULL, 0, entries->arena.allocator, sink, error);
    xcvm_deallocate(entries->arena.allocator, tensors, bytes);
    return status;
}

xcvm_status tape_entries_write(const tape_entries *entries, xcvm_tensor_format format, xcvm_sink sink,
                               xcvm_error *error)
{
    XCVM_CHECK(error, sink.call != NULL, INVALID_ARGUMENT, "sink is NULL");
    XCVM_CHECK(error, format == XCVM_SAFETENSORS || format == XCVM_NPZ, INVALID_ARGUMENT, "format is %d", (int)format);
    return format == XCVM_NPZ ? write_archive(entries, sink, error) : write_safetensors(entries, sink, error);
}

/* ---- Reading ---- */

/* The tensor of an entry: elements in the file, or in memory of their own. */
typedef struct found {
    const void *data; /* NULL: not found */
    unsigned char *unpacked;
    size_t unpacked_bytes;
    xcvm_value *tensor;
} found;

/* Entries that do not fit, as many as there is room for. */
typedef struct misfits {
    char text[480];
    size_t used, count, omitted;
} misfits;

static void __attribute__((format(printf, 2, 3))) misfit(misfits *m, const char *format, ...)
{
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const size_t length = strlen(text);
    if (m->omitted > 0 || m->used + length + 3 > sizeof m->text)
        m->omitted++;
    else
        m->used +=
            (size_t)snprintf(m->text + m->used, sizeof m->text - m->used, "%s%s", m->count > 0 ? "; " : "", text);
    m->count++;
}

typedef struct reading {
    const tape_entries *entries;
    found *found;
    bool all;
    misfits misfits;
    xcvm_error *error;
} reading;

/* True if a tensor of this type fits the entry. */
static bool is_fit(reading *r, const tape_entry *entry, xcvm_dtype dtype, int rank, const int64_t *dims)
{
    xcvm_value given = {0};
    char a[192], b[192];
    xcvm_value_set_tensor(&given, dtype, rank, dims);
    if (dtype == (xcvm_dtype)entry->value->dtype && xcvm_same_shape(&given, entry->value))
        return true;
    misfit(&r->misfits, "\"%.80s\" is %s, %s is needed", entry->name, xcvm_value_describe(&given, a, sizeof a),
           xcvm_value_describe(entry->value, b, sizeof b));
    return false;
}

/* The place for the elements of an entry; NULL: the name is unknown. */
static found *entry_for(reading *r, const char *name, size_t length, const tape_entry **entry)
{
    *entry = find_entry(r->entries, name, length);
    if (*entry != NULL)
        return &r->found[*entry - r->entries->at];
    /* A layer ignores the tensors of an optimizer. */
    const size_t prefix = sizeof XCC_OPTIMIZER_PREFIX - 1;
    if (r->all && (length < prefix || memcmp(name, XCC_OPTIMIZER_PREFIX, prefix) != 0))
        misfit(&r->misfits, "\"%.*s\" is not looked for", (int)(length < 80 ? length : 80), name);
    return NULL;
}

static const char nothing[1]; /* elements of an empty tensor */

static xcvm_status find_safetensors(reading *r, const xcvm_safetensors *file)
{
    for (size_t i = 0; i < file->count; i++) {
        const xcvm_safetensor *tensor = &file->tensors[i];
        const tape_entry *entry;
        found *found_entry = entry_for(r, tensor->name, strlen(tensor->name), &entry);
        if (found_entry == NULL)
            continue;
        /* A misfit was reported already, and is not missing. */
        found_entry->data =
            is_fit(r, entry, tensor->dtype, tensor->rank, tensor->dims) && tensor->bytes > 0 ? tensor->data : nothing;
    }
    return XCVM_OK;
}

static xcvm_status find_member(reading *r, const xcvm_zip *zip, const xcvm_zip_member *member)
{
    const tape_entry *entry;
    xcvm_npy npy;
    const bool named = member->name_length > 4 && memcmp(member->name + member->name_length - 4, ".npy", 4) == 0;
    found *found_entry = entry_for(r, member->name, member->name_length - (named ? 4 : 0), &entry);
    if (found_entry == NULL)
        return XCVM_OK;
    XCVM_CHECK(r->error, found_entry->data == NULL, INVALID_ARGUMENT, "\"%.100s\" is in the archive twice",
               entry->name);
    const unsigned char *bytes;
    const xcvm_allocator *allocator = r->entries->arena.allocator;
    XCVM_TRY(xcvm_zip_read(zip, member, allocator, &bytes, &found_entry->unpacked, r->error));
    found_entry->unpacked_bytes = (size_t)member->size;
    XCVM_TRY(xcvm_npy_parse(bytes, (size_t)member->size, (size_t)member->size, (xcvm_dtype)entry->value->dtype, &npy,
                            r->error));
    found_entry->data = nothing;
    if (!is_fit(r, entry, npy.dtype, npy.rank, npy.dims))
        return XCVM_OK;
    if (xcvm_npy_plain(&npy)) {
        found_entry->data = npy.data;
        return XCVM_OK;
    }
    XCVM_TRY(xcvm_npy_tensor(&npy, allocator, &found_entry->tensor, r->error));
    found_entry->data = found_entry->tensor->bytes > 0 ? found_entry->tensor->data : nothing;
    return XCVM_OK;
}

static xcvm_status find_npz(reading *r, const void *bytes, size_t count)
{
    xcvm_zip zip;
    xcvm_zip_member member;
    bool more;
    XCVM_TRY(xcvm_zip_open(&zip, bytes, count, r->error));
    for (;;) {
        XCVM_TRY(xcvm_zip_next(&zip, &member, &more, r->error));
        if (!more)
            return XCVM_OK;
        XCVM_TRY(find_member(r, &zip, &member));
    }
}

static xcvm_status copy_found_tensors(reading *r)
{
    misfits *m = &r->misfits;
    for (size_t i = 0; i < r->entries->count; i++)
        if (r->found[i].data == NULL)
            misfit(m, "\"%.80s\" is missing", r->entries->at[i].name);
    char rest[40] = "";
    if (m->omitted > 0)
        snprintf(rest, sizeof rest, "; and %zu more", m->omitted);
    XCVM_CHECK(r->error, m->count == 0, SHAPE_MISMATCH, "the file does not fit: %s%s", m->text, rest);
    for (size_t i = 0; i < r->entries->count; i++)
        if (r->entries->at[i].value->bytes > 0)
            memcpy(r->entries->at[i].value->data, r->found[i].data, r->entries->at[i].value->bytes);
    return XCVM_OK;
}

static xcvm_status read_file(reading *r, const void *bytes, size_t count)
{
    xcvm_status status;
    if (count >= 2 && memcmp(bytes, "PK", 2) == 0) {
        XCVM_TRY(find_npz(r, bytes, count));
        return copy_found_tensors(r);
    }
    xcvm_safetensors file = {.arena = {.allocator = r->entries->arena.allocator}};
    status = xcvm_safetensors_read(&file, bytes, count, r->error);
    if (status == XCVM_OK)
        status = find_safetensors(r, &file);
    if (status == XCVM_OK)
        status = copy_found_tensors(r);
    xcvm_safetensors_release(&file);
    return status;
}

xcvm_status tape_entries_read(const tape_entries *entries, const void *bytes, size_t count, bool all, xcvm_error *error)
{
    XCVM_CHECK(error, bytes != NULL, INVALID_ARGUMENT, "bytes is NULL");
    const xcvm_allocator *allocator = entries->arena.allocator;
    const size_t room = entries->count * sizeof(found);
    reading r = {.entries = entries, .all = all, .error = error};
    r.found = xcvm_allocate_zeroed(allocator, room);
    XCVM_CHECK(error, r.found != NULL, OUT_OF_MEMORY, "no memory to load %zu tensors", entries->count);
    const xcvm_status status = read_file(&r, bytes, count);
    for (size_t i = 0; i < entries->count; i++) {
        if (r.found[i].unpacked != NULL)
            xcvm_deallocate(allocator, r.found[i].unpacked, r.found[i].unpacked_bytes);
        xcvm_value_release(r.found[i].tensor);
    }
    xcvm_deallocate(allocator, r.found, room);
    return status;
}
