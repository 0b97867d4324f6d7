/* Tensor files: .npy, .npz, .safetensors, .pb, images and raw bytes. */
#include "tensors/tensor_file.h"
#include "io/file.h"
#include "cli/memory.h"
#include "tensors/arrays.h"
#include "values/number.h"
#include "io/output.h"
#include "tensors/image.h"
#include "tensors/png.h"
#include "cli/report.h"
#include "cli/suffix.h"
#include "values/value.h"

#include <xcvm/compiler.h>
#include <xcvm/files.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum format { FORMAT_UNKNOWN, FORMAT_NPY, FORMAT_NPZ, FORMAT_SAFETENSORS, FORMAT_PB, FORMAT_IMAGE, FORMAT_BIN };

static const struct {
    const char *suffix;
    enum format format;
} suffixes[] = {{".npy", FORMAT_NPY},    {".npz", FORMAT_NPZ},    {".safetensors", FORMAT_SAFETENSORS},
                {".pb", FORMAT_PB},      {".png", FORMAT_IMAGE},  {".jpg", FORMAT_IMAGE},
                {".jpeg", FORMAT_IMAGE}, {".webp", FORMAT_IMAGE}, {".bmp", FORMAT_IMAGE},
                {".tif", FORMAT_IMAGE},  {".tiff", FORMAT_IMAGE}, {".pgm", FORMAT_IMAGE},
                {".ppm", FORMAT_IMAGE},  {".jp2", FORMAT_IMAGE},  {".bin", FORMAT_BIN},
                {".raw", FORMAT_BIN},    {".f32", FORMAT_BIN},    {".i64", FORMAT_BIN}};

static enum format format_of_name(const char *path)
{
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (suffix_is(path, suffixes[i].suffix))
            return suffixes[i].format;
    return FORMAT_UNKNOWN;
}

/* Arrays and images have distinctive first bytes; raw elements and messages do not. */
static enum format format_of(const char *path, const struct buffer *bytes)
{
    const enum format named = format_of_name(path);
    if (named == FORMAT_BIN || named == FORMAT_PB)
        return named;
    if (bytes->length >= 6 && memcmp(bytes->data, "\x93NUMPY", 6) == 0)
        return FORMAT_NPY;
    if (bytes->length >= 4 && memcmp(bytes->data, "PK\3\4", 4) == 0)
        return FORMAT_NPZ;
    if (xcvm_recognize(bytes->data, bytes->length, XCVM_FILE_IMAGE, NULL, 0) == XCVM_FILE_IMAGE)
        return FORMAT_IMAGE;
    return named;
}

/* The shape of raw elements, with at most one open dimension, and the bits of an entry of the open dimension. */
static xcvm_status raw_shape(const xcvm_type *type, int64_t *dims, int *open, size_t *bits, xcvm_error *error)
{
    if (type == NULL || type->rank < 0 || type->dtype == XCVM_NO_DTYPE || type->dtype == XCVM_STRING)
        return error_set(error, XCVM_INVALID_ARGUMENT,
                         "raw elements need dimensions and a type, for example 2x3xf32=@file.bin");
    *open = -1;
    *bits = (size_t)xcvm_dtype_bits(type->dtype);
    for (int i = 0; i < type->rank; i++) {
        dims[i] = type->dims[i];
        if (dims[i] < 0 && *open >= 0)
            return error_set(error, XCVM_INVALID_ARGUMENT,
                             "more than one dimension is open. Write all dimensions, for example 2x3xf32=@file.bin");
        if (dims[i] < 0)
            *open = i;
        else if (__builtin_mul_overflow(*bits, (size_t)dims[i], bits))
            return error_set(error, XCVM_OUT_OF_RANGE, "the shape is too large");
    }
    return XCVM_OK;
}

static size_t bytes_of_bits(size_t bits) { return bits / 8 + (bits % 8 != 0); }

static xcvm_status check_raw_size(size_t bits, uint64_t bytes, xcvm_error *error)
{
    if (bytes_of_bits(bits) == bytes)
        return XCVM_OK;
    return error_set(error, XCVM_SHAPE_MISMATCH, "the shape needs %zu bytes, but the file has %" PRIu64,
                     bytes_of_bits(bits), bytes);
}

/* Reads elements in memory layout. One open dimension follows from the size of the file. */
static xcvm_status read_raw(const struct buffer *bytes, const xcvm_type *type, struct value_budget *budget,
                            xcvm_value **tensor, xcvm_error *error)
{
    int64_t dims[XCVM_MAX_RANK];
    int open;
    size_t known, have;
    TRY(raw_shape(type, dims, &open, &known, error));
    if (__builtin_mul_overflow(bytes->length, (size_t)8, &have))
        have = SIZE_MAX;
    if (open >= 0) {
        dims[open] = known != 0 ? (int64_t)(have / known) : 0;
        if (known != 0 && have % known != 0 && xcvm_dtype_bits(type->dtype) >= 8)
            return error_set(error, XCVM_SHAPE_MISMATCH,
                             "the file has %zu bytes, which is not a multiple of the %zu bytes of the other dimensions",
                             bytes->length, known / 8);
        known *= (size_t)dims[open];
    }
    TRY(check_raw_size(known, bytes->length, error));
    TRY(xcvm_tensor_create(value_budget_allocator(budget), type->dtype, type->rank, dims, tensor, error));
    if (bytes->length != 0)
        memcpy(xcvm_value_data(*tensor), bytes->data, bytes->length);
    if (type->dtype == XCVM_BOOL)
        for (size_t i = 0; i < bytes->length; i++)
            ((unsigned char *)xcvm_value_data(*tensor))[i] = bytes->data[i] != 0;
    return XCVM_OK;
}

