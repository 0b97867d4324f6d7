/* Named arrays in files, whichever the format. */
#include "train/data/arrays.h"

#include "base/array.h"
#include "base/clock.h"
#include "proto/recognize.h"

struct xct_arrays {
    xcvm_arena arena; /* this struct, names and members */
    xct_mapping mapping;
    const unsigned char *bytes;
    size_t count;
    xcvm_zip zip;
    xcvm_zip_member *members; /* of an .npz file */
    const char **names;
    size_t array_count;
    xcvm_safetensors tensors;
    bool archive, single; /* .npz, .npy; else .safetensors */
    uint64_t timeout_ns;
};

/* ---- Opening ---- */

static xcvm_status out_of_memory(xcvm_error *error)
{
    return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for the directory of a data file");
}

static xcvm_status read_directory(xct_arrays *a, xcvm_error *error)
{
    size_t member_room = 0, name_room = 0;
    XCVM_TRY(xcvm_zip_open(&a->zip, a->bytes, a->count, error));
    for (;;) {
        xcvm_zip_member member;
        bool more;
        XCVM_TRY(xcvm_zip_next(&a->zip, &member, &more, error));
        if (!more)
            return XCVM_OK;
        size_t length = member.name_length;
        if (length > 4 && memcmp(member.name + length - 4, ".npy", 4) == 0)
            length -= 4;
        xcvm_zip_member *members =
            xcvm_arena_grow(&a->arena, a->members, a->array_count, &member_room, sizeof *members);
        const char **names = xcvm_arena_grow(&a->arena, a->names, a->array_count, &name_room, sizeof *names);
        const char *name = xcvm_arena_string(&a->arena, member.name, length);
        if (members == NULL || names == NULL || name == NULL)
            return out_of_memory(error);
        a->members = members;
        a->names = names;
        members[a->array_count] = member;
        names[a->array_count++] = name;
    }
}

static bool has_array_file(const xct_arrays *a)
{
    for (size_t i = 0; i < a->array_count; i++) {
        const xcvm_zip_member *member = &a->members[i];
        if (member->name_length > 4 && memcmp(member->name + member->name_length - 4, ".npy", 4) == 0)
            return true;
    }
    return false;
}

static xcvm_status read_format(xct_arrays *a, xcvm_error *error)
{
    a->single = a->count >= 6 && memcmp(a->bytes, "\x93NUMPY", 6) == 0;
    a->archive = a->count >= 2 && memcmp(a->bytes, "PK", 2) == 0;
    if (a->single) {
        a->array_count = 1;
        return XCVM_OK;
    }
    if (a->archive) {
        const xcvm_status status = read_directory(a, error);
        if (status != XCVM_OK)
            return xcvm_recognize_failure(status, a->bytes, a->count, XCVM_FILE_ARRAYS, error);
    }
    /* Archives of other systems, as PyTorch's, have members, too. */
    char text[400] = "";
    if (!a->archive || !has_array_file(a))
        (void)xcvm_recognize(a->bytes, a->count, XCVM_FILE_ARRAYS, text, sizeof text);
    XCVM_CHECK(error, text[0] == '\0', INVALID_ARGUMENT, "%s", text);
    if (a->archive)
        return XCVM_OK;
    XCVM_CHECK(error, a->count > 8 && a->bytes[8] == '{', INVALID_ARGUMENT,
               "the kind of file is not known (.npy, .npz and .safetensors can be read)");
    XCVM_TRY(xcvm_safetensors_read(&a->tensors, a->bytes, a->count, error));
    a->array_count = a->tensors.count;
    return XCVM_OK;
}

static xcvm_status create(const xcvm_allocator *allocator, xct_arrays **arrays, xcvm_error *error)
{
    xcvm_arena arena = {.allocator = xcvm_allocator_or_default(allocator)};
    xct_arrays *a = xcvm_arena_allocate(&arena, sizeof *a);
    if (a == NULL) {
        xcvm_arena_release(&arena);
        return out_of_memory(error);
    }
    a->arena = arena;
    a->tensors.arena.allocator = arena.allocator;
    *arrays = a;
    return XCVM_OK;
}

xcvm_status xct_arrays_load(const void *bytes, size_t count, const xcvm_allocator *allocator, xct_arrays **arrays,
                            xcvm_error *error)
{
    xct_arrays *a = NULL;
    XCVM_CHECK(error, bytes != NULL || count == 0, INVALID_ARGUMENT, "bytes is NULL");
    XCVM_CHECK(error, arrays != NULL, INVALID_ARGUMENT, "arrays is NULL");
    XCVM_TRY(create(allocator, &a, error));
    a->bytes = bytes;
    a->count = count;
    const xcvm_status status = read_format(a, error);
    if (status == XCVM_OK)
        *arrays = a;
    else
        xct_arrays_destroy(a);
    return status;
}

