/* TensorProto: every encoding of elements, dense and sparse. */
#include "compiler/onnx_model/tensor_proto.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ONNX's raw data is little-endian and is used as it stands");

xcvm_status xcc_dtype_read(int64_t number, xcvm_dtype *dtype, xcvm_error *error)
{
    XCVM_CHECK(error, number > 0 && number < 32, INVALID_MODEL, "%lld is no element type", (long long)number);
    XCVM_CHECK(error, xcvm_dtype_in((xcvm_dtype)number, XCVM_TYPES_ANY), UNSUPPORTED,
               "element type %lld is not supported", (long long)number);
    *dtype = (xcvm_dtype)number;
    return XCVM_OK;
}

static xcvm_status read_shape(const int64_t *dims, size_t rank, xcc_tensor *tensor, xcvm_error *error)
{
    XCVM_CHECK(error, rank <= XCVM_MAX_RANK, UNSUPPORTED, "it has %zu dimensions, %d are supported", rank,
               XCVM_MAX_RANK);
    tensor->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        XCVM_CHECK(error, dims[i] >= 0, INVALID_MODEL, "dimension %zu is %lld", i, (long long)dims[i]);
        tensor->dims[i] = dims[i];
    }
    char text[160];
    XCVM_CHECK(error, xcvm_tensor_size(tensor->dtype, tensor->rank, tensor->dims, &tensor->count, &tensor->bytes),
               INVALID_MODEL, "its dimensions %s are more than memory can hold",
               xcvm_dims_describe(tensor->rank, tensor->dims, text, sizeof text));
    return XCVM_OK;
}

/* Which field of the message holds elements of a type, and how its entries become elements. */
typedef enum entry_kind { ENTRIES_FLOAT, ENTRIES_DOUBLE, ENTRIES_INT32, ENTRIES_INT64, ENTRIES_UINT64 } entry_kind;

static entry_kind entries_of(xcvm_dtype dtype)
{
    switch (dtype) {
    case XCVM_F32:
    case XCVM_C64:
        return ENTRIES_FLOAT;
    case XCVM_F64:
    case XCVM_C128:
        return ENTRIES_DOUBLE;
    case XCVM_I64:
        return ENTRIES_INT64;
    case XCVM_U32:
    case XCVM_U64:
        return ENTRIES_UINT64;
    default:
        return ENTRIES_INT32;
    }
}

static xcvm_status read_entries(const Onnx__TensorProto *proto, xcvm_arena *arena, xcc_tensor *t, xcvm_error *error)
{
    entry_kind kind = entries_of(t->dtype);
    const size_t counts[] = {proto->n_float_data, proto->n_double_data, proto->n_int32_data, proto->n_int64_data,
                             proto->n_uint64_data};
    const void *const arrays[] = {proto->float_data, proto->double_data, proto->int32_data, proto->int64_data,
                                  proto->uint64_data};
    static const char *const names[] = {"float_data", "double_data", "int32_data", "int64_data", "uint64_data"};
    static const size_t sizes[] = {4, 8, 4, 8, 8};
    bool complex = xcvm_dtype_in(t->dtype, XCVM_TYPES_COMPLEX);
    size_t size = xcvm_dtype_size(t->dtype) / (complex ? 2 : 1);
    /* Packed types come as bytes, one an entry. */
    size_t expected = size == 0 ? t->bytes : t->count * (complex ? 2 : 1);
    XCVM_CHECK(error, counts[kind] == expected, INVALID_MODEL, "%s has %zu entries, %zu are needed", names[kind],
               counts[kind], expected);
    if (size == sizes[kind] || expected == 0) {
        t->data = expected > 0 ? arrays[kind] : "";
        return XCVM_OK;
    }
    uint8_t *bytes = xcvm_arena_allocate(arena, t->bytes);
    XCVM_CHECK(error, bytes != NULL, OUT_OF_MEMORY, "no memory for %zu bytes", t->bytes);
    size_t width = size == 0 ? 1 : size;
    for (size_t i = 0; i < expected; i++)
        memcpy(bytes + i * width, (const uint8_t *)arrays[kind] + i * sizes[kind], width);
    t->data = bytes;
    return XCVM_OK;
}

static xcvm_status read_strings(const Onnx__TensorProto *proto, xcvm_arena *arena, xcc_tensor *t, xcvm_error *error)
{
    XCVM_CHECK(error, proto->n_string_data == t->count, INVALID_MODEL, "string_data has %zu entries, %zu are needed",
               proto->n_string_data, t->count);
    size_t bytes = t->bytes;
    bool fits = true;
    for (size_t i = 0; i < t->count; i++)
        fits = fits && xcvm_size_add(bytes, proto->string_data[i].len, &bytes);
    char *data = fits ? xcvm_arena_allocate(arena, bytes) : NULL;
    XCVM_CHECK(error, data != NULL, OUT_OF_MEMORY, "no memory for the strings");
    xcvm_string *spans = (xcvm_string *)(void *)data;
    size_t at = t->bytes;
    for (size_t i = 0; i < t->count; i++) {
        size_t length = proto->string_data[i].len;
        spans[i] = (xcvm_string){at, length};
        if (length > 0)
            memcpy(data + at, proto->string_data[i].data, length);
        at += length;
    }
    t->bytes = bytes;
    t->data = data;
    return XCVM_OK;
}