/* If the bytes are of another known kind of file, the error names it instead. */
static xcvm_status recognize(xcvm_status status, const struct buffer *bytes, xcvm_error *error)
{
    char text[400];
    (void)xcvm_recognize(bytes->data, bytes->length, XCVM_FILE_ARRAYS, text, sizeof text);
    return text[0] != '\0' ? error_set(error, status, "%s", text) : status;
}

static xcvm_status unknown_source(const struct buffer *bytes, xcvm_error *error)
{
    error_set(error, XCVM_INVALID_ARGUMENT,
              "the format of the file is unknown (expected .npy, .npz, .safetensors, .pb, .bin or an image)");
    return recognize(XCVM_INVALID_ARGUMENT, bytes, error);
}

static xcvm_status read_bytes(enum format format, const char *path, const char *key, const struct buffer *bytes,
                              const struct wanted *wanted, struct value_budget *budget, xcvm_value **value,
                              xcvm_error *error)
{
    xcvm_dtype dtype = wanted->type != NULL ? wanted->type->dtype : XCVM_NO_DTYPE;
    char name[128];
    switch (format) {
    case FORMAT_NPY:
    case FORMAT_NPZ:
    case FORMAT_SAFETENSORS:
        return arrays_read(bytes->data, bytes->length, key, wanted->name, dtype, budget, value, error);
    case FORMAT_IMAGE: {
        xcvm_type type = {.kind = XCVM_KIND_TENSOR, .rank = -1};
        if (wanted->type != NULL)
            type = *wanted->type;
        if (wanted->bytes)
            type.dtype = XCVM_U8;
        return image_read(bytes->data, bytes->length, wanted->type != NULL ? &type : NULL, wanted->resize, path, budget,
                          value, error);
    }
    case FORMAT_PB:
        return xcc_value_load(bytes->data, bytes->length, wanted->type, value_budget_allocator(budget),
                              value_budget_time_left(budget), name, value, error);
    case FORMAT_BIN:
        return read_raw(bytes, wanted->type, budget, value, error);
    case FORMAT_UNKNOWN:
        break;
    }
    return unknown_source(bytes, error);
}

/* The maximum size, for the expected shape, of a file of unknown size. */
static xcvm_status most_bytes(enum format format, const xcvm_type *type, uint64_t *most, xcvm_error *error)
{
    enum { WIDEST = 16, NPY_HEADER = 1 << 20 };
    int64_t dims[XCVM_MAX_RANK];
    int open;
    size_t bits, count = 1;
    *most = format == FORMAT_IMAGE ? INT32_MAX : UINT64_MAX;
    if (format == FORMAT_BIN) {
        TRY(raw_shape(type, dims, &open, &bits, error));
        *most = open < 0 ? bytes_of_bits(bits) : UINT64_MAX;
    } else if (format == FORMAT_NPY && type != NULL && type->dtype != XCVM_STRING) {
        bool known = type->rank >= 0;
        for (int i = 0; i < type->rank; i++)
            known = known && type->dims[i] >= 0 && !__builtin_mul_overflow(count, (size_t)type->dims[i], &count);
        *most = known && count < UINT64_MAX / WIDEST / 2 ? (uint64_t)count * WIDEST + NPY_HEADER : UINT64_MAX;
    }
    return XCVM_OK;
}

struct read_limits tensor_file_limits(const struct value_budget *budget)
{
    struct read_limits limits = {0};
    if (budget != NULL && budget->limit != 0)
        limits.bytes = value_budget_left(budget) != 0 ? value_budget_left(budget) : 1;
    if (budget != NULL && budget->timeout > 0)
        limits.until = budget->until;
    return limits;
}

/* Finds the format by the name and the first bytes, and the maximum size of a file whose size is unknown, from the
 * expected shape. */
static xcvm_status look(const struct reading *reading, const char *path, const xcvm_type *type, enum format *format,
                        uint64_t *most, xcvm_error *error)
{
    int64_t dims[XCVM_MAX_RANK];
    int open;
    size_t bits;
    *format = format_of(path, &reading->bytes);
    *most = UINT64_MAX;
    if (*format == FORMAT_UNKNOWN)
        return unknown_source(&reading->bytes, error);
    if (reading->size == UINT64_MAX)
        return most_bytes(*format, type, most, error);
    if (*format != FORMAT_BIN)
        return XCVM_OK;
    TRY(raw_shape(type, dims, &open, &bits, error));
    return open < 0 ? check_raw_size(bits, reading->size, error) : XCVM_OK;
}

