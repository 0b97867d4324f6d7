/* Tensor files: .npy, .npz, .safetensors, .pb, images and raw bytes. */
#include "tensors/tensor_file.h"
#include "io/file.h"
#include "cli/memory.h"
#include "tensors/arrays.h"
#include "tensors/npy.h"
#include "values/number.h"
#include "io/output.h"
#include "tensors/png.h"
#include "cli/report.h"
#include "values/value.h"

#include <xcvm/compiler.h>

#include <stdlib.h>
#include <string.h>

enum format { FORMAT_UNKNOWN, FORMAT_NPY, FORMAT_NPZ, FORMAT_SAFETENSORS, FORMAT_PB, FORMAT_PNG, FORMAT_BIN };

static const struct {
    const char *suffix;
    enum format format;
} suffixes[] = {{".npy", FORMAT_NPY}, {".npz", FORMAT_NPZ}, {".safetensors", FORMAT_SAFETENSORS},
                {".pb", FORMAT_PB},   {".png", FORMAT_PNG}, {".bin", FORMAT_BIN},
                {".raw", FORMAT_BIN}, {".f32", FORMAT_BIN}, {".i64", FORMAT_BIN}};

static enum format format_of(const char *path, const struct buffer *bytes)
{
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (file_has_suffix(path, suffixes[i].suffix))
            return suffixes[i].format;
    static const struct {
        const char *mark;
        size_t length;
        enum format format;
    } marks[] = {{"\x93NUMPY", 6, FORMAT_NPY}, {"PK\3\4", 4, FORMAT_NPZ}, {"\x89PNG", 4, FORMAT_PNG}};
    for (size_t i = 0; bytes != NULL && i < sizeof marks / sizeof *marks; i++)
        if (bytes->length >= marks[i].length && memcmp(bytes->data, marks[i].mark, marks[i].length) == 0)
            return marks[i].format;
    return FORMAT_UNKNOWN;
}

/* The elements as they lie in memory. One open dimension follows from the size of the file. */
static xcvm_status read_raw(const struct buffer *bytes, const xcvm_type *type, struct value_budget *budget,
                            xcvm_value **tensor, xcvm_error *error)
{
    if (type == NULL || type->rank < 0 || type->dtype == XCVM_NO_DTYPE || type->dtype == XCVM_STRING)
        return error_set(error, XCVM_INVALID_ARGUMENT,
                         "raw elements have no type; say dimensions and type, as in 2x3xf32=@file.bin");
    int64_t dims[XCVM_MAX_RANK];
    int open = -1;
    size_t bits = (size_t)xcvm_dtype_bits(type->dtype), known = bits;
    for (int i = 0; i < type->rank; i++) {
        dims[i] = type->dims[i];
        if (dims[i] < 0 && open >= 0)
            return error_set(error, XCVM_INVALID_ARGUMENT,
                             "more than one dimension is open; say all, as in 2x3xf32=@file.bin");
        if (dims[i] < 0)
            open = i;
        else if (__builtin_mul_overflow(known, (size_t)dims[i], &known))
            return error_set(error, XCVM_OUT_OF_RANGE, "the shape is too large to exist");
    }
    size_t have;
    if (__builtin_mul_overflow(bytes->length, (size_t)8, &have))
        have = SIZE_MAX;
    if (open >= 0) {
        dims[open] = known != 0 ? (int64_t)(have / known) : 0;
        if (known != 0 && have % known != 0 && bits >= 8)
            return error_set(error, XCVM_SHAPE_MISMATCH, "%zu bytes are no multiple of the %zu of the other dimensions",
                             bytes->length, known / 8);
        known *= (size_t)dims[open];
    }
    if (known / 8 + (known % 8 != 0) != bytes->length)
        return error_set(error, XCVM_SHAPE_MISMATCH, "%zu bytes are needed for the shape, the file holds %zu",
                         known / 8 + (known % 8 != 0), bytes->length);
    TRY(xcvm_tensor_create(value_budget_allocator(budget), type->dtype, type->rank, dims, tensor, error));
    if (bytes->length != 0)
        memcpy(xcvm_value_data(*tensor), bytes->data, bytes->length);
    if (type->dtype == XCVM_BOOL)
        for (size_t i = 0; i < bytes->length; i++)
            ((unsigned char *)xcvm_value_data(*tensor))[i] = bytes->data[i] != 0;
    return XCVM_OK;
}