/* C's bool has two values; other bytes must not reach it. */
static xcvm_status normalize_bools(xcvm_arena *arena, xcc_tensor *t, xcvm_error *error)
{
    const uint8_t *bytes = t->data;
    size_t i = 0;
    while (i < t->count && bytes[i] <= 1)
        i++;
    if (i == t->count)
        return XCVM_OK;
    uint8_t *copy = xcvm_arena_allocate(arena, t->count);
    XCVM_CHECK(error, copy != NULL, OUT_OF_MEMORY, "no memory for %zu bytes", t->count);
    for (i = 0; i < t->count; i++)
        copy[i] = bytes[i] != 0;
    t->data = copy;
    return XCVM_OK;
}

xcvm_status xcc_tensor_read(const Onnx__TensorProto *proto, xcvm_arena *arena, xcc_external_files *files,
                            xcc_tensor *tensor, xcvm_error *error)
{
    *tensor = (xcc_tensor){.dtype = XCVM_NO_DTYPE};
    XCVM_CHECK(error, proto->has_data_type, INVALID_MODEL, "it has no element type");
    XCVM_TRY(xcc_dtype_read(proto->data_type, &tensor->dtype, error));
    XCVM_TRY(read_shape(proto->dims, proto->n_dims, tensor, error));
    XCVM_CHECK(error, proto->segment == NULL, UNSUPPORTED, "it is a segment of a larger tensor");
    if (tensor->dtype == XCVM_STRING) {
        XCVM_CHECK(error, !proto->has_raw_data && proto->n_external_data == 0, INVALID_MODEL,
                   "strings must be in string_data");
        return read_strings(proto, arena, tensor, error);
    }
    if (proto->has_data_location && proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) {
        XCVM_TRY(xcc_external_data(files, proto, tensor->bytes, &tensor->data, error));
    } else if (proto->has_raw_data) {
        XCVM_CHECK(error, proto->raw_data.len == tensor->bytes, INVALID_MODEL, "raw_data has %zu bytes, %zu are needed",
                   proto->raw_data.len, tensor->bytes);
        tensor->data = tensor->bytes > 0 ? (const void *)proto->raw_data.data : "";
    } else {
        XCVM_TRY(read_entries(proto, arena, tensor, error));
    }
    return tensor->dtype == XCVM_BOOL ? normalize_bools(arena, tensor, error) : XCVM_OK;
}

/* Position in the dense tensor of entry i of the indices, which are linear or one row of coordinates each. */
static xcvm_status sparse_position(const xcc_tensor *t, const xcc_tensor *indices, size_t i, size_t *position,
                                   xcvm_error *error)
{
    const char *data = indices->data;
    int64_t index = 0;
    if (indices->rank == 1) {
        memcpy(&index, data + i * sizeof index, sizeof index);
    } else {
        for (int d = 0; d < t->rank; d++) {
            int64_t coordinate;
            memcpy(&coordinate, data + (i * (size_t)t->rank + (size_t)d) * sizeof coordinate, sizeof coordinate);
            XCVM_CHECK(error, coordinate >= 0 && coordinate < t->dims[d], INVALID_MODEL,
                       "index %lld of dimension %d is out of range", (long long)coordinate, d);
            index = index * t->dims[d] + coordinate;
        }
    }
    XCVM_CHECK(error, index >= 0 && (uint64_t)index < t->count, INVALID_MODEL, "index %lld is out of range",
               (long long)index);
    *position = (size_t)index;
    return XCVM_OK;
}

xcvm_status xcc_sparse_tensor_read(const Onnx__SparseTensorProto *proto, xcvm_arena *arena, xcc_external_files *files,
                                   size_t most, xcc_tensor *tensor, xcvm_error *error)
{
    xcc_tensor values, indices;
    XCVM_CHECK(error, proto->values != NULL && proto->indices != NULL, INVALID_MODEL,
               "a sparse tensor needs values and indices");
    XCVM_TRY(xcc_tensor_read(proto->values, arena, files, &values, error));
    XCVM_TRY(xcc_tensor_read(proto->indices, arena, files, &indices, error));
    *tensor = (xcc_tensor){.dtype = values.dtype};
    XCVM_TRY(read_shape(proto->dims, proto->n_dims, tensor, error));
    size_t size = xcvm_dtype_size(tensor->dtype);
    XCVM_CHECK(error, size > 0 && tensor->dtype != XCVM_STRING, UNSUPPORTED, "a sparse tensor of %s is not supported",
               xcvm_dtype_name(tensor->dtype));
    XCVM_CHECK(error, tensor->bytes <= most, UNSUPPORTED,
               "a sparse tensor of %zu bytes is more than a model of this size may hold dense", tensor->bytes);
    XCVM_CHECK(error,
               indices.dtype == XCVM_I64 && values.rank == 1 &&
                   (indices.rank == 1 || (indices.rank == 2 && indices.dims[1] == tensor->rank)) &&
                   indices.dims[0] == values.dims[0],
               INVALID_MODEL, "the indices of a sparse tensor do not fit its values");
    char *dense = xcvm_arena_allocate(arena, tensor->bytes);
    XCVM_CHECK(error, dense != NULL, OUT_OF_MEMORY, "no memory for %zu bytes", tensor->bytes);
    for (size_t i = 0; i < values.count; i++) {
        size_t position;
        XCVM_TRY(sparse_position(tensor, &indices, i, &position, error));
        memcpy(dense + position * size, (const char *)values.data + i * size, size);
    }
    tensor->data = dense;
    return XCVM_OK;
}