static xcvm_status read_value(struct reading *reading, const char *path, const char *key, const struct wanted *wanted,
                              struct value_budget *budget, xcvm_value **value, xcvm_error *error)
{
    enum { LONGEST_MARK = 512 };
    enum format format;
    uint64_t most;
    TRY(reading_start(reading, LONGEST_MARK, error));
    xcvm_status status = look(reading, path, wanted->type, &format, &most, error);
    if (status == XCVM_OK) {
        TRY(reading_rest(reading, most, "the size of its type and shape", error));
        const size_t held = reading->bytes.length;
        value_budget_hold(budget, held);
        status = read_bytes(format, reading->name, key, &reading->bytes, wanted, budget, value, error);
        value_budget_let_go(budget, held);
    }
    if (status == XCVM_INVALID_MODEL) /* of a .pb file, but no model is concerned */
        status = recognize(error->status = XCVM_INVALID_ARGUMENT, &reading->bytes, error);
    if (status != XCVM_OK)
        error_prefix(error, "%s", reading->name);
    return status;
}

xcvm_status tensor_file_read(const char *path, const char *key, const struct wanted *wanted,
                             struct value_budget *budget, xcvm_value **value, xcvm_error *error)
{
    struct reading reading;
    const struct read_limits limits = tensor_file_limits(budget);
    TRY(reading_open(&reading, path, &limits, error));
    const xcvm_status status = read_value(&reading, path, key, wanted, budget, value, error);
    reading_close(&reading);
    return status;
}

/* ---- Writing ---- */

static xcvm_status open_archive(struct tensor_files *files, const char *path, struct tensor_archive **archive,
                                xcvm_error *error)
{
    for (size_t i = 0; i < files->archive_count; i++) {
        *archive = &files->archives[i];
        if (strcmp((*archive)->path, path) == 0 || file_is_one_target((*archive)->path, path))
            return XCVM_OK;
    }
    files->archives = memory_append(files->archives, files->archive_count, sizeof *files->archives);
    *archive = &files->archives[files->archive_count++];
    **archive = (struct tensor_archive){.path = path, .content = memory_take(1, sizeof *(*archive)->content)};
    return xct_archive_create((xcvm_sink){buffer_sink, (*archive)->content}, NULL, &(*archive)->writer, error);
}

/* The archive is in memory until all arrays are known. */
static xcvm_status add_to_archive(struct tensor_files *files, const char *path, const char *key,
                                  const xcvm_value *value, xcvm_error *error)
{
    struct tensor_archive *archive;
    uint64_t bytes;
    TRY(xct_array_file_bytes(value, &bytes, error));
    TRY(open_archive(files, path, &archive, error));
    TRY(value_budget_check(files->budget, bytes + archive->content->length, error));
    return xct_archive_add(archive->writer, key, value, value_budget_time_left(files->budget), error);
}

static xcvm_status write_raw(const xcvm_value *value, struct output *output, xcvm_error *error)
{
    if (xcvm_value_kind(value) != XCVM_KIND_TENSOR || xcvm_value_dtype(value) == XCVM_STRING)
        return error_set(error, XCVM_INVALID_ARGUMENT,
                         "only tensors of numbers can be written as raw elements. Write a .pb file");
    return output_sink(output, xcvm_value_data(value), xcvm_value_bytes(value))
               ? XCVM_OK
               : error_set(error, XCVM_IO, "the elements cannot be written");
}

static xcvm_status unknown_target(const char *path, xcvm_error *error)
{
    return error_set(error, XCVM_INVALID_ARGUMENT,
                     "%s: the format of the file is unknown (expected .npy, .npz, .pb, .png or .bin)", path);
}

/* Like format_of, for formats that can be written. */
static enum format target_format(const char *path)
{
    enum format format = format_of_name(path);
    const bool readable = format == FORMAT_SAFETENSORS || (format == FORMAT_IMAGE && !suffix_is(path, ".png"));
    return readable ? FORMAT_UNKNOWN : format;
}

bool tensor_file_is_archive(const char *path) { return target_format(path) == FORMAT_NPZ; }

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
        status = array_write(value, files->budget, (xcvm_sink){output_sink, &output}, error);
    else if (format == FORMAT_PB)
        status = xcc_value_save(value, name, (xcvm_sink){output_sink, &output}, error);
    else if (format == FORMAT_IMAGE)
        status = png_write(value, (xcvm_sink){output_sink, &output}, error);
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
            status = xct_archive_finish(archive->writer, error);
        if (keep && status == XCVM_OK)
            status = output_write(archive->path, archive->content->data, archive->content->length, error);
        xct_archive_destroy(archive->writer);
        buffer_release(archive->content);
        free(archive->content);
    }
    free(files->archives);
    *files = (struct tensor_files){0};
    return status;
}
