#include "compiler/onnx/wire.h"

bool xcc_wire_varint(xcc_wire *wire, uint64_t *value)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 70 && wire->at < wire->end; shift += 7) {
        uint8_t byte = *wire->at++;
        if (shift < 64)
            v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = v;
            return true;
        }
    }
    return false;
}

static bool fixed(xcc_wire *wire, unsigned bytes, uint64_t *value)
{
    if ((size_t)(wire->end - wire->at) < bytes)
        return false;
    *value = 0;
    for (unsigned i = 0; i < bytes; i++)
        *value |= (uint64_t)wire->at[i] << 8 * i;
    wire->at += bytes;
    return true;
}

xcvm_status xcc_wire_next(xcc_wire *wire, xcc_wire_field *field, bool *more, xcvm_error *error)
{
    *more = wire->at < wire->end;
    if (!*more)
        return XCVM_OK;
    uint64_t key;
    XCVM_CHECK(error, xcc_wire_varint(wire, &key), INVALID_MODEL, "the file breaks off in the middle of a field");
    XCVM_CHECK(error, key >> 3 != 0 && key >> 3 < UINT64_C(1) << 29, INVALID_MODEL,
               "the file is no protobuf message: it has a field of number %llu", (unsigned long long)(key >> 3));
    *field = (xcc_wire_field){.number = (uint32_t)(key >> 3), .type = (uint32_t)(key & 7)};
    bool whole = false;
    switch (field->type) {
    case XCC_WIRE_VARINT:
        whole = xcc_wire_varint(wire, &field->value);
        break;
    case XCC_WIRE_FIXED64:
        whole = fixed(wire, 8, &field->value);
        break;
    case XCC_WIRE_FIXED32:
        whole = fixed(wire, 4, &field->value);
        break;
    case XCC_WIRE_BYTES:
        whole = xcc_wire_varint(wire, &field->value) && field->value <= (uint64_t)(wire->end - wire->at);
        if (whole) {
            field->inside = (xcc_wire){wire->at, wire->at + field->value};
            wire->at += field->value;
        }
        break;
    default:
        return xcvm_error_set(error, XCVM_INVALID_MODEL, "the file is no protobuf message: field %u has wire type %u",
                              field->number, field->type);
    }
    XCVM_CHECK(error, whole, INVALID_MODEL, "the file breaks off in the middle of a field");
    return XCVM_OK;
}
