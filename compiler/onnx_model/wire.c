/* A model's wire format: errors in the words of the import. */
#include "compiler/onnx_model/wire.h"

#include <string.h>

xcvm_status xcc_wire_next(xcvm_wire *wire, xcvm_wire_field *field, bool *more, xcvm_error *error)
{
    const xcvm_wire_state state = xcvm_wire_next(wire, field);
    *more = state == XCVM_WIRE_READ;
    XCVM_CHECK(
        error, state != XCVM_WIRE_CUT_OFF, INVALID_MODEL,
        "the file breaks off in the middle of a field, so a part of it is missing. Copy, download or export it again");
    XCVM_CHECK(error, state != XCVM_WIRE_BAD_NUMBER, INVALID_MODEL,
               "the file is no protobuf message: it has a field of number %u", field->number);
    XCVM_CHECK(error, state != XCVM_WIRE_BAD_TYPE, INVALID_MODEL,
               "the file is no protobuf message: field %u has wire type %u", field->number, field->type);
    return XCVM_OK;
}

xcvm_status xcc_wire_find(xcvm_wire message, uint32_t number, xcvm_wire *found, xcvm_error *error)
{
    for (*found = (xcvm_wire){NULL, NULL};;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&message, &field, &more, error));
        if (!more)
            return XCVM_OK;
        if (field.number == number && field.type == XCVM_WIRE_BYTES)
            *found = field.inside;
    }
}

bool xcc_wire_is(const xcvm_wire *wire, const char *text)
{
    const size_t length = (size_t)(wire->end - wire->at);
    return wire->at != NULL && length == strlen(text) && memcmp(wire->at, text, length) == 0;
}

xcvm_status xcc_wire_int_attribute(xcvm_wire attribute, const char *name, bool *named, int64_t *number,
                                   xcvm_error *error)
{
    enum { NAME = 1, INTEGER = 3 };
    int64_t own = 0;
    *named = false;
    for (;;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&attribute, &field, &more, error));
        if (!more)
            break;
        if (field.number == NAME && field.type == XCVM_WIRE_BYTES)
            *named = xcc_wire_is(&field.inside, name);
        else if (field.number == INTEGER && field.type == XCVM_WIRE_VARINT)
            own = (int64_t)field.value;
    }
    if (*named)
        *number = own;
    return XCVM_OK;
}