static xcvm_status read_bytes(const char *path, const char *key, const struct buffer *bytes,
                              const struct wanted *wanted, struct value_budget *budget, xcvm_value **value,
                              xcvm_error *error)
{
    xcvm_dtype dtype = wanted->type != NULL ? wanted->type->dtype : XCVM_NO_DTYPE;
    char name[128];
    switch (format_of(path, bytes)) {
    case FORMAT_NPY:
    case FORMAT_NPZ:
    case FORMAT_SAFETENSORS:
        return arrays_read(bytes->data, bytes->length, key, wanted->name, dtype, value_budget_allocator(budget), value,
                           error);
    case FORMAT_PNG:
        return png_read(bytes->data, bytes->length, wanted->type, budget, value, error);
    case FORMAT_PB:
        return xcc_value_load(bytes->data, bytes->length, wanted->type, value_budget_allocator(budget), name, value,
                              error);
    case FORMAT_BIN:
        return read_raw(bytes, wanted->type, budget, value, error);
    case FORMAT_UNKNOWN:
        break;
    }
    return error_set(error, XCVM_INVALID_ARGUMENT,
                     "the kind of file is not known (.npy, .npz, .safetensors, .pb, .png and .bin can be read)");
}

xcvm_status tensor_file_read(const char *path, const char *key, const struct wanted *wanted,
                             struct value_budget *budget, xcvm_value **value, xcvm_error *error)
{
    struct buffer bytes = {0};
    TRY(file_read(path, &bytes, error));
    xcvm_status status = read_bytes(path, key, &bytes, wanted, budget, value, error);
    if (status == XCVM_INVALID_MODEL) /* of a .pb file, but no model is concerned */
        status = error->status = XCVM_INVALID_ARGUMENT;
    if (status != XCVM_OK)
        error_prefix(error, "%s", strcmp(path, "-") == 0 ? "standard input" : path);
    buffer_release(&bytes);
    return status;
}

/* ---- Writing ---- */

static xcvm_status add_to_archive(struct tensor_files *files, const char *path, const char *key,
                                  const xcvm_value *value, xcvm_error *error)
{
    struct tensor_archive *archive = NULL;
    for (size_t i = 0; i < files->archive_count && archive == NULL; i++)
        if (strcmp(files->archives[i].path, path) == 0)
            archive = &files->archives[i];
    if (archive == NULL) {
        files->archives = memory_append(files->archives, files->archive_count, sizeof *files->archives);
        archive = &files->archives[files->archive_count++];
        *archive = (struct tensor_archive){.path = path};
    }
    return npz_add(&archive->writer, key, value, error);
}

static xcvm_status write_raw(const xcvm_value *value, struct output *output, xcvm_error *error)
{
    if (xcvm_value_kind(value) != XCVM_KIND_TENSOR || xcvm_value_dtype(value) == XCVM_STRING)
        return error_set(error, XCVM_INVALID_ARGUMENT, "only tensors of numbers have raw elements (.pb holds more)");
    return output_sink(output, xcvm_value_data(value), xcvm_value_bytes(value))
               ? XCVM_OK
               : error_set(error, XCVM_IO, "the elements cannot be written");
}

static xcvm_status unknown_target(const char *path, xcvm_error *error)
{
    return error_set(error, XCVM_INVALID_ARGUMENT,
                     "%s: the kind of file is not known (.npy, .npz, .pb, .png and .bin can be written)", path);
}

/* As format_of, of what can be written. */
static enum format target_format(const char *path)
{
    enum format format = format_of(path, NULL);
    return format != FORMAT_SAFETENSORS ? format : FORMAT_UNKNOWN;
}

xcvm_status tensor_file_check_target(const char *path, xcvm_error *error)
{
    if (target_format(path) == FORMAT_UNKNOWN)
        return unknown_target(path, error);
    return output_check(path, error);
}

xcvm_status tensor_file_write(struct tensor_files *files, const char *path, const char *key, const char *name,
                              const xcvm_value *value, xcvm_error *error)
{
    enum format format = target_format(path);
    xcvm_status status;
    if (format == FORMAT_UNKNOWN)
        return unknown_target(path, error);
    if (format == FORMAT_NPZ) {
        status = add_to_archive(files, path, key != NULL && *key != '\0' ? key : name, value, error);
        if (status != XCVM_OK)
            error_prefix(error, "%s", path);
        return status;
    }
    struct output output;
    TRY(output_open(&output, path, error));
    if (format == FORMAT_NPY)
        status = npy_write(value, output_sink, &output, error);
    else if (format == FORMAT_PB)
        status = xcc_value_save(value, name, output_sink, &output, error);
    else if (format == FORMAT_PNG)
        status = png_write(value, output_sink, &output, error);
    else
        status = write_raw(value, &output, error);
    if (status == XCVM_OK)
        return output_finish(&output, error);
    error_prefix(error, "%s", path);
    output_discard(&output, error);
    return status;
}

xcvm_status tensor_files_finish(struct tensor_files *files, bool keep, xcvm_error *error)
{
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < files->archive_count; i++) {
        struct tensor_archive *archive = &files->archives[i];
        if (keep && status == XCVM_OK)
            status = npz_finish(&archive->writer, error);
        if (keep && status == XCVM_OK)
            status = output_write(archive->path, archive->writer.archive.data, archive->writer.archive.length, error);
        npz_release(&archive->writer);
    }
    free(files->archives);
    *files = (struct tensor_files){0};
    return status;
}
