/* The reader of protobuf's wire format: varints, tags and lengths, with bounds checks. */
#include "proto/wire_reader.h"

size_t xcvm_varint_put(uint8_t *to, uint64_t value)
{
    size_t length = 0;
    for (; value >= 0x80; value >>= 7)
        to[length++] = (uint8_t)(value | 0x80);
    to[length++] = (uint8_t)value;
    return length;
}

bool xcvm_wire_varint(xcvm_wire *wire, uint64_t *value)
{
    uint64_t sum = 0;
    for (unsigned shift = 0; shift < 70 && wire->at < wire->end; shift += 7) {
        const uint8_t byte = *wire->at++;
        if (shift == 63 && byte > 1)
            return false;
        sum |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = sum;
            return true;
        }
    }
    return false;
}

bool xcvm_wire_fixed(xcvm_wire *wire, size_t bytes, uint64_t *value)
{
    if ((size_t)(wire->end - wire->at) < bytes)
        return false;
    *value = 0;
    for (size_t i = 0; i < bytes; i++)
        *value |= (uint64_t)wire->at[i] << 8 * i;
    wire->at += bytes;
    return true;
}

static bool read_bytes(xcvm_wire *wire, xcvm_wire_field *field)
{
    if (!xcvm_wire_varint(wire, &field->value) || field->value > (uint64_t)(wire->end - wire->at))
        return false;
    field->inside = (xcvm_wire){wire->at, wire->at + field->value};
    wire->at += field->value;
    return true;
}

xcvm_wire_state xcvm_wire_next(xcvm_wire *wire, xcvm_wire_field *field)
{
    enum { GREATEST_NUMBER = (1 << 29) - 1 };
    *field = (xcvm_wire_field){.number = 0};
    if (wire->at >= wire->end)
        return XCVM_WIRE_END;
    uint64_t key;
    if (!xcvm_wire_varint(wire, &key))
        return XCVM_WIRE_CUT_OFF;
    field->number = (uint32_t)(key >> 3);
    field->type = (uint32_t)(key & 7);
    if (key >> 3 == 0 || key >> 3 > GREATEST_NUMBER)
        return XCVM_WIRE_BAD_NUMBER;
    bool whole = false;
    switch (field->type) {
    case XCVM_WIRE_VARINT:
        whole = xcvm_wire_varint(wire, &field->value);
        break;
    case XCVM_WIRE_64BIT:
        whole = xcvm_wire_fixed(wire, 8, &field->value);
        break;
    case XCVM_WIRE_32BIT:
        whole = xcvm_wire_fixed(wire, 4, &field->value);
        break;
    case XCVM_WIRE_BYTES:
        whole = read_bytes(wire, field);
        break;
    default:
        return XCVM_WIRE_BAD_TYPE;
    }
    return whole ? XCVM_WIRE_READ : XCVM_WIRE_CUT_OFF;
}
