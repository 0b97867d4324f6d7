/* A model's wire format: errors in the words of the import. */
#include "compiler/onnx_model/wire.h"

xcvm_status xcc_wire_next(xcvm_wire *wire, xcvm_wire_field *field, bool *more, xcvm_error *error)
{
    const xcvm_wire_state state = xcvm_wire_next(wire, field);
    *more = state == XCVM_WIRE_READ;
    XCVM_CHECK(error, state != XCVM_WIRE_CUT_OFF, INVALID_MODEL, "the file breaks off in the middle of a field");
    XCVM_CHECK(error, state != XCVM_WIRE_BAD_NUMBER, INVALID_MODEL,
               "the file is no protobuf message: it has a field of number %u", field->number);
    XCVM_CHECK(error, state != XCVM_WIRE_BAD_TYPE, INVALID_MODEL,
               "the file is no protobuf message: field %u has wire type %u", field->number, field->type);
    return XCVM_OK;
}
