/* Checks a program's wire format (nesting, sizes, strings and numbers) before protobuf-c unpacks it. */
#include "proto/wire.h"
#include "proto/image.h"

#include "xcvm.pb-c.h"

#include <string.h>

/* Program, instruction, value, operands, value. A list of operands contains no lists. */
enum { DEEPEST = 4 };

static uint32_t wire_type_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
        return XCVM_WIRE_64BIT;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return XCVM_WIRE_BYTES;
    default: /* the schema has no other fixed types */
        return XCVM_WIRE_VARINT;
    }
}

static bool fits(ProtobufCType type, uint64_t value)
{
    return type == PROTOBUF_C_TYPE_UINT32 || type == PROTOBUF_C_TYPE_ENUM ? value <= INT32_MAX
           : type == PROTOBUF_C_TYPE_BOOL                                 ? value <= 1
                                                                          : true;
}

static xcvm_status check_packed(const ProtobufCFieldDescriptor *field, const xcvm_wire_field *e, xcvm_error *error)
{
    xcvm_wire c = e->inside;
    while (c.at < c.end) {
        uint64_t value = 0;
        bool read = wire_type_of(field->type) == XCVM_WIRE_64BIT ? xcvm_wire_fixed(&c, 8, &value)
                                                                 : xcvm_wire_varint(&c, &value);
        XCVM_CHECK(error, read && fits(field->type, value), INVALID_PROGRAM, "%s has a number that is broken",
                   field->name);
    }
    return XCVM_OK;
}

static xcvm_status check_message(const ProtobufCMessageDescriptor *schema, xcvm_wire c, int depth, xcvm_error *error);

static xcvm_status check_field(const ProtobufCFieldDescriptor *field, const xcvm_wire_field *e, int depth,
                               xcvm_error *error)
{
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    uint32_t expected = wire_type_of(field->type);
    if (repeated && expected != XCVM_WIRE_BYTES && e->type == XCVM_WIRE_BYTES)
        return check_packed(field, e, error);
    XCVM_CHECK(error, e->type == expected, INVALID_PROGRAM, "%s has wire type %u, expected %u", field->name, e->type,
               expected);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        XCVM_CHECK(error, depth < DEEPEST, INVALID_PROGRAM, "%s is nested too deeply", field->name);
        return check_message(field->descriptor, e->inside, depth + 1, error);
    }
    if (field->type == PROTOBUF_C_TYPE_STRING)
        XCVM_CHECK(error, memchr(e->inside.at, '\0', (size_t)e->value) == NULL, INVALID_PROGRAM, "%s has a NUL in it",
                   field->name);
    XCVM_CHECK(error, fits(field->type, e->value), INVALID_PROGRAM, "%s is out of range", field->name);
    return XCVM_OK;
}

static xcvm_status check_message(const ProtobufCMessageDescriptor *schema, xcvm_wire c, int depth, xcvm_error *error)
{
    uint32_t seen = 0;    /* bit mask of field numbers */
    uint32_t indices[32]; /* number of entries of repeated fields, to name the broken entry */
    memset(indices, 0, sizeof indices);
    while (c.at < c.end) {
        xcvm_wire_field e;
        XCVM_CHECK(error, xcvm_wire_next(&c, &e) == XCVM_WIRE_READ, INVALID_PROGRAM, "%s is cut off or broken",
                   schema->short_name);
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(schema, e.number);
        XCVM_CHECK(error, field != NULL && e.number < 32, INVALID_PROGRAM, "%s has no field number %u",
                   schema->short_name, e.number);
        bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
        bool exclusive = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0; /* all fields */
        uint32_t taken = exclusive ? seen : seen & UINT32_C(1) << e.number;
        XCVM_CHECK(error, repeated || taken == 0, INVALID_PROGRAM, "%s has %s twice", schema->short_name,
                   exclusive ? "a value" : field->name);
        seen |= UINT32_C(1) << e.number;
        xcvm_status status = check_field(field, &e, depth, error);
        if (status != XCVM_OK) {
            if (repeated && e.type == XCVM_WIRE_BYTES)
                xcvm_error_prefix(error, "%s %u", field->name, indices[e.number]);
            return status;
        }
        indices[e.number]++;
    }
    return XCVM_OK;
}

