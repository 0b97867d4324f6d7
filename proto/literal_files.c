/* Literals whose elements are in files: at an offset of any file, or a tensor of a safetensors file. */
#include "proto/literal_files.h"
#include "formats/safetensors.h"
#include "proto/open_beneath.h"
#include "proto/types.h"

#include <string.h>
#include <unistd.h>

/* A safetensors file that is completely in memory. */
typedef struct xcvm_literal_file {
    struct xcvm_literal_file *next;
    const char *path;
    xcvm_safetensors tensors; /* its arena contains this struct and the bytes of the file */
} literal_file;

void xcvm_literal_files_release(xcvm_literal_files *files)
{
    while (files->first != NULL) {
        xcvm_safetensors tensors = files->first->tensors;
        files->first = files->first->next;
        xcvm_safetensors_release(&tensors);
    }
}

/* ---- Bytes at an offset ---- */

static xcvm_status read_bytes(xcvm_reader *r, const char *path, uint64_t offset, xcvm_value *tensor)
{
    uint64_t size;
    int fd;
    xcvm_status status = xcvm_open_beneath(r->files->base_dir, path, &fd, &size, r->error);
    if (status == XCVM_OK) {
        if (offset > size || tensor->bytes > size - offset)
            status = xcvm_error_set(r->error, XCVM_INVALID_PROGRAM, "`%.300s` has %llu bytes, too few for %zu at %llu",
                                    path, (unsigned long long)size, tensor->bytes, (unsigned long long)offset);
        else if ((tensor->data = xcvm_arena_allocate(r->arena, tensor->bytes)) == NULL)
            status = xcvm_error_set(r->error, XCVM_OUT_OF_MEMORY, "no memory for %zu bytes of `%.300s`", tensor->bytes,
                                    path);
        else
            status = xcvm_read_beneath(fd, offset, tensor->data, tensor->bytes, r->error);
        close(fd);
    }
    if (status != XCVM_OK)
        xcvm_error_prefix(r->error, "line %d", r->line);
    return status;
}

/* For strings, +BYTES follows the offset, because the type does not give their size. */
static xcvm_status read_at_offset(xcvm_reader *r, const char *path, xcvm_value *tensor)
{
    uint64_t offset, bytes;
    XCVM_TRY(xcvm_reader_uint(r, UINT64_MAX, &offset));
    if (tensor->dtype == XCVM_STRING) {
        XCVM_TRY(xcvm_reader_expect(r, '+'));
        XCVM_TRY(xcvm_reader_uint(r, PTRDIFF_MAX, &bytes));
        if (bytes < tensor->bytes)
            return xcvm_reader_fail(r, "%zu strings need %zu bytes at least", xcvm_element_count(tensor),
                                    tensor->bytes);
        tensor->bytes = (size_t)bytes;
    }
    XCVM_TRY(read_bytes(r, path, offset, tensor));
    if (tensor->dtype == XCVM_STRING && !xcvm_strings_valid(tensor->data, tensor->bytes, xcvm_element_count(tensor)))
        return xcvm_reader_fail(r, "`%.300s` has no strings at %llu", path, (unsigned long long)offset);
    return XCVM_OK;
}

/* ---- Tensors of safetensors files ---- */

static xcvm_status load_file(xcvm_reader *r, int fd, uint64_t size, const char *path, xcvm_arena *arena,
                             literal_file **loaded)
{
    literal_file *file = xcvm_arena_allocate(arena, sizeof *file);
    char *bytes = size <= SIZE_MAX ? xcvm_arena_allocate(arena, (size_t)size) : NULL;
    const char *name = xcvm_arena_string(arena, path, strlen(path));
    XCVM_CHECK(r->error, file != NULL && bytes != NULL && name != NULL, OUT_OF_MEMORY,
               "no memory for the %llu bytes of the file", (unsigned long long)size);
    XCVM_TRY(xcvm_read_beneath(fd, 0, bytes, (size_t)size, r->error));
    xcvm_safetensors tensors = {.arena = *arena};
    const xcvm_status status = xcvm_safetensors_read(&tensors, bytes, (size_t)size, r->error);
    *arena = tensors.arena;
    if (status == XCVM_OK) {
        *file = (literal_file){r->files->first, name, tensors};
        r->files->first = *loaded = file;
    }
    return status;
}

static xcvm_status open_file(xcvm_reader *r, const char *path, literal_file **file)
{
    for (*file = r->files->first; *file != NULL; *file = (*file)->next)
        if (strcmp((*file)->path, path) == 0)
            return XCVM_OK;
    xcvm_arena arena = {.allocator = r->files->allocator};
    uint64_t size;
    int fd;
    XCVM_TRY(xcvm_open_beneath(r->files->base_dir, path, &fd, &size, r->error));
    const xcvm_status status = load_file(r, fd, size, path, &arena, file);
    close(fd);
    if (status != XCVM_OK) {
        xcvm_arena_release(&arena);
        xcvm_error_prefix(r->error, "`%.300s`", path);
    }
    return status;
}

static xcvm_status read_tensor(xcvm_reader *r, const char *path, xcvm_value *tensor)
{
    char expected[200], actual[200];
    const char *name;
    literal_file *file;
    XCVM_TRY(xcvm_reader_name(r, &name));
    const xcvm_status status = open_file(r, path, &file);
    if (status != XCVM_OK) {
        xcvm_error_prefix(r->error, "line %d", r->line);
        return status;
    }
    const xcvm_safetensor *found = xcvm_safetensors_find(&file->tensors, name);
    if (found == NULL)
        return xcvm_reader_fail(r, "`%.300s` has no tensor `%.100s`", path, name);
    xcvm_value value = {0};
    xcvm_value_set_tensor(&value, found->dtype, found->rank, found->dims);
    if (value.dtype != tensor->dtype || !xcvm_same_shape(&value, tensor))
        return xcvm_reader_fail(r, "`%.100s` of `%.300s` is %s; expected %s", name, path,
                                xcvm_value_describe(&value, actual, sizeof actual),
                                xcvm_value_describe(tensor, expected, sizeof expected));
    tensor->data = xcvm_arena_allocate(r->arena, found->bytes);
    if (tensor->data == NULL)
        return xcvm_reader_no_memory(r);
    if (found->bytes > 0)
        memcpy(tensor->data, found->data, found->bytes);
    return XCVM_OK;
}

xcvm_status xcvm_file_reference_read(xcvm_reader *r, xcvm_value *tensor)
{
    const char *path;
    size_t length;
    XCVM_TRY(xcvm_reader_string(r, &path, &length));
    if (strlen(path) != length)
        return xcvm_reader_fail(r, "the name of a file has a NUL in it");
    XCVM_TRY(xcvm_reader_expect(r, ':'));
    if (r->files == NULL || r->files->base_dir == NULL)
        return xcvm_reader_fail(r, "`%.300s`: this text may not refer to files", path);
    const char next = xcvm_reader_peek(r);
    return next >= '0' && next <= '9' ? read_at_offset(r, path, tensor) : read_tensor(r, path, tensor);
}
