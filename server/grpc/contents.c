/* Typed contents of inputs and outputs. */
#include "server/grpc/contents.h"

#include "server/grpc/protobuf.h"
#include "server/oip/datatype.h"

#include <string.h>

/* The fields of InferTensorContents. */
enum { BOOLS = 1, INTS = 2, INT64S = 3, UINTS = 4, UINT64S = 5, FLOATS = 6, DOUBLES = 7, BYTES = 8, FIELDS = 9 };

static const char *const field_names[FIELDS] = {"",
                                                "bool_contents",
                                                "int_contents",
                                                "int64_contents",
                                                "uint_contents",
                                                "uint64_contents",
                                                "fp32_contents",
                                                "fp64_contents",
                                                "bytes_contents"};

/* Returns 0 if there is none. */
static unsigned field_of(xcvm_dtype dtype)
{
    switch (dtype) {
    case XCVM_BOOL:
        return BOOLS;
    case XCVM_I8:
    case XCVM_I16:
    case XCVM_I32:
        return INTS;
    case XCVM_I64:
        return INT64S;
    case XCVM_U8:
    case XCVM_U16:
    case XCVM_U32:
        return UINTS;
    case XCVM_U64:
        return UINT64S;
    case XCVM_F32:
        return FLOATS;
    case XCVM_F64:
        return DOUBLES;
    case XCVM_STRING:
        return BYTES;
    default:
        return 0;
    }
}

static uint32_t wire_type_of(unsigned field)
{
    return field == FLOATS    ? XCVM_WIRE_32BIT
           : field == DOUBLES ? XCVM_WIRE_64BIT
           : field == BYTES   ? XCVM_WIRE_BYTES
                              : XCVM_WIRE_VARINT;
}

bool xcs_contents_support(xcvm_dtype dtype) { return field_of(dtype) != 0; }

typedef struct contents_reader {
    xcvm_dtype dtype;
    unsigned field;
    size_t count, capacity; /* elements */
    uint8_t *data;          /* of the tensor */
    const char **strings;   /* in place of data */
    size_t *lengths;
    xcvm_error *error;
} contents_reader;

static xcvm_status add_integer(contents_reader *r, uint64_t value)
{
    /* A range that 64 bits have needs no check. */
    const int bits = xcvm_dtype_bits(r->dtype);
    const int64_t number = (int32_t)(uint32_t)value;
    const uint64_t natural = r->field == UINTS ? (uint32_t)value : value;
    if (r->field == INTS && bits < 32)
        XCVM_CHECK(r->error, number >= -(INT64_C(1) << (bits - 1)) && number < INT64_C(1) << (bits - 1),
                   INVALID_ARGUMENT, "element %zu is %lld; %s has %d bits", r->count, (long long)number,
                   xcs_datatype_name(r->dtype), bits);
    if (r->field == UINTS && bits < 32)
        XCVM_CHECK(r->error, natural < UINT64_C(1) << bits, INVALID_ARGUMENT, "element %zu is %llu; %s has %d bits",
                   r->count, (unsigned long long)natural, xcs_datatype_name(r->dtype), bits);
    const uint64_t stored = r->field == BOOLS ? value != 0 : value;
    memcpy(r->data + r->count * (size_t)bits / 8, &stored, (size_t)bits / 8);
    return XCVM_OK;
}

static xcvm_status add_element(contents_reader *r, const xcvm_wire_field *element)
{
    XCVM_CHECK(r->error, r->count < r->capacity, SHAPE_MISMATCH, "more than %zu elements, which the shape has",
               r->capacity);
    if (r->field == BYTES) {
        r->strings[r->count] = (const char *)element->inside.at;
        r->lengths[r->count] = element->value;
    } else if (r->field == FLOATS) {
        memcpy(r->data + r->count * sizeof(float), &element->value, sizeof(float));
    } else if (r->field == DOUBLES) {
        memcpy(r->data + r->count * sizeof(double), &element->value, sizeof(double));
    } else {
        XCVM_TRY(add_integer(r, element->value));
    }
    r->count++;
    return XCVM_OK;
}

static xcvm_status add_packed(contents_reader *r, xcvm_wire packed)
{
    const size_t size = r->field == FLOATS ? sizeof(float) : sizeof(double);
    if (r->field == FLOATS || r->field == DOUBLES) {
        const size_t bytes = (size_t)(packed.end - packed.at);
        XCVM_CHECK(r->error, bytes % size == 0, INVALID_PROGRAM, "the message is cut off in %s", field_names[r->field]);
        XCVM_CHECK(r->error, bytes / size <= r->capacity - r->count, SHAPE_MISMATCH,
                   "more than %zu elements, which the shape has", r->capacity);
        memcpy(r->data + r->count * size, packed.at, bytes);
        r->count += bytes / size;
        return XCVM_OK;
    }
    while (packed.at < packed.end) {
        xcvm_wire_field element = {.number = 0};
        XCVM_CHECK(r->error, xcvm_wire_varint(&packed, &element.value), INVALID_PROGRAM, "the message is cut off in %s",
                   field_names[r->field]);
        XCVM_TRY(add_element(r, &element));
    }
    return XCVM_OK;
}

