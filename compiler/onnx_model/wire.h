/* The wire format of a model: reading its fields, with errors in the words of the import. */
#ifndef XCVM_COMPILER_ONNX_MODEL_WIRE_H
#define XCVM_COMPILER_ONNX_MODEL_WIRE_H

#include "proto/wire_reader.h"

/* Reads the next field. At the end *more becomes false. INVALID_MODEL if the bytes are no field or break off. */
xcvm_status xcc_wire_next(xcvm_wire *wire, xcvm_wire_field *field, bool *more, xcvm_error *error);

/* Numbers of a TensorProto's fields. */
enum {
    XCC_TENSOR_DIMS = 1,
    XCC_TENSOR_DATA_TYPE = 2,
    XCC_TENSOR_STRING_DATA = 6,
    XCC_TENSOR_NAME = 8,
    XCC_TENSOR_RAW_DATA = 9
};

#endif