xcvm_status xct_arrays_load_file(const char *path, const xcvm_allocator *allocator, xct_arrays **arrays,
                                 xcvm_error *error)
{
    xct_arrays *a = NULL;
    XCVM_CHECK(error, path != NULL && arrays != NULL, INVALID_ARGUMENT, "path or arrays is NULL");
    XCVM_TRY(create(allocator, &a, error));
    xcvm_status status = xct_mapping_open(&a->mapping, path, error);
    if (status == XCVM_OK) {
        a->bytes = a->mapping.bytes;
        a->count = a->mapping.count;
        status = read_format(a, error);
        if (status != XCVM_OK)
            xcvm_error_prefix(error, "%s", path);
    }
    if (status == XCVM_OK)
        *arrays = a;
    else
        xct_arrays_destroy(a);
    return status;
}

void xct_arrays_destroy(xct_arrays *a)
{
    if (a == NULL)
        return;
    xct_mapping_close(&a->mapping);
    xcvm_safetensors_release(&a->tensors);
    xcvm_arena arena = a->arena; /* which holds the struct itself */
    xcvm_arena_release(&arena);
}

void xct_arrays_set_timeout(xct_arrays *a, uint64_t timeout_ns)
{
    if (a != NULL)
        a->timeout_ns = timeout_ns;
}

/* ---- Names ---- */

size_t xct_arrays_count(const xct_arrays *a) { return a != NULL ? a->array_count : 0; }

const char *xct_arrays_name_at(const xct_arrays *a, size_t index)
{
    if (a == NULL || index >= a->array_count)
        return NULL;
    return a->single ? "" : a->archive ? a->names[index] : a->tensors.tensors[index].name;
}

static size_t find_name(const xct_arrays *a, const char *name, size_t length)
{
    for (size_t i = 0; i < a->array_count; i++) {
        const char *own = xct_arrays_name_at(a, i);
        if (strncmp(own, name, length) == 0 && own[length] == '\0')
            return i;
    }
    return SIZE_MAX;
}

size_t xct_arrays_find(const xct_arrays *a, const char *name)
{
    if (a == NULL || name == NULL)
        return SIZE_MAX;
    const size_t length = strlen(name), found = find_name(a, name, length);
    const bool whole = found != SIZE_MAX || !a->archive || length <= 4 || strcmp(name + length - 4, ".npy") != 0;
    return whole ? found : find_name(a, name, length - 4);
}

/* ---- Elements ---- */

/* Returns the .npy file of an array. If it is deflated, *unpacked owns the bytes. */
static xcvm_status parse_array(const xct_arrays *a, size_t index, xcvm_dtype wanted, uint64_t deadline_ns,
                               xcvm_npy *npy, unsigned char **unpacked, xcvm_error *error)
{
    *unpacked = NULL;
    if (a->single)
        return xcvm_npy_parse(a->bytes, a->count, a->count, wanted, npy, error);
    const unsigned char *data;
    const xcvm_zip_member *member = &a->members[index];
    xcvm_zip zip = a->zip;
    zip.deadline_ns = deadline_ns;
    XCVM_TRY(xcvm_zip_read(&zip, member, a->arena.allocator, &data, unpacked, error));
    const xcvm_status status = xcvm_npy_parse(data, (size_t)member->size, (size_t)member->size, wanted, npy, error);
    if (status != XCVM_OK) {
        xcvm_deallocate(a->arena.allocator, *unpacked, (size_t)member->size);
        *unpacked = NULL;
    }
    return status;
}

static xcvm_status tensor_of(const xcvm_safetensor *from, const xcvm_allocator *allocator, xcvm_value **value,
                             xcvm_error *error)
{
    XCVM_TRY(xcvm_tensor_create(allocator, from->dtype, from->rank, from->dims, value, error));
    if (from->bytes > 0)
        memcpy(xcvm_value_data(*value), from->data, from->bytes);
    if (from->dtype == XCVM_BOOL)
        for (size_t i = 0; i < from->bytes; i++)
            ((unsigned char *)xcvm_value_data(*value))[i] = ((const unsigned char *)from->data)[i] != 0;
    return XCVM_OK;
}

xcvm_status xct_arrays_read(const xct_arrays *a, size_t index, xcvm_dtype wanted, xcvm_value **value, xcvm_error *error)
{
    XCVM_CHECK(error, a != NULL && value != NULL && index < a->array_count, INVALID_ARGUMENT, "there is no array %zu",
               index);
    if (!a->single && !a->archive)
        return tensor_of(&a->tensors.tensors[index], a->arena.allocator, value, error);
    xcvm_npy npy;
    unsigned char *unpacked;
    const uint64_t deadline_ns = xcvm_clock_deadline(a->timeout_ns);
    XCVM_TRY(parse_array(a, index, wanted, deadline_ns, &npy, &unpacked, error));
    npy.deadline_ns = deadline_ns;
    const xcvm_status status = xcvm_npy_tensor(&npy, a->arena.allocator, value, error);
    if (unpacked != NULL)
        xcvm_deallocate(a->arena.allocator, unpacked, (size_t)a->members[index].size);
    return status;
}