xcvm_status xcvm_wire_check(const void *bytes, size_t count, xcvm_wire_layout *layout, xcvm_error *error)
{
    const uint8_t *start = bytes;
    xcvm_wire c = xcvm_wire_of(bytes, count);
    *layout = (xcvm_wire_layout){.message_bytes = count, .data_offset = count};
    XCVM_CHECK(error, count > 0, INVALID_PROGRAM, "the program is empty");
    bool padding = false, data = false;
    uint64_t file_bytes = 0;
    while (c.at < c.end) {
        size_t offset = (size_t)(c.at - start);
        xcvm_wire_field e;
        XCVM_CHECK(error, xcvm_wire_next(&c, &e) == XCVM_WIRE_READ, INVALID_PROGRAM,
                   "the program is cut off or broken: no field can be read at byte %zu of %zu", offset, count);
        XCVM_CHECK(error, !data, INVALID_PROGRAM, "something follows the data, which must be the last field");
        if (e.number == XCVM_WIRE_FORMAT && e.type == XCVM_WIRE_VARINT) {
            layout->format = e.value;
            /* This check comes first, because later formats may differ in any other way. */
            XCVM_CHECK(error, e.value <= XCVM_FORMAT, UNSUPPORTED,
                       "program format %llu is newer than this library's %d (if this is an XCVM program at all)",
                       (unsigned long long)e.value, XCVM_FORMAT);
        }
        if (e.number == XCVM_WIRE_FILE_BYTES && e.type == XCVM_WIRE_64BIT) {
            file_bytes = e.value;
            XCVM_CHECK(error, e.value == count, INVALID_PROGRAM,
                       "the program has %zu bytes, but was written with %llu%s", count, (unsigned long long)e.value,
                       count < e.value ? ": it is cut off" : "");
        }
        if (e.number != XCVM_WIRE_PADDING && e.number != XCVM_WIRE_DATA) {
            XCVM_CHECK(error, !padding, INVALID_PROGRAM, "the padding before the data is wrong");
            const bool state = e.number == XCVM_WIRE_STATES;
            const bool counted = e.type == XCVM_WIRE_BYTES &&
                                 (state || (e.number >= XCVM_WIRE_INPUTS && e.number <= XCVM_WIRE_METADATA));
            XCVM_CHECK(error, !counted || e.value != 0 || (e.number > XCVM_WIRE_CONSTANTS && !state), INVALID_PROGRAM,
                       "an input, output, instruction, constant or state at byte %zu is empty", offset);
            layout->counts[counted ? e.number : 0]++;
            continue;
        }
        XCVM_CHECK(error, e.type == XCVM_WIRE_BYTES, INVALID_PROGRAM, "%s has wire type %u",
                   e.number == XCVM_WIRE_DATA ? "data" : "padding", e.type);
        XCVM_CHECK(error, !(padding && e.number == XCVM_WIRE_PADDING), INVALID_PROGRAM, "there are two paddings");
        if (!padding)
            layout->message_bytes = offset;
        padding = true;
        if (e.number == XCVM_WIRE_DATA) {
            data = true;
            layout->data_offset = (size_t)(e.inside.at - start);
            layout->data_bytes = (size_t)e.value;
        }
    }
    XCVM_CHECK(error, layout->format != 0, INVALID_PROGRAM, "there is no program format: this is not an XCVM program");
    XCVM_CHECK(error, file_bytes != 0, INVALID_PROGRAM,
               "the number of the program's bytes is missing: it is cut off, or this is not an XCVM program");
    XCVM_CHECK(error, layout->data_bytes == 0 || layout->data_offset % XCVM_ALIGNMENT == 0, INVALID_PROGRAM,
               "the data begins at byte %zu, which is not a multiple of %d", layout->data_offset, XCVM_ALIGNMENT);
    XCVM_CHECK(error, layout->message_bytes <= INT32_MAX, INVALID_PROGRAM,
               "%zu bytes before the data are more than a message may have", layout->message_bytes);
    return check_message(&xcvm__xcprogram__descriptor, xcvm_wire_of(bytes, layout->message_bytes), 0, error);
}