static xcvm_status read_fields(contents_reader *r, xcvm_wire contents)
{
    xcvm_wire_field field;
    xcvm_wire_state state;
    while ((state = xcvm_wire_next(&contents, &field)) == XCVM_WIRE_READ) {
        if (field.number == 0 || field.number >= FIELDS)
            continue;
        XCVM_CHECK(r->error, field.number == r->field || (field.type == XCVM_WIRE_BYTES && field.value == 0),
                   INVALID_ARGUMENT, "its elements are in \"%s\"; those of %s belong into \"%s\"",
                   field_names[field.number], xcs_datatype_name(r->dtype), field_names[r->field]);
        if (field.number != r->field)
            continue;
        if (field.type == wire_type_of(r->field))
            XCVM_TRY(add_element(r, &field));
        else if (field.type == XCVM_WIRE_BYTES)
            XCVM_TRY(add_packed(r, field.inside));
    }
    XCVM_CHECK(r->error, state == XCVM_WIRE_END, INVALID_PROGRAM, "the contents are no valid message");
    XCVM_CHECK(r->error, r->count == r->capacity, SHAPE_MISMATCH, "%zu elements; the shape has %zu", r->count,
               r->capacity);
    return XCVM_OK;
}

static xcvm_status read_strings(contents_reader *r, xcvm_wire contents, const xcvm_allocator *allocator, int rank,
                                const int64_t *dims, xcvm_value **tensor)
{
    const size_t block_bytes = r->capacity * (sizeof *r->strings + sizeof *r->lengths) + 1;
    char *block = xcvm_allocate(allocator, block_bytes);
    XCVM_CHECK(r->error, block != NULL, OUT_OF_MEMORY, "no memory for %zu strings", r->capacity);
    r->strings = (const char **)(void *)block;
    r->lengths = (size_t *)(void *)(block + r->capacity * sizeof *r->strings);
    xcvm_status status = read_fields(r, contents);
    if (status == XCVM_OK)
        status = xcvm_string_tensor_create(allocator, rank, dims, r->strings, r->lengths, tensor, r->error);
    xcvm_deallocate(allocator, block, block_bytes);
    return status;
}

xcvm_status xcs_contents_read(xcvm_wire contents, const xcvm_allocator *allocator, xcvm_dtype dtype, int rank,
                              const int64_t *dims, xcvm_value **tensor, xcvm_error *error)
{
    contents_reader r = {.dtype = dtype, .field = field_of(dtype), .capacity = 1, .error = error};
    XCVM_CHECK(error, r.field != 0, INVALID_ARGUMENT, "%s has no typed contents. Send \"raw_input_contents\"",
               xcs_datatype_name(dtype));
    /* Each element takes at least a byte, so a small message cannot make a large tensor. */
    for (int i = 0; i < rank; i++)
        XCVM_CHECK(error, xcvm_size_mul(r.capacity, (size_t)dims[i], &r.capacity), SHAPE_MISMATCH,
                   "the shape is too large");
    XCVM_CHECK(error, r.capacity <= (size_t)(contents.end - contents.at), SHAPE_MISMATCH,
               "fewer elements than the shape has (%zu)", r.capacity);
    if (dtype == XCVM_STRING)
        return read_strings(&r, contents, allocator, rank, dims, tensor);
    XCVM_TRY(xcvm_tensor_create(allocator, dtype, rank, dims, tensor, error));
    r.data = xcvm_value_data(*tensor);
    xcvm_status status = read_fields(&r, contents);
    if (status != XCVM_OK) {
        xcvm_value_release(*tensor);
        *tensor = NULL;
    }
    return status;
}

static uint64_t integer_at(const xcvm_value *tensor, size_t index, bool is_signed)
{
    const size_t bytes = (size_t)xcvm_dtype_bits(xcvm_value_dtype(tensor)) / 8;
    uint64_t value = 0;
    memcpy(&value, (const char *)xcvm_value_data(tensor) + index * bytes, bytes);
    if (is_signed && bytes < 8 && value >> (bytes * 8 - 1) != 0)
        value |= UINT64_MAX << bytes * 8;
    return value;
}

void xcs_contents_write(xcs_text *text, const xcvm_value *tensor)
{
    const unsigned field = field_of(xcvm_value_dtype(tensor));
    const size_t count = xcvm_value_count(tensor);
    if (field == BYTES) {
        for (size_t i = 0; i < count; i++) {
            size_t length;
            const char *string = xcvm_value_string_at(tensor, i, &length);
            xcs_put_bytes(text, field, string, length);
        }
    } else if (field == FLOATS || field == DOUBLES) {
        xcs_put_bytes(text, field, xcvm_value_data(tensor), xcvm_value_bytes(tensor));
    } else {
        const size_t begin = xcs_field_begin(text, field);
        for (size_t i = 0; i < count; i++)
            xcs_put_varint(text, integer_at(tensor, i, field == INTS || field == INT64S));
        xcs_field_end(text, begin);
    }
}