/* ---- Rows ---- */

static void describe_rows(xct_rows *rows, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data)
{
    rows->dtype = dtype;
    rows->rank = rank;
    rows->data = data;
    rows->row_bytes = xcvm_dtype_size(dtype);
    for (int i = 0; i < rank; i++) {
        rows->dims[i] = dims[i];
        if (i > 0)
            rows->row_bytes *= (size_t)dims[i];
    }
}

static xcvm_status check_rows(xcvm_dtype dtype, int rank, xcvm_error *error)
{
    XCVM_CHECK(error, rank >= 1, UNSUPPORTED, "it is one number, and has no examples");
    XCVM_CHECK(error, dtype != XCVM_STRING && xcvm_dtype_bits(dtype) >= 8, UNSUPPORTED,
               "elements of type %s are no data to learn from", xcvm_dtype_name(dtype));
    return XCVM_OK;
}

/* The .npy header of an array, of a deflated one only its beginning is unpacked. */
static xcvm_status peek_array(const xct_arrays *a, size_t index, xcvm_npy *npy, xcvm_error *error)
{
    enum { BEGINNING = 4096 };
    unsigned char beginning[BEGINNING];
    if (a->single)
        return xcvm_npy_parse(a->bytes, a->count, a->count, XCVM_NO_DTYPE, npy, error);
    const xcvm_zip_member *member = &a->members[index];
    size_t got;
    XCVM_TRY(xcvm_zip_peek(&a->zip, member, beginning, sizeof beginning, &got, error));
    XCVM_TRY(xcvm_npy_parse(beginning, got, (size_t)member->size, XCVM_NO_DTYPE, npy, error));
    npy->data = NULL;
    return XCVM_OK;
}

xcvm_status xct_arrays_shape(const xct_arrays *a, size_t index, xct_rows *shape, xcvm_error *error)
{
    *shape = (xct_rows){.allocator = a->arena.allocator};
    if (a->single || a->archive) {
        xcvm_npy npy;
        XCVM_TRY(peek_array(a, index, &npy, error));
        describe_rows(shape, npy.dtype, npy.rank, npy.dims, NULL);
    } else {
        const xcvm_safetensor *tensor = &a->tensors.tensors[index];
        describe_rows(shape, tensor->dtype, tensor->rank, tensor->dims, NULL);
    }
    return check_rows(shape->dtype, shape->rank, error);
}

xcvm_status xct_arrays_rows(const xct_arrays *a, size_t index, uint64_t deadline_ns, xct_rows *rows, xcvm_error *error)
{
    *rows = (xct_rows){.allocator = a->arena.allocator};
    xcvm_status status = XCVM_OK;
    const xcvm_safetensor *tensor = !a->single && !a->archive ? &a->tensors.tensors[index] : NULL;
    if (tensor != NULL && tensor->dtype != XCVM_BOOL) {
        describe_rows(rows, tensor->dtype, tensor->rank, tensor->dims, tensor->data);
    } else if (tensor != NULL) {
        status = tensor_of(tensor, a->arena.allocator, &rows->value, error);
    } else {
        xcvm_npy npy;
        XCVM_TRY(parse_array(a, index, XCVM_NO_DTYPE, deadline_ns, &npy, &rows->unpacked, error));
        npy.deadline_ns = deadline_ns;
        if (rows->unpacked != NULL)
            rows->unpacked_bytes = (size_t)a->members[index].size;
        if (xcvm_npy_plain(&npy))
            describe_rows(rows, npy.dtype, npy.rank, npy.dims, npy.data);
        else
            status = xcvm_npy_tensor(&npy, a->arena.allocator, &rows->value, error);
    }
    if (status == XCVM_OK && rows->value != NULL)
        describe_rows(rows, xcvm_value_dtype(rows->value), xcvm_value_rank(rows->value), xcvm_value_dims(rows->value),
                      xcvm_value_data(rows->value));
    if (status == XCVM_OK)
        status = check_rows(rows->dtype, rows->rank, error);
    if (status != XCVM_OK)
        xct_rows_release(rows);
    return status;
}

void xct_rows_release(xct_rows *rows)
{
    if (rows->unpacked != NULL)
        xcvm_deallocate(rows->allocator, rows->unpacked, rows->unpacked_bytes);
    xcvm_value_release(rows->value);
    *rows = (xct_rows){.allocator = rows->allocator};
}
