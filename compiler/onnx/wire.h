/* Reading the fields of a model, what is wrong with them put in words. */
#ifndef XCVM_COMPILER_ONNX_WIRE_H
#define XCVM_COMPILER_ONNX_WIRE_H

#include "proto/wire_reader.h"

/* Reads the next field. At the end *more becomes false. INVALID_MODEL if the bytes are no field or break off. */
xcvm_status xcc_wire_next(xcvm_wire *wire, xcvm_wire_field *field, bool *more, xcvm_error *error);

#endif
