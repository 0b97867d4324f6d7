/* The wire format of a model: reading its fields, with errors in the words of the import. */
#ifndef XCVM_COMPILER_ONNX_WIRE_H
#define XCVM_COMPILER_ONNX_WIRE_H

#include "proto/wire_reader.h"

/* Reads the next field. At the end *more becomes false. INVALID_MODEL if the bytes are no field or break off. */
xcvm_status xcc_wire_next(xcvm_wire *wire, xcvm_wire_field *field, bool *more, xcvm_error *error);

#endif
